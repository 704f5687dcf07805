package load

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"hclbench/plain"
)

// The data set kinds.
const (
	Random       = "random"        // random tokens of an exact length
	SharedPrefix = "shared-prefix" // groups of prompts with a common beginning (SGLang's generated-shared-prefix)
	ShareGPT     = "sharegpt"      // the first turns of recorded conversations
	Text         = "text"          // a file or folder of text, cut to an exact length
	JSONL        = "jsonl"         // prompts in a file, one JSON object to a line
	Conversation = "conversation"  // conversations of several turns
	// conversations of several turns, of random tokens of an exact length
	RandomConversation = "random-conversation"
	RandomRerank       = "random-rerank" // queries and documents of random words, of exact lengths
	Trace              = "trace"         // requests with timestamps (of Mooncake, BurstGPT, Azure), replayed
	Weka               = "weka"          // recorded sessions of agents and their sub-agents, replayed
	RandomAgents       = "random-agents" // sessions of agents and their sub-agents, of random tokens of exact lengths
	RandomImages       = "random-images" // random words and images of noise (vLLM's random-mm)
)

// The two meanings that range_ratio has: vLLM and SGLang use the same word for different ranges.
const (
	// ConventionSGLang draws lengths from [L·r, L]; r = 1 is fixed length.
	ConventionSGLang = "sglang"
	// ConventionVLLM draws lengths from [L·(1−r), L·(1+r)]; r = 0 is fixed length.
	ConventionVLLM = "vllm"
)

// The histories of conversations.
const (
	// Answered has what the server has answered; but calls of tools are as recorded, as their results are.
	Answered = "answered"
	// Recorded has the answers of the file, so that all servers are asked the same.
	Recorded = "recorded"
)

// Dataset says what prompts are made of. Which members mean something depends on the kind; [DatasetArguments]
// says it of each.
type Dataset struct {
	Kind        string   `json:"kind"`                   // one of [DatasetKinds]
	Seed        uint64   `json:"seed,omitempty"`         // mixed into every cell's own seed
	InputTokens int      `json:"input_tokens,omitempty"` // of sharegpt an exact cut; 0: as recorded
	RangeRatio  *float64 `json:"range_ratio,omitempty"`  // of prompts and outputs; nil: all are exactly as long as asked
	Convention  string   `json:"convention,omitempty"`   // what RangeRatio means; empty means [ConventionSGLang]

	Turns           int `json:"turns,omitempty"`         // of each conversation
	ToolCalls       int `json:"tool_calls,omitempty"`    // of each agent in a turn, one after the other
	SubAgents       int `json:"sub_agents,omitempty"`    // that begin in each turn
	ResultTokens    int `json:"result_tokens,omitempty"` // of what a tool brings
	Documents       int `json:"documents,omitempty"`     // of a request
	QueryTokens     int `json:"query_tokens,omitempty"`
	DocumentTokens  int `json:"document_tokens,omitempty"` // of each
	Groups          int `json:"groups,omitempty"`          // of prompts, each with a beginning
	PromptsPerGroup int `json:"prompts_per_group,omitempty"`
	PrefixTokens    int `json:"prefix_tokens,omitempty"`   // of a group's beginning, or that of all conversations or agents
	QuestionTokens  int `json:"question_tokens,omitempty"` // of what follows it, of every later turn, and of a sub-agent's task

	Path         string `json:"path,omitempty"`          // of the file, or for text the folder, relative to the lab's directory
	SHA256       string `json:"sha256,omitempty"`        // of the file, 64 hex digits; empty: whatever is there
	Filter       string `json:"filter,omitempty"`        // which conversations count: [ConventionSGLang] or [ConventionVLLM]
	OutputTokens int    `json:"output_tokens,omitempty"` // an exact cut of the answers; 0: as recorded
	OfModel      string `json:"of_model,omitempty"`      // by the trace's own name for it; empty: requests of all models
	Salt         bool   `json:"salt,omitempty"`          // each prompt, or conversation, begins with random tokens of its own

	Slowdown  float64  `json:"slowdown,omitempty"`   // recorded times are multiplied by this; 0 means 1
	ThinkTime Duration `json:"think_time,omitempty"` // of a user, the mean of an exponential distribution; 0: none
	ToolDelay Duration `json:"tool_delay,omitempty"` // of a tool, as ThinkTime
	MaxDelay  Duration `json:"max_delay,omitempty"`  // no wait is longer, recorded or drawn; 0: as it is
	Arrivals  string   `json:"arrivals,omitempty"`   // when each conversation begins: [Recorded]; empty: as the load says
	History   string   `json:"history,omitempty"`    // the answers that turns are told of; empty means [Answered]

	Images      int         `json:"images,omitempty"`             // of a request
	ImagesRatio *float64    `json:"images_range_ratio,omitempty"` // as vLLM's num_mm_items_range_ratio
	MaxImages   int         `json:"max_images,omitempty"`         // of a request; 0 means 255
	ImageSizes  []ImageSize `json:"image_sizes,omitempty"`        // sorted by [SortImageSizes]

	Tokenizer       string `json:"tokenizer,omitempty"` // the model's tokenizer.json; empty: the server's own, where it has one
	TokenizerSHA256 string `json:"tokenizer_sha256,omitempty"`
	ImageDir        string `json:"image_dir,omitempty"`        // of the image files that lines name
	ImageDirSHA256  string `json:"image_dir_sha256,omitempty"` // of all in it

	// Questions says that the file has questions: each is asked as often as its line stands there, in the file's order and as
	// text, says itself how it is to be answered, and what is answered is kept.
	Questions   bool   `json:"questions,omitempty"`
	Shots       string `json:"shots,omitempty"` // the file of the examples before each question; empty: the questions' own
	ShotsSHA256 string `json:"shots_sha256,omitempty"`
}

// DatasetArguments are those of data sets, whatever their kind, in the order in which a plan says them.
func DatasetArguments() []Argument[Dataset] { return datasetArguments }

var datasetArguments = []Argument[Dataset]{
	{Name: "path", Field: func(d *Dataset) any { return &d.Path },
		Needed: fromFiles, Hint: "The file, relative to the lab's directory.",
		Help:   "the data set's `file`, or for text a folder",
		counts: func(d *Dataset) string { return pathUnless(d.SHA256, d.Path) }},
	{Name: "sha256", Field: func(d *Dataset) any { return &d.SHA256 }, Form: SHA256Text, May: fromFiles,
		Help: "checksum that the file must have", counts: func(d *Dataset) string { return sumOf(d.SHA256, d.Path) }},
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
		Needed: []string{RandomRerank}, Hint: "Length of a query, in tokens.", Help: "random-rerank: length of a query"},
	{Name: "document_tokens", Field: func(d *Dataset) any { return &d.DocumentTokens }, Least: 1, Most: maxTokens,
		Needed: []string{RandomRerank}, Hint: "Length of a document, in tokens.", Help: "random-rerank: length of each document"},
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
		Help: "begin each prompt that is read from a file with random tokens, so that it is in no cache", phrase: "salted"},
	{Name: "of_model", Field: func(d *Dataset) any { return &d.OfModel }, May: []string{Trace},
		Help:   "trace: only requests of this model, by the trace's own name for it",
		phrase: "of model %v"},
	{Name: "seed", Field: func(d *Dataset) any { return &d.Seed }, Most: 1 << 53, May: DatasetKinds()},
	{Name: "questions", Field: func(d *Dataset) any { return &d.Questions }, Place: Elsewhere, May: []string{JSONL}},
	{Name: "shots_file", Field: func(d *Dataset) any { return &d.Shots }, Place: Elsewhere, May: []string{JSONL},
		counts: func(d *Dataset) string { return pathUnless(d.ShotsSHA256, d.Shots) }},
	{Name: "shots_sha256", Field: func(d *Dataset) any { return &d.ShotsSHA256 }, Place: Elsewhere, May: []string{JSONL},
		counts: func(d *Dataset) string { return sumOf(d.ShotsSHA256, d.Shots) }},
}

// fromFiles are the kinds that are read from files.
var fromFiles = []string{ShareGPT, Text, JSONL, Conversation, Trace, Weka}

// countedFiles are those of them whose tokens are counted.
var countedFiles = []string{ShareGPT, Text, JSONL, Conversation}

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
	words = append(words, wordsOf(datasetArguments, &d)...)
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// Ranged reports whether lengths are drawn from a range.
func (d Dataset) Ranged() bool {
	switch {
	case d.RangeRatio == nil:
		return false
	case d.Convention == ConventionVLLM:
		return *d.RangeRatio != 0
	}
	return *d.RangeRatio != 1
}

// Source is what a data set that is read from files was made of, for the results.
type Source struct {
	Tokenizer string `json:"tokenizer,omitempty"` // who counted: "tokenizer.json sha256:…", "server" or "none"
	SHA256    string `json:"sha256,omitempty"`    // of the file that was read
	// different ones that there were to send; of conversations, how many; 0: not known
	Prompts  int      `json:"prompts,omitempty"`
	LeftOut  int      `json:"left_out,omitempty"`  // by the filter, or as too short, before there were enough
	Bad      int      `json:"bad,omitempty"`       // entries of the file that could not be used
	BadLines []string `json:"bad_lines,omitempty"` // the first few of them, and why
	// trace: requests that went back in time, and are sent in the order of their times
	Reordered int `json:"reordered,omitempty"`
	Repeated  int `json:"repeated,omitempty"` // requests with a prompt, or conversations, that were sent before
	// different prompts, or conversations, that were measured and that the warm-up had sent before
	Warmed   int `json:"warmed,omitempty"`
	Measured int `json:"measured,omitempty"` // of so many; 0 where Warmed is
	// Of a client that has sent a share: the prompts, or conversations, that it began, and
	// those of its warm-up.
	Sessions       int `json:"sessions,omitempty"`
	WarmupSessions int `json:"warmup_sessions,omitempty"`
}

// Drawn is the source of a run that has measured and warmed up with so many sessions, which are
// prompts or conversations.
func (s Source) Drawn(measured, warmed int) Source {
	s.Sessions, s.WarmupSessions = 0, 0
	if s.Prompts > 0 {
		s.Repeated = max(0, measured-s.Prompts)
	}
	measured, warmed = min(measured, s.Prompts), min(warmed, s.Prompts)
	if again := measured + warmed - s.Prompts; again > 0 {
		s.Measured, s.Warmed = measured, again
	}
	return s
}

// Inputs returns the paths that the data set reads, as they are written: a path
// may be a folder. A job's Files says where each lies on the machine that runs it.
func (d Dataset) Inputs() []string {
	return slices.DeleteFunc([]string{d.Path, d.Tokenizer, d.ImageDir, d.Shots}, func(p string) bool { return p == "" })
}

// Span is a range of lengths, both ends included.
type Span struct{ Low, High int }

// Lengths is what a length and a range ratio mean in a convention. No length is below 1.
func Lengths(n int, ratio *float64, convention string) Span {
	if ratio == nil || n == 0 {
		return Span{n, n}
	}
	l, r := float64(n), *ratio
	if convention == ConventionVLLM {
		return Span{max(1, int(math.Floor(l*(1-r)))), max(1, int(math.Ceil(l*(1+r))))}
	}
	return Span{max(1, int(l*r)), n}
}

// kind is what is known of a kind of data set before anything of it is read. Which arguments it has, they say.
type kind struct {
	name       string
	ownOutputs bool // it says itself how long answers are
	talks      bool // its requests are turns of conversations
	chat       bool // it goes to no other endpoint
	cut        bool // its text is cut to input_tokens, where they are said
	inOrder    bool // its prompts are sent in order, and then again from the first
	noBatch    bool // its requests have times, or wait for answers

	lengths func(d Dataset) string // of its prompts, in the words of a plan; nil: input_tokens, where they are said
}

// kinds are all of them, in the order in which help names them.
var kinds = []kind{
	{name: Random},
	{name: SharedPrefix, lengths: func(d Dataset) string {
		return fmt.Sprintf("%d × %d, %d + %s in", d.Groups, d.PromptsPerGroup, d.PrefixTokens, plain.Count(d.QuestionTokens, "token"))
	}},
	{name: ShareGPT, ownOutputs: true, cut: true, inOrder: true},
	{name: Text, cut: true},
	{name: JSONL, ownOutputs: true, inOrder: true},
	{name: Conversation, ownOutputs: true, noBatch: true, talks: true, chat: true},
	{name: RandomConversation, noBatch: true, talks: true, chat: true, lengths: turnWords},
	{name: RandomRerank, noBatch: true, lengths: func(d Dataset) string {
		return fmt.Sprintf("%s of %s, query of %d", plain.Count(d.Documents, "document"), plain.Count(d.DocumentTokens, "token"),
			d.QueryTokens)
	}},
	{name: Trace, ownOutputs: true, noBatch: true},
	{name: Weka, ownOutputs: true, noBatch: true, talks: true},
	{name: RandomAgents, noBatch: true, talks: true, lengths: func(d Dataset) string {
		words := turnWords(d)
		if d.SubAgents > 0 {
			words += ", " + plain.Count(d.SubAgents, "sub-agent")
		}
		if d.ToolCalls > 0 {
			words += fmt.Sprintf(", %s of %d", plain.Count(d.ToolCalls, "tool call"), d.ResultTokens)
		}
		return words
	}},
	{name: RandomImages, noBatch: true, chat: true, lengths: func(d Dataset) string {
		each := d.ImagesEach()
		count := plain.Count(each.High, "image")
		if each.Low < each.High {
			count = fmt.Sprintf("%d to %s", each.Low, count)
		}
		return fmt.Sprintf("%s in + %s (%s)", plain.Count(d.InputTokens, "token"), count, d.ImageWords())
	}},
}

func turnWords(d Dataset) string {
	return fmt.Sprintf("%s, %d + %s in each", plain.Count(d.Turns, "turn"), d.PrefixTokens, plain.Count(d.QuestionTokens, "token"))
}

// DatasetKinds lists the data set kinds in the order in which help names them.
func DatasetKinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// kind is the data set's, or one that has nothing, nor a name, when it is not known.
func (d Dataset) kind() kind {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == d.Kind }); i >= 0 {
		return kinds[i]
	}
	return kind{}
}

// NewDataset is a data set of a kind of which nothing else is said.
func NewDataset(kind string) Dataset {
	d := Dataset{Kind: kind}
	for _, a := range datasetArguments {
		if at, ok := a.Field(&d).(*string); ok && a.Has(kind) {
			*at = a.Default
		}
	}
	return d
}

// OwnOutputs reports whether the data set itself says how long answers are, so
// that a workload need not.
func (d Dataset) OwnOutputs() bool {
	return d.kind().ownOutputs
}

// Talks reports whether its requests are turns of conversations.
func (d Dataset) Talks() bool { return d.kind().talks }

// InOrder reports whether request number i, from 0, has prompt i of its file, and begins again behind the last: others draw their prompts.
func (d Dataset) InOrder() bool { return d.kind().inOrder }

// Agents reports whether its conversations are sessions of agents, which wait for their tools and may have
// sub-agents beside them.
func (d Dataset) Agents() bool { return d.Kind == Weka || d.Kind == RandomAgents }

// TurnRequests is how many requests a turn of a made session has: the agent's own, and those of all. An agent asks
// once, and once more behind each call of a tool; one with sub-agents asks again when they are over.
func (d Dataset) TurnRequests() (own, all int) {
	sub := 1 + d.ToolCalls
	own = sub + min(d.SubAgents, 1)
	return own, own + d.SubAgents*sub
}

// Fresh reports whether no prompt comes twice, also where a file's are taken again.
func (d Dataset) Fresh() bool { return d.Salt || d.Kind == Weka }

// Timed reports whether the data set itself says when requests, or sessions, begin.
func (d Dataset) Timed() bool { return d.Kind == Trace || d.Arrivals == Recorded }

// NeedsChat reports whether its prompts go to the endpoint [Chat] and to no other.
func (d Dataset) NeedsChat() bool { return d.kind().chat }

// WithoutServer says why prompts of the data set cannot be made where no server is.
func (d Dataset) WithoutServer() error {
	switch k := d.kind(); {
	case k.noBatch:
		return fmt.Errorf("a data set of kind %q is not a batch of prompts", d.Kind)
	case slices.Contains(countedFiles, d.Kind) && d.Tokenizer == "":
		return fmt.Errorf("no server is there to count the tokens of a data set of kind %q: "+
			"name the model's tokenizer in it, tokenizer = \"tokenizer.json\"", d.Kind)
	}
	return nil
}

func (d Dataset) problems(p *problems) {
	known := d.kind().name != ""
	p.add(!known, "dataset.kind", "data set kind %q is not known: write one of %s", d.Kind, plain.List(DatasetKinds(), "or"))
	for _, a := range datasetArguments {
		switch field := "dataset." + a.Name; {
		case a.Has(d.Kind):
			a.check(p, &d, field, slices.Contains(a.Needed, d.Kind))
		case known:
			p.add(isSet(a.value(&d)), field, "a data set of kind %q has none: it is for %s", d.Kind, a.Kinds())
		}
	}
	p.add(d.Path == "" && slices.Contains(fromFiles, d.Kind), "dataset.path",
		"a data set of kind %q needs a path: it is read from a file", d.Kind)
	d.imaging(p)
	d.agents(p)
	p.add(d.Groups > 0 && d.PromptsPerGroup > maxPrompts/d.Groups, "dataset.groups",
		"%d groups of %d prompts are more than %d", d.Groups, d.PromptsPerGroup, maxPrompts)
	p.add(d.Kind == Conversation && d.Slowdown != 0 && !d.Timed(), "dataset.slowdown",
		"it is about recorded times: write arrivals = %q beside it", Recorded)
}

// agents: sessions that are made have an end, and results a length.
func (d Dataset) agents(p *problems) {
	p.add(d.ToolCalls > 0 && d.ResultTokens == 0, "dataset.result_tokens", "tools are called: say how long their results are")
	_, each := d.TurnRequests()
	bounded := d.Turns <= maxTurns && max(d.ToolCalls, d.SubAgents) <= maxCalls
	p.add(bounded && d.Turns > maxTurns/max(each, 1), "dataset.turns",
		"%d turns of %d requests, those of sub-agents among them: a session has at most %d", d.Turns, each, maxTurns)
}
