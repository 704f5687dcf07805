package figure

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/load/metric"
	"hclbench/results"
	"hclbench/where"
)

// Matching keeps the rows for which a condition of package where holds. A name is an
// axis, a metric, which also has the name above its column, or another column of [CSV];
// "engine" is the engine's name or its kind. A name that no row knows is an error.
func Matching(rows []results.Row, condition string) ([]results.Row, error) {
	fields := NewFields(rows)
	holds, err := where.Parse(condition, fields.Names())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool { return !holds(fields.Of(&r)) }), nil
}

// NoMetric says that there is no metric of this name, and which was meant, perhaps.
func NoMetric(name string) string {
	known := metric.Names(metric.All(nil))
	for _, t := range Timings {
		known = append(known, Latency(t, "p99").Name)
	}
	return fmt.Sprintf("there is no metric %q. %s", name, where.Instead(name, known))
}

// CompleteWhere returns what a condition that is being typed may go on as, in a lab that has these values
// of columns and axes.
func CompleteWhere(begun string, known map[string][]string) []string {
	names := Once(NewFields(nil).Names(), slices.Collect(maps.Keys(known))...)
	return where.Complete(begun, names, func(name string) []string {
		switch name {
		case "verdict":
			return Verdicts()
		case "slo":
			return []string{"met", "missed"}
		}
		return known[name]
	})
}

// Field is the value of a row under a name.
type Field func(r *results.Row) (any, bool)

// Fields are what conditions may be about, by name.
type Fields map[string]Field

// Names are those of the fields, in no order.
func (f Fields) Names() []string { return slices.Collect(maps.Keys(f)) }

// Of are the values of a row.
func (f Fields) Of(r *results.Row) where.Values {
	return func(name string) (any, bool) {
		value, known := f[name]
		if !known {
			return nil, false
		}
		return value(r)
	}
}

// Numeric is the field of a number.
func Numeric(of func(r *results.Row) (float64, bool)) Field {
	return func(r *results.Row) (any, bool) { return of(r) }
}

// Field is the metric as a condition has it: a time, or a number.
func (m Metric) Field() Field {
	if m.Unit != "ms" {
		return Numeric(m.Raw().Value)
	}
	return func(r *results.Row) (any, bool) {
		v, ok := m.Raw().Value(r)
		return where.Milliseconds(v), ok
	}
}

// NewFields are the names that conditions on these rows may use: of each metric two.
func NewFields(rows []results.Row) Fields {
	all := columnsOf(rows)
	for _, m := range AllMetrics(rows) {
		if name := m.Heading(); all[name] == nil {
			all[name] = m.Field()
		}
	}
	return all
}

// columnsOf are the columns of rows, by the names that CSV has for them, and their axes.
func columnsOf(rows []results.Row) Fields {
	text := func(of func(r *results.Row) string) Field {
		return func(r *results.Row) (any, bool) { s := of(r); return s, s != "" }
	}
	all := Fields{
		"dataset":  text(dataset),
		"verdict":  text(func(r *results.Row) string { return r.Verdict().Verdict }),
		"slo":      text(MetText),
		"accuracy": text(func(r *results.Row) string { return r.Checked }),
		"tool_call_f1": func(r *results.Row) (any, bool) {
			if r.CallF1 == nil {
				return nil, false
			}
			return *r.CallF1, true
		},
		"repetition": func(r *results.Row) (any, bool) { return float64(r.Repetition), true },
	}
	for _, word := range TextColumns {
		all[word.Name] = text(word.Of)
	}
	all["kind"] = func(r *results.Row) (any, bool) { return kindsOf(r), r.Deployment.Kind != "" }
	all["gpu_count"] = func(r *results.Row) (any, bool) { return float64(r.Deployment.GPUsUsed()), r.Deployment.GPUsUsed() > 0 }
	for _, m := range AllMetrics(rows) {
		all[m.Name] = m.Field()
	}
	for _, r := range Those(rows, func(r *results.Row) bool { return r.Summary != nil }) {
		for _, o := range r.Summary.Objectives {
			all["slo_"+o.Name()] = text(func(r *results.Row) string { return metLine(r, o.Name()) })
		}
	}
	for _, d := range Dimensions {
		all[d.Name] = Numeric(d.value)
	}
	for _, name := range Axes(rows) {
		column := all[name]
		all[name] = func(r *results.Row) (any, bool) {
			v, ok := r.Axes.Value(name)
			switch f, isNumber := Float(v); {
			case !ok && column != nil:
				return column(r)
			case ok && isNumber:
				return f, true
			}
			return AxisText(v), ok
		}
	}
	all["engine"] = func(r *results.Row) (any, bool) {
		return append([]string{r.Deployment.Engine}, kindsOf(r)...), r.Deployment.Engine != ""
	}
	return all
}

// kindsOf are the kind of a row's engine: of a rehearsed one that which the lab says, and
// that which stood in for it, so that a condition can be tried before it is needed.
func kindsOf(r *results.Row) []string {
	d := &r.Deployment
	if said, _, ok := strings.Cut(d.Engine, "."); ok && r.Run.Command == "rehearse" && said != d.Kind {
		return []string{said, d.Kind}
	}
	return []string{d.Kind}
}

// ColumnText is a value of a column as a chart shows it.
func ColumnText(v any) string {
	switch own := v.(type) {
	case []string:
		v = own[0]
	case where.Milliseconds:
		v = float64(own)
	}
	return AxisText(v)
}

// ConditionNames are all that conditions may be about, besides the axes of a lab and percentiles.
func ConditionNames() []string { return NewFields(nil).Names() }
