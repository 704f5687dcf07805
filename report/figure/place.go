package figure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// Place is what makes two rows the same cell: they are repetitions of it.
type Place struct {
	Label    Label
	Identity string // what is known to have gone in
	kind     string // of run
	run      string // of what was published: none is a repetition of another
	stale    bool
	series   int  // in charts of which the lab says what is told apart, from 1; 0: it does not
	load     Load // in those
}

// Label is what a cell is called.
type Label struct {
	benchmark, engine string
	axes              string // in the order of their names
}

// PlaceOf is the place of a row.
func PlaceOf(r *results.Row) Place {
	p := Place{Label: LabelOf(r), Identity: IdentityOf(r), kind: KindOfRun(r), stale: r.Stale}
	if p.kind == "published" {
		p.run = r.Run.ID
	}
	return p
}

// IdentityOf is what the plan says of the cell without its repetition, or else all
// that is known to have gone into the measurement.
func IdentityOf(r *results.Row) string {
	if r.Group != "" {
		return r.Group
	}
	identity := map[string]string{}
	maps.Copy(identity, r.Identity)
	delete(identity, "repetition")
	d := &r.Deployment
	known := struct {
		Cell, Deployment             map[string]string
		ID, Kind, GPUs, Model, Image string
		Command                      []string
		Work                         any
	}{identity, d.Identity, r.DeploymentID, d.Kind, d.GPUs, d.Model, d.Image, d.Command, r.Job.Work()}
	text, err := json.Marshal(known)
	if err != nil {
		text = fmt.Append(nil, known) // a rate that is no number
	}
	return string(text)
}

// LabelOf is what a cell is called: its benchmark, its engine, be it an axis or not, and its axes in any order.
func LabelOf(r *results.Row) Label {
	l := Label{benchmark: r.Benchmark, engine: r.Deployment.Engine}
	axes := slices.Clone(r.Axes)
	slices.SortFunc(axes, func(a, b results.Axis) int { return cmp.Compare(a.Name, b.Name) })
	for _, a := range axes {
		if a.Name == "engine" {
			l.engine = AxisText(a.Value)
		} else {
			l.axes += fmt.Sprintf("%q=%q ", a.Name, AxisText(a.Value))
		}
	}
	return l
}

// Load is what makes two cells cells under the same load.
type Load struct {
	benchmark, dataset, words string
	at                        [5]float64 // along each of [Dimensions]
}

// LoadOf is the load of a row. Columns of published tables that are of the load are told, and what is
// left out is not looked at.
func LoadOf(r *results.Row, told []string, without ...string) Load {
	u := Load{benchmark: r.Benchmark, dataset: dataset(r)}
	for i, d := range Dimensions {
		if v, ok := d.value(r); ok && !slices.Contains(without, d.Name) {
			u.at[i] = v
		}
	}
	u.words = fmt.Sprint(otherWords(r, told))
	return u
}

// OwnKind is the kind of run that a report is about: what was measured here, or else the nearest to it. What
// is of another kind stands beside that, and leads nothing.
func OwnKind(rows []results.Row) string {
	kinds := []string{"", "rehearsal", "imported", "published"}
	own := len(kinds)
	for _, r := range Those(rows, IsMeasured) {
		own = min(own, slices.Index(kinds, KindOfRun(r)))
	}
	return slices.Concat(kinds, kinds[:1])[own]
}

// CellsOf are the repetitions of each cell.
func CellsOf(rows []results.Row, keep func(r *results.Row) bool) [][]*results.Row {
	return Grouped(Those(rows, keep), PlaceOf)
}

// ofLoad reports whether an axis is of the load: what is sent, not what serves it.
func ofLoad(name string) bool {
	return slices.Contains([]string{"concurrency", "max_concurrency", "rate", "request_rate", "burstiness", "batch",
		"requests", "duration", "input_tokens", "output_tokens", "dataset", "warmup", "cooldown", "warmup_requests"}, name)
}

// Dimension is a quantity of the load that charts have along their x axis.
type Dimension struct {
	Name  string // of the axis in a lab
	Title string
	Unit  string
	of    func(t *results.Task) float64 // 0: not said
}

var Dimensions = []Dimension{
	{"concurrency", "Concurrency", "requests in flight",
		func(t *results.Task) float64 { return float64(t.Workload.Concurrency) }},
	{"rate", "Request rate", "requests per second", func(t *results.Task) float64 {
		if t.Workload.Rate == load.Inf {
			return 0
		}
		return float64(t.Workload.Rate)
	}},
	{"batch", "Batch", "requests", func(t *results.Task) float64 {
		if t.Batch == nil {
			return 0
		}
		return float64(t.Batch.Requests)
	}},
	{"input_tokens", "Input length", "tokens", func(t *results.Task) float64 {
		d := t.Prompts().Dataset
		return float64(cmp.Or(d.InputTokens, d.PrefixTokens+d.QuestionTokens))
	}},
	{"output_tokens", "Output length", "tokens", func(t *results.Task) float64 {
		p := t.Prompts()
		return float64(cmp.Or(p.OutputTokens, p.Dataset.OutputTokens))
	}},
}

// value is where the row lies along the dimension: by its axis, else by its job.
func (d Dimension) value(r *results.Row) (float64, bool) {
	for _, name := range []string{d.Name, "max_" + d.Name} {
		switch v, _ := r.Axes.Value(name); v := v.(type) {
		case int64:
			return float64(v), v > 0
		case float64:
			return v, v > 0
		}
	}
	v := d.of(&r.Job)
	return v, v > 0
}

// Along is where the row lies along each dimension, by its name.
func Along(r *results.Row) map[string]float64 {
	at := map[string]float64{}
	for _, d := range Dimensions {
		if v, ok := d.value(r); ok {
			at[d.Name] = v
		}
	}
	return at
}

// dataset is what a cell's prompts are of.
func dataset(r *results.Row) string {
	if v, ok := r.Axes.Value("dataset"); ok {
		return AxisText(v)
	}
	return r.Job.Prompts().Dataset.Kind
}

// CaseAxes are the columns of published tables that nobody understands and that tell loads apart, not
// servers: one server, which is its command, has several of them. Only those that are needed are told:
// GPUStack's sections say nothing that its cases do not.
func CaseAxes(rows []results.Row) (all, told []string) {
	published := Those(rows, func(r *results.Row) bool {
		return KindOfRun(r) == "imported" && len(r.Deployment.Command) > 0
	})
	if len(published) == 0 || len(published) < len(rows) {
		return nil, nil
	}
	server := func(r *results.Row) string { return strings.Join(r.Deployment.Command, "\x00") }
	for _, name := range Axes(rows) {
		if ofLoad(name) || name == "engine" || name == SideAxis {
			continue
		}
		for _, of := range Grouped(published, server) {
			if slices.ContainsFunc(of, func(r *results.Row) bool { return AxisOf(r.Axes, name) != AxisOf(of[0].Axes, name) }) {
				all = append(all, name)
				break
			}
		}
	}
	places := func(told []string) int { // how many these columns tell apart, of an engine under a load
		type place struct{ benchmark, engine, gpus, load string }
		return len(Grouped(published, func(r *results.Row) place {
			load := AxisWords(r.Axes, func(name string) bool { return ofLoad(name) || slices.Contains(told, name) })
			return place{r.Benchmark, r.Deployment.Engine, r.Deployment.GPUs, strings.Join(load, ", ")}
		}))
	}
	told = slices.Clone(all)
	for _, name := range all {
		rest := slices.DeleteFunc(slices.Clone(told), func(n string) bool { return n == name })
		if places(told) == places(rest) {
			told = rest
		}
	}
	return all, told
}

func otherWords(r *results.Row, told []string) []string {
	return AxisWords(r.Axes, func(name string) bool { return name == "burstiness" || slices.Contains(told, name) })
}

// Pushed reports whether more of a dimension is more load, not other requests.
func Pushed(d Dimension) bool {
	return d.Name == "concurrency" || d.Name == "rate" || d.Name == "batch"
}

// inFlight are the dimensions as sentences say them after a number.
var inFlight = map[string]string{"concurrency": "in flight", "rate": "requests a second", "batch": "requests at once",
	"input_tokens": "tokens in", "output_tokens": "tokens out"}

// SideAxis tells the two sides of a comparison apart. No axis of a lab has such a name.
const SideAxis = "compared side"
