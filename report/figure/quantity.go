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

// Counted is what engines and routers count of a cell, see [telemetry.Count], and how reports show it.
type Counted struct {
	Group string  // what it stands with
	Name  string  // of the count
	Form  string  // how it is said: "queue %s"
	Unit  string  // in which it is shown, "B" for bytes; empty: a count
	Scale float64 // what was counted, times this, is in that unit
	Of    string  // what there is one of for each: "request"; its mean is shown. Empty: the sum is
	Share bool    // how much it is of its group is shown, too
}

// Counts are all, in the order in which they are shown.
var Counts = []Counted{
	{Group: "Engine's clock", Name: telemetry.QueueTime, Form: "queue %s", Unit: "ms", Scale: 1e3, Of: "request"},
	{Group: "Engine's clock", Name: telemetry.PrefillTime, Form: "prefill %s", Unit: "ms", Scale: 1e3, Of: "request"},
	{Group: "Engine's clock", Name: telemetry.EngineTTFT, Form: "TTFT %s", Unit: "ms", Scale: 1e3, Of: "request"},
	{Group: "Engine's clock", Name: telemetry.DecodeTime, Form: "decode %s", Unit: "ms", Scale: 1e3, Of: "request"},
	{Group: "Engine's clock", Name: telemetry.EngineTPOT, Form: "TPOT %s", Unit: "ms", Scale: 1e3, Of: "request"},
	{Group: "Engine's clock", Name: telemetry.EngineE2EL, Form: "E2EL %s", Unit: "ms", Scale: 1e3, Of: "request"},
	{Group: "Prompt tokens", Name: telemetry.Computed, Form: "%s computed", Scale: 1, Share: true},
	{Group: "Prompt tokens", Name: telemetry.CachedOnGPU, Form: "%s from its own KV cache", Scale: 1, Share: true},
	{Group: "Prompt tokens", Name: telemetry.CachedOnHost, Form: "%s from the host's memory", Scale: 1, Share: true},
	{Group: "Prompt tokens", Name: telemetry.CachedOnDisk, Form: "%s from storage", Scale: 1, Share: true},
	{Group: "Prompt tokens", Name: telemetry.Fetched, Form: "%s from another instance", Scale: 1, Share: true},
	{Group: "Prompt tokens", Name: telemetry.CachedOutside, Form: "%s from outside the engine", Scale: 1, Share: true},
	{Group: "Requests ended", Name: telemetry.Ended, Form: "%s", Scale: 1},
	{Group: "Requests ended", Name: telemetry.Aborted, Form: "%s aborted", Scale: 1},
	{Group: "Requests ended", Name: telemetry.Refused, Form: "%s refused", Scale: 1},
	{Group: "Requests ended", Name: telemetry.Errors, Form: "%s answered with an error", Scale: 1},
	{Group: "Requests ended", Name: telemetry.Retried, Form: "%s sent again", Scale: 1},
	{Group: "Requests ended", Name: telemetry.Preempted, Form: "%s times one was pushed back", Scale: 1},
	{Group: "KV transferred", Name: telemetry.Transferred, Form: "%s in all", Unit: "B", Scale: 1},
	{Group: "KV transferred", Name: telemetry.TransferBlocks, Form: "%s descriptors", Scale: 1},
	{Group: "KV transferred", Name: telemetry.TransferTime, Form: "%s each", Unit: "ms", Scale: 1e3, Of: "transfer"},
	{Group: "KV transferred", Name: telemetry.OffloadLoaded, Form: "%s loaded", Unit: "B", Scale: 1},
	{Group: "KV transferred", Name: telemetry.OffloadStored, Form: "%s stored", Unit: "B", Scale: 1},
	{Group: "KV cache", Name: telemetry.CacheTokens, Form: "room for %s tokens", Scale: 1},
	{Group: "KV cache", Name: telemetry.CacheBytes, Form: "%s", Unit: "B", Scale: 1},
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
