package table

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/telemetry"
)

// Cell prints one row in full, in lines of at most width columns, 0 being no limit: what was measured on
// what, every figure, what its identity is made of, what a search has found that tried it, what its answers are worth, and the events that
// concern it.
func Cell(w io.Writer, r results.Row, found figure.Found, events []results.Event, width int) error {
	var b bytes.Buffer
	writeFacts(&b, slices.Concat(cellFacts(&r, width), capacityFacts(&r, found.Capacities), scoreFacts(&r, found.Scores)), width)
	if r.Summary != nil {
		b.WriteByte('\n')
		if err := Summary(&b, r.Summary, width); err != nil {
			return err
		}
	}
	if text := observed(&r, width); text != "" {
		b.WriteString("\n" + text)
	}
	if len(events) > 0 {
		b.WriteString("\nWhat happened\n")
	}
	for _, e := range events {
		text := fmt.Sprintf("  %s  %-5s %s", e.Time.Local().Format(time.TimeOnly), e.Level, e.Message)
		for i, line := range strings.Split(text, "\n") {
			for j, part := range plain.Wrap(strings.Split(line, " "), " ", max(width-4, 0)) {
				b.WriteString(map[bool]string{false: "    "}[i+j == 0] + part + "\n")
			}
		}
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// cellFacts are what is known of a cell besides its figures, its commands in lines of at most width columns.
func cellFacts(r *results.Row, width int) []Fact {
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
		var words []string
		for _, word := range m.Command {
			words = append(words, inShort(word))
		}
		add(commandFact+ofMember(d, m), "%s", commandText(words, max(width-factWidth-2, 0)))
	}
	add("Prefix cache", "%s", r.CacheReset)
	for _, of := range figure.Grouped(figure.HostsOf(d), func(m results.Member) string { return m.Host }) {
		name := "Host"
		if len(d.Members) > 0 {
			name += " " + of[0].Host
		}
		made := figure.Made(of[0].Facts)
		for i, member := range slices.Sorted(maps.Keys(made)) {
			what, value := factText(member, made[member])
			add(first(i, name), "%s: %s", what, value)
		}
	}
	add("Changed since", "%s", strings.Join(r.HostChanged, "\n"))
	identity := maps.Clone(r.Identity)
	delete(identity, "axes") // of what was imported: the benchmark's line says them
	for part, text := range identity {
		identity[part] = inShort(text)
	}
	add("Identity", "%s", strings.Join(inOrder(identity, ": "), "\n"))
	add("Error", "%s", r.Error)
	return facts
}

// inShort is the beginning of a text that nobody reads whole, such as a table of answers, and how long it is.
func inShort(text string) string {
	const most, begin = 2000, 400 // bytes
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s (%s, whole in --json)", plain.Cut(text, begin), plain.Bytes(int64(len(text))))
}

// factText is a member of a host's facts, of whatever shape, in words: what is the same several times is
// counted, and bytes are sizes.
func factText(name string, value any) (what, text string) {
	short, bytes := strings.CutSuffix(name, "_bytes")
	what = strings.ReplaceAll(short, "_", " ")
	switch v := value.(type) {
	case float64:
		if bytes {
			return what, plain.Bytes(int64(v))
		}
		return what, number.Short(v)
	case map[string]any:
		var parts []string
		for _, member := range slices.Sorted(maps.Keys(v)) {
			inner, text := factText(member, v[member])
			parts = append(parts, inner+" "+text)
		}
		return what, strings.Join(parts, ", ")
	case []any:
		var parts []string
		for _, of := range figure.Grouped(v, func(x any) string { _, text := factText(name, x); return text }) {
			_, text := factText(name, of[0])
			if len(of) > 1 {
				text = fmt.Sprintf("%d × %s", len(of), text)
			}
			parts = append(parts, text)
		}
		return what, strings.Join(parts, "; ")
	}
	return what, fmt.Sprint(value)
}

// observed is what GPUs, host and engine have told while a cell was measured.
func observed(r *results.Row, width int) string {
	t := r.Telemetry
	if t == nil {
		return ""
	}
	var lines [][]string
	for _, q := range figure.Quantities(figure.GPUs, telemetry.Host, telemetry.Engine) {
		title := q.Title
		if q.Unit != "" {
			title += " (" + q.Unit + ")"
		}
		for _, member := range q.Sources(t, telemetry.Series.Member) {
			values := readings(t, q.Name, q.Of == telemetry.Host, member)
			if len(values) == 0 || q.Rare && slices.Max(values) == 0 {
				continue
			}
			lines = append(lines, []string{strings.TrimSuffix(title+", "+member, ", "), number.Text(figure.Mean(values) * q.Scale),
				number.Text(slices.Min(values) * q.Scale), number.Text(slices.Max(values) * q.Scale)})
		}
	}
	var b bytes.Buffer
	if len(lines) > 0 {
		for _, l := range Tabulate([]Column{{Name: "Meanwhile", Left: true}, {Name: "mean"}, {Name: "min"},
			{Name: "max"}}, lines).Lines() {
			b.WriteString(l + "\n")
		}
	}
	line := func(name, format string, args ...any) {
		writeFacts(&b, []Fact{{name, fmt.Sprintf(format, args...)}}, width)
	}
	if t.Energy > 0 && r.Summary != nil {
		text := number.Text(t.Energy) + " J of all its GPUs"
		if v, ok := figure.EnergyPerToken.Value(r); ok {
			text += ", " + number.Text(v) + " per output token"
		}
		line("Energy", "%s", text)
	}
	hits := t.PrefixHitRate
	if tellsSources(t) { // which says more
		hits = nil
	}
	name := ""
	for _, f := range Counted(r) {
		if f.Name == name {
			line("", "%s", f.Value)
		} else {
			line(f.Name, "%s", f.Value)
		}
		name = f.Name
	}
	for _, x := range []struct {
		name  string
		value *float64
		scale float64
		unit  string
	}{
		{"Prefix cache", hits, 100, " % of prompt tokens were in it"},
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
		if s.Name == name && (s.Of == telemetry.Host) == host && s.Member() == member {
			values = append(values, s.Value...)
		}
	}
	return values
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
