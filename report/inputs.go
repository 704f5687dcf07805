package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/report/number"
	"hclbench/results"
)

// InputDiff is something that went into measurements and differs.
type InputDiff struct {
	Engine string `json:"engine"`
	Name   string `json:"name"` // "--tp", "image digest", "host: kernel", "version: torch"
	A      string `json:"a"`    // empty: not there
	B      string `json:"b"`
	Cells  int    `json:"cells"` // that it concerns
}

// allInputs are what went into the cells and differs, each with how many cells it concerns.
func allInputs(cells []CellDiff) []InputDiff {
	var all []InputDiff
	for _, c := range cells {
		if a, b := ofInputs(c.a), ofInputs(c.b); a != nil && b != nil {
			all = append(all, inputDiffs(a, b)...)
		}
	}
	out := []InputDiff{}
	for _, same := range grouped(all, func(i InputDiff) InputDiff { return i }) {
		same[0].Cells = len(same)
		out = append(out, same[0])
	}
	return out
}

// ofInputs is the repetition that says what went into a cell: the first that measured
// something, or else that was tried. Nil: nothing is known to have gone in.
func ofInputs(rows []*results.Row) *results.Row {
	for _, r := range slices.Concat(notVoid(rows), rows) {
		if r.Summary != nil || r.RunID != "" {
			return r
		}
	}
	return nil
}

func inputDiffs(a, b *results.Row) []InputDiff {
	x, y := inputsOf(a), inputsOf(b)
	names := maps.Clone(x)
	maps.Copy(names, y)
	var out []InputDiff
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x[name] != y[name] {
			out = append(out, InputDiff{Engine: a.Deployment.Engine, Name: name, A: x[name], B: y[name]})
		}
	}
	return out
}

// inputsOf is everything that is known to have gone into a measurement, by name.
func inputsOf(r *results.Row) map[string]string {
	d := &r.Deployment
	in := map[string]string{
		"engine": d.Engine, "host": d.Host, "gpus": d.GPUs, "model": d.Model, "image": d.Image, "image digest": d.Digest,
		"hcl": r.Run.Version, "prefix cache": r.CacheReset,
	}
	maps.Copy(in, d.Identity)
	for name, v := range r.Identity {
		if name != "deployment" { // it sums the others up
			in[name] = v
		}
	}
	for name, v := range d.Versions {
		in["version: "+name] = v
	}
	for _, m := range hostsOf(d) {
		name := "host:"
		if len(d.Members) > 0 {
			name = "host " + m.Host + ":"
		}
		flatten(in, name, made(m.Facts))
	}
	var served any
	if json.Unmarshal(d.Served, &served) == nil {
		flatten(in, "served:", served)
	}
	return in
}

// flatten puts the leaves of a JSON value into a map: "host: gpus[0].driver".
func flatten(out map[string]string, name string, v any) {
	join := func(part string) string {
		if strings.HasSuffix(name, ":") {
			return name + " " + part
		}
		return name + "." + part
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			flatten(out, join(k), x)
		}
	case []any:
		for i, x := range v {
			flatten(out, fmt.Sprintf("%s[%d]", name, i), x)
		}
	case float64:
		out[name] = number.Exact(v)
	case nil:
	default:
		out[name] = fmt.Sprint(v)
	}
}
