package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/plan"
	"hclbench/results"
)

// TestPlanWhileRunning: who plans while a run goes on is told of it.
func TestPlanWhileRunning(t *testing.T) {
	text, err := os.ReadFile("../../examples/quickstart/lab.hcl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lab.hcl"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	store, err := results.Open(t.Context(), storeDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	going := newRun("quickstart", "apply")
	if err := store.BeginRun(t.Context(), going); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		t.Helper()
		var said bytes.Buffer
		c := &console{stdout: io.Discard, stderr: &said}
		if err := runPlan(t.Context(), c, planOptions{lab: labFlags{path: dir}, by: string(plan.ByHost)}); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	if got := said(); !strings.Contains(got, "a run of this lab goes on") || !strings.Contains(got, going.ID) {
		t.Errorf("while it goes on plan says %q", got)
	}
	if err := store.FinishRun(t.Context(), going.ID, "done", time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := said(); got != "" {
		t.Errorf("afterwards plan says %q", got)
	}
}
