package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		var out, said bytes.Buffer
		if code := run(t.Context(), []string{"plan", dir}, os.Stdin, &out, &said); code != exitDone {
			t.Fatalf("plan: exit %d\n%s%s", code, out.String(), said.String())
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
