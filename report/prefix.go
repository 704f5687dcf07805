package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

// cached reports whether a cell could find prefixes in the engine's cache, as far as its lab tells:
// by an axis with prefix in its name, else by a data set of shared prefixes.
func cached(r *results.Row) bool {
	for _, a := range r.Axes {
		if !strings.Contains(a.Name, "prefix") {
			continue
		}
		switch v := a.Value.(type) {
		case bool:
			return v
		case string:
			return v == "on" || v == "true" || v == "yes"
		}
	}
	kind := strings.ReplaceAll(r.Job.Prompts().Dataset.Kind, "_", "-")
	return kind == load.SharedPrefix || strings.Contains(kind, "shared-prefix") ||
		strings.Contains(dataset(r), "shared-prefix")
}

// prefixless is all that a cell was measured with but what concerns prefixes, and the exact length
// of the prompts: the same for two of which one had shared prefixes and the other had not.
func prefixless(s *sample) string {
	r := s.rows[0]
	d := &r.Deployment
	identity := map[string]string{}
	for name, value := range d.Identity {
		if !strings.Contains(name, "prefix") && !strings.Contains(name, "radix") && r.Run.Command != "import" {
			identity[name] = value
		}
	}
	at := maps.Clone(s.at)
	delete(at, "input_tokens")
	var others []string
	for _, a := range r.Axes {
		if !strings.Contains(a.Name, "prefix") && !slices.Contains([]string{"dataset", "engine", "input_tokens"}, a.Name) {
			others = append(others, a.Name+"="+axisText(a.Value))
		}
	}
	slices.Sort(others)
	return fmt.Sprint(s.series.GPUs, "\x00", s.series.Kind, "\x00", d.Model, "\x00", d.Image, "\x00", identity, at,
		others, r.Job.Workload.Endpoint)
}

// promptTokens is how long the prompts of a cell were on average; 0: not known.
func promptTokens(s *sample) float64 {
	if x := s.rows[0].Summary; x.InputTokens > 0 && x.Completed > 0 {
		return float64(x.InputTokens) / float64(x.Completed)
	}
	return s.at["input_tokens"]
}

// alike is how far the lengths of prompts may lie apart, as a share, that are the same
// load with shared prefixes and without.
const alike = 0.05

// prefixPair are two cells of which one had shared prefixes.
type prefixPair struct{ without, with *sample }

// prefixPairs are the cells with shared prefixes beside those without, where all else
// that is known is the same. Where several fit, there is no pair.
func prefixPairs(cells []*sample) (pairs []prefixPair) {
	key := map[*sample]string{}
	like := map[string][]*sample{}
	for _, s := range cells {
		key[s] = prefixless(s)
		like[key[s]] = append(like[key[s]], s)
	}
	fits := func(s *sample) (found []*sample) {
		for _, o := range like[key[s]] {
			x, y := promptTokens(s), promptTokens(o)
			if cached(o.rows[0]) != cached(s.rows[0]) && x > 0 && math.Abs(x-y) <= alike*x {
				found = append(found, o)
			}
		}
		return found
	}
	for _, s := range cells {
		if cached(s.rows[0]) {
			if others := fits(s); len(others) == 1 && len(fits(others[0])) == 1 {
				pairs = append(pairs, prefixPair{without: others[0], with: s})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b prefixPair) int {
		return cmp.Or(cmp.Compare(a.without.at["concurrency"], b.without.at["concurrency"]),
			cmp.Compare(a.without.series.Index, b.without.series.Index))
	})
	return pairs
}

func prefixFigures(cells []*sample, _ About) ([]*figure, string) {
	pairs := prefixPairs(cells)
	if len(pairs) == 0 {
		return nil, "Prefix cache on and off: no engine was measured with and without shared prefixes under the same load."
	}
	f := &figure{ID: "prefix-cache", Title: "Prefix cache on and off",
		Under: "with shared prefixes and, in grey, without them, under the same load"}
	for _, m := range []Metric{outputThroughput, medianTTFT, medianTPOT, medianE2EL} {
		c := &chart.Panel{Title: m.Title, Y: chart.Axis{Unit: m.Unit}}
		for _, p := range pairs {
			if g, ok := p.group(m); ok {
				c.Groups = append(c.Groups, g)
			}
		}
		c.Seconds()
		f.Charts = append(f.Charts, c)
	}
	if !f.drawn() {
		return nil, "Prefix cache on and off: the cells that could be compared have no figures in common."
	}
	return []*figure{f}, ""
}

// group is a metric of both as bars; false: one of them has none.
func (p prefixPair) group(m Metric) (chart.Group, bool) {
	off, okOff := p.without.value(m)
	on, okOn := p.with.value(m)
	s := p.without.series
	label := s.Label
	if c := p.without.at["concurrency"]; c > 0 {
		label += ", " + number.Short(c) + " in flight"
	}
	return chart.Group{Label: label, Bars: []chart.Bar{
		{Series: s, Label: "without", Value: off.Y, Before: true, Trust: off.Trust,
			Hover: label + "\nwithout: " + said(off.Y, m)},
		{Series: s, Label: "with", Value: on.Y, After: number.Change(on.Y/off.Y - 1), Trust: on.Trust,
			Hover: label + "\nwith: " + said(on.Y, m)},
	}}, okOff && okOn
}
