package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/report/figure"
	"hclbench/results"
)

// TestDoubleDash: flags may have one dash, and values stay as they are.
func TestDoubleDash(t *testing.T) {
	root := rootOf(&console{})
	for _, tt := range []struct{ args, want []string }{
		{[]string{"apply", "-auto-approve", "lab"}, []string{"apply", "--auto-approve", "lab"}},
		{[]string{"plan", "-var", "-json", "-json"}, []string{"plan", "--var", "-json", "--json"}},
		{[]string{"plan", "--var", "-json"}, []string{"plan", "--var", "-json"}},
		{[]string{"plan", "-var=x=1", "-json"}, []string{"plan", "--var=x=1", "--json"}},
		{[]string{"plan", "-v", "--", "-json"}, []string{"plan", "-v", "--", "-json"}},
	} {
		if got := doubleDash(root, tt.args); !slices.Equal(got, tt.want) {
			t.Errorf("%q becomes %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "0d": 0, "-5m": -5 * time.Minute,
		"d": -1, "1d2d": -1, "x": -1, "": 0, "999999999999d": -1,
	} {
		var s span
		err := s.Set(text)
		if want == -1 && err == nil || want != -1 && (err != nil || time.Duration(s) != want) {
			t.Errorf("%q: %v, %v, want %v", text, time.Duration(s), err, want)
		}
	}
}

// TestWantsText: a server that refuses token ids is met with what to try instead, any other is not.
func TestWantsText(t *testing.T) {
	random := load.Workload{Endpoint: load.Completions, Dataset: load.Dataset{Kind: load.Random}}
	chat, lines := random, random
	chat.Endpoint, lines.Dataset.Kind = load.Chat, load.JSONL
	refused := &load.Summary{Part: load.Part{Figures: load.Figures{Failed: 4, Statuses: map[int]int{400: 4}}}}
	for name, c := range map[string]struct {
		w    load.Workload
		s    *load.Summary
		want bool
	}{
		"refused":       {random, refused, true},
		"unprocessable": {random, &load.Summary{Part: load.Part{Figures: load.Figures{Statuses: map[int]int{422: 1}}}}, true},
		"on chat":       {chat, refused, false},
		"text":          {lines, refused, false},
		"overloaded":    {random, &load.Summary{Part: load.Part{Figures: load.Figures{Statuses: map[int]int{503: 4}}}}, false},
		"some":          {random, &load.Summary{Part: load.Part{Figures: load.Figures{Completed: 1, Statuses: map[int]int{400: 4}}}}, false},
	} {
		if got := strings.Contains(wantsText(c.w, c.s), "--endpoint chat"); got != c.want {
			t.Errorf("%s: told %v, want %v", name, got, c.want)
		}
	}
}

// TestPlanWhileRunning: who plans while a run goes on is told of it.
func TestPlanWhileRunning(t *testing.T) {
	text, err := os.ReadFile("../../examples/quickstart/lab.hcl")
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "lab.hcl"), text, 0o644))
	store, err := results.Open(t.Context(), storeDir(dir))
	must(t, err)
	defer store.Close()
	going := newRun("quickstart", "apply")
	must(t, store.BeginRun(t.Context(), going))
	said := func() string {
		t.Helper()
		var said bytes.Buffer
		c := &console{stdout: io.Discard, stderr: &said}
		must(t, runPlan(t.Context(), c, planOptions{lab: labFlags{path: dir}, by: string(plan.ByHost)}))
		return said.String()
	}
	if got := said(); !strings.Contains(got, "a run of this lab goes on") || !strings.Contains(got, going.ID) {
		t.Errorf("while it goes on plan says %q", got)
	}
	must(t, store.FinishRun(t.Context(), going.ID, "done", time.Now()))
	if got := said(); got != "" {
		t.Errorf("afterwards plan says %q", got)
	}
}

// TestStatusOf: a host that could not be asked is not one with nothing on it.
func TestStatusOf(t *testing.T) {
	h := &provision.Host{Name: "box"}
	for _, test := range []struct {
		of   place.Presence
		want []any
	}{
		{place.Presence{Host: h}, []any{"-", "nothing", "-", "-"}},
		{place.Presence{Host: h, Err: errors.New("away")}, []any{"-", "could not be asked", "-", "why stands below"}},
		{place.Presence{Host: h, Reserved: &agent.Lease{Holder: "ada"}}, []any{"-", "in use by ada", "-", "-"}},
	} {
		if diff := cmp.Diff([][]any{test.want}, statusOf(test.of)); diff != "" {
			t.Errorf("statusOf (-want +got):\n%s", diff)
		}
	}
}

// TestOutcome: what a run has ended with, in a line and an exit code.
func TestOutcome(t *testing.T) {
	at := func(err error) error {
		return &apply.Error{Hosts: []*apply.HostError{{Host: "box", Err: err}, {Host: "other", Err: err}}}
	}
	const above = "the work on host box, other ended early; the reason stands above"
	for _, test := range []struct {
		done apply.Outcome
		err  error
		code int
		says string
	}{
		{done: apply.Outcome{Planned: 2, Valid: 2}, code: exitDone},
		{done: apply.Outcome{Planned: 2, Void: 2}, code: exitFailed, says: "no cell could be measured"},
		{done: apply.Outcome{Planned: 3, Valid: 1, Suspect: 1, Void: 1}, code: exitCells, says: "of 3 cells, 1 suspect and 1 without a measurement"},
		{done: apply.Outcome{Planned: 4, Valid: 2}, code: exitCells, says: "of 4 cells, 2 left to the next apply"},
		{err: at(errors.New("away")), code: exitFailed, says: above},
		{err: at(fmt.Errorf("%w: no GPU", place.ErrContract)), code: exitContract, says: above},
		{err: at(fmt.Errorf("stop: %w", &provision.UncleanError{})), code: exitUnclean, says: above},
		{err: errors.New("the disk is full"), code: exitFailed, says: "the disk is full"},
	} {
		err := exitAfter(&plan.Plan{}, test.done, test.err)
		if code, _ := exitOf(t.Context(), err); code != test.code || err != nil && err.Error() != test.says {
			t.Errorf("exitAfter(%+v, %v) = exit %d, %v, want %d, %s", test.done, test.err, code, err, test.code, test.says)
		}
	}
}

// TestReportNames holds the names that a report block may use to those that results
// have: neither room knows the other.
func TestReportNames(t *testing.T) {
	sorted := func(names ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(names...))) }
	if diff := cmp.Diff(sorted(figure.ConditionNames()), sorted(hcl.ConditionNames())); diff != "" {
		t.Errorf("names in conditions (-report +language):\n%s", diff)
	}
	if diff := cmp.Diff(
		[]string{figure.AutomaticBenchmarks, figure.AutomaticPrefixCache, figure.AutomaticDistributions, figure.AutomaticTimeLines},
		[]string{hcl.AutomaticBenchmarks, hcl.AutomaticPrefixCache, hcl.AutomaticDistributions, hcl.AutomaticTimeLines}); diff != "" {
		t.Errorf("automatic charts (-report +language):\n%s", diff)
	}
}

// TestPrintTables: what hosts cost stands apart from the table, also below a host without a price.
func TestPrintTables(t *testing.T) {
	var b bytes.Buffer
	about := figure.About{Spending: []figure.Spending{{Host: "free"}, {Host: "paid", Price: 1}, {Host: "too", Price: 1}}}
	must(t, printTables(&console{stdout: &b}, nil, about, tableFlags{}))
	if got := b.String(); strings.Count(got, "\n\n") != 1 || !strings.Contains(got, "\n\nrun  held host paid") || strings.Contains(got, "free") {
		t.Errorf("printed:\n%s", got)
	}
}

// TestKeptWithoutPrices: what is kept for the report of a run has no prices where the lab shows none.
func TestKeptWithoutPrices(t *testing.T) {
	const text = `lab "l" {}
host "here" {
  address        = "local"
  runtime        = "process"
  price_per_hour = 36
}
engine "sim" "a" { host = host.here }
dataset "random" "short" { input_tokens = 16 }
report { prices = %v }
benchmark "b" {
  engine   = engine.sim.a
  dataset  = dataset.random.short
  requests = 4
  load {
    concurrency   = 2
    output_tokens = 4
  }
}
`
	for _, shown := range []bool{true, false} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "lab.hcl"), fmt.Appendf(nil, text, shown), 0o644))
		l, err := labFlags{path: dir}.open(&console{stdout: io.Discard, stderr: t.Output()})
		must(t, err)
		cfg, err := l.planned(t.Context())
		must(t, err)
		kept, err := inputs(l, plan.New(cfg, plan.Options{}))
		must(t, err)
		if got := strings.Contains(string(kept[inputReport]), "36"); got != shown {
			t.Errorf("prices = %v: %s", shown, kept[inputReport])
		}
	}
}
