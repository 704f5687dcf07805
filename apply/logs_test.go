package apply_test

import (
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/plan"
)

// TestGroupLogs: the logs of all members are told, each line behind its member's name.
func TestGroupLogs(t *testing.T) {
	t.Parallel()
	b, _, hosts := fleet(t, 2)
	cfg := cellsOf(splitOf(engines.VLLM, hosts[0], hosts[1], hosts[0], nil), hosts, 1)
	looked := false
	r := b.carryOut(t.Context(), plan.New(cfg, plan.Options{}), func(e apply.Event) {
		if e.Type != apply.Begin {
			return
		}
		looked = true
		var said strings.Builder
		write := func(p []byte) error { said.Write(p); return nil }
		scope := place.Scope{Lab: cfg.Lab.Name, Hosts: cfg.Hosts, Engines: cfg.Engines}
		if err := place.Logs(t.Context(), scope, place.Log{Engine: cfg.Engines[0], Tail: -1, Write: write}, b.opt.Options); err != nil {
			t.Error(err)
		}
		names := map[string]bool{}
		for line := range strings.Lines(said.String()) {
			name, _, ok := strings.Cut(line, " | ")
			if names[name] = true; !ok || !strings.HasSuffix(line, "\n") {
				t.Errorf("of nobody: %q", line)
			}
		}
		if len(names) != 3 || !names["prefill 0"] || !names["decode 0"] || !names["router"] {
			t.Errorf("logs of %v:\n%s", names, said.String())
		}
	})
	if r.err != nil || !looked {
		t.Errorf("%+v, %v", r.Outcome, r.err)
	}
}
