package apply

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// TestKeptWithoutSecrets: what a server has said is kept in several parts of a summary, and without secrets in each.
func TestKeptWithoutSecrets(t *testing.T) {
	store, err := results.Open(t.Context(), filepath.Join(t.TempDir(), ".hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	said := func() (p load.Part) {
		p.ErrorSamples = []string{"401: hush-hush is not known"}
		p.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "it said hush-hush")}
		return p
	}
	untrimmed, steady := said(), said()
	out := results.Cell{ID: "cell", RunID: "run", Error: "hush-hush", Summary: &load.Summary{
		Part: said(), Untrimmed: &untrimmed, Steady: &steady, Clients: []load.Client{{Host: "c0", Part: said()}},
	}}
	k := keeper{store, "run", plain.NewSecrets("hush-hush")}
	k.cell(t.Context(), &out, []load.Record{{Error: "hush-hush"}}) // of a run that the store does not know
	text, err := json.Marshal(out)
	if err != nil || strings.Contains(string(text), "hush") || strings.Count(string(text), "is not known") != 4 {
		t.Errorf("%s, %v", text, err)
	}
}
