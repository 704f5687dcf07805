package table

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/telemetry"
)

// Cell prints one row in full: what was measured on what, every figure, what its
// identity is made of, and the events that concern it.
func Cell(w io.Writer, r results.Row, events []results.Event) error {
	var b bytes.Buffer
	for _, f := range cellFacts(&r) {
		if text := strings.TrimSpace(f.Value); text != "" {
			fmt.Fprintf(&b, "%-19s %s\n", f.Name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 20)))
		}
	}
	if r.Summary != nil {
		b.WriteByte('\n')
		if err := Text(&b, r.Summary); err != nil {
			return err
		}
	}
	if text := observed(&r); text != "" {
		b.WriteString("\n" + text)
	}
	if len(events) > 0 {
		b.WriteString("\nWhat happened\n")
	}
	for _, e := range events {
		fmt.Fprintf(&b, "  %s  %-5s %s\n", e.Time.Local().Format(time.TimeOnly), e.Level,
			strings.ReplaceAll(e.Message, "\n", "\n    "))
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// cellFacts are what is known of a cell besides its figures; what is not is empty.
func cellFacts(r *results.Row) []Fact {
	d := &r.Deployment
	facts := []Fact{{"Cell", r.ID}, {"Benchmark", r.Benchmark + "  " + figure.CellName("", r.Axes)}}
	add := func(name, format string, args ...any) {
		facts = append(facts, Fact{name, fmt.Sprintf(format, args...)})
	}
	if r.Repetition > 1 {
		add("Repetition", "%d", r.Repetition)
	}
	add("Run", "%s  hcl %s of %s, %s", r.RunID, r.Run.Command, r.Run.Lab, r.Run.Version)
	if !r.Started.IsZero() { // others do not tell
		add("Measured", "%s, %s", r.Started.Local().Format(time.DateTime),
			r.Finished.Sub(r.Started).Round(100*time.Millisecond))
	}
	if r.Stale {
		add("Stale", "the lab no longer asks for it")
	}
	add("Engine", "%s on %s %s", d.Engine, d.Host, d.GPUs)
	facts = append(facts, deploymentFacts(d)...)
	if d.Ready == 0 && len(d.Command) > 0 && !figure.IsMeasured(r) {
		add("Ready", "never, as far as is known")
	}
	for _, m := range d.All() {
		add("Command"+ofMember(d, m), "%s", commandText(m.Command))
	}
	add("Prefix cache", "%s", r.CacheReset)
	for _, of := range figure.Grouped(figure.HostsOf(d), func(m results.Member) string { return m.Host }) {
		name := "Host"
		if len(d.Members) > 0 {
			name += " " + of[0].Host
		}
		if text, err := json.MarshalIndent(figure.Made(of[0].Facts), "", "  "); err == nil && string(text) != "null" {
			add(name, "%s", text)
		}
	}
	add("Changed since", "%s", strings.Join(r.HostChanged, "\n"))
	add("Identity", "%s", strings.Join(inOrder(r.Identity, ": "), "\n"))
	add("Error", "%s", r.Error)
	return facts
}

func commandText(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = plain.Quote(w)
	}
	return strings.Join(words, " ")
}

// first is a name in the first line of several.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

// quantities are what is read meanwhile, as `hcl show` prints it, GPUs first.
var quantities = []struct {
	host        bool // the host's own; else the GPUs' or the engine's
	name, title string
	scale       float64
	rare        bool // not shown where it was always 0
}{
	{false, telemetry.Power, "Power of a GPU (W)", 1, false},
	{false, telemetry.Utilisation, "Utilisation of a GPU (%)", 1, false},
	{false, telemetry.Memory, "Memory of a GPU (GiB)", 1. / (1 << 30), false},
	{false, telemetry.Temperature, "Temperature of a GPU (°C)", 1, false},
	{false, telemetry.SMClock, "Clock of a GPU (MHz)", 1, false},
	{false, telemetry.Throttled, "GPUs throttled (%)", 100, true},
	{false, telemetry.PowerCapped, "GPUs at their power limit (%)", 100, true},
	{true, telemetry.CPU, "Processors of the host (%)", 1, false},
	{false, telemetry.Running, "Requests in the engine", 1, false},
	{false, telemetry.Waiting, "Requests in its queue", 1, false},
	{false, telemetry.KVCache, "KV cache in use (%)", 100, false},
}

// observed is what GPUs, host and engine have told while a cell was measured.
func observed(r *results.Row) string {
	t := r.Telemetry
	if t == nil {
		return ""
	}
	var lines [][]string
	for _, q := range quantities {
		for _, member := range append([]string{""}, membersTold(t, q.name)...) {
			values := readings(t, q.name, q.host, member)
			if len(values) == 0 || q.rare && slices.Max(values) == 0 {
				continue
			}
			lines = append(lines, []string{strings.TrimSuffix(q.title+", "+member, ", "), number.Text(figure.Mean(values) * q.scale),
				number.Text(slices.Min(values) * q.scale), number.Text(slices.Max(values) * q.scale)})
		}
	}
	var b strings.Builder
	if len(lines) > 0 {
		for _, l := range Tabulate([]Column{{Name: "Meanwhile", Left: true}, {Name: "mean"}, {Name: "min"},
			{Name: "max"}}, lines).Lines() {
			b.WriteString(l + "\n")
		}
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-19s %s\n", name, fmt.Sprintf(format, args...))
	}
	if t.Energy > 0 && r.Summary != nil {
		text := number.Text(t.Energy) + " J of all its GPUs"
		if v, ok := figure.EnergyPerToken.Value(r); ok {
			text += ", " + number.Text(v) + " per output token"
		}
		line("Energy", "%s", text)
	}
	for _, x := range []struct {
		name  string
		value *float64
		scale float64
		unit  string
	}{
		{"Prefix cache", t.PrefixHitRate, 100, " % of prompt tokens were in it"},
		{"Speculation", t.Acceptance, 100, " % of drafted tokens were accepted"},
		{"", t.StepTokens, 1, " tokens a step"},
	} {
		if x.value != nil {
			line(x.name, "%s%s", number.Text(*x.value*x.scale), x.unit)
		}
	}
	for i, n := range networks(r) {
		line(first(i, "Network"), "%s", n)
	}
	if t.Missing > 0 {
		line("Readings", "%s of %s did not come", number.Whole(t.Missing), number.Whole(t.Expected))
	}
	for i, p := range t.Problems {
		line(first(i, "Not read"), "%s", p)
	}
	return b.String()
}

// readings are all values of a quantity, of hosts, of a member, or of anything else.
func readings(t *telemetry.Record, name string, host bool, member string) (values []float64) {
	for _, s := range t.Series {
		if s.Name == name && (s.Of == telemetry.Host) == host && memberOf(s) == member {
			values = append(values, s.Value...)
		}
	}
	return values
}

// memberOf is the member of an engine of several that has told a series; empty: it is not of one.
func memberOf(s telemetry.Series) string {
	if !strings.Contains(s.Of, " ") { // "gpu0", "engine", "host", "mlx5_0"
		return ""
	}
	return s.Of
}

// membersTold are the members that have told a quantity.
func membersTold(t *telemetry.Record, name string) (members []string) {
	for _, s := range t.Series {
		if m := memberOf(s); m != "" && s.Name == name {
			members = figure.Once(members, m)
		}
	}
	slices.Sort(members)
	return members
}

// RoleOf is the role of the member that has told a series, "decode" of "decode 0 rank 1"; empty: it
// is not of one.
func RoleOf(s telemetry.Series) string {
	role, _, _ := strings.Cut(memberOf(s), " ")
	return role
}

// RolesTold are the roles whose members have told a quantity, an empty one for what is not of members.
func RolesTold(t *telemetry.Record, name string) (roles []string) {
	for _, s := range t.Series {
		if s.Name == name {
			roles = figure.Once(roles, RoleOf(s))
		}
	}
	slices.Sort(roles)
	return roles
}

// networks say what each host has transferred between the members of an engine, and how evenly
// its devices have shared that.
func networks(r *results.Row) (lines []string) {
	for _, of := range figure.Grouped(r.Telemetry.Series, func(s telemetry.Series) string { return s.Host }) {
		rates := map[string]float64{}
		byDevice := map[string]float64{}
		for _, s := range of {
			if s.Name == telemetry.Sent || s.Name == telemetry.Received {
				rates[s.Name] += figure.Mean(s.Value)
				byDevice[s.Of] += figure.Mean(s.Value)
			}
		}
		if len(byDevice) == 0 {
			continue
		}
		host := cmp.Or(of[0].Host, "the load's sender")
		line := fmt.Sprintf("%s: sent %s/s, received %s/s", host,
			plain.Bytes(int64(rates[telemetry.Sent])), plain.Bytes(int64(rates[telemetry.Received])))
		if all := rates[telemetry.Sent] + rates[telemetry.Received]; len(byDevice) > 1 && all > 0 {
			shares := slices.Sorted(maps.Values(byDevice))
			line += fmt.Sprintf("; each of its %d devices %.0f to %.0f %% of that", len(shares), 100*shares[0]/all, 100*shares[len(shares)-1]/all)
		}
		lines = append(lines, line)
	}
	return lines
}

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
	if g := latencies(s); g.Rows > 0 {
		b.WriteString(strings.Join(g.Lines(), "\n") + "\n")
		if marks := g.marks(); marks != nil {
			b.WriteString(say.FewerText(marks) + "\n")
		}
		b.WriteByte('\n')
	}
	for _, g := range []*Sheet{adaptersOf(s), Clients(s)} {
		if g != nil {
			b.WriteString(strings.Join(g.Lines(), "\n") + "\n\n")
		}
	}
	if text := say.Surest(s); text != "" {
		line("At most, 99 % sure", text)
	}
	for i, text := range say.Unbounded(s) {
		line(first(i, "No 95 % interval"), text)
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
func requestLines(s *load.Summary) (lines []Fact) {
	add := func(name, format string, args ...any) {
		lines = append(lines, Fact{name, fmt.Sprintf(format, args...)})
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

// latencies are the times of a summary, a line each, with the percentiles that any of them has, and
// below each a line with the intervals that it has.
func latencies(s *load.Summary) *Sheet {
	type timing struct {
		name, member string
		stats        load.Stats
		ofServer     bool // a sample of what it does; what we did ourselves is known
	}
	var known []load.Stats
	var lines []func(statistic string) Entry
	var names []string
	for _, t := range []timing{
		{"TTFT  to the first token", "ttft_ms", s.TTFT, true},
		{"TTFA  to the answer's first token", "ttfa_ms", figure.TTFA.Of(s), true},
		{"TPOT  per token after it", "tpot_ms", s.TPOT, true},
		{"ITL   between chunks", "itl_ms", s.ITL, true},
		{"E2EL  whole request", "e2el_ms", s.E2EL, true},
		{"Queue in the generator", "queue_ms", s.Queue, false},
		{"Late against schedule", "send_lag_ms", s.SendLag, false},
	} {
		if t.stats.Count == 0 && t.stats.Mean == 0 && t.stats.Median == 0 && len(t.stats.Percentiles) == 0 {
			continue // others publish figures without the count
		}
		known, names = append(known, t.stats), append(names, t.name)
		lines = append(lines, func(statistic string) Entry {
			if n := t.stats.Lacks(statistic); n > 0 && t.ofServer {
				return Entry{Needs: n}
			}
			if v, ok := figure.FigureOf(s, t.stats, t.member, statistic); ok {
				return Entry{Text: number.Text(v)}
			}
			return Entry{}
		})
		if figure.Bounded(s, t.member) {
			names = append(names, "  in 95 of 100 runs")
			lines = append(lines, func(statistic string) (e Entry) {
				if x, ok := s.Intervals[t.member+"."+statistic]; ok {
					e.Text = say.BoundsText(x)
				}
				return e
			})
		}
	}
	label := Column{Name: "Latency (ms)", Left: true}.filled(len(names), func(i int) string { return names[i] })
	table := &Sheet{Rows: len(names), Columns: []Column{label}}
	for _, statistic := range append(append([]string{"mean", "std", "min", "median"}, figure.Percentiles(known)...), "max") {
		c := Column{Name: strings.Replace(statistic, "median", "p50", 1)}
		table.Columns = append(table.Columns, c.With(len(names), func(i int) Entry { return lines[i](statistic) }))
	}
	return table
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

// deploymentFacts are what is known of an engine that served; what is not is empty.
func deploymentFacts(d *results.Deployment) []Fact {
	var ready string
	if d.Ready > 0 {
		ready = number.Text(d.Ready) + " s after its start"
	}
	var phases []string
	for _, p := range d.Phases {
		phases = append(phases, number.Text(p.Seconds)+" s "+p.Name)
	}
	var own results.Member // of several each has its own
	if len(d.Members) == 0 {
		own = results.Member{Image: d.Image, Digest: d.Digest, Versions: d.Versions, Listener: d.Listener}
	}
	facts := []Fact{
		{"Model", d.Model}, {"Image", imageOf(own)}, {"Ready", ready}, {"of it", strings.Join(phases, "\n")},
		{"Compile cache", d.CompileCache}, {"Versions", strings.Join(inOrder(own.Versions, " "), "\n")},
		{"Server", serverOf(own)},
	}
	if n := d.StreamInterval(); n > 1 {
		facts = append(facts, Fact{"Streams", number.Count(n, "token") + " at a time: ITL is between chunks of so many"})
	}
	if tokens, by := d.ForcedAcceptance(); by != "" {
		said := "drafted tokens are accepted whatever they are, by " + by
		if tokens > 0 {
			said = number.Text(tokens) + " tokens a step: " + said
		}
		facts = append(facts, Fact{"Forced acceptance", said})
	}
	if d.PricePerHour > 0 {
		facts = append(facts, Fact{"Price", number.Text(d.PricePerHour) + " USD per hour, all GPUs of its hosts"})
	}
	for _, m := range d.Members {
		place := m.Name() + " on " + m.Host
		if m.Role != "router" && m.GPUs != "" {
			place += ", " + gpusUsed(m.GPUs, m.GPUCount)
		}
		lines := []string{place, imageOf(m), strings.Join(inOrder(m.Versions, " "), ", "), serverOf(m)}
		facts = append(facts, Fact{"Member", strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")})
	}
	return facts
}

// inOrder are the names of a map with their values, "torch 2.7.0".
func inOrder(m map[string]string, separator string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, name+separator+m[name])
	}
	return all
}

// gpusUsed are the GPUs of hosts, and how many of them are used: "8×H200, 4 of them used".
func gpusUsed(gpus string, used int) string {
	if used > 0 && used < results.CountGPUs(gpus) {
		return fmt.Sprintf("%s, %d of them used", figure.GpuName(gpus), used)
	}
	return figure.GpuName(gpus)
}

func imageOf(m results.Member) string { return strings.TrimSpace(m.Image + " " + m.Digest) }

// serverOf says whether a member's own server answered, where that is known.
func serverOf(m results.Member) string {
	if m.Listener == nil {
		return ""
	}
	return m.Listener.String()
}

// ofMember says which of several members of a deployment is meant: " of decode 0 rank 1".
func ofMember(d *results.Deployment, m results.Member) string {
	if len(d.Members) == 0 {
		return ""
	}
	return " of " + m.Name()
}

// Engine is what is known of an engine that served.
type Engine struct {
	Name   string
	Facts  []Fact
	Blocks []Fact
}

// Engines are the deployments on which the cells were measured, each once.
func Engines(rows []results.Row) (all []Engine) {
	for _, of := range figure.Grouped(rows, func(r results.Row) string {
		d := &r.Deployment
		return d.ID + d.Digest + d.Engine + d.GPUs + string(d.Served)
	}) {
		all = append(all, newEngine(&of[0].Deployment))
	}
	return all
}

func newEngine(d *results.Deployment) Engine {
	e := Engine{Name: cmp.Or(d.Engine, d.ID), Facts: slices.Concat(
		[]Fact{{"Kind", figure.KindName(d.Kind)}, {"Host", d.Host}, {"GPUs", gpusUsed(d.GPUs, d.GPUCount)}}, deploymentFacts(d))}
	for _, m := range d.All() {
		e.Blocks = append(e.Blocks, Fact{"Command" + ofMember(d, m), commandText(m.Command)})
	}
	e.Blocks = append(e.Blocks, Fact{"Identity", strings.Join(inOrder(d.Identity, " = "), "\n")})
	for _, m := range figure.HostsOf(d) {
		var served bytes.Buffer
		if said := d.ServedBy(m); len(said) > 0 && json.Indent(&served, said, "", "  ") == nil {
			e.Blocks = append(e.Blocks, Fact{"Served configuration" + ofMember(d, m), served.String()})
		}
	}
	empty := func(f Fact) bool { return f.Value == "" }
	e.Facts, e.Blocks = slices.DeleteFunc(e.Facts, empty), slices.DeleteFunc(e.Blocks, empty)
	return e
}
