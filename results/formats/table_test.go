package formats

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/load"
	"hclbench/results"
)

func TestReadTable(t *testing.T) {
	rows, unused, err := ReadTable(strings.NewReader("\ufeffGPU,backend,max_concurrency,random_input_len,random_output_len,dataset_name,duration,completed,total_input_tokens,total_output_tokens," +
		"Mean TTFT (ms),P99 TTFT (ms),p50_itl_ms,mean_e2e_latency_ms,concurrency,note,workers,,\n" +
		"8xh200,trt-llm,4,1024,800,shared,100,10,32000,8000,250.5,300,20,38000,111.1,warm,25\n" +
		",,,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"workers"}, unused); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
	want := []Result{{
		Deployment: results.Deployment{Kind: "trtllm", GPUs: "8xH200"},
		Cell: results.Cell{
			Axes: axes("concurrency", int64(4), "input_tokens", int64(3200), "output_tokens", int64(800), "dataset", "shared", "note", "warm"),
			Job:  results.Task{Job: load.Job{Workload: load.Workload{Requests: 10, Concurrency: 4, OutputTokens: 800, Dataset: load.Dataset{Kind: "shared", InputTokens: 1024}}}},
			Summary: &load.Summary{
				Part: load.Part{Figures: load.Figures{
					Requests: 10, Completed: 10, Duration: 100, InputTokens: 32000, OutputTokens: 8000,
					RequestThroughput: 0.1, InputThroughput: 320, OutputThroughput: 80, TotalThroughput: 400, MeanConcurrency: 111.1,
					TTFT: load.Stats{Count: 10, Mean: 250.5, Percentiles: map[string]float64{"99": 300}},
					ITL:  load.Stats{Count: 7990, Median: 20}, E2EL: load.Stats{Count: 10, Mean: 38000},
				}, Judgement: load.Judgement{
					Verdict: load.Verdict{Verdict: load.Suspect, Reasons: []load.Reason{{
						Text:    "the mean concurrency is given as 111.10, but 10 requests of 38.00 s in 100.00 s make it 3.80 (Little's law)",
						Code:    "contradiction",
						Metrics: []string{"mean_concurrency", "request_throughput", "e2el", "normalized_latency"},
					}}},
				}},
				Unknown: append(generatorOnly(), "failed", "requests", "peak_concurrency", "peak_output_throughput", "ttft_ms.median", "ttft_ms.std", "ttft_ms.min", "ttft_ms.max",
					"itl_ms.mean", "itl_ms.std", "itl_ms.min", "itl_ms.max", "e2el_ms.median", "e2el_ms.std", "e2el_ms.min", "e2el_ms.max"),
			},
		},
	}}
	if diff := cmp.Diff(want, rows, cmpopts.IgnoreFields(results.Cell{}, "Finished"), cmpopts.IgnoreUnexported(Result{}), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("ReadCSV (-want +got):\n%s", diff)
	}

	rows, _, err = ReadTable(strings.NewReader("input_tokens,vllm_output_throughput_tok_s,sglang_output_throughput_tok_s\n1000,\"1,124.66\",971.49\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %v %.2f", r.Deployment.Kind, r.Axes, r.Summary.OutputThroughput))
	}
	if diff := cmp.Diff([]string{"vllm [{input_tokens 1000}] 1124.66", "sglang [{input_tokens 1000}] 971.49"}, got); diff != "" {
		t.Errorf("a row of two engines (-want +got):\n%s", diff)
	}

	for text, want := range map[string]string{
		"backend,throughput,output_throughput\nTensorRT-LLM,x,1\n":                "trtllm",
		"serve_command,output_throughput\npython -m lmdeploy serve,1\n":           "",
		"serve_command,output_throughput\npython -m sglang.launch_server --x,1\n": "sglang",
		"backend,output_throughput\nLMDeploy,1\n,2\n":                             "lmdeploy",
	} {
		rows, _, err := ReadTable(strings.NewReader(text))
		check(t, err)
		if got := rows[0].Deployment.Kind; got != want {
			t.Errorf("ReadTable(%q) is of engine %q, want %q", text, got, want)
		}
	}
	if rows, _, err := ReadTable(strings.NewReader("conc,output_throughput\n8,\n16,1\n")); err != nil || len(rows) != 1 {
		t.Errorf("a row without figures is a result: %v, %v", rows, err)
	}

	for text, want := range map[string]string{
		"":                                   "it has no rows",
		"conc\n8\n":                          "none of its columns is a figure that is known here",
		"output_throughput\n":                "it has no rows",
		"colour\nred\n":                      "none of its columns is a figure that is known here",
		"gpu,output_throughput\nH200,fast\n": `row 2: output_throughput is "fast", which is no figure`,
		"output_throughput\n1\n\"2\n":        "read table",
		"output_throughput\n-1\n":            "which is no figure",
		"conc,output_throughput\n8,\"0,125\"\n1.5,1.5\n": `output_throughput is "0,125", which is no figure`,
		"total_input_tokens\n1e300\n":                    "number of tokens",
	} {
		if _, _, err := ReadTable(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadTable(%q) = %v, want %q", text, err, want)
		}
	}
}

// TestOurNames: every name that hcl has for a figure is that figure in a table of others.
func TestOurNames(t *testing.T) {
	for names, want := range map[string]string{
		"ttft_p50 p50_ttft_ms median_ttft_ms ttft_p50_ms ttft_ms.median": "ttft_ms.median",
		"e2el_p99.9 p99.9_e2el_ms e2el_p99.9_ms":                         "e2el_ms.p99.9",
		"itl_mean mean_itl_ms itl_mean_ms itl_ms.mean":                   "itl_ms.mean",
		"output_throughput throughput_output":                            "output_throughput",
		"input_throughput throughput_input":                              "input_throughput",
		"total_throughput throughput_total":                              "total_throughput",
		"peak_output_throughput throughput_peak":                         "peak_output_throughput",
		"request_throughput req_s":                                       "request_throughput",
		"goodput goodput_s":                                              "goodput",
		"completed requests_ok":                                          "completed",
		"failed requests_failed":                                         "failed",
		"requests":                                                       "requests",
		"duration duration_s":                                            "duration_s",
		"total_input_tokens tokens_input":                                "input_tokens",
		"total_output_tokens tokens_output":                              "output_tokens",
		"mean_concurrency in_flight":                                     "mean_concurrency",
		"peak_concurrency":                                               "peak_concurrency",
	} {
		for name := range strings.FieldsSeq(names) {
			if m := guess(normalName(name)); m.name != want || m.axis {
				t.Errorf("%s is %q, want %q", name, m.name, want)
			}
		}
	}
	rows, _, err := ReadTable(strings.NewReader("conc,ttft_p50,completed\n8,250,1\n"))
	check(t, err)
	if got := rows[0].Summary.TTFT.Median; got != 250 {
		t.Errorf("ttft_p50 250 is %v ms", got)
	}
}

// TestDecimals: a comma parts thousands or decimals, as the rest of the table tells.
func TestDecimals(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want float64
	}{
		"semicolons":           {"conc;rate\n8;0,125\n9;1,234\n", 0.125},
		"three decimals":       {"conc;rate\n8;1,234\n", 1.234},
		"both marks":           {"conc;rate\n8;1.234,5\n", 1234.5},
		"points after all":     {"conc;rate\n8;1.234\n", 1.234},
		"points and thousands": {"conc;rate\n8;\"1,234\"\n9;1.5\n", 1234},
		"tabs":                 {"conc\trate\n8\t12,5\n9\t1,234\n", 12.5},
		"thousands":            {"conc,rate\n8,\"1,234\"\n", 1234},
		"of both":              {"conc,rate\n8,\"1,234.5\"\n", 1234.5},
	} {
		rows, _, err := ReadTable(strings.NewReader(strings.Replace(c.text, "rate", "output_throughput", 1)))
		if err != nil || rows[0].Summary.OutputThroughput != c.want {
			t.Errorf("%s: %v, want %v: %v", name, rows, c.want, err)
		}
	}
}

// TestOurTable: what `hcl report --csv` has written comes back as it was.
func TestOurTable(t *testing.T) {
	const head = "lab,run,command,cell,benchmark,engine,kind,host,gpus,gpu_count,model,image,digest,axis_concurrency,axis_ep,repetition,started,finished,verdict,reasons,duration_s,completed,failed,median_ttft_ms,p99_ttfa_ms\n"
	const row = "mine,20260101-000000-abcd,apply,0123456789ab,chat,vllm.a,vllm,h1,8xH200,4,org/m,,sha256:1,8,true,2,2026-01-01T00:00:00Z,2026-01-01T00:01:00Z,suspect,a; b,60,100,0,12.5,34.5\n"
	all, unused, err := ReadTable(strings.NewReader(head + row))
	check(t, err)
	check(t, Unsaid{}.Complete(all))
	r := all[0]
	got := fmt.Sprint(r.Benchmark, " ", r.Deployment.Engine, " ", r.Deployment.GPUCount, " ", r.Axes, " ", r.Repetition, " ",
		r.Started.UTC().Format(time.RFC3339), " ", r.Finished.UTC().Format(time.RFC3339), " ", r.Summary.Verdict, " ", r.Summary.TTFT.Median, " ", r.Summary.TTFA.Percentiles, unused)
	if want := "chat vllm.a 4 [{engine vllm.a} {concurrency 8} {ep true}] 2 2026-01-01T00:00:00Z 2026-01-01T00:01:00Z suspect: a; b 12.5 map[99:34.5] []"; got != want {
		t.Errorf("it is %s\n want %s", got, want)
	}
	if _, _, err := ReadTable(strings.NewReader(head + strings.Replace(row, "apply", "rehearse", 1))); err == nil || !strings.Contains(err.Error(), "rehearsal") {
		t.Errorf("of a rehearsal: %v", err)
	}
	all, _, err = ReadTable(strings.NewReader(head + strings.Replace(row, ",suspect,", ",,", 1))) // as people cut tables
	check(t, err)
	if got := all[0].Summary.Verdict.Verdict; got != load.Imported {
		t.Errorf("with reasons and without a verdict it is %q", got)
	}
}

// TestPublishedStudies reads the tables of the studies in examples.
func TestPublishedStudies(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/published/*.csv")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range files {
		f, err := os.Open(name)
		check(t, err)
		rows, unused, err := ReadTable(f)
		f.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		contradict := 0
		for _, r := range rows {
			if r.Deployment.Kind == "" && !strings.Contains(name, "moreh") || // which does not name its engine
				r.Summary.OutputThroughput <= 0 && r.Summary.TotalThroughput <= 0 {
				t.Errorf("%s: a row has no engine or no throughput: %+v", name, r)
			}
			if len(Contradictions(r.Summary, r.Job.Workload.Concurrency)) > 0 {
				contradict++
			}
		}
		got[strings.TrimPrefix(name, "../../examples/")] = fmt.Sprintf("%d rows, %d contradict themselves, unused %v", len(rows), contradict, unused)
	}
	want := map[string]string{
		"dstack-deepseek-r1/published/offline.csv":      "63 rows, 0 contradict themselves, unused [total_num_tokens]",
		"dstack-deepseek-r1/published/online.csv":       "54 rows, 9 contradict themselves, unused [sharegpt_output_len random_range_ratio total_output_tokens_retokenized]",
		"gpustack-h200/published/results.csv":           "15 rows, 0 contradict themselves, unused []",
		"moreh-mi300x-cluster/published/results.csv":    "7 rows, 0 contradict themselves, unused [Number of worker processes Warm-up Time Cool-down Time]",
		"moreh-mif/published/results.csv":               "7 rows, 0 contradict themselves, unused [Number of worker processes Warm-up Time Cool-down Time]",
		"skypilot-vllm-benchmark/published/results.csv": "10 rows, 0 contradict themselves, unused []",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("studies (-want +got):\n%s", diff)
	}
}

func TestGPUModel(t *testing.T) {
	for in, want := range map[string]string{"h200": "H200", "8xh200": "8xH200", "mi300": "MI300X", "8 x MI300": "8xMI300X", "mi300x": "MI300X", "mi300a": "MI300A"} {
		if got := gpuModel(in); got != want {
			t.Errorf("gpuModel(%q) = %q; want %q", in, got, want)
		}
	}
}
