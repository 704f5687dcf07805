package hcl

import (
	"strings"

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
func datasetBlock() *blockType {
	const tokens, groups = 1 << 24, 1 << 20
	t := &blockType{
		name: "dataset", root: "dataset",
		labels: []label{{what: "kind"}, {what: "name", form: identifier}},
		args: []argument{
			arg("input_tokens", whole(1, tokens), func(d *dataset, n int) { d.InputTokens = n }),
			arg("range_ratio", number(0, 1), func(d *dataset, r float64) { d.RangeRatio = &r }),
			arg("convention", convention, func(d *dataset, s string) { d.Convention = s }),
			arg("groups", whole(1, groups), func(d *dataset, n int) { d.Groups = n }),
			arg("prompts_per_group", whole(1, groups), func(d *dataset, n int) { d.PromptsPerGroup = n }),
			arg("prefix_tokens", whole(1, tokens), func(d *dataset, n int) { d.PrefixTokens = n }),
			arg("question_tokens", whole(1, tokens), func(d *dataset, n int) { d.QuestionTokens = n }),
			arg("path", text, func(d *dataset, s string) { d.Path = s }),
			arg("sha256", hexDigest, func(d *dataset, s string) { d.SHA256 = strings.ToLower(s) }),
			arg("tokenizer", text, func(d *dataset, s string) { d.Tokenizer = s }),
			arg("image_dir", text, func(d *dataset, s string) { d.ImageDir = s }),
			arg("filter", convention, func(d *dataset, s string) { d.Filter = s }),
			arg("output_tokens", whole(1, tokens), func(d *dataset, n int) { d.OutputTokens = n }),
			arg("slowdown", number(0.001, 1e6), func(d *dataset, x float64) { d.Slowdown = x }),
			arg("turns", whole(1, 10_000), func(d *dataset, n int) { d.Turns = n }),
			arg("tool_calls", whole(0, 1000), func(d *dataset, n int) { d.ToolCalls = n }),
			arg("sub_agents", whole(0, 1000), func(d *dataset, n int) { d.SubAgents = n }),
			arg("result_tokens", whole(1, tokens), func(d *dataset, n int) { d.ResultTokens = n }),
			arg("documents", whole(1, 4096), func(d *dataset, n int) { d.Documents = n }),
			arg("query_tokens", whole(1, tokens), func(d *dataset, n int) { d.QueryTokens = n }),
			arg("document_tokens", whole(1, tokens), func(d *dataset, n int) { d.DocumentTokens = n }),
			arg("history", word(load.Answered, load.Recorded), func(d *dataset, s string) { d.History = s }),
			arg("think_time", span, func(d *dataset, t load.Duration) { d.ThinkTime = t }),
			arg("tool_delay", span, func(d *dataset, t load.Duration) { d.ToolDelay = t }),
			arg("max_delay", span, func(d *dataset, t load.Duration) { d.MaxDelay = t }),
			arg("arrivals", word(load.Recorded), func(d *dataset, s string) { d.Arrivals = s }),
			arg("salt", truth, func(d *dataset, yes bool) { d.Salt = yes }),
			arg("images", whole(1, 255), func(d *dataset, n int) { d.Images = n }),
			arg("image_sizes", imageSizes, func(d *dataset, list []load.ImageSize) { d.ImageSizes = list }),
			arg("images_range_ratio", number(0, 1), func(d *dataset, r float64) { d.ImagesRatio = &r }),
			arg("max_images", whole(1, 255), func(d *dataset, n int) { d.MaxImages = n }),
			arg("of_model", text, func(d *dataset, s string) { d.OfModel = s }),
			arg("seed", whole[uint64](0, 1<<53), func(d *dataset, n uint64) { d.Seed = n }),
			forPeople(),
		},
		make:  becomes(newDataset),
		check: checks(checkDataset),
	}
	for _, k := range datasetKinds() {
		t.labels[0].kinds = append(t.labels[0].kinds, k.kind)
		v := *t
		v.kind, v.args = k.kind, nil
		for _, name := range strings.Fields(k.required) {
			a, _ := t.argument(name)
			v.args = append(v.args, a.must(datasetHints()[name]))
		}
		for _, name := range strings.Fields(k.optional + " seed description") {
			a, _ := t.argument(name)
			v.args = append(v.args, a)
		}
		t.variants = append(t.variants, &v)
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

func newDataset(d *declared) *dataset {
	switch d.kind {
	case load.Random, load.RandomImages:
		return &dataset{Kind: d.kind, Convention: load.ConventionSGLang}
	case load.ShareGPT:
		return &dataset{Kind: d.kind, Filter: load.ConventionSGLang}
	}
	return &dataset{Kind: d.kind}
}

// checkDataset is about arguments that only some kinds have.
func checkDataset(b *block, d *dataset) {
	if x := b.said["convention"]; x.fits() && d.RangeRatio == nil {
		b.warn(x.at, "No effect",
			"convention says what range_ratio means, and there is none: prompts have exactly input_tokens tokens.")
	}
	for _, name := range []string{"result_tokens", "tool_delay"} {
		if x := b.said[name]; x.fits() && !b.said["tool_calls"].said() {
			b.warn(x.at, "No effect", "%s is about tools, and none are called: tool_calls says how many.", name)
		}
	}
	if b.typ.knows("path") {
		b.empty("path", "Write the name of a file, relative to the lab's directory.")
		d.Path, d.ImageDir = b.vars.atHome(d.Path), b.vars.atHome(d.ImageDir)
	}
}
