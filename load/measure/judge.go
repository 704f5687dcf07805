package measure

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// The bounds of a verdict. docs/method.md gives the reason for each.
const (
	maxSendLag      = 5.0  // ms, p99
	maxSendLagOfITL = 0.1  // of the ITL median, but not below minSendLag
	minSendLag      = 1.0  // ms: what any system's timers are off by
	maxReadLag      = 5.0  // ms, p99
	maxGCShare      = 0.01 // of the time, but not below maxReadLag in all
	maxCPUShare     = 0.8  // of each core that the generator may use
	maxHeldOfTTFT   = 0.1  // of the TTFT median, but not below minSendLag or above maxReadLag
	maxWarmed       = 0.05 // of the prompts measured
)

// judge says whether a summary can be trusted. It looks at nothing but what was
// recorded, so that its answer is the same wherever and whenever it is asked.
func judge(w load.Workload, s load.Summary, records []load.Record) load.Verdict {
	switch {
	case s.Requests == 0:
		return load.Verdict{Verdict: load.Void, Reasons: []string{"no request was sent"}}
	case s.Completed == 0:
		return load.Verdict{Verdict: load.Void, Reasons: []string{fmt.Sprintf("none of %d requests completed: %s", s.Requests, s.Failures())}}
	case s.OutputTokens == 0:
		return load.Verdict{Verdict: load.Void, Reasons: []string{"no output tokens"}}
	}
	var found reasons
	because := found.because
	because(s.Failed > 0, "%d of %d requests failed (%.1f %%): %s", s.Failed, s.Requests, percent(s.Failed, s.Requests), s.Failures())
	because(s.WarmupFailed > 0, "%d of %d warm-up requests failed", s.WarmupFailed, s.Warmup)

	output, input := miscounted(records)
	because(w.IgnoreEOS && output > 0, "%d of %d requests did not bring the output tokens asked for (%d instead of %d in all)",
		output, s.Completed, s.OutputTokens, s.AskedOutput)
	because(w.Endpoint != load.Chat && input > 0, "%d of %d prompts were not as long for the server as they were made (%d instead of %d tokens in all)",
		input, s.Completed, s.InputTokens, s.AskedInput)
	because(s.UsageMissing > 0, "%d of %d answers came without token counts: chunks were counted instead", s.UsageMissing, s.Completed)
	because(s.Completed < w.Concurrency && s.Window == nil && !timed(w), "%d completed requests cannot fill a concurrency of %d", s.Completed, w.Concurrency)

	area := timeInFlight(records)
	if seen := area.Seconds() / s.Duration; s.Duration > 0 && seen > 0 && s.Window == nil {
		// Little's law: both are the mean number of requests in flight.
		off := math.Abs(seen-s.MeanConcurrency) / seen
		because(off > load.MaxLittle, "Little's law is off by %.0f %%: %.2f requests were in flight on average, throughput times latency says %.2f",
			off*100, seen, s.MeanConcurrency)
	}
	if !w.Hurried {
		found = append(found, untimely(w, s, records)...)
	}
	if x := s.Source; x != nil && x.Repeated == 0 {
		what := "prompts"
		if w.Dataset.Kind == load.Conversation {
			what = "conversations"
		}
		because(float64(x.Warmed) > maxWarmed*float64(x.Measured), "%d of the %d %s that were measured had been sent by the warm-up: a prefix cache knows them", x.Warmed, x.Measured, what)
	}
	if len(found) > 0 {
		return load.Verdict{Verdict: load.Suspect, Reasons: found}
	}
	return load.Verdict{Verdict: load.Valid}
}

// reasons are why a summary is suspect.
type reasons []string

// because adds a reason when it is one.
func (r *reasons) because(is bool, format string, args ...any) {
	if is {
		*r = append(*r, fmt.Sprintf(format, args...))
	}
}

// untimely is what is wrong with when things were sent and read. Of an engine that is
// simulated faster or slower than it is, that says nothing about the engine.
func untimely(w load.Workload, s load.Summary, records []load.Record) reasons {
	var found reasons
	because := found.because
	if filled, ok := filled(w, records); ok && s.Window == nil {
		because(filled < (1-load.MaxLittle)*float64(w.Concurrency), "%.2f requests were in flight while there were more to send, not %d: the generator fell behind",
			filled, w.Concurrency)
	}
	if timed(w) {
		lag := lateness(records)
		limit := maxSendLag
		if s.ITL.Count > 0 { // without, nothing finer than an answer is measured
			limit = min(maxSendLag, max(minSendLag, maxSendLagOfITL*s.ITL.Median))
		}
		because(lag > limit, "requests left up to %.1f ms late (p99; the limit here is %.1f ms)", lag, limit)
	}
	if l := s.ReadLag; l != nil {
		because(l.Percentiles["99"] > maxReadLag, "what had come was read up to %.1f ms late (p99; the limit is %.1f ms)", l.Percentiles["99"], maxReadLag)
	}
	because(s.GCPauseMs > max(maxReadLag, maxGCShare*s.Duration*1e3), "garbage collection stopped the generator for %.1f ms of %.3g s", s.GCPauseMs, s.Duration)
	cores := float64(s.Cores)
	because(cores > 0 && s.CPUShare > maxCPUShare*cores, "the generator used %.0f %% of the %.0f cores that it may use", s.CPUShare/cores*100, cores)
	if held := held(&s); s.MergedShare > load.MaxMergedShare && held > max(minSendLag, min(maxReadLag, maxHeldOfTTFT*s.TTFT.Median)) {
		who := "something between here and the engine buffers, such as a proxy, or the engine sends in bursts"
		if l := s.ReadLag; l == nil || l.Percentiles["99"] > maxReadLag {
			who += ", or the generator could not keep up"
		}
		because(true, "%.0f %% of chunks came together with the one before, %.1f ms after those before them: %s; TTFT, TPOT and ITL may be off by as much, E2EL and throughput are not",
			s.MergedShare*100, held, who)
	}
	if c := s.Calibrated; c != nil && c.Bounded && s.Duration > 0 {
		because(s.PeakConcurrency > c.Streams, "%d requests were in flight, and this machine's generator was found to be right up to %d", s.PeakConcurrency, c.Streams)
		events := float64(s.ITL.Count+s.Completed) / s.Duration
		because(events > c.Events, "%.0f chunks came in a second, and this machine's generator was found to be right up to %.0f", events, c.Events)
	}

	return found
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }

// held is the mean time between reads that brought chunks, in milliseconds: how
// long something may have held the first chunk of each back.
func held(s *load.Summary) float64 {
	if s.MergedShare >= 1 {
		return s.ITL.Mean * float64(s.ITL.Count)
	}
	return s.ITL.Mean / (1 - s.MergedShare)
}

// miscounted is how many completed requests had other lengths, by the server's
// count, than were asked for.
func miscounted(records []load.Record) (output, input int) {
	for i := range records {
		r := &records[i]
		if !r.OK() || r.NoUsage {
			continue
		}
		if r.OutputTokens != r.AskedOutput {
			output++
		}
		if r.AskedInput > 0 && r.InputTokens != r.AskedInput {
			input++
		}
	}
	return output, input
}

// filled is the mean number of requests in flight of a closed loop, from the
// first dispatch to the last: while there was always another to send. It says
// nothing of runs of less than three rounds.
func filled(w load.Workload, records []load.Record) (mean float64, ok bool) {
	if w.Rate != 0 || len(w.Stages) > 0 || w.Dataset.Kind == load.Trace || w.Dataset.Kind == load.Conversation || len(records) < 3*w.Concurrency {
		return 0, false
	}
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range records {
		first, last = min(first, records[i].Sent), max(last, records[i].Sent)
	}
	first = max(first, time.Duration(w.Ramp))
	if last <= first {
		return 0, false
	}
	area := time.Duration(0)
	for i := range records {
		area += max(0, min(records[i].End, last)-max(records[i].Sent, first))
	}
	return float64(area) / float64(last-first), true
}

// lateness is the 99th percentile of send lag in milliseconds, whatever
// percentiles a summary shows.
func lateness(records []load.Record) float64 {
	lags := make([]float64, len(records))
	for i := range records {
		lags[i] = load.Ms(records[i].Sent - records[i].Ready)
	}
	slices.Sort(lags)
	return load.Percentile(lags, 99)
}
