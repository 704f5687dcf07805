package apply_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"hclbench/results"
	"hclbench/tune"
)

// TestSlowTuneSearch: a tuning whose objective is a capacity, killed in mid-search, goes on with the
// load that comes next, measures none twice, and compares what is likely, between what is certain.
func TestSlowTuneSearch(t *testing.T) {
	t.Parallel()
	s := newLab(t)
	s.of = "size"
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port.Close()
	if err := os.WriteFile(s.lab, fmt.Appendf(nil, `
lab "search" { lease = "20s" }
host "here" {
  address = "local"
  runtime = "process"
}
engine "sim" "base" {
  host  = host.here
  port  = %d
  flags = { table = "24:40ms/1ms,30:800ms/1ms" }
}
dataset "random" "short" { input_tokens = 8 }
benchmark "chat" {
  engine  = engine.sim.base
  dataset = dataset.random.short
  capacity {
    of        = "concurrency"
    within    = [8, 48]
    precision = 0.5
    budget    = 20000
  }
  slo { ttft_p95 = "400ms" }
  load { output_tokens = 1 }
}
tune "size" {
  objective = benchmark.chat
  start     = engine.sim.base
  stage "size" { flags = [{ table = "40:40ms/1ms,46:800ms/1ms" }, { table = "9:40ms/1ms,12:800ms/1ms" }] }
  keep   = 1
  finals = 2
  budget { starts = 10 }
}
`, port.Addr().(*net.TCPAddr).Port), 0o644); err != nil {
		t.Fatal(err)
	}
	s.apply(1)
	s.apply(2)
	s.apply(0)
	s.store(func(store *results.Store) {
		rows, err := store.Rows(t.Context(), results.Query{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{}
		for _, r := range rows {
			if before := seen[r.ID]; before != "" && r.Benchmark == "size" && r.Summary != nil {
				t.Errorf("%v of %s is measured twice, in %s and %s", r.Axes, r.DeploymentID, before, r.RunID)
			}
			seen[r.ID] = r.RunID
		}
		kept, err := store.Ledgers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ledger results.Ledger
		if err := json.Unmarshal(kept[[2]string{"search", results.LedgerName("size")}], &ledger); err != nil {
			t.Fatal(err)
		}
		lost, measured := 0, 0
		for _, x := range ledger.Starts {
			switch {
			case x.Result == nil:
				lost++
			case x.Result.Outcome == tune.Measured:
				measured++
				o := x.Loads[0].Capacity
				if o == nil || !o.Over || o.Holds != nil && x.Loads[0].Figure < *o.Holds || o.Breaks != nil && x.Loads[0].Figure > *o.Breaks ||
					x.Result.Score.Value != x.Loads[0].Figure {
					t.Errorf("start %d found %+v, and its score is %+v", x.Number, o, x.Result.Score)
				}
			}
			t.Logf("start %d (%s) %s, race %+v: %+v in %v", x.Number, x.Phase, x.Settings, x.Race, x.Result, x.Cost.Time.Round(time.Second))
		}
		if lost == 0 || measured < 3 {
			t.Errorf("%d starts were broken off and %d measured", lost, measured)
		}
	})
}
