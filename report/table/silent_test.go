package table

import (
	"bytes"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/results"
)

// TestSilent: requests that generate nothing are told of by what they have, also where nobody has counted their prompts.
func TestSilent(t *testing.T) {
	row := func(input int64) results.Row {
		s := &load.Summary{}
		s.Requests, s.Completed, s.Duration, s.RequestThroughput = 40, 40, 2, 20
		s.InputTokens, s.InputThroughput, s.UsageMissing = input, float64(input)/2, 40
		s.E2EL = load.Describe([]float64{50, 51, 52}, []float64{50, 90})
		s.Verdict = load.Verdict{Verdict: load.Valid}
		return results.Row{Cell: results.Cell{Benchmark: "ranks", Summary: s}}
	}
	for input, want := range map[int64][]string{0: {"req/s", "E2EL"}, 4000: {"input", "req/s", "E2EL"}} {
		var b bytes.Buffer
		if err := Table(&b, []results.Row{row(input)}, Options{Width: 120}); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%d tokens: no %s in\n%s", input, w, &b)
			}
		}
		for _, w := range []string{"TTFT", "output"} {
			if strings.Contains(b.String(), w) {
				t.Errorf("%d tokens: %s in\n%s", input, w, &b)
			}
		}
		b.Reset()
		if err := Summary(&b, row(input).Summary, 0); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); strings.Contains(text, "Output ") || strings.Contains(text, "output tokens") || strings.Contains(text, " 0 input") ||
			!strings.Contains(text, "not told in 40 answers") || strings.Contains(text, "Input               not told") != (input == 0) {
			t.Errorf("%d tokens:\n%s", input, text)
		}
	}
}
