package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/results"
)

// match finds for each cell of A that of B: what is the same and is called the same;
// else what is the same, whatever it is called; else what is called the same, where
// that says which one is meant. Cells of A come first, in their order.
func match(a, b [][]*results.Row) (out []CellDiff) {
	like := map[*results.Row][]*results.Row{} // by the first row of each cell, the other's
	for _, key := range []func(r *results.Row) string{cellOf, identityOf, labelOf} {
		unmatched := func(cells [][]*results.Row) map[string][][]*results.Row {
			by := map[string][][]*results.Row{}
			for _, c := range cells {
				if like[c[0]] == nil {
					by[key(c[0])] = append(by[key(c[0])], c)
				}
			}
			return by
		}
		ofA, ofB := unmatched(a), unmatched(b)
		for k, x := range ofA {
			if y := ofB[k]; len(x) == 1 && len(y) == 1 {
				like[x[0][0]], like[y[0][0]] = y[0], x[0]
			}
		}
	}
	for _, c := range a {
		out = append(out, newCellDiff(c, like[c[0]]))
	}
	for _, c := range b {
		if like[c[0]] == nil {
			x := newCellDiff(nil, c)
			x.twins = slices.ContainsFunc(b,
				func(o []*results.Row) bool { return o[0] != c[0] && labelOf(o[0]) == labelOf(c[0]) })
			out = append(out, x)
		}
	}
	return out
}

func newCellDiff(a, b []*results.Row) CellDiff {
	r := slices.Concat(b, a)[0] // under the newer names
	c := CellDiff{Benchmark: r.Benchmark, Engine: r.Deployment.Engine, Axes: r.Axes, VerdictA: worst(a),
		VerdictB: worst(b), a: a, b: b}
	for _, x := range notVoid(a) { // what measured nothing is like anything
		for _, y := range notVoid(b) {
			for _, u := range unlike(x, y) {
				if !slices.ContainsFunc(c.Unlike, func(known Unlike) bool { return known.What == u.What }) {
					c.Unlike = append(c.Unlike, u)
				}
			}
		}
	}
	return c
}

// sameness is what has to be the same of two cells for their figures to be compared. A
// part that may be unknown is not held against what nobody knows.
var sameness = []struct {
	what    string
	unknown bool
	of      func(r *results.Row) string
}{
	{"kind of run", false, func(r *results.Row) string { return cmp.Or(kindOfRun(r), "measured") }},
	{"gpus", false, gpusSaid},
	{"gpus", true, gpusSeen}, // the lab's text says little, or the same of another machine
	{"model", false, func(r *results.Row) string { return r.Deployment.Model }},
	{"load", false, loadOf},
}

// Differing names what may make two cells not comparable.
func Differing() (names []string) {
	for _, part := range sameness {
		names = append(names, part.what)
	}
	return slices.Compact(names)
}

// unlike says in what two cells are not of the same thing.
func unlike(a, b *results.Row) (found []Unlike) {
	for _, part := range sameness {
		x, y := part.of(a), part.of(b)
		if x != y && !(part.unknown && (x == "" || y == "")) {
			found = append(found, Unlike{part.what, x, y})
		}
	}
	return found
}

// short is one side of it, for a sentence.
func (u Unlike) short(side string) string { return plain.Cut(cmp.Or(side, none), 200) }

// gpusSaid are the GPUs by the text of the lab.
func gpusSaid(r *results.Row) string {
	if n := gpuCount(r); n > 0 {
		return fmt.Sprintf("%d of %s", n, cmp.Or(r.Deployment.GPUs, "?"))
	}
	return r.Deployment.GPUs
}

// gpusSeen are the GPUs that were found on the hosts; empty: nobody looked.
func gpusSeen(r *results.Row) string {
	var names []string
	looked := map[string]bool{}
	for _, m := range hostsOf(&r.Deployment) {
		var f hostFacts
		if looked[m.Host] || json.Unmarshal(m.Facts, &f) != nil {
			continue
		}
		looked[m.Host] = true
		for _, g := range f.GPUs {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	var parts []string
	for _, same := range grouped(names, func(name string) string { return name }) {
		parts = append(parts, fmt.Sprintf("%d × %s", len(same), same[0]))
	}
	return strings.Join(parts, ", ")
}

// loadOf is what was sent, as JSON, without what says how to judge it, how long to
// wait for it and where its data lay.
func loadOf(r *results.Row) string {
	t := r.Job
	w, d := &t.Workload, &t.Workload.Dataset
	if t.Batch != nil {
		b := *t.Batch
		t.Batch, d = &b, &b.Dataset
	}
	w.SLO, w.Timeout, w.Stall = nil, 0, 0
	if d.SHA256 != "" {
		d.Path = ""
	}
	if d.TokenizerSHA256 != "" {
		d.Tokenizer = ""
	}
	text, err := json.Marshal(t.Work())
	if err != nil {
		return fmt.Sprint(t.Work())
	}
	return string(text)
}
