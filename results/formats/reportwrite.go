package formats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

func reportText(r *results.Row) ([]byte, error) {
	var b bytes.Buffer
	if r.Origin != nil && r.Origin.Format == results.OriginReport {
		err := json.Indent(&b, r.Origin.Fields, "", "  ")
		return append(b.Bytes(), '\n'), err
	}
	if r.Summary == nil {
		return nil, errNothing(r)
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	doc, err := reportOf(r)
	if err == nil {
		err = enc.Encode(doc)
	}
	return b.Bytes(), err
}

func reportOf(r *results.Row) (doc benchmarkReport, err error) {
	s := r.Summary
	doc.Version = "0.2.1"
	doc.Run.ID = cmp.Or(strings.Trim(r.RunID+"-"+r.ID, "-"), "bench-"+s.Started.UTC().Format("20060102-150405.000000000"))
	doc.Run.Experiment, doc.Run.Description = r.RunID, r.Benchmark
	doc.Run.Keywords = []string{"hcl", s.Verdict.Verdict}
	if r.Run.Command == "rehearse" {
		doc.Run.Keywords = append(doc.Run.Keywords, rehearsal)
	}
	doc.Run.Time = reportTime{Start: s.Started.UTC(), End: r.Finished.UTC()}
	if s.Knows("duration_s") {
		doc.Run.Time.Duration = isoDuration(s.Duration)
	}
	doc.Scenario.Stack = reportStack(r)
	if doc.Scenario.Load, err = reportLoadOf(r); err != nil {
		return doc, err
	}
	a := &doc.Results.Requests.Aggregate
	a.Requests.Total = s.Requests
	if s.Knows("failed") {
		a.Requests.Failures = &s.Failed
	}
	each := func(tokens int64) reportStatistics {
		if s.Completed == 0 || tokens == 0 {
			return nil
		}
		return reportStatistics{"units": "count", "mean": float64(tokens) / float64(s.Completed)}
	}
	a.Requests.Input, a.Requests.Output = each(s.InputTokens), each(s.OutputTokens)
	a.Latency, a.Throughput = map[string]reportStatistics{}, map[string]reportStatistics{}
	for _, l := range reportLatencies {
		if x := statisticsOf(s, l[1], reportTimes(s)[l[1]], l[2]); x != nil {
			a.Latency[l[0]] = x
		}
	}
	for _, f := range reportThroughputs {
		if v := *meanings()[f[1]].at(&r.Cell).(*float64); s.Knows(f[1]) {
			a.Throughput[f[0]] = reportStatistics{"units": f[2], "mean": v}
		}
	}
	doc.Results.Observability = reportSeen(r, doc.Scenario.Stack)
	return doc, nil
}

// reportTimes are the latencies that a report has, by our names.
func reportTimes(s *load.Summary) map[string]*load.Stats {
	all := latencies(s)
	all["normalized_latency"] = &s.PerToken
	return all
}

// statisticsOf is a latency, nil without a mean, which a report must have.
func statisticsOf(s *load.Summary, name string, t *load.Stats, unit string) reportStatistics {
	if !isMeasured(t) || !s.Knows(name+"_ms") || !s.Knows(name+"_ms.mean") {
		return nil
	}
	x := reportStatistics{"units": unit}
	own := map[string]float64{"mean": t.Mean, "median": t.Median, "std": t.Std, "min": t.Min, "max": t.Max}
	for _, n := range reportNames {
		v, there := own[n[1]]
		if p, ok := t.Percentiles[strings.TrimPrefix(n[1], "p")]; ok {
			v, there = p, true
		}
		if there && s.Knows(name+"_ms."+n[1]) {
			x[n[0]] = v
		}
	}
	return x
}

// reportRoles are those of a report, by ours.
var reportRoles = map[string]string{"serve": "replica", "prefill": "prefill", "decode": "decode"}

// reportStack has a component for each role. One whose GPUs are not known can be none of
// the engines that the schema has, and is a generic one.
func reportStack(r *results.Row) (stack []reportComponent) {
	d := &r.Deployment
	all := setups(d)
	for _, s := range all {
		var c reportComponent
		c.Metadata.Label, c.Metadata.ID = cmp.Or(d.Engine, "engine"), cmp.Or(d.ID, "unknown")
		image, versions, command := d.Image, d.Versions, d.Command
		if len(all) > 1 {
			c.Metadata.Label, c.Metadata.ID = s.role, c.Metadata.ID+"-"+s.role
			m := d.Members[slices.IndexFunc(d.Members, func(m results.Member) bool { return m.Role == s.role })]
			image, versions, command = m.Image, m.Versions, m.Command
		}
		c.Native.Config = reportConfig{image, command, versions}
		c.Is.Kind, c.Is.Tool = "generic", cmp.Or(d.Kind, "unknown")
		if s.role == "router" {
			c.Is.Tool = s.role
		}
		c.Is.ToolVersion = cmp.Or(versions[d.Kind], image, "unknown")
		c.Is.Model = &reportName{cmp.Or(d.Model, r.Job.Target.Model)}
		if role := reportRoles[s.role]; role != "" && s.gpus > 0 {
			c.Is.Kind, c.Is.Role, c.Is.Replicas = "inference_engine", role, s.instances
			gpus, _, _ := strings.Cut(d.GPUs, ",")
			hosts := max(s.hosts/max(s.instances, 1), 1)
			c.Is.Accelerator = &reportAccelerator{strings.ToUpper(gpuName(gpus)), s.gpus, map[string]int{
				"tp": s.tp, "dp": s.dp, "dp_local": max(s.dp/hosts, 1), "workers": hosts, "ep": s.ep, "pp": s.pp,
			}}
		}
		stack = append(stack, c)
	}
	return stack
}

func reportLoadOf(r *results.Row) (*reportLoad, error) {
	x, s, p := &reportLoad{}, r.Summary, r.Job.Prompts()
	bare := *s
	bare.Series, bare.Untrimmed, bare.Steady = nil, nil, nil // too long for a configuration
	summary, err := json.Marshal(bare)
	if err != nil {
		return nil, err
	}
	own := ownDocument{r.Benchmark, r.Axes, r.Repetition, r.Run.Command == "rehearse", r.Job, summary}
	if x.Native.Config, err = json.Marshal(map[string]any{"hcl": own}); err != nil {
		return nil, err
	}
	x.Metadata.ID = r.ID
	x.Is.Tool, x.Is.ToolVersion = "hcl", cmp.Or(r.Run.Version, "unknown")
	d := p.Dataset
	x.Is.Source = map[string]string{load.Random: "random", load.SharedPrefix: "random", "": "unknown"}[d.Kind]
	x.Is.Source = cmp.Or(x.Is.Source, "sampled")
	x.Is.Input = lengthOf(d, d.InputTokens, s.InputTokens, s.Completed)
	if n := cmp.Or(p.OutputTokens, d.OutputTokens); n > 0 {
		x.Is.Output = new(lengthOf(d, n, s.OutputTokens, s.Completed))
	}
	if d.Kind == load.SharedPrefix {
		prefix := reportLength{Distribution: "fixed", Value: float64(d.PrefixTokens)}
		x.Is.Prefix = &reportPrefix{prefix, max(d.Groups, 1), max(d.PromptsPerGroup, 1), 1}
	}
	w := r.Job.Workload
	if w.Rate > 0 && w.Rate != load.Inf {
		x.Is.Rate = float64(w.Rate)
	}
	if w.Concurrency > 0 {
		x.Is.Concurrency = w.Concurrency
	}
	return x, nil
}

// lengthOf is how long prompts or answers were asked to be; where only the data say that,
// how long they were.
func lengthOf(d load.Dataset, asked int, tokens int64, completed int) reportLength {
	switch {
	case asked == 0:
		return reportLength{Distribution: "other", Value: float64(tokens) / float64(max(completed, 1))}
	case d.Kind == load.Random && d.Ranged():
		x := load.Lengths(asked, d.RangeRatio, d.Convention)
		return reportLength{"uniform", float64(x.Low+x.High) / 2, &x.Low, &x.High}
	}
	return reportLength{Distribution: "fixed", Value: float64(asked)}
}

// reportSeries are the figures of components, each with the series that it is of.
var reportSeries = []struct {
	name, series, unit string
	factor             float64
}{
	{"kv_cache_usage", telemetry.KVCache, "percent", 100}, {"cache_hit_rate", telemetry.PrefixHits, "percent", 100},
	{"running_requests", telemetry.Running, "count", 1}, {"waiting_requests", telemetry.Waiting, "count", 1},
	{"gpu_utilization", telemetry.Utilisation, "percent", 1}, {"power_consumption", telemetry.Power, "Watts", 1},
	{"cpu_utilization", telemetry.CPU, "percent", 1},
}

// reportSeen is what was read of the engine and its host: of GPUs, the figures of one. What
// no single role says of itself is under the engine's name.
func reportSeen(r *results.Row, stack []reportComponent) *reportObservability {
	if r.Telemetry == nil {
		return nil
	}
	whole := cmp.Or(r.Deployment.Engine, "engine")
	seen := map[string]map[string][]float64{}
	for _, s := range r.Telemetry.Series {
		label := whole
		for _, c := range stack {
			if strings.HasPrefix(s.Of, c.Metadata.Label+" ") || s.Of == c.Metadata.Label {
				label = c.Metadata.Label
			}
		}
		if seen[label] == nil {
			seen[label] = map[string][]float64{}
		}
		seen[label][s.Name] = append(seen[label][s.Name], s.Value...)
	}
	out := &reportObservability{}
	for label, values := range seen {
		x := reportObserved{label, map[string]reportStatistics{}}
		for _, f := range reportSeries {
			if all := values[f.series]; len(all) > 0 {
				for i := range all {
					all[i] *= f.factor
				}
				t := load.Describe(all, []float64{1, 5, 10, 25, 75, 90, 95, 99})
				x.Aggregate[f.name] = statisticsOf(&load.Summary{}, "", &t, f.unit)
			}
		}
		if len(x.Aggregate) > 0 {
			out.Components = append(out.Components, x)
		}
	}
	if len(out.Components) == 0 {
		return nil
	}
	slices.SortFunc(out.Components, func(a, b reportObserved) int { return cmp.Compare(a.Label, b.Label) })
	return out
}
