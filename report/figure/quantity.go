package figure

import (
	"slices"

	"hclbench/telemetry"
)

// What quantities are read of, besides [telemetry.Host] and [telemetry.Engine].
const (
	GPUs    = "gpus"
	Network = "network"
)

// Quantity is what is read once a second while a cell is measured, and how reports show it.
type Quantity struct {
	Of    string  // [GPUs], [Network], [telemetry.Host] or [telemetry.Engine]
	Name  string  // of its series
	Title string  // of one source, for tables; empty: they do not have it
	Chart string  // of all sources together, over time; empty: charts do not have it
	Unit  string  // in which it is shown; empty: a count
	Scale float64 // what was read, times this, is in that unit
	Sum   bool    // charts have the sum over the sources, else their mean
	Rare  bool    // tables do not have it where it was always 0
}

var quantities = []Quantity{
	{Of: GPUs, Name: telemetry.Power, Title: "Power of a GPU", Chart: "Power of all GPUs", Unit: "W", Scale: 1, Sum: true},
	{Of: GPUs, Name: telemetry.Utilisation, Title: "Utilisation of a GPU", Chart: "Utilisation of the GPUs, on average", Unit: "%", Scale: 1},
	{Of: GPUs, Name: telemetry.Memory, Title: "Memory of a GPU", Unit: "GiB", Scale: 1. / (1 << 30)},
	{Of: GPUs, Name: telemetry.Temperature, Title: "Temperature of a GPU", Unit: "°C", Scale: 1},
	{Of: GPUs, Name: telemetry.SMClock, Title: "Clock of a GPU", Chart: "Clock of the GPUs, on average", Unit: "MHz", Scale: 1},
	{Of: GPUs, Name: telemetry.Throttled, Title: "GPUs throttled", Unit: "%", Scale: 100, Rare: true},
	{Of: GPUs, Name: telemetry.PowerCapped, Title: "GPUs at their power limit", Unit: "%", Scale: 100, Rare: true},
	{Of: telemetry.Host, Name: telemetry.CPU, Title: "Processors of the host", Unit: "%", Scale: 1},
	{Of: telemetry.Host, Name: telemetry.Others, Title: "Of them for others", Unit: "%", Scale: 1},
	{Of: telemetry.Engine, Name: telemetry.Running, Title: "Requests in the engine", Chart: "Requests running in the engine", Scale: 1, Sum: true},
	{Of: telemetry.Engine, Name: telemetry.Waiting, Title: "Requests in its queue", Chart: "Requests waiting in the engine", Scale: 1, Sum: true},
	{Of: telemetry.Engine, Name: telemetry.KVCache, Title: "KV cache in use", Chart: "KV cache in use", Unit: "%", Scale: 100},
	{Of: Network, Name: telemetry.Sent, Chart: "Sent by the network devices", Unit: "MB/s", Scale: 1e-6, Sum: true},
	{Of: Network, Name: telemetry.Received, Chart: "Received by the network devices", Unit: "MB/s", Scale: 1e-6, Sum: true},
}

// Quantities are those that are read of some things, of one after the other.
func Quantities(of ...string) (all []Quantity) {
	for _, thing := range of {
		for _, q := range quantities {
			if q.Of == thing {
				all = append(all, q)
			}
		}
	}
	return all
}

// Sources are the members that have told the quantity, or their roles, in order; "" stands for what is of no member.
func (q Quantity) Sources(t *telemetry.Record, source func(telemetry.Series) string) (all []string) {
	for _, s := range t.Series {
		if s.Name == q.Name {
			all = Once(all, source(s))
		}
	}
	slices.Sort(all)
	return all
}
