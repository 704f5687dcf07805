package measure

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

const (
	student = 2.306 // the 97.5th percentile of Student's t with as many degrees of freedom as waves
	normal  = 1.960 // and of the normal distribution
	// leastMore is the least that numbers of values are taken to vary, as a part of what those of
	// independent values do: what so few batches show may be far too little by chance.
	leastMore = 0.5
)

// How often a request has to fit into a run, whose requests share their fate with those beside
// them; docs/method.md gives the reasons.
const (
	leastLives = 20  // for any interval
	livesAbove = 3   // beyond a percentile, of a closed loop
	livesOpen  = 10  // and of an open one, whose queue may build up only now and then
	livesWait  = 200 // for the mean wait in an open loop
)

// unchanging reports whether a load asks for the same all the time: else figures are of its
// changes, and have no interval.
func unchanging(w load.Workload) bool {
	return len(w.Stages) == 0 && w.Rate != load.Inf && !w.Dataset.Timed()
}

// mute says why the run tells no interval; empty: it may tell some.
func (c cut) mute(w load.Workload, duration float64) string {
	switch {
	case !unchanging(w):
		return "the load does not ask for the same all the time"
	case c.lives < leastLives:
		return fmt.Sprintf("the run is %.1f times as long as a request, and an interval needs %d times", math.Floor(10*c.lives)/10, leastLives)
	case c.short(duration):
		return "more than half of the run are its ramp, its first requests and its end"
	}
	return ""
}

// short reports whether batches are of less than half of a run of so many seconds.
func (c cut) short(duration float64) bool {
	return c.to <= c.from || (c.to-c.from).Seconds() < duration/2
}

// enough is how often a request has to fit into a run that bounds a percentile.
func enough(w load.Workload, p float64) int {
	beyond := livesAbove
	if w.Rate != 0 {
		beyond = livesOpen
	}
	return max(leastLives, int(math.Ceil(float64(beyond)/(1-max(p, 100-p)/100)-1e-9)))
}

// noting takes a value and its moment.
type noting func(v float64, at time.Duration)

// residuals are what the mean and the percentiles of values are known from, by batch.
type residuals struct {
	cut       cut
	n, values bins
	squares   float64
	first     float64   // sum of the values before the cut, or after it
	apart     bool      // they are of a request each
	bounds    []float64 // values of percentiles
	within    []bins    // how many values are at most each
	tails     []float64 // values of the percentiles halfway from each to the greatest; nil: none is looked at
	beyond    []bins    // how many values are at most each of these
}

func (r *residuals) add(v float64, at time.Duration) {
	if at < r.cut.from || at > r.cut.to { // when fewer and fewer are in flight gaps are shorter
		r.first += v
		return
	}
	b := r.cut.batch(at)
	r.n[b]++
	r.values[b] += v
	r.squares += v * v
	for i, bound := range r.bounds {
		if v <= bound {
			r.within[i][b]++
		}
		if r.tails != nil && v <= r.tails[i] {
			r.beyond[i][b]++
		}
	}
}

// mean is the interval of a mean. Before the cut, where requests wait for each other, their values
// count as one, which varies as much as each of the others; gaps vary there as they do later.
func (r *residuals) mean(s load.Stats) load.Interval {
	n, sum := r.n.sum(), r.values.sum()
	v := student * student * r.values.less(sum/n, &r.n).variance()
	if r.apart {
		v += normal * normal * r.first * r.first * max(0, r.squares*n/(sum*sum)-1)
	} else {
		v *= float64(s.Count) / n
	}
	half := math.Sqrt(v) / float64(s.Count)
	return load.Interval{Low: s.Mean - half, High: s.Mean + half}
}

// likewise is how much more the number of values that are at most a bound varies between batches
// than that of so many independent values does, and which share of them is.
func (r *residuals) likewise(within *bins) (more, share float64) {
	n := r.n.sum()
	share = within.sum() / n
	return within.less(share, &r.n).variance() / (n * share * (1 - share)), share
}

// percentile is the interval of a percentile, between two of the sorted values: as of so many
// independent values as vary as much between batches, which it reports too; or as vary in the middle
// between that and halfway into the tail beyond it, if that is more.
func (r *residuals) percentile(i int, p float64, sorted []float64) (x load.Interval, independent float64, why string) {
	n, all := r.n.sum(), float64(len(sorted))
	more, share := r.likewise(&r.within[i])
	even := n * share * (1 - share)
	if !(even > 0) {
		return x, 0, "no value after those of the first requests is above it"
	}
	if r.tails != nil {
		if tail, beyond := r.likewise(&r.beyond[i]); beyond < 1 {
			more = max(more, (more+tail)/2)
		}
	}
	v := even * max(leastMore, more*(student*student)/(normal*normal))
	independent = all * all * p / 100 * (1 - p/100) / v
	low, high, ok := load.Ranks(len(sorted), independent, p)
	own, needs := n*even/v, load.Needs(100*share) // of those within the cut, where the percentile is another one
	if !ok || own < float64(needs) {
		independent = min(independent, own*float64(load.Needs(p))/float64(needs))
		return x, independent, fmt.Sprintf("its values tell as much as %.0f independent ones: it needs %d",
			min(own, independent), max(load.Needs(p), needs))
	}
	x = load.Interval{Low: load.At(sorted, low), High: load.At(sorted, high)}
	if most := load.EarlyStopping(len(sorted), p); most > 0 && r.apart {
		x.AtMost = sorted[most-1]
	}
	return x, independent, ""
}

// bound notes the intervals of a time's mean and percentiles or why there is none, and of gaps how
// much they tell. sorted are its values; each tells them again, with their moments.
func (e evidence) bound(f *load.Figures, c cut, member string, s *load.Stats, sorted []float64, each func(noting)) {
	r := residuals{cut: c, apart: member != "itl_ms"}
	mute := c.mute(e.workload, f.Duration) != ""
	if s.Count == 0 || mute && r.apart {
		return
	}
	percentiles := e.percentiles
	if !slices.Contains(percentiles, 50) {
		percentiles = append([]float64{50}, percentiles...)
	}
	r.within, r.beyond = make([]bins, len(percentiles)), make([]bins, len(percentiles))
	for _, p := range percentiles {
		r.bounds = append(r.bounds, load.Percentile(sorted, p))
		if r.apart { // waits come in bursts, of which a run may have seen few
			r.tails = append(r.tails, load.Percentile(sorted, 50+p/2))
		}
	}
	each(r.add)
	note := func(statistic string, needs int, x load.Interval, why string) {
		if c.lives < float64(needs) {
			why = fmt.Sprintf("the run is %.0f times as long as a request, and this needs %d times", math.Floor(c.lives), needs)
		}
		switch name := member + "." + statistic; {
		case mute:
		case why == "":
			f.Bound(name, x)
		default:
			f.Unbound(name, why)
		}
	}
	needs := leastLives
	if e.workload.Rate != 0 && (member == "ttft_ms" || member == "ttfa_ms") {
		needs = livesWait
	}
	if r.values.sum() > 0 {
		note("mean", needs, r.mean(*s), "")
	}
	for i, p := range percentiles {
		x, independent, why := r.percentile(i, p, sorted)
		note(load.Statistic(p), enough(e.workload, p), x, why)
		if !unchanging(e.workload) || c.short(f.Duration) { // nearly all is in one batch
			independent = 0
		}
		if !r.apart {
			s.Tells(p, max(f.Completed, int(independent)))
		}
	}
}

// boundRates notes the intervals of the throughputs of a closed loop, from the cut: each request's
// work is spread evenly over the time that it was in flight. A whole run ends when all that is in flight is
// over, and varies by that, too. An open loop has the throughput that was asked of it, and a goodput.
// Where the run tells no interval at all, it notes why.
func (e evidence) boundRates(p *load.Part, c cut) {
	f := &p.Figures
	why := c.mute(e.workload, f.Duration)
	switch {
	case f.Completed == 0:
		return
	case why != "":
		f.Unbound("", why)
		return
	case e.workload.Rate != 0:
		e.boundShare(p, c)
		return
	}
	rates := []rate{
		{name: "request_throughput", value: f.RequestThroughput, of: func(*load.Record) int { return 1 }},
		{name: "input_throughput", value: f.InputThroughput, of: func(r *load.Record) int { return r.InputTokens }},
		{name: "output_throughput", value: f.OutputThroughput, of: func(r *load.Record) int { return r.OutputTokens }},
		{name: "total_throughput", value: f.TotalThroughput,
			of: func(r *load.Record) int { return r.InputTokens + r.OutputTokens }},
	}
	if _, _, ok := e.goodShare(p, c); ok {
		good := load.Good(e.workload.SLO)
		rates = append(rates, rate{name: "goodput", value: *p.Goodput, of: func(r *load.Record) int {
			if good(r) {
				return 1
			}
			return 0
		}})
	}
	ones := bins{}
	for b := range ones {
		ones[b] = 1
	}
	ends, drains := c.endings(e.records)
	for i := range e.records {
		r := &e.records[i]
		if !r.OK() || r.End <= r.Sent || r.End <= c.from || r.Sent >= c.to {
			continue
		}
		for b, at := range ends {
			if r.Sent <= at && r.End > at {
				for j := range rates {
					rates[j].left[b] += float64(r.End-at) / float64(r.End-r.Sent) * float64(rates[j].of(r))
				}
			}
		}
		for b := c.batch(r.Sent); b <= c.batch(r.End); b++ {
			in := c.part(b, batches).overlap(span{r.Sent, r.End})
			for j := range rates {
				rates[j].work[b] += float64(in) / float64(r.End-r.Sent) * float64(rates[j].of(r))
			}
		}
	}
	part := (c.to - c.from).Seconds() / f.Duration
	for i := range rates {
		x, all := &rates[i], rates[i].work.sum()
		if all > 0 {
			v, end := part*x.work.less(all/batches, &ones).variance()/(all*all), 0.0
			if p.Window == nil {
				for b := range x.left { // had it ended there: so much more would have come, in so much more time
					x.left[b] = x.left[b]/(x.value*f.Duration) - drains[b]/f.Duration
				}
				end = spreadOf(x.left[:])
			}
			half := x.value * sureness(v, end) * math.Sqrt(v+end)
			bound := load.Interval{Low: max(0, x.value-half), High: x.value + half}
			if x.name == "goodput" { // it may vary more than requests do, of which it is a part
				bound.High = min(bound.High, f.Intervals["request_throughput"].High)
			}
			f.Bound(x.name, bound)
		}
	}
}

// sureness is how many standard deviations a figure may be off, of whose variance a part is known from
// so many waves and another part well (Welch and Satterthwaite, Cornish and Fisher).
func sureness(v, known float64) float64 {
	less := v * v / (waves * (v + known) * (v + known)) // one over the degrees of freedom
	if v == 0 {
		less = 0
	}
	return normal + 2.372*less + 2.823*less*less
}

// rate is a throughput: so much work of each request.
type rate struct {
	name  string
	value float64
	of    func(r *load.Record) int
	work  bins
	left  bins // to be done when the last request of each batch is sent
}

// goodShare is which share of the requests sent within the cut is good, and of how many independent
// ones that is as sure; ok is false where the run does not tell how often they are not, which it notes.
func (e evidence) goodShare(p *load.Part, c cut) (share, n float64, ok bool) {
	if p.Goodput == nil {
		return 0, 0, false
	}
	good := load.Good(e.workload.SLO)
	r := residuals{cut: c, apart: true, within: make([]bins, 1), bounds: []float64{0}}
	for i := range e.records {
		if x := &e.records[i]; x.Sent >= c.from && x.Sent <= c.to {
			missed := 1.0
			if good(x) {
				missed = 0
			}
			r.add(missed, x.Sent)
		}
	}
	more, share := r.likewise(&r.within[0])
	if share == 0 || share == 1 {
		p.Unbound("goodput", "requests are all good, or none is")
		return 0, 0, false
	}
	if needs := enough(e.workload, 100*share); c.lives < float64(needs) {
		p.Unbound("goodput", fmt.Sprintf("the run is %.0f times as long as a request, and this needs %d times", math.Floor(c.lives), needs))
		return 0, 0, false
	}
	return share, r.n.sum() / max(leastMore, more*(student*student)/(normal*normal)), true
}

// boundShare notes the interval of an open loop's goodput: of the share of requests that are good, by
// Wilson's score.
func (e evidence) boundShare(p *load.Part, c cut) {
	share, n, ok := e.goodShare(p, c)
	if !ok {
		return
	}
	middle, half := share+normal*normal/(2*n), normal*math.Sqrt(share*(1-share)/n+normal*normal/(4*n*n))
	scale := *p.Goodput / share / (1 + normal*normal/n)
	p.Bound("goodput", load.Interval{Low: scale * (middle - half), High: scale * (middle + half)})
}

// endings are when the last request of each batch was sent, and how many seconds it takes from then on until all
// that is in flight is over, which is how a run ends: by how many tokens are then left to the request with the most.
func (c cut) endings(records []load.Record) (at [batches]time.Duration, drains bins) {
	for i := range records {
		for b := c.batch(records[i].Sent); b < len(at); b++ {
			at[b] = max(at[b], records[i].Sent)
		}
	}
	over := c.to
	for i := range records {
		r := &records[i]
		over = max(over, r.End)
		for b, at := range at {
			if r.Sent <= at && r.End > at {
				drains[b] = max(drains[b], float64(max(1, r.OutputTokens))*float64(r.End-at)/float64(r.End-r.Sent))
			}
		}
	}
	if last := drains[len(drains)-1]; last > 0 {
		for b := range drains {
			drains[b] *= (over - c.to).Seconds() / last
		}
	}
	return at, drains
}
