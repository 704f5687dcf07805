package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/number"
)

// Text prints one summary in full: what `hcl bench` shows. docs/method.md defines the names.
func Text(w io.Writer, s *load.Summary) error {
	var b bytes.Buffer
	line := func(name, text string) { fmt.Fprintf(&b, "%-19s %s\n", name, text) }
	for _, f := range requestLines(s) {
		line(f.Name, f.Value)
	}
	b.WriteByte('\n')
	lines := throughputLines(s)
	width := 0
	for _, f := range lines {
		width = max(width, len(f.Name))
	}
	for i, f := range lines {
		line(first(i, "Throughput"), fmt.Sprintf("%*s %s", width, f.Name, f.Value))
	}
	b.WriteByte('\n')
	if g := latencies(s); g.rows > 0 {
		b.WriteString(strings.Join(g.lines(), "\n") + "\n\n")
	}
	if s.PeakConcurrency > 0 {
		line("Generator", number.Text(100*s.CPUShare)+"% of one core")
	}
	line("Verdict", s.Verdict.Verdict)
	for _, r := range s.Verdict.Texts() {
		fmt.Fprintln(&b, "  -", r)
	}
	if len(s.ErrorSamples) > 0 {
		fmt.Fprintln(&b, "\nErrors, the first distinct ones:")
	}
	for _, e := range s.ErrorSamples {
		fmt.Fprintln(&b, "  -", strings.ReplaceAll(strings.TrimSpace(e), "\n", "\n    "))
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// requestLines are what was sent and what came back.
func requestLines(s *load.Summary) (lines []fact) {
	add := func(name, format string, args ...any) {
		lines = append(lines, fact{name, fmt.Sprintf(format, args...)})
	}
	known := func(name string, n int) string {
		if !s.Knows(name) {
			return "unknown" // others have measured, and do not tell
		}
		return number.Whole(n)
	}
	failures := s.Failures()
	if failures != "" {
		failures = " (" + failures + ")"
	}
	add("Requests", "%s sent, %s completed, %s failed%s",
		known("requests", s.Requests), known("completed", s.Completed), known("failed", s.Failed), failures)
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
		if s.Knows(t.member) {
			add(t.name, "%s tokens%s", number.Whole(t.n), asked)
		}
	}
	if s.UsageMissing > 0 {
		add("", "counted by chunks in %s requests whose stream brought no usage", number.Whole(s.UsageMissing))
	}
	if s.PeakConcurrency > 0 { // else an engine's own benchmark did not tell
		add("In flight", "%s requests on average, %s at most", number.Text(s.MeanConcurrency),
			number.Whole(s.PeakConcurrency))
	}
	return lines
}

// throughputLines are what came out each second, each under its number.
func throughputLines(s *load.Summary) (lines []fact) {
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
		if s.Knows(t.member) {
			lines = append(lines, fact{number.Text(t.v), t.text})
		}
	}
	if s.Goodput != nil {
		lines = append(lines, fact{number.Text(*s.Goodput), "requests/s within the SLO (goodput)"})
	}
	return lines
}

// latencies are the times of a summary, a line each, with the percentiles that
// any of them has. The median is there already.
func latencies(s *load.Summary) *sheet {
	type timing struct {
		name, member string
		stats        load.Stats
	}
	told := slices.DeleteFunc([]timing{
		{"TTFT  to the first token", "ttft_ms", s.TTFT},
		{"TPOT  per token after it", "tpot_ms", s.TPOT},
		{"ITL   between chunks", "itl_ms", s.ITL},
		{"E2EL  whole request", "e2el_ms", s.E2EL},
		{"Queue in the generator", "queue_ms", s.Queue},
		{"Late against schedule", "send_lag_ms", s.SendLag},
	}, func(t timing) bool { // others publish figures without the count
		return t.stats.Count == 0 && t.stats.Mean == 0 && t.stats.Median == 0 && len(t.stats.Percentiles) == 0
	})
	var known []load.Stats
	for _, t := range told {
		known = append(known, t.stats)
	}
	label := column{name: "Latency (ms)", left: true}.filled(len(told), func(i int) string { return told[i].name })
	table := &sheet{rows: len(told), columns: []column{label}}
	for _, statistic := range slices.Concat([]string{"mean", "std", "min", "median"}, percentiles(known), []string{"max"}) {
		c := column{name: strings.Replace(statistic, "median", "p50", 1)}
		table.columns = append(table.columns, c.filled(len(told), func(i int) string {
			if v, ok := figureOf(s, told[i].stats, told[i].member, statistic); ok {
				return number.Text(v)
			}
			return ""
		}))
	}
	return table
}
