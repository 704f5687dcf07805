package measure

import (
	"maps"
	"slices"
	"time"

	"hclbench/load"
)

// adapters are the figures of each adapter's requests, and of those of the model itself, in the order of their names;
// nil: the workload has no adapters.
func (e evidence) adapters(d time.Duration, records []load.Record) (all []load.OfAdapter) {
	if len(e.workload.Adapters) == 0 {
		return nil
	}
	of := map[string][]load.Record{}
	for _, r := range records {
		of[r.Adapter] = append(of[r.Adapter], r)
	}
	e.workload.Adapters = nil // no part has parts
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, load.OfAdapter{Name: name, Figures: e.figures(d, of[name])})
	}
	return all
}
