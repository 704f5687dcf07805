package figure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/report/reporttest"
	"hclbench/results"
)

func TestWhere(t *testing.T) {
	rows := reporttest.Matrix() // sglang and vllm, 4, 16, 128
	for i := range rows {
		rows[i].Deployment.Kind = reporttest.KindIn(rows[i].Deployment.Engine)
	}
	rows[5].Summary, rows[5].Error = nil, "lost"
	for condition, want := range map[string]string{
		`engine = "vllm" and concurrency >= 16`:                         "vllm.h200/16 vllm.h200/128",
		`engine = 'vllm.h200' and concurrency>=16`:                      "vllm.h200/16 vllm.h200/128",
		`engine == "sg*"`:                                               "sglang.h200/4 sglang.h200/16 sglang.h200/128",
		`kind != vllm`:                                                  "sglang.h200/4 sglang.h200/16 sglang.h200/128",
		`concurrency = 4 or concurrency = 128 and verdict=void`:         "sglang.h200/4 vllm.h200/4 vllm.h200/128",
		`(concurrency = 4 or concurrency = 128) and not verdict = void`: "sglang.h200/4 sglang.h200/128 vllm.h200/4",
		`median_ttft_ms < 200`:                                          "sglang.h200/4 vllm.h200/4",
		`ttft_p50 < 200 and throughput_output > 0 and requests_ok = 64`: "sglang.h200/4 vllm.h200/4",
		`not median_ttft_ms < 200`: "sglang.h200/16 sglang.h200/128 " +
			"vllm.h200/16 vllm.h200/128", // the last has none
		`median_ttft_ms >= 0`: "sglang.h200/4 sglang.h200/16 sglang.h200/128 vllm.h200/4 vllm.h200/16",
		`gpu_count = 8 AND model = "deepseek-ai/*" and repetition = 1 and host < "z"`: "sglang.h200/4 sglang.h200/16 sglang.h200/128 " +
			"vllm.h200/4 vllm.h200/16 vllm.h200/128",
		`concurrency > "many"`: "",
	} {
		got, err := Matching(rows, condition)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
			continue
		}
		if diff := cmp.Diff(want, names(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", condition, diff)
		}
	}
	if _, err := Matching(rows, "colour = red"); err == nil || !strings.Contains(err.Error(), `there is no "colour" to compare. The nearest of`) {
		t.Errorf("a column that is not there: %v", err)
	}
}

// TestWhereRehearsed: the engine that stands in for another is found as that one.
func TestWhereRehearsed(t *testing.T) {
	rows := reporttest.Matrix()
	for i := range rows {
		rows[i].Deployment.Kind, rows[i].Run.Command = "sim", "rehearse"
	}
	for condition, want := range map[string]int{"engine = vllm": 3, "kind = vllm": 3, "kind = sim": 6,
		"engine = sim": 6, "kind != sglang": 3} {
		if got, err := Matching(rows, condition); err != nil || len(got) != want {
			t.Errorf("%s: %d rows, %v, want %d", condition, len(got), err, want)
		}
	}
}

func names(rows []results.Row) string {
	var all []string
	for _, r := range rows {
		v, _ := r.Axes.Value("concurrency")
		all = append(all, fmt.Sprintf("%s/%v", r.Deployment.Engine, v))
	}
	return strings.Join(all, " ")
}
