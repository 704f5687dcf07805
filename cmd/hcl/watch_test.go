package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/results"
)

// journal writes a run that has begun, and returns where.
func beginJournal(t *testing.T) (dir string, journal *results.Journal) {
	t.Helper()
	dir = t.TempDir()
	journal, err := results.NewJournal(dir, "r1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	told := recorder{write: journal.Write}
	told.begin(begun{Type: "run", Run: "r1", Lab: "lab", Cells: []begunCell{{Cell: "c1", Host: "here", Work: 10}}})
	told.event(apply.Event{Type: apply.Begin, Host: "here", Cell: "c1", Axes: results.Axes{{Name: "concurrency", Value: int64(4)}}})
	if told.err != nil {
		t.Fatal(told.err)
	}
	return dir, journal
}

// heard is an audience that keeps what it is told.
type heard struct {
	Begun  []begun
	Events []apply.Event
	Ended  []ended
}

func (h *heard) begin(b begun)       { h.Begun = append(h.Begun, b) }
func (h *heard) event(e apply.Event) { h.Events = append(h.Events, e) }
func (h *heard) end(e ended)         { h.Ended = append(h.Ended, e) }

func TestFollow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, journal := beginJournal(t)
	told := recorder{write: journal.Write}
	told.event(apply.Event{Type: apply.Progress, Host: "here", Cell: "c1", Progress: &load.Progress{Done: 3, Total: 9}})
	told.end(ended{Type: "outcome", Run: "r1", Planned: 3, Valid: 1, Void: 1})
	journal.Close()

	var got heard
	end, err := follow(ctx, dir, "r1", &got)
	if err != nil {
		t.Fatal(err)
	}
	want := heard{
		Begun: []begun{{Type: "run", Run: "r1", Lab: "lab", Cells: []begunCell{{Cell: "c1", Host: "here", Work: 10}}}},
		Events: []apply.Event{
			{Type: apply.Begin, Host: "here", Cell: "c1", Axes: results.Axes{{Name: "concurrency", Value: int64(4)}}},
			{Type: apply.Progress, Host: "here", Cell: "c1", Progress: &load.Progress{Done: 3, Total: 9}},
		},
		Ended: []ended{{Type: "outcome", Run: "r1", Planned: 3, Valid: 1, Void: 1}},
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
	var died heard
	_, err = follow(ctx, dir, "r1", &died)
	if err == nil || !strings.Contains(err.Error(), "its process was killed") || len(died.Ended) != 1 {
		t.Errorf("follow of a run that died = %v, told of %d ends", err, len(died.Ended))
	}
}

func TestWatchPage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, journal := beginJournal(t)
	page := &runPage{store: dir, run: "r1"}
	server := httptest.NewServer(page)
	defer server.Close()
	ask := func(method, path string, change func(*http.Request)) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
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
	} {
		resp := ask(c.method, c.path, func(r *http.Request) { r.Host = c.host })
		if resp.StatusCode != c.want {
			t.Errorf("%s %s of host %q = %d, want %d", c.method, c.path, c.host, resp.StatusCode, c.want)
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
	if err := journal.Write(ended{Type: "outcome"}); err != nil {
		t.Fatal(err)
	}
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
	for path, want := range map[string]int{"/": 403, "/?token=": 403, "/?token=secret": 200, "/events?token=other": 403} {
		if resp := ask("GET", path, nil); resp.StatusCode != want {
			t.Errorf("GET %s with a token = %d, want %d", path, resp.StatusCode, want)
		}
	}
}
