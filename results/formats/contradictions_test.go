package formats

import (
	"strings"
	"testing"

	"hclbench/load"
)

// TestContradictions: each kind of figures that cannot be true together is found,
// and what rounding makes of true ones is not.
func TestContradictions(t *testing.T) {
	sound := load.Summary{
		Part: load.Part{Figures: load.Figures{
			Duration: 100, Completed: 200, InputTokens: 4000, OutputTokens: 20000,
			RequestThroughput: 2, InputThroughput: 40, OutputThroughput: 200, MeanConcurrency: 8,
			TTFT: load.Stats{Count: 200, Mean: 100}, E2EL: load.Stats{Count: 200, Mean: 4000},
		}},
	}
	for name, test := range map[string]struct {
		change func(s *load.Summary)
		limit  int
		want   string // "": nothing is found
	}{
		"sound": {func(s *load.Summary) {}, 8, ""},
		"little is known": {func(s *load.Summary) {
			*s = load.Summary{Part: load.Part{Figures: load.Figures{Duration: 100, Completed: 200, OutputThroughput: 7}}}
		}, 0, ""},
		"two decimals": {func(s *load.Summary) {
			s.Completed, s.RequestThroughput = 1, 0.01
			s.Duration = 68
			s.MeanConcurrency = 0
		}, 0, "an input throughput of 40.00/s"},
		"a window":           {func(s *load.Summary) { s.Window, s.OutputThroughput = &load.Window{}, 300 }, 8, ""},
		"concurrency":        {func(s *load.Summary) { s.MeanConcurrency = 9 }, 0, "the mean concurrency is given as 9.00, but 200 requests of 4.00 s in 100.00 s make it 8.00 (Little's law)"},
		"limit":              {func(s *load.Summary) {}, 7, "make 8.00 in flight, and no more than 7 were allowed"},
		"request throughput": {func(s *load.Summary) { s.RequestThroughput = 2.1 }, 8, "a request throughput of 2.10/s is given, and 200 in 100.00 s make 2.00/s"},
		"output throughput":  {func(s *load.Summary) { s.OutputThroughput = 190 }, 8, "an output throughput of 190.00/s"},
		"first after last":   {func(s *load.Summary) { s.TTFT.Mean = 5000 }, 8, "the first token comes after 5000.00 ms on average, and the last after 4000.00 ms"},
		"sum of the means":   {func(s *load.Summary) { s.TPOT.Mean = 45 }, 8, "a mean E2EL of 4000.00 ms is given, and a TTFT of 100.00 ms with 99 times a TPOT of 45.00 ms make 4555.00 ms"},
		"lengths that happen to be a multiple": {func(s *load.Summary) {
			*s = load.Summary{Part: load.Part{Figures: load.Figures{Duration: 2, Completed: 4, OutputTokens: 400,
				TTFT: load.Stats{Count: 4, Mean: 100}, TPOT: load.Stats{Count: 4, Mean: 12.5}, E2EL: load.Stats{Count: 4, Mean: 1113}}}}
		}, 0, ""},
		"gaps":              {func(s *load.Summary) { s.TPOT.Mean, s.ITL.Mean = 39.4, 30 }, 8, "a mean ITL of 30.00 ms is given, and it cannot be below the TPOT of 39.40 ms"},
		"chunks of several": {func(s *load.Summary) { s.TPOT.Mean, s.ITL.Mean = 39.4, 80 }, 8, ""},
		"percentiles":       {func(s *load.Summary) { s.E2EL.Percentiles = map[string]float64{"99": 4500, "90": 4600} }, 8, "E2EL: the p90 of 4600.00 ms is above the p99 of 4500.00 ms"},
		"median and p25":    {func(s *load.Summary) { s.TTFT.Median, s.TTFT.Percentiles = 90, map[string]float64{"25": 91} }, 8, "TTFT: the p25 of 91.00 ms is above the median of 90.00 ms"},
		"in order": {func(s *load.Summary) {
			s.TTFT = load.Stats{Mean: 100, Median: 99, Min: 1, Max: 120, Percentiles: map[string]float64{"50": 99, "99": 120}}
		}, 8, ""},
		"a short run": {func(s *load.Summary) {
			*s = load.Summary{Part: load.Part{Figures: load.Figures{Duration: 0.18, Completed: 10, RequestThroughput: 56.32}}}
		}, 0, ""},
		"a short run, wrong": {func(s *load.Summary) {
			*s = load.Summary{Part: load.Part{Figures: load.Figures{Duration: 0.18, Completed: 10, RequestThroughput: 59.32}}}
		}, 0, "a request throughput of 59.32/s"},
		"throughput, rounded": {func(s *load.Summary) { s.RequestThroughput, s.OutputThroughput = 2.004, 200.9 }, 8, ""},
	} {
		s := sound
		test.change(&s)
		got := Contradictions(&s, test.limit)
		texts := strings.Join(load.Verdict{Reasons: got}.Texts(), "\n")
		if test.want == "" && got != nil || !strings.Contains(texts, test.want) {
			t.Errorf("%s: %q, want %q", name, texts, test.want)
		}
	}
}

// TestContradictionsConcern: what contradicts nothing but itself costs the other figures nothing.
func TestContradictionsConcern(t *testing.T) {
	s := load.Summary{Part: load.Part{Figures: load.Figures{Duration: 100, Completed: 200, MeanConcurrency: 9, E2EL: load.Stats{Count: 200, Mean: 4000}}}}
	for limit, want := range map[int]bool{8: false, 0: true, 16: true} {
		v := load.Verdict{Verdict: load.Suspect, Reasons: Contradictions(&s, limit)}
		if !v.Doubts("mean_concurrency") || v.Doubts("e2el") != want || v.Doubts("ttft") {
			t.Errorf("of a concurrency of %d: %+v", limit, v)
		}
	}
}
