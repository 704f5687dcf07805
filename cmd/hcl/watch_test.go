package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/report/figure"
	"hclbench/results"
	"hclbench/testhost"
)

// journal writes a run that has begun, and returns where.
func beginJournal(t *testing.T) (dir string, journal *results.Journal) {
	t.Helper()
	dir = t.TempDir()
	journal, err := results.NewJournal(dir, "r1")
	must(t, err)
	t.Cleanup(func() { journal.Close() })
	must(t, journal.Write(begun{Type: "run", Run: "r1", Lab: "lab", Cells: []begunCell{{Cell: "c1", Host: "here", Work: 10}}}))
	must(t, journal.Write(apply.Event{Type: apply.Begin, Host: "here", Cell: "c1", Axes: results.Axes{{Name: "concurrency", Value: int64(4)}}}))
	return dir, journal
}

func TestFollow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, journal := beginJournal(t)
	must(t, journal.Write(apply.Event{Type: apply.Progress, Host: "here", Cell: "c1", Progress: &load.Progress{Done: 3, Total: 9}}))
	must(t, journal.Write(ended{Type: "outcome", Run: "r1", Planned: 3, Valid: 1, Void: 1}))
	journal.Close()

	var got []any
	end, err := follow(ctx, dir, "r1", func(what any) { got = append(got, what) })
	must(t, err)
	want := []any{
		begun{Type: "run", Run: "r1", Lab: "lab", Cells: []begunCell{{Cell: "c1", Host: "here", Work: 10}}},
		apply.Event{Type: apply.Begin, Host: "here", Cell: "c1", Axes: results.Axes{{Name: "concurrency", Value: int64(4)}}},
		apply.Event{Type: apply.Progress, Host: "here", Cell: "c1", Progress: &load.Progress{Done: 3, Total: 9}},
		ended{Type: "outcome", Run: "r1", Planned: 3, Valid: 1, Void: 1},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("follow (-want +got):\n%s", diff)
	}
	if got, want := end.String(), "Run r1 is over: 1 valid, 1 void, 1 not measured"; got != want {
		t.Errorf("end = %q, want %q", got, want)
	}

	// One whose process was killed has no end of its own.
	dir, journal = beginJournal(t)
	journal.Close()
	got = nil
	_, err = follow(ctx, dir, "r1", func(what any) { got = append(got, what) })
	if err == nil || !strings.Contains(err.Error(), "its process was killed") || len(got) != 3 || got[2] != any(ended{Type: "outcome", Run: "r1"}) {
		t.Errorf("follow of a run that died = %v, told %+v", err, got)
	}
}

// writerFunc is a writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestWatchInterrupted: who ends the page of a run that is over is not told that it goes on.
func TestWatchInterrupted(t *testing.T) {
	dir := t.TempDir()
	journal, err := results.NewJournal(storeDir(dir), "r1")
	must(t, err)
	must(t, journal.Write(ended{Type: "outcome", Run: "r1", Planned: 1, Valid: 1}))
	must(t, journal.Close())
	ctx, interrupt := context.WithCancel(t.Context())
	stdout := writerFunc(func(p []byte) (int, error) {
		interrupt() // when the page is there
		return len(p), nil
	})
	err = runWatch(ctx, &console{stdout: stdout, stderr: io.Discard}, labFlags{path: dir}, []string{"r1"}, "127.0.0.1:0")
	if code, _ := exitOf(ctx, err); code != exitInterrupted || strings.Contains(fmt.Sprint(err), "goes on") {
		t.Errorf("exit %d: %v", code, err)
	}
}

func TestWatchPage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, journal := beginJournal(t)
	page := &runPage{store: dir, run: "r1"}
	page.measured = func(_ context.Context, to reader) error {
		return to(nil, figure.About{Title: "lab"})
	}
	server := httptest.NewServer(page)
	defer server.Close()
	ask := func(method, path string, change func(*http.Request)) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
		must(t, err)
		if change != nil {
			change(r)
		}
		resp, err := server.Client().Do(r)
		must(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	body, err := io.ReadAll(ask("GET", "/", nil).Body)
	if err != nil || !strings.Contains(string(body), "EventSource") {
		t.Errorf("the page is %d bytes, %v", len(body), err)
	}
	for _, c := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/", "localhost:1", 200},
		{"GET", "/", "[::1]:1", 200},
		{"GET", "/", "elsewhere.example", 403},
		{"POST", "/", "", 405},
		{"GET", "/other", "", 404},
		{"GET", "/chart.svg?benchmark=online", "", 204}, // nothing is measured yet
		{"GET", "/report", "", 200},
	} {
		resp := ask(c.method, c.path, func(r *http.Request) { r.Host = c.host })
		if resp.StatusCode != c.want {
			t.Errorf("%s %s of host %q = %d, want %d", c.method, c.path, c.host, resp.StatusCode, c.want)
		}
	}

	broken := errors.New("the store is away")
	page.measured = func(context.Context, reader) error { return broken }
	for _, path := range []string{"/chart.svg", "/report"} {
		resp := ask("GET", path, nil)
		if said, _ := io.ReadAll(resp.Body); resp.StatusCode != 500 || string(said) != broken.Error()+"\n" {
			t.Errorf("GET %s without its store = %d, %q", path, resp.StatusCode, said)
		}
	}

	events := bufio.NewScanner(ask("GET", "/events", nil).Body)
	next := func(scan *bufio.Scanner) string {
		t.Helper()
		var text []string
		for scan.Scan() && scan.Text() != "" {
			text = append(text, scan.Text())
		}
		return strings.Join(text, "\n")
	}
	if got := next(events); !strings.HasPrefix(got, "id: 1\ndata: {") || !strings.Contains(got, `"lab":"lab"`) {
		t.Errorf("first event = %q", got)
	}
	if got := next(events); !strings.Contains(got, `"axes":{"concurrency":4}`) {
		t.Errorf("second event = %q", got)
	}
	must(t, journal.Write(ended{Type: "outcome"}))
	if got := next(events); !strings.HasPrefix(got, "id: 3\n") {
		t.Errorf("third event = %q, want what was written meanwhile", got)
	}
	journal.Close()
	if got := next(events); got != "event: over\ndata: {}" {
		t.Errorf("last event = %q", got)
	}
	again := bufio.NewScanner(ask("GET", "/events", func(r *http.Request) { r.Header.Set("Last-Event-ID", "2") }).Body)
	if got := next(again); !strings.HasPrefix(got, "id: 3\n") {
		t.Errorf("first event after the second = %q", got)
	}

	page.token = "secret"
	for path, want := range map[string]int{"/": 403, "/?token=": 403, "/?token=secret": 200, "/events?token=other": 403, "/report": 403, "/chart.svg": 403} {
		if resp := ask("GET", path, nil); resp.StatusCode != want {
			t.Errorf("GET %s with a token = %d, want %d", path, resp.StatusCode, want)
		}
	}
}

var pictures = flag.String("pictures", "", "write what the browser shows into this `folder`, to be looked at")

// TestWatchInBrowser looks at a run as it goes on, in a browser: wide and on a
// phone, light and dark, with a token and without.
func TestWatchInBrowser(t *testing.T) {
	lab := t.TempDir()
	dir := storeDir(lab)
	journal, err := results.NewJournal(dir, "r1")
	must(t, err)
	t.Cleanup(func() { journal.Close() })
	store, err := results.Open(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { store.Close() })
	must(t, store.BeginRun(t.Context(), results.Run{ID: "r1", Lab: "deepseek-r1", Command: "apply", Started: time.Now()}))
	must(t, store.PutDeployment(t.Context(), results.Deployment{ID: "d1", RunID: "r1", Engine: "vllm.h200", Kind: "vllm", Host: "h200", GPUs: "8xH200", GPUCount: 8}))
	measured := 0
	told := recorder(journal.Write)
	at := time.Now().Add(-time.Minute)
	event := func(e apply.Event) {
		at = at.Add(time.Second)
		e.Time, e.Host, e.Engine = at, "h200", "vllm.h200"
		if e.Cell != "" && e.Cell != "c4" {
			e.Number, e.Of = int(e.Cell[1]-'0'), 4
		}
		if e.Summary != nil { // stored before it is told
			must(t, store.PutCell(t.Context(), results.Cell{
				ID: e.Cell, RunID: "r1", DeploymentID: "d1", Benchmark: "online", Summary: e.Summary, Started: at, Finished: at, Repetition: 1,
				Axes: results.Axes{{Name: "concurrency", Value: int64(measured*124 + 4)}},
			}, nil))
			measured++
		}
		told(e)
	}
	told(begun{Time: at, Type: "run", Run: "r1", Lab: "deepseek-r1", Command: "apply", Version: "1.2.3",
		Hosts: []begunHost{{Name: "h200", GPUs: "8xH200", PricePerHour: 28}},
		Cells: []begunCell{
			{Cell: "c1", Host: "h200", Engine: "vllm.h200", Benchmark: "online", Axes: results.Axes{{Name: "concurrency", Value: int64(4)}}, Work: 10},
			{Cell: "c2", Host: "h200", Engine: "vllm.h200", Benchmark: "online", Axes: results.Axes{{Name: "concurrency", Value: int64(128)}}, Work: 30},
			{Cell: "c3", Host: "h200", Engine: "vllm.h200", Benchmark: "online", Axes: results.Axes{{Name: "concurrency", Value: int64(256)}}, Work: 60},
			{Cell: "c4", Host: "h200", Engine: "vllm.h200", Benchmark: "offline", Work: 10},
		}})
	event(apply.Event{Type: apply.Step, Message: "pulling vllm/vllm-openai:v0.11.0"})
	event(apply.Event{Type: apply.Pull, Pull: &provision.PullProgress{Bytes: 4_200_000_000, Total: 12_000_000_000}})

	b := testhost.NewBrowser(t)
	var tabs []*testhost.Tab
	views := []testhost.View{{Width: 1440, Height: 900}, {Width: 1440, Height: 900, Dark: true}, {Width: 390, Height: 844}, {Width: 390, Height: 844, Dark: true}}
	var servers []*httptest.Server
	for i, view := range views {
		page := newRunPage(&console{stdout: io.Discard, stderr: io.Discard}, labFlags{path: lab}, dir, "r1")
		link := "/"
		if i%2 == 1 {
			page.token = "secret"
			link = "/?token=secret"
		}
		server := httptest.NewServer(page)
		t.Cleanup(func() {
			server.CloseClientConnections() // the pages follow, and would be waited for
			server.Close()
		})
		servers = append(servers, server)
		tabs = append(tabs, b.Open(t, server.URL+link, view))
	}
	see := func(moment string, words ...string) {
		t.Helper()
		points := measured
		for i, tab := range tabs {
			want, err := json.Marshal(words)
			must(t, err)
			var text string
			tab.Eval(t, `new Promise(done => {
				const until = performance.now() + 30000, words = `+string(want)+`;
				const look = () => {
					const text = document.body.innerText;
					words.every(w => text.includes(w)) || performance.now() > until ? done(text) : setTimeout(look, 20);
				};
				look();
			})`, &text)
			for _, w := range words {
				if !strings.Contains(text, w) {
					t.Fatalf("%s: the page lacks %q:\n%s", moment, w, text)
				}
			}
			// Points appear as cells end: the chart is that of as many as have been measured.
			var drawn string
			tab.Eval(t, `new Promise(done => {
				const until = performance.now() + 30000;
				const look = () => {
					const c = [...charts.values()], all = c.length && c.every(c => !c.busy && c.drawn.startsWith('`+fmt.Sprint(points)+`{'));
					if (all || !`+fmt.Sprint(points)+` || performance.now() > until)
						done(c.map(c => c.drawn + (c.box.querySelector('img')?.naturalWidth > 0)).join());
					else setTimeout(look, 20);
				};
				look();
			})`, &drawn)
			if ok := strings.HasPrefix(drawn, fmt.Sprintf("%d{", points)) && strings.HasSuffix(drawn, "true"); ok != (points > 0) {
				t.Errorf("%s: the chart is %q, want one of %d points", moment, drawn, points)
			}
			var wide int
			tab.Eval(t, `document.documentElement.scrollWidth`, &wide)
			if wide > views[i].Width {
				t.Errorf("%s: the page is %d wide, the window %d", moment, wide, views[i].Width)
			}
			if i == 0 || i == 3 { // wide and light, on a phone and dark
				tab.Readable(t, moment, "html")
			}
			if *pictures != "" {
				name := fmt.Sprintf("watch-%s-%d-%t.png", moment, views[i].Width, views[i].Dark)
				must(t, os.WriteFile(filepath.Join(*pictures, name), tab.Picture(t), 0o644))
			}
		}
	}
	see("pull", "deepseek-r1", "running", "0 of 4", "4.2 of 12.0 GB")
	event(apply.Event{Type: apply.Step, Message: "looking for model deepseek-ai/DeepSeek-R1"})
	event(apply.Event{Type: apply.Download, Download: &apply.Fetched{Repo: "deepseek-ai/DeepSeek-R1", ModelProgress: agent.ModelProgress{Bytes: 120_100_000_000, Total: 688_600_000_000}}})
	see("download", "downloading deepseek-ai/DeepSeek-R1", "120.1 of 688.6 GB")

	event(apply.Event{Type: apply.Ready, Message: "serves deepseek-ai/DeepSeek-R1 after 480 s"})
	event(apply.Event{Type: apply.Begin, Cell: "c1"})
	event(apply.Event{Type: apply.End, Cell: "c1", Summary: &load.Summary{Part: load.Part{Figures: load.Figures{Completed: 500, OutputThroughput: 74.2, TTFT: load.Stats{Count: 500, Median: 1234.5}, TPOT: load.Stats{Count: 500, Median: 25.7}, E2EL: load.Stats{Count: 500, Median: 21_800}}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}}}}})
	event(apply.Event{Type: apply.Begin, Cell: "c2"})
	for i := range 12 {
		event(apply.Event{Type: apply.Progress, Cell: "c2", Progress: &load.Progress{Done: 10 * i, Total: 500, InFlight: 128, Elapsed: float64(i), OutputTokens: int64(800 * i * (10 + i%3))}})
	}
	see("load", "1 of 4", "110 of 500 requests", "128 in flight", "1,235", "25.7", "measuring", "left", "spent on hosts", "Measured so far")

	event(apply.Event{Type: apply.End, Cell: "c2", Summary: &load.Summary{
		Part: load.Part{Figures: load.Figures{Completed: 400, Failed: 100, OutputThroughput: 1074, TTFT: load.Stats{Count: 400, Median: 22_300}, TPOT: load.Stats{Count: 400, Median: 109}, E2EL: load.Stats{Count: 400, Median: 109_000}}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "a fifth of the requests failed")}}},
	}})
	event(apply.Event{Type: apply.Begin, Cell: "c3"})
	event(apply.Event{Type: apply.End, Cell: "c3", Message: "the server stopped answering: <b>503</b>"})
	event(apply.Event{Type: apply.Down, Message: "stopped, removed, port closed"})
	event(apply.Event{Type: apply.End, Cell: "c4", Message: "does not serve"}) // never begun
	told(ended{Time: at, Type: "outcome", Run: "r1", Planned: 4, Valid: 1, Suspect: 1, Void: 2})
	journal.Close()
	see("end", "4 of 4", "ended, not all cells could be measured", "online: concurrency=128: suspect: a fifth of the requests failed", "online: concurrency=256: the server stopped answering: <b>503</b>", "finished")

	for i, tab := range tabs {
		var controls int
		tab.Eval(t, `document.querySelectorAll("button, input, form, select, a:not(#report), [contenteditable]").length`, &controls)
		if controls > 0 {
			t.Errorf("the page has %d things to press, and is to be read only", controls)
		}
		for _, asked := range tab.Requests(t) {
			if !strings.HasPrefix(asked, servers[i].URL+"/") && !strings.HasPrefix(asked, "data:") {
				t.Errorf("the page asks for %s", asked)
			}
		}
		for _, p := range tab.Problems(t) {
			t.Errorf("%d wide, dark %t: %s", views[i].Width, views[i].Dark, p)
		}
	}
}
