package formats

import (
	"database/sql"
	"path/filepath"
	"strings"
	"syscall"
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

// TestNewerImport: what was imported last counts, also where it has no date, is faster than before or void.
func TestNewerImport(t *testing.T) {
	s, err := results.Open(t.Context(), t.TempDir())
	check(t, err)
	defer s.Close()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{
		`{"backend": "sglang", "dataset_name": "random", "completed": 500, "duration": 120.0}`,
		`{"backend": "sglang", "dataset_name": "random", "completed": 500, "duration": 100.0}`,
		`{"backend": "sglang", "dataset_name": "random", "completed": 0, "duration": 110.0}`,
	} {
		all, _, err := Read(strings.NewReader(text))
		check(t, err)
		check(t, Unsaid{}.Complete(all))
		at = at.Add(time.Hour)
		_, err = Keep(t.Context(), s, results.Run{ID: results.NewRunID(at), Lab: "lab", Command: "import", Started: at}, all)
		check(t, err)
		rows, err := s.Rows(t.Context(), results.Query{Latest: true})
		check(t, err)
		if len(rows) != 1 || rows[0].Summary.Duration != all[0].Summary.Duration {
			t.Errorf("after %s there are %+v", text, rows)
			continue
		}
		if r := rows[0]; !r.Started.IsZero() || !r.Finished.IsZero() || !r.Kept().Equal(at) {
			t.Errorf("it was from %v to %v, and kept at %v", r.Started, r.Finished, r.Kept())
		}
		if line, err := vllm().JSON(rows[0]); err != nil || !strings.Contains(string(line), `"date": null`) {
			t.Errorf("as vLLM's: %s, %v", line, err)
		}
	}
}

// TestReadPlainFiles: what may never come to its end is refused before it is opened.
func TestReadPlainFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadFile(pipe); err == nil || !strings.Contains(err.Error(), "is no plain file") {
		t.Errorf("a pipe: %v", err)
	}
}
