package results

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost"
)

// What bundled has a bundle of.
const (
	bundledRun  = "20261121-120000-k3f9"
	bundledVoid = "0123456789a0"
	bundledCell = "0123456789a1"
	bundledFrom = "0123456789d1"
)

// bundled is a store with one run and the bundle of that run.
func bundled(t *testing.T, place string) (*Store, []byte) {
	t.Helper()
	s := open(t, place)
	cell, none, d := testCell(bundledRun, bundledCell), testCell(bundledRun, bundledVoid), testDeployment(bundledRun)
	none.Summary, none.Error = nil, "the engine died"
	d.ID, cell.DeploymentID, none.DeploymentID = bundledFrom, bundledFrom, bundledFrom
	check(t, s.BeginRun(t.Context(), testRun(bundledRun)))
	check(t, s.PutDeployment(t.Context(), d))
	check(t, s.PutCell(t.Context(), none, nil))
	check(t, s.PutCell(t.Context(), cell, testRecords()))
	check(t, s.PutInputs(t.Context(), bundledRun, map[string][]byte{
		"lab/lab.hcl": []byte("lab \"quickstart\" {}\n"), "logs/vllm.h200-1.log": []byte("loading\n"),
	}))
	check(t, s.Event(t.Context(), bundledRun, Event{Time: noon, Level: "warn", Message: "gpu throttled"}))
	check(t, s.FinishRun(t.Context(), bundledRun, "done", noon.Add(time.Hour)))
	var b, again bytes.Buffer
	check(t, s.WriteBundle(t.Context(), &b, bundledRun, map[string][]byte{"report.txt": []byte("fine\n")}))
	check(t, s.WriteBundle(t.Context(), &again, bundledRun, map[string][]byte{"report.txt": []byte("fine\n")}))
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("two bundles of a run differ")
	}
	if !IsBundle(b.Bytes()) {
		t.Error("a bundle does not begin as one")
	}
	return s, b.Bytes()
}

// everything is all that a store has of a run.
func everything(t *testing.T, s *Store, run string) []any {
	t.Helper()
	r, err := s.run(t.Context(), run)
	check(t, err)
	r.Bundled = false
	rows, err := s.Rows(t.Context(), Query{Run: run})
	check(t, err)
	deployments, err := s.deployments(t.Context(), run)
	check(t, err)
	events, err := s.Events(t.Context(), run)
	check(t, err)
	inputs, err := s.Inputs(t.Context(), run)
	check(t, err)
	all := []any{r, deployments, events, inputs}
	for _, row := range rows {
		row.Run.Bundled = false
		records, err := s.Records(t.Context(), run, row.ID)
		check(t, err)
		all = append(all, row, records)
	}
	return all
}

// TestBundle goes from one kind of store to the other.
func TestBundle(t *testing.T) {
	t.Run("to a folder", func(t *testing.T) { testBundle(t, testhost.Database(t), t.TempDir()) })
	t.Run("to postgres", func(t *testing.T) { testBundle(t, t.TempDir(), testhost.Database(t)) })
}

func testBundle(t *testing.T, here, there string) {
	from, b := bundled(t, here)
	to := open(t, there)
	fill(t, to, testRun("own"), testCell("own", "own1"))
	for range 2 { // the second time it takes its own place
		run, err := to.ImportBundle(t.Context(), bytes.NewReader(b))
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
	rows, err := to.Rows(t.Context(), Query{Latest: true})
	check(t, err)
	if len(known) != 1 || len(rows) != 1 || rows[0].ID != "own1" {
		t.Errorf("%d cells are known and %d measured here; want 1 and 1", len(known), len(rows))
	}
	if found, err := to.Litter(t.Context(), Outdated{Before: time.Now().Add(time.Hour)}); err != nil || len(found) > 0 {
		t.Errorf("Litter = %v, %v; want none", found, err)
	}
	runs, err := to.Runs(t.Context())
	check(t, err)
	if len(runs) != 2 || runs[0].Bundled == runs[1].Bundled {
		t.Errorf("runs %v; want one of the bundle and one of our own", runs)
	}
	if _, err := from.ImportBundle(t.Context(), bytes.NewReader(b)); err == nil {
		t.Error("a bundle took the place of the run that it was made of")
	}
	if diff := cmp.Diff(everything(t, to, bundledRun), everything(t, from, bundledRun)); diff != "" {
		t.Errorf("the run after its bundle was refused (-want +got):\n%s", diff)
	}
}

// TestBundleCut: of a bundle that ends too early, nothing is stored.
func TestBundleCut(t *testing.T) {
	_, b := bundled(t, t.TempDir())
	s := open(t, t.TempDir())
	for n := 0; n < len(b); n += max(1, len(b)/60) {
		if _, err := s.ImportBundle(t.Context(), bytes.NewReader(b[:n])); err == nil {
			t.Errorf("the first %d bytes of %d are a bundle", n, len(b))
		}
	}
	runs, err := s.Runs(t.Context())
	if err != nil || len(runs) > 0 {
		t.Errorf("runs %v, %v; want none", runs, err)
	}
}
