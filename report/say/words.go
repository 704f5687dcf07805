// Package say puts into words what package figure has found. It ranks nothing, and knows no table and no page.
package say

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/chart"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
)

// Sentence begins a text as a sentence does.
func Sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + s[size:]
}

// Lower begins a name as it stands within a sentence.
func Lower(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// Listed are names as a sentence has them: "A, B and C".
func Listed(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Value is a value with its unit: "1,234 tok/s".
func Value(v float64, m figure.Metric) string {
	return number.Amount(v, m.Unit) + " " + Lower(m.Title)
}

// Better says where good values of a metric are.
func Better(m figure.Metric) string {
	return map[int]string{1: "higher is better", -1: "lower is better"}[m.Better]
}

// Amounts are values of a metric in one unit: "3.56 s", "11.7 s".
func Amounts(m figure.Metric, values ...float64) (texts []string) {
	unit, per := number.Unit(m.Unit, values...)
	for _, v := range values {
		texts = append(texts, strings.TrimSpace(number.Text(v/per)+" "+unit))
	}
	return texts
}

// Corner says where good points are.
func Corner(mx, my figure.Metric) string {
	if mx.Better == 0 || my.Better == 0 {
		return ""
	}
	across, up := "right", "up"
	if mx.Better < 0 {
		across = "left"
	}
	if my.Better < 0 {
		up = "down"
	}
	return up + " and to the " + across + " is better"
}

// Origin says which labs and runs the cells come from.
func Origin(rows []results.Row) []string {
	var parts []string
	if labs := figure.WordsOf(rows, "lab"); len(labs) > 0 {
		parts = append(parts, "lab "+strings.Join(labs, ", "))
	}
	switch runs := figure.WordsOf(rows, "run"); len(runs) {
	case 0:
	case 1:
		run := "run " + runs[0]
		if len(figure.Those(rows, func(r *results.Row) bool { return r.Run.Bundled })) > 0 {
			run += " from a bundle" // nobody here has measured it
		}
		parts = append(parts, run)
	default:
		parts = append(parts, fmt.Sprintf("%d runs from %s to %s", len(runs), slices.Min(runs), slices.Max(runs)))
	}
	return parts
}

// Mark says of a cell that is not a measurement of ours what it is.
func Mark(r *results.Row) string {
	kind := figure.KindOfRun(r)
	switch kind {
	case "":
		return ""
	case "rehearsal":
		if s := r.Job.Workload.Speed; s != 0 {
			kind += " at ×" + number.Short(s)
		}
		return kind + ": simulated engines, not a measurement"
	}
	return kind + ": measured by others"
}

// CommonMark is the [Mark] of all rows; empty where they are of several kinds.
func CommonMark(rows []results.Row) string {
	if Mixed(rows) {
		return ""
	}
	return Mark(&rows[0])
}

// ForcedText explains the mark, where any of the rows has it.
func ForcedText(rows []results.Row) (sentences []string) {
	var by []string
	for i := range rows {
		if _, setting := rows[i].Deployment.ForcedAcceptance(); setting != "" {
			by = figure.Once(by, setting)
		}
	}
	if by == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s: the engine was told to accept drafted tokens whatever they are (%s), "+
		"so many tokens a step. Such figures are of that setting, and not of what the model would accept.",
		Sentence(figure.ForcedMark), Listed(by))}
}

// PrefillHits says whose lookups the cache hits are of, where any of the rows has prefill and decode apart.
func PrefillHits(rows []results.Row) (sentences []string) {
	for i := range rows {
		decodes := func(m results.Member) bool { return m.Role == "decode" }
		if _, known := figure.PrefixHits.Value(&rows[i]); known && slices.ContainsFunc(rows[i].Deployment.Members, decodes) {
			return []string{"Where prefill and decode are apart, cache hits are of the prompts that prefill looked up: decode takes their KV cache from prefill."}
		}
	}
	return nil
}

// Noted is a verdict with what else is said of the row, in brackets.
func Noted(verdict string, words ...string) string {
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" || word == verdict })
	if len(words) == 0 {
		return verdict
	}
	return verdict + " (" + strings.Join(words, ", ") + ")"
}

// Mixed reports whether measurements stand beside something else.
func Mixed(rows []results.Row) bool {
	return slices.ContainsFunc(rows, func(r results.Row) bool { return Mark(&r) != Mark(&rows[0]) })
}

// FastText says what rows are that were rehearsed so; empty: none was.
func FastText(rows []results.Row) string {
	fast := figure.Those(rows, figure.IsFast)
	if len(fast) == 0 {
		return ""
	}
	at, _, _ := strings.Cut(Sentence(Mark(fast[0])), ":")
	text := at + ": " + number.Count(len(fast), "cell")
	for _, verdict := range []string{load.Suspect, load.Void} {
		if n := len(figure.Those(rows, func(r *results.Row) bool { return figure.IsFast(r) && r.Verdict().Verdict == verdict })); n > 0 {
			text += fmt.Sprintf(", %s %s", number.Whole(n), verdict)
		}
	}
	return text + ". Such figures say nothing about an engine."
}

// HostChanges says, a sentence for each change, how many cells were measured on a host
// that is no longer as it was then.
func HostChanges(rows []results.Row) []string {
	var sentences []string
	changed := figure.Those(rows, func(r *results.Row) bool { return len(r.HostChanged) > 0 })
	for _, of := range figure.Grouped(changed, func(r *results.Row) [2]string {
		return [2]string{r.Deployment.Host, strings.Join(r.HostChanged, ", ")}
	}) {
		were := "1 of these cells was measured"
		if n := len(of); n > 1 {
			were = fmt.Sprintf("%d of these cells were measured", n)
		}
		sentences = append(sentences, fmt.Sprintf("Host %s has changed since %s: %s.", of[0].Deployment.Host, were,
			strings.Join(of[0].HostChanged, ", ")))
	}
	return sentences
}

// Noises says of each box under the rows that was proved what it cannot show of these metrics.
func Noises(rows []results.Row, metrics []figure.Metric) (sentences []string) {
	proved := figure.Those(rows, func(r *results.Row) bool { return r.Noise != nil && figure.KindOfRun(r) == "" })
	for _, of := range figure.Grouped(proved, func(r *results.Row) [2]string { return [2]string{r.Noise.Box, r.Noise.Engine} }) {
		n := of[0].Noise
		var parts []string
		for _, m := range metrics {
			if least := figure.LeastShown(n, m); least > 0 {
				parts = append(parts, number.Share(least)+" of "+Lower(m.Title))
			}
		}
		if parts != nil {
			sentences = append(sentences, fmt.Sprintf("Host %s cannot show less than %s: %s started %s on %s.", n.Host, Listed(parts),
				strings.TrimSpace(n.Engine+" "+n.Version), number.Count(n.Starts, "time"), n.Measured.UTC().Format(time.DateOnly)))
		}
	}
	return sentences
}

// Dates are the days on which cells were measured; empty: nobody knows.
func Dates(rows []results.Row) string {
	var first, last time.Time
	for _, r := range rows {
		if first.IsZero() || !r.Started.IsZero() && r.Started.Before(first) {
			first = r.Started
		}
		if r.Finished.After(last) {
			last = r.Finished
		}
	}
	if first.IsZero() {
		return ""
	}
	const day = "2 January 2006"
	text := first.UTC().Format(day)
	if to := last.UTC().Format(day); to != text && !last.IsZero() {
		text += " to " + to
	}
	return text
}

// VerdictCounts says how many cells have each verdict.
func VerdictCounts(rows []results.Row) string {
	n := map[string]int{}
	for i := range rows {
		n[rows[i].Verdict().Verdict]++
	}
	text := fmt.Sprintf("%s: %s valid, ", number.Count(len(rows), "cell"), number.Whole(n[load.Valid]))
	if n[load.Imported] > 0 {
		text += number.Whole(n[load.Imported]) + " imported, not measured here, "
	}
	return text + fmt.Sprintf("%s suspect, %s void.", number.Whole(n[load.Suspect]), number.Whole(n[load.Void]))
}

// ReasonOf is the first line of what stands against a row.
func ReasonOf(r *results.Row) string {
	_, reason, _ := strings.Cut(Reasons(r), ": ")
	return plain.Line(cmp.Or(reason, "no reason is given"))
}

// Reasons are in one line each: an error may have pages, with the last log lines
// of an engine, which stay in the store.
func Reasons(r *results.Row) string {
	v := r.Verdict()
	all := v.Texts()
	if r.Error != "" && !slices.Contains(all, r.Error) {
		all = slices.Concat(all, []string{r.Error})
	}
	if len(all) == 0 {
		return ""
	}
	lines := make([]string, len(all))
	for i, reason := range all {
		lines[i], _, _ = strings.Cut(reason, "\n")
	}
	return plain.Line(cmp.Or(v.Verdict, "?") + ": " + strings.Join(lines, "; "))
}

// Doubt is a reason against cells, which stands once however many they are.
type Doubt struct {
	Text  string // with the range of each number in which its cells differ
	Rows  []*results.Row
	shape string // its reasons without their numbers
}

// Doubts are the reasons against some rows, numbered from 1.
type Doubts []Doubt

// numerals are the numbers in a sentence.
var numerals = regexp.MustCompile(`\b\d+(?:[.,]\d+)*`)

func shapeOf(text string) string { return numerals.ReplaceAllString(text, "\x00") }

// NewDoubts are the reasons against rows: those that differ in their numbers alone are one.
func NewDoubts(rows []results.Row) (all Doubts) {
	doubtful := figure.Those(rows, func(r *results.Row) bool { return Reasons(r) != "" })
	for _, of := range figure.Grouped(doubtful, func(r *results.Row) string { return shapeOf(Reasons(r)) }) {
		var texts []string
		for _, r := range of {
			texts = append(texts, Reasons(r))
		}
		all = append(all, Doubt{ranges(texts), of, shapeOf(texts[0])})
	}
	return all
}

// ranges is a sentence of sentences that differ in their numbers alone: "8–518 ms".
func ranges(texts []string) string {
	numbers := func(text string) []string { return numerals.FindAllString(text, -1) }
	least, most := numbers(texts[0]), numbers(texts[0])
	value := func(text string) float64 { v, _ := figure.Float(text); return v } // it is one by its form
	for _, text := range texts {
		for i, n := range numbers(text) {
			if value(n) < value(least[i]) {
				least[i] = n
			}
			if value(n) > value(most[i]) {
				most[i] = n
			}
		}
	}
	n := -1
	return numerals.ReplaceAllStringFunc(texts[0], func(string) string {
		if n++; least[n] != most[n] {
			return least[n] + "–" + most[n]
		}
		return least[n]
	})
}

// Number is that of the doubt about a row; 0: there is none.
func (all Doubts) Number(r *results.Row) int {
	shape := shapeOf(Reasons(r))
	return 1 + slices.IndexFunc(all, func(d Doubt) bool { return d.shape == shape })
}

func (all Doubts) Texts() (texts []string) {
	for _, d := range all {
		texts = append(texts, d.Text)
	}
	return texts
}

// BoundsText is an interval as people read it: "890 to 915".
func BoundsText(x load.Interval) string { return number.Text(x.Low) + " to " + number.Text(x.High) }

// Spread is the median, with half the range of the repetitions.
func Spread(s figure.Spread) string {
	t := number.Text(s.Median)
	if s.N > 1 && s.Median > 0 {
		t += " ±" + number.Share(max(s.Max-s.Median, s.Median-s.Min)/s.Median)
	}
	return t
}

// Spent is what a run had of a host, in a line.
func Spent(s figure.Spending) string {
	parts, held := s.Parts()
	var times []string
	for _, p := range parts {
		times = append(times, fmt.Sprintf("%s %s", p.Took, p.Name))
	}
	line := fmt.Sprintf("run %s held host %s for %s: %s", s.Run, s.Host, held, strings.Join(times, ", "))
	if s.Box != "" {
		line = fmt.Sprintf("run %s rented %s as host %s for %s: %s", s.Run, s.Box, s.Host, held, strings.Join(times, ", "))
	}
	if s.Price > 0 {
		line += fmt.Sprintf("; %.2f USD, %.2f USD of that while idle", s.Cost, s.IdleCost)
	}
	if s.Told > 0 {
		line += fmt.Sprintf("; %.2f USD by its provider", s.Told)
	}
	if s.Open {
		line += "; it was rented still"
	}
	return line
}

// Fewer stands where a percentile would, which needs so many values and has fewer; 0: nothing does.
func Fewer(needs int) string {
	if needs == 0 {
		return ""
	}
	return "n<" + number.Whole(needs)
}

// FewerText explains marks of percentiles.
func FewerText(marks []string) string {
	return strings.Join(marks, ", ") + ": too few requests for that percentile. JSON and CSV have what was seen."
}

// Surest are the percentiles of a summary's times that are bounded from above, as MLPerf does.
func Surest(s *load.Summary) string {
	var times []string
	for _, t := range figure.Timings {
		var parts []string
		for _, statistic := range append([]string{"median"}, figure.Percentiles([]load.Stats{t.Of(s)})...) {
			if x := s.Intervals[t.Key+"_ms."+statistic]; x.AtMost > 0 {
				parts = append(parts, strings.Replace(statistic, "median", "p50", 1)+" "+number.Text(x.AtMost))
			}
		}
		if parts != nil {
			times = append(times, strings.ToUpper(t.Key)+" "+strings.Join(parts, ", "))
		}
	}
	return strings.Join(times, "; ")
}

// Unbounded says which figures that are shown have no interval, and why; nothing of no summary.
func Unbounded(s *load.Summary) (lines []string) {
	if s == nil {
		return nil
	}
	for _, u := range s.Unbounded {
		var names []string
		for _, t := range figure.Timings {
			var own []string
			for _, name := range u.Figures {
				if statistic, ok := strings.CutPrefix(name, t.Key+"_ms."); ok {
					own = append(own, strings.Replace(statistic, "median", "p50", 1))
				}
			}
			if own != nil {
				names = append(names, strings.ToUpper(t.Key)+" "+strings.Join(own, ", "))
			}
		}
		if slices.Contains(u.Figures, figure.Goodput.Name) {
			names = append(names, figure.Goodput.Name)
		}
		switch {
		case names != nil:
			lines = append(lines, strings.Join(names, "; ")+": "+u.Why)
		case u.Figures == nil:
			lines = append(lines, u.Why)
		}
	}
	return lines
}

// Tallied says how many values a chart shows, by verdict.
func Tallied(c *chart.Panel) string {
	n, all := map[string]int{}, 0
	add := func(verdict string) { n[verdict]++; all++ }
	for _, l := range c.Lines {
		if l.Series == nil || l.Tail || l.Plain {
			continue
		}
		for _, p := range l.Dots {
			add(p.Verdict())
		}
		n[load.Void] += len(l.Gaps)
	}
	for _, g := range c.Groups {
		for _, b := range g.Bars {
			if b.None {
				all++
			} else {
				add(b.Verdict())
			}
			n["published"] += len(b.Published)
		}
	}
	if c.Heat != nil {
		for _, x := range c.Heat.Cells {
			if x.Void {
				n[load.Void]++
			} else {
				add(x.Verdict())
			}
		}
	}
	var parts []string
	for _, verdict := range []string{load.Valid, load.Suspect, load.Void, "rehearsal", load.Imported, "published"} {
		if n[verdict] > 0 {
			parts = append(parts, number.Whole(n[verdict])+" "+verdict)
		}
	}
	if all == 0 {
		return ""
	}
	return number.Count(all, "value") + ": " + strings.Join(parts, ", ")
}

// SharesText is in short what each host has sent, and what each adapter was asked; both are empty
// where there is but one.
func SharesText(s *load.Summary) (clients, adapters string) {
	if s == nil {
		return "", ""
	}
	said := func(name string, f *load.Figures, verdict string) string {
		if f.Requests == 0 {
			return name + ": no request counts"
		}
		return fmt.Sprintf("%s: %s requests, TTFT median %s ms, ITL median %s ms%s",
			name, number.Whole(f.Requests), number.Text(f.TTFT.Median), number.Text(f.ITL.Median), verdict)
	}
	var sent, asked []string
	for _, c := range s.Clients {
		sent = append(sent, said(c.Host, &c.Figures, ", "+c.Verdict.Verdict))
	}
	for _, a := range s.Adapters {
		asked = append(asked, said(cmp.Or(a.Name, "(the model itself)"), &a.Figures, ""))
	}
	return strings.Join(sent, "; "), strings.Join(asked, "; ")
}
