package figure

import (
	"slices"
	"time"

	"hclbench/results"
)

// Spending is what one run had of one host.
type Spending struct {
	Run   string  `json:"run"`
	Host  string  `json:"host"`
	Price float64 `json:"price_per_hour,omitempty"` // USD; 0: not known

	// Held is the time from the first start of an engine to the end of the last, in
	// seconds. It divides into Starting (until engines served), Measuring (cells)
	// and Idle, which is the rest: stopping, checks, waiting.
	Held      float64 `json:"held_s"`
	Starting  float64 `json:"starting_s"`
	Measuring float64 `json:"measuring_s"`
	Idle      float64 `json:"idle_s"`

	Cost     float64 `json:"cost_usd,omitempty"`      // of Held
	IdleCost float64 `json:"idle_cost_usd,omitempty"` // of Idle
}

// HeldText is how long the host was held.
func (s Spending) HeldText() string {
	return time.Duration(s.Held * float64(time.Second)).Round(time.Second).String()
}

// Spent adds up what runs had of their hosts. It knows what rows know: an engine that never came to
// a cell is not in them. What was imported or rehearsed has held no host.
func Spent(rows []results.Row) (out []Spending) {
	var all []usage
	for i := range rows {
		r := &rows[i]
		if r.Run.Command != "apply" || r.Deployment.Started.IsZero() {
			continue
		}
		for _, of := range Grouped(HostsOf(&r.Deployment), func(m results.Member) string { return m.Host }) {
			if of[0].Host != "" {
				all = append(all, usage{r, of[0]})
			}
		}
	}
	for _, of := range Grouped(all, func(u usage) [2]string { return [2]string{u.RunID, u.member.Host} }) {
		out = append(out, spent(of))
	}
	return out
}

type usage struct {
	*results.Row
	member results.Member
}

type span struct{ from, to time.Time }

// spent is what one run had of one host.
func spent(uses []usage) Spending {
	first := uses[0]
	s := Spending{Run: first.RunID, Host: first.member.Host}
	begin, end := first.Deployment.Started, first.Deployment.Started
	var busy []span // measuring
	served := map[string]bool{}
	for _, r := range uses {
		d := &r.Deployment
		s.Price = max(s.Price, r.member.Price)
		begin = slices.MinFunc([]time.Time{begin, d.Started, r.Started}, time.Time.Compare)
		end = slices.MaxFunc([]time.Time{end, d.Stopped, r.Finished}, time.Time.Compare)
		measured := span{r.Started, r.Finished}
		if r.Job.Batch != nil { // it loads the model itself
			measured.from = r.Finished
			if r.Summary != nil {
				measured.from = r.Finished.Add(-time.Duration(r.Summary.Duration * float64(time.Second)))
			}
			s.Starting += measured.from.Sub(r.Started).Seconds()
		}
		busy = append(busy, measured)
		if !served[d.ID] {
			served[d.ID] = true
			s.Starting += d.Ready
		}
	}
	s.Held = end.Sub(begin).Seconds()
	slices.SortFunc(busy, func(a, b span) int { return a.from.Compare(b.from) })
	var until time.Time // two engines may be measured on one host at once: time counts once
	for _, b := range busy {
		if b.from.Before(until) {
			b.from = until
		}
		if b.to.After(b.from) {
			s.Measuring += b.to.Sub(b.from).Seconds()
			until = b.to
		}
	}
	s.Idle = max(0, s.Held-s.Measuring-s.Starting)
	s.Cost, s.IdleCost = s.Price*s.Held/3600, s.Price*s.Idle/3600
	return s
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
