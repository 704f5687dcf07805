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
	maxStill        = 0.01 // of the time that it did not run, but not below leastStill in all
	leastStill      = 500 * time.Millisecond
	leastCompleted  = 0.1  // of the requests
	maxHeldOfTTFT   = 0.1  // of the TTFT median, but not below minSendLag or above maxReadLag
	maxWarmed       = 0.05 // of the prompts measured
	maxRepeated     = 0.05 // of the prompts sent
	maxUndecoded    = 0.05 // of the answers to prompts that were sent before
	undecodedPace   = 0.25 // of the time per token that the first answer to the prompt took
	undecodedTime   = 1    // of a token, in milliseconds: what is decoded takes longer where the first answer took four times as long
	maxUnstreamed   = 0.05 // of the answers
	leastTokens     = 8    // of an answer whose pace tells anything
)

// verdict says whether a part of the run can be trusted. It looks at nothing but what was recorded, of the whole run, so
// that its answer is the same wherever and whenever it is asked. source is what its prompts were read from, where that is
// known.
func (e evidence) verdict(p load.Part, source *load.Source) load.Verdict {
	w, x, part := e.workload, p.Window, spanOf(p.Window, e.records)
	switch {
	case x != nil && x.To <= x.From:
		return void(noWindow)
	case x != nil && p.Requests == 0:
		return void(emptyWindow, x.From, x.To)
	case p.Requests == 0:
		return void(nothingSent)
	case p.Completed == 0:
		return void(noneCompleted, p.Requests, p.Failures())
	case float64(p.Completed) < leastCompleted*float64(p.Requests):
		return void(fewCompleted, p.Completed, p.Requests, p.Failures())
	case p.Stopped > longestStill(p) && w.Speed == 0:
		return void(stoodStill, p.Stopped, p.Duration)
	case p.OutputTokens == 0 && w.Generates():
		return void(noOutput)
	}
	var found reasons
	if all := arriving(w); w.StopWhenOverloaded && len(e.records) < all {
		found.add(true, float64(len(e.records)), float64(all), endedEarly, len(e.records), all)
	}
	if x == nil && w.Dataset.Talks() && p.Failed > 0 { // nothing else ends a conversation before its end
		found.below(float64(len(e.records)), float64(w.Requests), notAllSent, len(e.records), w.Requests)
	}
	sent := part.sent(e.records)
	found.counts(w, p, sent)
	found.littlesLaw(p, e.records)
	if w.Speed == 0 {
		found.pace(w, p, sent)
		found.behind(w, e.records, part)
		found.drifting(w, e.records, part)
		found.generator(p)
		found.merged(p)
		found.calibration(p, e.records, part)
	}
	found.known(w, source)
	found.undecoded(w, source, e.records)
	found.streamed(w, sent)
	if x != nil && w.Rate == 0 && w.Concurrency > 0 && !w.Dataset.Timed() && !pauses(w, e.records) {
		mean := meanInFlight(e.records, part)
		found.below(mean, (1-load.MaxLittle)*float64(w.Concurrency), notFull, mean, w.Concurrency)
	}
	return found.verdict()
}

type reasons []load.Reason

func (r reasons) verdict() load.Verdict {
	if len(r) > 0 {
		return load.Verdict{Verdict: load.Suspect, Reasons: r}
	}
	return load.Verdict{Verdict: load.Valid}
}

// add notes a reason when it is one: where a value is beyond its limit, that of both.
func (r *reasons) add(is bool, value, limit float64, d doubt, args ...any) {
	if is {
		*r = append(*r, d.reason(value, limit, args...))
	}
}

func (r *reasons) above(value, limit float64, d doubt, args ...any) {
	r.add(value > limit, value, limit, d, args...)
}

func (r *reasons) below(value, limit float64, d doubt, args ...any) {
	r.add(value < limit, value, limit, d, args...)
}

func (r *reasons) counts(w load.Workload, s load.Part, records []load.Record) {
	failed := 100 * float64(s.Failed) / float64(s.Requests)
	digits := min(max(1, math.Ceil(-math.Log10(failed))), 9) // a few of very many are not 0.0 %
	r.above(float64(s.Failed), 0, requestsFailed, s.Failed, s.Requests, int(digits), failed, s.Failures())
	r.above(float64(s.WarmupFailed), 0, warmupFailed, s.WarmupFailed, s.Warmup)
	output, input := miscounted(records)
	r.add(w.IgnoreEOS && output > 0, 0, 0, otherOutputs, output, s.Completed, s.OutputTokens, s.AskedOutput)
	r.add(!w.SendsText() && input > 0, 0, 0, otherPrompts, input, s.Completed, s.InputTokens, s.AskedInput)
	instead := "chunks were counted instead"
	switch {
	case w.Generates():
	case s.InputTokens == 0:
		instead = "no tokenizer is named that would count them"
	default:
		instead = "the prompts were counted as they were made"
	}
	r.above(float64(s.UsageMissing), 0, noUsage, s.UsageMissing, s.Completed, instead)
	if s.Window == nil && !timed(w) {
		r.below(float64(s.Completed), float64(w.Concurrency), tooFew, s.Completed, w.Concurrency)
	}
}

// littlesLaw holds the requests that were in flight against throughput and latency.
func (r *reasons) littlesLaw(s load.Part, records []load.Record) {
	seen := always.requests(records).Seconds() / s.Duration
	if !(s.Duration > 0 && seen > 0) || s.Window != nil {
		return
	}
	off := math.Abs(seen-s.MeanConcurrency) / seen
	r.above(off, load.MaxLittle, littleOff, off*100, seen, s.MeanConcurrency)
}

// pace is what is wrong with when requests were sent. Of an engine that is simulated faster or
// slower than it is, that says nothing about the engine, as does all that follows here.
func (r *reasons) pace(w load.Workload, s load.Part, records []load.Record) {
	if mean, ok := filled(w, records); ok && s.Window == nil {
		r.below(mean, (1-load.MaxLittle)*float64(w.Concurrency), fellBehind, mean, w.Concurrency)
	}
	if timed(w) {
		limit := maxSendLag
		if s.ITL.Count > 0 { // without, nothing finer than an answer is measured
			limit = min(maxSendLag, max(minSendLag, maxSendLagOfITL*max(s.ITL.Median, heldBack(s))))
		}
		lag := lateness(records)
		r.above(lag, limit, sentLate, lag, limit)
	}
}

// behind finds a schedule that a cap holds up: latencies then leave out how long requests waited for it. Later requests
// of a session are due when the answer before them is there, and wait for no cap.
func (r *reasons) behind(w load.Workload, records []load.Record, s span) {
	if w.Concurrency == 0 || !timed(w) {
		return
	}
	last := time.Duration(0)
	for i := range records {
		if x := &records[i]; x.Turn <= 1 {
			last = max(last, x.Scheduled)
		}
	}
	due, left := 0, 0
	for i := range records {
		x := &records[i]
		if x.Turn <= 1 && s.has(x.Scheduled) {
			due++
		}
		if x.Turn <= 1 && s.has(x.Sent) && x.Sent <= last+leastPause {
			left++
		}
	}
	r.below(float64(left), (1-load.MaxLittle)*float64(due), rateMissed, left, due, w.Concurrency)
}

// longestStill is for how many milliseconds of a part its generator may have stood still, or had no processor.
func longestStill(p load.Part) float64 { return max(load.Ms(leastStill), maxStill*p.Duration*1e3) }

func (r *reasons) generator(s load.Part) {
	r.above(s.Starved, longestStill(s), starved, s.Starved, s.Duration)
	if l := s.ReadLag; l != nil {
		r.above(l.Percentiles["99"], maxReadLag, readLate, l.Percentiles["99"], maxReadLag)
	}
	r.above(s.GCPauseMs, max(maxReadLag, maxGCShare*s.Duration*1e3), paused, s.GCPauseMs, s.Duration)
	if cores := float64(s.Cores); cores > 0 {
		r.above(s.CPUShare/cores, maxCPUShare, busy, s.CPUShare/cores*100, cores)
	}
}

// merged is what chunks that came together hide.
func (r *reasons) merged(s load.Part) {
	held := heldBack(s)
	if s.MergedShare <= load.MaxMergedShare || held <= max(minSendLag, min(maxReadLag, maxHeldOfTTFT*s.TTFT.Median)) {
		return
	}
	who := byOthers
	if l := s.ReadLag; l == nil || l.Percentiles["99"] > maxReadLag {
		who += byUs
	}
	r.above(s.MergedShare, load.MaxMergedShare, mergedChunks, s.MergedShare*100, held, who)
}

// calibration holds the load against what the generator was found to be right with, busiest second against
// busiest second.
func (r *reasons) calibration(s load.Part, records []load.Record, part span) {
	c := s.Calibrated
	if c == nil || !c.Bounded || s.Duration <= 0 {
		return
	}
	r.above(float64(s.PeakConcurrency), float64(c.Streams), beyondStreams, s.PeakConcurrency, c.Streams)
	events := busiestSecond(records, part, func(*load.Record, int) float64 { return 1 })
	r.above(events, c.Events, beyondEvents, events, c.Events)
}

// known is prompts that a prefix cache may know, from earlier in the run or from the warm-up.
func (r *reasons) known(w load.Workload, x *load.Source) {
	if x == nil {
		return
	}
	what := "prompts"
	if w.Dataset.Talks() {
		what = "conversations"
	}
	sent := x.Prompts + x.Repeated
	r.above(float64(x.Repeated), maxRepeated*float64(sent), sentAgain, x.Repeated, sent, what, x.Prompts)
	r.above(float64(x.Warmed), maxWarmed*float64(x.Measured), sentBefore, x.Warmed, x.Measured, what)
}

// undecoded finds an answer cache: prompts that come again whose answers, as long as the first ones, came much faster token by token, and
// faster than they can be decoded. A prefix cache brings the first token sooner; those after it only where reading prompts has slowed down decoding.
func (r *reasons) undecoded(w load.Workload, x *load.Source, records []load.Record) {
	if x == nil || x.Repeated == 0 || x.Prompts < 1 || !w.Dataset.InOrder() || !w.TimesTokens() {
		return
	}
	pace := func(one *load.Record) float64 { return load.Ms(one.Last-one.First) / float64(one.OutputTokens-1) }
	first := map[int]*load.Record{}
	for i := range records {
		if one := &records[i]; one.OK() && one.Seq < x.Prompts && one.OutputTokens >= leastTokens {
			first[one.Seq] = one
		}
	}
	again, faster := 0, 0
	for i := range records {
		one := &records[i]
		if was := first[one.Seq%x.Prompts]; one.OK() && one.Seq >= x.Prompts && was != nil && one.OutputTokens == was.OutputTokens {
			if again++; pace(one) < min(undecodedPace*pace(was), undecodedTime) {
				faster++
			}
		}
	}
	r.above(float64(faster), maxUndecoded*float64(again), answerCache, faster, again)
}

// streamed finds streams whose chunks are not when tokens were made.
func (r *reasons) streamed(w load.Workload, records []load.Record) {
	if !w.TimesTokens() {
		return
	}
	completed, whole, more := 0, 0, 0
	for i := range records {
		one := &records[i]
		if !one.OK() || one.First == 0 {
			continue
		}
		completed++
		switch chunks := 1 + len(one.Gaps) + one.Dropped; {
		case chunks == 1 && one.OutputTokens >= leastTokens:
			whole++
		case chunks > one.OutputTokens+1 && !one.NoUsage: // one may be the end of text
			more++
		}
	}
	r.above(float64(whole), maxUnstreamed*float64(completed), inOnePiece, whole, completed)
	r.above(float64(more), maxUnstreamed*float64(completed), moreChunks, more, completed)
}

// heldBack is the mean time between reads that brought chunks, in milliseconds: how
// long something may have held the first chunk of each back.
func heldBack(s load.Part) float64 {
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

// loops says whether a workload is a closed loop of requests that stand alone.
func loops(w load.Workload) bool {
	return w.Rate == 0 && len(w.Stages) == 0 && !w.Dataset.Timed() && !w.Dataset.Talks()
}

// filled is the mean number of requests in flight of a closed loop, from the first dispatch to the
// last, of several clients of the one that ended first: while there was always another to send. It says nothing of runs of less than three rounds.
func filled(w load.Workload, records []load.Record) (mean float64, ok bool) {
	if !loops(w) || len(records) < 3*w.Concurrency {
		return 0, false
	}
	first, last := max(load.FirstDispatch(records), time.Duration(w.Ramp)), slices.Min(lastDispatches(records))
	return meanInFlight(records, span{first, last}), last > first
}

func meanInFlight(records []load.Record, s span) float64 {
	return float64(s.requests(records)) / float64(s.to-s.from)
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

type doubt struct {
	code    string
	metrics []string // that it concerns; nil: all
	text    string   // a format
}

func (d doubt) reason(value, limit float64, args ...any) load.Reason {
	return load.Reason{Code: d.code, Text: fmt.Sprintf(d.text, args...), Value: value, Limit: limit, Metrics: d.metrics}
}

func void(d doubt, args ...any) load.Verdict {
	return load.Verdict{Verdict: load.Void, Reasons: []load.Reason{d.reason(0, 0, args...)}}
}

// The metrics that go wrong together.
var (
	ofChunks  = []string{"ttft", "ttfa", "tpot", "itl"}
	ofTimes   = append([]string{"e2el", "normalized_latency"}, ofChunks...)
	ofLengths = []string{"tpot", "normalized_latency", "input_throughput", "output_throughput", "total_throughput",
		"peak_output_throughput"}
)

// Why a measurement is void.
var (
	nothingSent   = doubt{"nothing-sent", nil, "no request was sent"}
	noneCompleted = doubt{load.CodeNoneCompleted, nil, "none of %d requests completed: %s"}
	fewCompleted  = doubt{"few-completed", nil, "only %d of %d requests completed: %s"}
	stoodStill    = doubt{"stood-still", nil, "the generator stood still for %.0f ms of %.3g s: its process was stopped or " +
		"swapped out, or its machine paused"}
	noOutput    = doubt{"no-output", nil, "no output tokens"}
	noWindow    = doubt{"nothing-left", nil, "nothing is left of the run without its warm-up and cool-down"}
	emptyWindow = doubt{"empty-window", nil,
		"no request was sent from %v to %v of the run, which is the part that counts"}
)

// Why it is suspect.
var (
	requestsFailed = doubt{"requests-failed", nil, "%d of %d requests failed (%.*f %%): %s"}
	warmupFailed   = doubt{"warmup-failed", nil, "%d of %d warm-up requests failed"}
	otherOutputs   = doubt{"other-outputs", nil,
		"%d of %d requests did not bring the output tokens asked for (%d instead of %d in all)"}
	otherPrompts = doubt{"other-prompts", nil,
		"%d of %d prompts were not as long for the server as they were made (%d instead of %d tokens in all)"}
	notAllSent = doubt{"not-all-sent", nil, "%d of %d requests were sent: conversations ended with a failure when no other " +
		"was to begin"}
	noUsage = doubt{"no-usage", ofLengths,
		"%d of %d answers came without token counts: %s"}
	tooFew    = doubt{"too-few", nil, "%d completed requests cannot fill a concurrency of %d"}
	littleOff = doubt{"littles-law", nil,
		"Little's law is off by %.0f %%: %.2f requests were in flight on average, throughput times latency says %.2f"}
	fellBehind = doubt{"fell-behind", nil,
		"%.2f requests were in flight while there were more to send, not %d: the generator fell behind"}
	rateMissed = doubt{"rate-not-reached", nil, "%d requests left while %d were due: a concurrency of %d holds the rate up, " +
		"and the time that they waited for it is in no latency (queue_ms has it)"}
	notFull   = doubt{"not-full", nil, "%.2f requests were in flight on average, not %d: the window is not full"}
	sentLate  = doubt{"send-lag", nil, "requests left up to %.1f ms late (p99; the limit here is %.1f ms)"}
	readLate  = doubt{"read-lag", ofTimes, "what had come was read up to %.1f ms late (p99; the limit is %.1f ms)"}
	starved   = doubt{"starved", nil, "the generator waited %.0f ms of %.3g s for a processor, as others had them all"}
	paused    = doubt{"gc-pauses", ofTimes, "garbage collection stopped the generator for %.1f ms of %.3g s"}
	busy      = doubt{"client-cpu", nil, "the generator used %.0f %% of the %.0f cores that it may use"}
	sentAgain = doubt{"repeated", nil, "%d of %d %s had been sent before, as there are %d of them: a prefix cache knows " +
		"them (salt = true, or fewer requests)"}
	sentBefore = doubt{"warmed", nil,
		"%d of the %d %s that were measured had been sent by the warm-up: a prefix cache knows them"}

	answerCache = doubt{"answer-cache", nil, "%d of %d answers to prompts that had been sent before came in less than a quarter of the time " +
		"per token, and less than 1 ms: a prefix cache brings the first token sooner, and an answer cache decodes nothing"}
	inOnePiece = doubt{"one-piece", ofChunks, "%d of %d answers came in one piece: their first token came when the last one did"}
	moreChunks = doubt{"more-chunks", ofLengths, "%d of %d answers came in more chunks than the server counts tokens: one of the two is wrong"}

	mergedChunks = doubt{"merged-chunks", ofChunks,
		"%.0f %% of chunks came together with the one before, %.1f ms after those before them: %s; " +
			"TTFT, TPOT and ITL may be off by as much, E2EL and throughput are not"}
	crowding = doubt{"drifting", nil, "drifting: the requests in flight went from %.0f to %.0f over the run: " +
		"the engine cannot keep up with the rate, and latencies are of how long the run was"}
	endedEarly = doubt{"overloaded", nil, "overloaded: sending ended after %d of %d requests, as the lab asks, " +
		"since the engine cannot keep up with the rate"}
	emptying   = doubt{"drifting", nil, "drifting: the requests in flight went from %.0f to %.0f over the run"}
	otherStart = doubt{"drifting", []string{"ttft", "ttfa", "e2el", "normalized_latency"},
		"drifting: the time to first token went from %.3g to %.3g ms over the run"}
	otherPace = doubt{"drifting", nil, "drifting: the time between chunks went from %.3g to %.3g ms over the run"}

	beyondStreams = doubt{"beyond-calibration", ofTimes,
		"%d requests were in flight, and this machine's generator was found to be right up to %d"}
	beyondEvents = doubt{"beyond-calibration", ofTimes,
		"%.0f chunks came in the busiest second, and this machine's generator was found to be right up to %.0f"}
)

// Who may have held chunks back.
const (
	byOthers = "something between here and the engine buffers, such as a proxy, or the engine sends in bursts"
	byUs     = ", or the generator could not keep up"
)
