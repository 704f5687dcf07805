package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/testhost/recording"
)

type figures struct {
	Tokens, Gaps, Mute    int
	First, Last, Answered int // events, from 1
	Finish                string
}

// figuresOf reads a recording as it stands there, in which each event with a token has something of it.
func figuresOf(t *testing.T, name, text string) (f figures) {
	t.Helper()
	f.Gaps = -1
	for i, each := range strings.SplitAfter(text, "\n\n") {
		_, data, _ := strings.Cut(strings.TrimSpace(each), "data: ")
		if strings.Contains(name, "whole") {
			data = each
		}
		if data == "" || data == "[DONE]" {
			continue
		}
		type usage struct {
			Completion int `json:"completion_tokens"`
			Output     int `json:"output_tokens"`
		}
		type message struct {
			Content   string
			ToolCalls []any `json:"tool_calls"`
		}
		var e struct {
			Type, Delta, Status string
			Text                any // of SGLang's own; elsewhere a format
			Choices             []struct {
				Text           string
				Delta, Message message
				Finish         string `json:"finish_reason"`
			}
			Usage    usage
			Output   []any
			Response struct {
				Status string
				Usage  usage
			}
			Meta struct {
				Completion int                   `json:"completion_tokens"`
				Finish     struct{ Type string } `json:"finish_reason"`
			} `json:"meta_info"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v: %s", name, err, data)
		}
		_, isText := e.Text.(string)
		said := strings.HasSuffix(e.Type, ".delta") || e.Type == "" && (isText || len(e.Output) > 0)
		for _, c := range e.Choices {
			said = said || c.Text+c.Delta.Content+c.Message.Content != "" || len(c.Delta.ToolCalls) > 0
			f.Finish = cmp.Or(c.Finish, f.Finish)
		}
		if said {
			f.First, f.Last, f.Gaps = cmp.Or(f.First, i+1), i+1, f.Gaps+1
		}
		f.Tokens = cmp.Or(e.Usage.Completion, e.Usage.Output, e.Response.Usage.Output, e.Meta.Completion, f.Tokens)
		if cmp.Or(e.Response.Status, e.Status) == "incomplete" {
			f.Finish = "length"
		}
		f.Finish = cmp.Or(e.Meta.Finish.Type, f.Finish)
	}
	return f
}

// TestRecorded: what real engines have sent, of which each event comes 10 ms after the one before. A token
// counts when it comes, also where it has no text, as vllm bench serve counts it.
func TestRecorded(t *testing.T) {
	withoutText := map[string]figures{
		"by-hand/vllm-0.32.0/stream-completions-all-empty.txt":          {8, 7, 8, 1, 8, 0, "length"},
		"by-hand/vllm-0.32.0/stream-completions-some-empty.txt":         {40, 39, 4, 1, 40, 1, "length"},
		"by-hand/vllm-0.32.0/stream-completions-ends-by-stop-token.txt": {4, 3, 1, 1, 4, 1, "stop"},
		"by-hand/vllm-0.32.0/stream-chat-ends-by-stop-token.txt":        {4, 3, 1, 2, 5, 2, "stop"},
		"by-hand/vllm-0.32.0/stream-chat-temperature1-seed1.txt":        {40, 39, 3, 2, 41, 2, "length"},
		"by-hand/vllm-0.32.0/stream-chat-two-calls.txt":                 {158, 16, 1, 2, 18, 2, "tool_calls"},
	}
	names := slices.DeleteFunc(recording.Names(t, "*/stream-*", "*/whole-*", "by-hand/*/stream-*"), func(name string) bool {
		status, _, _ := recording.Answer(t, name)
		return status != http.StatusOK // see TestRecordedRefusals
	})
	for _, name := range names {
		_, _, text := recording.Answer(t, name)
		want, known := withoutText[name]
		if !known {
			want = figuresOf(t, name, text)
		}
		got := load.Record{AskedOutput: want.Tokens}
		x := Exchange{Record: &got, Chunks: new(atomic.Int64), Whole: strings.Contains(name, "whole")}
		if strings.Contains(name, "responses") {
			x.Endpoint = load.Responses
		}
		var s Stream
		s.Reset(x)
		over := x.Whole
		for i, each := range strings.SplitAfter(text, "\n\n") {
			ended, err := s.Feed([]byte(each), time.Duration(i+1)*10*time.Millisecond, i)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if over = over || ended; ended {
				break
			}
		}
		if !over {
			t.Errorf("%s: it has no end", name)
		}
		if x.Whole {
			if err := s.end(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if want.Gaps == 0 && cap(got.Gaps) > 0 {
			t.Errorf("%s: room for %d gaps is kept", name, cap(got.Gaps))
		}
		event := func(at time.Duration) int { return int(at / (10 * time.Millisecond)) }
		f := figures{got.OutputTokens, len(got.Gaps), got.Mute, event(got.First), event(got.Last), event(got.Answered), got.Finish}
		if diff := gocmp.Diff(want, f); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRecordedRefusals: whatever real servers refuse with, it is told as they say it.
func TestRecordedRefusals(t *testing.T) { bothClients(t, testRecordedRefusals) }

func testRecordedRefusals(t *testing.T, with maker) {
	refused := 0
	for _, name := range recording.Names(t, "*/*-*.txt", "by-hand/*/dead-*", "by-hand/*/no-workers-*") {
		status, head, body := recording.Answer(t, name)
		if status == http.StatusOK {
			continue
		}
		refused++
		target := raw(t, func(conn net.Conn) {
			fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), head.Get("Content-Type"), len(body), body)
		})
		got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions})
		want := fmt.Sprintf("status %d %s", status, http.StatusText(status))
		if body != "" {
			want += ": " + Shorten([]byte(body))
		}
		if got.Class != load.ClassStatus || got.Status != status || got.Error != want {
			t.Errorf("%s: class %s, status %d: %s", name, got.Class, got.Status, got.Error)
		}
	}
	if refused < 20 {
		t.Errorf("%d refusals are recorded", refused)
	}
}

// TestRefusedInStream: a refusal is one also where the head of the answer has gone.
func TestRefusedInStream(t *testing.T) { bothClients(t, testRefusedInStream) }

func testRefusedInStream(t *testing.T, with maker) {
	_, _, body := recording.Answer(t, "by-hand/vllm-0.32.0/error-in-stream-admission.txt")
	target := raw(t, func(conn net.Conn) { io.WriteString(conn, streamHead+body) })
	got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions})
	if got.Class != load.ClassStatus || got.Status != 503 || !strings.Contains(got.Error, "currently busy") {
		t.Errorf("class %s, status %d: %s", got.Class, got.Status, got.Error)
	}
}

// TestCachedTokens: what real engines say of the prompt's tokens that they have not computed anew, by each API.
func TestCachedTokens(t *testing.T) {
	for name, want := range map[string]int{
		"vllm-0.32.0/stream-completions.txt": 0, "sglang-0.5.23/stream-completions-continuous-usage.txt": 15,
		"sglang-0.5.23/whole-chat.txt": 8, "sglang-0.5.23/stream-generate.txt": 1, "sglang-0.5.23/stream-responses.txt": 8,
	} {
		got := 0
		for line := range strings.Lines(recording.Text(t, name)) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
			var c chunk
			parse := c.parse
			if strings.Contains(name, "responses") {
				parse = c.response
			}
			if strings.HasPrefix(line, "{") && parse([]byte(line)) == nil {
				got = max(got, c.cached)
			}
		}
		if got != want {
			t.Errorf("%s: %d tokens are cached, want %d", name, got, want)
		}
	}
}
