package load

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hclbench/plain"
)

// Arguments are those of a load, in the order in which a plan says them.
func Arguments() []Argument[Workload] { return arguments }

// DatasetArguments are those of data sets, whatever their kind, in the order in which a plan says them.
func DatasetArguments() []Argument[Dataset] { return datasetArguments }

// generates: it is about tokens, which some endpoints do not generate.
func generates(e endpoint) bool { return !e.silent }

var arguments = []Argument[Workload]{
	{Name: "requests", Field: func(w *Workload) any { return &w.Requests }, Place: InBenchmark, Least: 1, Most: maxRequests,
		Help:  "how many requests are measured",
		words: func(w *Workload) string { return plain.Count(w.Requests, "request") }},
	{Name: "duration", Field: func(w *Workload) any { return &w.Duration }, Place: InBenchmark, Least: 100 * shortest, Most: longestRun,
		Help:   "send for this long instead of a number of requests",
		phrase: "for %v"},
	{Name: "rate", Field: func(w *Workload) any { return &w.Rate }, Paces: true, Served: true,
		Help: "requests per second, or inf; 0 keeps --concurrency in flight",
		words: func(w *Workload) string {
			if w.Rate == Inf {
				return "all at once"
			}
			return fmt.Sprintf("%v requests/s", w.Rate)
		}},
	{Name: "stages", Field: func(w *Workload) any { return &w.Stages }, Paces: true, Served: true, Flag: "stage",
		Help:   "a part of the run, `DURATION,rate=N` or DURATION,concurrency=N; may be repeated",
		counts: func(w *Workload) string { return eachStage(w, ", ", Stage.pair) },
		words:  func(w *Workload) string { return eachStage(w, ", then ", Stage.words) }},
	{Name: "burstiness", Field: func(w *Workload) any { return &w.Burstiness }, Paces: true, Served: true, same: Rate(1),
		Help: "gamma shape of the gaps with --rate: 1 is Poisson, inf is constant",
		idle: func(w *Workload) string {
			if w.Rate != 0 || slices.ContainsFunc(w.Stages, func(s Stage) bool { return s.Rate != 0 }) {
				return ""
			}
			return "shapes the times between arrivals, and without a rate there are none"
		},
		phrase: "burstiness %v"},
	{Name: "concurrency", Field: func(w *Workload) any { return &w.Concurrency }, Served: true, Least: 1, Most: maxInFlight,
		Help:   "requests in flight: exactly this many, or with --rate at most; 0 is no cap",
		phrase: "concurrency %v"},
	{Name: "ramp", Field: func(w *Workload) any { return &w.Ramp }, Paces: true, Served: true, Least: shortest, Most: longestRun,
		Help:   "the pace grows evenly from nothing over this long",
		phrase: "ramp %v"},
	{Name: "dataset", Field: func(w *Workload) any { return &w.Dataset }, Place: Elsewhere,
		counts: func(*Workload) string { return "" }, // its own arguments do
		words:  func(w *Workload) string { return w.Dataset.words() }},
	{Name: "batch_size", Field: func(w *Workload) any { return &w.BatchSize }, Served: true, Least: 1, Most: maxBatch, same: 1,
		at:   func(e endpoint) bool { return e.several },
		Help: "embeddings: how many prompts a request has; 0 is 1", phrase: "%v prompts a request"},
	{Name: "output_tokens", Field: func(w *Workload) any { return &w.OutputTokens }, Least: 1, Most: maxTokens, at: generates,
		Help:  "tokens asked for per request; as the data set says, if it does and this is not given",
		words: func(w *Workload) string { return plain.Count(w.OutputTokens, "token") + " out" }},
	{Name: "ignore_eos", Field: func(w *Workload) any { return &w.IgnoreEOS }, at: generates, Flag: "stop-at-eos", FlagOff: true,
		Help: "let the model end its answers early",
		otherwise: func(w *Workload) string {
			if w.OutputTokens == 0 {
				return ""
			}
			return "or fewer"
		}},
	{Name: "endpoint", Field: func(w *Workload) any { return &w.Endpoint }, Served: true, Words: Endpoints(),
		Help: "where requests go: " + strings.Join(Endpoints(), ", ") +
			" (generate is SGLang's own); conversations take chat or responses",
		phrase: "%v"},
	{Name: "stream", Field: func(w *Workload) any { return &w.NoStream }, Served: true, Off: true, at: generates,
		Flag: "no-stream", FlagOff: true, key: "no_stream",
		Help:   "have answers sent whole; there is no time to first token then",
		phrase: "not streamed"},
	{Name: "temperature", Field: func(w *Workload) any { return &w.Temperature }, Most: 100, at: generates,
		Help:   "sampling temperature",
		phrase: "temperature %v"},
	{Name: "extra_body", Field: func(w *Workload) any { return &w.ExtraBody }, Form: ObjectText,
		Help: "JSON object merged into every request",
		counts: func(w *Workload) string {
			if body := compact(w.ExtraBody); body != "{}" {
				return body
			}
			return ""
		},
		phrase: "extra_body %v"},
	{Name: "adapters", Field: func(w *Workload) any { return &w.Adapters }, Served: true, Flag: "adapter",
		Help: "a LoRA adapter, `NAME=SHARE`, that a share of the requests goes to as a model (SGLang: MODEL:NAME=SHARE); " +
			"may be repeated",
		counts: func(w *Workload) string { return w.Adapting() },
		words:  func(w *Workload) string { return "adapters " + w.Adapting() }},
	{Name: "warmup_requests", Field: func(w *Workload) any { return &w.Warmup }, Most: maxInFlight,
		Help:   "sent and waited for before the measurement",
		phrase: "%v to warm up"},
	{Name: "warmup", Field: func(w *Workload) any { return &w.CutBeginning }, Least: shortest, Most: longestRun,
		Help:   "this much of the run's beginning does not count",
		phrase: "without the first %v"},
	{Name: "cooldown", Field: func(w *Workload) any { return &w.CutEnd }, Least: shortest, Most: longestRun,
		Help:   "this much of its end does not count",
		phrase: "without the last %v"},
	{Name: "stop_when_overloaded", Field: func(w *Workload) any { return &w.StopWhenOverloaded },
		Help:   "send no more once the requests of --rate pile up",
		phrase: "ends when overloaded"},
	{Name: "timeout", Field: func(w *Workload) any { return &w.Timeout }, Least: shortest, Most: longestRun,
		same: Duration(DefaultTimeout), Help: "for one request in all; 0 is 6h"},
	{Name: "stall", Field: func(w *Workload) any { return &w.Stall }, Least: shortest, Most: longestRun,
		same: Duration(DefaultStall), Help: "a request that brings no token for this long has failed; 0 is 5m"},
	{Name: "slo", Field: func(w *Workload) any { return &w.SLO }, Place: Elsewhere,
		Help: "bounds of good requests, `METRIC=DURATION`, and with a percentile of all, as in ttft_p99=5s: " +
			strings.Join(ObjectiveMetrics(), ", "),
		counts: func(*Workload) string { return "" }, // it is computed from the records, whenever it is asked
		words: func(w *Workload) string {
			var bounds []string
			for _, o := range w.SLO {
				bounds = append(bounds, fmt.Sprintf("%s ≤ %s", o.Name(), o.Max))
			}
			return strings.Join(bounds, ", ")
		}},
}

// fromFiles are the kinds that are read from files.
var fromFiles = []string{ShareGPT, Text, JSONL, Conversation, Trace, Weka}

// countedFiles are those of them whose tokens are counted.
var countedFiles = []string{ShareGPT, Text, JSONL, Conversation}

var datasetArguments = []Argument[Dataset]{
	{Name: "path", Field: func(d *Dataset) any { return &d.Path },
		Needed: fromFiles, Hint: "The file, relative to the lab's directory.",
		Help:   "the data set's `file`, or for text a folder",
		counts: func(d *Dataset) string { return pathUnless(d.SHA256, d.Path) }},
	{Name: "sha256", Field: func(d *Dataset) any { return &d.SHA256 }, Form: SHA256Text,
		May:    fromFiles,
		Help:   "checksum that the file must have",
		counts: func(d *Dataset) string { return sumOf(d.SHA256, d.Path) }},
	{Name: "tokenizer", Field: func(d *Dataset) any { return &d.Tokenizer }, May: countedFiles, key: "tokenizer_path",
		Help:   "the model's tokenizer.json, which counts and cuts; without it the server's /tokenize does",
		counts: func(d *Dataset) string { return pathUnless(d.TokenizerSHA256, d.Tokenizer) }},
	{Name: "tokenizer_sha256", Field: func(d *Dataset) any { return &d.TokenizerSHA256 }, Place: Elsewhere, May: countedFiles,
		counts: func(d *Dataset) string { return sumOf(d.TokenizerSHA256, d.Tokenizer) }},
	{Name: "filter", Field: func(d *Dataset) any { return &d.Filter }, May: []string{ShareGPT},
		Words: []string{ConventionSGLang, ConventionVLLM}, Default: ConventionSGLang,
		Help: "which conversations of sharegpt count: as in sglang's benchmark, or in vllm's"},
	{Name: "image_dir", Field: func(d *Dataset) any { return &d.ImageDir }, May: []string{JSONL}, key: "image_dir_path",
		Help:   "jsonl: the `folder` of the image files that its lines name",
		counts: func(d *Dataset) string { return pathUnless(d.ImageDirSHA256, d.ImageDir) }},
	{Name: "image_dir_sha256", Field: func(d *Dataset) any { return &d.ImageDirSHA256 }, Place: Elsewhere, May: []string{JSONL},
		counts: func(d *Dataset) string { return sumOf(d.ImageDirSHA256, d.ImageDir) }},
	{Name: "input_tokens", Field: func(d *Dataset) any { return &d.InputTokens }, Least: 1, Most: maxTokens,
		Needed: []string{Random, Text, RandomImages}, May: []string{ShareGPT}, Hint: "Length of a prompt, in tokens.",
		Help: "length of each prompt; of sharegpt as recorded, if not given"},
	{Name: "output_tokens", Field: func(d *Dataset) any { return &d.OutputTokens }, Least: 1, Most: maxTokens, May: []string{ShareGPT}},
	{Name: "groups", Field: func(d *Dataset) any { return &d.Groups }, Least: 1, Most: maxGroups,
		Needed: []string{SharedPrefix}, Hint: "How many beginnings there are.",
		Help: "shared-prefix: how many beginnings there are"},
	{Name: "prompts_per_group", Field: func(d *Dataset) any { return &d.PromptsPerGroup }, Least: 1, Most: maxGroups,
		Needed: []string{SharedPrefix}, Hint: "How many prompts begin with each.",
		Help: "shared-prefix: how many prompts begin with each"},
	{Name: "turns", Field: func(d *Dataset) any { return &d.Turns }, Least: 1, Most: maxTurns,
		Needed: []string{RandomConversation, RandomAgents}, Hint: "How many turns a conversation has.",
		Help: "random-conversation and random-agents: how many turns a conversation has"},
	{Name: "prefix_tokens", Field: func(d *Dataset) any { return &d.PrefixTokens }, Least: 1, Most: maxTokens,
		Needed: []string{SharedPrefix}, May: []string{RandomConversation, RandomAgents}, Hint: "Length of a beginning, in tokens.",
		Help: "shared-prefix: length of a beginning; random-conversation and random-agents: of the one that all have"},
	{Name: "question_tokens", Field: func(d *Dataset) any { return &d.QuestionTokens }, Least: 1, Most: maxTokens,
		Needed: []string{SharedPrefix, RandomConversation, RandomAgents},
		Hint:   "Length of what follows it, different in every prompt.",
		Help:   "length of what follows it, of a conversation in each turn"},
	{Name: "tool_calls", Field: func(d *Dataset) any { return &d.ToolCalls }, Most: maxCalls, May: []string{RandomAgents},
		Help: "random-agents: how many tools each agent calls in a turn, with a request behind each"},
	{Name: "sub_agents", Field: func(d *Dataset) any { return &d.SubAgents }, Most: maxCalls, May: []string{RandomAgents},
		Help: "random-agents: how many sub-agents begin in each turn, and are waited for"},
	{Name: "result_tokens", Field: func(d *Dataset) any { return &d.ResultTokens }, Least: 1, Most: maxTokens, May: []string{RandomAgents},
		Help: "random-agents: length of what a tool brings",
		idle: withoutTools},
	{Name: "documents", Field: func(d *Dataset) any { return &d.Documents }, Least: 1, Most: maxBatch,
		Needed: []string{RandomRerank}, Hint: "How many documents a request has.",
		Help: "random-rerank: how many documents a request has"},
	{Name: "query_tokens", Field: func(d *Dataset) any { return &d.QueryTokens }, Least: 1, Most: maxTokens,
		Needed: []string{RandomRerank}, Hint: "Length of a query, in tokens.",
		Help: "random-rerank: length of a query"},
	{Name: "document_tokens", Field: func(d *Dataset) any { return &d.DocumentTokens }, Least: 1, Most: maxTokens,
		Needed: []string{RandomRerank}, Hint: "Length of a document, in tokens.",
		Help: "random-rerank: length of each document"},
	{Name: "images", Field: func(d *Dataset) any { return &d.Images }, Least: 1, Most: maxImages,
		Needed: []string{RandomImages}, Hint: "How many images a request has.",
		Help: "random-images: how many images a request has, with --input-tokens of text"},
	{Name: "image_sizes", Field: func(d *Dataset) any { return &d.ImageSizes }, Flag: "image-size",
		Needed: []string{RandomImages}, Hint: "How large they are, in pixels, and what share of them each size has.",
		Help:   "random-images: a size, `WIDTHxHEIGHT=SHARE` in pixels; may be repeated",
		counts: func(d *Dataset) string { return d.ImageWords() }},
	{Name: "range_ratio", Field: func(d *Dataset) any { return &d.RangeRatio }, Most: 1,
		May:    []string{Random, SharedPrefix, RandomConversation, RandomRerank, RandomAgents, RandomImages},
		Help:   "vary the lengths, in the sense of --convention",
		counts: whereRanged(func(d *Dataset) string { return fmt.Sprint(*d.RangeRatio) }),
		words: whereRanged(func(d *Dataset) string {
			return fmt.Sprintf("range_ratio %v (%s)", *d.RangeRatio, cmp.Or(d.Convention, ConventionSGLang))
		})},
	{Name: "convention", Field: func(d *Dataset) any { return &d.Convention }, May: []string{Random, RandomImages},
		Words: []string{ConventionSGLang, ConventionVLLM}, Default: ConventionSGLang,
		Help: "what --range-ratio means: sglang ([L·r, L]) or vllm ([L·(1-r), L·(1+r)])",
		idle: func(d *Dataset) string {
			if d.RangeRatio != nil {
				return ""
			}
			return "says what range_ratio means, and there is none: prompts have exactly input_tokens tokens"
		},
		counts: whereRanged(func(d *Dataset) string { return cmp.Or(d.Convention, ConventionSGLang) })},
	{Name: "images_range_ratio", Field: func(d *Dataset) any { return &d.ImagesRatio }, Most: 1, May: []string{RandomImages},
		same: 0.0, Help: "random-images: between N·(1-r) and N·(1+r) images, as vLLM's random-mm"},
	{Name: "max_images", Field: func(d *Dataset) any { return &d.MaxImages }, Least: 1, Most: maxImages, May: []string{RandomImages},
		same: maxImages, Help: "random-images: no request has more; 0 is 255"},
	{Name: "slowdown", Field: func(d *Dataset) any { return &d.Slowdown }, Least: 0.001, Most: 1e6, May: []string{Conversation, Trace},
		same: 1.0, Help: "trace, and --arrivals recorded: times between requests are multiplied by this; 0 is 1",
		phrase: "times between requests × %v"},
	{Name: "think_time", Field: func(d *Dataset) any { return &d.ThinkTime }, Least: shortest, Most: longestPause,
		May:    []string{Conversation, RandomConversation, RandomAgents},
		Help:   "conversations and random-agents: how long a user takes on average to ask again",
		phrase: "think time %v"},
	{Name: "tool_delay", Field: func(d *Dataset) any { return &d.ToolDelay }, Least: shortest, Most: longestPause,
		May:    []string{RandomAgents},
		Help:   "random-agents: how long a tool takes on average",
		idle:   withoutTools,
		phrase: "tool delay %v"},
	{Name: "arrivals", Field: func(d *Dataset) any { return &d.Arrivals }, Words: []string{Recorded}, May: []string{Conversation},
		Help:   "conversation: recorded begins each at the timestamp in the file",
		phrase: "at recorded times"},
	{Name: "max_delay", Field: func(d *Dataset) any { return &d.MaxDelay }, Least: shortest, Most: longestPause,
		May:    []string{Conversation, RandomConversation, RandomAgents, Weka},
		Help:   "conversations and agents: no wait between their requests is longer, recorded or drawn; 0 leaves them as they are",
		phrase: "no wait above %v"},
	{Name: "history", Field: func(d *Dataset) any { return &d.History }, Words: []string{Answered, Recorded}, same: Answered,
		May:    []string{Conversation},
		Help:   "conversation: the answers that later turns are told of, answered (by the server) or recorded",
		phrase: "told of recorded answers"},
	{Name: "salt", Field: func(d *Dataset) any { return &d.Salt }, May: countedFiles,
		Help:   "begin each prompt that is read from a file with random tokens, so that it is in no cache",
		phrase: "salted"},
	{Name: "of_model", Field: func(d *Dataset) any { return &d.OfModel }, May: []string{Trace},
		Help:   "trace: only requests of this model, by the trace's own name for it",
		phrase: "of model %v"},
	{Name: "seed", Field: func(d *Dataset) any { return &d.Seed }, Most: 1 << 53, May: DatasetKinds()},
}

func withoutTools(d *Dataset) string {
	if d.ToolCalls > 0 {
		return ""
	}
	return "is about tools, and none are called: tool_calls says how many"
}

// whereRanged is what is said where lengths are drawn from a range.
func whereRanged(say func(d *Dataset) string) func(*Dataset) string {
	return func(d *Dataset) string {
		if !d.Ranged() {
			return ""
		}
		return say(d)
	}
}

// A file counts by its content, and by its path as long as that is not known.
func pathUnless(sum, path string) string {
	if sum != "" {
		return ""
	}
	return path
}

func sumOf(sum, path string) string {
	if path == "" {
		return ""
	}
	return strings.ToLower(sum)
}

// eachStage says the stages: as a fingerprint has them, "1m0s rate 2", or as a plan, "2/s for 1m0s".
func eachStage(w *Workload, between string, say func(Stage) string) string {
	var parts []string
	for _, s := range w.Stages {
		parts = append(parts, say(s))
	}
	return strings.Join(parts, between)
}

func (s Stage) pair() string {
	text := s.Duration.String()
	if s.Rate != 0 {
		text += " rate " + s.Rate.String()
	}
	if s.Concurrency != 0 {
		text += fmt.Sprint(" concurrency ", s.Concurrency)
	}
	return text
}

func (s Stage) words() string {
	if s.Concurrency > 0 {
		return fmt.Sprintf("concurrency %d for %s", s.Concurrency, s.Duration)
	}
	return fmt.Sprintf("%v/s for %s", s.Rate, s.Duration)
}

// Told is what a plan says of the workload: as many words in the same order for every one, of which empty ones
// say nothing.
func (w Workload) Told() []string { return told(arguments, &w) }

// words are the data set in a plan.
func (d Dataset) words() string {
	words := []string{d.Kind}
	if d.Path != "" {
		words = append(words, filepath.Base(d.Path))
	}
	if k := d.kind(); k.lengths != nil {
		words = append(words, k.lengths(d))
	} else if d.InputTokens > 0 {
		words = append(words, plain.Count(d.InputTokens, "token")+" in")
	}
	words = append(words, told(datasetArguments, &d)...)
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}
