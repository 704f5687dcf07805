package report

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"hclbench/results"
	"hclbench/where"
)

// Where keeps the rows for which a condition of package where holds. A name is an
// axis, a metric, which also has the name above its column, or another column of [CSV];
// "engine" is the engine's name or its kind. A name that no row knows is an error.
func Where(rows []results.Row, condition string) ([]results.Row, error) {
	fields := newFields(rows)
	holds, err := where.Parse(condition, fields.names())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool { return !holds(fields.of(&r)) }), nil
}

// CompleteWhere returns what a condition that is being typed may go on as, in a lab that has these values
// of columns and axes.
func CompleteWhere(begun string, known map[string][]string) []string {
	names := once(newFields(nil).names(), slices.Collect(maps.Keys(known))...)
	return where.Complete(begun, names, func(name string) []string {
		switch name {
		case "verdict":
			return verdicts()
		case "slo":
			return []string{"met", "missed"}
		}
		return known[name]
	})
}

// field is the value of a row under a name.
type field func(r *results.Row) (any, bool)

type fields map[string]field

func (f fields) names() []string { return slices.Collect(maps.Keys(f)) }

func (f fields) of(r *results.Row) where.Values {
	return func(name string) (any, bool) {
		value, known := f[name]
		if !known {
			return nil, false
		}
		return value(r)
	}
}

// textColumns are the columns of text that every row has, in the order of [CSV].
var textColumns = []struct {
	name string
	of   func(r *results.Row) string
}{
	{"lab", func(r *results.Row) string { return r.Run.Lab }},
	{"run", func(r *results.Row) string { return r.RunID }},
	{"command", func(r *results.Row) string { return r.Run.Command }},
	{"cell", func(r *results.Row) string { return r.ID }},
	{"benchmark", func(r *results.Row) string { return r.Benchmark }},
	{"engine", func(r *results.Row) string { return r.Deployment.Engine }},
	{"kind", func(r *results.Row) string { return r.Deployment.Kind }},
	{"host", func(r *results.Row) string { return r.Deployment.Host }},
	{"gpus", func(r *results.Row) string { return r.Deployment.GPUs }},
	{"gpu_count", func(r *results.Row) string { return strconv.Itoa(r.Deployment.GPUsUsed()) }},
	{"model", func(r *results.Row) string { return r.Deployment.Model }},
	{"image", func(r *results.Row) string { return r.Deployment.Image }},
	{"digest", func(r *results.Row) string { return r.Deployment.Digest }},
}

func wordOf(r *results.Row, name string) string {
	for _, w := range textColumns {
		if w.name == name {
			return w.of(r)
		}
	}
	return ""
}

// wordsOf are what rows have in a column of [textColumns], each once.
func wordsOf(rows []results.Row, name string) (all []string) {
	for i := range rows {
		if word := wordOf(&rows[i], name); word != "" {
			all = once(all, word)
		}
	}
	return all
}

func numeric(of func(r *results.Row) (float64, bool)) field {
	return func(r *results.Row) (any, bool) { return of(r) }
}

// newFields are the names that conditions on these rows may use: of each metric two.
func newFields(rows []results.Row) fields {
	all := columnsOf(rows)
	for _, m := range allMetrics(rows) {
		if name := m.Heading(); all[name] == nil {
			all[name] = numeric(m.raw().value)
		}
	}
	return all
}

// columnsOf are the columns of rows, by the names that CSV has for them, and their axes.
func columnsOf(rows []results.Row) fields {
	text := func(of func(r *results.Row) string) field {
		return func(r *results.Row) (any, bool) { s := of(r); return s, s != "" }
	}
	all := fields{
		"dataset":    text(dataset),
		"verdict":    text(func(r *results.Row) string { return r.Verdict().Verdict }),
		"slo":        text(metText),
		"repetition": func(r *results.Row) (any, bool) { return float64(r.Repetition), true },
	}
	for _, word := range textColumns {
		all[word.name] = text(word.of)
	}
	all["kind"] = func(r *results.Row) (any, bool) { return kinds(r), r.Deployment.Kind != "" }
	all["gpu_count"] = func(r *results.Row) (any, bool) { return float64(r.Deployment.GPUsUsed()), r.Deployment.GPUsUsed() > 0 }
	for _, m := range allMetrics(rows) {
		all[m.Name] = numeric(m.raw().value)
	}
	for _, r := range those(rows, func(r *results.Row) bool { return r.Summary != nil }) {
		for _, o := range r.Summary.Objectives {
			all["slo_"+o.Name()] = text(func(r *results.Row) string { return metLine(r, o.Name()) })
		}
	}
	for _, d := range dimensions {
		all[d.name] = numeric(d.value)
	}
	for _, name := range axes(rows) {
		column := all[name]
		all[name] = func(r *results.Row) (any, bool) {
			v, ok := r.Axes.Value(name)
			switch f, isNumber := float(v); {
			case !ok && column != nil:
				return column(r)
			case ok && isNumber:
				return f, true
			}
			return axisText(v), ok
		}
	}
	all["engine"] = func(r *results.Row) (any, bool) {
		return append([]string{r.Deployment.Engine}, kinds(r)...), r.Deployment.Engine != ""
	}
	return all
}

// kinds are the kind of a row's engine: of a rehearsed one that which the lab says, and
// that which stood in for it, so that a condition can be tried before it is needed.
func kinds(r *results.Row) []string {
	d := &r.Deployment
	if said, _, ok := strings.Cut(d.Engine, "."); ok && r.Run.Command == "rehearse" && said != d.Kind {
		return []string{said, d.Kind}
	}
	return []string{d.Kind}
}
