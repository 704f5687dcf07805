package apply

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/results"
)

// TestKeepInterrupted: a cell that was measured when Ctrl-C came is kept.
func TestKeepInterrupted(t *testing.T) {
	store, err := results.Open(t.Context(), filepath.Join(t.TempDir(), ".hcl"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	row := results.Deployment{ID: "d", RunID: "r", Engine: "sim.e"}
	if err := store.BeginRun(t.Context(), results.Run{ID: "r", Lab: "l", Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := store.PutDeployment(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	k := &keeper{store: store, run: "r"}
	out := results.Cell{ID: "c", RunID: "r", DeploymentID: "d", Started: time.Now(), Summary: &load.Summary{Part: load.Part{Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}}}}}
	if err := k.cell(ctx, &out, nil); err != nil {
		t.Error(err)
	}
	rows, err := store.Rows(t.Context(), results.Query{})
	if err != nil || len(rows) != 1 {
		t.Errorf("%d cells are kept, %v", len(rows), err)
	}
}
