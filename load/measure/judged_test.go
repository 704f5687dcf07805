package measure

import (
	"time"

	"hclbench/load"
)

// Summarize is what a run measured, judged by its records alone.
func Summarize(w load.Workload, percentiles []float64, started time.Time, d time.Duration, records []load.Record) load.Summary {
	s := summarize(w, percentiles, started, d, records)
	for _, part := range s.Parts() {
		part.Verdict = evidence{workload: w, records: records}.verdict(*part, nil)
	}
	return s
}
