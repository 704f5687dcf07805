package report

import (
	"fmt"
	"strings"

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
	title, mean, least, most := column{name: "Meanwhile", left: true}, column{name: "mean"}, column{name: "min"}, column{name: "max"}
	g := &grid{}
	for _, q := range quantities {
		sum, n, low, high := 0.0, 0, 0.0, 0.0
		for _, s := range t.Series {
			if s.Name != q.name || (s.Of == telemetry.Host) != q.host {
				continue
			}
			for _, v := range s.Value {
				v *= q.scale
				if n == 0 {
					low, high = v, v
				}
				sum, n, low, high = sum+v, n+1, min(low, v), max(high, v)
			}
		}
		if n == 0 || q.rare && high == 0 {
			continue
		}
		g.rows++
		title.cells = append(title.cells, q.title)
		mean.cells = append(mean.cells, number(sum/float64(n)))
		least.cells = append(least.cells, number(low))
		most.cells = append(most.cells, number(high))
	}
	var b strings.Builder
	if g.rows > 0 {
		g.columns = []column{title, mean, least, most}
		for _, l := range g.lines() {
			b.WriteString(l + "\n")
		}
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-19s %s\n", name, fmt.Sprintf(format, args...))
	}
	if t.Energy > 0 && r.Summary != nil {
		text := number(t.Energy) + " J of all its GPUs"
		if v, ok := energyPerToken.value(r); ok {
			text += ", " + number(v) + " per output token"
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
			line(x.name, "%s%s", number(*x.value*x.scale), x.unit)
		}
	}
	if t.Missing > 0 {
		line("Readings", "%s of %s did not come", whole(t.Missing), whole(t.Expected))
	}
	for i, p := range t.Problems {
		line(first(i, "Not read"), "%s", p)
	}
	return b.String()
}
