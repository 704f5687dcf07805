package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/sim"
)

// capacityOf has hcl bench look for a load that an engine holds: up to 8 requests at once it answers in 30 ms, 9 and more
// take a second each, in a closed loop. It is said to be simulated, so that nothing is doubted for what else this machine does.
func capacityOf(ctx context.Context, t *testing.T, f capacityFlags, stderr *hearing) (out string, err error) {
	t.Helper()
	table := sim.Table{{Concurrency: 8, TTFT: 30 * time.Millisecond, ITL: time.Millisecond},
		{Concurrency: 9, TTFT: time.Second, ITL: time.Millisecond}}
	if f.of == capacity.Rate {
		table = table[:1] // with both, a queue that once was would stay
	}
	engine := httptest.NewServer(sim.New(sim.Config{Table: table}))
	defer engine.Close()
	return capacityAt(ctx, t, engine.URL, f, stderr)
}

// capacityAt has hcl bench look for a load that a server holds.
func capacityAt(ctx context.Context, t *testing.T, url string, f capacityFlags, stderr *hearing) (out string, err error) {
	t.Helper()
	o := benchOptions{capacity: f, format: "json"}
	o.add(&cobra.Command{})
	o.said = func(string) bool { return false }
	o.Workload.SLO = []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(500 * time.Millisecond)},
		{Metric: "e2el", Percentile: 90, Max: load.Duration(time.Minute)}}
	o.Workload.Dataset.InputTokens, o.Workload.OutputTokens, o.Workload.Speed = 8, 1, 1
	o.capacity.confidence = 0.95
	var stdout bytes.Buffer
	err = runBench(ctx, &console{stdout: &stdout, stderr: stderr}, o, []string{url})
	return stdout.String(), err
}

// hearing is a text whose writers are told once it has a word.
type hearing struct {
	bytes.Buffer
	word string
	end  func()
}

func (e *hearing) Write(b []byte) (int, error) {
	if e.end != nil && strings.Contains(string(b), e.word) {
		e.end()
	}
	return e.Buffer.Write(b)
}

// TestCapacity: the answer is what the engine is made to hold, at the ends of the range it says so, and what was found
// is shown when it is interrupted.
func TestCapacity(t *testing.T) {
	t.Parallel()
	number := func(n float64) *float64 { return &n }
	same := func(a, b *float64) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	for name, x := range map[string]struct {
		flags         capacityFlags
		holds, breaks *float64
		answer        string
		code          int
		until         string // it is interrupted once this is said
	}{
		"within":      {capacityFlags{of: "concurrency", within: "1-32", budget: "20000", precision: 0.05}, number(8), number(9), "holds 8, breaks by 9 concurrent (95 %); closed loop; bound by TTFT p95; ", 0, ""},
		"all hold":    {capacityFlags{of: "concurrency", within: "1-8", budget: "10m", precision: 0.05}, number(8), nil, "holds at least 8 concurrent (95 %), the most of the range; closed loop; ", 0, ""},
		"none holds":  {capacityFlags{of: "concurrency", within: "12-24", budget: "20000", precision: 0.05}, nil, number(12), "no load meets the SLO: breaks by 12 concurrent", 0, ""},
		"rate":        {capacityFlags{of: "rate", within: "20-40", budget: "20000", precision: 0.5}, number(40), nil, "holds at least 40 requests/s (95 %), the most of the range; open loop; ", 0, ""},
		"interrupted": {capacityFlags{of: "concurrency", within: "4-32", budget: "20000", precision: 0.05}, nil, number(16), "breaks by 16 concurrent (95 %); no load is certain to hold; ", exitInterrupted, "load 16, try 1: FAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			stderr := &hearing{word: x.until}
			if x.until != "" {
				stderr.end = stop
			}
			out, err := capacityOf(ctx, t, x.flags, stderr)
			var coded *exit
			if code, _ := exitOf(t.Context(), err); code != x.code || err != nil && !errors.As(err, &coded) {
				t.Fatalf("%v\n%s", err, stderr)
			}
			var doc struct {
				Answer        string
				Holds, Breaks *float64
				Loads         []struct{ Load float64 }
				Measured      struct{ Rows []struct{ Repetition int } }
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				t.Fatal(err)
			}
			if !same(doc.Holds, x.holds) && x.until == "" || !same(doc.Breaks, x.breaks) || !strings.HasPrefix(doc.Answer, x.answer) && x.until == "" {
				t.Errorf("%s\n%s", doc.Answer, stderr)
			}
			if len(doc.Loads) == 0 || len(doc.Measured.Rows) < len(doc.Loads) {
				t.Errorf("%d loads and %d measurements", len(doc.Loads), len(doc.Measured.Rows))
			}
		})
	}
}

// TestCapacityGone: a server whose every request fails, from the beginning or since some moment, ends the search after two loads, with the reason
// and what to do, and is not said to break by a load.
func TestCapacityGone(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		answers int64 // requests, before they all fail
		answer  string
	}{
		"from the beginning": {0, "nothing is certain; closed loop; it ends there: every request has failed at a load of 16, and at one of 4 then (none of "},
		"since some moment":  {300, "every request has failed since some moment of a load of "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers, asked := sim.New(sim.Config{TTFT: time.Millisecond}), new(atomic.Int64)
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && asked.Add(1) > x.answers {
					http.Error(w, "out of order", http.StatusServiceUnavailable)
					return
				}
				answers.ServeHTTP(w, r)
			}))
			t.Cleanup(engine.Close)
			stderr := new(hearing)
			out, err := capacityAt(t.Context(), t, engine.URL, capacityFlags{of: "concurrency", within: "4-64", budget: "20000", precision: 0.05}, stderr)
			if code, _ := exitOf(t.Context(), err); code != exitCells || !strings.Contains(err.Error(), "see that the server is up") ||
				!strings.Contains(err.Error(), "out of order") {
				t.Errorf("%v\n%s", err, stderr)
			}
			var doc struct {
				Answer   string
				Breaks   *float64
				Measured struct{ Rows []struct{ Repetition int } }
			}
			if err := json.Unmarshal([]byte(out), &doc); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(doc.Answer, x.answer) || doc.Breaks != nil || x.answers == 0 && len(doc.Measured.Rows) != 2 {
				t.Errorf("%s, %d measurements\n%s", doc.Answer, len(doc.Measured.Rows), stderr)
			}
		})
	}
}

// TestCapacityFrom: a search is sent from one machine, and who asks for others is told what to do.
func TestCapacityFrom(t *testing.T) {
	_, said, code := newLocal(t, "").run("bench", "http://127.0.0.1:1", "--capacity", "concurrency", "--slo", "ttft_p95=1s", "--from", "a")
	if code != exitUsage || !strings.Contains(said, "Run hcl bench there") {
		t.Errorf("exit %d, %s", code, said)
	}
}
