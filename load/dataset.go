package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
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

// Dataset says what prompts are made of. Which members mean something depends on the kind.
type Dataset struct {
	Kind string `json:"kind"` // one of [DatasetKinds]
	// prompt length: random, text; of sharegpt, an exact cut, 0: as recorded
	InputTokens int `json:"input_tokens,omitempty"`
	// of prompts and outputs, as with both peers; nil: every one is exactly as long as asked
	RangeRatio *float64 `json:"range_ratio,omitempty"`
	Convention string   `json:"convention,omitempty"` // what RangeRatio means; empty means [ConventionSGLang]
	Seed       uint64   `json:"seed,omitempty"`       // mixed into every cell's own seed

	Turns           int `json:"turns,omitempty"`             // random-conversation, random-agents: of each
	ToolCalls       int `json:"tool_calls,omitempty"`        // random-agents: of each agent in a turn, one after the other
	SubAgents       int `json:"sub_agents,omitempty"`        // random-agents: that begin in each turn
	ResultTokens    int `json:"result_tokens,omitempty"`     // random-agents: length of what a tool brings
	Documents       int `json:"documents,omitempty"`         // random-rerank: how many a request has
	QueryTokens     int `json:"query_tokens,omitempty"`      // random-rerank
	DocumentTokens  int `json:"document_tokens,omitempty"`   // random-rerank: length of each
	Groups          int `json:"groups,omitempty"`            // shared-prefix: how many beginnings there are
	PromptsPerGroup int `json:"prompts_per_group,omitempty"` // shared-prefix
	PrefixTokens    int `json:"prefix_tokens,omitempty"`     // length of a beginning: of a group's prompts, or of all conversations or agents
	QuestionTokens  int `json:"question_tokens,omitempty"`   // length of what follows it, and of every later turn; of agents, also of a sub-agent's task
	// of the file, or for text the folder, relative to the lab's directory
	Path   string `json:"path,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of the file, 64 hex digits; empty: whatever is there
	// sharegpt: which conversations count, [ConventionSGLang] or [ConventionVLLM]
	Filter string `json:"filter,omitempty"`
	// sharegpt: an exact cut of the answers; 0: as recorded
	OutputTokens int `json:"output_tokens,omitempty"`
	// of recorded times: those between requests, or sessions, are multiplied by this; 0 means 1
	Slowdown float64 `json:"slowdown,omitempty"`
	// trace: only requests of this model count, by the trace's own name for it; empty: all do
	OfModel string `json:"of_model,omitempty"`
	// of conversations: how long a user takes on average to ask again, drawn from an exponential
	// distribution; 0: no time
	ThinkTime Duration `json:"think_time,omitempty"`
	// random-agents: how long a tool takes on average, drawn as ThinkTime is; 0: no time
	ToolDelay Duration `json:"tool_delay,omitempty"`
	// of conversations and agents: no wait between their requests is longer, recorded or drawn; 0: as it is
	MaxDelay Duration `json:"max_delay,omitempty"`
	// conversation: when each begins, [Recorded]; empty: as the load says
	Arrivals string `json:"arrivals,omitempty"`
	// conversation: which answers the next turns are told of, [Answered] or [Recorded]; empty: Answered
	History string `json:"history,omitempty"`
	// of what is read from files: each prompt, or conversation, begins with random tokens of its own,
	// so that no server has it in its cache
	Salt bool `json:"salt,omitempty"`

	// random-images: how many a request has, how far that varies as vLLM's
	// num_mm_items_range_ratio does, and how many are the most
	Images      int         `json:"images,omitempty"`
	ImagesRatio *float64    `json:"images_range_ratio,omitempty"`
	MaxImages   int         `json:"max_images,omitempty"`
	ImageSizes  []ImageSize `json:"image_sizes,omitempty"` // random-images, sorted by [SortImageSizes]

	// path of the model's tokenizer.json, as Path is; empty: the server's own, where it has one
	Tokenizer string `json:"tokenizer,omitempty"`
	// of that file, 64 hex digits; empty: whatever is there
	TokenizerSHA256 string `json:"tokenizer_sha256,omitempty"`
	// jsonl: the folder of the image files that its lines name, as Path is
	ImageDir       string `json:"image_dir,omitempty"`
	ImageDirSHA256 string `json:"image_dir_sha256,omitempty"` // of all in it; empty: whatever is there
}

// Ranged reports whether lengths are drawn from a range.
func (d Dataset) Ranged() bool {
	switch {
	case d.RangeRatio == nil:
		return false
	case d.kind().has("convention") && d.Convention == ConventionVLLM:
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
	return slices.DeleteFunc([]string{d.Path, d.Tokenizer, d.ImageDir}, func(p string) bool { return p == "" })
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

// kind is what is known of a kind of data set before anything of it is read.
type kind struct {
	name string
	// needs are the members of a [Dataset], by their names in JSON, without which there
	// are no prompts, and may those that mean something beside them. All have a kind and
	// a seed, and no others.
	needs, may []string
	ownOutputs bool // it says itself how long answers are
	talks      bool // its requests are turns of conversations
	chat       bool // it goes to no other endpoint
	cut        bool // its text is cut to input_tokens, where they are said
	noBatch    bool // its requests have times, or wait for answers
}

// recorded are the members of kinds that are read from files and counted.
var recorded = []string{"sha256", "tokenizer", "tokenizer_sha256", "salt"}

// kinds are all of them, in the order in which help names them.
var kinds = []kind{
	{name: Random, needs: []string{"input_tokens"}, may: []string{"range_ratio", "convention"}},
	{name: SharedPrefix, needs: []string{"groups", "prompts_per_group", "prefix_tokens", "question_tokens"},
		may: []string{"range_ratio"}},
	{name: ShareGPT, needs: []string{"path"},
		may: append([]string{"filter", "input_tokens", "output_tokens"}, recorded...), ownOutputs: true, cut: true},
	{name: Text, needs: []string{"path", "input_tokens"}, may: recorded, cut: true},
	{name: JSONL, needs: []string{"path"}, may: append([]string{"image_dir", "image_dir_sha256"}, recorded...), ownOutputs: true},
	{name: Conversation, needs: []string{"path"}, may: append([]string{"think_time", "max_delay", "history", "arrivals", "slowdown"}, recorded...), ownOutputs: true, noBatch: true,
		talks: true, chat: true},
	{name: RandomConversation, needs: []string{"turns", "question_tokens"},
		may: []string{"prefix_tokens", "range_ratio", "think_time", "max_delay"}, noBatch: true, talks: true, chat: true},
	{name: RandomRerank, needs: []string{"documents", "query_tokens", "document_tokens"}, may: []string{"range_ratio"}, noBatch: true},
	{name: Trace, needs: []string{"path"}, may: []string{"sha256", "slowdown", "of_model"}, ownOutputs: true, noBatch: true},
	{name: Weka, needs: []string{"path"}, may: []string{"sha256", "max_delay"}, ownOutputs: true, noBatch: true, talks: true},
	{name: RandomAgents, needs: []string{"turns", "question_tokens"},
		may:     []string{"tool_calls", "sub_agents", "prefix_tokens", "result_tokens", "range_ratio", "think_time", "tool_delay", "max_delay"},
		noBatch: true, talks: true},
	{name: RandomImages, needs: []string{"input_tokens", "images", "image_sizes"},
		may: []string{"range_ratio", "convention", "images_range_ratio", "max_images"}, noBatch: true, chat: true},
}

// DatasetKinds lists the data set kinds in the order in which help names them.
func DatasetKinds() []string { return KindsWith("kind") }

// KindsWith are the kinds of data sets of which a member means something: "groups".
func KindsWith(member string) []string {
	var names []string
	for _, k := range kinds {
		if k.has(member) {
			names = append(names, k.name)
		}
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

func (k kind) has(member string) bool {
	return member == "kind" || member == "seed" || slices.Contains(k.needs, member) || slices.Contains(k.may, member)
}

// members are those of the data set that say something, by their names in JSON.
func (d Dataset) members() map[string]any {
	text, err := json.Marshal(d)
	members := map[string]any{}
	if err != nil || json.Unmarshal(text, &members) != nil {
		return nil // a number that JSON has not is told of by itself
	}
	return members
}

// OwnOutputs reports whether the data set itself says how long answers are, so
// that a workload need not.
func (d Dataset) OwnOutputs() bool {
	return d.kind().ownOutputs
}

// Talks reports whether its requests are turns of conversations.
func (d Dataset) Talks() bool { return d.kind().talks }

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
		return fmt.Errorf("a data set of kind %q is no batch of prompts", d.Kind)
	case k.has("tokenizer") && d.Tokenizer == "":
		return fmt.Errorf("no server is there to count the tokens of a data set of kind %q: "+
			"name the model's tokenizer in it, tokenizer = \"tokenizer.json\"", d.Kind)
	}
	return nil
}

func (d Dataset) problems(p *problems) {
	k := d.kind()
	known := k.name != ""
	p.add(!known, "dataset.kind", "data set kind %q is not known: write one of %s", d.Kind, inWords(DatasetKinds()))
	d.numbers(p, k)
	d.imaging(p, k)
	for _, member := range slices.Sorted(maps.Keys(d.members())) {
		p.add(known && !k.has(member), "dataset."+member, "a data set of kind %q has none: it is for %s",
			d.Kind, inWords(KindsWith(member)))
	}
	p.add(slices.Contains(k.needs, "path") && d.Path == "", "dataset.path",
		"a data set of kind %q: a path is needed, it is read from a file", d.Kind)
	for _, c := range []struct{ name, value, one, other string }{{"convention", d.Convention, ConventionSGLang, ConventionVLLM},
		{"filter", d.Filter, ConventionSGLang, ConventionVLLM}, {"history", d.History, Answered, Recorded}} {
		p.add(k.has(c.name) && c.value != "" && c.value != c.one && c.value != c.other, "dataset."+c.name,
			"%s %q: write %q or %q", c.name, c.value, c.one, c.other)
	}
}

func (d Dataset) numbers(p *problems, k kind) {
	for _, n := range []struct {
		member string
		value  int
	}{
		{"input_tokens", d.InputTokens}, {"output_tokens", d.OutputTokens}, {"groups", d.Groups},
		{"prompts_per_group", d.PromptsPerGroup}, {"prefix_tokens", d.PrefixTokens},
		{"question_tokens", d.QuestionTokens}, {"turns", d.Turns}, {"images", d.Images}, {"max_images", d.MaxImages},
		{"documents", d.Documents}, {"query_tokens", d.QueryTokens}, {"document_tokens", d.DocumentTokens},
		{"tool_calls", d.ToolCalls}, {"sub_agents", d.SubAgents}, {"result_tokens", d.ResultTokens},
	} {
		if slices.Contains(k.needs, n.member) {
			p.add(n.value < 1, "dataset."+n.member, "%s %d: at least 1 is needed", spaced(n.member), n.value)
		} else {
			p.add(n.value < 0, "dataset."+n.member, "%d: it cannot be a negative number", n.value)
		}
	}
	p.add(d.Turns > maxTurns, "dataset.turns", "%d turns: at most %d are possible", d.Turns, maxTurns)
	p.add(d.Documents > maxBatch, "dataset.documents", "%d documents: at most %d are possible", d.Documents, maxBatch)
	for _, t := range []struct {
		member string
		value  Duration
	}{{"think_time", d.ThinkTime}, {"tool_delay", d.ToolDelay}, {"max_delay", d.MaxDelay}} {
		p.add(t.value < 0 || t.value > maxThinkTime, "dataset."+t.member, "%v: write a time of at most %v", t.value, maxThinkTime)
	}
	d.agents(p)
	p.add(d.Groups > 0 && d.PromptsPerGroup > maxPrompts/d.Groups, "dataset.groups",
		"%d groups of %d prompts are more than %d", d.Groups, d.PromptsPerGroup, maxPrompts)
	p.add(d.Arrivals != "" && d.Arrivals != Recorded, "dataset.arrivals", "arrivals %q: write %q, or leave it out", d.Arrivals, Recorded)
	p.add(d.Kind == Conversation && d.Slowdown != 0 && !d.Timed(), "dataset.slowdown",
		"it is about recorded times: write arrivals = %q beside it", Recorded)
	p.add(!(d.Slowdown >= 0) || math.IsInf(d.Slowdown, 0), "dataset.slowdown", "%v: it is a factor above zero",
		d.Slowdown)
	if r := d.RangeRatio; r != nil {
		p.add(!(*r >= 0 && *r <= 1), "dataset.range_ratio", "range ratio %v: it lies between 0 and 1", *r)
	}
}

// agents: sessions that are made have an end, and results a length.
func (d Dataset) agents(p *problems) {
	p.add(d.ToolCalls > maxCalls, "dataset.tool_calls", "%d calls: at most %d are possible", d.ToolCalls, maxCalls)
	p.add(d.SubAgents > maxCalls, "dataset.sub_agents", "%d sub-agents: at most %d are possible", d.SubAgents, maxCalls)
	p.add(d.ToolCalls > 0 && d.ResultTokens == 0, "dataset.result_tokens", "tools are called: say how long their results are")
	_, each := d.TurnRequests()
	bounded := d.Turns <= maxTurns && max(d.ToolCalls, d.SubAgents) <= maxCalls
	p.add(bounded && d.Turns > maxTurns/max(each, 1), "dataset.turns",
		"%d turns of %d requests, those of sub-agents among them: a session has at most %d", d.Turns, each, maxTurns)
}

// maxTurns bounds the requests of a conversation, or session, that is made, and maxCalls what an agent does in a turn.
const (
	maxTurns = 10_000
	maxCalls = 1000
)

// maxThinkTime is more than any server keeps a prefix for.
const maxThinkTime = Duration(24 * time.Hour)

func spaced(member string) string { return strings.ReplaceAll(member, "_", " ") }

func inWords(names []string) string { return strings.Join(names, ", ") }
