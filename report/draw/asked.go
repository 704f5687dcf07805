package draw

import (
	"fmt"
	"slices"

	"hclbench/report/figure"
	"hclbench/where"
)

// chartFigures draws the chart: one for each combination of what else differs in the load.
func chartFigures(c figure.AskedChart, cells []*figure.Sample, columns figure.Fields) (figures []*Figure, why string) {
	if c.Where != "" {
		holds, err := where.Parse(c.Where, columns.Names())
		if err != nil { // a column that none of these results has
			return nil, "no result has what its condition is about."
		}
		cells = slices.DeleteFunc(slices.Clone(cells), func(s *figure.Sample) bool { return !holds(columns.Of(s.Rows[0])) })
	}
	if len(cells) == 0 {
		return nil, "no result meets its condition."
	}
	metrics := figure.Chosen(c.Y)
	if mx, over := figure.Named(c.X); over {
		return sliced(figure.SlicesAlong(labelOf(c, cells), cells), func(x figure.Slice) *Figure {
			f := &Figure{Notes: []string{beside(x)}}
			for _, my := range metrics {
				f.Charts = append(f.Charts, Tradeoff(x, mx, my))
			}
			return f
		})
	}
	if i := slices.IndexFunc(figure.Dimensions, func(d figure.Dimension) bool { return d.Name == c.X }); i >= 0 {
		return sliced(figure.SlicesAlong(figure.Dimensions[i], cells), func(x figure.Slice) *Figure {
			f := &Figure{}
			for _, m := range metrics {
				panel := against(x, m)
				panel.Seconds()
				f.Charts = append(f.Charts, panel)
			}
			return f
		})
	}
	return barsOf(c, cells, columns[c.X], metrics)
}

const noFigures = "no result has its figures."

// sliced draws a figure for each slice that has something to show.
func sliced(all []figure.Slice, draw func(x figure.Slice) *Figure) (figures []*Figure, why string) {
	if len(all) == 0 {
		return nil, "no series was measured at two places along it."
	}
	if more := len(all) - figure.MaxSlices; more > 0 {
		why = fmt.Sprintf("%d more combinations of what else differs; a condition picks one.", more)
		all = all[:figure.MaxSlices]
	}
	for _, x := range all {
		f := draw(x)
		f.Under = x.Words()
		if f.drawn() {
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return nil, noFigures
	}
	return figures, why
}

// labelOf is the quantity that stands beside the points of a chart over a metric.
func labelOf(c figure.AskedChart, cells []*figure.Sample) figure.Dimension {
	best, most := figure.Dimensions[0], 0
	for _, d := range figure.Dimensions {
		if d.Name == c.Label {
			return d
		}
		if all := figure.SlicesAlong(d, cells); len(all) > 0 && all[0].Points > most {
			best, most = d, all[0].Points
		}
	}
	return best
}

// barsOf are bars, one for each value of a column, those under the same load together.
func barsOf(c figure.AskedChart, cells []*figure.Sample, column figure.Field, metrics []figure.Metric) ([]*Figure, string) {
	if column == nil {
		return nil, fmt.Sprintf("no result has a column %q.", c.X)
	}
	f := &Figure{}
	for _, m := range metrics {
		bars := loads(cells, m, func(s *figure.Sample) (string, bool) {
			v, has := column(s.Rows[0])
			return figure.ColumnText(v), has
		})
		if len(bars.Groups) > maxGroups {
			return nil, fmt.Sprintf("%d loads are too many for bars; a condition picks some.", len(bars.Groups))
		}
		bars.Seconds()
		f.Charts = append(f.Charts, bars)
	}
	if !f.drawn() {
		return nil, noFigures
	}
	return []*Figure{f}, ""
}
