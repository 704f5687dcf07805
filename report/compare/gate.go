package compare

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/where"
)

// GateLimit is what must not be: a change of a metric, "output_throughput < -5%", or a
// condition on B, "p99_ttft_ms > 500".
type GateLimit struct {
	Text   string
	Metric string // whose change it is about; empty: it is a condition

	below bool    // fails when the change is below, else above
	at    float64 // percent, or of a capacity's value the load
	value bool    // it is about the capacity of B alone
	worse bool    // fails where answers are worse than those of their baseline
}

var (
	changeLimit = regexp.MustCompile(`^\s*([\w.]+)\s*([<>])\s*([^\s%]+)\s*%\s*$`)
	// of B alone
	capacityLimit = regexp.MustCompile(`^\s*capacity\s*([<>])\s*([^\s%]+)\s*$`)
	compared      = regexp.MustCompile(`([\w.]+)\s*(?:==?|!=|<=?|>=?)\s*("[^"]*"|'[^']*'|[^\s()]+)`)
)

const limitForms = "write for example 'output_throughput < -5%%' for a change, or 'p99_ttft_ms > 500' for a value"

// Worse is the limit on what is answered.
const Worse = "accuracy worse"

// ParseLimit reads a limit: "METRIC < -5%", "METRIC > 10%", [Worse], or a condition of package
// where. It refuses what could never be broken because of how it is written.
func ParseLimit(text string) (GateLimit, error) {
	if strings.Join(strings.Fields(text), " ") == Worse {
		return GateLimit{Text: text, worse: true}, nil
	}
	if m := changeLimit.FindStringSubmatch(text); m != nil {
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return GateLimit{}, fmt.Errorf("%q is not a limit: %s is no number of percent", text, m[3])
		}
		if _, ok := figure.Named(m[1]); !ok && m[1] != Capacity {
			return GateLimit{}, fmt.Errorf("%q is not a limit: there is no metric %q", text, m[1])
		}
		if m[2] == "<" && v <= -100 {
			return GateLimit{}, fmt.Errorf("%q is not a limit: nothing falls by more than 100 %%", text)
		}
		return GateLimit{Text: text, Metric: m[1], below: m[2] == "<", at: v}, nil
	}
	parts := compared.FindAllStringSubmatch(text, -1)
	if i := slices.IndexFunc(parts, func(p []string) bool { return p[1] == Capacity }); i >= 0 {
		m := capacityLimit.FindStringSubmatch(text)
		if m == nil {
			return GateLimit{}, fmt.Errorf("%q is not a limit: of a capacity write 'capacity < -5%%' for a change or 'capacity < 80', and nothing beside it", text)
		}
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil || !(v > 0 && v < math.Inf(1)) {
			return GateLimit{}, fmt.Errorf("%q is not a limit: %s is no load", text, m[2])
		}
		return GateLimit{Text: text, Metric: Capacity, below: m[1] == "<", at: v, value: true}, nil
	}
	if len(parts) == 0 {
		return GateLimit{}, fmt.Errorf("%q is not a limit; "+limitForms, text)
	}
	for _, p := range parts {
		if strings.HasSuffix(p[2], "%") {
			return GateLimit{}, fmt.Errorf("%q is not a limit: a change in percent stands alone, in a --fail-if of its own", text)
		}
		if _, ok := figure.Named(p[1]); !ok {
			continue
		}
		switch v, err := strconv.ParseFloat(strings.Trim(p[2], `"'`), 64); {
		case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
			return GateLimit{}, fmt.Errorf("%q is not a limit: %s is a number, and %s is none", text, p[1], p[2])
		case v < 0:
			return GateLimit{}, fmt.Errorf("%q is not a limit: %s is never below 0; for a change write %s%%", text, p[1], p[2])
		}
	}
	return GateLimit{Text: text}, nil
}

const (
	Pass    Result = "pass"
	Fail    Result = "fail"
	Unknown Result = "unknown" // it cannot be said: as bad as Fail
	Skipped Result = "skipped" // the limit is not about this cell
)

// Suspects is what [Difference.Check] may be allowed besides [Differing]: cells that are suspect.
const Suspects = "suspect"

// Check holds every cell against every limit, and keeps what came of it in d. A cell that is
// missing or void in B, whose requests fail where those of A did not, that is suspect, that is not
// of the same thing as that of A, or whose figure is not known passes no limit; allowed are the
// exceptions, of [Differing] and [Suspects]. Neither does a limit pass that no cell could be held
// against, nor a change that is beyond it and that many repetitions do not tell from chance, or that is less than what the
// boxes can show; with too few to tell, the medians decide. The error is about a condition that cannot be read.
func (d *Difference) Check(limits []GateLimit, allowed []string) error {
	d.Checks = nil
	for _, l := range limits {
		holds, err := d.condition(l)
		if err != nil {
			return err
		}
		var checks []Check
		switch {
		case l.worse:
			checks = d.checkAnswers(l)
		case l.Metric == Capacity:
			checks = d.checkSearches(l, allowed)
		default:
			checks = d.checkCells(l, allowed, holds)
		}
		d.Checks = append(d.Checks, checks...)
		if !slices.ContainsFunc(checks, func(x Check) bool { return x.Result != Skipped }) {
			d.Checks = append(d.Checks, Check{Limit: l.Text, Cell: "all cells", Result: Unknown,
				Why: "none could be held against it"})
		}
	}
	return nil
}

// checkCells holds every cell against a limit that is about cells.
func (d *Difference) checkCells(l GateLimit, allowed []string, holds where.Condition) (checks []Check) {
	for _, c := range slices.Concat(d.Cells, d.onlyA, d.onlyB) {
		x := Check{Limit: l.Text, Benchmark: c.Benchmark, Cell: c.Name(), Axes: c.Axes}
		switch x.Result, x.Why = c.sound(l, allowed); {
		case d.isSearched(&c):
			x.Result, x.Why = Skipped, "a search has tried it, and left it as soon as it was certain: hold the capacity against a limit"
		case x.Result != Pass:
		case l.Metric != "":
			x.Result, x.Why = c.change(l)
		default:
			x.Result, x.Why = c.value(d.fields, holds)
		}
		if knee := cmp.Or(d.knee(&c, d.sides()[1]), d.knee(&c, d.sides()[0])); knee != "" && x.Result != Skipped {
			x.Why = figure.ListedWith("; ", x.Why, knee)
		}
		checks = append(checks, x)
	}
	return checks
}

// Answers says what the deployments of A and B were asked, so that [Worse] is also about those that nothing else was measured on.
func (d *Difference) Answers(a, b []results.Scored) { d.scoresA, d.scores = a, b }

// checkAnswers holds what the deployments of B have answered against their baselines, as that was decided where they were asked. Of
// whom nobody has asked anything the limit says nothing. It passes where the questions are too few to tell; not where something else
// stands in the way of a verdict, or where A has answers that B lacks.
func (d *Difference) checkAnswers(l GateLimit) (checks []Check) {
	for _, c := range slices.Concat(d.Cells, d.onlyB) {
		if len(c.b) == 0 {
			continue
		}
		x := Check{Limit: l.Text, Benchmark: c.Benchmark, Cell: c.Name(), Axes: c.Axes, Result: Pass, Why: c.b[0].Checked}
		for _, r := range c.b {
			switch accuracy.Verdict(r.Checked) {
			case accuracy.Worse:
				x.Result, x.Why = Fail, say.Reasons(r)
			case "", accuracy.Unchecked:
				if x.Result == Pass {
					x.Result, x.Why = Skipped, "its answers are unchecked"
				}
			}
		}
		checks = append(checks, x)
	}
	for i := range d.scores {
		s := &d.scores[i]
		x := answersCheck(l, s)
		switch {
		case s.Held.Barred():
			x.Result, x.Why = Unknown, s.Held.String()
		case slices.ContainsFunc(d.rowsB, func(r results.Row) bool { return s.IsOf(r.DeploymentID) }):
			continue // it is said of its rows
		case s.Held.Verdict == accuracy.Worse:
			x.Result, x.Why = Fail, s.Held.String()
		case s.Standing() == string(accuracy.Unchecked):
			x.Result, x.Why = Skipped, "its answers are unchecked"
		}
		checks = append(checks, x)
	}
	for i := range d.scoresA {
		x := answersCheck(l, &d.scoresA[i])
		if !slices.ContainsFunc(d.scores, func(s results.Scored) bool {
			return s.Benchmark == x.Benchmark && x.Cell == figure.CellName(s.Deployment.Engine, s.Axes)
		}) {
			x.Result, x.Why = Unknown, "its answers are missing in B"
			if v := d.scoresA[i].Verdict(); v.Verdict == load.Void {
				x.Result, x.Why = Skipped, "it is void in A ("+v.Texts()[0]+"), and nobody has asked it in B"
			}
			checks = append(checks, x)
		}
	}
	return checks
}

// answersCheck is the check of a cell that asks questions, passed so far.
func answersCheck(l GateLimit, s *results.Scored) Check {
	return Check{Limit: l.Text, Benchmark: s.Benchmark, Cell: figure.CellName(s.Deployment.Engine, s.Axes), Axes: s.Axes, Result: Pass, Why: s.Standing()}
}

// condition is that of a limit on values. It may be about percentiles that no row has.
func (d *Difference) condition(l GateLimit) (where.Condition, error) {
	if l.Metric != "" || l.worse {
		return nil, nil
	}
	for _, p := range compared.FindAllStringSubmatch(l.Text, -1) {
		if m, ok := figure.Named(p[1]); ok && d.fields[m.Name] == nil {
			d.fields[m.Name] = m.Field()
		}
	}
	return where.Parse(l.Text, d.fields.Names())
}

// Failing are the checks that let no gate open.
func (d *Difference) Failing() []Check {
	return slices.DeleteFunc(slices.Clone(d.Checks), func(c Check) bool { return c.Result == Pass || c.Result == Skipped })
}

// sound says whether the cell can be held against a limit at all.
func (c *CellDiff) sound(l GateLimit, allowed []string) (Result, string) {
	if c.b == nil {
		return Unknown, "it is missing in B"
	}
	for _, r := range c.b {
		if !figure.IsMeasured(r) || !slices.Contains(figure.Verdicts(), r.Verdict().Verdict) {
			return Fail, "it is void in B: " + say.ReasonOf(r)
		}
	}
	suspects := slices.Contains(allowed, Suspects)
	if l.Metric != "" && c.a == nil && !c.twins {
		return Skipped, "it is only in B: there is nothing to compare it with"
	}
	if r := figure.AllSuspect(c.b); r != nil && !suspects {
		return Unknown, "it is suspect in B: " + say.ReasonOf(r)
	}
	if l.Metric != "" {
		switch r := figure.AllSuspect(c.a); {
		case c.twins:
			return Unknown, "two different things are called so in B"
		case len(figure.NotVoid(c.a)) == 0:
			return Unknown, "it is void in A: " + say.ReasonOf(c.a[0])
		case r != nil && !suspects:
			return Unknown, "it is suspect in A: " + say.ReasonOf(r)
		}
	}
	if after := figure.MostFailed(c.b); after > 0 && figure.NoneFailed(c.a) && !l.about(figure.Failed) {
		return Fail, fmt.Sprintf("%s failed in B, none in A", number.Count(after, "request"))
	}
	for _, u := range c.Unlike {
		if !slices.Contains(allowed, u.What) {
			return Unknown, "it is not of the same thing: another " + u.What + ", " + u.text()
		}
	}
	return Pass, ""
}

// change holds the change of a figure against the limit.
func (c *CellDiff) change(l GateLimit) (Result, string) {
	f := c.Figure(l.Metric)
	if f == nil {
		m, _ := figure.Named(l.Metric) // ParseLimit knows it
		hasA, hasB := len(figure.ValuesOf(m.Raw(), c.a)) > 0, len(figure.ValuesOf(m.Raw(), c.b)) > 0
		switch {
		case !hasA && !hasB:
			return Skipped, "neither A nor B has it"
		case hasA:
			return Unknown, "B does not have it"
		default:
			return Unknown, "A does not have it"
		}
	}
	beyond := l.below && float64(f.Change) < l.at || !l.below && float64(f.Change) > l.at
	values := say.Amounts(f.Of, f.A.Median, f.B.Median)
	changed := f.Change.String()
	for digits := 1; beyond && changed == Percent(l.at).String() && digits < 9; digits++ { // it is not the limit itself
		if text := fmt.Sprintf("%+.*f", digits, float64(f.Change)); text != fmt.Sprintf("%+.*f", digits, l.at) {
			changed = strings.Replace(text, "-", "−", 1) + " %"
		}
	}
	why := fmt.Sprintf("changed by %s (%s to %s)", changed, values[0], values[1])
	if math.IsInf(float64(f.Change), 0) {
		why = "changed from " + values[0] + " to " + values[1]
	}
	switch {
	case f.Needs > 0:
		return Unknown, why + ", of fewer than the " + number.Whole(f.Needs) + " requests that it needs"
	case f.a.Judged != f.b.Judged:
		return Unknown, fmt.Sprintf("B is judged by %s, A by %s", f.b.Judged, f.a.Judged)
	case !beyond:
		return Pass, ""
	case f.Within():
		return Unknown, why + "; " + f.cannotShow()
	case f.chance():
		return Unknown, why + fmt.Sprintf(", which %d+%d repetitions do not tell from chance", f.A.N, f.B.N)
	}
	return Fail, why
}

// value holds each repetition of B against a condition.
func (c *CellDiff) value(columns figure.Fields, holds where.Condition) (Result, string) {
	var missing []string
	for _, r := range c.b {
		var read []string
		values := columns.Of(r)
		broken := holds(func(name string) (any, bool) {
			v, ok := values(name)
			if ok {
				read = append(read, name+" is "+figure.ColumnText(v))
			} else {
				missing = figure.Once(missing, name)
			}
			return v, ok
		})
		if broken {
			return Fail, strings.Join(read, ", ")
		}
	}
	switch {
	case missing == nil:
		return Pass, ""
	case c.a != nil && !slices.ContainsFunc(c.a, func(r *results.Row) bool {
		return slices.ContainsFunc(missing, func(name string) bool { _, ok := columns.Of(r)(name); return ok })
	}):
		return Skipped, "neither A nor B has " + strings.Join(missing, ", ")
	}
	return Unknown, "B does not have " + strings.Join(missing, ", ")
}

// about reports whether the limit is a condition on this metric.
func (l GateLimit) about(m figure.Metric) bool {
	return l.Metric == "" && slices.ContainsFunc(compared.FindAllStringSubmatch(l.Text, -1),
		func(p []string) bool { return p[1] == m.Name })
}

// JUnit writes the checks as test cases that CI systems show: one for each limit of
// each cell. What cannot be said is a failure too.
func (d *Difference) JUnit(w io.Writer) error {
	type note struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Class   string `xml:"classname,attr"`
		Name    string `xml:"name,attr"`
		Failure *note  `xml:"failure,omitempty"`
		Skipped *note  `xml:"skipped,omitempty"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	s := suite{Name: "hcl compare", Tests: len(d.Checks)}
	for _, c := range d.Checks {
		t := testCase{Class: c.Benchmark, Name: c.Cell + ": " + c.Limit}
		switch c.Result {
		case Fail:
			t.Failure = &note{c.String()}
			s.Failures++
		case Unknown:
			t.Failure = &note{"unknown: " + c.String()}
			s.Failures++
		case Skipped:
			t.Skipped = &note{c.Why}
			s.Skipped++
		}
		s.Cases = append(s.Cases, t)
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
