package hcl

import (
	"strings"

	"hclbench/hcl/lang"
	"hclbench/load"
)

// dataset is what a dataset block becomes.
type dataset = load.Dataset

// datasetKinds are the data sets and the arguments of each, in order.
func datasetKinds() []struct{ kind, required, optional string } {
	return []struct{ kind, required, optional string }{
		{load.Random, "input_tokens", "range_ratio convention"},
		{load.SharedPrefix, "groups prompts_per_group prefix_tokens question_tokens", "range_ratio"},
		{load.ShareGPT, "path", "sha256 tokenizer filter input_tokens output_tokens salt"},
		{load.Text, "path input_tokens", "tokenizer salt"},
		{load.JSONL, "path", "sha256 tokenizer image_dir salt"},
		{load.Conversation, "path", "sha256 tokenizer salt think_time max_delay history arrivals slowdown"},
		{load.RandomConversation, "turns question_tokens", "prefix_tokens range_ratio think_time max_delay"},
		{load.RandomRerank, "documents query_tokens document_tokens", "range_ratio"},
		{load.Trace, "path", "sha256 slowdown of_model"},
		{load.Weka, "path", "sha256 max_delay"},
		{load.RandomAgents, "turns question_tokens",
			"tool_calls sub_agents prefix_tokens result_tokens range_ratio think_time tool_delay max_delay"},
		{load.RandomImages, "input_tokens images image_sizes", "range_ratio convention images_range_ratio max_images"},
	}
}

// datasetBlock stands for the data sets of all kinds, each with arguments of its own.
func datasetBlock() *lang.BlockType {
	const tokens, groups = 1 << 24, 1 << 20
	t := &lang.BlockType{
		Name: "dataset", Root: "dataset",
		Labels: []lang.Label{{What: "kind"}, {What: "name", Form: lang.Identifier}},
		Args: []lang.Argument{
			lang.Arg("input_tokens", lang.Whole(1, tokens), func(d *dataset, n int) { d.InputTokens = n }),
			lang.Arg("range_ratio", lang.Number(0, 1), func(d *dataset, r float64) { d.RangeRatio = &r }),
			lang.Arg("convention", convention, func(d *dataset, s string) { d.Convention = s }),
			lang.Arg("groups", lang.Whole(1, groups), func(d *dataset, n int) { d.Groups = n }),
			lang.Arg("prompts_per_group", lang.Whole(1, groups), func(d *dataset, n int) { d.PromptsPerGroup = n }),
			lang.Arg("prefix_tokens", lang.Whole(1, tokens), func(d *dataset, n int) { d.PrefixTokens = n }),
			lang.Arg("question_tokens", lang.Whole(1, tokens), func(d *dataset, n int) { d.QuestionTokens = n }),
			lang.Arg("path", lang.Text, func(d *dataset, s string) { d.Path = s }),
			lang.Arg("sha256", hexDigest, func(d *dataset, s string) { d.SHA256 = strings.ToLower(s) }),
			lang.Arg("tokenizer", lang.Text, func(d *dataset, s string) { d.Tokenizer = s }),
			lang.Arg("image_dir", lang.Text, func(d *dataset, s string) { d.ImageDir = s }),
			lang.Arg("filter", convention, func(d *dataset, s string) { d.Filter = s }),
			lang.Arg("output_tokens", lang.Whole(1, tokens), func(d *dataset, n int) { d.OutputTokens = n }),
			lang.Arg("slowdown", lang.Number(0.001, 1e6), func(d *dataset, x float64) { d.Slowdown = x }),
			lang.Arg("turns", lang.Whole(1, 10_000), func(d *dataset, n int) { d.Turns = n }),
			lang.Arg("tool_calls", lang.Whole(0, 1000), func(d *dataset, n int) { d.ToolCalls = n }),
			lang.Arg("sub_agents", lang.Whole(0, 1000), func(d *dataset, n int) { d.SubAgents = n }),
			lang.Arg("result_tokens", lang.Whole(1, tokens), func(d *dataset, n int) { d.ResultTokens = n }),
			lang.Arg("documents", lang.Whole(1, 4096), func(d *dataset, n int) { d.Documents = n }),
			lang.Arg("query_tokens", lang.Whole(1, tokens), func(d *dataset, n int) { d.QueryTokens = n }),
			lang.Arg("document_tokens", lang.Whole(1, tokens), func(d *dataset, n int) { d.DocumentTokens = n }),
			lang.Arg("history", lang.OneOf(load.Answered, load.Recorded), func(d *dataset, s string) { d.History = s }),
			lang.Arg("think_time", span, func(d *dataset, t load.Duration) { d.ThinkTime = t }),
			lang.Arg("tool_delay", span, func(d *dataset, t load.Duration) { d.ToolDelay = t }),
			lang.Arg("max_delay", span, func(d *dataset, t load.Duration) { d.MaxDelay = t }),
			lang.Arg("arrivals", lang.OneOf(load.Recorded), func(d *dataset, s string) { d.Arrivals = s }),
			lang.Arg("salt", lang.Bool, func(d *dataset, yes bool) { d.Salt = yes }),
			lang.Arg("images", lang.Whole(1, 255), func(d *dataset, n int) { d.Images = n }),
			lang.Arg("image_sizes", imageSizes, func(d *dataset, list []load.ImageSize) { d.ImageSizes = list }),
			lang.Arg("images_range_ratio", lang.Number(0, 1), func(d *dataset, r float64) { d.ImagesRatio = &r }),
			lang.Arg("max_images", lang.Whole(1, 255), func(d *dataset, n int) { d.MaxImages = n }),
			lang.Arg("of_model", lang.Text, func(d *dataset, s string) { d.OfModel = s }),
			lang.Arg("seed", lang.Whole[uint64](0, 1<<53), func(d *dataset, n uint64) { d.Seed = n }),
			lang.Comment(),
		},
		Make:  lang.Makes(newDataset),
		Check: lang.Checks(checkDataset),
	}
	for _, k := range datasetKinds() {
		t.Labels[0].Kinds = append(t.Labels[0].Kinds, k.kind)
		v := *t
		v.Kind, v.Args = k.kind, nil
		for _, name := range strings.Fields(k.required) {
			a, _ := t.Argument(name)
			v.Args = append(v.Args, a.Required(datasetHints()[name]))
		}
		for _, name := range strings.Fields(k.optional + " seed description") {
			a, _ := t.Argument(name)
			v.Args = append(v.Args, a)
		}
		t.Variants = append(t.Variants, &v)
	}
	return t
}

// datasetHints say what an argument is that a data set needs.
func datasetHints() map[string]string {
	return map[string]string{
		"input_tokens":      "Length of a prompt, in tokens.",
		"images":            "How many images a request has.",
		"image_sizes":       "How large they are, in pixels, and what share of them each size has.",
		"path":              "The file, relative to the lab's directory.",
		"documents":         "How many documents a request has.",
		"query_tokens":      "Length of a query, in tokens.",
		"document_tokens":   "Length of a document, in tokens.",
		"turns":             "How many turns a conversation has.",
		"groups":            "How many beginnings there are.",
		"prompts_per_group": "How many prompts begin with each.",
		"prefix_tokens":     "Length of a beginning, in tokens.",
		"question_tokens":   "Length of what follows it, different in every prompt.",
	}
}

func newDataset(d *lang.Declared) *dataset {
	switch d.Kind {
	case load.Random, load.RandomImages:
		return &dataset{Kind: d.Kind, Convention: load.ConventionSGLang}
	case load.ShareGPT:
		return &dataset{Kind: d.Kind, Filter: load.ConventionSGLang}
	}
	return &dataset{Kind: d.Kind}
}

// checkDataset is about arguments that only some kinds have.
func checkDataset(b *lang.Block, d *dataset) {
	if x := b.Find("convention"); x.IsValid() && d.RangeRatio == nil {
		b.Warn(x.At, "No effect",
			"convention says what range_ratio means, and there is none: prompts have exactly input_tokens tokens.")
	}
	for _, name := range []string{"result_tokens", "tool_delay"} {
		if x := b.Find(name); x.IsValid() && !b.Find("tool_calls").IsSet() {
			b.Warn(x.At, "No effect", "%s is about tools, and none are called: tool_calls says how many.", name)
		}
	}
	if b.Type.Knows("path") {
		b.FailIfEmpty("path", "Write the name of a file, relative to the lab's directory.")
		d.Path, d.ImageDir = b.Vars.AtHome(d.Path), b.Vars.AtHome(d.ImageDir)
	}
}
