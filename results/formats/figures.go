package formats

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/load/metric"
	"hclbench/results"
)

// figure is a number of a summary or of a load that others have, too.
type figure struct {
	name  string                  // in a summary's JSON, "completed", "ttft_ms.mean"; of a load, the axis
	names string                  // in tables and objects of others, each in small letters
	at    func(*results.Cell) any // a pointer to a number, to that of one where there may be none, or a percentile
	ms    float64                 // what one of theirs is in ours; 0: the same
}

// percentile is one of a latency's percentiles, "99".
type percentile struct {
	of *load.Stats
	p  string
}

// figures are those of a summary, but for its latencies.
func figures() []figure {
	of := func(name, names string, at func(*load.Summary) any) figure {
		return figure{name: name, names: names, at: func(c *results.Cell) any { return at(c.Summary) }}
	}
	// ours has the names that we have for it too.
	ours := func(m metric.Metric, name, names string, at func(*load.Summary) any) figure {
		return of(name, names+" "+m.Name+" "+m.Heading(), at)
	}
	return []figure{
		ours(metric.Completed, "completed", "successful_requests num_requests", func(s *load.Summary) any { return &s.Completed }),
		ours(metric.Failed, "failed", "failed_requests", func(s *load.Summary) any { return &s.Failed }),
		of("requests", "num_prompts requests", func(s *load.Summary) any { return &s.Requests }),
		ours(metric.Duration, "duration_s", "elapsed_time benchmark_duration_s benchmark_duration_sec",
			func(s *load.Summary) any { return &s.Duration }),
		ours(metric.InputTokens, "input_tokens", "total_input_text_tokens", func(s *load.Summary) any { return &s.InputTokens }),
		ours(metric.OutputTokens, "output_tokens", "total_generated_tokens", func(s *load.Summary) any { return &s.OutputTokens }),
		ours(metric.RequestThroughput, "request_throughput", "requests_per_second request_throughput_req_s",
			func(s *load.Summary) any { return &s.RequestThroughput }),
		ours(metric.InputThroughput, "input_throughput", "input_token_throughput_tok_s",
			func(s *load.Summary) any { return &s.InputThroughput }),
		ours(metric.OutputThroughput, "output_throughput", "output_token_throughput_tok_s output_throughput_tok_s",
			func(s *load.Summary) any { return &s.OutputThroughput }),
		ours(metric.TotalThroughput, "total_throughput", "total_token_throughput total_token_throughput_tok_s tokens_per_second",
			func(s *load.Summary) any { return &s.TotalThroughput }),
		ours(metric.Goodput, "goodput", "request_goodput", func(s *load.Summary) any { return &s.Goodput }),
		ours(metric.PeakThroughput, "peak_output_throughput", "max_output_tokens_per_s",
			func(s *load.Summary) any { return &s.PeakOutputThroughput }),
		of("peak_concurrency", "peak_concurrency peak_concurrent_requests max_concurrent_requests",
			func(s *load.Summary) any { return &s.PeakConcurrency }),
		ours(metric.MeanConcurrency, "mean_concurrency", "", func(s *load.Summary) any { return &s.MeanConcurrency }),
	}
}

// A latency's name has these words in any order, the one of the latency in one of these
// spellings: "p99_ttft_ms", "TTFT (ms) avg".
var (
	latencyWords = [][2]string{
		{"time_to_first_token", "ttft"}, {"time_per_output_token", "tpot"}, {"inter_token_latency", "itl"},
		{"end_to_end_latency", "e2el"}, {"request_latency", "e2el"}, {"e2e_latency", "e2el"}, {"e2e", "e2el"},
		{"ttft", "ttft"}, {"ttfa", "ttfa"}, {"tpot", "tpot"}, {"itl", "itl"}, {"e2el", "e2el"},
	}
	statisticWords = map[string]string{
		"mean": "mean", "avg": "mean", "average": "mean", "median": "median", "std": "std", "stddev": "std",
		"min": "min", "max": "max",
	}
	unitWords = map[string]string{
		"ms": "ms", "milliseconds": "ms", "s": "s", "sec": "s", "secs": "s", "seconds": "s", "us": "us", "microseconds": "us",
	}
)

// milliseconds are those of a unit; of none, it is to be guessed.
var milliseconds = map[string]float64{"ms": 1, "s": 1e3, "us": 1e-3}

var percentileWord = regexp.MustCompile(`^p\d+(\.\d+)?$`)

// latencyNamed is the figure that such a name means, and the unit that it says, which may
// be none.
func latencyNamed(name string) (f figure, unit string, ok bool) {
	rest, latency := "_"+normalName(name)+"_", ""
	for _, w := range latencyWords {
		if before, after, found := strings.Cut(rest, "_"+w[0]+"_"); found {
			rest, latency = before+"_"+after, w[1]
			break
		}
	}
	which := ""
	for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return r == '_' }) {
		s := statisticWords[word]
		if percentileWord.MatchString(word) {
			s = word
		}
		u := unitWords[word]
		if s == "" && u == "" || s != "" && which != "" || u != "" && unit != "" {
			return figure{}, "", false
		}
		which, unit = which+s, unit+u
	}
	if latency == "" || which == "" {
		return figure{}, "", false
	}
	f = statistic(latency, which)
	f.ms = milliseconds[unit]
	return f, unit, true
}

// statistic is a figure of a latency: "mean", "p99".
func statistic(latency, name string) figure {
	latency = ownName(latency)
	return figure{name: latency + "_ms." + name, at: func(c *results.Cell) any {
		if latency == "ttfa" && c.Summary.TTFA == nil {
			c.Summary.TTFA = new(load.Stats)
		}
		t := latencies(c.Summary)[latency]
		if p, ok := strings.CutPrefix(name, "p"); ok {
			return percentile{t, p}
		}
		return map[string]*float64{"mean": &t.Mean, "median": &t.Median, "std": &t.Std, "min": &t.Min, "max": &t.Max}[name]
	}}
}

// ownName is a latency's name here: SGLang calls E2EL e2e_latency.
func ownName(latency string) string { return strings.Replace(latency, "e2e_latency", "e2el", 1) }

// latencies are those that a summary has, by name.
func latencies(s *load.Summary) map[string]*load.Stats {
	all := map[string]*load.Stats{"ttft": &s.TTFT, "tpot": &s.TPOT, "itl": &s.ITL, "e2el": &s.E2EL}
	if s.TTFA != nil {
		all["ttfa"] = s.TTFA
	}
	return all
}

// set gives a figure its value.
func (f figure) set(c *results.Cell, v float64) {
	if f.ms != 0 {
		v *= f.ms
	}
	switch at := f.at(c).(type) {
	case *int:
		*at = int(math.Round(v))
	case *int64:
		*at = int64(math.Round(v))
	case *float64:
		*at = v
	case *load.Rate:
		*at = load.Rate(v)
	case **float64:
		*at = &v
	case percentile:
		if at.of.Percentiles == nil {
			at.of.Percentiles = map[string]float64{}
		}
		if at.of.Percentiles[at.p] = v; at.p == "50" && at.of.Median == 0 {
			at.of.Median = v
		}
	}
}

// byValue compares numbers that are written as text.
func byValue(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
}

// judge fills in what follows from the figures that somebody has told: of how many
// requests they are, which are not known, and the verdict on them, which is ours where
// we have measured. Nil: the summary is ours, and all of that is in it.
func (r *Result) judge(told map[string]bool) {
	c, s := &r.Cell, r.Summary
	if r.ours != nil {
		defer func() { s.Verdict = taken(*r.ours) }()
	}
	if told == nil {
		return
	}
	for name, t := range latencies(s) {
		n := s.Completed
		if name == "itl" { // between tokens that come one by one
			n = max(0, int(s.OutputTokens)-s.Completed)
		}
		for figure := range told {
			if strings.HasPrefix(figure, name+"_ms.") {
				t.Count = cmp.Or(t.Count, n)
			}
		}
	}
	s.Unknown = unknown(c, told)
	s.Verdict = verdict(s, c.Job.Workload.Concurrency, r.doubts)
}

// taken is a verdict of ours on what was measured elsewhere.
func taken(v load.Verdict) load.Verdict {
	if v.Verdict == load.Suspect || v.Verdict == load.Void {
		return v
	}
	return load.Verdict{Verdict: load.Imported}
}

// ours are the figures that only this program's generator measures of itself.
const ours = `asked_input_tokens asked_output_tokens client_cpu_share merged_chunks merged_share
	normalized_latency_ms queue_ms send_lag_ms`

// unknown are the figures of a summary that are 0 and that nobody has told. Of a
// latency without any figure, its count says enough.
func unknown(c *results.Cell, told map[string]bool) []string {
	all := figures()
	for name, t := range latencies(c.Summary) {
		if t.Mean > 0 || t.Median > 0 || t.Max > 0 || len(t.Percentiles) > 0 {
			for _, s := range []string{"mean", "median", "std", "min", "max"} {
				all = append(all, statistic(name, s))
			}
		}
	}
	names := slices.DeleteFunc(strings.Fields(ours), func(name string) bool { return told[name] })
	for _, f := range all {
		zero := reflect.ValueOf(f.at(c)).Elem().IsZero()
		switch {
		case told[f.name], f.name == "goodput": // which is not there where nobody has set an aim
		case f.name == "requests" && !told["failed"], f.name != "requests" && zero: // there may have been more requests
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return names
}

// verdict is that on figures that others have measured: nobody can look at how, only
// whether they can be true together, whether requests failed, and what their tool doubts.
func verdict(s *load.Summary, concurrency int, doubts []load.Reason) load.Verdict {
	wrong := append(doubts, Contradictions(s, concurrency)...)
	if s.Failed > 0 {
		wrong = append(load.Because(load.CodeFailed, fmt.Sprintf("%d of %d requests failed", s.Failed, s.Requests)), wrong...)
	}
	switch {
	case s.Completed == 0 && s.Knows("completed"):
		return load.Verdict{Verdict: load.Void, Reasons: append(load.Because(load.CodeNoneCompleted, "no request was completed"), wrong...)}
	case len(wrong) > 0:
		return load.Verdict{Verdict: load.Suspect, Reasons: wrong}
	}
	return load.Verdict{Verdict: load.Imported}
}
