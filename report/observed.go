package report

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/report/number"
	"hclbench/results"
	"hclbench/telemetry"
)

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
		if values := readings(t, q.name, q.host); len(values) > 0 && !(q.rare && slices.Max(values) == 0) {
			lines = append(lines, []string{q.title, number.Text(mean(values) * q.scale),
				number.Text(slices.Min(values) * q.scale), number.Text(slices.Max(values) * q.scale)})
		}
	}
	var b strings.Builder
	if len(lines) > 0 {
		for _, l := range tabulate([]column{{name: "Meanwhile", left: true}, {name: "mean"}, {name: "min"},
			{name: "max"}}, lines).lines() {
			b.WriteString(l + "\n")
		}
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-19s %s\n", name, fmt.Sprintf(format, args...))
	}
	if t.Energy > 0 && r.Summary != nil {
		text := number.Text(t.Energy) + " J of all its GPUs"
		if v, ok := energyPerToken.value(r); ok {
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
	if t.Missing > 0 {
		line("Readings", "%s of %s did not come", number.Whole(t.Missing), number.Whole(t.Expected))
	}
	for i, p := range t.Problems {
		line(first(i, "Not read"), "%s", p)
	}
	return b.String()
}

// readings are all values of a quantity, of the host or of anything else.
func readings(t *telemetry.Record, name string, host bool) (values []float64) {
	for _, s := range t.Series {
		if s.Name == name && (s.Of == telemetry.Host) == host {
			values = append(values, s.Value...)
		}
	}
	return values
}
