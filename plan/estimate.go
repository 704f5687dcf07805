package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/results"
)

// Estimate is how long a plan takes and what it costs, by what its loads say and by
// what was measured before. Images and models that have to be fetched first are not in it.
type Estimate struct {
	Seconds       float64        `json:"seconds"`            // until the last host is done; hosts work side by side, and wait for each other
	Cost          float64        `json:"cost_usd,omitempty"` // of the hosts with a price, each for as long as it is taken
	UnknownCells  int            `json:"unknown_cells"`      // nothing like them was measured; they are not in the sums
	UnknownStarts int            `json:"unknown_starts"`     // of engines that have never served on their host; likewise
	Hosts         []HostEstimate `json:"hosts"`              // those with work of which something is known

	tunes []string      // tunings that have more to start, which is not in the sums
	limit time.Duration // after which everything of the lab ends; 0: none
}

// HostEstimate is a host's part of an [Estimate].
type HostEstimate struct {
	Host    string  `json:"host"`
	Seconds float64 `json:"seconds"`                // from its first use to its last
	Idle    float64 `json:"idle_seconds,omitempty"` // of these, how long it waits for other hosts
	Cost    float64 `json:"cost_usd,omitempty"`
}

// Work is how many seconds the cell takes, as far as anything tells; else a guess, good to weigh
// cells against each other: its output tokens one after another, as usual for a large model.
func (c *Cell) Work() float64 {
	const token, sideBySide = 0.03, 256 // how many of a batch engines usually run at once
	if c.takes > 0 {
		return c.takes.Seconds()
	}
	all, lanes := c.Task.Stored().Prompts(), sideBySide
	if s := c.Search(); s != nil {
		all.Requests = int(s.Question.Budget)
	}
	if l := c.Load(); l != nil && l.Workload.Concurrency > 0 {
		lanes = l.Workload.Concurrency
	}
	return math.Ceil(float64(max(all.Requests, 1))/float64(lanes)) * float64(max(all.OutputTokens, 1)) * token
}

// Estimate returns how long what is to be done takes; nil when nothing is known of any of it. As
// the scheduler does, it gives a deployment all its hosts at once, when the last of them is free,
// in the plan's order; and each host is taken from its first use to its last.
func (p *Plan) Estimate() *Estimate {
	out := &Estimate{Hosts: []HostEstimate{}, tunes: p.tuning(), limit: p.Lab.MaxDuration}
	type use struct{ from, free, idle time.Duration }
	uses := map[*provision.Host]*use{}
	for _, d := range p.Deployments {
		if len(d.ToDo()) == 0 {
			continue
		}
		takes := time.Duration(d.starts()) * d.start
		if d.start == 0 {
			out.UnknownStarts += d.starts()
		}
		for _, c := range d.ToDo() {
			if c.takes == 0 {
				out.UnknownCells++
			}
			takes += c.takes
		}
		var begin time.Duration
		for _, h := range d.Needs() {
			if u := uses[h]; u != nil {
				begin = max(begin, u.free)
			}
		}
		for _, h := range d.Needs() {
			u := uses[h]
			if u == nil {
				u = &use{from: begin, free: begin}
				uses[h] = u
			}
			u.idle += begin - u.free
			u.free = begin + takes
		}
	}
	for _, h := range p.Hosts {
		u := uses[h]
		if u == nil || u.free == u.from {
			continue
		}
		taken := u.free - u.from
		e := HostEstimate{Host: h.Name, Seconds: taken.Seconds(), Idle: u.idle.Seconds(), Cost: h.PricePerHour * taken.Hours()}
		out.Hosts = append(out.Hosts, e)
		out.Seconds = max(out.Seconds, u.free.Seconds())
		out.Cost += e.Cost
	}
	if len(out.Hosts) == 0 {
		return nil
	}
	return out
}

// String is "Estimated: 3h10m on h200, 2h on mi300x; $95.20. Not known, and not in it: 2 starts."
func (e *Estimate) String() string {
	rough := func(seconds float64) string { return Rough(time.Duration(seconds * float64(time.Second))) }
	var hosts []string
	for _, h := range e.Hosts {
		s := fmt.Sprintf("%s on %s", rough(h.Seconds), h.Host)
		if h.Idle > 0 && h.Cost > 0 {
			s += fmt.Sprintf(" (%s of it waiting for other hosts, $%.2f)", rough(h.Idle), h.Cost*h.Idle/h.Seconds)
		}
		hosts = append(hosts, s)
	}
	s := "Estimated: " + strings.Join(hosts, ", ")
	if e.Cost > 0 {
		s += fmt.Sprintf("; $%.2f", e.Cost)
	}
	var without []string
	if e.UnknownStarts > 0 {
		without = append(without, plain.Count(e.UnknownStarts, "start"))
	}
	if e.UnknownCells > 0 {
		without = append(without, plain.Count(e.UnknownCells, "cell"))
	}
	if len(e.tunes) > 0 {
		without = append(without, whatStarts(e.tunes))
	}
	if s += "."; len(without) > 0 {
		s += " Not known, and not in it: " + plain.List(without, "and") + "."
	}
	if e.limit > 0 && e.Seconds > e.limit.Seconds() {
		s += fmt.Sprintf(" That is longer than the lab's max_duration, %s: what is not measured by then is not measured.", e.limit)
	}
	return s
}

// Rough is how long something takes, as an estimate is said: "40s", "12m", "3h10m".
func Rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(math.Ceil(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(math.Round(d.Minutes())))
	}
	d = d.Round(10 * time.Minute)
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// history is what earlier measurements tell of how long things take.
type history struct {
	cells  map[string][]past        // by host
	starts map[string]results.Known // by engine and host: the newest
}

// past is a closed-loop measurement: how long it took for each token that one of
// its lanes had to wait for, and where in the matrix it stands.
type past struct {
	results.Known
	shape
	pace float64 // seconds
}

// shape is what the pace of a closed loop depends on, besides the engine: the
// logarithms of its concurrency and of the lengths of prompts and answers.
type shape [3]float64

func (s shape) distance(o shape) (sum float64) {
	for i := range s {
		sum += math.Abs(s[i] - o[i])
	}
	return sum
}

func newHistory(known map[string]results.Known) *history {
	h := &history{cells: map[string][]past{}, starts: map[string]results.Known{}}
	for _, k := range known {
		if k.Verdict == load.Void {
			continue
		}
		at := k.Engine + " " + k.Host
		if k.Ready > 0 && k.Finished.After(h.starts[at].Finished) {
			h.starts[at] = k
		}
		if s, lane, ok := loop(k.Identity); ok && k.Took > 0 {
			h.cells[k.Host] = append(h.cells[k.Host], past{k, s, k.Took.Seconds() / lane})
		}
	}
	// Of two that are equally near the newer one counts, whatever the map's order.
	for _, cells := range h.cells {
		slices.SortFunc(cells, func(a, b past) int {
			return cmp.Or(b.Finished.Compare(a.Finished), cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Axes, b.Axes))
		})
	}
	return h
}

// loop is the shape of a closed loop and how many output tokens one of its lanes
// waits for; not ok for any other load.
func loop(identity map[string]string) (s shape, lane float64, ok bool) {
	number := func(name string) float64 {
		f, _ := strconv.ParseFloat(identity["load."+name], 64)
		return f
	}
	requests := number("requests") + number("warmup_requests")
	lanes, input, output := number("concurrency"), max(number("dataset.input_tokens"), 1), max(number("output_tokens"), 1)
	if requests == 0 || lanes == 0 || identity["load.rate"] != "" || identity["load.duration"] != "" {
		return s, 0, false
	}
	return shape{math.Log(lanes), math.Log(input), math.Log(output)}, math.Ceil(requests/lanes) * output, true
}

// takes estimates a cell by its own pace, or by the measurement of the same engine, or else on the
// same host, whose load is most alike. 0 when nothing tells.
func (h *history) takes(c *Cell) time.Duration {
	if own := c.Task.Stored().Workload.Takes(); own > 0 {
		return own
	}
	if s := c.Search(); s != nil && s.Question.Timed { // at most
		return time.Duration(s.Question.Budget / s.speed() * float64(time.Second))
	}
	waits := c.Task.Stored().Workload.Waits()
	s, lane, ok := loop(c.load.pairs)
	if !ok {
		return waits
	}
	d := c.deployment
	nearest, best := 0.0, math.Inf(1)
	for _, k := range h.cells[d.Where()] {
		apart := s.distance(k.shape)
		if k.Engine != d.Engine.Label() {
			apart += 100 // further than any other load of the same engine
		}
		if apart < best {
			nearest, best = k.pace, apart
		}
	}
	return max(waits, time.Duration(nearest*lane*float64(time.Second)))
}
