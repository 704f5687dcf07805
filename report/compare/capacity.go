package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
)

// Capacity is what limits call the load that an engine holds.
const Capacity = "capacity"

// CapacityDiff is what searches have found of an engine on both sides.
type CapacityDiff struct {
	Benchmark string            `json:"benchmark"`
	Engine    string            `json:"engine"`
	Axes      results.Axes      `json:"axes"`
	A         *capacity.Outcome `json:"a"` // nil: A has not searched for it
	B         *capacity.Outcome `json:"b"`
	// Low and High are between which changes against A the truth lies; nil: nobody knows.
	Low  *Percent `json:"change_percent_at_least,omitempty"`
	High *Percent `json:"change_percent_at_most,omitempty"`
	// Verdict is "better" or "worse" where that is certain, and "unknown" where the bounds overlap, there is no answer,
	// or the two are not of the same thing; or "only in A", "only in B".
	Verdict string   `json:"verdict"`
	Unlike  []Unlike `json:"unlike,omitempty"`
	// Floor is the least difference that the boxes can show. Low and High are wider by it. 0: they were not proved.
	Floor Percent `json:"noise_floor_percent,omitempty"`

	a, b *figure.Capacity
}

// Capacities puts beside each other what searches of both sides have found. Cells that a search has tried are held against no
// limit of their own from then on.
func (d *Difference) Capacities(a, b []results.Capacity) {
	ofA, ofB := figure.Capacities(d.rowsA, a), figure.Capacities(d.rowsB, b)
	like := map[*figure.Capacity]*figure.Capacity{}
	for _, key := range []func(c *figure.Capacity) string{
		func(c *figure.Capacity) string { return c.ID },
		func(c *figure.Capacity) string { return c.Benchmark + " " + figure.CellName(c.Engine, c.Axes) },
	} {
		for _, x := range ofA {
			i := slices.IndexFunc(ofB, func(y *figure.Capacity) bool { return like[x] == nil && like[y] == nil && key(x) == key(y) })
			if i >= 0 {
				like[x], like[ofB[i]] = ofB[i], x
			}
		}
	}
	for _, x := range ofA {
		d.Searches = append(d.Searches, newCapacityDiff(x, like[x]))
	}
	for _, y := range ofB {
		if like[y] == nil {
			d.Searches = append(d.Searches, newCapacityDiff(nil, y))
		}
	}
	for i := range d.Cells {
		if c := &d.Cells[i]; d.isSearched(c) { // for how long it was sent says nothing
			c.Unlike = slices.DeleteFunc(c.Unlike, func(u Unlike) bool { return u.What == "load" && sent(c.a[0], true) == sent(c.b[0], true) })
		}
	}
	for _, side := range d.sides() {
		var past []string
		for _, c := range d.Pairs() {
			if knee := d.knee(&c, side); knee != "" {
				past = figure.Once(past, knee)
			}
		}
		for _, knee := range past {
			d.Notes = append(d.Notes, side.name+": "+knee)
		}
	}
}

func newCapacityDiff(a, b *figure.Capacity) CapacityDiff {
	c := CapacityDiff{a: a, b: b, Verdict: "unknown"}
	for _, x := range []*figure.Capacity{a, b} { // under the newer names
		if x != nil {
			c.Benchmark, c.Engine, c.Axes = x.Benchmark, x.Engine, x.Axes
		}
	}
	switch {
	case b == nil:
		c.A, c.Verdict = &a.Outcome, "only in A"
		return c
	case a == nil:
		c.B, c.Verdict = &b.Outcome, "only in B"
		return c
	}
	c.A, c.B = &a.Outcome, &b.Outcome
	for _, u := range []Unlike{{"loop", c.A.Of, c.B.Of}, {"SLO", say.SLO(a), say.SLO(b)}} {
		if u.A != u.B {
			c.Unlike = append(c.Unlike, u)
		}
	}
	for _, part := range sameness {
		of := part.of
		if part.what == "load" {
			of = func(r *results.Row) string { return sent(r, true) }
		}
		x, y := of(a.Rows[0]), of(b.Rows[0])
		if x != y && !(part.unknown && (x == "" || y == "")) {
			c.Unlike = append(c.Unlike, Unlike{part.what, x, y})
		}
	}
	c.Floor = Percent(100 * b.Floor(a))
	lowA, highA, lowB, highB := c.compared()
	known := c.noAnswer() == "" && !c.AtLeast() && c.A.Of == c.B.Of
	if known && lowA > 0 && !math.IsInf(highB, 0) {
		c.High = new(changeOf(lowA, highB))
	}
	if known && !math.IsInf(highA, 0) {
		c.Low = new(changeOf(highA, lowB))
	}
	switch {
	case c.Unlike != nil || c.noAnswer() != "":
	case lowB >= highA && lowB > lowA:
		c.Verdict = "better"
	case lowA >= highB && lowA > lowB:
		c.Verdict = "worse"
	}
	return c
}

// bounds are between which loads the truth is, of A and of B. Where both hold all of one range, nobody has asked for more.
func (c *CapacityDiff) bounds() (lowA, highA, lowB, highB float64) {
	of := func(o *capacity.Outcome) (low, high float64) {
		high = math.Inf(1)
		if o.Holds != nil {
			low = *o.Holds
		}
		switch {
		case o.Breaks != nil:
			high = *o.Breaks
		case c.AtLeast():
			high = o.Most
		}
		return low, high
	}
	if c.A != nil {
		lowA, highA = of(c.A)
	}
	if c.B != nil {
		lowB, highB = of(c.B)
	}
	return lowA, highA, lowB, highB
}

// compared are the bounds that are held against each other: those of B are wider by what another start may bring.
func (c *CapacityDiff) compared() (lowA, highA, lowB, highB float64) {
	lowA, highA, lowB, highB = c.bounds()
	starts := 1 + float64(c.Floor)/100
	return lowA, highA, lowB / starts, highB * starts
}

// noAnswer says which side has no answer, and why; empty: both have one.
func (c *CapacityDiff) noAnswer() string {
	for _, side := range []struct {
		name string
		of   *capacity.Outcome
	}{{"A", c.A}, {"B", c.B}} {
		if side.of != nil && (side.of.Flaw != "" || side.of.Holds == nil && side.of.Breaks == nil) {
			return side.name + " has no answer: " + strings.TrimPrefix(say.Bounds(side.of), "no answer: ")
		}
	}
	return ""
}

// change is between which changes the truth lies, in words.
func (c *CapacityDiff) change() string {
	switch {
	case c.Low != nil && c.High != nil && *c.Low == *c.High:
		return c.Low.String()
	case c.Low != nil && c.High != nil:
		return c.Low.String() + " to " + c.High.String()
	case c.Low != nil:
		return c.Low.String() + " or more"
	case c.High != nil:
		return c.High.String() + " or less"
	}
	return ""
}

// Name is the engine and its axes, without the load.
func (c *CapacityDiff) Name() string { return figure.CellName(c.Engine, c.Axes) }

// doubt says why nothing is certain, and how sure the sides are where that differs.
func (c *CapacityDiff) doubt() string {
	var words []string
	switch none := c.noAnswer(); {
	case c.A == nil || c.B == nil || c.Verdict != "unknown":
		words = append(words, c.Verdict)
	case c.Unlike != nil:
		for _, u := range c.Unlike {
			words = append(words, "another "+u.What)
		}
	case none != "":
		words = append(words, none)
	case c.AtLeast():
		words = append(words, "both hold all of the range")
	default:
		words = append(words, "the bounds overlap")
	}
	if c.Floor > 0 {
		words = append(words, c.cannotShow())
	}
	if text := c.sureness(); text != "" {
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// cannotShow says which difference the boxes cannot show.
func (c *CapacityDiff) cannotShow() string {
	return "starts on these boxes differ by up to " + number.Share(float64(c.Floor)/100)
}

// AtLeast reports whether both sides hold all of one range.
func (c *CapacityDiff) AtLeast() bool {
	return c.A != nil && c.B != nil && c.A.AtLeast && c.B.AtLeast && c.A.Most == c.B.Most
}

// sureness says how sure the sides are, where one is surer than the other.
func (c *CapacityDiff) sureness() string {
	if c.A == nil || c.B == nil || c.A.Confidence == c.B.Confidence {
		return ""
	}
	return fmt.Sprintf("A is sure to %s %%, B to %s %%", number.Exact(100*c.A.Confidence), number.Exact(100*c.B.Confidence))
}

// searchSheet is what searches of both sides have found; no rows: they have found nothing.
func (d *Difference) searchSheet() *table.Sheet {
	var lines [][]string
	for _, c := range d.Searches {
		text := func(o *capacity.Outcome) string {
			switch {
			case o == nil:
				return ""
			case o.Holds == nil && o.Breaks == nil:
				return say.BoundsShort(o)
			}
			return say.BoundsShort(o) + " " + say.LoadUnit(o.Of)
		}
		lines = append(lines, []string{c.Benchmark, c.Name(), text(c.A), text(c.B), c.change(), c.doubt()})
	}
	return table.Tabulate([]table.Column{{Name: "benchmark", Left: true}, {Name: "engine", Left: true}, {Name: "A"}, {Name: "B"},
		{Name: "change"}, {Name: "how sure", Left: true}}, lines)
}

const searchTitle = "Capacity: from what certainly holds to what certainly breaks the SLO"

// searchVerdict says in a line how many capacities are better and worse; empty: there is none on both sides.
func (d *Difference) searchVerdict() string {
	var parts []string
	for _, word := range []string{"worse", "better", "unknown"} {
		n := 0
		for _, c := range d.Searches {
			if c.Verdict == word {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	if parts == nil {
		return ""
	}
	return Capacity + ": " + strings.Join(parts, ", ")
}

// SearchFinding says of a benchmark what became of the loads that its engines hold; empty: nobody has searched on both sides.
func (d *Difference) SearchFinding(benchmark string) string {
	var said []string
	for _, c := range d.Searches {
		if c.Benchmark != benchmark || c.A == nil || c.B == nil {
			continue
		}
		values := fmt.Sprintf("%s %s, was %s", say.BoundsShort(c.B), say.LoadUnit(c.B.Of), say.BoundsShort(c.A))
		if c.A.Of != c.B.Of {
			values += " " + say.LoadUnit(c.A.Of)
		}
		if text := c.change(); text != "" {
			values += " (" + text + ")"
		}
		switch c.Verdict {
		case "better":
			said = append(said, fmt.Sprintf("%s certainly holds more: %s.", c.Engine, values))
		case "worse":
			said = append(said, fmt.Sprintf("%s certainly holds less: %s.", c.Engine, values))
		default:
			said = append(said, fmt.Sprintf("Of %s no difference is certain: %s; %s.", c.Engine, values, c.doubt()))
		}
	}
	return strings.Join(said, " ")
}

// Found are the capacities of both sides for the rows of [Difference.Rows], told apart as these are.
func (d *Difference) Found() (all []results.Capacity) {
	for _, c := range d.Searches {
		for _, side := range []struct {
			name string
			of   *figure.Capacity
		}{{"B", c.b}, {"A", c.a}} {
			if side.of != nil {
				x := side.of.Capacity
				x.ID += "@" + side.name
				x.Benchmark, x.Axes = c.Benchmark, append(slices.Clone(c.Axes), results.Axis{Name: figure.SideAxis, Value: side.name})
				all = append(all, x)
			}
		}
	}
	return all
}

// isSearched reports whether a search has tried the cell.
func (d *Difference) isSearched(c *CellDiff) bool {
	tried := func(x *figure.Capacity, rows []*results.Row) bool {
		return x != nil && slices.ContainsFunc(rows, func(r *results.Row) bool { return slices.Contains(x.Rows, r) })
	}
	return slices.ContainsFunc(d.Searches, func(s CapacityDiff) bool { return tried(s.a, c.a) || tried(s.b, c.b) })
}

// knee says that the load of a cell is one at which its engine certainly breaks an SLO, by a search of the same side that has
// sent the same; empty: nobody knows of one.
func (d *Difference) knee(c *CellDiff, of side) string {
	if d.isSearched(c) {
		return ""
	}
	for _, r := range of.rows(*c) {
		for _, s := range d.Searches {
			switch x := of.search(s); {
			case x == nil || x.Outcome.Breaks == nil || x.DeploymentID != r.DeploymentID || !inLoop(r, x.Outcome.Of):
			case figure.Along(r)[x.Outcome.Of] >= *x.Outcome.Breaks && sent(r, true) == sent(x.Rows[0], true):
				return fmt.Sprintf("a load of %s is past the knee of %s, which breaks %s by %s %s: such loads tell how engines fail, not which is faster",
					number.Short(figure.Along(r)[x.Outcome.Of]), x.Engine, say.SLO(x), number.Short(*x.Outcome.Breaks), say.LoadUnit(x.Outcome.Of))
			}
		}
	}
	return ""
}

// inLoop reports whether a cell's load is of the loop that a search for such loads is about. What is in flight at most says of
// an open loop nothing, and holds its rate back.
func inLoop(r *results.Row, of string) bool {
	w := &r.Job.Workload
	if of == capacity.Rate {
		return w.Concurrency == 0
	}
	return w.Rate == 0 || w.Rate == load.Inf
}

// checkSearches holds what searches have found against a limit.
func (d *Difference) checkSearches(l GateLimit, allowed []string) (checks []Check) {
	for _, c := range d.Searches {
		x := Check{Limit: l.Text, Benchmark: c.Benchmark, Cell: c.Name(), Axes: c.Axes}
		x.Result, x.Why = c.check(l, allowed)
		checks = append(checks, x)
	}
	return checks
}

// check holds the bounds of a capacity against a limit: it is broken or kept where that is certain whatever the truth between
// them is.
func (c *CapacityDiff) check(l GateLimit, allowed []string) (Result, string) {
	switch none := c.noAnswer(); {
	case c.B == nil:
		return Unknown, "B has not searched for it"
	case c.A == nil && !l.value:
		return Skipped, "it is only in B: there is nothing to compare it with"
	case none != "" && !(l.value && strings.HasPrefix(none, "A ")):
		return Unknown, none
	}
	lowA, highA, low, high := c.bounds()
	why := "it holds " + say.BoundsShort(c.B) + " " + say.LoadUnit(c.B.Of)
	least, most := l.at, l.at // at which a limit on B is broken or kept for sure
	if !l.value {
		for _, u := range c.Unlike {
			if !slices.Contains(allowed, u.What) {
				return Unknown, "it is not of the same thing: another " + u.What + ", " + u.text()
			}
		}
		_, _, low, high = c.compared()
		least, most = (1+l.at/100)*lowA, (1+l.at/100)*highA
		why = say.BoundsShort(c.A) + ", now " + say.BoundsShort(c.B) + " " + say.LoadUnit(c.B.Of)
		if by := c.change(); by != "" {
			why = "changed by " + by + " (" + why + ")"
		}
	}
	if text := c.sureness(); text != "" && !l.value {
		why += "; " + text
	}
	broken, kept := high < least || l.value && high == least, low >= most // what breaks by a load does not hold it
	if !l.below {
		broken, kept = low > most, high <= least
	}
	switch {
	case broken:
		return Fail, why
	case kept:
		return Pass, ""
	}
	if c.Floor > 0 && !l.value {
		why += "; " + c.cannotShow()
	}
	return Unknown, why + ", which does not decide it: the bounds are too wide"
}
