package capacity

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/load"
)

// Against is why a measurement is no evidence for or against an SLO; drifts says that it is only for how its figures
// change over the run. Failed requests are misses, and an end before all was sent was asked for.
func Against(v load.Verdict, slo []load.Objective) (why string, drifts bool) {
	var texts []string
	drifts = true
	for _, r := range v.Reasons {
		concerned := v.Verdict == load.Void || slices.ContainsFunc(slo, func(o load.Objective) bool { return r.Concerns(o.Metric) })
		if !concerned || r.Code == "requests-failed" || r.Code == "too-few" {
			continue
		}
		texts = append(texts, r.Text)
		drifts = drifts && r.Code == "drifting"
	}
	return strings.Join(texts, "; "), drifts
}

// Lacking is the error of a line of an SLO that no answer has a value for.
func Lacking(slo []load.Objective, records []load.Record) error {
	for _, o := range slo {
		completed, known := false, false
		for i := range records {
			r := &records[i]
			_, ok := o.Of(r)
			completed, known = completed || r.OK(), known || ok && r.OK()
		}
		if completed && !known {
			return fmt.Errorf("%s cannot be judged: no answer has a %s", o.Name(), o.Metric)
		}
	}
	return nil
}
