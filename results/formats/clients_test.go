package formats

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

func recorded(t *testing.T, name string) Result {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	check(t, err)
	return importOne(t, string(text))
}

// figuresOf are figures by name, those that are not known as "-".
func figuresOf(r Result, names string) (all []string) {
	for name := range strings.FieldsSeq(names) {
		v := "-"
		switch f := meanings()[name]; {
		case f.name != "" && r.Summary.Knows(f.name):
			o := object{}
			o.addFigure(&r.Cell, f.figure, name)
			v = o.text(name)
		case f.name == "":
			f, _, _ := latencyNamed(name + "_ms")
			if at, ok := f.at(&r.Cell).(*float64); ok && r.Summary.Knows(f.name) {
				v = fmt.Sprintf("%.3f", *at)
			} else if at, ok := f.at(&r.Cell).(percentile); ok && at.of.Percentiles[at.p] > 0 {
				v = fmt.Sprintf("%.3f", at.of.Percentiles[at.p])
			}
		}
		all = append(all, name+" "+v)
	}
	return all
}

// TestAIPerf: the summary of a real run; what it calls ITL is a mean of each request, and so TPOT.
func TestAIPerf(t *testing.T) {
	r := recorded(t, "aiperf.json")
	want := []string{"completed 64", "failed 0", "duration 4.108953", "total_input_tokens 5057", "total_output_tokens 2048",
		"request_throughput 15.575744385462043", "input_throughput 1230.7271774575242", "output_throughput 498.4238203347854",
		"total_throughput 1729.1509977923097", "mean_concurrency 11.347309947411924", "peak_concurrency 16", "peak_output_throughput -",
		"mean_ttft 93.225", "median_ttft 65.366", "p99_ttft 483.103", "mean_tpot 20.493", "p99_tpot 21.355",
		"mean_itl 20.493", "median_itl 19.930", "p99_itl 44.517", "max_itl 61.528", "mean_e2el 728.515", "std_e2el 114.198"}
	if diff := cmp.Diff(want, figuresOf(r, names(want))); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	got := fmt.Sprint(r.Axes, r.Job.Target.Model, " ", r.Job.Workload.Requests, " ", r.Started.Format(time.DateTime), " ", r.Summary.Verdict, " ", r.Summary.ITL.Count)
	if want := "[{concurrency 16} {output_tokens 32} {input_tokens 128}]sim 64 2026-11-23 13:25:25 imported 1984"; got != want {
		t.Errorf("it is of %s\nwant %s", got, want)
	}
	failed := importOne(t, `{"aiperf_version": "0.13.0", "request_count": {"unit": "requests", "avg": 6.0}, "completed_request_count": {"unit": "requests", "avg": 8.0},
		"input_config": {"endpoint": {"type": "chat"}, "phases": [{"kind": "warmup", "concurrency": 1}, {"kind": "profiling", "rate": 2.5}], "datasets": [{"prompts": {"isl": {"mean": 9, "stddev": 1}}}]}}`)
	if s := failed.Summary; s.Failed != 2 || s.Verdict.Verdict != load.Suspect || fmt.Sprint(failed.Axes) != "[{rate 2.5}]" || failed.Job.Workload.Endpoint != load.Chat {
		t.Errorf("of a run with failures: %+v, axes %v", s, failed.Axes)
	}
}

// TestGuideLLM: the file of a real run; what it calls ITL is a mean of each request and its TPOT has the first token in it.
func TestGuideLLM(t *testing.T) {
	r := recorded(t, "guidellm.json")
	want := []string{"completed 64", "failed 0", "requests 64", "duration 2.9843647480010986", "total_input_tokens 4981", "total_output_tokens 2048",
		"request_throughput 21.4450998467485", "input_throughput 1669.0319115102234", "output_throughput 686.2431950959523",
		"total_throughput 2355.2751066061755", "mean_concurrency 14.57514959456619", "peak_concurrency 16",
		"mean_ttft 64.706", "median_ttft 59.847", "p99_ttft 100.398", "p99.9_ttft 100.398", "mean_tpot 19.721", "median_tpot 19.844", "p99_tpot 20.218",
		"mean_itl 19.721", "median_itl -", "p99_itl -", "mean_e2el 679.649", "p1_e2el 671.723"}
	if diff := cmp.Diff(want, figuresOf(r, names(want))); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	got := fmt.Sprint(r.Axes, r.Job.Target.Model, " ", r.Started.UTC().Format(time.DateTime), " ", r.Summary.Verdict, r.Summary.Verdict.Reasons[0].Metrics)
	if want := "[{concurrency 16} {output_tokens 32} {input_tokens 128}]sim 2026-11-23 13:27:34 suspect: GuideLLM: mean generation delay was 7% of mean time to first token ms.total (0.005s / 0.065s; threshold 1%). [ttft]"; got != want {
		t.Errorf("it is of %s\nwant %s", got, want)
	}
	if strings.Contains(string(r.Origin.Fields), "request_args") {
		t.Error("single requests are kept")
	}
}

// TestGuideLLMSeveral: each benchmark of a file is a result, and TPOT of answers of several lengths is not known.
func TestGuideLLMSeveral(t *testing.T) {
	const one = `{"config": {"strategy": {%s}}, "scheduler_metrics": {}, "duration": 10.0, "metrics": {"request_totals": {"successful": 3, "errored": 1, "incomplete": 1, "total": 5},
		"inter_token_latency_ms": {"successful": {"mean": 20.0, "median": 21.0, "count": 20}}, "output_token_count": {"successful": {"min": 5.0, "max": 15.0, "count": 3, "total_sum": 30.0}}}}`
	all, unused, err := Read(strings.NewReader(`{"metadata": {}, "config": {}, "benchmarks": [` + fmt.Sprintf(one, `"type_": "synchronous"`) + "," + fmt.Sprintf(one, `"type_": "poisson", "rate": 2.5`) + "]}"))
	check(t, err)
	if len(all) != 2 || len(unused) > 0 {
		t.Fatalf("%d results, unused %v", len(all), unused)
	}
	got := fmt.Sprint(all[0].Axes, all[1].Axes, all[0].Summary.Failed, all[0].Summary.Requests, all[0].Summary.TPOT.Count, all[0].Summary.ITL.Mean, all[0].Summary.ITL.Median)
	if want := "[{concurrency 1} {output_tokens 10}] [{rate 2.5} {output_tokens 10}] 2 5 0 20 0"; got != want {
		t.Errorf("they are %s\nwant %s", got, want)
	}
}

// TestGuideLLMWithoutStream: answers in one piece have no time between tokens.
func TestGuideLLMWithoutStream(t *testing.T) {
	all, _, err := Read(strings.NewReader(`{"scheduler_metrics": {}, "duration": 10.0, "metrics": {"request_totals": {"successful": 3, "total": 3},
		"inter_token_latency_ms": {"successful": null}, "output_token_count": {"successful": {"min": 5.0, "max": 5.0, "count": 3, "total_sum": 15.0}}}}`))
	check(t, err)
	if s := all[0].Summary; s.Completed != 3 || s.TPOT.Count+s.ITL.Count != 0 {
		t.Errorf("%d completed, %+v, %+v", s.Completed, s.TPOT, s.ITL)
	}
}

// TestAIPerfFilesBeside: the other files of a run say which one is read.
func TestAIPerfFilesBeside(t *testing.T) {
	_, _, table := ReadTable(strings.NewReader("Metric,avg,min\nTime to First Token (ms),1,2\n"))
	_, _, requests := Read(strings.NewReader(`{"metadata": {}, "metrics": {}}`))
	for _, err := range []error{table, requests} {
		if err == nil || !strings.Contains(err.Error(), "profile_export_aiperf.json") {
			t.Errorf("%v", err)
		}
	}
}

func names(want []string) string {
	var all []string
	for _, w := range want {
		name, _, _ := strings.Cut(w, " ")
		all = append(all, name)
	}
	return strings.Join(all, " ")
}
