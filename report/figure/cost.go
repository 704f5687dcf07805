package figure

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hclbench/results"
)

// Spending is what one run had of one host. Each second of Held is in one of the times below it.
type Spending struct {
	Run   string  `json:"run"`
	Host  string  `json:"host"`
	Box   string  `json:"box,omitempty"`            // "box-3 of shadeform": that was rented for it
	Price float64 `json:"price_per_hour,omitempty"` // USD; 0: not known

	// Held is, in seconds, how long the box was the run's: from when it was billed, or taken from an earlier run, until it
	// was gone, or taken by the next. Of a host that is not rented it is the time from its first use to the end of the last engine.
	Held      float64 `json:"held_s"`
	Booting   float64 `json:"booting_s,omitempty"` // until the box let the run in
	Preparing float64 `json:"preparing_s"`         // it was checked, and what engines need was brought there
	Starting  float64 `json:"starting_s"`          // until engines served
	Measuring float64 `json:"measuring_s"`         // cells
	Idle      float64 `json:"idle_s"`              // the rest: stopping, waiting for other hosts, kept for the next run

	Cost     float64 `json:"cost_usd,omitempty"`          // by price and time: of Held, or of the hours that are billed at least
	IdleCost float64 `json:"idle_cost_usd,omitempty"`     // what of that is for none of the other times
	Told     float64 `json:"provider_cost_usd,omitempty"` // what the provider says; 0: it does not say it (yet)
	Open     bool    `json:"open,omitempty"`              // when that was noted, the box was rented still
}

// Part is what a host was used for, and how long.
type Part struct {
	Name string // "measuring"
	Took time.Duration
}

// Parts are the times of which Held is the sum, in whole seconds, which add up to whole seconds too: those that are cut most get
// what is left, and of equal ones the first. A host that is not rented does not boot.
func (s Spending) Parts() (parts []Part, held time.Duration) {
	held = seconds(s.Held).Round(time.Second)
	left, cut := held, []int{}
	times := []float64{s.Booting, s.Preparing, s.Starting, s.Measuring, s.Idle}
	for i, name := range []string{"booting", "preparing", "starting engines", "measuring", "idle"} {
		parts, cut = append(parts, Part{name, seconds(times[i]).Truncate(time.Second)}), append(cut, i)
		left -= parts[i].Took
	}
	slices.SortStableFunc(cut, func(a, b int) int {
		return cmp.Compare(seconds(times[b])-parts[b].Took, seconds(times[a])-parts[a].Took)
	})
	for _, i := range cut[:min(max(0, int(left/time.Second)), len(cut))] {
		parts[i].Took += time.Second
	}
	if s.Box == "" {
		parts = parts[1:]
	}
	return parts, held
}

// Paid are those of hosts of which a price is known.
func Paid(all []Spending) []Spending {
	return slices.DeleteFunc(slices.Clone(all), func(s Spending) bool { return s.Price <= 0 })
}

// Spent adds up what runs had of their hosts: of rows, which have to be all of a run, and of the boxes that runs have rented.
// An engine that never came to a cell is not in rows. What was imported or rehearsed has held no host.
func Spent(rows []results.Row, stays []results.Stay) (out []Spending) {
	var all []usage
	for _, s := range stays {
		all = append(all, usage{stay: &s, run: s.RunID, host: s.Host})
	}
	for i := range rows {
		r := &rows[i]
		if r.Run.Command != "apply" || r.Deployment.Started.IsZero() {
			continue
		}
		for _, of := range Grouped(HostsOf(&r.Deployment), func(m results.Member) string { return m.Host }) {
			if of[0].Host != "" {
				all = append(all, usage{row: r, price: of[0].Price, run: r.RunID, host: of[0].Host})
			}
		}
	}
	for _, of := range Grouped(all, func(u usage) [2]string { return [2]string{u.run, u.host} }) {
		for _, alike := range Grouped(of, func(u usage) bought { return boughtAs(u, of) }) {
			out = append(out, spent(alike))
		}
	}
	slices.SortStableFunc(out, func(a, b Spending) int { return strings.Compare(a.Run, b.Run) })
	return out
}

// usage is a cell that a host had a part in, or a box that was the host.
type usage struct {
	row       *results.Row
	stay      *results.Stay
	run, host string
	price     float64
}

// bought is what money a run has spent on a host for: a box, or a price of what is its own.
type bought struct {
	box   string
	price float64
}

// boughtAs is what a use of a host was of: a cell of the box that was the host then, which is the last that had come when the
// cell's engine was begun.
func boughtAs(u usage, all []usage) bought {
	if u.stay != nil {
		return bought{box: u.stay.Request}
	}
	var of *results.Stay
	for _, other := range all { // in the order of time
		if s := other.stay; s != nil && (of == nil || !s.Began.After(u.row.Deployment.Started)) {
			of = s
		}
	}
	if of != nil {
		return bought{box: of.Request}
	}
	return bought{price: u.price}
}

// What a host is used for: where two things are done at once, the later of these counts.
const (
	held = iota
	booting
	preparing
	starting
	measuring
	uses
)

// span is a time in which a host is used.
type span struct {
	from, to time.Time
	what     int
}

// spent is what one run had of one host.
func spent(all []usage) Spending {
	s := Spending{Run: all[0].run, Host: all[0].host}
	var spans []span
	var whole *span     // of its rows
	var known time.Time // until when it is known of a box that is rented still
	for _, u := range all {
		if u.stay != nil {
			t := u.stay
			s.Box, s.Price, s.Open = t.Box+" of "+t.Plugin, t.Price, s.Open || !t.Closed
			s.Cost, s.Told = s.Cost+t.Cost, s.Told+t.Told
			if !t.Closed {
				known = t.Ended
			}
			up := cmp.Or(t.Up, t.Ended)
			spans = append(spans, span{t.Began, t.Ended, held}, span{t.Began, up, booting}, span{up, t.Ready, preparing})
			continue
		}
		r, d := u.row, &u.row.Deployment
		s.Price = cmp.Or(s.Price, u.price)
		begun := cmp.Or(d.Begun, d.Started)
		used := span{slices.MinFunc([]time.Time{begun, d.Started, r.Started}, time.Time.Compare), slices.MaxFunc([]time.Time{d.Started, d.Stopped, r.Finished}, time.Time.Compare), held}
		if whole == nil {
			whole = &used
		}
		whole.from = slices.MinFunc([]time.Time{whole.from, used.from}, time.Time.Compare)
		whole.to = slices.MaxFunc([]time.Time{whole.to, used.to}, time.Time.Compare)
		measured := span{r.Started, r.Finished, measuring}
		if r.Job.Batch != nil { // it loads the model itself
			measured.from = r.Finished
			if r.Summary != nil {
				measured.from = r.Finished.Add(-seconds(r.Summary.Duration))
			}
			spans = append(spans, span{r.Started, measured.from, starting})
		}
		spans = append(spans, measured, span{begun, d.Started, preparing}, span{d.Started, d.Started.Add(seconds(d.Ready)), starting})
	}
	switch {
	case whole != nil && s.Box == "":
		spans = append(spans, *whole)
	case whole != nil && s.Open: // rows tell of a later time
		spans = append(spans, span{known, whole.to, held})
	}
	of := divided(spans)
	s.Idle, s.Booting, s.Preparing, s.Starting, s.Measuring = of[held], of[booting], of[preparing], of[starting], of[measuring]
	for _, part := range of {
		s.Held += part
	}
	s.Cost = max(s.Cost, s.Price*s.Held/3600)
	s.IdleCost = s.Cost - s.Price*(s.Held-s.Idle)/3600
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// divided are the seconds of the time that is held, each by what is done in it.
func divided(spans []span) (of [uses]float64) {
	type turn struct {
		at         time.Time
		what, more int
	}
	var turns []turn
	for _, x := range spans {
		if x.to.After(x.from) {
			turns = append(turns, turn{x.from, x.what, 1}, turn{x.to, x.what, -1})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) })
	var now [uses]int
	for i, t := range turns {
		for what := measuring; i > 0 && now[held] > 0 && what >= held; what-- {
			if now[what] > 0 {
				of[what] += t.at.Sub(turns[i-1].at).Seconds()
				break
			}
		}
		now[t.what] += t.more
	}
	return of
}

// Costs are the figures of what a cell's tokens cost, by name, as far as they are known.
func Costs(r *results.Row) map[string]float64 {
	out := map[string]float64{}
	for _, m := range []Metric{CostOutput, CostTotal, EnergyPerToken, meanPower} {
		if v, ok := m.Value(r); ok {
			out[m.Name] = v
		}
	}
	return out
}

// reprice gives hosts the prices that they have now.
func reprice(d *results.Deployment, prices map[string]float64) {
	if prices == nil {
		return
	}
	now := func(host string, was float64) float64 {
		if usd, known := prices[host]; known {
			return usd
		}
		return was
	}
	if len(d.Members) == 0 {
		d.PricePerHour = now(d.Host, d.PricePerHour)
		return
	}
	d.Members, d.PricePerHour = slices.Clone(d.Members), 0
	for i, m := range d.Members {
		d.Members[i].Price = now(m.Host, m.Price)
	}
	for _, of := range Grouped(d.Members, func(m results.Member) string { return m.Host }) {
		d.PricePerHour += of[0].Price
	}
}
