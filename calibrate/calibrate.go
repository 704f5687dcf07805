// Package calibrate finds out up to where the numbers of the load generator can be trusted on the
// machine on which it runs: the generator measures an engine that knows what it sent, with more and
// more streams and tokens a second, and what it says is held against what the engine knows.
//
// It knows neither hosts nor labs, and it does not start engines: its caller does.
package calibrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"hclbench/load"
	"hclbench/load/measure"
	"hclbench/load/wire"
	"hclbench/sim"
)

const (
	ttft   = 50 * time.Millisecond // that of the engine
	rounds = 2                     // how many requests each stream brings
	// inputTokens is the length of a prompt: what it is made of costs the
	// generator the same whatever the engine does with it.
	inputTokens = 100
)

// The bounds within which a number counts as right.
const (
	maxTTFTError = 5.0 // ms, of the p99
	maxITLError  = 1.0 // ms, of the p99, or maxITLOfITL, whichever is more
	maxITLOfITL  = 0.1
)

// Rung is one load of the ladder: requests in flight, each of which brings a token every ITL.
type Rung struct {
	Streams int
	ITL     time.Duration
	Round   time.Duration // how long one answer takes, about
}

// Events is how many tokens the rung offers in a second.
func (r Rung) Events() float64 { return float64(r.Streams) / r.ITL.Seconds() }

// Ladder is what is climbed, up to so many streams (0: all of it).
func Ladder(quick bool, maxStreams int) []Rung {
	const ms = time.Millisecond
	all := []Rung{
		{64, 20 * ms, 1500 * ms}, {256, 20 * ms, 1500 * ms}, {512, 20 * ms, 1500 * ms}, {1024, 20 * ms, 1500 * ms},
		{4096, 80 * ms, 2 * time.Second}, {10000, 200 * ms, 3 * time.Second}, // more streams, no more tokens
		{2048, 20 * ms, 1500 * ms}, {4096, 20 * ms, 1500 * ms},
	}
	if quick {
		all = []Rung{{16, 20 * ms, 400 * ms}, {128, 20 * ms, 400 * ms}}
	}
	rungs := slices.DeleteFunc(all, func(r Rung) bool { return maxStreams > 0 && r.Streams > maxStreams })
	if len(rungs) == 0 {
		rungs = append(rungs, Rung{maxStreams, 20 * ms, 400 * ms})
	}
	return rungs
}

// Step is what one rung showed. Errors are what the generator said less what the
// engine knew, in milliseconds.
type Step struct {
	Streams int           `json:"streams"`
	ITL     load.Duration `json:"itl"`
	Offered float64       `json:"offered_events_per_s"`
	Events  float64       `json:"events_per_s"` // tokens, as measured, while the streams were all there
	TTFTp50 float64       `json:"ttft_p50_error_ms"`
	TTFTp99 float64       `json:"ttft_p99_error_ms"`
	ITLp50  float64       `json:"itl_p50_error_ms"`
	ITLp99  float64       `json:"itl_p99_error_ms"`
	Merged  float64       `json:"merged_share"`
	CPU     float64       `json:"client_cpu_share"` // of one core
	Late    float64       `json:"engine_late_p99_ms"`
	Reasons []string      `json:"reasons,omitempty"` // why the numbers cannot be trusted; none: they can
}

// Trusted reports whether the generator was right.
func (s Step) Trusted() bool { return len(s.Reasons) == 0 }

// Engine starts a simulated engine of its own and says where it listens; stop ends it.
type Engine func(ctx context.Context, c sim.Config) (url string, stop func() error, err error)

// Climb measures one rung after another and tells of each. A rung that asks for
// no less than one that has failed, to a tenth, is left out.
func Climb(ctx context.Context, ladder []Rung, start Engine, each func(Step)) ([]Step, error) {
	var steps []Step
	for _, r := range ladder {
		if beyond(r, steps) {
			continue
		}
		s, err := r.measure(ctx, start)
		if err != nil {
			return steps, fmt.Errorf("calibrate with %d streams: %w", r.Streams, err)
		}
		steps = append(steps, s)
		each(s)
	}
	return steps, nil
}

func beyond(r Rung, steps []Step) bool { return holdsFailed(steps, r.Streams, r.Events()) }

// alike is the part of a number of events from which on another is as many.
const alike = 0.9

// holdsFailed reports whether one of the steps was wrong that had no more streams and, to a tenth, no more events.
func holdsFailed(steps []Step, streams int, events float64) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		return !s.Trusted() && s.Streams <= streams && alike*s.Offered <= events
	})
}

// workload is the load of a rung. Its requests begin as those of a closed loop do, all
// at once, and are all as long, so that they stay in step: what is found right is right
// of such loads, and of easier ones.
func (r Rung) workload() load.Workload {
	return load.Workload{
		Dataset:      load.Dataset{Kind: load.Random, InputTokens: inputTokens},
		OutputTokens: max(int(r.Round/r.ITL), 2), IgnoreEOS: true,
		Endpoint: load.Completions, Timeout: load.Duration(time.Minute),
		Concurrency: r.Streams, Requests: rounds * r.Streams,
	}
}

func (r Rung) measure(ctx context.Context, start Engine) (s Step, err error) {
	s = Step{Streams: r.Streams, ITL: load.Duration(r.ITL), Offered: r.Events()}
	url, stop, err := start(ctx, sim.Config{TTFT: ttft, ITL: r.ITL})
	if err != nil {
		return s, err
	}
	defer func() { err = cmp.Or(err, stop()) }()
	job := load.Job{Target: load.Target{BaseURL: url, Model: sim.DefaultModel}, Workload: r.workload(),
		Percentiles: []float64{50, 99}}
	result, err := measure.Run(ctx, job, nil)
	if err != nil {
		return s, err
	}
	truth, err := truthOf(ctx, url)
	if err != nil {
		return s, err
	}
	s.compare(&result.Summary, truth)
	return s, nil
}

func truthOf(ctx context.Context, url string) (t sim.Truth, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sim/truth", nil)
	if err != nil {
		return t, err
	}
	resp, err := wire.Direct().Do(req)
	if err == nil {
		defer resp.Body.Close()
		err = json.NewDecoder(resp.Body).Decode(&t)
	}
	if err != nil {
		err = fmt.Errorf("ask the engine for the truth: %w", err)
	}
	return t, err
}

func (s *Step) compare(got *load.Summary, truth sim.Truth) {
	s.Events = got.PeakOutputThroughput
	s.TTFTp50, s.TTFTp99 = got.TTFT.Median-truth.TTFT.Median, got.TTFT.Percentiles["99"]-truth.TTFT.P99
	s.ITLp50, s.ITLp99 = got.ITL.Median-truth.ITL.Median, got.ITL.Percentiles["99"]-truth.ITL.P99
	s.Merged, s.CPU, s.Late = got.MergedShare, got.CPUShare, truth.Late.P99
	because := func(is bool, format string, args ...any) {
		if is {
			s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...))
		}
	}
	because(got.Failed > 0, "%d of %d requests failed: %q", got.Failed, got.Requests, got.ErrorSamples)
	because(got.Failed == 0 && got.OutputTokens != truth.CompletionTokens, "%d tokens were counted, and %d sent",
		got.OutputTokens, truth.CompletionTokens)
	because(math.Abs(s.TTFTp99) > maxTTFTError, "TTFT p99 is off by %.1f ms", s.TTFTp99)
	limit := max(maxITLError, maxITLOfITL*float64(s.ITL)/1e6)
	because(math.Abs(s.ITLp99) > limit, "ITL p99 is off by %.1f ms", s.ITLp99)
	because(math.Abs(s.ITLp50) > limit, "ITL p50 is off by %.1f ms", s.ITLp50)
	because(s.Merged > load.MaxMergedShare, "%.0f %% of chunks came together with the one before", 100*s.Merged)
}

// Limits is up to where steps showed the numbers to be right: no step that was wrong is within.
func Limits(steps []Step) load.Calibrated {
	var c load.Calibrated
	offered := 0.0
	for _, s := range steps {
		if !s.Trusted() {
			c.Bounded = true
			continue
		}
		if holdsFailed(steps, max(c.Streams, s.Streams), max(offered, s.Offered)) {
			continue
		}
		offered = max(offered, s.Offered)
		c.Streams, c.Events = max(c.Streams, s.Streams), max(c.Events, s.Events)
		c.TTFTError, c.ITLError = max(c.TTFTError, math.Abs(s.TTFTp99)), max(c.ITLError, math.Abs(s.ITLp99))
	}
	return c
}
