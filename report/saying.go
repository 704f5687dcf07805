package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/report/number"
)

// say is what the table says, in a sentence; empty where it says nothing.
func (d *decision) say() string {
	switch {
	case len(d.Rows) == 0 || d.Better == 0:
		return ""
	case len(d.Rows) == 1:
		return d.sayAlone()
	case d.Baseline >= 0:
		return d.sayChanges()
	}
	parts := []string{}
	if who := d.leaders(); who != "" {
		parts = append(parts, who)
	} else if level := d.level(); level != "" {
		parts = append(parts, level)
	}
	if peak := d.peak(); peak != "" {
		parts = append(parts, peak)
	}
	if doubted := d.doubted(); doubted != "" {
		parts = append(parts, doubted)
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ". ") + "."
}

// amounts are values of a metric in one unit: "3.56 s", "11.7 s".
func amounts(m Metric, values ...float64) (texts []string) {
	unit, per := m.Unit, 1.0
	if unit == "ms" && slices.Max(values) >= chart.ManyMilliseconds {
		unit, per = "s", 1000
	}
	for _, v := range values {
		texts = append(texts, strings.TrimSpace(number.Text(v/per)+" "+unit))
	}
	return texts
}

// winner is who alone is the best at a place; nil: several are, or nobody is.
func (d *decision) winner(i int) (winner *chart.Series) {
	for _, r := range d.Rows {
		if r.Choices[i].Best {
			if winner != nil {
				return nil
			}
			winner = r.series
		}
	}
	return winner
}

// run are places that follow each other and have the same winner.
type run struct {
	series   *chart.Series
	from, to int
}

// maxRuns bounds what a sentence says place by place.
const maxRuns = 4

// leaders says who is ahead where, and by how much where that is most; empty: nobody is.
func (d *decision) leaders() string {
	var runs []run
	first := 0
	for i, p := range d.Places {
		if p.Kind != "" {
			first = i + 1
			continue
		}
		w := d.winner(i)
		switch n := len(runs) - 1; {
		case w == nil:
		case n >= 0 && runs[n].series == w && runs[n].to == i-1:
			runs[n].to = i
		default:
			runs = append(runs, run{w, i, i})
		}
	}
	if len(runs) == 0 {
		return ""
	}
	won := grouped(runs, func(r run) *chart.Series { return r.series })
	size := func(of []run) (n int) {
		for _, r := range of {
			n += r.to - r.from + 1
		}
		return n
	}
	slices.SortStableFunc(won, func(x, y []run) int { return size(y) - size(x) })
	unit, counted := " "+d.unit, len(runs) > maxRuns || d.unit == ""
	where := func(of []run) string {
		if counted {
			return fmt.Sprintf("at %d of %d", size(of), len(d.Places)-first)
		}
		var parts []string
		for _, r := range of {
			parts = append(parts, d.span(r, first, unit))
			unit = ""
		}
		return listed(parts)
	}
	most := map[bool]string{true: "highest", false: "lowest"}[d.Better > 0]
	text := fmt.Sprintf("%s has the %s %s %s", won[0][0].series.Label, most, lower(d.Title), where(won[0]))
	text += d.widest(first, won[0][0].series)
	var others []string
	for _, of := range won[1:] {
		others = append(others, of[0].series.Label+" leads "+where(of))
	}
	if others != nil {
		text += ". " + listed(others)
	}
	return text
}

// leader is who leads at the most places; nil: nobody does.
func (d *decision) leader() (who *chart.Series) {
	most := 0
	for _, r := range d.Rows {
		n := 0
		for i, p := range d.Places {
			if p.Kind == "" && d.winner(i) == r.series {
				n++
			}
		}
		if n > most {
			most, who = n, r.series
		}
	}
	return who
}

// span says where a run is, of places from the first on.
func (d *decision) span(r run, first int, unit string) string {
	last, from, to := len(d.Places)-1, d.Places[r.from].value, d.Places[r.to].value
	switch {
	case r.from == first && r.to == last && first == last:
		return "at " + from + unit
	case r.from == first && r.to == last:
		return "everywhere from " + from + " to " + to + unit
	case r.from == r.to:
		return "at " + from + unit
	case r.to == last:
		return "from " + from + unit + " up"
	}
	return "from " + from + " to " + to + unit
}

// widest says how far a series is ahead where that is most.
func (d *decision) widest(first int, who *chart.Series) string {
	most, at := 0.0, -1
	for i := first; i < len(d.Places); i++ {
		if all := d.offers(i, false); d.winner(i) == who && len(all) > 1 && all[1].Median > 0 && all[0].Median > 0 {
			if by := math.Abs(math.Log(all[0].Median / all[1].Median)); by > most {
				most, at = by, i
			}
		}
	}
	if at < 0 {
		return ""
	}
	all := d.offers(at, false)
	return fmt.Sprintf(": %s at %s, %s against %s", amounts(d.of, all[0].Median, all[1].Median)[0], d.Places[at].value,
		number.Change(all[0].Median/all[1].Median-1), all[1].series.Label)
}

// level says which series are level wherever anybody is the best, and at how many of the places where
// all of them were tried; empty: it is not always the same series.
func (d *decision) level() string {
	var all []*chart.Series // those that are level
	levels, places := 0, 0
	for i, p := range d.Places {
		if p.Kind != "" {
			continue
		}
		places++
		var best []*chart.Series
		for _, r := range d.Rows {
			if r.Choices[i].Best {
				best = append(best, r.series)
			}
		}
		if len(best) == 0 {
			continue
		}
		if levels++; len(best) < 2 || all != nil && !slices.Equal(all, best) {
			return ""
		}
		all = best
	}
	if all == nil {
		return ""
	}
	where := "everywhere"
	if levels < places {
		both := map[bool]string{true: "both", false: "all of them"}[len(all) == 2]
		where = fmt.Sprintf("at %d of %d places where %s were tried", levels, d.tried(all), both)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Label)
	}
	return fmt.Sprintf("%s is level %s: %s differ by less than 1 %%, or than their repetitions do",
		d.Title, where, listed(names))
}

// tried counts the places, of those that are no kind of their own, where all of these were tried.
func (d *decision) tried(all []*chart.Series) (n int) {
	for i, p := range d.Places {
		if p.Kind == "" && !slices.ContainsFunc(d.Rows, func(r decisionRow) bool {
			return slices.Contains(all, r.series) && !r.Choices[i].known()
		}) {
			n++
		}
	}
	return n
}

// listed are names as a sentence has them: "A, B and C".
func listed(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// peak says who gives most whatever the service is.
func (d *decision) peak() string {
	i := slices.IndexFunc(d.Places, func(p spot) bool { return p.Kind == "peak" })
	if i < 0 || d.winner(i) == nil {
		return ""
	}
	all := d.offers(i, false)
	text := fmt.Sprintf("%s peaks highest at %s", all[0].series.Label, amounts(d.of, all[0].Median)[0])
	if len(all) > 1 {
		text += ", " + number.Change(all[0].Median/all[1].Median-1) + " against " + all[1].series.Label
	}
	return text
}

// doubted says who would be ahead, were it not in doubt.
func (d *decision) doubted() string {
	var leading, parts []string
	var told []*chart.Series // whose peak is told
	for i, p := range d.Places {
		for _, o := range d.offers(i, true) {
			switch {
			case !o.Beyond:
			case p.Kind == "peak":
				told = append(told, o.series)
				parts = append(parts, fmt.Sprintf("%s would peak at %s, but is suspect there",
					o.series.Label, amounts(d.of, o.Median)[0]))
			case !slices.Contains(told, o.series):
				leading = once(leading, o.series.Label)
			}
		}
	}
	if len(leading) > 0 {
		is := map[bool]string{true: "is", false: "are"}[len(leading) == 1]
		parts = append(parts, listed(leading)+" would lead in places, but "+is+" suspect there")
	}
	return strings.Join(parts, ". ")
}

// sayAlone is the finding of a table with one series: its best, and where.
func (d *decision) sayAlone() string {
	if len(d.Places) < 2 {
		return ""
	}
	most := func(doubt bool) (best *choice, at string) {
		for i, p := range d.Places {
			for _, o := range d.offers(i, doubt) {
				if best == nil || (o.Median-best.Median)*float64(d.Better) > 0 {
					best, at = o.choice, cmp.Or(o.At, strings.TrimSpace(p.value+" "+d.unit))
				}
			}
		}
		return best, at
	}
	best, at := most(false)
	suspect, there := most(true)
	end := "."
	switch {
	case best == nil:
		best, at, end = suspect, there, ", which is suspect."
	case suspect != nil && (suspect.Median-best.Median)*float64(d.Better) > 0:
		end = fmt.Sprintf("; %s at %s would be better, but is suspect.", amounts(d.of, suspect.Median)[0], there)
	}
	return fmt.Sprintf("%s of %s is at best %s, at %s%s", d.Title, d.Rows[0].series.Label,
		amounts(d.of, best.Median)[0], at, end)
}

// sayChanges holds the series that was tried in the most places against the baseline, place by place.
func (d *decision) sayChanges() string {
	row := d.held()
	if row == nil {
		return ""
	}
	base := d.Rows[d.Baseline]
	var parts []string
	ahead, behind, sure, unit := 0, 0, 0, d.unit
	apart := 0.0 // at most, where nobody can say which is ahead
	for i := range row.Choices {
		c, of := &row.Choices[i], &base.Choices[i]
		if c.Change == nil {
			continue
		}
		part := d.Places[i].value
		if d.Places[i].Kind == "" && unit != "" { // it is said once
			part, unit = part+" "+unit, ""
		}
		part += " " + number.Change(*c.Change)
		switch {
		case c.Doubt || of.Doubt:
			part += " (suspect)"
			sure--
		case c.even(of.evidence):
			apart = max(apart, math.Abs(*c.Change))
		case *c.Change*float64(d.Better) > 0:
			ahead++
		default:
			behind++
		}
		sure++
		parts = append(parts, part)
	}
	than := fmt.Sprintf("is better in %d of %d places than", ahead, sure)
	switch {
	case sure == 0:
		than = "is suspect everywhere beside"
	case ahead == 0 && behind == 0 && apart >= level:
		than = "is not told apart by repetitions from"
	case ahead == 0 && behind == 0:
		than = "is level with"
	case ahead == len(parts) && len(parts) == len(d.Places):
		than = "is better everywhere than"
	case ahead == len(parts):
		than = fmt.Sprintf("is better in all %d places tried than", len(parts))
	case behind == len(parts):
		than = "is worse everywhere than"
	case ahead == 0:
		than = "is nowhere better than"
	}
	return fmt.Sprintf("%s of %s %s that of %s: %s.", d.Title, row.series.Label, than, base.series.Label,
		strings.Join(parts, ", "))
}

// held is the series to hold against the baseline: of those that were tried in the most places the one
// that is the best in the most of them, and then the one that differs most. What is suspect counts as
// tried, and for nothing else.
func (d *decision) held() (held *decisionRow) {
	var most [3]float64 // places, of them as the best, the greatest change
	for n := range d.Rows {
		var of [3]float64
		for i, c := range d.Rows[n].Choices {
			if n == d.Baseline || c.Change == nil {
				continue
			}
			of[0]++
			if c.Best {
				of[1]++
			}
			if !c.Doubt && !d.Rows[d.Baseline].Choices[i].Doubt {
				of[2] = max(of[2], math.Abs(math.Log(1+*c.Change)))
			}
		}
		if slices.Compare(of[:], most[:]) > 0 {
			held, most = &d.Rows[n], of
		}
	}
	return held
}
