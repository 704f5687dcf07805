package say

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/accuracy"
	"hclbench/plain"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
)

// Finding is what is said of a workload.
type Finding struct {
	*figure.Answer
	Text      string   // a sentence or two, of the tables that matter most
	Sentences []string // what each of its tables says
}

// Findings are those of all workloads.
func Findings(rows []results.Row, all *figure.Series, layout *figure.Layout) (out []Finding) {
	fast := FastText(rows)
	for _, a := range figure.Answers(rows, all, layout) {
		f := Finding{Answer: a, Text: fast, Sentences: make([]string, len(a.Tables))}
		if fast == "" {
			for i, d := range a.Tables {
				f.Sentences[i] = decided(d)
			}
			f.say(layout)
		}
		texts := []string{f.Text, answersWorse(a, all)}
		if len(a.Tables) == 0 || a.Tables[0].Leader() == nil { // it is the headline where nobody leads
			slices.Reverse(texts)
		}
		f.Text = strings.TrimSpace(strings.Join(texts, " "))
		out = append(out, f)
	}
	agree(out)
	return out[:min(len(out), maxAnswers)]
}

// answersWorse names the series of a workload that answer worse than their baselines: their speeds are of other work. Empty: none does.
func answersWorse(a *figure.Answer, all *figure.Series) string {
	var names []string
	for _, s := range a.Cells {
		for _, r := range s.Rows {
			if name := all.Find(r).Label; r.Checked == string(accuracy.Worse) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return answerWorse(names)
}

// answerWorse says of whom it names that they answer worse than their baselines; empty: of nobody.
func answerWorse(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0] + " answers worse than its baseline."
	}
	return Listed(names) + " answer worse than their baselines."
}

// say makes the text of what the first table of each of the main metrics says, as far as the lab's
// columns have them.
func (f *Finding) say(layout *figure.Layout) {
	var said []string
	for _, m := range f.Main {
		if layout.Columns != nil && !slices.Contains(layout.Columns, m.Name) {
			continue
		}
		for i, d := range f.Tables {
			if d.Metric == m.Name && f.Sentences[i] != "" {
				said = append(said, f.Sentences[i])
				break
			}
		}
	}
	if text := f.price(said); text != "" {
		said = append(said, text)
	}
	f.Text = strings.Join(said, " ")
}

// price says what gets worse with the series that the finding holds against the baseline, of the main figures
// that it does not name; empty: nothing does by more than 1 %.
func (f *Finding) price(said []string) string {
	tables := f.Tables
	if len(said) == 0 || tables[0].Baseline < 0 {
		return ""
	}
	held := tables[0].Held()
	for at, d := range tables {
		if held == nil || slices.Contains(said, f.Sentences[at]) || d.Baseline < 0 {
			continue
		}
		i := slices.IndexFunc(d.Rows, func(r figure.DecisionRow) bool { return r.Series == held.Series })
		var parts []string
		for n := range d.Places {
			if i < 0 {
				break
			}
			c, base := &d.Rows[i].Choices[n], &d.Rows[d.Baseline].Choices[n]
			if c.Change != nil && *c.Change*float64(d.Better) < -figure.Level && !c.Doubt && !base.Doubt && !c.Even(base.Evidence) {
				parts = append(parts, d.Places[n].Value+" "+number.Change(*c.Change))
			}
		}
		if parts != nil {
			return fmt.Sprintf("At the price of %s: %s.", Lower(d.Title), strings.Join(parts, ", "))
		}
	}
	return ""
}

// agree says below the first of several workloads in how many of them its leader leads.
func agree(all []Finding) {
	if len(all) < 2 || all[0].Text == "" {
		return
	}
	who, n := all[0].Tables[0].Leader(), 0
	for _, f := range all {
		if who != nil && f.Tables[0].Leader() == who {
			n++
		}
	}
	if n > 0 {
		all[0].Text += fmt.Sprintf(" %s leads in %d of %d workloads.", who.Label, n, len(all))
	}
}

// maxAnswers bounds the workloads that are answered: what else there is stands in the table.
const maxAnswers = 60

// maxFindings bounds what stands below a table.
const maxFindings = 3

// Sentences are what rows say, a sentence or two for each workload, those with the most points first,
// below the headline of the lab.
func Sentences(rows []results.Row, layout *figure.Layout) (texts []string) {
	if layout.Headline != "" {
		texts = append(texts, plain.Line(layout.Headline))
	}
	if rows = figure.Fresh(rows); len(rows) < 2 {
		return texts
	}
	all := Findings(rows, figure.NewSeries(rows, layout.Series), layout)
	for _, f := range all[:min(len(all), maxFindings)] {
		text := f.Text
		if len(all) > 1 {
			text = Sentence(f.Workload) + ". " + text
		}
		if f.Text != "" {
			texts = append(texts, plain.Line(text))
		}
	}
	if text := absent(rows, layout); text != "" {
		texts = append(texts, plain.Line(text))
	}
	return texts
}

// absent names the series of which nothing was measured: no table that decides has them.
func absent(rows []results.Row, layout *figure.Layout) string {
	names := Unmeasured(rows, figure.NewSeries(rows, layout.Series))
	if len(names) == 0 {
		return ""
	}
	return "Nothing was measured of " + strings.Join(names, ", ") + "."
}

// Unmeasured are the series without figures, with their cells, where others have some.
func Unmeasured(rows []results.Row, all *figure.Series) (names []string) {
	cells := map[*chart.Series][]*results.Row{}
	for i := range rows {
		x := all.Find(&rows[i])
		cells[x] = append(cells[x], &rows[i])
	}
	for _, x := range all.All {
		if n := len(cells[x]); n > 0 && len(figure.NotVoid(cells[x])) == 0 {
			names = append(names, fmt.Sprintf("%s (%s)", x.Label, number.Count(n, "cell")))
		}
	}
	if len(names) == len(cells) {
		return nil
	}
	return names
}

// PublishedFindings are what published figures say of cells that the lab plans.
func PublishedFindings(about figure.About) []string {
	return Sentences(figure.PublishedRows(nil, about), &about.Layout)
}

// decided is what the table says, in a sentence; empty where it says nothing.
func decided(d *figure.Decision) string {
	switch {
	case len(d.Rows) == 0 || d.Better == 0:
		return ""
	case len(d.Rows) == 1:
		return oneSeries(d)
	case d.Baseline >= 0:
		return changes(d)
	}
	parts := []string{}
	if who := leading(d); who != "" {
		parts = append(parts, who)
	} else if level := level(d); level != "" {
		parts = append(parts, level)
	}
	if peak := peak(d); peak != "" {
		parts = append(parts, peak)
	}
	if doubted := doubted(d); doubted != "" {
		parts = append(parts, doubted)
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ". ") + "."
}

// leading says who is ahead where, and by how much where that is most; empty: nobody is.
func leading(d *figure.Decision) string {
	var runs []stretch
	first := 0
	for i, p := range d.Places {
		if p.Kind != "" {
			first = i + 1
			continue
		}
		w := d.Winner(i)
		switch n := len(runs) - 1; {
		case w == nil:
		case n >= 0 && runs[n].series == w && runs[n].to == i-1:
			runs[n].to = i
		default:
			runs = append(runs, stretch{w, i, i})
		}
	}
	if len(runs) == 0 {
		return ""
	}
	won := figure.Grouped(runs, func(r stretch) *chart.Series { return r.series })
	size := func(of []stretch) (n int) {
		for _, r := range of {
			n += r.to - r.from + 1
		}
		return n
	}
	slices.SortStableFunc(won, func(x, y []stretch) int { return size(y) - size(x) })
	unit, counted := " "+d.PlaceUnit, len(runs) > maxRuns || d.PlaceUnit == ""
	where := func(of []stretch) string {
		if counted {
			return fmt.Sprintf("in %d of %d cases", size(of), len(d.Places)-first)
		}
		var parts []string
		for _, r := range of {
			parts = append(parts, span(d, r, first, unit))
			unit = ""
		}
		return Listed(parts)
	}
	most := map[bool]string{true: "highest", false: "lowest"}[d.Better > 0]
	text := fmt.Sprintf("%s has the %s %s %s", won[0][0].series.Label, most, Lower(d.Title), where(won[0]))
	text += widest(d, first, won[0][0].series)
	var others []string
	for _, of := range won[1:] {
		others = append(others, of[0].series.Label+" leads "+where(of))
	}
	if others != nil {
		text += ". " + Listed(others)
	}
	return text
}

// span says where a run is, of places from the first on.
func span(d *figure.Decision, r stretch, first int, unit string) string {
	last, from, to := len(d.Places)-1, d.Places[r.from].Value, d.Places[r.to].Value
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
func widest(d *figure.Decision, first int, who *chart.Series) string {
	most, at := 0.0, -1
	for i := first; i < len(d.Places); i++ {
		if all := d.Offers(i, false); d.Winner(i) == who && len(all) > 1 && all[1].Median > 0 && all[0].Median > 0 {
			if by := math.Abs(math.Log(all[0].Median / all[1].Median)); by > most {
				most, at = by, i
			}
		}
	}
	if at < 0 {
		return ""
	}
	all := d.Offers(at, false)
	where := "at " + d.Places[at].Value
	if d.PlaceUnit == "" {
		where = "for " + d.Places[at].Value // a case
	}
	return fmt.Sprintf(": %s %s, %s against %s", number.Amount(all[0].Median, d.Of.Unit), where,
		number.Change(all[0].Median/all[1].Median-1), all[1].Series.Label)
}

// level says which series are level wherever anybody is the best, and at how many of the places where
// all of them were tried; empty: it is not always the same series.
func level(d *figure.Decision) string {
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
				best = append(best, r.Series)
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
		where = fmt.Sprintf("in %d of %d cases where %s were tried", levels, tried(d, all), both)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Label)
	}
	return fmt.Sprintf("%s is level %s: %s differ by less than 1 %%, or than their repetitions do",
		d.Title, where, Listed(names))
}

// tried counts the places, of those that are no kind of their own, where all of these were tried.
func tried(d *figure.Decision, all []*chart.Series) (n int) {
	for i, p := range d.Places {
		if p.Kind == "" && !slices.ContainsFunc(d.Rows, func(r figure.DecisionRow) bool {
			return slices.Contains(all, r.Series) && !r.Choices[i].Known()
		}) {
			n++
		}
	}
	return n
}

// peak says who gives most whatever the service is.
func peak(d *figure.Decision) string {
	i := slices.IndexFunc(d.Places, func(p figure.Spot) bool { return p.Kind == "peak" })
	if i < 0 || d.Winner(i) == nil {
		return ""
	}
	all := d.Offers(i, false)
	text := fmt.Sprintf("%s peaks highest at %s", all[0].Series.Label, number.Amount(all[0].Median, d.Of.Unit))
	if len(all) > 1 {
		text += ", " + number.Change(all[0].Median/all[1].Median-1) + " against " + all[1].Series.Label
	}
	return text
}

// doubted says who would be ahead, were it not in doubt.
func doubted(d *figure.Decision) string {
	var leading, parts []string
	var told []*chart.Series // whose peak is told
	for i, p := range d.Places {
		for _, o := range d.Offers(i, true) {
			switch {
			case !o.Beyond:
			case p.Kind == "peak":
				told = append(told, o.Series)
				parts = append(parts, fmt.Sprintf("%s would peak at %s, but is suspect there",
					o.Series.Label, number.Amount(o.Median, d.Of.Unit)))
			case !slices.Contains(told, o.Series):
				leading = figure.Once(leading, o.Series.Label)
			}
		}
	}
	if len(leading) > 0 {
		is := map[bool]string{true: "is", false: "are"}[len(leading) == 1]
		parts = append(parts, Listed(leading)+" would lead in some cases, but "+is+" suspect there")
	}
	return strings.Join(parts, ". ")
}

// oneSeries is the finding of a table with one series: its best, and where.
func oneSeries(d *figure.Decision) string {
	if len(d.Places) < 2 {
		return ""
	}
	most := func(doubt bool) (best *figure.Choice, at string) {
		for i, p := range d.Places {
			for _, o := range d.Offers(i, doubt) {
				if best == nil || (o.Median-best.Median)*float64(d.Better) > 0 {
					best, at = o.Choice, cmp.Or(o.At, strings.TrimSpace(p.Value+" "+d.PlaceUnit))
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
		end = fmt.Sprintf("; %s at %s would be better, but is suspect.", number.Amount(suspect.Median, d.Of.Unit), there)
	}
	return fmt.Sprintf("%s of %s is at best %s, at %s%s", d.Title, d.Rows[0].Series.Label,
		number.Amount(best.Median, d.Of.Unit), at, end)
}

// changes holds the series that was tried in the most places against the baseline, place by place.
func changes(d *figure.Decision) string {
	row := d.Held()
	if row == nil {
		return ""
	}
	base := d.Rows[d.Baseline]
	var parts []string
	ahead, behind, sure, unit := 0, 0, 0, d.PlaceUnit
	apart := 0.0 // at most, where nobody can say which is ahead
	for i := range row.Choices {
		c, of := &row.Choices[i], &base.Choices[i]
		if c.Change == nil {
			continue
		}
		part := d.Places[i].Value
		if d.Places[i].Kind == "" && unit != "" { // it is said once
			part, unit = part+" "+unit, ""
		}
		part += " " + number.Change(*c.Change)
		switch {
		case c.Doubt || of.Doubt:
			part += " (suspect)"
			sure--
		case c.Even(of.Evidence):
			apart = max(apart, math.Abs(*c.Change))
		case *c.Change*float64(d.Better) > 0:
			ahead++
		default:
			behind++
		}
		sure++
		parts = append(parts, part)
	}
	than := fmt.Sprintf("is better in %d of %d cases than", ahead, sure)
	switch {
	case sure == 0:
		than = "is suspect everywhere beside"
	case ahead == 0 && behind == 0 && apart >= figure.Level:
		than = "is not told apart by repetitions from"
	case ahead == 0 && behind == 0:
		than = "is level with"
	case ahead == len(parts) && len(parts) == len(d.Places):
		than = "is better everywhere than"
	case ahead == len(parts):
		than = fmt.Sprintf("is better in all %d cases tried than", len(parts))
	case behind == len(parts):
		than = "is worse everywhere than"
	case ahead == 0:
		than = "is nowhere better than"
	}
	return fmt.Sprintf("%s of %s %s that of %s: %s.", d.Title, row.Series.Label, than, base.Series.Label,
		strings.Join(parts, ", "))
}

// stretch are places that follow each other and have the same winner.
type stretch struct {
	series   *chart.Series
	from, to int
}

// maxRuns bounds what a sentence says place by place.
const maxRuns = 4
