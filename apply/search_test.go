package apply_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/capacity"
	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
	"hclbench/results"
	"hclbench/sim"
	"hclbench/testhost"
)

// The test binary plays an hcl apply that can be killed: started with this in its environment, it applies the lab of that
// file into the store beside it, and writes its events. In forgetEnv it knows no answer of before, only measurements.
const (
	searchEnv = "HCL_SEARCH_CHILD"
	binaryEnv = searchEnv + "_BINARY"
	forgetEnv = searchEnv + "_FORGETS"
)

func TestMain(m *testing.M) {
	if lab := os.Getenv(searchEnv); lab != "" {
		if err := applyLab(context.Background(), lab); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(testhost.Main(m))
}

func applyLab(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	cfg, problems := hcl.Load(&lang.Source{Dir: filepath.Dir(file), Files: map[string][]byte{"lab.hcl": text}}, lang.Vars{})
	if problems.HasErrors() {
		return problems.Write(os.Stderr, 100, false)
	}
	for i := range cfg.Benchmarks {
		for j := range cfg.Benchmarks[i].Cells {
			cfg.Benchmarks[i].Cells[j].Workload.Speed = 1 // the engine is simulated: nothing is doubted for what else this machine does
		}
	}
	store, err := results.Open(ctx, filepath.Join(filepath.Dir(file), ".hcl"))
	if err != nil {
		return err
	}
	defer store.Close()
	for i := range cfg.Tunes {
		for j := range cfg.Tunes[i].Loads {
			cfg.Tunes[i].Loads[j].Workload.Speed = 1
		}
	}
	known, err := store.Known(ctx)
	if err != nil {
		return err
	}
	ledgers, err := store.Ledgers(ctx)
	if err != nil {
		return err
	}
	for id, k := range known {
		if k.Capacity != nil && os.Getenv(forgetEnv) != "" {
			delete(known, id)
		}
	}
	binaries, err := agent.ReadBinaries(os.Getenv(binaryEnv))
	if err != nil {
		return err
	}
	p, out := plan.New(cfg, plan.Options{Known: known, Ledgers: ledgers}), json.NewEncoder(os.Stdout)
	_, err = apply.Run(ctx, p, store, apply.Options{
		Options: place.Options{Binaries: binaries, Holder: "the test"},
		Run:     results.Run{ID: results.NewRunID(time.Now()), Lab: p.Lab.Name, Command: "apply"},
		Events:  func(e apply.Event) { out.Encode(e) },
	})
	return err
}

// searching is an hcl apply of a lab that can be killed.
type searching struct {
	testing.TB
	lab string
	env []string
	of  string // whose tries count; empty: every benchmark's
}

// apply applies the lab, until it has tried so many loads if that is not 0: then it is killed. It returns the events.
func (s *searching) apply(until int, env ...string) (events []apply.Event) {
	s.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), exe)
	cmd.Env = append(append(os.Environ(), s.env...), env...)
	cmd.Stderr = s.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	tried := 0
	for d := json.NewDecoder(bufio.NewReader(out)); ; {
		var e apply.Event
		if err := d.Decode(&e); err != nil {
			break
		}
		events = append(events, e)
		if e.Type == apply.Tried && (s.of == "" || e.Benchmark == s.of) {
			tried++
		}
		if until > 0 && tried >= until && (e.Type == apply.Progress || e.Type == apply.Try) { // in the next
			cmd.Process.Kill()
		}
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil && until == 0 {
		s.Fatal(err)
	}
	return events
}

// store reads what is stored.
func (s *searching) store(read func(*results.Store)) {
	s.Helper()
	store, err := results.Open(s.Context(), filepath.Join(filepath.Dir(s.lab), ".hcl"))
	if err != nil {
		s.Fatal(err)
	}
	defer store.Close()
	read(store)
}

// newSearching is a lab with a search on an engine that holds 8 requests in flight, also where there is one more for a moment, and not 11.
func newSearching(t *testing.T, capacity, slo, load string) *searching {
	t.Helper()
	engine := httptest.NewServer(sim.New(sim.Config{Model: "sim", Table: sim.Table{
		{Concurrency: 8, TTFT: 20 * time.Millisecond, ITL: time.Millisecond}, {Concurrency: 12, TTFT: 1400 * time.Millisecond, ITL: time.Millisecond}}}))
	t.Cleanup(engine.Close)
	s := newLab(t)
	s.write(engine.URL, capacity, slo, load)
	return s
}

// newLab is a lab that is not written yet.
func newLab(t *testing.T) *searching {
	t.Helper()
	home, err := os.MkdirTemp("", "s") // short, for the agent's socket is below it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	s := &searching{TB: t, lab: filepath.Join(t.TempDir(), "lab.hcl")}
	s.env = []string{searchEnv + "=" + s.lab, binaryEnv + "=" + testhost.HCL(t), "HOME=" + home}
	return s
}

func (s *searching) write(url, capacity, slo, load string) {
	s.Helper()
	if err := os.WriteFile(s.lab, fmt.Appendf(nil, `
lab "search" { lease = "20s" }
model "sim" { repo = "sim" }
engine "external" "e" {
  url   = %q
  model = model.sim
}
dataset "random" "short" { input_tokens = 8 }
benchmark "chat" {
  engine  = engine.external.e
  dataset = dataset.random.short
  capacity {
    %s
  }
  slo { %s }
  load { %s }
}
`, url, capacity, slo, load), 0o644); err != nil {
		s.Fatal(err)
	}
}

// TestSearch: a search that is killed again and again finds what the engine holds, measures nothing twice, and from what is
// stored finds the same once more, without measuring anything. Asked for less it is answered from what is there.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := newSearching(t, "of = \"concurrency\"\nwithin = [2, 24]\nprecision = 0.5\nbudget = 20000", `ttft_p95 = "700ms"`, "output_tokens = 1")
	for range 3 {
		s.apply(1)
	}
	s.apply(0)
	var found results.Capacity
	s.store(func(store *results.Store) {
		rows, err := store.Rows(t.Context(), results.Query{})
		if err != nil {
			t.Fatal(err)
		}
		seen, runs := map[string]string{}, map[string]bool{}
		for _, r := range rows {
			at := fmt.Sprint(r.Axes, r.Repetition)
			if before := seen[r.ID]; before != "" {
				t.Errorf("%s is measured twice, as %s too", at, before)
			}
			seen[r.ID], runs[r.RunID] = at, true
		}
		if len(runs) < 3 {
			t.Errorf("measurements of %d runs, want some of each that was killed", len(runs))
		}
		all, err := store.Capacities(t.Context(), results.Query{Latest: true})
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		found = all[0]
	})
	o := found.Outcome
	if o.Holds == nil || *o.Holds != 8 || o.Breaks == nil || *o.Breaks <= 8 || *o.Breaks > 12 || !o.Over || !o.Finished || o.BoundBy != "ttft_p95" {
		t.Errorf("found %+v", o)
	}

	again := s.apply(0, forgetEnv+"=1")
	for _, e := range again {
		if e.Type == apply.Try {
			t.Errorf("%v is measured again", e.Axes)
		}
		if e.Type == apply.End {
			if diff := cmp.Diff(&o, e.Capacity); diff != "" {
				t.Errorf("from what is stored (-want +got):\n%s", diff)
			}
		}
	}
	if again = s.apply(0); len(again) > 0 {
		t.Errorf("of an answer that is there: %+v", again)
	}
	text, err := os.ReadFile(s.lab)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.lab, []byte(strings.Replace(string(text), "budget = 20000", "budget = 30000", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, e := range s.apply(0) {
		if e.Type == apply.Begin && e.Capacity == nil {
			return
		}
	}
	t.Error("another question is not asked")
}

// TestSearchEnds: a load that none meets, one that all meet, and a line that no answer has a value for.
func TestSearchEnds(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		within, slo string
		is          func(o *results.Capacity) bool
	}{
		"none":    {"[12, 24]", `ttft_p95 = "700ms"`, func(c *results.Capacity) bool { return c.Outcome.Holds == nil && *c.Outcome.Breaks == 12 }},
		"all":     {"[2, 8]", `ttft_p95 = "700ms"`, func(c *results.Capacity) bool { return *c.Outcome.Holds == 8 && c.Outcome.AtLeast }},
		"no TPOT": {"[2, 8]", `tpot_p95 = "500ms"`, func(c *results.Capacity) bool { return strings.Contains(c.Outcome.Flaw, "no answer has a tpot") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSearching(t, "of = \"concurrency\"\nbudget = 20000\nwithin = "+x.within, x.slo, "output_tokens = 1")
			s.apply(0)
			s.store(func(store *results.Store) {
				all, err := store.Capacities(t.Context(), results.Query{Latest: true})
				if err != nil || len(all) != 1 || !all[0].Outcome.Over || !x.is(&all[0]) {
					t.Errorf("%+v, %v", all, err)
				}
			})
		})
	}
}

// TestSearchGone: where every request of two loads fails, while the engine serves small ones, the search ends with the reason. The next apply
// tries both again, and finds what it holds by then.
func TestSearchGone(t *testing.T) {
	t.Parallel()
	answers, mended := sim.New(sim.Config{Model: "sim", TTFT: 100 * time.Millisecond}), new(atomic.Bool)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !mended.Load() && bytes.Contains(body, []byte(`"stream":true`)) {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answers.ServeHTTP(w, r)
	}))
	t.Cleanup(engine.Close)
	s := newLab(t)
	s.write(engine.URL, "of = \"concurrency\"\nbudget = 20000\nwithin = [2, 8]", `ttft_p95 = "700ms"`, "output_tokens = 1")
	tried := 0
	for _, e := range s.apply(0) {
		if e.Type == apply.Try {
			tried++
		}
		if within := e.Type == apply.Try || e.Type == apply.Tried; within != (e.Try == 1) && e.Type != apply.Progress {
			t.Errorf("%s of try %d, each load was tried once", e.Type, e.Try)
		}
	}
	found := func() (o capacity.Outcome) {
		s.store(func(store *results.Store) {
			all, err := store.Capacities(t.Context(), results.Query{Latest: true})
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			o = all[0].Outcome
		})
		return o
	}
	if o := found(); tried != 2 || o.Holds != nil || o.Breaks != nil || !o.Over ||
		!strings.Contains(o.Ended, "every request has failed at a load of 8, and at one of 2 then (no request was answered: ") {
		t.Errorf("%d tries, %+v", tried, o)
	}
	mended.Store(true)
	s.apply(0)
	if o := found(); o.Holds == nil || *o.Holds != 8 || o.Ended != "" {
		t.Errorf("mended, it has found %+v", o)
	}
}
