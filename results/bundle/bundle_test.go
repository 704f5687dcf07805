package bundle

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/results"
	"hclbench/testhost"
)

// What testdata/bundle.json has: a run with every field of everything filled.
const (
	bundledRun  = "20261121-120000-k3f9"
	bundledCell = "0123456789a1"
	bundledVoid = "0123456789a0"
)

// ownRun is of a run that was measured where a bundle comes to.
const (
	ownRun  = "20261122-120000-aaaa"
	ownCell = "0123456789b1"
)

// The test binary plays another process: started with this in its environment, it
// imports the bundle of that name into the store of the folder, again and again.
const childEnv = "HCL_BUNDLE_CHILD"

func TestMain(m *testing.M) {
	file := os.Getenv(childEnv)
	if file == "" {
		os.Exit(testhost.Main(m))
	}
	if err := importBundles(context.Background(), os.Getenv(childEnv+"_DIR"), file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func importBundles(ctx context.Context, dir, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s, err := results.Open(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Println("open")
	for {
		if _, err := importInto(ctx, s, bytes.NewReader(b)); err != nil {
			return err
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a folder or a database that is shared.
func open(t *testing.T, place string) *results.Store {
	t.Helper()
	var s *results.Store
	var err error
	if results.IsShared(place) {
		s, err = results.OpenShared(t.Context(), place, os.TempDir(), slog.New(slog.DiscardHandler))
	} else {
		s, err = results.Open(t.Context(), place)
	}
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// sample is what testdata/bundle.json says.
func sample(t *testing.T) (all contents) {
	t.Helper()
	b, err := os.ReadFile("testdata/bundle.json")
	check(t, err)
	var compact bytes.Buffer
	check(t, json.Compact(&compact, b))
	check(t, json.Unmarshal(compact.Bytes(), &all))
	return all
}

// owned is a run of one cell.
func owned(t *testing.T) contents {
	all := sample(t)
	all.Run.ID, all.Deployments, all.Events, all.Cells = ownRun, nil, nil, all.Cells[1:]
	all.Cells[0].ID, all.Cells[0].RunID = ownCell, ownRun
	return all
}

func records() []load.Record {
	return []load.Record{
		{Seq: 0, Sent: 5, First: 100, Last: 300, Gaps: []time.Duration{100, 100}, InputTokens: 3200, OutputTokens: 3, Finish: "length"},
		{Seq: 1, Scheduled: 1, Sent: 7, Class: load.ClassStatus, Error: "503: busy\n\"x\""},
	}
}

// measure stores a run as one that was measured here.
func measure(t *testing.T, s *results.Store, all contents) {
	t.Helper()
	check(t, s.BeginRun(t.Context(), all.Run))
	for _, d := range all.Deployments {
		check(t, s.PutDeployment(t.Context(), d))
	}
	for _, c := range all.Cells {
		var of []load.Record
		if c.Summary != nil {
			of = records()
		}
		check(t, s.PutCell(t.Context(), c, of))
	}
	for _, e := range all.Events {
		check(t, s.Event(t.Context(), all.Run.ID, e))
	}
	check(t, s.PutInputs(t.Context(), all.Run.ID, map[string][]byte{
		"lab/lab.hcl": []byte("lab \"quickstart\" {}\n"), "logs/vllm.h200-1.log": []byte("loading\n"),
	}))
	check(t, s.FinishRun(t.Context(), all.Run.ID, all.Run.Outcome, all.Run.Finished))
}

// bundled is a store with one run and the bundle of that run.
func bundled(t *testing.T, place string) (*results.Store, []byte) {
	t.Helper()
	s := open(t, place)
	measure(t, s, sample(t))
	var b, again bytes.Buffer
	check(t, Write(t.Context(), &b, s, bundledRun, true, map[string][]byte{"report.txt": []byte("fine\n")}))
	check(t, Write(t.Context(), &again, s, bundledRun, true, map[string][]byte{"report.txt": []byte("fine\n")}))
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("two bundles of a run differ")
	}
	if !Is(b.Bytes()) {
		t.Error("a bundle does not begin as one")
	}
	return s, b.Bytes()
}

// TestNoPrices: a lab that shows no prices hands none on.
func TestNoPrices(t *testing.T) {
	s, with := bundled(t, t.TempDir())
	var without bytes.Buffer
	check(t, Write(t.Context(), &without, s, bundledRun, false, nil))
	for of, want := range map[string]bool{string(with): true, without.String(): false} {
		there := open(t, t.TempDir())
		_, err := importInto(t.Context(), there, bytes.NewReader([]byte(of)))
		check(t, err)
		all, err := there.Deployments(t.Context(), bundledRun)
		check(t, err)
		if got := slices.ContainsFunc(all, func(d results.Deployment) bool { return d.PricePerHour > 0 }); got != want {
			t.Errorf("prices are there: %v, want %v", got, want)
		}
	}
}

// importInto receives a bundle and keeps it.
func importInto(ctx context.Context, s *results.Store, r *bytes.Reader) (results.Run, error) {
	in, err := Receive(ctx, r, s)
	if err != nil {
		return results.Run{}, err
	}
	return in.Run(), errors.Join(in.Keep(ctx), in.Close())
}

// everything is all that a store has of a run.
func everything(t *testing.T, s *results.Store, run string) []any {
	t.Helper()
	all, err := read(t.Context(), s, run)
	check(t, err)
	all.Run.Bundled = false
	inputs, err := s.Inputs(t.Context(), run)
	check(t, err)
	list := []any{all, inputs}
	for _, id := range all.Recorded {
		records, err := s.Records(t.Context(), run, id)
		check(t, err)
		list = append(list, records)
	}
	return list
}

// TestFormat: what a bundle says of a run is what an earlier hcl wrote.
func TestFormat(t *testing.T) {
	_, b := bundled(t, t.TempDir())
	e := &edits{t, unpackBundle(t, b)}
	want, err := os.ReadFile("testdata/bundle.json")
	check(t, err)
	var got bytes.Buffer
	check(t, json.Indent(&got, e.file(indexName).content, "", "\t"))
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", indexName, diff)
	}
}

// TestBundle goes from one kind of store to the other.
func TestBundle(t *testing.T) {
	t.Run("to a folder", func(t *testing.T) { testBundle(t, testhost.Database(t), t.TempDir()) })
	t.Run("to postgres", func(t *testing.T) { testBundle(t, t.TempDir(), testhost.Database(t)) })
}

func testBundle(t *testing.T, here, there string) {
	from, b := bundled(t, here)
	to := open(t, there)
	measure(t, to, owned(t))
	given, cancel := context.WithCancel(t.Context())
	in, err := Receive(given, bytes.NewReader(b), to)
	check(t, err)
	cancel()
	if err := in.Keep(given); err == nil {
		t.Error("an import that was given up was kept")
	}
	check(t, in.Close())
	if runs, err := to.Runs(t.Context()); err != nil || len(runs) != 1 {
		t.Errorf("after an import that was given up: %v, %v", runs, err)
	}
	for range 2 { // the second time it takes its own place
		run, err := importInto(t.Context(), to, bytes.NewReader(b))
		check(t, err)
		if run.ID != bundledRun {
			t.Errorf("ImportBundle returned run %q", run.ID)
		}
	}
	if diff := cmp.Diff(everything(t, from, bundledRun), everything(t, to, bundledRun)); diff != "" {
		t.Errorf("the run in the other store (-want +got):\n%s", diff)
	}

	// It stands apart.
	known, err := to.Known(t.Context())
	check(t, err)
	rows, err := to.Rows(t.Context(), results.Query{Latest: true})
	check(t, err)
	if len(known) != 1 || len(rows) != 1 || rows[0].ID != ownCell {
		t.Errorf("%d cells are known and %d measured here; want 1 and 1", len(known), len(rows))
	}
	if found, err := to.Litter(t.Context(), results.Outdated{Before: time.Now().Add(time.Hour)}); err != nil || len(found) > 0 {
		t.Errorf("Litter = %v, %v; want none", found, err)
	}
	runs, err := to.Runs(t.Context())
	check(t, err)
	if len(runs) != 2 || runs[0].Bundled == runs[1].Bundled {
		t.Errorf("runs %v; want one of the bundle and one of our own", runs)
	}
	if _, err := importInto(t.Context(), from, bytes.NewReader(b)); err == nil {
		t.Error("a bundle took the place of the run that it was made of")
	}
	if diff := cmp.Diff(everything(t, to, bundledRun), everything(t, from, bundledRun)); diff != "" {
		t.Errorf("the run after its bundle was refused (-want +got):\n%s", diff)
	}
}

// TestBundleCut: of a bundle that ends too early, nothing is stored.
// TestNoise: a run takes along how noisy its boxes are. Where it comes to, that holds for it alone.
func TestNoise(t *testing.T) {
	noise := func(spread float64) results.Noise {
		return results.Noise{Box: "b", Engine: "vllm.h200", Kind: "vllm", Host: "h200", Starts: 4, Spread: map[string]float64{"output_throughput": spread}}
	}
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	run := sample(t)
	for i := range run.Deployments {
		d := &run.Deployments[i]
		d.Facts = json.RawMessage(`{"box":"b"}`)
		for n := range d.Members {
			d.Members[n].Facts = d.Facts
		}
	}
	measure(t, from, run)
	check(t, from.PutNoise(t.Context(), noise(0.01)))
	check(t, to.PutNoise(t.Context(), noise(0.5)))
	var b bytes.Buffer
	check(t, Write(t.Context(), &b, from, bundledRun, true, nil))
	_, err := importInto(t.Context(), to, bytes.NewReader(b.Bytes()))
	check(t, err)
	rows, err := to.Rows(t.Context(), results.Query{Run: bundledRun})
	check(t, err)
	known := 0
	for _, r := range rows {
		if r.Noise != nil {
			known++
			if got := r.Noise.Spread["output_throughput"]; got != 0.01 {
				t.Errorf("cell %s: the spread is %v, want that of the bundle", r.ID, got)
			}
		}
	}
	if known == 0 {
		t.Error("no cell of the bundle knows how noisy its box is")
	}
	if here, err := to.Noises(t.Context()); err != nil || len(here) != 1 || here[0].Spread["output_throughput"] != 0.5 {
		t.Errorf("the bundle changed what is known here: %+v, %v", here, err)
	}
}

func TestBundleCut(t *testing.T) {
	_, b := bundled(t, t.TempDir())
	s := open(t, t.TempDir())
	for n := 0; n < len(b); n += max(1, len(b)/60) {
		if _, err := importInto(t.Context(), s, bytes.NewReader(b[:n])); err == nil {
			t.Errorf("the first %d bytes of %d are a bundle", n, len(b))
		}
	}
	runs, err := s.Runs(t.Context())
	if err != nil || len(runs) > 0 {
		t.Errorf("runs %v, %v; want none", runs, err)
	}
}

// TestKillImport: whatever moment of an import dies, what was measured here stays,
// and the next import makes the run whole.
func TestKillImport(t *testing.T) {
	from, b := bundled(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "run.bundle")
	check(t, os.WriteFile(file, b, 0o644))
	dir := t.TempDir()
	s := open(t, dir)
	measure(t, s, owned(t))
	own := everything(t, s, ownRun)
	check(t, s.Close())
	for i := range 10 {
		exe, err := os.Executable()
		check(t, err)
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), childEnv+"="+file, childEnv+"_DIR="+dir)
		cmd.Stderr = t.Output()
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		if !bufio.NewScanner(out).Scan() {
			t.Fatal("the child ended by itself")
		}
		<-time.After(rand.N(20 * time.Millisecond)) // an import takes about so long
		check(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		s, err := results.Open(t.Context(), dir)
		if err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
		if diff := cmp.Diff(own, everything(t, s, ownRun)); diff != "" {
			t.Errorf("after kill %d, what was measured here (-want +got):\n%s", i, diff)
		}
		_, err = importInto(t.Context(), s, bytes.NewReader(b))
		check(t, err)
		if diff := cmp.Diff(everything(t, from, bundledRun), everything(t, s, bundledRun)); diff != "" {
			t.Errorf("after kill %d, the run of the bundle (-want +got):\n%s", i, diff)
		}
		check(t, s.Close())
	}
}

// TestDamaged: no bundle is made of what is not what was stored.
func TestDamaged(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"records are damaged": func(t *testing.T, dir string) {
			check(t, os.Truncate(filepath.Join(dir, "records", bundledRun+"-"+bundledCell+results.RecordsSuffix), 5))
		},
		"the row is damaged": func(t *testing.T, dir string) {
			db, err := sql.Open("sqlite", filepath.Join(dir, "results.db"))
			check(t, err)
			_, err = db.Exec(`UPDATE cells SET job = '{broken'`)
			check(t, errors.Join(err, db.Close()))
		},
	} {
		dir := t.TempDir()
		s, _ := bundled(t, dir)
		damage(t, dir)
		if err := Write(t.Context(), new(bytes.Buffer), s, bundledRun, true, nil); err == nil || !strings.Contains(err.Error(), "cell 0123456789a") {
			t.Errorf("%s: Write: %v; want one that names the cell", name, err)
		}
	}
	s := open(t, t.TempDir())
	if err := Write(t.Context(), new(bytes.Buffer), s, bundledRun, true, nil); !errors.Is(err, ErrNoRun) {
		t.Errorf("Write of no run: %v", err)
	}
}

// TestCapacity: what a search has found goes with its run; one that contradicts itself does not come in.
func TestCapacity(t *testing.T) {
	holds, less, most := 8.0, 4.0, 16.0
	line := func(name string, within int) []capacity.LineOutcome {
		return []capacity.LineOutcome{{Name: name, Max: load.Duration(time.Second), Counted: 400, Within: within, Verdict: capacity.Pass}}
	}
	whole := func() capacity.Outcome {
		return capacity.Outcome{Of: capacity.Rate, Holds: &holds, Breaks: &most, Least: 1, Most: 64, Confidence: 0.95, Loads: []capacity.Load{
			{Load: 4, Verdict: capacity.Fail, Tries: 1, Lines: line("ttft_p95", 380)},
			{Load: 8, Verdict: capacity.Pass, Again: capacity.Pass, Tries: 2, Lines: line("ttft_p95", 400)},
			{Load: 16, Verdict: capacity.Fail, Tries: 1, Lines: line("ttft_p95", 300)}}}
	}
	for name, c := range map[string]struct {
		change func(o *capacity.Outcome)
		why    string // empty: it comes in
	}{
		"whole":                   {func(o *capacity.Outcome) {}, ""},
		"without its load":        {func(o *capacity.Outcome) { o.Loads = o.Loads[2:] }, "bound 8 is not a load"},
		"it breaks below":         {func(o *capacity.Outcome) { o.Breaks = &less }, "it holds 8 and breaks by 4"},
		"it holds what fails":     {func(o *capacity.Outcome) { o.Loads[1].Verdict = capacity.Fail }, "its bound 8 is FAIL"},
		"bounds of what is none":  {func(o *capacity.Outcome) { o.Flaw = "drifting" }, "no flaw"},
		"at least below the most": {func(o *capacity.Outcome) { o.AtLeast = true }, "the most of its range"},
		"surer than sure":         {func(o *capacity.Outcome) { o.Confidence = 95 }, "its confidence cannot be 95"},
		"out of its range":        {func(o *capacity.Outcome) { o.Least = 6 }, "its load 4 is out of its range"},
		"twice":                   {func(o *capacity.Outcome) { o.Loads[0].Load = 8 }, "or of its order"},
		"more than all":           {func(o *capacity.Outcome) { o.Loads[0].Lines[0].Within = 401 }, "than were counted"},
		"another SLO":             {func(o *capacity.Outcome) { o.Loads[1].Lines[0].Name = "tpot_p95" }, "has another SLO"},
		"without lines":           {func(o *capacity.Outcome) { o.Loads[1].Lines = nil }, "has 0 lines"},
	} {
		from, to := open(t, t.TempDir()), open(t, t.TempDir())
		all := owned(t)
		measure(t, from, all)
		o := whole()
		c.change(&o)
		check(t, from.PutCapacity(t.Context(), results.Capacity{
			ID: "0123456789c1", RunID: ownRun, DeploymentID: "0123456789d1", Benchmark: "chat", Finished: all.Run.Started, Outcome: o,
		}))
		var b bytes.Buffer
		check(t, Write(t.Context(), &b, from, ownRun, true, nil))
		_, err := importInto(t.Context(), to, bytes.NewReader(b.Bytes()))
		if c.why != "" {
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v, want %q", name, err, c.why)
			}
			continue
		}
		check(t, err)
		if diff := cmp.Diff(everything(t, from, ownRun), everything(t, to, ownRun)); diff != "" {
			t.Errorf("the run in the other store (-want +got):\n%s", diff)
		}
	}
}

// TestStays: what a run has had of rented boxes goes with it, unless it shows no prices; what cannot be does not come in.
func TestStays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *results.Stay)
		why    string // empty: it comes in
	}{
		"whole":          {func(s *results.Stay) {}, ""},
		"cost below 0":   {func(s *results.Stay) { s.Cost = -1 }, "its price cannot be -1"},
		"ends before":    {func(s *results.Stay) { s.Ended = s.Began.Add(-time.Second) }, "its time cannot be"},
		"of a long name": {func(s *results.Stay) { s.Box = strings.Repeat("x", 1<<20) }, "a name has"},
	} {
		from := open(t, t.TempDir())
		all := owned(t)
		measure(t, from, all)
		at := all.Run.Started.UTC()
		stay := results.Stay{RunID: ownRun, Request: "hcl-1", Host: "h200", Plugin: "fake", Box: "b-1", Price: 20, Began: at, Up: at.Add(time.Minute),
			Ready: at.Add(2 * time.Minute), Ended: at.Add(time.Hour), Closed: true, Cost: 20, Told: 21}
		c.change(&stay)
		check(t, from.PutStay(t.Context(), stay))
		for _, prices := range []bool{true, false} {
			var b bytes.Buffer
			check(t, Write(t.Context(), &b, from, ownRun, prices, nil))
			to := open(t, t.TempDir())
			_, err := importInto(t.Context(), to, bytes.NewReader(b.Bytes()))
			if c.why != "" && prices {
				if err == nil || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%s: %v, want %q", name, err, c.why)
				}
				continue
			}
			check(t, err)
			got, err := to.Stays(t.Context(), ownRun)
			check(t, err)
			if want := []results.Stay{stay}; prices && !slices.Equal(got, want) || !prices && got != nil {
				t.Errorf("%s: with prices %v there is %+v", name, prices, got)
			}
		}
	}
}

// TestProof: a run that has proved a box goes as any other.
func TestProof(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	all := owned(t)
	all.Run.Command = results.Proving
	measure(t, from, all)
	var b bytes.Buffer
	check(t, Write(t.Context(), &b, from, ownRun, true, nil))
	_, err := importInto(t.Context(), to, bytes.NewReader(b.Bytes()))
	check(t, err)
}
