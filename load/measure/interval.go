package measure

import (
	"math"
	"slices"
	"time"

	"hclbench/load"
)

const (
	student = 2.093 // the 97.5th percentile of Student's t with batches − 1 degrees of freedom
	normal  = 1.960 // and of the normal distribution
)

// unchanging reports whether a load asks for the same all the time: else figures are of its
// changes, and have no interval.
func unchanging(w load.Workload) bool {
	return len(w.Stages) == 0 && w.Rate != load.Inf && w.Dataset.Kind != load.Trace
}

// noting takes a value and its moment.
type noting func(v float64, at time.Duration)

// residuals are what the mean and the percentiles of values are known from, by batch.
type residuals struct {
	cut       cut
	n, values bins
	squares   float64
	first     float64   // sum of the values before the cut
	apart     bool      // they are of a request each
	bounds    []float64 // values of percentiles
	within    []bins    // how many values are at most each
}

func (r *residuals) add(v float64, at time.Duration) {
	if at < r.cut.from {
		r.first += v
		return
	}
	b := r.cut.at(at)
	r.n[b]++
	r.values[b] += v
	r.squares += v * v
	for i, bound := range r.bounds {
		if v <= bound {
			r.within[i][b]++
		}
	}
}

// mean is the interval of a mean. The values before the cut count as one, which varies as
// much as each of the others.
func (r *residuals) mean(s load.Stats) (load.Interval, bool) {
	n, sum := r.n.sum(), r.values.sum()
	v, ok := r.values.less(sum/n, &r.n).variance()
	first := r.first * r.first * max(0, r.squares*n/(sum*sum)-1)
	half := student * math.Sqrt(v+first) / float64(s.Count)
	return load.Interval{Low: s.Mean - half, High: s.Mean + half}, ok && sum > 0
}

// percentile is the interval of a percentile, between two of the sorted values: as of so many
// independent values as vary as much between batches. One that lies among the values before the
// cut has none.
func (r *residuals) percentile(i int, p float64, sorted []float64) (load.Interval, bool) {
	n, independent := r.n.sum(), float64(len(sorted))
	share := r.within[i].sum() / n
	v, ok := r.within[i].less(share, &r.n).variance()
	if !ok || share > 1-1/n {
		return load.Interval{}, false
	}
	if even := n * share * (1 - share); even > 0 {
		independent /= max(1, v/even*(student*student)/(normal*normal))
	}
	low, high, ok := load.Ranks(len(sorted), independent, p)
	if !ok {
		return load.Interval{}, false
	}
	x := load.Interval{Low: sorted[low-1], High: sorted[high-1]}
	if most := load.EarlyStopping(len(sorted), p); most > 0 && r.apart {
		x.AtMost = sorted[most-1]
	}
	return x, true
}

// bound notes the intervals of a time's mean and percentiles. sorted are its values; each tells
// them again, with their moments.
func (e evidence) bound(f *load.Figures, c cut, member string, s load.Stats, sorted []float64, each func(noting)) {
	if !c.telling(f.Duration) || !unchanging(e.workload) {
		return
	}
	percentiles := append([]float64{50}, e.percentiles...)
	r := residuals{cut: c, apart: member != "itl_ms", within: make([]bins, len(percentiles))}
	for _, p := range percentiles {
		r.bounds = append(r.bounds, load.Percentile(sorted, p))
	}
	if each(r.add); slices.Min(r.n[:]) == 0 {
		return
	}
	if x, ok := r.mean(s); ok {
		f.Bound(member+".mean", x)
	}
	for i, p := range percentiles {
		if x, ok := r.percentile(i, p, sorted); ok {
			f.Bound(member+"."+load.Statistic(p), x)
		}
	}
}

// boundRates notes the intervals of the throughputs of a closed loop, from the cut: each request's
// work is spread evenly over the time that it was in flight. ending is the variance, in square
// seconds, of when the time ended over which they are taken. An open loop has the throughput that
// was asked of it.
func (e evidence) boundRates(f *load.Figures, c cut, ending float64) {
	if e.workload.Rate != 0 || !unchanging(e.workload) || !c.telling(f.Duration) {
		return
	}
	rates := []struct {
		name  string
		value float64
		of    func(r *load.Record) int
		work  bins
	}{
		{name: "request_throughput", value: f.RequestThroughput, of: func(*load.Record) int { return 1 }},
		{name: "input_throughput", value: f.InputThroughput, of: func(r *load.Record) int { return r.InputTokens }},
		{name: "output_throughput", value: f.OutputThroughput, of: func(r *load.Record) int { return r.OutputTokens }},
		{name: "total_throughput", value: f.TotalThroughput,
			of: func(r *load.Record) int { return r.InputTokens + r.OutputTokens }},
	}
	for i := range e.records {
		r := &e.records[i]
		if !r.OK() || r.End <= r.Sent || r.End <= c.from || r.Sent >= c.to {
			continue
		}
		for b := c.at(r.Sent); b <= c.at(r.End); b++ {
			in := max(0, min(r.End, c.end(b))-max(r.Sent, c.end(b-1)))
			for j := range rates {
				rates[j].work[b] += float64(in) / float64(r.End-r.Sent) * float64(rates[j].of(r))
			}
		}
	}
	part := (c.to - c.from).Seconds() / f.Duration
	for i := range rates {
		x, all := &rates[i], rates[i].work.sum()
		if v, ok := x.work.variance(); ok && all > 0 {
			half := student * x.value * math.Sqrt(v*part/(all*all)+ending/(f.Duration*f.Duration))
			f.Bound(x.name, load.Interval{Low: x.value - half, High: x.value + half})
		}
	}
}

// drains is the variance, in square seconds, of how long it takes after a dispatch until all that
// is in flight is over, which is how a run ends: as it was at the last dispatch of each batch.
func (c cut) drains(records []load.Record) float64 {
	var at [batches - 1]time.Duration
	for i := range records {
		for b := c.at(records[i].Sent); b < len(at); b++ {
			at[b] = max(at[b], records[i].Sent)
		}
	}
	took := make([]float64, len(at))
	for i := range records {
		r := &records[i]
		for b, at := range at {
			if r.Sent <= at && r.End > at {
				took[b] = max(took[b], (r.End - at).Seconds())
			}
		}
	}
	return spreadOf(took)
}
