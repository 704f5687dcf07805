package measure

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

// sentBody is a request as a server got it.
type sentBody struct {
	Path     string
	Prompt   json.RawMessage `json:"prompt"`
	InputIDs json.RawMessage `json:"input_ids"`
	Text     json.RawMessage `json:"text"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	MaxTokens int `json:"max_tokens"`
	Sampling  struct {
		MaxNewTokens int `json:"max_new_tokens"`
	} `json:"sampling_params"`
}

// prompt is what was asked, whatever the endpoint.
func (b sentBody) prompt() string {
	return string(slices.Concat(b.Prompt, b.InputIDs, b.Text))
}

// listener is a simulated engine that remembers what it was asked for.
type listener struct {
	mu   sync.Mutex
	sent []sentBody
	sim  *sim.Server
}

func (l *listener) bodies() []sentBody {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}

// listening starts one; without a tokenizer, its /tokenize is not there.
func listening(t *testing.T, tokenizer bool) (*listener, load.Target) {
	t.Helper()
	l := &listener{sim: sim.New(instant(sim.Config{}))}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" {
			if !tokenizer {
				http.NotFound(w, r)
				return
			}
			l.sim.ServeHTTP(w, r)
			return
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		b := sentBody{Path: r.URL.Path}
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		l.mu.Lock()
		l.sent = append(l.sent, b)
		l.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(raw))
		l.sim.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return l, load.Target{BaseURL: h.URL, Model: sim.DefaultModel}
}

// written is a file with a text.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func words(n int) string { return strings.TrimSpace(strings.Repeat("w ", n)) }

// TestSharedPrefix: every group has its beginning, every prompt its own end, in
// shuffled order, and beyond the last they come again.
func TestSharedPrefix(t *testing.T) {
	for _, endpoint := range []string{load.Completions, load.Generate} {
		l, target := listening(t, false)
		r := run(t, target, load.Workload{
			Dataset:  load.Dataset{Kind: load.SharedPrefix, Groups: 4, PromptsPerGroup: 5, PrefixTokens: 30, QuestionTokens: 10},
			Requests: 25, Concurrency: 1, OutputTokens: 3, IgnoreEOS: true, Endpoint: endpoint, Warmup: 2,
		})
		if s := r.Summary; s.Verdict.Verdict != load.Valid && s.Completed != 25 || s.InputTokens != 25*40 || s.OutputTokens != 75 {
			t.Errorf("%d completed, %d and %d tokens, %v", s.Completed, s.InputTokens, s.OutputTokens, s.Verdict)
		}
		sent := l.bodies()
		groups, all := map[string]int{}, map[string]bool{}
		var order []string
		for _, b := range sent[2:22] {
			var ids []int
			if err := json.Unmarshal([]byte(b.prompt()), &ids); err != nil || len(ids) != 40 {
				t.Fatalf("%d ids, %v", len(ids), err)
			}
			prefix := fmt.Sprint(ids[:30])
			groups[prefix]++
			all[b.prompt()] = true
			order = append(order, prefix)
		}
		for prefix, n := range groups {
			if n != 5 || strings.HasPrefix(sent[0].prompt(), prefix[:40]) {
				t.Errorf("a beginning came %d times, want 5 and none for the warm-up", n)
			}
		}
		if len(groups) != 4 || len(all) != 20 || slices.IsSorted(order) {
			t.Errorf("%d beginnings of %d prompts, want 4 of 20, shuffled", len(groups), len(all))
		}
		for i := range 5 {
			if sent[22+i].prompt() != sent[2+i].prompt() {
				t.Errorf("prompt %d is not prompt %d again", 20+i, i)
			}
		}
	}
}

// shareGPTFile has conversations with prompts and answers of the given lengths.
func shareGPTFile(t *testing.T, pairs [][2]int) string {
	var list []string
	for i, p := range pairs {
		list = append(list, fmt.Sprintf(`{"id": "%d", "conversations": [{"from": "human", "value": %q}, {"from": "gpt", "value": %q}, {"from": "human", "value": "and?"}]}`, i, words(p[0]), words(p[1])))
	}
	return "[" + strings.Join(list, ",\n") + "]\n"
}

// lengthPairs are the asked input and output lengths of a run's records, sorted.
func lengthPairs(records []load.Record) (pairs [][2]int) {
	for _, r := range records {
		pairs = append(pairs, [2]int{r.InputTokens, r.OutputTokens})
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	return pairs
}

// TestShareGPT holds both filters at every threshold, and exact cuts.
func TestShareGPT(t *testing.T) {
	all := [][2]int{{1, 50}, {2, 2}, {2, 1}, {3, 10}, {4, 4}, {4, 3}, {1024, 1024}, {1024, 1025}, {1025, 5}, {0, 0}}
	text := shareGPTFile(t, all)
	text = strings.Replace(text, "[", `[{"id": "short", "conversations": [{"from": "human", "value": "alone"}]}, {"id": "bad"}, {"conversations": 7}, `, 1)
	for _, c := range []struct {
		name    string
		d       load.Dataset
		output  int
		want    [][2]int
		leftOut int
	}{
		{"sglang", load.Dataset{}, 0, [][2]int{{2, 2}, {3, 10}, {4, 3}, {4, 4}, {1024, 1024}, {1024, 1025}, {1025, 5}}, 4},
		{"vllm", load.Dataset{Filter: load.ConventionVLLM}, 0, [][2]int{{4, 4}, {1024, 1024}}, 9},
		{"vllm, output given", load.Dataset{Filter: load.ConventionVLLM}, 2, [][2]int{{4, 2}, {4, 2}, {1024, 2}, {1024, 2}}, 7},
		{"cut", load.Dataset{InputTokens: 4, OutputTokens: 6}, 0, [][2]int{{4, 6}, {4, 6}, {4, 6}, {4, 6}, {4, 6}}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, target := listening(t, true)
			c.d.Kind, c.d.Path = load.ShareGPT, written(t, "gpt.json", text)
			r := run(t, target, load.Workload{Dataset: c.d, Requests: len(c.want), Concurrency: 2, OutputTokens: c.output, IgnoreEOS: true, Endpoint: load.Completions})
			// With as many requests as there are prompts, each comes once.
			if diff := gocmp.Diff(c.want, lengthPairs(r.Records)); diff != "" {
				t.Errorf("lengths (-want +got):\n%s", diff)
			}
			if s := r.Summary; s.InputTokens != s.AskedInput || s.OutputTokens != s.AskedOutput || s.Failed > 0 {
				t.Errorf("tokens %d of %d, %d of %d, %v", s.InputTokens, s.AskedInput, s.OutputTokens, s.AskedOutput, s.ErrorSamples)
			}
			sum := sha256.Sum256([]byte(text))
			want := &load.Source{Tokenizer: "server", SHA256: hex.EncodeToString(sum[:]), Prompts: len(c.want), LeftOut: r.Summary.Source.LeftOut, Bad: 2,
				BadLines: []string{`entry 2: no list "conversations"`, `entry 3: "conversations" is a number, which it cannot be`}}
			if diff := gocmp.Diff(want, r.Summary.Source); diff != "" {
				t.Errorf("source (-want +got):\n%s", diff)
			}
			if n := r.Summary.Source.LeftOut; n > c.leftOut {
				t.Errorf("%d left out, of %d that could be", n, c.leftOut)
			}
			if b := l.bodies()[0]; !strings.HasPrefix(b.prompt(), "[1000") {
				t.Errorf("prompt %.40s, want token ids", b.prompt())
			}
		})
	}
	t.Run("as text for chat, again and again", func(t *testing.T) {
		_, target := listening(t, true)
		r := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.ShareGPT, Path: written(t, "g.json", shareGPTFile(t, [][2]int{{5, 3}, {6, 3}}))}, Requests: 6, Concurrency: 1, Endpoint: load.Chat, IgnoreEOS: true})
		if diff := gocmp.Diff([][2]int{{5, 3}, {5, 3}, {5, 3}, {6, 3}, {6, 3}, {6, 3}}, lengthPairs(r.Records)); diff != "" || r.Summary.Source.Repeated != 4 {
			t.Errorf("%d repeated, lengths (-want +got):\n%s", r.Summary.Source.Repeated, diff)
		}
	})
}

// TestShareGPTOrder: another seed takes other conversations; the same, the same.
func TestShareGPTOrder(t *testing.T) {
	var pairs [][2]int
	for i := range 60 {
		pairs = append(pairs, [2]int{10 + i, 5})
	}
	path := written(t, "g.json", shareGPTFile(t, pairs))
	l, target := listening(t, true)
	take := func(seed uint64) (lengths []int) {
		before := len(l.bodies())
		w := load.Workload{Dataset: load.Dataset{Kind: load.ShareGPT, Path: path}, Requests: 20, Warmup: 5, Concurrency: 1, Endpoint: load.Completions}
		if _, err := Run(t.Context(), load.Job{Target: target, Workload: w, Seed: seed}, nil); err != nil {
			t.Fatal(err)
		}
		for _, b := range l.bodies()[before:] {
			lengths = append(lengths, strings.Count(b.prompt(), ",")+1)
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
	text := `{"prompt": "one two three", "output_tokens": 4}

{"prompt": "a é \"q\" <&>\n", "output_tokens": 2}
{"prompt": 3}
not JSON
{"prompt": "no length"}
{"prompt": "zero", "output_tokens": 0}
{"output_tokens": 3}
{"prompt": "five", "output_tokens": 5}`
	path := written(t, "p.jsonl", text)
	bad := []string{`line 4: "prompt" is a number, which it cannot be`, "line 5: invalid character 'o' in literal null (expecting 'u')",
		`line 6: no number "output_tokens", and the load says none`, `line 7: "output_tokens" is 0`, `line 8: no text "prompt"`}
	for _, c := range []struct {
		endpoint  string
		tokenizer bool
		want      []string
	}{
		{load.Completions, false, []string{`"a é \"q\" \u003c\u0026\u003e\n"`, `"five"`, `"one two three"`}},
		{load.Generate, false, []string{`"a é \"q\" \u003c\u0026\u003e\n"`, `"five"`, `"one two three"`}},
		{load.Completions, true, []string{"[1000,1001,1002,1003]", "[1000,1001,1002]", "[1000]"}},
		{load.Chat, true, nil},
	} {
		l, target := listening(t, c.tokenizer)
		r := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.JSONL, Path: path}, Requests: 3, Concurrency: 1, IgnoreEOS: true, Endpoint: c.endpoint})
		if s := r.Summary; s.Completed != 3 || s.OutputTokens != 11 || s.Source.Bad != 5 || s.Source.Prompts != 3 {
			t.Errorf("%s: %d completed, %d tokens, %+v", c.endpoint, s.Completed, s.OutputTokens, s.Source)
		}
		if diff := gocmp.Diff(bad, r.Summary.Source.BadLines); diff != "" {
			t.Errorf("bad lines (-want +got):\n%s", diff)
		}
		if want := map[bool]string{true: "server", false: "none"}[c.tokenizer]; r.Summary.Source.Tokenizer != want {
			t.Errorf("tokenizer %q, want %q", r.Summary.Source.Tokenizer, want)
		}
		var got, texts []string
		for _, b := range l.bodies() {
			got = append(got, b.prompt())
			for _, m := range b.Messages {
				texts = append(texts, m.Content)
			}
		}
		slices.Sort(got)
		slices.Sort(texts)
		if c.endpoint == load.Chat {
			if diff := gocmp.Diff([]string{"a é \"q\" <&>\n", "five", "one two three"}, texts); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		} else if diff := gocmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s prompts (-want +got):\n%s", c.endpoint, diff)
		}
	}
}

func TestBadFiles(t *testing.T) {
	long := strings.Repeat("x\n", 20) + strings.Repeat(`{"prompt":"a","output_tokens":1}`+"\n", 1000)
	few := strings.Repeat("x\n", 11) + strings.Repeat(`{"prompt":"a","output_tokens":1}`+"\n", 1100)
	for _, c := range []struct {
		d    load.Dataset
		text string
		want string // empty: good
	}{
		{load.Dataset{Kind: load.JSONL}, long, "20 of 1020 entries are bad: line 1: invalid character 'x'"},
		{load.Dataset{Kind: load.JSONL}, few, ""},
		{load.Dataset{Kind: load.JSONL}, "", "no prompt is left"},
		{load.Dataset{Kind: load.JSONL}, " \n\n", "no prompt is left"},
		{load.Dataset{Kind: load.JSONL}, "x", "0 were too short or too long, and 1 bad (line 1: invalid"},
		{load.Dataset{Kind: load.JSONL, SHA256: strings.Repeat("0", 64)}, "x", "its sha256 is 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, not 0000"},
		{load.Dataset{Kind: load.JSONL, SHA256: "E79B34AC81AC29E8C0CA63C5EB7BEC7DEF3F7D2CFB2B5AA5B2E9A7D0AF4C2F1C"}, `{"prompt":"a","output_tokens":1}`, "its sha256 is"},
		{load.Dataset{Kind: load.ShareGPT}, `[{"conversations":[]}, {"conversations":`, "entry 2: unexpected EOF"},
		{load.Dataset{Kind: load.ShareGPT, SHA256: strings.Repeat("0", 64)}, `[{]`, "its sha256 is"},
		{load.Dataset{Kind: load.ShareGPT}, `[]`, "no prompt is left"},
		{load.Dataset{Kind: load.Trace}, "", "the trace has no requests"},
		{load.Dataset{Kind: load.Trace}, `{"timestamp": 1e300, "input_length": 1, "output_length": 1}`, `line 1: "timestamp" is 1e+300 ms`},
		{load.Dataset{Kind: load.Text, InputTokens: 4}, "only three words", "has 3 tokens, and a prompt is to have 4"},
	} {
		_, target := listening(t, true)
		c.d.Path = written(t, "f", c.text)
		w := load.Workload{Dataset: c.d, Requests: 1, Concurrency: 1, OutputTokens: 1, Endpoint: load.Completions}
		if c.d.Kind != load.Text {
			w.OutputTokens = 0
		}
		r, err := Run(t.Context(), load.Job{Target: target, Workload: w}, nil)
		if c.want == "" {
			if err != nil || r.Summary.Source.Bad != 11 {
				t.Errorf("%.20q: %v", c.text, err)
			}
			continue
		}
		if r != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.20q: error %v, want one with %q", c.d.Kind, c.text, err, c.want)
		}
	}
	_, target := listening(t, false)
	w := load.Workload{Dataset: load.Dataset{Kind: load.Text, Path: written(t, "f", "a b"), InputTokens: 1}, Requests: 1, Concurrency: 1, OutputTokens: 1, Endpoint: load.Completions}
	if _, err := Run(t.Context(), load.Job{Target: target, Workload: w}, nil); err == nil || !strings.Contains(err.Error(), `needs a tokenizer, and the server has no /tokenize: name the model's tokenizer.json`) {
		t.Errorf("without a tokenizer: %v", err)
	}
}

// TestFiles: a job says where the files of its data set lie here.
func TestFiles(t *testing.T) {
	here := written(t, "abc", `{"prompt":"a b","output_tokens":3}`)
	d := load.Dataset{Kind: load.JSONL, Path: "data/p.jsonl", Tokenizer: "t.json"}
	if diff := gocmp.Diff([]string{"data/p.jsonl", "t.json"}, d.Inputs()); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	d.Tokenizer = ""
	_, target := listening(t, true)
	r, err := Run(t.Context(), load.Job{Target: target, Files: map[string]string{"data/p.jsonl": here},
		Workload: load.Workload{Dataset: d, Requests: 1, Concurrency: 1, Endpoint: load.Completions}}, nil)
	if err != nil || r.Summary.OutputTokens != 3 {
		t.Errorf("%v, %v", r, err)
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
	l, target := listening(t, true)
	r := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.Text, Path: dir, InputTokens: 70}, Requests: 30, Concurrency: 3, OutputTokens: 2, IgnoreEOS: true, Endpoint: load.Completions})
	if s := r.Summary; s.InputTokens != 30*70 || s.AskedInput != 30*70 || s.Source.Prompts != 40_100-69 || s.Source.Tokenizer != "server" {
		t.Errorf("%d input tokens, %+v", s.InputTokens, s.Source)
	}
	places := map[string]bool{}
	for _, b := range l.bodies() {
		places[b.prompt()] = true
	}
	if len(places) < 28 {
		t.Errorf("30 cuts from %d places", len(places))
	}
}

// TestTrace: requests leave at the times of the recording, and equal hashes are
// equal tokens.
func TestTrace(t *testing.T) {
	text := `{"timestamp": 3000, "input_length": 600, "output_length": 2, "hash_ids": [7, 9]}
{"timestamp": 1000, "input_length": 1030, "output_length": 3, "hash_ids": [7, 8, 5]}
{"timestamp": 1000.5, "input_length": 514, "output_length": 4, "hash_ids": [1]}
{"timestamp": 9000, "input_length": 5, "output_length": 4}
`
	d := load.Dataset{Kind: load.Trace, Path: written(t, "t.jsonl", text), Slowdown: 2}
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			w    load.Workload
			want []moment
		}{
			{load.Workload{}, []moment{{}, {msec, msec, msec}, {4 * time.Second, 4 * time.Second, 4 * time.Second}, {16 * time.Second, 16 * time.Second, 16 * time.Second}}},
			{load.Workload{Requests: 2}, []moment{{}, {msec, msec, msec}}},
			{load.Workload{Duration: load.Duration(4 * time.Second)}, []moment{{}, {msec, msec, msec}}},
			{load.Workload{Requests: 3, Concurrency: 1}, []moment{{}, {msec, 5 * time.Second, 5 * time.Second}, {4 * time.Second, 10 * time.Second, 10 * time.Second}}},
		} {
			s, records := pacedOf(t, t.Context(), d, c.w, 5*time.Second)
			if diff := gocmp.Diff(c.want, moments(records)); diff != "" {
				t.Errorf("%+v: moments (-want +got):\n%s", c.w, diff)
			}
			if s.SendLag.Max != 0 {
				t.Errorf("send lag %v ms", s.SendLag.Max)
			}
		}
	})
	l, target := listening(t, false)
	d.Slowdown = 0.001
	r := run(t, target, load.Workload{Dataset: d, Concurrency: 1, Endpoint: load.Completions, IgnoreEOS: true})
	if diff := gocmp.Diff([][2]int{{5, 4}, {514, 4}, {600, 2}, {1030, 3}}, lengthPairs(r.Records)); diff != "" {
		t.Errorf("lengths (-want +got):\n%s", diff)
	}
	var ids [][]int
	for _, b := range l.bodies() {
		var one []int
		if err := json.Unmarshal(b.Prompt, &one); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, one)
	}
	if !slices.Equal(ids[0][:512], ids[2][:512]) || slices.Equal(ids[0][512:600], ids[2][512:600]) || slices.Equal(ids[0][:512], ids[1][:512]) {
		t.Error("blocks are not as their hash ids")
	}
}

// TestByteOrderMark: a file that begins with one is read as any other.
func TestByteOrderMark(t *testing.T) {
	const mark = "\uFEFF"
	for name, text := range map[string]string{
		"lines": mark + `{"prompt": "one", "output_tokens": 1}` + "\n" + `{"prompt": "two", "output_tokens": 1}`,
		"array": mark + `[{"prompt": "one", "output_tokens": 1}, {"prompt": "two", "output_tokens": 1}]`,
	} {
		l, target := listening(t, false)
		s := run(t, target, load.Workload{Dataset: load.Dataset{Kind: load.JSONL, Path: written(t, "p.jsonl", text)}, Requests: 2, Concurrency: 1, IgnoreEOS: true, Endpoint: load.Completions}).Summary
		var prompts []string
		for _, b := range l.bodies() {
			prompts = append(prompts, b.prompt())
		}
		slices.Sort(prompts)
		if diff := gocmp.Diff([]string{`"one"`, `"two"`}, prompts); diff != "" || s.Source.Bad != 0 {
			t.Errorf("%s: %+v, prompts (-want +got):\n%s", name, s.Source, diff)
		}
	}
}
