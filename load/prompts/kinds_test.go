package prompts

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
	"hclbench/tokenizer"
)

// asked is a request as a server gets it, and the lengths that it asks for.
type asked struct {
	Prompt   json.RawMessage `json:"prompt"`
	InputIDs json.RawMessage `json:"input_ids"`
	Text     json.RawMessage `json:"text"`
	Messages []struct{ Role, Content string }

	lengths [2]int
}

// prompt is what is asked, whatever the endpoint.
func (a asked) prompt() string {
	if a.Messages != nil {
		return a.Messages[0].Content
	}
	return string(slices.Concat(a.Prompt, a.InputIDs, a.Text))
}

func (a asked) ids(t *testing.T) (ids []int32) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.prompt()), &ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

// opened makes a data set ready, with a server that has a tokenizer or none.
func opened(t *testing.T, j load.Job, tokenizes bool) (*Set, error) {
	t.Helper()
	var server http.Handler = http.NotFoundHandler()
	if tokenizes {
		server = sim.New(sim.Config{})
	}
	h := httptest.NewServer(server)
	defer h.Close()
	j.Target.BaseURL, j.Target.Model = h.URL, sim.DefaultModel
	j.Workload.Endpoint = cmp.Or(j.Workload.Endpoint, load.Completions)
	return Open(t.Context(), j, j.Workload.Requests)
}

// requests are what a job sends: for its warm-up, and measured.
func requests(t *testing.T, j load.Job, tokenizes bool) (warm, measured []asked, source *load.Source) {
	t.Helper()
	set, err := opened(t, j, tokenizes)
	if err != nil {
		t.Fatal(err)
	}
	take := func(use uint64, n int) (list []asked) {
		q := set.Queue(use, n)
		for range n {
			s, ok := q.Next()
			if !ok {
				break
			}
			r := s.Request()
			a := asked{lengths: [2]int{r.Input, r.Output}}
			if err := json.Unmarshal(bytes.Join(r.Body, nil), &a); err != nil {
				t.Fatalf("%s: %v", r.Body, err)
			}
			list = append(list, a)
		}
		if _, ok := q.Next(); ok || q.Begun() != n {
			t.Errorf("%d of %d requests have begun, and another: %t", q.Begun(), n, ok)
		}
		return list
	}
	warm = take(ForWarmup, max(j.Workload.Warmup, 1))
	measured = take(ForPrompt, cmp.Or(j.Workload.Requests, len(set.Due)))
	return warm, measured, set.Drawn(len(measured), 0)
}

func words(n int) string { return strings.TrimSpace(strings.Repeat("w ", n)) }

// lengthsOf are the lengths that requests ask for, sorted.
func lengthsOf(list []asked) (pairs [][2]int) {
	for _, a := range list {
		pairs = append(pairs, a.lengths)
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	return pairs
}

func promptsOf(list []asked) (texts []string) {
	for _, a := range list {
		texts = append(texts, a.prompt())
	}
	slices.Sort(texts)
	return texts
}

// TestSharedPrefix: every group has its beginning, every prompt its own end, in
// shuffled order, and beyond the last they come again.
func TestSharedPrefix(t *testing.T) {
	for _, endpoint := range []string{load.Completions, load.Generate} {
		warm, sent, _ := requests(t, job(load.Workload{
			Dataset:  load.Dataset{Kind: load.SharedPrefix, Groups: 4, PromptsPerGroup: 5, PrefixTokens: 30, QuestionTokens: 10},
			Requests: 25, OutputTokens: 3, Endpoint: endpoint, Warmup: 2,
		}), false)
		groups, all := map[string]int{}, map[string]bool{}
		var order []string
		for i, a := range sent {
			ids := a.ids(t)
			if len(ids) != 40 || a.lengths != [2]int{40, 3} {
				t.Fatalf("%d ids, said to be %v", len(ids), a.lengths)
			}
			if i >= 20 {
				if a.prompt() != sent[i-20].prompt() {
					t.Errorf("prompt %d is not prompt %d again", i, i-20)
				}
				continue
			}
			prefix := fmt.Sprint(ids[:30])
			groups[prefix]++
			all[a.prompt()] = true
			order = append(order, prefix)
		}
		for prefix, n := range groups {
			if n != 5 || prefix == fmt.Sprint(warm[0].ids(t)[:30]) {
				t.Errorf("a beginning came %d times, want 5 and none for the warm-up", n)
			}
		}
		if len(groups) != 4 || len(all) != 20 || slices.IsSorted(order) {
			t.Errorf("%d beginnings of %d prompts, want 4 of 20, shuffled", len(groups), len(all))
		}
	}
}

// shareGPTFile has conversations with prompts and answers of the given lengths.
func shareGPTFile(pairs ...[2]int) string {
	var list []string
	for i, p := range pairs {
		list = append(list, fmt.Sprintf(`{"id": "%d", "conversations": [{"from": "human", "value": %q}, `+
			`{"from": "gpt", "value": %q}, {"from": "human", "value": "and?"}]}`, i, words(p[0]), words(p[1])))
	}
	return "[" + strings.Join(list, ",\n") + "]\n"
}

// TestShareGPT holds both filters at every threshold, and exact cuts.
func TestShareGPT(t *testing.T) {
	text := shareGPTFile([][2]int{{1, 50}, {2, 2}, {2, 1}, {3, 10}, {4, 4}, {4, 3}, {1024, 1024}, {1024, 1025}, {1025, 5}, {0, 0}}...)
	text = strings.Replace(text, "[", `[{"id": "short", "conversations": [{"from": "human", "value": "alone"}]}, {"id": "bad"}, {"conversations": 7}, `, 1)
	vllm := load.Dataset{Filter: load.ConventionVLLM}
	for _, c := range []struct {
		name    string
		d       load.Dataset
		output  int
		want    [][2]int
		leftOut int
	}{
		{"sglang", load.Dataset{}, 0, [][2]int{{2, 2}, {3, 10}, {4, 3}, {4, 4}, {1024, 1024}, {1024, 1025}, {1025, 5}}, 4},
		{"vllm", vllm, 0, [][2]int{{4, 4}, {1024, 1024}}, 9},
		{"vllm, output given", vllm, 2, [][2]int{{4, 2}, {4, 2}, {1024, 2}, {1024, 2}}, 7},
		{"cut", load.Dataset{InputTokens: 4, OutputTokens: 6}, 0, [][2]int{{4, 6}, {4, 6}, {4, 6}, {4, 6}, {4, 6}}, 6},
	} {
		c.d.Kind, c.d.Path = load.ShareGPT, written(t, "gpt.json", text)
		_, sent, source := requests(t, job(load.Workload{Dataset: c.d, Requests: len(c.want), OutputTokens: c.output}), true)
		// With as many requests as there are prompts, each comes once.
		if diff := gocmp.Diff(c.want, lengthsOf(sent)); diff != "" {
			t.Errorf("%s: lengths (-want +got):\n%s", c.name, diff)
		}
		want := &load.Source{Tokenizer: "server", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(text))), Prompts: len(c.want), LeftOut: source.LeftOut, Bad: 2,
			BadLines: []string{`entry 2: no list "conversations"`, `entry 3: "conversations" cannot be a number`}}
		if diff := gocmp.Diff(want, source); diff != "" || source.LeftOut > c.leftOut {
			t.Errorf("%s: %d left out, of %d that could be; source (-want +got):\n%s", c.name, source.LeftOut, c.leftOut, diff)
		}
		if n := len(sent[0].ids(t)); n != sent[0].lengths[0] {
			t.Errorf("%s: %d ids, said to be %d", c.name, n, sent[0].lengths[0])
		}
	}
	d := load.Dataset{Kind: load.ShareGPT, Path: written(t, "g.json", shareGPTFile([2]int{5, 3}, [2]int{6, 3}))}
	_, sent, source := requests(t, job(load.Workload{Dataset: d, Requests: 6, Endpoint: load.Chat}), true)
	if diff := gocmp.Diff([]string{words(5), words(5), words(5), words(6), words(6), words(6)}, promptsOf(sent)); diff != "" || source.Repeated != 4 {
		t.Errorf("as text for chat, again and again: %d repeated, prompts (-want +got):\n%s", source.Repeated, diff)
	}
}

// TestShareGPTOrder: another seed takes other conversations; the same, the same.
func TestShareGPTOrder(t *testing.T) {
	var pairs [][2]int
	for i := range 60 {
		pairs = append(pairs, [2]int{10 + i, 5})
	}
	w := load.Workload{Dataset: load.Dataset{Kind: load.ShareGPT, Path: written(t, "g.json", shareGPTFile(pairs...))}, Requests: 20, Warmup: 5}
	take := func(seed uint64) (lengths []int) {
		warm, sent, _ := requests(t, load.Job{Workload: w, Seed: seed}, true)
		for _, a := range append(warm, sent...) {
			lengths = append(lengths, a.lengths[0])
		}
		return lengths
	}
	a, b, c := take(1), take(1), take(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("seeds 1, 1, 2 sent\n%v\n%v\n%v", a, b, c)
	}
	slices.Sort(a)
	if len(slices.Compact(a)) != 25 {
		t.Errorf("the warm-up shares prompts with the measurement: %v", a)
	}
}

func TestJSONL(t *testing.T) {
	const mark = "\uFEFF" // of byte order, with which some editors begin a file
	const text = `{"prompt": "one two three", "output_tokens": 4}

{"prompt": "a é \"q\" <&>\n", "output_tokens": 2}
{"prompt": 3}
not JSON
{"prompt": "no length"}
{"prompt": "zero", "output_tokens": 0}
{"output_tokens": 3}
{"prompt": "five", "output_tokens": 5}`
	bad := []string{`line 4: "prompt" cannot be a number`, "line 5: invalid character 'o' in literal null (expecting 'u')",
		`line 6: no number "output_tokens", and none in the load block`, `line 7: "output_tokens" is 0: it must be at least 1`, `line 8: neither a text "prompt" nor a list "messages"`}
	quotes := []string{`"a é \"q\" \u003c\u0026\u003e\n"`, `"five"`, `"one two three"`}
	for _, c := range []struct {
		text, endpoint, counts string
		bad, want              []string
	}{
		{text, load.Completions, "none", bad, quotes},
		{mark + text, load.Generate, "none", bad, quotes},
		{text, load.Completions, "server", bad, []string{"[1000,1001,1002,1003]", "[1000,1001,1002]", "[1000]"}},
		{text, load.Chat, "server", bad, []string{"a é \"q\" <&>\n", "five", "one two three"}},
		{mark + `[{"prompt": "one", "output_tokens": 4}, {"prompt": "two", "output_tokens": 7}]`, load.Completions, "none", nil, []string{`"one"`, `"two"`}},
	} {
		w := load.Workload{Dataset: load.Dataset{Kind: load.JSONL, Path: written(t, "p.jsonl", c.text)}, Requests: len(c.want), Endpoint: c.endpoint}
		_, sent, source := requests(t, job(w), c.counts == "server")
		output := 0
		for _, a := range sent {
			output += a.lengths[1]
		}
		if output != 11 || source.Bad != len(c.bad) || source.Prompts != len(c.want) || source.Tokenizer != c.counts {
			t.Errorf("%s: %d tokens of output, %+v", c.endpoint, output, source)
		}
		if diff := gocmp.Diff(c.bad, source.BadLines) + gocmp.Diff(c.want, promptsOf(sent)); diff != "" {
			t.Errorf("%s: bad lines and prompts (-want +got):\n%s", c.endpoint, diff)
		}
	}
}

func TestBadFiles(t *testing.T) {
	const good = `{"prompt":"a","output_tokens":1}` + "\n"
	long := strings.Repeat("x\n", 20) + strings.Repeat(good, 1000)
	few := strings.Repeat("x\n", 11) + strings.Repeat(good, 1100)
	zeros := strings.Repeat("0", 64)
	for _, c := range []struct {
		d    load.Dataset
		text string
		want string // empty: good
	}{
		{load.Dataset{Kind: load.JSONL}, long, "20 of 1020 entries are bad: line 1: invalid character 'x'"},
		{load.Dataset{Kind: load.JSONL}, few, ""},
		{load.Dataset{Kind: load.JSONL}, "", "no prompt can be used"},
		{load.Dataset{Kind: load.JSONL}, " \n\n", "no prompt can be used"},
		{load.Dataset{Kind: load.JSONL}, "x", "0 are too short or too long, and 1 are bad (line 1: invalid"},
		{load.Dataset{Kind: load.JSONL, SHA256: zeros}, "x", "its sha256 is 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, not 0000"},
		{load.Dataset{Kind: load.JSONL, SHA256: "E79B34AC81AC29E8C0CA63C5EB7BEC7DEF3F7D2CFB2B5AA5B2E9A7D0AF4C2F1C"}, good, "its sha256 is"},
		{load.Dataset{Kind: load.ShareGPT}, `[{"conversations":[]}, {"conversations":`, "entry 2: unexpected EOF"},
		{load.Dataset{Kind: load.ShareGPT, SHA256: zeros}, `[{]`, "its sha256 is"},
		{load.Dataset{Kind: load.ShareGPT}, `[]`, "no prompt can be used"},
		{load.Dataset{Kind: load.Trace}, "", "the trace has no requests"},
		{load.Dataset{Kind: load.Trace}, `{"timestamp": 1e300, "input_length": 1, "output_length": 1}`, `line 1: "timestamp" is 1e+300 ms`},
		{load.Dataset{Kind: load.Trace}, `{"timestamp": 0, "messages": [], "output_length": 1}`, `line 1: it has messages: use a data set of kind "conversation"`},
		{load.Dataset{Kind: load.Text, InputTokens: 4}, "only three words", "has 3 tokens, and a prompt needs 4"},
		{load.Dataset{Kind: load.Text, InputTokens: 4, SHA256: zeros}, "a b c d", "its sha256 is"},
		{load.Dataset{Kind: load.Text, InputTokens: 4}, "", "it is empty"},
	} {
		c.d.Path = written(t, "f", c.text)
		set, err := opened(t, job(load.Workload{Dataset: c.d, Requests: 1}), true)
		if c.want == "" {
			if err != nil || set.source.Bad != 11 {
				t.Errorf("%.20q: %v", c.text, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.20q: error %v, want one with %q", c.d.Kind, c.text, err, c.want)
		}
		if err := CheckInputs(job(load.Workload{Dataset: c.d})); c.d.SHA256 != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %.20q, looked at before: error %v, want one with %q", c.d.Kind, c.text, err, c.want)
		}
	}
	d := load.Dataset{Kind: load.Text, Path: written(t, "f", "a b"), InputTokens: 1}
	_, err := opened(t, job(load.Workload{Dataset: d, Requests: 1}), false)
	if want := "needs a tokenizer, and the server has no /tokenize: name the model's tokenizer.json"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("without a tokenizer: %v, want %q", err, want)
	}
	worker := httptest.NewServer(sim.New(sim.Config{}))
	defer worker.Close()
	behind := job(load.Workload{Dataset: d, Requests: 1})
	behind.Target.TokenizeURL = worker.URL
	if _, err := opened(t, behind, false); err != nil {
		t.Errorf("with a router that has no tokenizer, before a worker that has one: %v", err)
	}
}

// TestFiles: a job says where the files of its data set lie here.
func TestFiles(t *testing.T) {
	j := job(load.Workload{Dataset: load.Dataset{Kind: load.JSONL, Path: "data/p.jsonl"}, Requests: 1})
	j.Files = map[string]string{"data/p.jsonl": written(t, "abc", `{"prompt":"a b","output_tokens":3}`)}
	if _, sent, _ := requests(t, j, true); sent[0].lengths != [2]int{2, 3} {
		t.Errorf("lengths %v", sent[0].lengths)
	}
	if diff := gocmp.Diff([]string{"a", "b"}, load.Dataset{Path: "a", Tokenizer: "b"}.Inputs()); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

// TestText: cuts are exact, each from a place of its own, over all files.
func TestText(t *testing.T) {
	dir := t.TempDir()
	for name, n := range map[string]int{"b.txt": 40_000, "a.txt": 100, ".hidden": 5000} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(words(n)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, sent, source := requests(t, job(load.Workload{Dataset: load.Dataset{Kind: load.Text, Path: dir, InputTokens: 70}, Requests: 30, OutputTokens: 2}), true)
	if source.Prompts != 40_100-69 || source.Tokenizer != "server" {
		t.Errorf("source %+v", source)
	}
	for _, a := range sent {
		if len(a.ids(t)) != 70 || a.lengths != [2]int{70, 2} {
			t.Errorf("%d ids, said to be %v", len(a.ids(t)), a.lengths)
		}
	}
	if places := len(slices.Compact(promptsOf(sent))); places < 28 {
		t.Errorf("30 cuts from %d places", places)
	}
}

// TestTrace: equal hashes are equal tokens, in the order of the recording.
func TestTrace(t *testing.T) {
	_, sent, _ := requests(t, job(load.Workload{Dataset: load.Dataset{Kind: load.Trace, Path: written(t, "t.jsonl", `
{"timestamp": 3000, "input_length": 600, "output_length": 2, "hash_ids": [7, 9]}
{"timestamp": 1000, "input_length": 1030, "output_length": 3, "hash_ids": [7, 8, 5]}
{"timestamp": 1000.5, "input_length": 514, "output_length": 4, "hash_ids": [1]}`)}}), false)
	var ids [][]int32
	for i, want := range [][2]int{{1030, 3}, {514, 4}, {600, 2}} {
		if ids = append(ids, sent[i].ids(t)); len(ids[i]) != want[0] || sent[i].lengths != want {
			t.Errorf("request %d has %d ids and asks for %v, want %v", i, len(ids[i]), sent[i].lengths, want)
		}
	}
	if !slices.Equal(ids[0][:512], ids[2][:512]) || slices.Equal(ids[0][512:600], ids[2][512:600]) || slices.Equal(ids[0][:512], ids[1][:512]) {
		t.Error("blocks are not as their hash ids")
	}
}

// TestTokenizerFile: lengths are those of the model's own tokenizer, prompts
// travel as its token ids, and on chat as the text that those make.
func TestTokenizerFile(t *testing.T) {
	const qwen = "../../testdata/tokenizers/qwen2-shaped.json"
	file, err := os.ReadFile(qwen)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Read(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	label := fmt.Sprintf("qwen2-shaped.json sha256:%x", sha256.Sum256(file))
	const reply = "It depends."
	question := strings.Repeat("How does the server decide what goes into a batch, and what waits? ", 20)
	ids, answer := tok.Encode(question), len(tok.Encode(reply))
	gpt := written(t, "gpt.json", fmt.Sprintf(`[{"conversations": [{"from": "human", "value": %q}, {"from": "gpt", "value": %q}]}]`, question, reply))
	for _, c := range []struct {
		d       load.Dataset
		output  int
		lengths [2]int
	}{
		{load.Dataset{Kind: load.ShareGPT, Path: gpt}, 0, [2]int{len(ids), answer}},
		{load.Dataset{Kind: load.ShareGPT, Path: gpt, InputTokens: 50}, 0, [2]int{50, answer}},
		{load.Dataset{Kind: load.Text, Path: written(t, "book.txt", question), InputTokens: 40}, 7, [2]int{40, 7}},
	} {
		c.d.Tokenizer = qwen
		w := load.Workload{Dataset: c.d, Requests: 1, OutputTokens: c.output}
		_, sent, source := requests(t, job(w), false)
		if sent[0].lengths != c.lengths || source.Tokenizer != label {
			t.Errorf("%s: asked for %v tokens, want %v; counted by %q", c.d.Kind, sent[0].lengths, c.lengths, source.Tokenizer)
		}
		got := sent[0].ids(t)
		if len(got) != c.lengths[0] || c.d.Kind == load.ShareGPT && !slices.Equal(got, ids[:len(got)]) {
			t.Errorf("%s: ids %v", c.d.Kind, got)
		}
		w.Endpoint = load.Chat
		_, sent, _ = requests(t, job(w), false)
		if n := len(tok.Encode(sent[0].prompt())); !strings.Contains(question, sent[0].prompt()) || n > c.lengths[0]+1 || n < c.lengths[0]-1 {
			t.Errorf("%s: %d tokens of text %q", c.d.Kind, n, sent[0].prompt())
		}
	}
	for path, want := range map[string]string{written(t, "tokenizer.json", "{}"): "tokenizer tokenizer.json: ", "no/no.json": "open data set file no.json"} {
		if _, err := opened(t, job(load.Workload{Dataset: load.Dataset{Kind: load.ShareGPT, Path: gpt, Tokenizer: path}, Requests: 1}), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
