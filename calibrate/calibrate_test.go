package calibrate

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/sim"
)

// inProcess starts engines in this process.
func inProcess(ctx context.Context, c sim.Config) (url string, stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	log, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- sim.Serve(ctx, c, "127.0.0.1:0", w)
		w.Close()
	}()
	in := bufio.NewReader(log)
	line, err := in.ReadString('\n')
	go io.Copy(io.Discard, in)
	return regexp.MustCompile(`http://\S+`).FindString(line), func() error { cancel(); return <-done }, err
}

// TestClimb: what the generator says is about what the engine knows, whatever
// else the machine does.
func TestClimb(t *testing.T) {
	var told []Step
	steps, err := Climb(t.Context(), []Rung{{8, 10 * time.Millisecond, 200 * time.Millisecond}}, inProcess, func(s Step) { told = append(told, s) })
	if err != nil || len(steps) != 1 {
		t.Fatalf("Climb() = %v, %v", steps, err)
	}
	if diff := cmp.Diff(steps, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	s := steps[0]
	if s.Streams != 8 || s.ITL != load.Duration(10*time.Millisecond) || s.Offered != 800 || s.Events <= 0 || s.CPU <= 0 {
		t.Errorf("step = %+v", s)
	}
	for _, r := range s.Reasons {
		if strings.Contains(r, "failed") || strings.Contains(r, "counted") {
			t.Errorf("reason %q", r)
		}
	}
}

// TestStartsAsLoadsDo: what is certified of a closed loop has begun as one does.
func TestStartsAsLoadsDo(t *testing.T) {
	w := Rung{1024, 20 * time.Millisecond, time.Second}.workload()
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	if w.Ramp != 0 || w.Rate != 0 || w.Dataset.Ranged() || w.Concurrency != 1024 {
		t.Errorf("%+v, want a closed loop without a ramp, of one length", w)
	}
}

// TestCompare: what makes numbers wrong.
func TestCompare(t *testing.T) {
	spread := func(median, p99 float64) load.Stats {
		return load.Stats{Median: median, Percentiles: map[string]float64{"99": p99}}
	}
	truth := sim.Truth{CompletionTokens: 100, TTFT: sim.Spread{Median: 50, P99: 60}, ITL: sim.Spread{Median: 20, P99: 21}}
	right := load.Summary{Part: load.Part{Figures: load.Figures{Requests: 4, OutputTokens: 100, TTFT: spread(50.5, 64), ITL: spread(20.1, 22.5)}}}
	for name, c := range map[string]struct {
		change func(*load.Summary)
		want   []string
	}{
		"right": {func(*load.Summary) {}, nil},
		"failures": {func(s *load.Summary) { s.Failed, s.OutputTokens, s.ErrorSamples = 1, 75, []string{"reset"} },
			[]string{`1 of 4 requests failed: ["reset"]`}},
		"tokens": {func(s *load.Summary) { s.OutputTokens = 99 }, []string{"99 tokens were counted, and 100 sent"}},
		"TTFT":   {func(s *load.Summary) { s.TTFT = spread(50, 66) }, []string{"TTFT p99 is off by 6.0 ms"}},
		"gaps too short": {func(s *load.Summary) { s.ITL, s.MergedShare = spread(0, 40), 0.5 },
			[]string{"ITL p99 is off by 19.0 ms", "ITL p50 is off by -20.0 ms", "50 % of chunks came together with the one before"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := right
			c.change(&got)
			s := Step{ITL: load.Duration(20 * time.Millisecond)}
			s.compare(&got, truth)
			if diff := cmp.Diff(c.want, s.Reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	steps := []Step{
		{Streams: 64, Events: 3200, TTFTp99: 0.5, ITLp99: -0.2},
		{Streams: 1024, Offered: 51200, Events: 50000, TTFTp99: -2, ITLp99: 0.1},
	}
	want := load.Calibrated{Streams: 1024, Events: 50000, TTFTError: 2, ITLError: 0.2}
	if diff := cmp.Diff(want, Limits(steps)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	steps = append(steps, Step{Streams: 2048, Offered: 102400, Events: 90000, TTFTp99: 80, Reasons: []string{"TTFT"}})
	want.Bounded = true
	if diff := cmp.Diff(want, Limits(steps)); diff != "" {
		t.Errorf("limits with a step that was wrong (-want +got):\n%s", diff)
	}
	for r, want := range map[Rung]bool{
		{Streams: 4096, ITL: 20 * time.Millisecond}: true,
		{Streams: 4096, ITL: 80 * time.Millisecond}: false, // more streams, but fewer tokens
		{Streams: 512, ITL: time.Millisecond}:       false,
	} {
		if got := beyond(r, steps); got != want {
			t.Errorf("beyond(%v) = %v, want %v", r, got, want)
		}
	}
}

// TestLimitsHoldNothingWrong: a step of more streams that was right does not make one right that was wrong with fewer,
// and as many events.
func TestLimitsHoldNothingWrong(t *testing.T) {
	wrong := []string{"TTFT"}
	steps := []Step{
		{Streams: 1024, Offered: 51200, Events: 50000},
		{Streams: 4096, Offered: 51200, Events: 50500, Reasons: wrong},
		{Streams: 10000, Offered: 50000, Events: 49000},
	}
	if c := Limits(steps); c.Streams != 1024 || c.Events != 50000 || !c.Bounded {
		t.Errorf("limits %+v, want 1024 streams", c)
	}
	if r := (Rung{Streams: 10000, ITL: 200 * time.Millisecond}); !beyond(r, steps[:2]) {
		t.Errorf("%+v asks for as much as what was wrong, and is measured", r)
	}
	steps[1] = Step{Streams: 2048, Offered: 102400, Events: 99000, Reasons: wrong}
	if c := Limits(steps); c.Streams != 10000 || c.Events != 50000 {
		t.Errorf("limits %+v, want 10000 streams: what was wrong has twice as many events", c)
	}
}

func TestLadder(t *testing.T) {
	for _, most := range []int{0, 1, 100, 1024, 20000} {
		for _, r := range Ladder(false, most) {
			if r.Streams < 1 || most > 0 && r.Streams > most {
				t.Errorf("Ladder(false, %d) has a rung of %d streams", most, r.Streams)
			}
		}
	}
}

// TestKeep: what is kept is found again on the same machine with the same
// version, and nowhere else.
func TestKeep(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	m := ThisMachine("v1")
	if m.CPU == "" || m.Cores < 1 || m.Kernel == "" {
		t.Errorf("ThisMachine() = %+v", m)
	}
	if got, err := Kept(m); got != nil || err != nil {
		t.Errorf("Kept() before = %v, %v, want nothing", got, err)
	}
	want := Of(m, time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC), []Step{{Streams: 64, ITL: load.Duration(time.Second), Events: 64}})
	path, err := want.Keep()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Kept(m)
	if diff := cmp.Diff(&want, got); diff != "" || err != nil {
		t.Errorf("Kept() (-want +got): %v\n%s", err, diff)
	}
	if got, err := Kept(ThisMachine("v2")); got != nil || err != nil {
		t.Errorf("Kept() of another version = %v, %v, want nothing", got, err)
	}
	if less := Of(m, time.Now(), []Step{{Streams: 8}}); !less.Narrower(got) || want.Narrower(got) || less.Narrower(nil) {
		t.Error("Narrower() is wrong")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Kept(m); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
		t.Errorf("Kept() of half a file: %v", err)
	}
}
