package measure

import (
	"maps"
	"slices"
	"time"

	"hclbench/load"
)

const errorSamples = 5 // how many distinct error messages a summary keeps

// summarize computes what a run measured from its records, without a verdict; docs/method.md defines each number. d is
// the time from the first dispatch to the last response. Where the workload cuts the beginning or
// the end, the summary is of what is left, with that of the whole run beside it. What records do
// not hold (the warm-up requests and the client's CPU share) stays zero.
func summarize(w load.Workload, percentiles []float64, started time.Time, d time.Duration,
	records []load.Record) load.Summary {
	if percentiles == nil {
		percentiles = load.DefaultPercentiles()
	}
	e := evidence{w, percentiles, started, records}
	whole := load.Part{Figures: e.figures(d, always)}.Under(w.SLO, records)
	e.boundRates(&whole, newCut(w, records, always))
	s := load.Summary{Part: whole, Series: newSeries(d, records, w.TimesTokens())}
	if w.CutBeginning > 0 || w.CutEnd > 0 {
		s.Part = e.within(load.Window{From: w.CutBeginning, To: load.Duration(d) - w.CutEnd})
		s.Untrimmed = &whole
	}
	if window, ok := steady(w, d, records); ok {
		part := e.within(window)
		s.Steady = &part
	}
	return s
}

type evidence struct {
	workload    load.Workload
	percentiles []float64
	started     time.Time
	records     []load.Record
}

// within is the part of the run in a window.
func (e evidence) within(x load.Window) load.Part {
	part := load.Part{Window: &x}
	s := spanOf(&x, e.records)
	if s.to <= s.from || len(e.records) == 0 {
		part.Figures = e.figures(0, span{})
		return part
	}
	part.Figures = e.figures(s.to-s.from, s)
	part = part.Under(e.workload.SLO, e.records)
	e.boundRates(&part, cut{span: s, lives: newCut(e.workload, e.records, s).lives})
	return part
}

// figures are those of a span that took so long. Latencies and counts are of the requests that were sent in it;
// throughputs and concurrencies are of what happened in it, whenever it began.
func (e evidence) figures(d time.Duration, in span) load.Figures {
	records := in.sent(e.records)
	f := load.Figures{Started: e.started, Duration: d.Seconds(), Requests: len(records)}
	gaps, lost, between := 0, 0, time.Duration(0)
	var made load.Content
	for i := range records {
		r := &records[i]
		if !r.OK() {
			failed(&f, r)
			continue
		}
		completed(&f, r)
		content(&made, r)
		if at, _ := r.Answer(); at != r.First && e.workload.TimesTokens() {
			f.TTFA = new(load.Stats)
		}
		gaps += len(r.Gaps)
		lost += r.Dropped
		between += r.Last - r.First
	}
	if made.Reasoned > 0 || made.Called > 0 {
		f.Content = &made
	}
	e.describe(&f, records, in, gaps)
	if lost > 0 && e.workload.TimesTokens() {
		f.ITL.Count += lost
		f.ITL.Mean = load.Ms(between) / float64(f.ITL.Count)
		f.ITLFrom = load.FromSample
	}
	if f.ITL.Count > 0 {
		f.MergedShare = float64(f.MergedChunks) / float64(f.ITL.Count)
	}
	f.Adapters = e.adapters(func(own evidence) load.Figures { return own.figures(d, in) })
	f.Sessions = e.sessions(d, in)
	f.PeakConcurrency = mostInFlight(e.records, in)
	if d <= 0 {
		return f
	}
	ended, input, output, waiting := 0, 0, 0.0, time.Duration(0)
	for i := range e.records {
		r := &e.records[i]
		if !r.OK() {
			continue
		}
		if in.has(r.End) {
			ended++
		}
		if in.has(r.First) {
			input += r.InputTokens
		}
		output += in.tokens(r)
		waiting += in.overlap(span{r.Sent, r.Last})
	}
	per := func(n float64) float64 { return n / d.Seconds() }
	f.RequestThroughput = per(float64(ended))
	f.InputThroughput, f.OutputThroughput = per(float64(input)), per(output)
	f.TotalThroughput = per(float64(input) + output)
	f.MeanConcurrency = per(waiting.Seconds())
	tokens := func(r *load.Record, chunks int) float64 { return float64(r.OutputTokens) / float64(chunks) }
	if f.PeakOutputThroughput = busiestSecond(e.records, in, tokens); d < time.Second {
		f.PeakOutputThroughput = f.OutputThroughput // there is no better second
	}
	return f
}

// adapters are the figures of each adapter's requests, and of those of the model itself, in the order of their names;
// nil: the workload has no adapters. All of them are told of requests in the same way as of the whole.
func (e evidence) adapters(figures func(own evidence) load.Figures) (all []load.OfAdapter) {
	if len(e.workload.Adapters) == 0 {
		return nil
	}
	of := map[string][]load.Record{}
	for _, r := range e.records {
		of[r.Adapter] = append(of[r.Adapter], r)
	}
	e.workload.Adapters = nil // no part has parts
	for _, name := range slices.Sorted(maps.Keys(of)) {
		e.records = of[name]
		all = append(all, load.OfAdapter{Name: name, Figures: figures(e)})
	}
	return all
}

// describe notes the spread of each time, in milliseconds, and how sure it is, of the records of a span. gaps is how
// many there are.
func (e evidence) describe(f *load.Figures, records []load.Record, in span, gaps int) {
	values := make([]float64, 0, max(len(records), gaps)) // for one after the other
	c := newCut(e.workload, e.records, in)
	spread := func(member string, each func(r *load.Record, note noting)) load.Stats {
		values = values[:0]
		all := func(note noting) {
			for i := range records {
				each(&records[i], note)
			}
		}
		all(func(v float64, _ time.Duration) { values = append(values, v) })
		s := load.Describe(values, e.percentiles)
		if member != "" {
			e.bound(f, c, member, &s, values, all)
		}
		return s
	}
	timed := e.workload.TimesTokens()
	f.TTFT = spread("ttft_ms", func(r *load.Record, note noting) {
		if r.OK() && timed {
			note(load.Ms(r.First-r.Sent), r.Sent)
		}
	})
	if f.TTFA != nil {
		*f.TTFA = spread("ttfa_ms", func(r *load.Record, note noting) {
			if at, ok := r.Answer(); ok && r.OK() {
				note(load.Ms(at-r.Sent), r.Sent)
			}
		})
	}
	f.TPOT = spread("tpot_ms", func(r *load.Record, note noting) {
		if r.OK() && timed && r.OutputTokens > 1 {
			note(load.Ms(r.Last-r.First)/float64(r.OutputTokens-1), r.Sent)
		}
	})
	f.E2EL = spread("e2el_ms", func(r *load.Record, note noting) {
		if r.OK() {
			note(load.Ms(r.Last-r.Sent), r.Sent)
		}
	})
	f.PerToken = spread("normalized_latency_ms", func(r *load.Record, note noting) {
		if r.OK() && r.OutputTokens > 0 {
			note(load.Ms(r.Last-r.Sent)/float64(r.OutputTokens), r.Sent)
		}
	})
	f.Queue = spread("", func(r *load.Record, note noting) { note(load.Ms(r.Sent-r.Scheduled), r.Sent) })
	f.SendLag = spread("", func(r *load.Record, note noting) { note(load.Ms(r.Sent-r.Ready), r.Sent) })
	f.ITL = spread("itl_ms", func(r *load.Record, note noting) {
		at := r.First
		for _, g := range r.Gaps {
			if at += g; r.OK() && timed {
				note(load.Ms(g), at)
			}
		}
	})
}

func completed(f *load.Figures, r *load.Record) {
	f.Completed++
	f.InputTokens += int64(r.InputTokens)
	f.CachedTokens += int64(r.CachedTokens)
	f.OutputTokens += int64(r.OutputTokens)
	f.AskedInput += int64(r.AskedInput)
	f.AskedOutput += int64(r.AskedOutput)
	f.MergedChunks += r.Merged
	if r.Finish != "" && r.Finish != "length" {
		f.EndedEarly++
	}
	if r.NoUsage {
		f.UsageMissing++
	}
}

// content counts what a completed request's answer was made of.
func content(c *load.Content, r *load.Record) {
	c.Chunks += int64(len(r.Gaps) + r.Dropped + 1)
	c.ReasoningChunks += int64(r.Reasoning)
	c.CallChunks += int64(r.Calls)
	c.ReasoningTokens += int64(r.ReasoningTokens)
	if r.Reasoning > 0 {
		c.Reasoned++
	}
	if r.Calls > 0 {
		c.Called++
	}
	if _, ok := r.Answer(); !ok && r.Reasoning > 0 {
		c.Unanswered++
	}
}

func failed(f *load.Figures, r *load.Record) {
	f.Failed++
	if f.Errors == nil {
		f.Errors = map[string]int{}
	}
	f.Errors[r.Class]++
	if r.Status != 0 {
		if f.Statuses == nil {
			f.Statuses = map[int]int{}
		}
		f.Statuses[r.Status]++
	}
	text := r.Class + ": " + r.Error
	if len(f.ErrorSamples) < errorSamples && !slices.Contains(f.ErrorSamples, text) {
		f.ErrorSamples = append(f.ErrorSamples, text)
	}
}

// mostInFlight sweeps over requests, failed ones too, from their sending to their
// end: the most in flight at one moment of those between two.
func mostInFlight(records []load.Record, s span) (peak int) {
	starts := make([]time.Duration, 0, len(records))
	ends := make([]time.Duration, 0, len(records))
	for i := range records {
		if r := &records[i]; r.End > s.from && r.Sent < s.to {
			starts, ends = append(starts, max(r.Sent, s.from)), append(ends, min(r.End, s.to))
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	over := 0
	for i, t := range starts {
		// One that ends when another starts has made room for it.
		for over < len(ends) && ends[over] <= t {
			over++
		}
		peak = max(peak, i+1-over)
	}
	return peak
}

// busiestSecond is the most that completed requests brought in one second of a span, of seconds that count from its
// beginning, or from the first dispatch. each is what one of so many chunks of a request brought.
func busiestSecond(records []load.Record, in span, each func(r *load.Record, chunks int) float64) float64 {
	zero := max(load.FirstDispatch(records), in.from)
	var seconds []float64
	add := func(at time.Duration, brought float64) {
		if !in.has(at) {
			return
		}
		i := int((at - zero) / time.Second)
		for len(seconds) <= i {
			seconds = append(seconds, 0)
		}
		seconds[i] += brought
	}
	for i := range records {
		r := &records[i]
		if !r.OK() {
			continue
		}
		chunks := len(r.Gaps) + r.Dropped + 1
		brought := each(r, chunks)
		at := r.First
		add(at, brought)
		for i := 1; i < chunks; i++ {
			if r.Dropped > 0 { // evenly in time, too
				at = r.First + time.Duration(i)*(r.Last-r.First)/time.Duration(chunks-1)
			} else {
				at += r.Gaps[i-1]
			}
			add(at, brought)
		}
	}
	return slices.Max(append(seconds, 0))
}
