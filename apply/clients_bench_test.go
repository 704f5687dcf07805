package apply_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/sim"
	"hclbench/testhost"
)

// BenchmarkClients holds what one client and what three in networks of their own measure
// against what the simulated engine really sent: every token, and the gaps between them. All of
// them and the engine share the machine that it runs on.
func BenchmarkClients(b *testing.B) {
	for _, c := range []struct {
		clients, streams int
		itl              string
	}{{1, 1024, "100ms"}, {3, 1024, "100ms"}, {3, 10800, "500ms"}} {
		b.Run(fmt.Sprintf("clients=%d/streams=%d", c.clients, c.streams), func(b *testing.B) {
			engine := testhost.New(b, testhost.Options{Namespace: true})
			clients := make([]*testhost.Host, c.clients)
			for i := range clients {
				clients[i] = testhost.New(b, testhost.Options{Name: fmt.Sprint("c", i), Namespace: true})
			}
			at, err := testhost.Cable(append([]*testhost.Host{engine}, clients...)...)
			if err != nil {
				b.Fatal(err)
			}
			url := simulate(b, engine, at[0], "--ttft", "200ms", "--itl", c.itl)
			lab := fmt.Sprintf("host \"box\" {\n%s\nruntime = \"process\"\n}\n", reached(engine))
			from := []string{}
			bench := newBench(b, engine)
			for i, h := range clients {
				bench.opt.SSH.KnownHosts = append(bench.opt.SSH.KnownHosts, h.KnownHosts)
				lab += fmt.Sprintf("host \"c%d\" {\n%s\nruntime = \"process\"\n}\n", i, reached(h))
				from = append(from, fmt.Sprint("host.c", i))
			}
			lab += fmt.Sprintf(`
lab "clients" {}
model "m" { repo = "sim" }
engine "external" "e" {
  model = model.m
  host  = host.box
  url   = %q
}
dataset "random" "d" { input_tokens = 32 }
benchmark "b" {
  engine      = engine.external.e
  dataset     = dataset.random.d
  requests    = %d
  load {
    from          = [%s]
    concurrency   = %d
    output_tokens = 64
    ramp          = "10s"
  }
}
`, url, 3*c.streams, strings.Join(from, ", "), c.streams)
			for b.Loop() {
				r := bench.apply(b.Context(), lab, func(e apply.Event) {
					if e.Type == apply.Begin {
						ask(b, engine, nil, "-X", "POST", url+"/sim/truth/reset")
					}
				})
				if r.err != nil || len(r.rows) != 1 || r.rows[0].Summary == nil {
					b.Fatalf("%+v, %v, %+v", r.Outcome, r.err, r.events)
				}
				var truth sim.Truth
				ask(b, engine, &truth, url+"/sim/truth")
				hold(b, r.rows[0].Summary, truth)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// hold says how far the figures are from the truth.
func hold(b *testing.B, s *load.Summary, truth sim.Truth) {
	p99 := s.ITL.Percentiles["99"]
	b.ReportMetric(math.Abs(p99-truth.ITL.P99), "ms-off-ITL-p99")
	b.ReportMetric(truth.Late.P99, "ms-late-engine-p99")
	b.ReportMetric(s.OutputThroughput, "tokens/s")
	b.Logf("ITL median %.2f of %.2f ms, p99 %.2f of %.2f ms; TTFT p99 %.1f of %.1f ms; %d of %d tokens; %.0f tokens/s, %+v; %s",
		s.ITL.Median, truth.ITL.Median, p99, truth.ITL.P99, s.TTFT.Percentiles["99"], truth.TTFT.P99, s.OutputTokens,
		truth.CompletionTokens, s.OutputThroughput, s.Intervals["output_throughput"], s.Verdict)
	if int64(s.OutputTokens) != truth.CompletionTokens || s.Completed != truth.Completed {
		b.Errorf("%d tokens of %d requests, and the engine sent %d of %d", s.OutputTokens, s.Completed, truth.CompletionTokens, truth.Completed)
	}
}

// simulate runs a simulated engine on the host until the test ends, and returns its address.
func simulate(b *testing.B, host *testhost.Host, at string, flags ...string) (url string) {
	b.Helper()
	cmd := host.Command(testhost.HCL(b), append([]string{"sim", "--host", at, "--port", "8000"}, flags...)...)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	url = "http://" + at + ":8000"
	ask(b, host, nil, "--retry", "100", "--retry-connrefused", "--retry-delay", "1", url+"/health")
	return url
}

// ask is an HTTP request sent on the host, whose answer is JSON where it counts.
func ask(b *testing.B, host *testhost.Host, answer any, args ...string) {
	b.Helper()
	out, err := host.Command("curl", append([]string{"-sSf"}, args...)...).Output()
	if err == nil && answer != nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
}
