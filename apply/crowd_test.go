package apply_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// TestOthersOnTheHost: what an engine keeps busy in its container is its own, and what a stranger keeps busy beside it is
// a reason to doubt. The machine of the tests is busy with other things too: only what the two have at least is known.
func TestOthersOnTheHost(t *testing.T) {
	t.Parallel()
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_FAULT": "busy=8", "ENGINE_ITL": "100ms"})
	b := newBench(t, host)
	loop := "while :; do :; done # " + host.Dir // other tests of this machine may have such strangers, too
	stranger := host.Command("sh", "-c", loop)
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stranger.Process.Kill(); stranger.Wait() }()
	// had is what each has had of the processors so far, in seconds. It is called by who tells of events, whom nothing may end.
	had := func() (engine, other float64) {
		of := func(pids string) (seconds float64) {
			out, err := host.Command("sh", "-c", "for p in $("+pids+"); do cat /proc/$p/stat || true; done").Output() // one that has just ended has none
			if err != nil {
				t.Error(err)
			}
			for line := range strings.Lines(string(out)) {
				fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
				for _, ticks := range fields[11:13] {
					n, err := strconv.ParseFloat(ticks, 64)
					if err != nil {
						t.Error(err)
					}
					seconds += n / 100
				}
			}
			return seconds
		}
		return of("docker top $(docker ps --quiet) -eo pid | tail -n +2"), of("pgrep -f '" + loop + "$'")
	}
	var engine, other float64
	var began, ended time.Time
	text := strings.Replace(one(ref, "", ""), "output_tokens = [4, 8]", "output_tokens = [60]", 1)
	r := b.apply(t.Context(), text, func(e apply.Event) {
		switch {
		case e.Type == apply.Begin:
			engine, other = had()
			began = time.Now()
		case e.Message == "stopping":
			engineNow, otherNow := had()
			engine, other, ended = engineNow-engine, otherNow-other, time.Now()
		}
	})
	if r.err != nil || len(r.rows) != 1 || ended.IsZero() {
		t.Fatalf("%+v, %v: %v", r.Outcome, r.err, r.events)
	}
	mean := func(name string) float64 {
		i := slices.IndexFunc(r.rows[0].Telemetry.Series, func(s telemetry.Series) bool { return s.Of == telemetry.Host && s.Name == name })
		if i < 0 {
			t.Fatalf("there is no %s: %v", name, r.rows[0].Telemetry.Problems)
		}
		sum := 0.0
		for _, v := range r.rows[0].Telemetry.Series[i].Value {
			sum += v
		}
		return sum / float64(len(r.rows[0].Telemetry.Series[i].Value))
	}
	all, err := host.Command("getconf", "_NPROCESSORS_ONLN").Output()
	if err != nil {
		t.Fatal(err)
	}
	processors, err := strconv.ParseFloat(strings.TrimSpace(string(all)), 64)
	if err != nil {
		t.Fatal(err)
	}
	percent := func(seconds float64) float64 { return 100 * seconds / processors / ended.Sub(began).Seconds() }
	busy, others := mean(telemetry.CPU), mean(telemetry.Others)
	t.Logf("busy %.1f %%, others %.1f %%; the engine had %.1f %%, the stranger %.1f %%", busy, others, percent(engine), percent(other))
	if engine == 0 || other == 0 {
		t.Fatal("engine or stranger did nothing")
	}
	if busy-others < 0.7*percent(engine) {
		t.Errorf("of %.1f %% that are busy %.1f %% are others', but the engine had %.1f %%", busy, others, percent(engine))
	}
	if others < 0.7*percent(other) {
		t.Errorf("others had %.1f %%, but the stranger alone %.1f %%", others, percent(other))
	}
	s := r.rows[0].Summary
	if got := strings.Join(s.Verdict.Texts(), "; "); s.Verdict.Verdict != load.Suspect || !strings.Contains(got, "worked for neither the engine nor hcl") {
		t.Errorf("%s: %s", s.Verdict.Verdict, got)
	}
}
