package formats

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/results"
)

// TestKeepIsWhole: of an import that ends in the middle nothing is stored, also when nobody
// can clean up after it, as nobody can after a kill.
func TestKeepIsWhole(t *testing.T) {
	dir := t.TempDir()
	s, err := results.Open(t.Context(), dir)
	check(t, err)
	defer s.Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, "results.db"))
	check(t, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TRIGGER ends BEFORE INSERT ON cells WHEN EXISTS (SELECT * FROM cells) BEGIN SELECT RAISE(ABORT, 'it ends here'); END;
		CREATE TRIGGER stays BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'it is killed'); END`)
	check(t, err)
	run := func() results.Run {
		return results.Run{ID: results.NewRunID(time.Now()), Lab: "lab", Command: "import", Started: time.Now()}
	}
	two, _, err := ReadTable(strings.NewReader("engine,conc,completed,duration\nvllm,1,3,5\nvllm,2,3,5\n"))
	check(t, err)
	if _, err := Keep(t.Context(), s, run(), two); err == nil || !strings.Contains(err.Error(), "it ends here") {
		t.Errorf("Keep: %v", err)
	}
	if runs, err := s.Runs(t.Context()); err != nil || len(runs) > 0 {
		t.Errorf("runs %+v, %v; want none", runs, err)
	}
	whole := run()
	_, err = Keep(t.Context(), s, whole, two[:1])
	check(t, err)
	rows, err := s.Rows(t.Context(), results.Query{Latest: true})
	check(t, err)
	if len(rows) != 1 || rows[0].Run.Outcome != "done" || rows[0].Run.Finished.IsZero() || rows[0].Run.Bundled {
		t.Errorf("rows %+v; want one of a run that is done", rows)
	}
}
