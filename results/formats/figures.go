package formats

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
)

// figure is a number of a summary that others have, too.
type figure struct {
	name  string                  // in a summary's JSON
	names string                  // in tables, each in small letters
	of    func(*load.Summary) any // *int, *int64, *float64, or **float64 where there may be none
}

func figures() []figure {
	return []figure{
		{"completed", "completed successful_requests num_requests", func(s *load.Summary) any { return &s.Completed }},
		{"failed", "failed failed_requests", func(s *load.Summary) any { return &s.Failed }},
		{"requests", "num_prompts", func(s *load.Summary) any { return &s.Requests }},
		{"duration_s", "duration duration_s elapsed_time benchmark_duration_s", func(s *load.Summary) any { return &s.Duration }},
		{"input_tokens", "total_input_tokens total_input_text_tokens", func(s *load.Summary) any { return &s.InputTokens }},
		{"output_tokens", "total_output_tokens total_generated_tokens", func(s *load.Summary) any { return &s.OutputTokens }},
		{"request_throughput", "request_throughput requests_per_second request_throughput_req_s",
			func(s *load.Summary) any { return &s.RequestThroughput }},
		{"input_throughput", "input_throughput input_token_throughput_tok_s", func(s *load.Summary) any { return &s.InputThroughput }},
		{"output_throughput", "output_throughput output_token_throughput_tok_s output_throughput_tok_s",
			func(s *load.Summary) any { return &s.OutputThroughput }},
		{"total_throughput", "total_throughput total_token_throughput total_token_throughput_tok_s tokens_per_second",
			func(s *load.Summary) any { return &s.TotalThroughput }},
		{"goodput", "goodput request_goodput", func(s *load.Summary) any { return &s.Goodput }},
		{"peak_output_throughput", "peak_output_throughput max_output_tokens_per_s",
			func(s *load.Summary) any { return &s.PeakOutputThroughput }},
		{"peak_concurrency", "peak_concurrent_requests max_concurrent_requests", func(s *load.Summary) any { return &s.PeakConcurrency }},
		{"mean_concurrency", "mean_concurrency", func(s *load.Summary) any { return &s.MeanConcurrency }},
	}
}

// set gives a figure its value.
func (f figure) set(s *load.Summary, v float64) {
	switch at := f.of(s).(type) {
	case *int:
		*at = int(math.Round(v))
	case *int64:
		*at = int64(math.Round(v))
	case *float64:
		*at = v
	case **float64:
		*at = &v
	}
}

// zero reports whether a figure is 0, or not there.
func (f figure) zero(s *load.Summary) bool { return reflect.ValueOf(f.of(s)).Elem().IsZero() }

// figureNamed finds a figure by its name in a summary's JSON, the statistics of
// latencies among them: "ttft_ms.mean".
func figureNamed(name string) figure {
	if timing, statistic, ok := strings.Cut(name, "_ms."); ok {
		l := latency{timingNamed(timing), statistic, "ms"}
		return figure{name: name, of: func(s *load.Summary) any { return l.at(s) }}
	}
	all := figures()
	return all[slices.IndexFunc(all, func(f figure) bool { return f.name == name })]
}

// timing is a latency of a summary.
type timing struct {
	name string // "ttft"
	of   func(*load.Summary) *load.Stats
}

func timings() []timing {
	return []timing{
		{"ttft", func(s *load.Summary) *load.Stats { return &s.TTFT }},
		{"tpot", func(s *load.Summary) *load.Stats { return &s.TPOT }},
		{"itl", func(s *load.Summary) *load.Stats { return &s.ITL }},
		{"e2el", func(s *load.Summary) *load.Stats { return &s.E2EL }},
	}
}

// timingNamed finds a timing; SGLang calls E2EL e2e_latency. None has no name.
func timingNamed(name string) timing {
	if name == "e2e_latency" {
		name = "e2el"
	}
	for _, t := range timings() {
		if t.name == name {
			return t
		}
	}
	return timing{}
}

// latency is what a name such as "p99_ttft_ms" means.
type latency struct {
	timing
	statistic string // "mean", "median", "std", "min", "max", or a percentile: "p99"
	unit      string // "ms", "s", or none
}

// latencyNamed reads such a name.
func latencyNamed(name string) (l latency, ok bool) {
	rest, unit := name, ""
	for _, u := range []string{"ms", "s"} {
		if bare, found := strings.CutSuffix(name, "_"+u); found {
			rest, unit = bare, u
			break
		}
	}
	statistic, timing, _ := strings.Cut(rest, "_")
	p, percentile := strings.CutPrefix(statistic, "p")
	l = latency{timingNamed(timing), statistic, unit}
	return l, l.name != "" && (percentile && decimal(p) || l.at(&load.Summary{}) != nil)
}

func decimal(s string) bool { _, err := strconv.ParseFloat(s, 64); return err == nil }

// at is where a summary has the statistic; nil: it is a percentile.
func (l latency) at(s *load.Summary) *float64 {
	t := l.of(s)
	switch l.statistic {
	case "mean":
		return &t.Mean
	case "median":
		return &t.Median
	case "std":
		return &t.Std
	case "min":
		return &t.Min
	case "max":
		return &t.Max
	}
	return nil
}

// set gives a statistic its value, in milliseconds.
func (l latency) set(s *load.Summary, v float64) {
	if at := l.at(s); at != nil {
		*at = v
		return
	}
	t := l.of(s)
	if t.Percentiles == nil {
		t.Percentiles = map[string]float64{}
	}
	t.Percentiles[l.statistic[1:]] = v
}

// told is the name of the figure in a summary's JSON.
func (l latency) told() string { return l.name + "_ms." + l.statistic }

// percentiles are the keys of the percentiles that there are, in rising order.
func percentiles(s load.Stats) []string { return slices.SortedFunc(maps.Keys(s.Percentiles), byValue) }

// byValue compares numbers that are written as text.
func byValue(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
}

// gaps is how many there are between tokens that come one by one.
func gaps(s *load.Summary) int { return max(0, int(s.OutputTokens)-s.Completed) }

// judge fills in what follows from the figures that somebody has told: of how many
// requests they are, which are not known, and the verdict on them.
func judge(s *load.Summary, told map[string]bool, concurrency int) {
	for _, t := range timings() {
		of := func(figure string) bool { return strings.HasPrefix(figure, t.name+"_ms.") }
		if slices.ContainsFunc(slices.Collect(maps.Keys(told)), of) {
			n := s.Completed
			if t.name == "itl" {
				n = gaps(s)
			}
			t.of(s).Count = cmp.Or(t.of(s).Count, n)
		}
	}
	s.Unknown = unknown(s, told)
	s.Verdict = verdict(s, concurrency)
}

// ours are the figures that only this program's generator measures of itself.
func ours() []string {
	return strings.Fields(`asked_input_tokens asked_output_tokens client_cpu_share merged_chunks merged_share
		normalized_latency_ms queue_ms send_lag_ms`)
}

// unknown are the figures of a summary that are 0 and that nobody has told. Of a
// latency without any figure, its count says enough.
func unknown(s *load.Summary, told map[string]bool) []string {
	names := ours()
	note := func(f figure) {
		if f.zero(s) && !told[f.name] {
			names = append(names, f.name)
		}
	}
	for _, f := range figures() {
		switch {
		case f.name == "goodput": // which is not there where nobody has set an aim
		case f.name == "requests" && !told["failed"] && !told["requests"]:
			names = append(names, f.name) // there may have been more
		case f.name != "requests":
			note(f)
		}
	}
	for _, t := range timings() {
		if l := t.of(s); l.Mean > 0 || l.Median > 0 || l.Max > 0 || len(l.Percentiles) > 0 {
			for _, statistic := range []string{"mean", "median", "std", "min", "max"} {
				note(figureNamed(t.name + "_ms." + statistic))
			}
		}
	}
	slices.Sort(names)
	return names
}

// verdict is that on figures that others have measured: nobody can look at how, only
// whether they can be true together, and whether requests failed.
func verdict(s *load.Summary, concurrency int) load.Verdict {
	wrong := s.Contradictions(concurrency)
	if s.Failed > 0 {
		wrong = append(load.Because(fmt.Sprintf("%d of %d requests failed", s.Failed, s.Requests)), wrong...)
	}
	switch {
	case s.Completed == 0 && s.Knows("completed"):
		return load.Verdict{Verdict: load.Void, Reasons: append(load.Because("no request was completed"), wrong...)}
	case len(wrong) > 0:
		return load.Verdict{Verdict: load.Suspect, Reasons: wrong}
	}
	return load.Verdict{Verdict: load.Imported}
}
