package table

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
)

// Summary prints one summary in full, in lines of at most width columns, 0 being no limit: what `hcl bench`
// shows. docs/method.md defines the names.
func Summary(w io.Writer, s *load.Summary, width int) error {
	var b bytes.Buffer
	writeFacts(&b, requestLines(s), width)
	b.WriteByte('\n')
	lines := throughputLines(s)
	digits := 0
	for _, f := range lines {
		digits = max(digits, len(f.Name))
	}
	for i, f := range lines {
		writeFacts(&b, []Fact{{first(i, "Throughput"), fmt.Sprintf("%*s %s", digits, f.Name, f.Value)}}, width)
	}
	b.WriteByte('\n')
	times, bounds := latencies(s)
	for i, g := range []*Sheet{times, bounds, adaptersOf(s), Clients(s)} {
		if g == nil || g.Rows == 0 {
			continue
		}
		b.WriteString(strings.Join(g.Lines(), "\n") + "\n")
		if marks := g.marks(); i == 0 && marks != nil {
			b.WriteString(strings.Join(plain.Wrap(plain.Words(say.FewerText(marks)), " ", width), "\n") + "\n")
		}
		b.WriteByte('\n')
	}
	facts := []Fact{{"At most, 99 % sure", say.Surest(s)}}
	for i, text := range say.Unbounded(s) {
		facts = append(facts, Fact{first(i, "No 95 % interval"), text})
	}
	if s.PeakConcurrency > 0 {
		facts = append(facts, Fact{"Generator", number.Text(100*s.CPUShare) + "% of one core"})
	}
	writeFacts(&b, append(facts, Fact{"Verdict", s.Verdict.Verdict}), width)
	list := func(texts []string) {
		for _, text := range texts {
			for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
				for j, part := range plain.Wrap(strings.Split(line, " "), " ", max(width-4, 0)) {
					fmt.Fprintf(&b, "%s%s\n", map[bool]string{true: "  - ", false: "    "}[i+j == 0], part)
				}
			}
		}
	}
	list(s.Verdict.Texts())
	if len(s.ErrorSamples) > 0 {
		fmt.Fprintln(&b, "\nErrors, the first distinct ones:")
	}
	list(s.ErrorSamples)
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// factWidth is that of the names of facts, and a blank.
const factWidth = 20

// writeFacts writes what is known, a name and its lines, in at most width columns; 0 is no limit.
func writeFacts(b *bytes.Buffer, facts []Fact, width int) {
	if width > 0 {
		width = max(width-factWidth, factWidth)
	}
	for _, f := range facts {
		name := f.Name
		width := width
		if strings.HasPrefix(name, commandFact) {
			width = 0 // a shell takes its lines as they are
		}
		for line := range strings.Lines(strings.TrimRight(f.Value, "\n ")) {
			for _, part := range plain.Wrap(strings.Split(strings.TrimSuffix(line, "\n"), " "), " ", width) {
				fmt.Fprintf(b, "%-*s %s\n", factWidth-1, name, part)
				name = ""
			}
		}
	}
}

// requestLines are what was sent and what came back.
func requestLines(s *load.Summary) (lines []Fact) {
	add := func(name, format string, args ...any) {
		lines = append(lines, Fact{name, fmt.Sprintf(format, args...)})
	}
	var counts []string
	for _, c := range []struct {
		member, what string
		n            int
	}{{"requests", "sent", s.Requests}, {"completed", "completed", s.Completed}, {"failed", "failed", s.Failed}} {
		if s.Knows(c.member) { // else others have measured, and do not tell
			counts = append(counts, number.Whole(c.n)+" "+c.what)
		}
	}
	failures := s.Failures()
	if failures != "" {
		failures = " (" + failures + ")"
	}
	if counts != nil {
		add("Requests", "%s%s", strings.Join(counts, ", "), failures)
	}
	if s.Knows("duration_s") {
		add("Duration", "%s s from the first dispatch to the last response", number.Text(s.Duration))
	}
	for _, t := range []struct {
		name, member string
		n, asked     int64
	}{{"Input", "input_tokens", s.InputTokens, s.AskedInput}, {"Output", "output_tokens", s.OutputTokens, s.AskedOutput}} {
		asked := ""
		if t.asked != t.n && s.Knows("asked_"+t.member) {
			asked = ", " + number.Whole(t.asked) + " asked for"
		}
		if t.member == "input_tokens" && s.CachedTokens > 0 {
			asked += ", " + number.Whole(s.CachedTokens) + " of them cached by the answers' usage"
		}
		if s.Knows(t.member) && (t.n > 0 || !s.Silent()) {
			add(t.name, "%s tokens%s", number.Whole(t.n), asked)
		}
	}
	switch {
	case s.UsageMissing > 0 && s.Silent():
		add(map[bool]string{true: "Input"}[s.InputTokens == 0], "not told in %s answers", number.Whole(s.UsageMissing))
	case s.UsageMissing > 0:
		add("", "counted by chunks in %s requests whose stream brought no usage", number.Whole(s.UsageMissing))
	}
	if c := s.Content; c != nil {
		add("Answers", "%s", contentText(c, s.OutputTokens))
	}
	if x := s.Sessions; x != nil && x.Ended == 0 {
		add("Sessions", "%s begun, none ended", number.Whole(x.Begun))
	} else if x != nil {
		add("Sessions", "%s begun, %s ended: each %s requests, %s output tokens and %s s on average, %s s the longest",
			number.Whole(x.Begun), number.Whole(x.Ended), number.Text(x.Requests), number.Text(x.OutputTokens),
			number.Text(x.Duration.Mean/1e3), number.Text(x.Duration.Max/1e3))
	}
	if x := s.Sessions; x != nil && x.Uncalled > 0 {
		add("", "%s of %s answers called no tool where the recorded one does: an engine without a parser of tool calls "+
			"makes none", number.Whole(x.Uncalled), number.Whole(x.ToCall))
	}
	if s.PeakConcurrency > 0 { // else an engine's own benchmark did not tell
		add("In flight", "%s requests on average, %s at most", number.Text(s.MeanConcurrency),
			number.Whole(s.PeakConcurrency))
	}
	if text := steadyText(s); text != "" {
		add("Steady state", "%s", text)
	}
	return lines
}

// steadyText says when a closed loop was full, what it gave then, and how long it took before and
// after; empty: no such time was found.
func steadyText(s *load.Summary) string {
	if s.Steady == nil || s.Steady.Window == nil {
		return ""
	}
	whole := s.Figures
	if s.Untrimmed != nil {
		whole = s.Untrimmed.Figures
	}
	from, to := time.Duration(s.Steady.Window.From).Seconds(), time.Duration(s.Steady.Window.To).Seconds()
	return fmt.Sprintf("from %s to %s s, with %s output tokens/s (the whole run %s); ramp %s s, tail %s s",
		number.Short(from), number.Short(to), number.Text(s.Steady.OutputThroughput), number.Text(whole.OutputThroughput),
		number.Text(from), number.Text(max(0, whole.Duration-to)))
}

// contentText says what answers were made of, beside text.
func contentText(c *load.Content, tokens int64) string {
	var parts []string
	if c.Reasoned > 0 {
		share := fmt.Sprintf("%s of %s chunks", number.Whole(int(c.ReasoningChunks)), number.Whole(int(c.Chunks)))
		if c.ReasoningTokens > 0 {
			share = fmt.Sprintf("%s of %s tokens", number.Whole(int(c.ReasoningTokens)), number.Whole(int(tokens)))
		}
		parts = append(parts, fmt.Sprintf("%s with reasoning (%s)", number.Whole(c.Reasoned), share))
	}
	if c.Unanswered > 0 {
		parts = append(parts, fmt.Sprintf("%s of reasoning alone", number.Whole(c.Unanswered)))
	}
	if c.Called > 0 {
		parts = append(parts, fmt.Sprintf("%s with a tool call (%s of %s chunks)", number.Whole(c.Called),
			number.Whole(int(c.CallChunks)), number.Whole(int(c.Chunks))))
	}
	return strings.Join(parts, ", ")
}

// throughputLines are what came out each second, each under its number.
func throughputLines(s *load.Summary) (lines []Fact) {
	best := ""
	if s.PeakOutputThroughput > 0 {
		best = ", " + number.Text(s.PeakOutputThroughput) + " in the best second"
	}
	for _, t := range []struct {
		member, text string
		v            float64
	}{
		{"output_throughput", "output tokens/s" + best, s.OutputThroughput},
		{"input_throughput", "input tokens/s", s.InputThroughput},
		{"total_throughput", "input and output tokens/s", s.TotalThroughput},
		{"request_throughput", "requests/s", s.RequestThroughput},
	} {
		if x, ok := s.Intervals[t.member]; ok {
			t.text += ", in 95 of 100 runs " + say.BoundsText(x)
		}
		silent := s.Silent() && (t.member == "output_throughput" || t.member == "total_throughput" || s.InputTokens == 0 && t.v == 0)
		if s.Knows(t.member) && !silent {
			lines = append(lines, Fact{number.Text(t.v), t.text})
		}
	}
	if s.Goodput != nil {
		lines = append(lines, Fact{number.Text(*s.Goodput), "requests/s within the SLO (goodput)"})
	}
	return lines
}

// latencies are the times of a summary, a column each, with the percentiles that any of them has, and
// where the truth behind these lies in 95 of 100 runs, as far as the run tells; nil: it does not.
func latencies(s *load.Summary) (times, bounds *Sheet) {
	type timing struct {
		name, member string
		stats        load.Stats
		ofServer     bool // a sample of what it does; what we did ourselves is known
	}
	var known []load.Stats
	var shown []timing
	for _, t := range []timing{
		{"TTFT", "ttft_ms", s.TTFT, true},
		{"TTFA", "ttfa_ms", figure.TTFA.Of(s), true},
		{"TPOT", "tpot_ms", s.TPOT, true},
		{"ITL", "itl_ms", s.ITL, true},
		{"E2EL", "e2el_ms", s.E2EL, true},
		{"queued", "queue_ms", s.Queue, false},
		{"late", "send_lag_ms", s.SendLag, false},
	} {
		if t.stats.Count == 0 && t.stats.Mean == 0 && t.stats.Median == 0 && len(t.stats.Percentiles) == 0 {
			continue // others publish figures without the count
		}
		known, shown = append(known, t.stats), append(shown, t)
	}
	if shown == nil {
		return nil, nil
	}
	statistics := slices.Concat([]string{"mean", "std", "min", "median"}, figure.Percentiles(known), []string{"max"})
	label := func(title string, of []string) *Sheet {
		return &Sheet{Rows: len(of), Columns: []Column{Column{Name: title, Left: true}.filled(len(of), func(i int) string {
			return strings.Replace(of[i], "median", "p50", 1)
		})}}
	}
	bounded := slices.DeleteFunc(slices.Clone(statistics), func(statistic string) bool {
		return !slices.ContainsFunc(shown, func(t timing) bool { _, ok := s.Intervals[t.member+"."+statistic]; return ok })
	})
	times, bounds = label("Latency", statistics), label("In 95 of 100 runs", bounded)
	for _, t := range shown {
		var values []float64
		for _, statistic := range statistics {
			if v, ok := figure.FigureOf(s, t.stats, t.member, statistic); ok && statistic != "std" {
				values = append(values, v)
			}
		}
		unit, per := number.Unit("ms", values...)
		c := Column{Name: t.name + " " + unit}
		times.Columns = append(times.Columns, c.With(times.Rows, func(i int) Entry {
			if n := t.stats.Lacks(statistics[i]); n > 0 && t.ofServer {
				return Entry{Needs: n}
			}
			if v, ok := figure.FigureOf(s, t.stats, t.member, statistics[i]); ok {
				return Entry{Text: number.Text(v / per)}
			}
			return Entry{}
		}))
		if figure.Bounded(s, t.member) {
			bounds.Columns = append(bounds.Columns, c.filled(bounds.Rows, func(i int) string {
				x, ok := s.Intervals[t.member+"."+bounded[i]]
				if !ok {
					return ""
				}
				return say.BoundsText(load.Interval{Low: x.Low / per, High: x.High / per})
			}))
		}
	}
	return times, bounds
}

// Clients has a line for each host that has sent a share of the load; nil: one host has sent it all.
func Clients(s *load.Summary) *Sheet {
	if len(s.Clients) == 0 {
		return nil
	}
	columns := []Column{{Name: "Client", Left: true}, {Name: "requests"}, {Name: "TTFT p50"}, {Name: "p99"},
		{Name: "ITL p50"}, {Name: "p99 ms"}, {Name: "read lag"}, {Name: "of a core"}, {Name: "late ms"},
		{Name: "clock ms"}, {Name: "verdict", Left: true}}
	var lines [][]string
	for _, c := range s.Clients {
		lag := ""
		if c.ReadLag != nil {
			lag = number.Text(c.ReadLag.Percentiles["99"])
		}
		clock := fmt.Sprintf("%s ± %s", number.Text(c.Clock.Ahead), number.Text(c.Clock.Within))
		lines = append(lines, []string{c.Host, number.Whole(c.Requests),
			middle(c.TTFT), high(c.TTFT), middle(c.ITL), high(c.ITL),
			lag, number.Text(100*c.CPUShare) + "%", number.Text(c.Late), clock, c.Verdict.Verdict})
	}
	return Tabulate(columns, lines)
}

// middle is the median, where there is a value.
func middle(s load.Stats) string {
	if s.Count == 0 {
		return ""
	}
	return number.Text(s.Median)
}

// high is the 99th percentile, where it was asked for and there are enough values to carry it.
func high(s load.Stats) string {
	v, known := s.Percentiles["99"]
	if !known || s.Count < load.Needs(99) {
		return ""
	}
	return number.Text(v)
}

// adaptersOf has a line for each adapter that requests were sent to; nil: there were none.
func adaptersOf(s *load.Summary) *Sheet {
	if len(s.Adapters) == 0 {
		return nil
	}
	columns := []Column{{Name: "Adapter", Left: true}, {Name: "requests"}, {Name: "failed"}, {Name: "tok/s"}, {Name: "TTFT p50"},
		{Name: "p99"}, {Name: "TPOT p50"}, {Name: "p99"}, {Name: "E2EL p50"}, {Name: "p99 ms"}}
	var lines [][]string
	for i := range s.Adapters {
		a := &s.Adapters[i]
		lines = append(lines, []string{cmp.Or(a.Name, "(the model itself)"), number.Whole(a.Completed), number.Whole(a.Failed),
			number.Text(a.OutputThroughput), middle(a.TTFT), high(a.TTFT), middle(a.TPOT), high(a.TPOT),
			middle(a.E2EL), high(a.E2EL)})
	}
	return Tabulate(columns, lines)
}
