package load

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plain"
)

// Objective is one line of an SLO. With a percentile it bounds that percentile of
// the metric over a cell's requests, of which those that failed are beyond any bound; without one each of its requests.
type Objective struct {
	Metric     string   `json:"metric"`     // one of [ObjectiveMetrics]
	Percentile float64  `json:"percentile"` // 99 for ttft_p99; 0: each request
	Max        Duration `json:"max"`
}

// ObjectiveMetrics are the metrics that an SLO can bound. A request's own "itl" is its mean time
// between chunks, its "normalized_latency" its E2EL by its output tokens. Its "ttfa" is its TTFT where
// answers have no reasoning; one that never got beyond its reasoning is within no bound.
func ObjectiveMetrics() []string {
	return []string{"ttft", "ttfa", "tpot", "itl", "e2el", "normalized_latency"}
}

var objectiveName = regexp.MustCompile(`^(ttft|ttfa|tpot|itl|e2el|normalized_latency)(?:_p(\d{1,2})(?:_(\d+))?)?$`)

// ParseObjective reads the metric of a bound, and its percentile: "ttft_p99" or "e2el_p99_9".
func ParseObjective(name string) (Objective, bool) {
	m := objectiveName.FindStringSubmatch(name)
	if m == nil {
		return Objective{}, false
	}
	o := Objective{Metric: m[1]}
	if m[2] == "" {
		return o, true
	}
	p, err := strconv.ParseFloat(m[2]+"."+m[3]+"0", 64)
	o.Percentile = p
	return o, err == nil && p > 0 && p < 100
}

// ParseBound reads a metric, perhaps a percentile of it, and its bound: "ttft=500ms" or "ttft_p99=5s".
func ParseBound(text string) (Objective, error) {
	name, bound, _ := strings.Cut(text, "=")
	o, known := ParseObjective(strings.ReplaceAll(name, ".", "_"))
	most, err := time.ParseDuration(bound)
	if !known || err != nil || most <= 0 {
		return o, fmt.Errorf("write a metric (%s), perhaps a percentile of it, and its bound, such as ttft=500ms or ttft_p99=5s",
			plain.List(ObjectiveMetrics(), "or"))
	}
	o.Max = Duration(most)
	return o, nil
}

// Name is the line's name as a lab writes it: "ttft", "ttft_p99", "e2el_p99_9".
func (o Objective) Name() string {
	if o.Percentile == 0 {
		return o.Metric
	}
	return o.Metric + "_p" + strings.ReplaceAll(percentileKey(o.Percentile), ".", "_")
}

// Attainment is how a summary stands to one line of an SLO.
type Attainment struct {
	Objective
	// Count is how many values were judged: completed requests, of an ITL with a
	// percentile gaps. Of none nothing is known, and the line is not met.
	Count int `json:"count"`
	// Value is the percentile, or the greatest of the requests' own values without
	// one: what is held against Max. In milliseconds. Where that is of a request that failed, or of an answer that
	// never got beyond its reasoning, which are beyond any Max, the greatest of the others.
	Value float64 `json:"value_ms"`
	// Within is the share of the requests sent whose own value is within Max, from 0
	// to 1; failed ones are not. Nil when the requests are not known.
	Within *float64 `json:"within,omitempty"`
	Met    bool     `json:"met"`
}

// Under is the summary under another SLO than it was measured with: its Objectives
// and Goodput, and those of its parts and clients, are what records say to slo; nothing else
// changes. records are those of the whole run. Without them lines with a percentile
// are judged by the summary's figures where it has them, and goodput is not known.
func (s Summary) Under(slo []Objective, records []Record) Summary {
	s.Part = s.Part.Under(slo, records)
	for _, part := range []**Part{&s.Untrimmed, &s.Steady} {
		if *part != nil {
			*part = new((*part).Under(slo, records))
		}
	}
	s.Clients = slices.Clone(s.Clients)
	for i := range s.Clients {
		own := slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Client != i })
		s.Clients[i].Part = s.Clients[i].Under(slo, own)
	}
	return s
}

// Under is the part under another SLO, as [Summary.Under]. Another goodput has no interval.
func (s Part) Under(slo []Objective, records []Record) Part {
	was := s.Goodput
	s.Objectives, s.Goodput = s.attained(slo, records), s.goodput(slo, records)
	if was != nil && (s.Goodput == nil || *was != *s.Goodput) {
		s.forget("goodput")
	}
	return s
}

func (s *Part) attained(slo []Objective, records []Record) []Attainment {
	if s.Window != nil {
		records = s.Window.Sent(records)
	}
	var list []Attainment
	for _, o := range slo {
		a := Attainment{Objective: o}
		own, within := o.values(records)
		if len(records) > 0 {
			a.Within = new(float64(within) / float64(len(records)))
		}
		switch {
		case o.Percentile == 0 && len(own) > 0:
			a.Count, a.Value = len(own), slices.Max(own)
			a.Met = within == len(records) // a request that failed has met nothing
		case o.Percentile != 0:
			a.Count, a.Value = s.at(o, own, records)
			a.Met = a.Count > 0 && a.Value <= Ms(time.Duration(o.Max))
		}
		if !(a.Value <= math.MaxFloat64) {
			a.Value = 0
			for _, v := range append(own, s.stats(o.Metric).Max) {
				if v <= math.MaxFloat64 {
					a.Value = max(a.Value, v)
				}
			}
		}
		list = append(list, a)
	}
	return list
}

// stats is the spread of a metric of an SLO.
func (s *Part) stats(metric string) Stats {
	stats := map[string]Stats{"ttft": s.TTFT, "tpot": s.TPOT, "itl": s.ITL, "e2el": s.E2EL,
		"normalized_latency": s.PerToken, "ttfa": s.TTFT}[metric]
	if metric == "ttfa" && s.TTFA != nil {
		if stats = *s.TTFA; stats.Count < s.E2EL.Count {
			stats = Stats{} // it leaves out the answers without a text
		}
	}
	return stats
}

// at is the percentile that an objective is about, and of how many values: as the
// summary has it or, where it does not show that percentile, from the records. What failed is beyond all values: of
// those that are known the percentile is the higher, and infinite where more failed than it leaves out.
func (s *Part) at(o Objective, own []float64, records []Record) (count int, value float64) {
	stats, percentile := s.stats(o.Metric), o.Percentile
	done, failed := s.Completed, s.Failed
	if len(records) > 0 {
		done, failed = 0, 0
		for i := range records {
			if records[i].OK() {
				done++
			} else {
				failed++
			}
		}
	}
	if failed > 0 && done > 0 {
		percentile *= float64(done+failed) / float64(done)
	}
	if percentile > 100 {
		return max(stats.Count, len(own)), math.Inf(1)
	}
	if v, ok := stats.Percentiles[percentileKey(percentile)]; ok {
		return stats.Count, v
	}
	if failed > 0 && len(records) == 0 {
		return stats.atLeast(percentile)
	}
	if o.Metric == "itl" { // of all gaps, not of the requests' means
		own = own[:0]
		for i := range records {
			if r := &records[i]; r.OK() {
				for _, g := range r.Gaps {
					own = append(own, Ms(g))
				}
			}
		}
	}
	slices.Sort(own)
	return len(own), Percentile(own, percentile)
}

// atLeast is the value of the next higher percentile that is known; the count is 0 where none is.
func (s Stats) atLeast(percentile float64) (count int, value float64) {
	best := math.Inf(1)
	for name, v := range s.Percentiles {
		if p, err := strconv.ParseFloat(name, 64); err == nil && p >= percentile && p < best {
			count, value, best = s.Count, v, p
		}
	}
	if count == 0 && s.Max > 0 {
		count, value = s.Count, s.Max
	}
	return count, value
}

// Of is a request's own value of the metric: beyond any bound where it failed or never got beyond its reasoning. known is
// false where a request that completed has no such value, as one of a single token has no TPOT.
func (o Objective) Of(r *Record) (v time.Duration, known bool) {
	if !r.OK() {
		return math.MaxInt64, true
	}
	v, known = r.value(o.Metric)
	return v, known || v == math.MaxInt64
}

// values are the requests' own values in milliseconds, infinite of an answer that never got beyond
// its reasoning, and how many requests are within the bound.
func (o Objective) values(records []Record) (own []float64, within int) {
	for i := range records {
		r := &records[i]
		if !r.OK() {
			continue
		}
		v, ok := r.value(o.Metric)
		switch {
		case ok:
			own = append(own, Ms(v))
		case v == math.MaxInt64:
			own = append(own, math.Inf(1))
		}
		if v <= time.Duration(o.Max) {
			within++
		}
	}
	return own, within
}

// ofRequests are the lines of an SLO that say which requests are good: those
// without a percentile and, of a metric that has only lines with one, the one with
// the highest. The others allow some of the requests more than they say.
func ofRequests(slo []Objective) []Objective {
	rank := func(o Objective) float64 { return cmp.Or(o.Percentile, 100) }
	return slices.DeleteFunc(slices.Clone(slo), func(o Objective) bool {
		return slices.ContainsFunc(slo, func(x Objective) bool { return x.Metric == o.Metric && rank(x) > rank(o) })
	})
}

// Good tells which requests count as good under an SLO: those that completed within its bounds.
func Good(slo []Objective) func(r *Record) bool {
	bounds := ofRequests(slo)
	return func(r *Record) bool { return r.OK() && r.good(bounds) }
}

// goodput is good requests per second: of all, or of those that ended in the
// summary's window. Nil without an SLO or without records.
func (s *Part) goodput(slo []Objective, records []Record) *float64 {
	if len(slo) == 0 || len(records) == 0 || s.Duration <= 0 {
		return nil
	}
	from, to := time.Duration(0), time.Duration(math.MaxInt64)
	if s.Window != nil {
		first := FirstDispatch(records)
		from, to = first+time.Duration(s.Window.From), first+time.Duration(s.Window.To)
	}
	good, n := Good(slo), 0
	for i := range records {
		if r := &records[i]; r.End >= from && r.End < to && good(r) {
			n++
		}
	}
	return new(float64(n) / s.Duration)
}
