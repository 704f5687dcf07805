package load

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Fingerprint is everything about a workload that can change a number, as named words. A data file
// counts by its content; by its path only as long as its checksum is not known. A default counts
// the same whether it is said or not, and what has no effect does not count. Nor does an SLO: what
// it asks for is computed from the records, whenever it is asked.
func (w Workload) Fingerprint() map[string]string {
	w = w.effective()
	f := map[string]string{}
	for _, a := range arguments {
		if text := a.counted(&w); text != "" {
			f[cmp.Or(a.key, a.Name)] = text
		}
	}
	w.Dataset.fingerprint(f)
	return f
}

// fingerprint adds the pairs of the data set.
func (d Dataset) fingerprint(f map[string]string) {
	if d.Kind != "" {
		f["dataset.kind"] = d.Kind
	}
	for _, a := range datasetArguments {
		if text := a.counted(&d); text != "" {
			f["dataset."+cmp.Or(a.key, a.Name)] = text
		}
	}
}

// effective is the workload without what has no effect on it: recorded times are
// the data set's own, and only a rate has arrivals.
func (w Workload) effective() Workload {
	if w.Dataset.Timed() {
		w.Rate, w.Ramp, w.Stages = 0, 0, nil
	}
	paced := func(r Rate) bool { return r != 0 && r != Inf }
	if !paced(w.Rate) && !slices.ContainsFunc(w.Stages, func(s Stage) bool { return paced(s.Rate) }) {
		w.Burstiness = 0
	}
	return w
}

// compact is a JSON text in one form of all that mean the same: without blanks, its
// members sorted, its numbers as they are written.
func compact(text string) string {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return text
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encode what was decoded: %v. This is a bug in hcl.", err))
	}
	return strings.TrimSpace(b.String())
}
