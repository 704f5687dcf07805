package formats

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// AIPerf and GuideLLM write statistics of each figure. Theirs have our names only where they
// mean the same; docs/results.md says which is which.

// statistics are those of one figure, by the tool's names for them.
type statistics map[string]any

// number is one of them.
func (x statistics) number(name string) (v float64, ok bool) {
	v, ok = x[name].(float64)
	return v, ok
}

// take gives a figure the value of a statistic, where it is there.
func (r *Result) take(name string, x statistics, statistic string, told map[string]bool) {
	if v, ok := x.number(statistic); ok {
		f := meanings()[name]
		f.set(&r.Cell, v)
		told[f.name] = true
	}
}

// takeLatency takes in a latency of which a value is so many milliseconds.
func (r *Result) takeLatency(latency string, x statistics, milliseconds float64, told map[string]bool) {
	percentiles, _ := x["percentiles"].(map[string]any)
	for _, list := range []statistics{x, percentiles} {
		for name := range list {
			v, number := list.number(name)
			which := cmp.Or(statisticWords[strings.ReplaceAll(name, "_", "")], name)
			if percentileWord.MatchString(name) {
				which = percentileOf(name)
			}
			if f := statistic(latency, which); number && (percentileWord.MatchString(which) || statisticWords[which] != "") {
				f.ms = milliseconds
				f.set(&r.Cell, v)
				told[f.name] = true
			}
		}
	}
	if n, ok := x.number("count"); ok && n < math.MaxInt32 {
		latencies(r.Summary)[latency].Count = int(n)
	}
}

// percentileOf is a percentile with a point behind its second digit: "p999" is p99.9, and "p01" p1.
func percentileOf(name string) string {
	digits := name[1:]
	if len(digits) > 2 && !strings.Contains(digits, ".") {
		digits = digits[:2] + "." + digits[2:]
	}
	if len(digits) > 1 && digits[0] == '0' && digits[1] != '.' {
		digits = digits[1:]
	}
	return "p" + digits
}

func aiperfReader() reader {
	return reader{
		format: results.OriginAIPerf,
		is: func(has func(...string) bool) bool {
			return has("aiperf_version") || has("input_config") && has("request_count")
		},
		read: readAIPerf,
	}
}

// readAIPerf reads the summary of a run, profile_export_aiperf.json.
func readAIPerf(r *Result, o *object) (told map[string]bool, err error) {
	told = map[string]bool{}
	metric := func(key, unit string) (x statistics) {
		err = errors.Join(err, o.into(key, &x))
		if is := x["unit"]; x != nil && is != unit {
			err = errors.Join(err, fmt.Errorf("%s is in %s and not in %s", key, plain.Cut(plain.Line(fmt.Sprint(is)), 20), unit))
		}
		return x
	}
	for _, m := range [][4]string{
		{"request_count", "requests", "avg", "completed"}, {"error_request_count", "requests", "avg", "failed"},
		{"benchmark_duration", "sec", "avg", "duration"},
		{"total_isl", "tokens", "avg", "total_input_tokens"}, {"total_osl", "tokens", "avg", "total_output_tokens"},
		{"request_throughput", "requests/sec", "avg", "request_throughput"}, {"goodput", "requests/sec", "avg", "goodput"},
		{"input_token_throughput", "tokens/sec", "avg", "input_throughput"},
		{"output_token_throughput", "tokens/sec", "avg", "output_throughput"},
		{"total_token_throughput", "tokens/sec", "avg", "total_throughput"},
		{"effective_concurrency", "requests", "avg", "mean_concurrency"}, {"effective_concurrency", "requests", "max", "peak_concurrency"},
	} {
		r.take(m[3], metric(m[0], m[1]), m[2], told)
	}
	s := r.Summary
	// Those that ended, also in an error.
	if all, ok := metric("completed_request_count", "requests").number("avg"); ok && told["completed"] {
		s.Failed, told["failed"] = max(s.Failed, int(all)-s.Completed), true
	}
	for _, m := range [][2]string{{"time_to_first_token", "ttft"}, {"inter_token_latency", "tpot"}, // a mean of each request
		{"inter_chunk_latency", "itl"}, {"request_latency", "e2el"}} {
		r.takeLatency(m[1], metric(m[0], "ms"), 1, told)
	}
	r.Started, r.Finished = parseMoment(o.text("start_time")), parseMoment(o.text("end_time"))
	if !r.Started.IsZero() && r.Finished.After(r.Started) { // its throughputs are over all of it, not from the first request on
		s.Duration, told["duration_s"] = r.Finished.Sub(r.Started).Seconds(), true
	}
	var in struct {
		Models   struct{ Items []reportName }
		Endpoint struct{ Type string }
		Datasets []struct {
			Type    string
			Prompts struct{ ISL, OSL aiperfLength }
		}
		Phases []struct {
			Kind        string
			Concurrency int
			Rate        float64
		}
	}
	err = errors.Join(err, o.into("input_config", &in))
	s.Requests = s.Completed + s.Failed
	if len(in.Models.Items) > 0 {
		r.Job.Target.Model = in.Models.Items[0].Name
	}
	w := &r.Job.Workload
	for _, p := range in.Phases {
		if p.Kind == "profiling" {
			w.Concurrency, w.Rate = p.Concurrency, load.Rate(p.Rate)
		}
	}
	for _, d := range in.Datasets {
		w.Dataset.Kind, w.Dataset.InputTokens, w.OutputTokens = d.Type, d.Prompts.ISL.fixed(), d.Prompts.OSL.fixed()
	}
	if strings.HasPrefix(in.Endpoint.Type, "chat") {
		w.Endpoint = load.Chat
	}
	r.readAsked()
	return told, err
}

type aiperfLength struct{ Mean, StdDev float64 }

// fixed is the length of all; 0: they differ.
func (x aiperfLength) fixed() int {
	if x.StdDev != 0 || !(x.Mean >= 1 && x.Mean < math.MaxInt32) {
		return 0
	}
	return int(x.Mean)
}

// readAsked makes axes of the load, with the lengths that were asked for where the counts
// give none.
func (r *Result) readAsked() {
	w := &r.Job.Workload
	w.Requests = r.Summary.Requests
	r.Axes = loadAxes(r.Cell)
	for _, asked := range []struct {
		name   string
		tokens int
	}{{"input_tokens", w.Dataset.InputTokens}, {"output_tokens", w.OutputTokens}} {
		if asked.tokens > 0 {
			addAxis(&r.Cell, asked.name, float64(asked.tokens))
		}
	}
}

func guideLLMReader() reader {
	return reader{
		format: results.OriginGuideLLM,
		is:     func(has func(...string) bool) bool { return has("scheduler_metrics") && has("metrics") },
		read:   readGuideLLM,
	}
}

// partsOf are the results in an object: the benchmarks of a file of GuideLLM, each with what the
// file says of all and without its requests, which the figures are of; any other object is one.
func partsOf(o *object) (all []*object, err error) {
	if !o.has("benchmarks") || !o.has("metadata") {
		return []*object{o}, nil
	}
	var raws []json.RawMessage
	err = o.into("benchmarks", &raws)
	for _, raw := range raws {
		one, e := readObject(raw)
		if e != nil {
			return nil, errors.Join(err, e)
		}
		one.keys = slices.DeleteFunc(one.keys, func(key string) bool { return key == "requests" })
		for _, key := range []string{"metadata", "config"} {
			if o.has(key) {
				one.add("file_"+key, o.values[key])
			}
		}
		all = append(all, one)
	}
	return all, err
}

// readGuideLLM reads one benchmark of a file of GuideLLM: the figures of the requests that succeeded.
func readGuideLLM(r *Result, o *object) (map[string]bool, error) {
	told := map[string]bool{}
	var metrics map[string]json.RawMessage
	err := o.into("metrics", &metrics)
	metric := func(name string) statistics {
		var of struct{ Successful statistics }
		_ = json.Unmarshal(metrics[name], &of) // of another form: it is not read
		return of.Successful
	}
	var totals statistics
	_ = json.Unmarshal(metrics["request_totals"], &totals)
	r.take("completed", totals, "successful", told)
	r.take("requests", totals, "total", told)
	r.take("failed", totals, "errored", told)
	if cut, ok := totals.number("incomplete"); ok {
		r.Summary.Failed += int(cut)
	}
	for _, m := range [][3]string{
		{"prompt_token_count", "total_sum", "total_input_tokens"}, {"output_token_count", "total_sum", "total_output_tokens"},
		{"requests_per_second", "mean", "request_throughput"}, {"prompt_tokens_per_second", "mean", "input_throughput"},
		{"output_tokens_per_second", "mean", "output_throughput"}, {"tokens_per_second", "mean", "total_throughput"},
		{"request_concurrency", "mean", "mean_concurrency"}, {"request_concurrency", "max", "peak_concurrency"},
	} {
		r.take(m[2], metric(m[0]), m[1], told)
	}
	r.takeLatency("ttft", metric("time_to_first_token_ms"), 1, told)
	r.takeLatency("e2el", metric("request_latency"), 1e3, told)
	// Each request's mean time between tokens, counted once for each: its mean is that of all
	// gaps, and its spread that of TPOT only where all answers are as long.
	between, lengths := metric("inter_token_latency_ms"), metric("output_token_count")
	r.takeLatency("itl", statistics{"mean": between["mean"], "count": between["count"]}, 1, told)
	if least, ok := lengths.number("min"); ok && least == lengths["max"] && between != nil {
		between["count"] = lengths["count"]
		r.takeLatency("tpot", between, 1, told)
	}
	err = errors.Join(err, r.readStrategy(o), r.readWarnings(o))
	s := r.Summary
	if v, ok := o.number("duration"); ok {
		s.Duration, told["duration_s"] = v, true
	}
	if at := o.float("start_time"); at > 0 && at < 1<<40 {
		r.Started = time.UnixMicro(int64(at * 1e6))
	}
	r.readAsked()
	return told, err
}

// readStrategy takes in what GuideLLM was told to send.
func (r *Result) readStrategy(o *object) error {
	var config struct {
		Strategy struct {
			Type        string `json:"type_"`
			Streams     int
			Concurrency int `json:"max_concurrency"`
			Rate        float64
		}
		Backend struct {
			Model  string
			Format string `json:"request_format"`
		}
	}
	var file struct {
		Spec struct {
			Data []struct {
				Kind   string
				Input  int      `json:"prompt_tokens"`
				InDev  *float64 `json:"prompt_tokens_stdev"`
				Output int      `json:"output_tokens"`
				OutDev *float64 `json:"output_tokens_stdev"`
			}
		}
	}
	err := errors.Join(o.into("config", &config), o.into("file_config", &file))
	w, is := &r.Job.Workload, config.Strategy
	w.Concurrency = cmp.Or(is.Streams, is.Concurrency)
	switch is.Type {
	case "synchronous":
		w.Concurrency = 1
	case "constant", "poisson":
		w.Rate = load.Rate(is.Rate)
	}
	r.Job.Target.Model = config.Backend.Model
	if strings.Contains(config.Backend.Format, "chat") {
		w.Endpoint = load.Chat
	}
	for _, d := range file.Spec.Data {
		w.Dataset.Kind = d.Kind
		if d.InDev == nil {
			w.Dataset.InputTokens = d.Input
		}
		if d.OutDev == nil {
			w.OutputTokens = d.Output
		}
	}
	return err
}

// readWarnings takes in what GuideLLM itself doubts.
func (r *Result) readWarnings(o *object) error {
	var warnings []struct{ Code, Message string }
	err := o.into("warnings", &warnings)
	for _, w := range warnings {
		reason := load.Reason{Text: "GuideLLM: " + plain.Cut(plain.Line(w.Message), 400), Code: "tool"}
		if strings.HasSuffix(w.Code, "ttft") {
			reason.Metrics = []string{"ttft"}
		}
		r.doubts = append(r.doubts, reason)
	}
	return err
}
