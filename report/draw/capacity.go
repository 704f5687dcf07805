package draw

import (
	"fmt"
	"math"
	"slices"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
)

// CapacityID is that of the section of what searches have found.
const CapacityID = "capacity"

// capacities are what searches have found: of each question the answers, and how the loads that were tried stand to each
// line of the SLO.
func capacities(all []*figure.Capacity, series *figure.Series) Section {
	out := Section{ID: CapacityID, Title: "Capacity"}
	for _, of := range figure.Questions(all) {
		id := CapacityID + "-" + figure.Slug(of[0].Benchmark)
		answers := &Figure{ID: id, Title: "What each engine holds", Under: say.Question(of[0]), Charts: []*chart.Panel{bounds(of, series)}}
		for _, c := range of {
			answers.Notes = append(answers.Notes, c.Name()+": "+
				figure.ListedWith("; ", say.Capacity(&c.Outcome), say.Holding(c))+".")
		}
		answers.Notes = append(answers.Notes, "Full: certainly held. Outlined: nobody knows. After it: certainly not.")
		if text := say.Ranking(of); text != "" {
			answers.Notes = append([]string{text}, answers.Notes...)
		}
		lines := &Figure{ID: id + "-attainment", Title: "Attainment against load", Under: say.Question(of[0]),
			Notes: []string{"The share of requests within the bound; dashed: what is asked for. Full markers: PASS. Crosses: FAIL. Hollow: UNRESOLVED."}}
		for i := range of[0].Lines() {
			lines.Charts = append(lines.Charts, attainment(of, series, i))
		}
		out.Figures = append(out.Figures, answers)
		if lines.drawn() {
			out.Figures = append(out.Figures, lines)
		}
	}
	return out
}

// bounds are the answers to one question as bars: full up to what holds, and an outline from there to what breaks.
func bounds(of []*figure.Capacity, series *figure.Series) *chart.Panel {
	o := of[0].Outcome
	c := &chart.Panel{Title: "Capacity", Y: chart.Axis{Unit: say.LoadUnit(o.Of)}, Better: "higher is better"}
	g := chart.Group{}
	for _, x := range of {
		o := &x.Outcome
		b := chart.Bar{Series: x.Series, Text: say.BoundsShort(o), Cells: series.Cells(x.Rows), Trust: chart.Trust{Kind: figure.KindOfRun(x.Rows[0])}}
		b.Label, b.Hover = b.Series.Label, b.Series.Label+"\n"+say.Capacity(o)
		if o.Holds != nil {
			b.Value = *o.Holds
		}
		if o.Breaks != nil {
			b.To = *o.Breaks
		}
		g.Bars = append(g.Bars, b)
	}
	c.Groups = []chart.Group{g}
	return c
}

// attainment is how the loads stand to the n-th line of the SLO: the share of the requests that were within its bound.
func attainment(of []*figure.Capacity, series *figure.Series, n int) *chart.Panel {
	line := of[0].Lines()[n]
	o, _ := load.ParseObjective(line.Name) // by which it was judged
	unit := say.LoadUnit(of[0].Outcome.Of)
	c := &chart.Panel{Title: say.LineText(line.Name, line.Max), Better: "higher is better", Asked: o.Percentile,
		X: chart.Axis{Title: "Load", Unit: unit}, Y: chart.Axis{Unit: "% within", Linear: true, To: 100}}
	least := o.Percentile
	for _, x := range of {
		l := chart.Line{Series: x.Series}
		for _, t := range x.Outcome.Loads {
			if n >= len(t.Lines) || t.Lines[n].Counted == 0 {
				continue
			}
			s := t.Lines[n]
			share := 100 * float64(s.Within) / float64(s.Counted)
			least = min(least, share)
			l.Dots = append(l.Dots, chart.Dot{X: t.Load, Y: share, Low: share, High: share, N: 1, Of: 1, Found: string(s.Verdict), Cells: series.Cells(x.At(&t.Load)),
				Sign:  map[capacity.Verdict]chart.Sign{capacity.Fail: chart.Crossed, capacity.Unresolved: chart.Hollow}[s.Verdict],
				Trust: chart.Trust{Kind: figure.KindOfRun(x.Rows[0])},
				Hover: fmt.Sprintf("%s, %s %s\n%s", l.Series.Label, number.Short(t.Load), unit, say.Attainment(&s))})
			c.X.Ticks = figure.Once(c.X.Ticks, t.Load)
		}
		if l.Dots != nil {
			c.Lines = append(c.Lines, l)
		}
	}
	slices.Sort(c.X.Ticks)
	c.X.Log = len(c.X.Ticks) > 2 && c.X.Ticks[len(c.X.Ticks)-1]/c.X.Ticks[0] >= 4
	c.Y.From = 10 * math.Floor(least/10.001) // so that it is seen how near they are to what is asked for
	return c
}
