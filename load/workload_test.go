package load

import "testing"

func TestLongest(t *testing.T) {
	for _, c := range []struct {
		w             Workload
		input, output int
	}{
		{Workload{Dataset: Dataset{Kind: Random, InputTokens: 100}, OutputTokens: 10}, 100, 10},
		{Workload{Dataset: Dataset{Kind: Random, InputTokens: 100, RangeRatio: new(0.5)}, OutputTokens: 10}, 100, 10},
		{Workload{Dataset: Dataset{Kind: Random, InputTokens: 100, RangeRatio: new(0.5), Convention: ConventionVLLM}, OutputTokens: 10}, 150, 15},
		{Workload{Dataset: Dataset{Kind: SharedPrefix, PrefixTokens: 2000, QuestionTokens: 100}, OutputTokens: 10}, 2100, 10},
		{Workload{Dataset: Dataset{Kind: ShareGPT, InputTokens: 500, OutputTokens: 600}}, 500, 600},
		{Workload{Dataset: Dataset{Kind: ShareGPT}}, 0, 0},
	} {
		if input, output := c.w.Longest(); input != c.input || output != c.output {
			t.Errorf("Longest of %+v = %d, %d, want %d, %d", c.w.Dataset, input, output, c.input, c.output)
		}
	}
}
