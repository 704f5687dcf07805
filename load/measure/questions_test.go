package measure

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// TestQuestions asks the questions of a file in its order, each with its own members and nothing that it does not say, and
// keeps what is answered.
func TestQuestions(t *testing.T) {
	bodies := make(chan string, 3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(body)
		if strings.Contains(string(body), `"stream":false`) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[{"message":{"content":"the \"key\" is s3cret","reasoning_content":"hm","tool_calls":[{"function":{"name":"add","arguments":"{}"}}]},"finish_reason":"stop"}],`,
				`"usage":{"prompt_tokens":3,"completion_tokens":4}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"delta":{"role":"assistant","reasoning_content":"hm"}}]}`, "\n\n",
			`data: {"choices":[{"delta":{"content":"the \"key\" is s3cret"}}]}`, "\n\n",
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"add","arguments":"{}"}}]},"finish_reason":"stop"}]}`, "\n\n",
			`data: {"usage":{"prompt_tokens":3,"completion_tokens":4},"choices":[]}`, "\n\n", "data: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	text := `{"messages":[{"role":"user","content":"first"}],"max_tokens":7,"temperature":0.5,"top_p":0.9,"seed":3,"stop":["Q:"]}
{"messages":[{"role":"user","content":"second"}],"tools":[{"type":"function","function":{"name":"add"}}]}
{"messages":[{"role":"user","content":"third"}],"tool_choice":"none","whole":true,"extra":{"thinking":{"x":1},"model":"other","stream":true}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	job := load.Job{
		Target:  load.Target{BaseURL: server.URL, Model: "m"},
		Secrets: map[string]string{load.Authorization: load.Bearer("s3cret")},
		Workload: load.Workload{Requests: 3, Concurrency: 1, Endpoint: load.Chat,
			Dataset: load.Dataset{Kind: load.JSONL, Path: file, Questions: true}},
	}
	got, err := Run(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"max_tokens":7,"seed":3,"stop":["Q:"],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9,` +
			`"messages":[{"role":"user","content":"first"}],"model":"m"}`,
		`{"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"add"}}],` +
			`"messages":[{"role":"user","content":"second"}],"model":"m"}`,
		`{"stream":false,"thinking":{"x":1},"tool_choice":"none","messages":[{"role":"user","content":"third"}],"model":"m"}`,
	}
	if diff := cmp.Diff(want, []string{<-bodies, <-bodies, <-bodies}); diff != "" {
		t.Errorf("what was asked (-want +got):\n%s", diff)
	}
	if s := got.Summary; s.TTFT.Count+s.TPOT.Count+s.ITL.Count != 0 || s.E2EL.Count != 3 || s.ReadLag != nil {
		t.Errorf("when tokens came is told, which nobody has looked for: TTFT %v, TPOT %v, ITL %v, E2EL %v, read lag %v", s.TTFT, s.TPOT, s.ITL, s.E2EL, s.ReadLag)
	}
	if r := got.Records[0]; len(r.Gaps) != 0 || r.Dropped != 2 {
		t.Errorf("of three chunks %d gaps are kept, and %d are not", len(r.Gaps), r.Dropped)
	}
	for i, r := range got.Records {
		if r.Said == nil || r.Said.Reasoning != "hm" || !strings.HasPrefix(r.Said.Text, `the "key" is `) ||
			strings.Contains(r.Said.Text, "s3cret") || len(r.Said.Calls) != 1 || r.Said.Calls[0].Name != "add" {
			t.Errorf("answer %d is kept as %+v", i, r.Said)
		}
	}
}
