package figure

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/number"
	"hclbench/results"
)

// Verdicts are those that there are, the worst last.
func Verdicts() []string { return []string{load.Valid, load.Imported, load.Suspect, load.Void} }

// IsSuspect reports whether a verdict doubts what was measured.
func IsSuspect(v load.Verdict) bool { return v.Verdict == load.Suspect }

// IsMeasured reports whether a row measured something.
func IsMeasured(r *results.Row) bool { return r.Verdict().Verdict != load.Void }

// Worst is the worst verdict of some rows, and none of no rows. A verdict that nobody
// knows is as bad as none.
func Worst(rows []*results.Row) string {
	if len(rows) == 0 {
		return ""
	}
	all, at := Verdicts(), 0
	for _, r := range rows {
		place := slices.Index(all, r.Verdict().Verdict)
		if place < 0 {
			place = len(all) - 1
		}
		at = max(at, place)
	}
	return all[at]
}

// AllSuspect is the first of the repetitions, when none of them is free of doubt.
func AllSuspect(rows []*results.Row) *results.Row {
	rows = NotVoid(rows)
	if len(rows) == 0 || slices.ContainsFunc(rows, func(r *results.Row) bool { return !IsSuspect(r.Verdict()) }) {
		return nil
	}
	return rows[0]
}

// sloText is the SLO by which a row is judged.
func sloText(r *results.Row) string { return fmt.Sprint(r.Job.Workload.SLO) }

// Attained says whether a cell meets every line of its SLO, and which it misses; ok is
// false where there is none.
func Attained(r *results.Row) (met bool, missed []string, ok bool) {
	if !IsMeasured(r) || IsFast(r) || len(r.Summary.Objectives) == 0 {
		return false, nil, false
	}
	known := true
	for _, o := range r.Summary.Objectives {
		switch {
		case o.Count == 0:
			known = false // neither requests nor a figure say anything of it
		case !o.Met:
			missed = append(missed, o.Name())
		}
	}
	return missed == nil, missed, known || missed != nil
}

// MetText is "met" or "missed"; empty where there is no SLO.
func MetText(r *results.Row) string {
	switch met, _, ok := Attained(r); {
	case !ok:
		return ""
	case met:
		return "met"
	}
	return "missed"
}

// metLine is "met" or "missed" of one line of a cell's SLO; empty where it has none.
func metLine(r *results.Row, name string) string {
	if !IsMeasured(r) || IsFast(r) {
		return ""
	}
	for _, o := range r.Summary.Objectives {
		switch {
		case o.Name() != name || o.Count == 0:
		case o.Met:
			return "met"
		default:
			return "missed"
		}
	}
	return ""
}

// KindOfRun is "rehearsal", "imported", "published", or empty of a measurement of ours.
func KindOfRun(r *results.Row) string {
	return map[string]string{"rehearse": "rehearsal", "import": "imported", "published": "published"}[r.Run.Command]
}

// IsFast reports whether a row was rehearsed at another speed than its own: its figures say nothing of an engine.
func IsFast(r *results.Row) bool { return r.Job.Workload.Speed != 0 && KindOfRun(r) == "rehearsal" }

// ForcedMark is the mark of a cell whose engine was told to accept drafted tokens whatever they are.
const ForcedMark = "forced acceptance"

// Forced is that mark with how many tokens a step brings so: "forced acceptance 3.12"; empty: the
// engine was not told so.
func Forced(r *results.Row) string {
	tokens, by := r.Deployment.ForcedAcceptance()
	switch {
	case by == "":
		return ""
	case tokens == 0:
		return ForcedMark
	}
	return ForcedMark + " " + number.Text(tokens)
}

// Axes are the names of all axes, each benchmark's in its own order.
func Axes(rows []results.Row) []string {
	return AxisNames(len(rows), func(i int) results.Axes { return rows[i].Axes })
}

// AxisNames are the names of the axes of n things, each once.
func AxisNames(n int, of func(i int) results.Axes) (names []string) {
	for i := range n {
		for _, a := range of(i) {
			names = Once(names, a.Name)
		}
	}
	return names
}

// AxisValues are the values of an axis of n things as texts, each once.
func AxisValues(name string, n int, of func(i int) results.Axes) (values []string) {
	for i := range n {
		if v, ok := of(i).Value(name); ok {
			values = Once(values, AxisText(v))
		}
	}
	return values
}

// AxisOf is the value of an axis as text; empty where there is no such axis.
func AxisOf(axes results.Axes, name string) string {
	if v, ok := axes.Value(name); ok {
		return AxisText(v)
	}
	return ""
}

// AxisText is the value as the lab's text has it: 6400, not 6,400.
func AxisText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return plain.Line(fmt.Sprint(v))
}

// AxisWords are those of the axes that are to be kept, in words: "output tokens 800".
func AxisWords(axes results.Axes, keep func(name string) bool) (words []string) {
	for _, a := range axes {
		if keep(a.Name) {
			words = append(words, strings.ReplaceAll(a.Name, "_", " ")+" "+AxisText(a.Value))
		}
	}
	return words
}

// IsNumber reports whether a text is a number.
func IsNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// NotVoid are the rows that measured something.
func NotVoid(rows []*results.Row) []*results.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r *results.Row) bool { return !IsMeasured(r) })
}

// Float is a number, or a text that is one.
func Float(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		if v = strings.TrimSpace(v); thousands.MatchString(v) {
			v = strings.ReplaceAll(v, ",", "")
		}
		f, err := strconv.ParseFloat(v, 64)
		return f, err == nil
	}
	return 0, false
}

// thousands is a number whose thousands are parted by commas. A comma before decimals is not read.
var thousands = regexp.MustCompile(`^-?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$`)

// CellName is a cell in a word or more: "vllm.h200 concurrency=16".
func CellName(engine string, axes results.Axes) string {
	var words []string
	if engine != "" {
		words = append(words, engine)
	}
	for _, a := range axes {
		if a.Name != "engine" {
			words = append(words, a.Name+"="+AxisText(a.Value))
		}
	}
	return strings.Join(words, " ")
}

// TextColumns are the columns of text that every row has, in the order of [CSV].
var TextColumns = []struct {
	Name string
	Of   func(r *results.Row) string
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

// WordOf is what a row has in a column of [TextColumns].
func WordOf(r *results.Row, name string) string {
	for _, w := range TextColumns {
		if w.Name == name {
			return w.Of(r)
		}
	}
	return ""
}

// WordsOf are what rows have in a column of [TextColumns], each once.
func WordsOf(rows []results.Row, name string) (all []string) {
	for i := range rows {
		if word := WordOf(&rows[i], name); word != "" {
			all = Once(all, word)
		}
	}
	return all
}

// kind of a deployment's engine. What stood in for an engine in a rehearsal is named after that.
func kind(d *results.Deployment) string {
	if d.Kind == "" || d.Kind == "sim" {
		kind, _, _ := strings.Cut(d.Engine, ".") // "vllm" of "vllm.h200"
		return kind
	}
	return d.Kind
}

// KindName is an engine as its makers write it.
func KindName(kind string) string {
	switch strings.ToLower(kind) {
	case "sglang":
		return "SGLang"
	case "vllm":
		return "vLLM"
	case "trtllm", "trt-llm", "tensorrt-llm":
		return "TensorRT-LLM"
	}
	return kind
}

// counted is a count of GPUs, before their model.
var counted = regexp.MustCompile(`\b(\d+)x`)

// GPUName is "8×H200" of "8xH200".
func GPUName(gpus string) string {
	if results.CountGPUs(gpus) > 0 {
		return counted.ReplaceAllString(gpus, "$1×")
	}
	return gpus
}

// HostFacts are the facts of a host that a table shows, as they are stored.
type HostFacts struct {
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPUModel    string `json:"cpu_model"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Docker      string `json:"docker"`
	ROCm        string `json:"rocm"`
	Toolkit     string `json:"container_toolkit"`

	Settings map[string]string `json:"settings"`

	GPUs []struct {
		Name        string `json:"name"`
		MemoryBytes int64  `json:"memory_bytes"`
		Driver      string `json:"driver"`
	} `json:"gpus"`
}

// Made is what a host's facts say of what it is, without the moment at which it was
// looked at: free disks and temperatures explain nothing that was measured.
func Made(facts json.RawMessage) map[string]any {
	var all map[string]any
	if json.Unmarshal(facts, &all) != nil {
		return nil // whoever stored them had something else in mind
	}
	delete(all, "condition")
	return all
}

// HostsOf are the members of a deployment, whose hosts are known; of an engine that
// somebody else runs, what is known of its host.
func HostsOf(d *results.Deployment) []results.Member {
	if all := d.All(); len(all) > 0 {
		return all
	}
	return []results.Member{{
		Host: d.Host, GPUs: d.GPUs, GPUCount: d.GPUCount, Price: d.PricePerHour, Facts: d.Facts, Digest: d.Digest, Versions: d.Versions,
	}}
}

// Stamp is a time as text; what is not known is empty.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
