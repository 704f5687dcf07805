package wire

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// TestRecorded: what real engines have sent, of which each event comes 10 ms after the one before. A token
// counts when it comes, also where it has no text, as vllm bench serve counts it.
func TestRecorded(t *testing.T) {
	type figures struct {
		Tokens, Gaps, Mute    int
		First, Last, Answered int // events, from 1
		Finish                string
	}
	for name, want := range map[string]figures{
		"vllm-0.32.0/stream-completions.txt":                    {16, 14, 0, 1, 15, 0, "length"}, // two tokens in one
		"vllm-0.32.0/stream-completions-all-empty.txt":          {8, 7, 8, 1, 8, 0, "length"},
		"vllm-0.32.0/stream-completions-some-empty.txt":         {40, 39, 4, 1, 40, 1, "length"},
		"vllm-0.32.0/stream-completions-ends-by-stop-token.txt": {4, 3, 1, 1, 4, 1, "stop"},
		"vllm-0.32.0/stream-chat.txt":                           {16, 15, 0, 2, 17, 0, "length"},
		"vllm-0.32.0/stream-chat-ends-by-stop-token.txt":        {4, 3, 1, 2, 5, 2, "stop"},
		"vllm-0.32.0/stream-chat-temperature1-seed1.txt":        {40, 39, 3, 2, 41, 2, "length"},
		"vllm-0.32.0/stream-responses.txt":                      {8, 6, 0, 5, 11, 0, "length"},
		"vllm-0.32.0/whole-completions.txt":                     {16, 0, 0, 1, 1, 0, "length"},
		"vllm-0.32.0/whole-chat.txt":                            {16, 0, 0, 1, 1, 0, "length"},
		"sglang-0.5.23/completions-usage.sse":                   {4, 2, 0, 1, 3, 0, "length"},
		"sglang-0.5.23/chat-usage.sse":                          {4, 3, 0, 2, 5, 0, "length"}, // its last chunk is no token
		"sglang-0.5.23/generate.sse":                            {4, 3, 0, 1, 4, 0, "length"},
		"sglang-0.5.23/responses.sse":                           {2, 1, 0, 5, 6, 0, "length"},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if head, body, ok := bytes.Cut(text, []byte("\n\n")); ok && bytes.HasPrefix(head, []byte("HTTP")) {
			text = body
		}
		got := load.Record{AskedOutput: want.Tokens}
		x := Exchange{Record: &got, Chunks: new(atomic.Int64), Whole: bytes.Contains([]byte(name), []byte("whole"))}
		if bytes.Contains([]byte(name), []byte("responses")) {
			x.Endpoint = load.Responses
		}
		var s Stream
		s.Reset(x)
		for i, each := range bytes.SplitAfter(text, []byte("\n\n")) {
			if at := bytes.Index(each, []byte("event: ")); at > 0 { // the length of a chunk of HTTP is before it
				each = each[at:]
			}
			over, err := s.Feed(each, time.Duration(i+1)*10*time.Millisecond, i)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if over {
				break
			}
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
		if diff := cmp.Diff(want, f); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRefusedInStream: a refusal is one also where the head of the answer has gone.
func TestRefusedInStream(t *testing.T) { bothClients(t, testRefusedInStream) }

func testRefusedInStream(t *testing.T, with maker) {
	text, err := os.ReadFile("testdata/vllm-0.32.0/error-in-stream-admission.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(text, []byte("\n\n"))
	target := raw(t, func(conn net.Conn) { io.WriteString(conn, streamHead+string(body)) })
	got := with.send(t, t.Context(), target, load.Workload{Endpoint: load.Completions})
	if got.Class != load.ClassStatus || got.Status != 503 || !bytes.Contains([]byte(got.Error), []byte("currently busy")) {
		t.Errorf("class %s, status %d: %s", got.Class, got.Status, got.Error)
	}
}
