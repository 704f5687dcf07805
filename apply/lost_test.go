package apply_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/testhost"
)

// twoHosts is a lab of a simulated engine on each of two hosts, with a data set file.
func twoHosts(one, two *testhost.Host, file string) string {
	text := fmt.Sprintf("dataset \"jsonl\" \"d\" { path = %q }\n", file)
	for i, h := range []*testhost.Host{one, two} {
		text += fmt.Sprintf(`
host "h%[1]d" {
  %[2]s
  runtime = "process"
}
engine "sim" "e%[1]d" {
  host  = host.h%[1]d
  flags = { itl = "20ms" }
}
`, i, reached(h))
	}
	return text + `
benchmark "b" {
  matrix {
    engine        = [engine.sim.e0, engine.sim.e1]
    output_tokens = [10, 11, 12, 13]
  }
  engine   = matrix.engine
  dataset  = dataset.jsonl.d
  requests = 4
  load {
    concurrency   = 1
    output_tokens = matrix.output_tokens
  }
}`
}

// TestWhatIsLost: where no cell can be kept none is measured, on no host; a data file
// that cannot be read fails the cells that read it, and no host.
func TestWhatIsLost(t *testing.T) {
	t.Parallel()
	host, other := testhost.New(t, testhost.Options{Namespace: true}), testhost.New(t, testhost.Options{Name: "other", Namespace: true})
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	if err := os.WriteFile(file, []byte("{\"prompt\": \"Hello there\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := twoHosts(host, other, file)
	bench := func() *bench {
		b := newBench(t, host)
		b.opt.SSH.KnownHosts = append(b.opt.SSH.KnownHosts, other.KnownHosts)
		return b
	}

	b := bench()
	full := false
	r := b.apply(t.Context(), text, func(e apply.Event) {
		if e.Type == apply.Begin && !full {
			full = true
			records := filepath.Join(b.store.Path(), "records")
			if err := errors.Join(os.RemoveAll(records), os.WriteFile(records, nil, 0o600)); err != nil {
				t.Error(err)
			}
		}
	})
	begun := r.count(func(e apply.Event) bool { return e.Type == apply.Begin })
	if r.err == nil || !strings.Contains(r.err.Error(), "keep cell ") || begun > 3 {
		t.Errorf("with a store that is broken: %v, %d of 8 cells were begun", r.err, begun)
	}

	b = bench()
	p := b.plan(text)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	r = b.carryOut(t.Context(), p, nil)
	ends := r.count(func(e apply.Event) bool {
		return e.Type == apply.End && e.Number == 0 && e.Cell != "" && strings.Contains(e.Message, "no such file")
	})
	if r.err != nil || r.Void != 8 || ends != 8 {
		t.Errorf("without its file: %+v, %v, %d cells are told of", r.Outcome, r.err, ends)
	}
	b.noAgent()
}
