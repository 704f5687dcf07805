package figure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/report/chart"
	"hclbench/results"
)

// Series is the series of each row.
type Series struct {
	All     []*chart.Series
	byKey   map[seriesKey]*chart.Series
	varying []string          // axes of the engine that are not the same everywhere
	Told    []string          // columns of published tables that tell loads apart
	by      []string          // columns that make a series instead; nil: none are said
	Refs    map[Place]int     // of cells, as [chart.Dot.Ref]; nil: nothing is drawn for a page
	own     map[string]string // of each side of a comparison, or of all, the kind of run that the report is about
}

// NewSeries finds the series of rows: GPU × engine × whatever the lab varies of
// engines, or the columns that are said, ordered by GPU and then as they come.
func NewSeries(rows []results.Row, by []string) *Series {
	s := &Series{byKey: map[seriesKey]*chart.Series{}, by: by, own: map[string]string{}}
	for _, of := range Grouped(rows, func(r results.Row) string { return AxisOf(r.Axes, SideAxis) }) {
		s.own[AxisOf(of[0].Axes, SideAxis)] = OwnKind(of)
	}
	var ofCases []string
	ofCases, s.Told = CaseAxes(rows)
	for _, name := range Axes(rows) {
		if ofLoad(name) || name == "engine" || name == SideAxis || slices.Contains(ofCases, name) {
			continue
		}
		if len(AxisValues(name, len(rows), func(i int) results.Axes { return rows[i].Axes })) > 1 {
			s.varying = append(s.varying, name)
		}
	}
	var gpus []string
	for i := range rows {
		d := &rows[i].Deployment
		gpus = Once(gpus, d.GPUs)
		key := s.whole(&rows[i])
		if s.byKey[key] == nil {
			x := &chart.Series{GPUs: d.GPUs, Engine: d.Engine, Kind: kind(d), GPU: slices.Index(gpus, d.GPUs),
				Label: s.label(&rows[i])}
			s.byKey[key] = x
			s.All = append(s.All, x)
		}
	}
	slices.SortStableFunc(s.All, func(a, b *chart.Series) int { return cmp.Compare(a.GPU, b.GPU) })
	for i, x := range s.All {
		x.Index = i
	}
	if by == nil { // else its columns name it
		s.name()
	}
	s.force(rows)
	chart.Look(s.All)
	s.part(rows)
	return s
}

// part makes of each series one for each side of a comparison. They look alike, that of A pale.
func (s *Series) part(rows []results.Row) {
	whole := maps.Clone(s.byKey)
	sided := map[*chart.Series]map[string]*chart.Series{}
	for i := range rows {
		side := AxisOf(rows[i].Axes, SideAxis)
		if side == "" {
			return // it is no comparison
		}
		key := s.whole(&rows[i])
		of := whole[key]
		if sided[of] == nil {
			sided[of] = map[string]*chart.Series{}
			delete(s.byKey, key)
		}
		if sided[of][side] == nil {
			x := *of
			x.Label, x.Pale = x.Label+", "+side, side == "A"
			sided[of][side] = &x
			s.byKey[s.key(&rows[i])] = &x
		}
	}
	all := s.All
	s.All = nil
	for _, of := range all {
		for _, side := range slices.Sorted(maps.Keys(sided[of])) { // A is drawn first, below B
			x := sided[of][side]
			x.Index = len(s.All)
			s.All = append(s.All, x)
		}
	}
}

// name puts GPUs and engine before what the labels say already. The kind alone names an
// engine where it is the only one of its kind on its GPUs.
func (s *Series) name() {
	engines := map[[2]string][]string{}
	counts := false // of GPUs differ: they belong to the names
	for _, x := range s.All {
		k := [2]string{x.GPUs, x.Kind}
		engines[k] = Once(engines[k], x.Engine)
		counts = counts || results.CountGPUs(x.GPUs) != results.CountGPUs(s.All[0].GPUs)
	}
	for _, x := range s.All {
		name := KindName(x.Kind)
		if of := engines[[2]string{x.GPUs, x.Kind}]; x.Kind == "group" || len(of) > 1 {
			name = strings.TrimSpace(name + " " + ownName(x.Engine, x.GPUs, of))
		}
		if x.GPUs != "" {
			gpu := GPUName(x.GPUs)
			if _, model, found := strings.Cut(gpu, "×"); found && !counts && !strings.Contains(model, "×") {
				gpu = model
			}
			name = gpu + " · " + name
		}
		x.Label = strings.TrimSpace(name + x.Label)
	}
}

// ownName is the name of an engine behind its kind, without its GPU, which stands before it: "default" of
// "vllm.h200-default". It stays whole where it would be that of another of these engines.
func ownName(engine, gpus string, of []string) string {
	_, model, _ := strings.Cut(strings.ToLower(gpus), "x")
	short := func(engine string) string {
		_, own, _ := strings.Cut(engine, ".")
		parts := slices.DeleteFunc(strings.Split(own, "-"), func(part string) bool { return model != "" && part == model })
		return strings.Join(parts, "-")
	}
	own := short(engine)
	if slices.ContainsFunc(of, func(e string) bool { return e != engine && short(e) == own }) {
		_, own, _ = strings.Cut(engine, ".")
	}
	return own
}

// force names what engines were told to accept of their drafts, of those that were.
func (s *Series) force(rows []results.Row) {
	of := map[*chart.Series][]string{} // what is said of each row, each once
	for i := range rows {
		x := s.byKey[s.whole(&rows[i])]
		of[x] = Once(of[x], Forced(&rows[i]))
	}
	for x, said := range of {
		switch {
		case len(said) > 1:
			x.Label += ", in part with " + ForcedMark
		case said[0] != "":
			x.Label += ", " + said[0]
		}
	}
}

// seriesKey is what rows of one series have in common.
type seriesKey struct{ gpus, engine, label, side string }

func (s *Series) key(r *results.Row) seriesKey {
	k := s.whole(r)
	k.side = AxisOf(r.Axes, SideAxis)
	return k
}

// whole is the key of a series, whatever the side.
func (s *Series) whole(r *results.Row) seriesKey {
	if s.by != nil {
		return seriesKey{label: s.label(r)}
	}
	return seriesKey{gpus: r.Deployment.GPUs, engine: r.Deployment.Engine, label: s.label(r)}
}

// label is how a series is called, or, where GPUs and engine come first, the engine's own
// axes after them: ", tp 8".
func (s *Series) label(r *results.Row) (label string) {
	if s.by == nil {
		for _, name := range s.varying {
			if v, ok := r.Axes.Value(name); ok {
				label += fmt.Sprintf(", %s %s", name, AxisText(v))
			}
		}
		return label
	}
	var parts []string
	for _, name := range s.by {
		part := WordOf(r, name)
		switch v, isAxis := r.Axes.Value(name); {
		case name == "gpus":
			part = GPUName(part)
		case name == "kind":
			part = KindName(kind(&r.Deployment))
		case part == "" && isAxis:
			part = strings.ReplaceAll(name, "_", " ") + " " + AxisText(v)
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return cmp.Or(strings.Join(parts, " · "), "the rest")
}

// Find is the series of a row; nil: it has none.
func (s *Series) Find(r *results.Row) *chart.Series { return s.byKey[s.key(r)] }
