package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/plain"
)

// Text prints one summary in full: what `hcl bench` shows. docs/method.md defines
// the names.
func Text(w io.Writer, s *load.Summary) error {
	var b bytes.Buffer
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-19s %s\n", name, fmt.Sprintf(format, args...))
	}

	known := func(name, n string) string {
		if !s.Knows(name) {
			return "unknown" // others have measured, and do not tell
		}
		return n
	}
	line("Requests", "%s sent, %s completed, %s failed%s", known("requests", whole(s.Requests)), known("completed", whole(s.Completed)),
		known("failed", whole(s.Failed)), orNothing(s.Failures()))
	if s.Knows("duration_s") {
		line("Duration", "%s s from the first dispatch to the last response", number(s.Duration))
	}
	for _, t := range []struct {
		name, member string
		n, asked     int64
	}{{"Input", "input_tokens", s.InputTokens, s.AskedInput}, {"Output", "output_tokens", s.OutputTokens, s.AskedOutput}} {
		if !s.Knows("asked_" + t.member) {
			t.asked = t.n
		}
		if s.Knows(t.member) {
			line(t.name, "%s tokens%s", whole(t.n), asked(t.n, t.asked))
		}
	}
	if s.UsageMissing > 0 {
		line("", "counted by chunks in %s requests whose stream brought no usage", whole(s.UsageMissing))
	}
	if s.PeakConcurrency > 0 { // else an engine's own benchmark did not tell
		line("In flight", "%s requests on average, %s at most", number(s.MeanConcurrency), whole(s.PeakConcurrency))
	}
	b.WriteByte('\n')

	best := ""
	if s.PeakOutputThroughput > 0 {
		best = ", " + number(s.PeakOutputThroughput) + " in the best second"
	}
	var throughput [][2]string
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
			throughput = append(throughput, [2]string{number(t.v), t.text})
		}
	}
	if s.Goodput != nil {
		throughput = append(throughput, [2]string{number(*s.Goodput), "requests/s within the SLO (goodput)"})
	}
	width := 0
	for _, t := range throughput {
		width = max(width, len(t[0]))
	}
	for i, t := range throughput {
		name := ""
		if i == 0 {
			name = "Throughput"
		}
		line(name, "%*s %s", width, t[0], t[1])
	}
	b.WriteByte('\n')

	if g := latencies(s); g.rows > 0 {
		for _, l := range g.lines() {
			fmt.Fprintln(&b, l)
		}
		b.WriteByte('\n')
	}

	if s.PeakConcurrency > 0 {
		line("Generator", "%s%% of one core", number(100*s.CPUShare))
	}
	line("Verdict", "%s", s.Verdict.Verdict)
	for _, r := range s.Verdict.Texts() {
		fmt.Fprintln(&b, "  -", r)
	}
	if len(s.ErrorSamples) > 0 {
		fmt.Fprintln(&b, "\nErrors, the first distinct ones:")
		for _, e := range s.ErrorSamples {
			fmt.Fprintln(&b, "  -", strings.ReplaceAll(strings.TrimSpace(e), "\n", "\n    "))
		}
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// orNothing puts what there is to say into brackets.
func orNothing(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// asked is said when a server took or gave other than what was asked for.
func asked(got, asked int64) string {
	if got == asked {
		return ""
	}
	return ", " + whole(asked) + " asked for"
}

// told reports whether one figure of a latency is known, by the name of its column: a 0
// is one where requests were counted and nobody says that it is not.
func told(s *load.Summary, member, name string, count int, v float64) bool {
	if name == "p50" {
		name = "median"
	}
	return v > 0 || count > 0 && s.Knows(member+"."+name)
}

// latencies are the times of a summary, a line each, with the percentiles that
// any of them has. The median is there already.
func latencies(s *load.Summary) *grid {
	type metric struct {
		name, member string
		stats        load.Stats
	}
	metrics := slices.DeleteFunc([]metric{
		{"TTFT  to the first token", "ttft_ms", s.TTFT},
		{"TPOT  per token after it", "tpot_ms", s.TPOT},
		{"ITL   between chunks", "itl_ms", s.ITL},
		{"E2EL  whole request", "e2el_ms", s.E2EL},
		{"Queue in the generator", "queue_ms", s.Queue},
		{"Late against schedule", "send_lag_ms", s.SendLag},
	}, func(m metric) bool { // others publish figures without the count
		return m.stats.Count == 0 && m.stats.Mean == 0 && m.stats.Median == 0 && len(m.stats.Percentiles) == 0
	})

	g := &grid{rows: len(metrics)}
	label := column{name: "Latency (ms)", left: true}
	for _, m := range metrics {
		label.cells = append(label.cells, m.name)
	}
	g.columns = append(g.columns, label)
	add := func(name string, of func(load.Stats) (float64, bool)) {
		c := column{name: name}
		for _, m := range metrics {
			if v, ok := of(m.stats); ok && told(s, m.member, name, m.stats.Count, v) {
				c.cells = append(c.cells, number(v))
			} else {
				c.cells = append(c.cells, none)
			}
		}
		g.columns = append(g.columns, c)
	}
	add("mean", func(s load.Stats) (float64, bool) { return s.Mean, true })
	add("std", func(s load.Stats) (float64, bool) { return s.Std, true })
	add("min", func(s load.Stats) (float64, bool) { return s.Min, true })
	add("p50", func(s load.Stats) (float64, bool) { return s.Median, true })
	seen := map[float64]string{}
	for _, m := range metrics {
		for p := range m.stats.Percentiles {
			if v, err := strconv.ParseFloat(p, 64); err == nil && v != 50 {
				seen[v] = p
			}
		}
	}
	for _, v := range slices.Sorted(maps.Keys(seen)) {
		add("p"+seen[v], func(s load.Stats) (float64, bool) { f, ok := s.Percentiles[seen[v]]; return f, ok })
	}
	add("max", func(s load.Stats) (float64, bool) { return s.Max, true })
	return g
}
