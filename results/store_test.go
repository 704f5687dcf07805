package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/telemetry"
	"hclbench/testhost"
)

func open(t *testing.T, place string) *Store {
	t.Helper()
	s, err := openPlace(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openPlace opens a folder or a database that is shared.
func openPlace(ctx context.Context, place string) (*Store, error) {
	if IsShared(place) {
		return OpenShared(ctx, place, os.TempDir(), slog.New(slog.DiscardHandler))
	}
	return Open(ctx, place)
}

// everywhere runs a test with each kind of store.
func everywhere(t *testing.T, test func(t *testing.T, place string)) {
	t.Run("folder", func(t *testing.T) { test(t, t.TempDir()) })
	t.Run("postgres", func(t *testing.T) { test(t, testhost.Database(t)) })
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)

func testRun(id string) Run {
	return Run{ID: id, Lab: "quickstart", Command: "apply", Version: "v1.0.0", Started: noon}
}

func testDeployment(run string) Deployment {
	return Deployment{
		ID: "d1", RunID: run, Engine: "vllm.h200", Kind: "vllm", Host: "h200", GPUs: "8xH200",
		Model: "deepseek-ai/DeepSeek-R1", Image: "vllm/vllm-openai:v0.7.3", Digest: "sha256:abc",
		Command: []string{"vllm", "serve", "it's"}, Identity: map[string]string{"image": "sha256:abc"},
		Facts: json.RawMessage(`{"os":"linux"}`), Started: noon, Ready: 12.25,
		GPUCount: 8, PricePerHour: 28.5, Versions: map[string]string{"vllm": "0.7.3"},
		Served: json.RawMessage(`{"tp_size":8}`), Phases: []Phase{{Name: "loading weights", Seconds: 61.5}}, CompileCache: "warm", Stopped: noon.Add(time.Hour),
	}
}

// testCell is a cell with every field filled, its numbers as long as floats get.
func testCell(run, id string) Cell {
	goodput := 0.1 + 0.2
	ratio := 0.5
	stats := load.Stats{Count: 3, Mean: 1.0 / 3, Median: 2.0 / 3, Std: 0.1, Min: 1e-9, Max: 123456.789,
		Percentiles: map[string]float64{"50": 2.0 / 3, "99": 1e6 / 7}}
	return Cell{
		ID: id, RunID: run, DeploymentID: "d1", Benchmark: "online",
		Axes: Axes{{"engine", "vllm.h200"}, {"concurrency", int64(64)}, {"ratio", 1.0}, {"chunked", true}}, Repetition: 1,
		Identity: map[string]string{"deployment": "d1", "load": "concurrency=64"},
		Job: Task{Job: load.Job{
			Target: load.Target{BaseURL: "http://127.0.0.1:8000", Model: "m"},
			Workload: load.Workload{
				Dataset:  load.Dataset{Kind: load.Random, InputTokens: 3200, RangeRatio: &ratio, Convention: load.ConventionVLLM},
				Requests: 500, Concurrency: 64, Rate: load.Inf, OutputTokens: 800, IgnoreEOS: true, Endpoint: load.Completions,
				Timeout: load.Duration(90 * time.Second), SLO: []load.Objective{{Metric: "ttft", Percentile: 99, Max: load.Duration(5 * time.Second)}},
			},
			Seed: 1<<64 - 1, Percentiles: []float64{50, 99.9},
		}},
		Started: noon, Finished: noon.Add(time.Minute), CacheReset: "flushed",
		Summary: &load.Summary{
			Part: load.Part{Figures: load.Figures{
				Started: noon, Duration: 59.999999999, Requests: 500, Completed: 499, Failed: 1,
				Errors: map[string]int{load.ClassStall: 1}, ErrorSamples: []string{"no byte for 5m"},
				InputTokens: 1 << 40, OutputTokens: 399200, RequestThroughput: 8.31666, OutputThroughput: 1e4 / 3, TotalThroughput: 1e5 / 3, TTFT: stats, TPOT: stats, ITL: stats, E2EL: stats, Queue: stats, SendLag: stats,
				MeanConcurrency: 63.9, PeakConcurrency: 64, PeakOutputThroughput: 4000,
			}, Judgement: load.Judgement{
				Goodput: &goodput,
				Verdict: load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "1 of 500 requests failed")},
			}, Generator: load.Generator{CPUShare: 0.2}},
		},
		Telemetry: &telemetry.Record{
			Interval: 1, Expected: 8, Missing: 1, Energy: 1234.5, PrefixHitRate: &ratio, Acceptance: &ratio, Problems: []string{"gpu7: nvidia-smi said nothing"},
			Series: []telemetry.Series{{Of: "gpu0", Name: telemetry.Power, Unit: "W", At: []float64{0.5, 1.5}, Value: []float64{690.25, 701}}},
		},
		Origin: &Origin{Format: "vllm", Fields: json.RawMessage(`{"duration":1.0}`)},
	}
}

func testRecords() []load.Record {
	return []load.Record{
		{Seq: 0, Sent: 5, First: 100, Last: 300, Gaps: []time.Duration{100, 100}, InputTokens: 3200, OutputTokens: 3, AskedInput: 3200, AskedOutput: 3, Finish: "length"},
		{Seq: 1, Scheduled: 1, Sent: 7, Class: load.ClassStatus, Error: "503: busy\n\"x\""},
	}
}

// fill stores a run with a deployment and cells.
func fill(t *testing.T, s *Store, run Run, cells ...Cell) {
	t.Helper()
	check(t, s.BeginRun(t.Context(), run))
	check(t, s.PutDeployment(t.Context(), testDeployment(run.ID)))
	for _, c := range cells {
		check(t, s.PutCell(t.Context(), c, testRecords()))
	}
}

func TestRoundTrip(t *testing.T) { everywhere(t, testRoundTrip) }

func testRoundTrip(t *testing.T, dir string) {
	if !IsShared(dir) {
		// A name with everything that means something in the URL of a database.
		dir = filepath.Join(dir, "a lab?x=1#&%41", ".hcl")
	}
	s := open(t, dir)
	run := testRun("r1")
	fill(t, s, run, testCell("r1", "c1"))
	event := Event{Time: noon, Level: "warn", Host: "h200", Engine: "vllm.h200", Cell: "c1", Message: "gpu throttled"}
	check(t, s.Event(t.Context(), "r1", event))
	check(t, s.FinishRun(t.Context(), "r1", "done", noon.Add(time.Hour)))
	id := s.ID()
	check(t, s.Close())

	s = open(t, dir)
	if s.ID() != id || len(id) != 16 {
		t.Errorf("ID() = %q after opening again, was %q", s.ID(), id)
	}
	run.Finished, run.Outcome = noon.Add(time.Hour), "done"
	runs, err := s.Runs(t.Context())
	check(t, err)
	if diff := cmp.Diff([]Run{run}, runs); diff != "" {
		t.Errorf("Runs (-want +got):\n%s", diff)
	}
	rows, err := s.Rows(t.Context(), Query{})
	check(t, err)
	if diff := cmp.Diff([]Row{{Cell: testCell("r1", "c1"), Deployment: testDeployment("r1"), Run: run}}, rows); diff != "" {
		t.Errorf("Rows (-want +got):\n%s", diff)
	}
	records, err := s.Records(t.Context(), "r1", "c1")
	check(t, err)
	if diff := cmp.Diff(testRecords(), records); diff != "" {
		t.Errorf("Records (-want +got):\n%s", diff)
	}
	events, err := s.Events(t.Context(), "r1")
	check(t, err)
	if diff := cmp.Diff([]Event{event}, events); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	known, err := s.Known(t.Context())
	check(t, err)
	want := map[string]Known{"c1": {
		Verdict: load.Suspect, RunID: "r1", Deployment: "d1", Lab: "quickstart", Finished: noon.Add(time.Minute), Took: time.Minute,
		Engine: "vllm.h200", Host: "h200", Ready: 12250 * time.Millisecond, Benchmark: "online",
		Axes:       `{"engine":"vllm.h200","concurrency":64,"ratio":1.0,"chunked":true}`,
		Repetition: 1, Identity: testCell("r1", "c1").Identity, Digests: map[string]string{"serve": "sha256:abc"},
	}}
	if diff := cmp.Diff(want, known); diff != "" {
		t.Errorf("Known (-want +got):\n%s", diff)
	}
}

func TestCellWithoutMeasurement(t *testing.T) { everywhere(t, testCellWithoutMeasurement) }

func testCellWithoutMeasurement(t *testing.T, place string) {
	s := open(t, place)
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	cell := testCell("r1", "c1")
	cell.Summary, cell.Error = nil, "the container exited with code 1"
	check(t, s.PutCell(t.Context(), cell, nil)) // and without a deployment
	rows, err := s.Rows(t.Context(), Query{})
	check(t, err)
	if diff := cmp.Diff([]Row{{Cell: cell, Run: testRun("r1")}}, rows); diff != "" {
		t.Errorf("Rows (-want +got):\n%s", diff)
	}
	records, err := s.Records(t.Context(), "r1", "c1")
	if err != nil || records != nil {
		t.Errorf("Records = %v, %v; want none", records, err)
	}
	if _, err := s.Records(t.Context(), "r1", "c2"); !errors.Is(err, ErrNoCell) {
		t.Errorf("Records of a cell that is not there: %v", err)
	}
}

func TestQuery(t *testing.T) { everywhere(t, testQuery) }

func testQuery(t *testing.T, place string) {
	s := open(t, place)
	cell := func(run, id, verdict string, after time.Duration) Cell {
		c := testCell(run, id)
		c.Started, c.Finished = noon.Add(after), noon.Add(after+time.Second)
		c.Summary.Verdict.Verdict = verdict
		return c
	}
	fill(t, s, testRun("r1"), cell("r1", "aa1", load.Valid, 2), cell("r1", "ab1", load.Valid, 1), cell("r1", "b", load.Void, 3))
	offline := cell("r2", "b", load.Void, 10)

	fill(t, s, testRun("r2"), cell("r2", "aa1", load.Suspect, 11), offline, cell("r2", "ab1", load.Void, 12))
	rehearsal := testRun("r3")
	rehearsal.Command = "rehearse"
	fill(t, s, rehearsal, cell("r3", "aa1", load.Valid, 20))

	for name, c := range map[string]struct {
		query Query
		want  string
	}{
		"all, as measured":      {Query{}, "r1/ab1 r1/aa1 r1/b r2/b r2/aa1 r2/ab1"},
		"one run":               {Query{Run: "r1"}, "r1/ab1 r1/aa1 r1/b"},
		"a rehearsal":           {Query{Run: "r3"}, "r3/aa1"},
		"all rehearsals":        {Query{Rehearsed: true, Latest: true}, "r3/aa1"},
		"prefix":                {Query{Cell: "a"}, "r1/ab1 r1/aa1 r2/aa1 r2/ab1"},
		"latest":                {Query{Latest: true}, "r1/ab1 r2/b r2/aa1"},
		"latest of one run":     {Query{Latest: true, Run: "r2", Cell: "ab"}, "r2/ab1"},
		"prefix is no wildcard": {Query{Cell: "%"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := s.Rows(t.Context(), c.query)
			check(t, err)
			var got []string
			for _, r := range rows {
				got = append(got, r.RunID+"/"+r.ID)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("Rows(%+v) (-want +got):\n%s", c.query, diff)
			}
		})
	}

	known, err := s.Known(t.Context())
	check(t, err)
	got := map[string]string{}
	for id, k := range known {
		got[id] = k.RunID + " " + k.Verdict
	}
	if diff := cmp.Diff(map[string]string{"aa1": "r2 suspect", "ab1": "r1 valid", "b": "r2 void"}, got); diff != "" {
		t.Errorf("Known (-want +got):\n%s", diff)
	}
}

func TestSQLView(t *testing.T) { everywhere(t, testSQLView) }

func testSQLView(t *testing.T, place string) {
	s := open(t, place)
	fill(t, s, testRun("r1"), testCell("r1", "c1"))
	var engine string
	var output, p99, concurrency float64
	axis := `axes ->> '$.concurrency'`
	if s.Shared() {
		axis = `axes::json ->> 'concurrency'`
	}
	check(t, s.db.QueryRow(`SELECT engine, output_throughput, ttft_p99_ms, `+axis+` FROM results WHERE verdict = 'suspect'`).
		Scan(&engine, &output, &p99, &concurrency))
	if engine != "vllm.h200" || output != 1e4/3 || p99 != 1e6/7 || concurrency != 64 {
		t.Errorf("results view: %s %v %v %v", engine, output, p99, concurrency)
	}
	// Each column reads a member that a summary really has.
	rows, err := s.db.Query(`SELECT * FROM results`)
	check(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	check(t, err)
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(any)
	}
	rows.Next()
	check(t, rows.Scan(values...))
	for i, v := range values {
		if *v.(*any) == nil {
			t.Errorf("column %s is null", columns[i])
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) { everywhere(t, testNewerSchemaIsRefused) }

func testNewerSchemaIsRefused(t *testing.T, place string) {
	s := open(t, place)
	statement := `PRAGMA user_version = 99`
	if s.Shared() {
		statement = `UPDATE schema_version SET version = 99`
	}
	_, err := s.db.Exec(statement)
	check(t, err)
	check(t, s.Close())
	_, err = openPlace(t.Context(), place)
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), fmt.Sprintf("version 99, this hcl knows up to %d", schemaVersion)) {
		t.Errorf("Open of a newer store: %v", err)
	}
}

func TestForeignFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "results.db")
	check(t, os.WriteFile(file, []byte("these are my notes, and not a database"), 0o644))
	if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Errorf("Open over another file: %v", err)
	}
	if b, _ := os.ReadFile(file); !strings.HasPrefix(string(b), "these are my notes") {
		t.Error("the file was changed")
	}
}

func TestDurability(t *testing.T) {
	s := open(t, t.TempDir())
	var mode string
	var synchronous int
	check(t, s.db.QueryRow(`PRAGMA journal_mode`).Scan(&mode))
	check(t, s.db.QueryRow(`PRAGMA synchronous`).Scan(&synchronous))
	if mode != "wal" || synchronous != 2 {
		t.Errorf("journal_mode %s, synchronous %d; want wal, 2 (full)", mode, synchronous)
	}
}

func TestLock(t *testing.T) { everywhere(t, testLock) }

func testLock(t *testing.T, place string) {
	a, b := open(t, place), open(t, place)
	unlock, err := a.Lock(t.Context(), "lab", "hcl apply lab/")
	check(t, err)
	_, err = b.Lock(t.Context(), "lab", "hcl apply other/")
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "by hcl apply lab/ (process ") {
		t.Errorf("second Lock: %v", err)
	}
	check(t, unlock())
	unlock, err = b.Lock(t.Context(), "lab", "hcl apply other/")
	check(t, err)
	if a.Shared() { // a folder has one lab
		other, err := a.Lock(t.Context(), "other", "hcl apply other/")
		check(t, err)
		check(t, other())
	}
	check(t, unlock())
}

func TestRefusals(t *testing.T) { everywhere(t, testRefusals) }

func testRefusals(t *testing.T, place string) {
	s := open(t, place)
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	for name, err := range map[string]error{
		"run twice":           s.BeginRun(t.Context(), testRun("r1")),
		"run without id":      s.BeginRun(t.Context(), testRun("")),
		"finish of no run":    s.FinishRun(t.Context(), "r2", "done", noon),
		"deployment of none":  s.PutDeployment(t.Context(), testDeployment("r2")),
		"cell of no run":      s.PutCell(t.Context(), testCell("r2", "c1"), nil),
		"cell that escapes":   s.PutCell(t.Context(), testCell("r1", "../../c1"), testRecords()),
		"event of no run":     s.Event(t.Context(), "r2", Event{}),
		"cancelled beginning": s.BeginRun(cancelled(t), testRun("r3")),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestCellAgain(t *testing.T) { everywhere(t, testCellAgain) }

func testCellAgain(t *testing.T, place string) {
	s := open(t, place)
	fill(t, s, testRun("r1"), testCell("r1", "c1"))
	again := testCell("r1", "c1")
	again.Error = "retried"
	check(t, s.PutCell(t.Context(), again, testRecords()[:1]))
	rows, err := s.Rows(t.Context(), Query{})
	check(t, err)
	records, err := s.Records(t.Context(), "r1", "c1")
	check(t, err)
	if len(rows) != 1 || rows[0].Error != "retried" || len(records) != 1 {
		t.Errorf("got %d rows, %d records", len(rows), len(records))
	}

	// What cannot be stored leaves what was.
	if err := s.PutCell(cancelled(t), testCell("r1", "c1"), testRecords()); err == nil {
		t.Error("PutCell with a cancelled context: no error")
	}
	records, err = s.Records(t.Context(), "r1", "c1")
	check(t, err)
	if len(records) != 1 {
		t.Errorf("got %d records", len(records))
	}
	if !s.Shared() {
		files, err := os.ReadDir(recordsDir(s))
		check(t, err)
		if len(files) != 1 {
			t.Errorf("got files %v", files)
		}
	}
}

func TestNewRunID(t *testing.T) {
	id := NewRunID(time.Date(2026, 11, 21, 14, 25, 1, 0, time.UTC))
	if !strings.HasPrefix(id, "20261121-142501-") || len(id) != len("20261121-142501-k3f9") {
		t.Errorf("NewRunID = %q", id)
	}
	if other := NewRunID(time.Date(2026, 11, 21, 15, 25, 2, 0, time.FixedZone("", 3600))); other <= id[:15] {
		t.Errorf("%q does not sort after %q", other, id)
	}
}

func recordsDir(s *Store) string { return filepath.Join(s.dir, "records") }
