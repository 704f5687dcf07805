package measure

import (
	"maps"
	"slices"

	"hclbench/load"
)

// adapters are the figures of each adapter's requests, and of those of the model itself, in the order of their names;
// nil: the workload has no adapters. All of them are told of requests in the same way as of the whole.
func (e evidence) adapters(figures func(own evidence) load.Figures) (all []load.OfAdapter) {
	if len(e.workload.Adapters) == 0 {
		return nil
	}
	of := map[string][]load.Record{}
	for _, r := range e.records {
		of[r.Adapter] = append(of[r.Adapter], r)
	}
	e.workload.Adapters = nil // no part has parts
	for _, name := range slices.Sorted(maps.Keys(of)) {
		e.records = of[name]
		all = append(all, load.OfAdapter{Name: name, Figures: figures(e)})
	}
	return all
}
