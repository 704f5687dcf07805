package measure

import (
	"cmp"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// leg is a part of a schedule over which the pace goes evenly from low to high.
type leg struct {
	from, to  time.Duration
	low, high float64
}

// forever ends the last leg of a schedule without an end.
const forever = time.Duration(math.MaxInt64)

// legs are the rates of a workload, one after the other. Where a stage has a
// concurrency instead, its rate is 0.
func legs(w load.Workload) []leg {
	parts := []leg{{0, forever, float64(w.Rate), float64(w.Rate)}}
	if len(w.Stages) > 0 {
		parts = parts[:0]
		at := time.Duration(0)
		for _, s := range w.Stages {
			end := at + time.Duration(s.Duration)
			rate := float64(s.Rate)
			if s.Rate == load.Inf {
				rate = 0 // as many as the concurrency cap lets through
			}
			parts = append(parts, leg{at, end, rate, rate})
			at = end
		}
	}
	return ramped(parts, time.Duration(w.Ramp))
}

// ramped lets the pace of legs grow from nothing over the time of a ramp.
func ramped(parts []leg, ramp time.Duration) []leg {
	var out []leg
	for _, l := range parts {
		if l.from >= ramp {
			out = append(out, l)
			continue
		}
		share := func(t time.Duration) float64 { return float64(t) / float64(ramp) }
		end := min(l.to, ramp)
		out = append(out, leg{l.from, end, l.low * share(l.from), l.low * share(end)})
		if l.to > ramp {
			out = append(out, leg{ramp, l.to, l.low, l.high})
		}
	}
	return out
}

// mass is how many arrivals a leg has until t.
func (l leg) mass(t time.Duration) float64 {
	t = min(t, l.to)
	if t <= l.from || l.high == 0 {
		return 0
	}
	if t == forever {
		return math.Inf(1)
	}
	d := (t - l.from).Seconds()
	slope := (l.high - l.low) / (l.to - l.from).Seconds()
	return l.low*d + slope*d*d/2
}

// fit is how many whole arrivals there are until t.
func fit(parts []leg, t time.Duration) int {
	sum := 0.0
	for _, l := range parts {
		sum += l.mass(t)
	}
	return int(math.Floor(sum + 1e-9)) // 0.1 × 30 s are 3
}

// when is the moment by which u arrivals have come.
func when(parts []leg, u float64) time.Duration {
	for i, l := range parts {
		m := l.mass(l.to)
		if u > m && i < len(parts)-1 {
			u -= m
			continue
		}
		u = min(u, m)
		if u == 0 {
			return l.from
		}
		slope := (l.high - l.low) / (l.to - l.from).Seconds()
		// Of low·t + slope·t²/2 = u, the form that needs no slope.
		return l.from + seconds(2*u/(l.low+math.Sqrt(l.low*l.low+2*slope*u)))
	}
	return 0
}

// shift is a time in which a worker of a closed loop sends.
type shift struct{ from, to time.Duration }

// crew are the shifts of n workers, of whom one after the other begins while the
// ramp lasts.
func crew(n int, ramp, limit time.Duration) [][]shift {
	all := make([][]shift, n)
	for k := range all {
		all[k] = []shift{{ramp * time.Duration(k) / time.Duration(n), cmp.Or(limit, forever)}}
	}
	return all
}

// stagedCrew are the shifts of the workers of stages with a concurrency: worker
// k sends in those that have more than k.
func stagedCrew(w load.Workload) [][]shift {
	most := 0
	limit := func(s load.Stage) int {
		if s.Rate == load.Inf {
			return w.Concurrency
		}
		return s.Concurrency
	}
	for _, s := range w.Stages {
		most = max(most, limit(s))
	}
	all := make([][]shift, most)
	at := time.Duration(0)
	for _, s := range w.Stages {
		end := at + time.Duration(s.Duration)
		for k := range limit(s) {
			from := max(at, min(end, time.Duration(w.Ramp)*time.Duration(k)/time.Duration(limit(s))))
			if from < end {
				all[k] = append(all[k], shift{from, end})
			}
		}
		at = end
	}
	return slices.DeleteFunc(all, func(s []shift) bool { return len(s) == 0 })
}

// timed reports whether requests have a time at which they are due, whatever the
// server does.
func timed(w load.Workload) bool {
	return w.Rate > 0 && w.Rate != load.Inf || w.Dataset.Kind == load.Trace ||
		slices.ContainsFunc(w.Stages, func(s load.Stage) bool { return s.Rate > 0 && s.Rate != load.Inf })
}
