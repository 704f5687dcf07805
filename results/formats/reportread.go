package formats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// Benchmark Reports are YAML, one document or several in a file.
var (
	reportVersion = regexp.MustCompile(`(?m)^\s*"?version"?: *["']?0\.`)
	reportResults = regexp.MustCompile(`(?m)^\s*"?results"?:`)
	documentEnd   = regexp.MustCompile(`(?m)^---[ \t]*$`)
	yamlInfinity  = regexp.MustCompile(`(?m)(:[ \t]+)\.(inf|Inf|INF)[ \t]*$`)
)

// isReport reports whether a text is YAML with a Benchmark Report, or several JSON ones.
func isReport(text []byte) bool {
	json := len(text) > 0 && (text[0] == '{' || text[0] == '[')
	return reportVersion.Match(text) && reportResults.Match(text) && (!json || documentEnd.Match(text))
}

// reportObjects makes lines of JSON of the YAML documents of a text.
func reportObjects(text []byte) ([]byte, error) {
	var all [][]byte
	for _, one := range documentEnd.Split(string(text), -1) {
		if strings.TrimSpace(one) == "" {
			continue
		}
		line, err := yaml.YAMLToJSON(yamlInfinity.ReplaceAll([]byte(one), []byte("${1}null"))) // no limit
		if err != nil {
			return nil, fmt.Errorf("read document %d: %w", len(all)+1, err)
		}
		all = append(all, line)
	}
	return bytes.Join(all, []byte("\n")), nil
}

func reportReader() reader {
	return reader{
		format: results.OriginReport,
		is:     func(has func(...string) bool) bool { return has("version") && has("results") && has("run") },
		read:   readReport,
		known: func() map[string]bool {
			return map[string]bool{"version": true, "run": true, "results": true, "scenario": true}
		},
	}
}

func readReport(r *Result, o *object) (told map[string]bool, err error) {
	var doc benchmarkReport
	if v := o.text("version"); v != "0.2" && v != "0.2.1" {
		return nil, fmt.Errorf("it is a Benchmark Report of version %q; 0.2 and 0.2.1 are read", plain.Cut(v, 20))
	}
	for key, at := range map[string]any{"run": &doc.Run, "scenario": &doc.Scenario, "results": &doc.Results} {
		if err := o.into(key, at); err != nil {
			return nil, err
		}
	}
	if slices.Contains(doc.Run.Keywords, rehearsal) {
		return nil, errRehearsal
	}
	if told, err = r.readAggregate(&doc); err != nil {
		return nil, err
	}
	r.unread = append(r.unread, unreadOf(o)...)
	r.readStack(doc.Scenario.Stack)
	if own := doc.writtenByUs(); own != nil {
		return nil, r.readOwn(own)
	}
	return told, r.readLoad(&doc)
}

// writtenByUs is what hcl has written of the cell; nil: others wrote the report.
func (doc *benchmarkReport) writtenByUs() *ownDocument {
	var own struct{ HCL *ownDocument }
	if x := doc.Scenario.Load; x == nil || x.Is.Tool != "hcl" || json.Unmarshal(x.Native.Config, &own) != nil {
		return nil
	}
	return own.HCL
}

// readOwn takes in the cell as it was, with what a report has no place for.
func (r *Result) readOwn(own *ownDocument) error {
	*r.Summary = load.Summary{}
	if err := json.Unmarshal(own.Summary, r.Summary); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	r.Benchmark, r.Repetition, r.ours = own.Benchmark, own.Repetition, &r.Summary.Verdict
	r.Axes = slices.DeleteFunc(own.Axes, func(x results.Axis) bool { return x.Name == "engine" })
	r.Job.Workload, r.Job.Batch = own.Task.Workload, own.Task.Batch
	return nil
}

// unreadOf are the results of a report that are not read.
func unreadOf(o *object) (names []string) {
	var parts map[string]json.RawMessage
	_ = o.into("results", &parts) // it was read before
	var within map[string]json.RawMessage
	_ = json.Unmarshal(parts["request_performance"], &within)
	for name, part := range within {
		parts["request_performance."+name] = part
	}
	delete(parts, "request_performance")
	delete(parts, "request_performance.aggregate")
	for name, part := range parts {
		if text := string(part); text != "null" && text != "[]" && text != "{}" {
			names = append(names, plain.Line("results."+name))
		}
	}
	slices.Sort(names)
	return names
}

// readAggregate takes in counts, latencies and throughputs, and returns which there are.
func (r *Result) readAggregate(doc *benchmarkReport) (told map[string]bool, err error) {
	told = map[string]bool{}
	s, a := r.Summary, &doc.Results.Requests.Aggregate
	r.Started, r.Finished = doc.Run.Time.Start, doc.Run.Time.End
	if s.Duration, err = seconds8601(doc.Run.Time.Duration); err != nil {
		return nil, err
	}
	told["duration_s"] = s.Duration > 0
	s.Requests = a.Requests.Total
	lost := func(n *int) int {
		if n == nil {
			return 0
		}
		told["failed"] = true
		return *n
	}
	s.Failed = lost(a.Requests.Failures) + lost(a.Requests.Incomplete)
	s.Completed = s.Requests - s.Failed
	told["requests"], told["completed"] = s.Requests > 0, told["failed"]
	if !told["failed"] { // the total is all that is known
		s.Completed = 0
	}
	times := reportTimes(s)
	for _, l := range reportLatencies {
		if err := a.Latency[l[0]].into(times[l[1]], l[1], told); err != nil {
			return nil, fmt.Errorf("%s: %w", l[0], err)
		}
	}
	for _, f := range reportThroughputs {
		v, there, err := a.Throughput[f[0]].number("mean", map[string]float64{f[2]: 1})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f[0], err)
		}
		if there {
			meanings()[f[1]].set(&r.Cell, v)
			told[f[1]] = true
		}
	}
	for name, of := range map[string]struct {
		each  reportStatistics
		total *int64
	}{"input_tokens": {a.Requests.Input, &s.InputTokens}, "output_tokens": {a.Requests.Output, &s.OutputTokens}} {
		v, there, err := of.each.number("mean", map[string]float64{"count": 1})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if there && told["completed"] && v*float64(s.Completed) < math.MaxInt64 {
			*of.total, told[name] = int64(math.Round(v*float64(s.Completed))), true
		}
	}
	return told, nil
}

// into takes in a latency of that name.
func (x reportStatistics) into(t *load.Stats, name string, told map[string]bool) error {
	units := map[string]float64{"ms": 1, "s": 1e3, "ms/token": 1, "s/token": 1e3}
	t.Percentiles = map[string]float64{}
	at := map[string]*float64{"mean": &t.Mean, "median": &t.Median, "std": &t.Std, "min": &t.Min, "max": &t.Max}
	for _, n := range reportNames {
		v, there, err := x.number(n[0], units)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if p := strings.TrimPrefix(n[0], "p"); p != n[0] {
			t.Percentiles[strings.Replace(p, "p", ".", 1)] = v
		}
		if at[n[1]] != nil {
			*at[n[1]] = v
		}
		told[name+"_ms."+n[1]], told[name+"_ms"] = true, true
	}
	return nil
}

// number is a statistic in our unit.
func (x reportStatistics) number(name string, units map[string]float64) (v float64, there bool, err error) {
	if x[name] == nil {
		return 0, false, nil
	}
	unit, ok := units[fmt.Sprint(x["units"])]
	v, number := x[name].(float64)
	if !ok || !number {
		return 0, false, fmt.Errorf("%s is %s %s, which is no figure that is known here", name,
			plain.Cut(plain.Line(fmt.Sprint(x[name])), 40), plain.Cut(plain.Line(fmt.Sprint(x["units"])), 40))
	}
	return v * unit, true, nil
}

var iso8601 = regexp.MustCompile(`^P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?$`)

// seconds8601 reads a duration, PT1M6.5S.
func seconds8601(text string) (sum float64, err error) {
	m := iso8601.FindStringSubmatch(text)
	if m == nil && text != "" {
		return 0, fmt.Errorf("the duration %q is none of ISO 8601", plain.Cut(plain.Line(text), 40))
	}
	for i, each := range []float64{86400, 3600, 60, 1} {
		if m != nil && m[i+1] != "" {
			v, _ := strconv.ParseFloat(m[i+1], 64)
			sum += v * each
		}
	}
	return sum, nil
}

// readStack takes in what engines there were, and on what.
func (r *Result) readStack(stack []reportComponent) {
	d := &r.Deployment
	for _, c := range stack {
		if d.Model == "" && c.Is.Model != nil {
			d.Model = c.Is.Model.Name
		}
		tool := cmp.Or(engineKind(c.Is.Tool), engineKind(c.Is.ToolVersion), strings.ToLower(c.Is.Tool))
		within := func(n int) bool { return n > 0 && n < math.MaxInt16 }
		if a := c.Is.Accelerator; a != nil && within(a.Count) && within(c.Is.Replicas) {
			gpus := a.Count * c.Is.Replicas
			d.Kind = cmp.Or(d.Kind, tool)
			d.GPUCount += gpus
			d.GPUs = results.AddGPUs(d.GPUs, fmt.Sprintf("%dx%s", gpus, gpuModel(a.Model)))
		}
		if strings.ContainsAny(c.Is.ToolVersion, "/:") { // else it is a number
			d.Image = cmp.Or(d.Image, c.Is.ToolVersion)
		}
	}
	if d.Kind == "" && len(stack) > 0 {
		d.Kind = strings.ToLower(stack[0].Is.Tool)
	}
}

// readLoad takes in what was sent.
func (r *Result) readLoad(doc *benchmarkReport) error {
	r.Benchmark = doc.Run.Experiment
	x := doc.Scenario.Load
	if x == nil {
		return nil
	}
	w := &r.Job.Workload
	if n, ok := x.Is.Concurrency.(float64); ok && n >= 1 && n < math.MaxInt32 {
		w.Concurrency = int(n)
	}
	w.Rate = load.Rate(x.Is.Rate)
	w.Dataset.InputTokens, w.OutputTokens = x.Is.Input.fixed(), x.Is.Output.fixed()
	r.readAsked()
	return nil
}

// fixed is the length of all; 0: they differ.
func (x *reportLength) fixed() int {
	if x == nil || x.Distribution != "fixed" || !(x.Value >= 1 && x.Value < math.MaxInt32) {
		return 0
	}
	return int(x.Value)
}
