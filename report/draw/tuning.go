package draw

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/tune"
)

// TuningID is that of the section of what tunings have tried, and what the ids of their figures begin with.
const TuningID = "tuning"

// tunings are what tunings have tried: of each the candidates of its finals against the floor, and every start.
func tunings(all []*figure.Tuning, rows []results.Row, series *figure.Series) Section {
	out := Section{ID: TuningID, Title: "Tuning"}
	for _, t := range all {
		f := &Figure{ID: TuningID + "-" + figure.Slug(t.Summary.Tune), Title: "Candidates and starts", Under: say.TuningOf(t.Summary), Unnamed: true}
		for _, c := range []*chart.Panel{finals(t, rows, series), starts(t, rows, series)} {
			if !c.Empty() {
				f.Charts = append(f.Charts, c)
			}
		}
		f.Notes = []string{"Numbers are those of the candidates. Full: the finals, by which nothing was picked. Hollow: before them. Cross: it lost its race, or failed accuracy."}
		if t.Beaten() > 0 {
			f.Notes = append(f.Notes, "Dashed: the floor below the best of the finals. What is beyond it is surely worse; what is not may be as good.")
		}
		out.Figures = append(out.Figures, f)
	}
	return out
}

// tuned is a panel of the figure of a tuning.
func tuned(t *figure.Tuning, title string) *chart.Panel {
	return &chart.Panel{Title: title + ": " + say.Lower(t.Of.Title), Better: say.Better(t.Of), Y: chart.Axis{Unit: t.Of.Unit, Linear: true}}
}

// finals are what the candidates of the finals score there, with their intervals, against the floor.
func finals(t *figure.Tuning, rows []results.Row, series *figure.Series) *chart.Panel {
	c := tuned(t, "Finals")
	c.X.Title, c.Asked = "Candidate", t.Beaten()
	for i, x := range t.Summary.Candidates {
		own := figure.Those(rows, func(r *results.Row) bool {
			return slices.ContainsFunc(t.Starts, func(s results.Tried) bool {
				return s.Phase == tune.Final && t.Summary.Place(s.Candidate) == i+1 && s.At(r) >= 0
			})
		})
		e := x.Finals
		if e == nil || len(own) == 0 {
			continue
		}
		at := float64(i + 1)
		c.X.Ticks = append(c.X.Ticks, at)
		c.Lines = append(c.Lines, chart.Line{Series: series.Find(own[0]), Dots: []chart.Dot{{X: at, Y: e.Value, Low: e.Value, High: e.Value, From: e.Low,
			To: e.High, N: 1, Of: 1, Label: number.Short(at), Found: string(x.Fate), Cells: series.Cells(own), Trust: chart.Trust{Kind: figure.KindOfRun(own[0])},
			Hover: fmt.Sprintf("%d: %s\n%s %s %s, %s", i+1, x.Settings, say.EstimateText(e), t.Of.Unit, say.Lower(t.Of.Title), number.Count(e.Starts, "final"))}}})
	}
	return c
}

// starts are what every start has measured, in their order: a line without strokes for each candidate.
func starts(t *figure.Tuning, rows []results.Row, series *figure.Series) *chart.Panel {
	c := tuned(t, "Every start")
	c.X.Title, c.Y.Zero = "Start", true
	of := map[int]int{} // the line of a candidate, from 1
	for i, s := range t.Starts {
		at := float64(i + 1)
		c.X.Ticks = append(c.X.Ticks, at)
		v, ok := t.Measured(s)
		place := t.Summary.Place(s.Candidate)
		own := figure.Those(rows, func(r *results.Row) bool { return s.At(r) >= 0 })
		if !ok || place == 0 || len(own) == 0 {
			continue
		}
		off := func(r *results.Row) float64 { return math.Abs(s.Loads[s.At(r)].Figure - v) }
		best := slices.MinFunc(own, func(a, b *results.Row) int { return cmp.Compare(off(a), off(b)) })
		d := chart.Dot{X: at, Y: v, Low: v, High: v, N: 1, Of: 1, Label: fmt.Sprint(place), Found: say.PhaseText(s), Sign: chart.Hollow, Apart: true,
			Cells: series.Cells([]*results.Row{best}), Trust: chart.Trust{Kind: figure.KindOfRun(best)},
			Hover: fmt.Sprintf("start %d, %s: %s\n%s, %s", s.Number, say.PhaseText(s), s.Candidate.Settings(), say.Value(v, t.Of), figure.Came(s))}
		switch {
		case s.Phase == tune.Final:
			d.Sign = chart.Full
		case figure.Came(s) == tune.Beaten, figure.Came(s) == tune.FailedCheck:
			d.Sign = chart.Crossed
		}
		if of[place] == 0 {
			c.Lines = append(c.Lines, chart.Line{Series: series.Find(best)})
			of[place] = len(c.Lines)
		}
		l := &c.Lines[of[place]-1]
		l.Dots = append(l.Dots, d)
	}
	return c
}
