package measure

import (
	"bytes"
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

// listener is a simulated engine that remembers what was said to it: each request,
// message by message.
type listener struct {
	mu   sync.Mutex
	said [][]string
}

// heard is what it was sent. No request is left by then, but the race detector cannot see that.
func (l *listener) heard() [][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said
}

// listening starts one; without a tokenizer, its /tokenize is not there.
func listening(t *testing.T, tokenizer bool) (*listener, load.Target) {
	t.Helper()
	l, engine := &listener{}, sim.New(instant(sim.Config{}))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tokenize" && !tokenizer {
			http.NotFound(w, r)
			return
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		var body struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		var list []string
		for _, m := range body.Messages {
			list = append(list, m.Role+": "+m.Content)
		}
		if list != nil {
			l.mu.Lock()
			l.said = append(l.said, list)
			l.mu.Unlock()
		}
		engine.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return l, load.Target{BaseURL: h.URL, Model: sim.DefaultModel}
}

// written is a file with a text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// chats are n conversations of three turns, with answers of 2, 3 and 4 words.
func chats(n int) string {
	var s strings.Builder
	for i := range n {
		if i%2 == 0 {
			fmt.Fprintf(&s, `{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "c%d \"one\""}, {"role": "assistant", "content": "a b"}, {"role": "user", "content": "two"}, {"role": "assistant", "content": "a b c"}, {"role": "user", "content": "three"}, {"role": "assistant", "content": "a b c d"}]}`+"\n", i)
		} else {
			fmt.Fprintf(&s, `{"conversations": [{"from": "system", "value": "be brief"}, {"from": "human", "value": "c%d \"one\""}, {"from": "gpt", "value": "a b"}, {"from": "human", "value": "two"}, {"from": "gpt", "value": "a b c"}, {"from": "human", "value": "three"}, {"from": "gpt", "value": "a b c d"}]}`+"\n", i)
		}
	}
	return s.String()
}

// TestConversation: the turns of a conversation come one after the other, each with all that was
// said before, the server's answers included; different conversations go on side by side.
func TestConversation(t *testing.T) {
	bad := `{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
{"messages": [{"role": "robot", "content": "a"}]}
{"conversations": [{"from": "gpt", "value": "in the middle"}]}
{"text": "x"}
`
	for name, w := range map[string]load.Workload{
		"closed": {Concurrency: 4},
		"open":   {Rate: 2000, Burstiness: load.Inf},
		"capped": {Rate: 2000, Concurrency: 2},
		"whole":  {Concurrency: 3, NoStream: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, target := listening(t, true)
			w.Dataset = load.Dataset{Kind: load.Conversation, Path: written(t, chats(10)+bad)}
			w.Requests, w.Endpoint, w.IgnoreEOS = 30, load.Chat, true
			r := run(t, target, w)
			if s := r.Summary; s.Completed != 30 || s.OutputTokens != 10*(2+3+4) || s.OutputTokens != s.AskedOutput {
				t.Errorf("%d completed, %d tokens of %d: %v", s.Completed, s.OutputTokens, s.AskedOutput, s.ErrorSamples)
			}
			if src := r.Summary.Source; src.Prompts != 10 || src.Bad != 3 || src.LeftOut != 1 || src.Tokenizer != "server" || src.BadLines[0] != "line 11: message 2: a second question without an answer in between" {
				t.Errorf("source %+v", src)
			}
			talks := map[string][][]string{}
			for _, list := range l.heard() {
				talks[list[1]] = append(talks[list[1]], list)
			}
			if len(talks) != 10 {
				t.Fatalf("%d conversations, want 10", len(talks))
			}
			for first, turns := range talks {
				one := []string{"system: be brief", first}
				two := append(slices.Clone(one), "assistant:  the of", "user: two")
				three := append(slices.Clone(two), "assistant:  the of and", "user: three")
				if diff := cmp.Diff([][]string{one, two, three}, turns); diff != "" {
					t.Errorf("conversation %q (-want +got):\n%s", first, diff)
				}
			}
			// A turn is sent when the one before it is over.
			if name == "closed" && r.Summary.PeakConcurrency > 4 || name == "capped" && r.Summary.PeakConcurrency > 2 {
				t.Errorf("%d in flight", r.Summary.PeakConcurrency)
			}
		})
	}
}

// TestConversationEnds: a run ends with its requests, in the middle of a
// conversation too, and one whose turn failed does not go on.
func TestConversationEnds(t *testing.T) {
	path := written(t, chats(6))
	l, target := listening(t, false)
	w := load.Workload{Dataset: load.Dataset{Kind: load.Conversation, Path: path}, Requests: 4, Concurrency: 1, OutputTokens: 5, Endpoint: load.Chat, Warmup: 2}
	r := run(t, target, w)
	var lengths []int
	said := l.heard()
	for _, list := range said {
		lengths = append(lengths, len(list))
	}
	if diff := cmp.Diff([]int{2, 4, 2, 4, 6, 2}, lengths); diff != "" || r.Summary.OutputTokens != 20 || r.Summary.Source.Tokenizer != "none" {
		t.Errorf("%d tokens, messages of the requests (-want +got):\n%s", r.Summary.OutputTokens, diff)
	}
	if warm, first := said[0][1], said[2][1]; warm == first {
		t.Errorf("the warm-up and the measurement both begin with %q", warm)
	}
	if r.Records[1].Scheduled < r.Records[0].End || r.Records[2].Sent < r.Records[1].End {
		t.Errorf("turns overlap: %+v", r.Records)
	}

	_, failing := engine(t, instant(sim.Config{FailEvery: 2}))
	w.Warmup, w.Requests = 0, 8
	r = run(t, failing, w)
	// Turn 1 succeeds, turn 2 fails, and another conversation begins.
	if s := r.Summary; s.Completed != 4 || s.Failed != 4 || s.InputTokens != 4*(2+2) {
		t.Errorf("%d completed, %d failed, %d input tokens", s.Completed, s.Failed, s.InputTokens)
	}

	// What one that failed has not asked is asked by another, also where the last had been handed out before.
	_, late := engine(t, sim.Config{TTFT: 30 * time.Millisecond, ITL: -1, FailEvery: 2})
	w.Requests = 3
	if s := run(t, late, w).Summary; s.Requests != 3 {
		t.Errorf("%d requests were sent, want 3", s.Requests)
	}

	_, slow := engine(t, sim.Config{TTFT: 600 * time.Millisecond, ITL: -1})
	w.Requests, w.Duration = 0, load.Duration(time.Second)
	if s := run(t, slow, w).Summary; s.Completed != 2 {
		t.Errorf("%d requests in 1 s of 600 ms each, want 2", s.Completed)
	}
}

// TestWarmedConversations: with fewer conversations than the warm-up and the measurement begin,
// some are in the server's cache when they are measured, and the verdict says so.
func TestWarmedConversations(t *testing.T) {
	_, target := engine(t, instant(sim.Config{}))
	for talks, warmed := range map[int]int{20: 0, 12: 1} {
		s := run(t, target, load.Workload{
			Dataset: load.Dataset{Kind: load.Conversation, Path: written(t, chats(talks))}, Endpoint: load.Chat,
			Requests: 30, Concurrency: 1, Warmup: 8, OutputTokens: 2, IgnoreEOS: true,
		}).Summary
		told := strings.Contains(strings.Join(s.Verdict.Texts(), "\n"), "had been sent by the warm-up")
		if s.Source.Warmed != warmed || told != (warmed > 0) {
			t.Errorf("%d conversations: %+v, %q", talks, *s.Source, s.Verdict)
		}
	}
}

// TestNotAllSent: what a conversation that fails gives back when no other is to begin is not sent, and the verdict says so.
func TestNotAllSent(t *testing.T) {
	toy, asked := sim.New(sim.Config{TTFT: 500 * time.Millisecond}), atomic.Int64{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 4 { // the second request of one of two
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		toy.ServeHTTP(w, r)
	}))
	defer h.Close()
	turn := `{"role":"user","content":"a"},{"role":"assistant","content":"b"}`
	s := run(t, load.Target{BaseURL: h.URL, Model: sim.DefaultModel}, load.Workload{
		Dataset:  load.Dataset{Kind: load.Conversation, Path: written(t, `{"messages":[`+turn+","+turn+","+turn+`]}`)},
		Endpoint: load.Chat, Requests: 6, Rate: 50, Burstiness: load.Inf, OutputTokens: 2, IgnoreEOS: true,
	}).Summary
	if s.Requests != 5 || !slices.Contains(codes(s.Verdict), notAllSent.code) {
		t.Errorf("%d of 6 requests: %s", s.Requests, s.Verdict)
	}
}
