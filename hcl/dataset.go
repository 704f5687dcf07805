package hcl

import (
	"slices"
	"strings"

	"hclbench/load"
)

// dataset is what a dataset block becomes.
type dataset = load.Dataset

// datasetBlock stands for the data sets of all kinds, each with arguments of its own.
func datasetBlock() *blockType {
	variants := []*blockType{
		randomDataset(), sharedPrefixDataset(), shareGPTDataset(), textDataset(),
		datasetOf(load.JSONL, "Prompts of your own, one JSON object to a line: `prompt`, and `output_tokens` where they differ.",
			dataPath("The file, relative to the lab's directory."), checksum(), tokenizer()),
		datasetOf(load.Conversation, "Conversations of several turns, each sent when the answer before it is there.",
			dataPath("The file, relative to the lab's directory."), checksum(), tokenizer()),
		datasetOf(load.Trace, "Recorded requests, sent at the times of the recording (Mooncake's JSONL).",
			dataPath("The file, relative to the lab's directory."), checksum(),
			arg("slowdown", number(0.001, 1e6), func(d *dataset, x float64) { d.Slowdown = x }, "`1`",
				"Times between requests are multiplied by this: 2 is half as fast.")),
	}
	t := datasetOf("", "What prompts are made of. Each kind has arguments of its own.")
	t.args, t.variants = nil, variants
	for _, v := range variants {
		t.labels = v.labels
		for _, a := range v.args {
			if !slices.Contains(t.argumentNames(false), a.name) {
				a.required = false
				t.args = append(t.args, a)
			}
		}
	}
	return t
}

func datasetOf(kind, doc string, args ...argument) *blockType {
	return &blockType{
		name: "dataset", kind: kind, root: "dataset", doc: doc,
		labels: []label{{what: "kind", kinds: load.DatasetKinds()}, {what: "name", form: identifier}},
		args: append(args,
			arg("seed", whole[uint64](0, 1<<53), func(d *dataset, n uint64) { d.Seed = n }, "`0`",
				"Another seed makes, or picks, other prompts."),
			// For people alone: nothing reads it.
			unbound("description", text.kind, "", "What it is, for people.")),
		make:  becomes(func(d *declared) *dataset { return &dataset{Kind: d.kind} }),
		check: checks(checkDataset),
	}
}

func randomDataset() *blockType {
	t := datasetOf(load.Random, "Random tokens of an exact length.",
		tokensOf("input_tokens", func(d *dataset, n int) { d.InputTokens = n }, required, "Length of a prompt, in tokens."),
		arg("range_ratio", number(0, 1), func(d *dataset, r float64) { d.RangeRatio = &r },
			"every prompt is exactly `input_tokens` long",
			"How far lengths vary, of prompts and of answers; `convention` says what the number means."),
		arg("convention", word(load.ConventionSGLang, load.ConventionVLLM),
			func(d *dataset, s string) { d.Convention = s }, `"sglang"`,
			"With `\"sglang\"`, lengths are drawn from L·r to L (1 is fixed); "+
				"with `\"vllm\"`, from L·(1−r) to L·(1+r) (0 is fixed)."),
	)
	t.make = becomes(func(d *declared) *dataset { return &dataset{Kind: d.kind, Convention: load.ConventionSGLang} })
	t.check = checks(checkRandom)
	return t
}

func sharedPrefixDataset() *blockType {
	const most = 1 << 20
	return datasetOf(load.SharedPrefix,
		"Groups of prompts that begin alike, for prefix caches: SGLang's generated-shared-prefix.",
		arg("groups", whole(1, most), func(d *dataset, n int) { d.Groups = n }, required, "How many beginnings there are."),
		arg("prompts_per_group", whole(1, most), func(d *dataset, n int) { d.PromptsPerGroup = n }, required,
			"How many prompts begin with each."),
		tokensOf("prefix_tokens", func(d *dataset, n int) { d.PrefixTokens = n }, required, "Length of a beginning, in tokens."),
		tokensOf("question_tokens", func(d *dataset, n int) { d.QuestionTokens = n }, required,
			"Length of what follows it, different in every prompt."),
		arg("range_ratio", number(0, 1), func(d *dataset, r float64) { d.RangeRatio = &r }, "all lengths are exact",
			"Lengths are drawn from L·r to L."),
	)
}

func shareGPTDataset() *blockType {
	t := datasetOf(load.ShareGPT, "The first question and answer of recorded conversations, a JSON file as ShareGPT's.",
		dataPath("The file, relative to the lab's directory."), checksum(), tokenizer(),
		arg("filter", word(load.ConventionSGLang, load.ConventionVLLM), func(d *dataset, s string) { d.Filter = s },
			`"sglang"`,
			"Which conversations are left out as too short or too long: as in SGLang's benchmark, or as in vLLM's."),
		tokensOf("input_tokens", func(d *dataset, n int) { d.InputTokens = n }, "as recorded",
			"Every prompt is cut to exactly this length; shorter ones are left out."),
		tokensOf("output_tokens", func(d *dataset, n int) { d.OutputTokens = n }, "as recorded",
			"Every answer is asked to be exactly this long."),
	)
	t.make = becomes(func(d *declared) *dataset { return &dataset{Kind: d.kind, Filter: load.ConventionSGLang} })
	return t
}

func textDataset() *blockType {
	return datasetOf(load.Text, "Pieces of a text, such as a book, of an exact length.",
		dataPath("A file, or a folder of files, relative to the lab's directory."),
		tokensOf("input_tokens", func(d *dataset, n int) { d.InputTokens = n }, required, "Length of a prompt, in tokens."),
		tokenizer())
}

func tokensOf(name string, set func(*dataset, int), fallback, doc string) argument {
	return arg(name, whole(1, 1<<24), set, fallback, doc)
}

func dataPath(doc string) argument {
	return arg("path", text, func(d *dataset, s string) { d.Path = s }, required, doc)
}

func checksum() argument {
	return arg("sha256", hexDigest, func(d *dataset, s string) { d.SHA256 = s }, "whatever is there",
		"Of the file, which must have it.")
}

func tokenizer() argument {
	return arg("tokenizer", text, func(d *dataset, s string) { d.Tokenizer = s },
		"the server's own, where it has `/tokenize`",
		"The model's `tokenizer.json`, relative to the lab's directory: it counts and cuts.")
}

const idleConvention = `convention says what range_ratio means, and there is no range_ratio: every prompt is exactly
input_tokens long.`

func checkRandom(b *block, d *dataset) {
	if x := b.arg("convention"); x.fits() && d.RangeRatio == nil {
		b.warn(x.at, "No effect", idleConvention)
	}
}

func checkDataset(b *block, d *dataset) {
	if x := b.said["path"]; x.fits() && strings.TrimSpace(d.Path) == "" {
		b.err(x.at, "Wrong value", `"path" is empty. Write the name of a file, relative to the lab's directory.`)
		b.incomplete = true
	}
}
