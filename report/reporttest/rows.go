// Package reporttest has results to hold reports against.
package reporttest

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/results"
	"hclbench/results/formats"
	"hclbench/telemetry"
)

// Repeated is a cell measured several times.
func Repeated(engine string, concurrency int64, throughput ...float64) []results.Row {
	var rows []results.Row
	for i, v := range throughput {
		r := Row(engine, concurrency, 100, 20)
		s := *r.Summary
		s.OutputThroughput, s.Verdict = v, load.Verdict{Verdict: load.Valid}
		r.Summary, r.Repetition = &s, i+1
		rows = append(rows, r)
	}
	return rows
}

// Imported are rows as others have published them, so much faster.
func Imported(rows []results.Row, by float64) (out []results.Row) {
	for _, r := range rows {
		s := *r.Summary
		s.OutputThroughput *= by
		s.TTFT = Stats(s.TTFT.Mean / by)
		r.Summary, r.Run, r.ID = &s, results.Run{ID: "they", Command: "import", Lab: r.Run.Lab}, "their "+r.ID
		r.Summary.Verdict.Verdict = load.Imported
		out = append(out, r)
	}
	return out
}

// Accepting are rows of an engine that was told to accept its drafts, and of one that was not.
func Accepting() []results.Row {
	told := []results.Row{Row("sglang.h200", 4, 180, 21), Row("sglang.h200", 16, 310, 25)}
	for i := range told {
		told[i].Deployment.Identity = map[string]string{"env SGLANG_SIMULATE_ACC_LEN": "3.12"}
		told[i].Telemetry = &telemetry.Record{StepTokens: new(3.119)}
	}
	return append(told, Row("vllm.h200", 4, 95, 20), Row("vllm.h200", 16, 240, 27))
}

// Dstack are the rows that dstack published in March 2025, as `hcl import` reads
// them: no hand has touched them.
func Dstack(t testing.TB) []results.Row {
	t.Helper()
	run := results.Run{ID: "20250318-000000-dstk", Lab: "dstack-deepseek-r1", Command: "import",
		Started: time.Date(2025, 3, 18, 0, 0, 0, 0, time.UTC)}
	var rows []results.Row
	for _, name := range []string{"online", "offline"} {
		f, err := os.Open("../../examples/dstack-deepseek-r1/published/" + name + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		published, _, err := formats.ReadTable(f)
		if err != nil {
			t.Fatal(err)
		}
		for n, p := range published {
			r := results.Row{Cell: p.Cell, Deployment: p.Deployment, Run: run}
			r.ID, r.RunID, r.Benchmark, r.Repetition = fmt.Sprint(name, n), run.ID, name, 1
			r.Deployment.Engine, r.Deployment.GPUCount = r.Deployment.Kind, 8
			rows = append(rows, r)
		}
	}
	return rows
}

// Measured is a run of two engines on two hosts with everything that a result can
// have: prices, telemetry, series, repetitions, doubts, facts.
func Measured() (rows []results.Row) {
	facts := json.RawMessage(`{"hostname":"gpu1","os":"Ubuntu 22.04.5 LTS","kernel":"6.8.0-45-generic","arch":"x86_64",
		"cpu_model":"INTEL(R) XEON(R) PLATINUM 8570","cpus":224,"memory_bytes":2164663517184,"docker":"28.5.2",
		"gpus":[{"vendor":"nvidia","name":"NVIDIA H200","memory_bytes":151397597184,"driver":"550.144.03"},
		{"vendor":"nvidia","name":"NVIDIA H200","memory_bytes":151397597184,"driver":"550.144.03"}]}`)
	at := Start
	for e, engine := range []string{"sglang.h200", "vllm.h200", "vllm.mi300x"} {
		host, gpus := "h200", "8xH200"
		if engine == "vllm.mi300x" {
			host, gpus = "mi300x", "8xMI300X"
		}
		ready := at
		at = at.Add(9 * time.Minute)
		for c, concurrency := range []int64{1, 4, 16, 64, 128} {
			for repetition := 1; repetition <= 3; repetition++ {
				slower := 1 + 0.02*float64(repetition) + 0.15*float64(e)
				r := Row(engine, concurrency, slower*(60+11*float64(concurrency)), slower*(18+0.35*float64(concurrency)))
				r.ID, r.Repetition = fmt.Sprintf("%s-%d-%d", engine, concurrency, repetition), repetition
				r.Started, r.Finished = at, at.Add(70*time.Second)
				at = at.Add(75 * time.Second)
				r.Deployment = results.Deployment{ID: "d-" + engine, RunID: r.RunID, Engine: engine, Kind: KindIn(engine),
					Host: host, GPUs: gpus, GPUCount: 8,
					Model: "deepseek-ai/DeepSeek-R1", Image: "example.com/" + KindIn(engine) + ":v1",
					Digest:  "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
					Command: []string{KindIn(engine), "serve", "--tp", "8", "--served-model-name", "deepseek-ai/DeepSeek-R1"}, Facts: facts,
					Started: ready, Ready: 480, PricePerHour: 28, Versions: map[string]string{"torch": "2.7.0", KindIn(engine): "0.9.1"},
					Served: json.RawMessage(`{"max_model_len":163840,"dtype":"bfloat16"}`),
					Phases: []results.Phase{{Name: "pull", Seconds: 61}, {Name: "load weights", Seconds: 312}, {Name: "capture graphs", Seconds: 44}}}
				r.Job.Workload = load.Workload{Requests: 64, Concurrency: int(concurrency), OutputTokens: 128,
					Dataset: load.Dataset{Kind: load.Random, InputTokens: 1024}}
				for _, s := range []*load.Stats{&r.Summary.TTFT, &r.Summary.TPOT, &r.Summary.ITL, &r.Summary.E2EL} {
					s.Percentiles["25"], s.Percentiles["75"] = s.Mean*0.9, s.Mean*1.03
				}
				n := 60
				series := &load.Series{Every: load.Duration(time.Second)}
				power := telemetry.Series{Of: "gpu0", Name: telemetry.Power, Unit: "W"}
				cache := telemetry.Series{Of: telemetry.Engine, Name: telemetry.KVCache}
				for i := range n {
					wave := 1 + 0.08*math.Sin(float64(i)/3)
					ramp := min(1, float64(i+1)/6, float64(n-i)/5)
					series.InFlight = append(series.InFlight, float64(concurrency)*ramp)
					series.OutputTokens = append(series.OutputTokens, r.Summary.OutputThroughput*wave*ramp)
					series.TTFT = append(series.TTFT, r.Summary.TTFT.Median*wave)
					power.At, power.Value = append(power.At, float64(i)), append(power.Value, 180+420*ramp*wave)
					cache.At, cache.Value = append(cache.At, float64(i)), append(cache.Value, 0.7*ramp)
				}
				r.Summary.Series = series
				r.Telemetry = &telemetry.Record{Interval: 1, Series: []telemetry.Series{power, cache}, Expected: n,
					Energy: 8 * 560 * r.Summary.Duration}
				if c == 4 && repetition == 2 && e == 1 {
					r.Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because(load.CodeThrottled, "GPU 3 was throttled in 12 of 60 seconds")}
				}
				if c == 4 && repetition == 3 && e == 2 {
					r.Summary, r.Error = nil, "the server stopped answering: 503 Service Unavailable"
				}
				rows = append(rows, r)
			}
		}
		stopped := at.Add(time.Minute)
		for i := range rows {
			if rows[i].Deployment.Engine == engine {
				rows[i].Deployment.Stopped = stopped
			}
		}
		at = stopped
	}
	return rows
}

var Pictures = flag.String("pictures", "", "write what the browser shows into this `folder`, to be looked at")

// Surely is a row with intervals.
func Surely(throughput, low, high float64) results.Row {
	r := Repeated("vllm.h200", 16, throughput)[0]
	r.Summary.Intervals = map[string]load.Interval{"output_throughput": {Low: low, High: high},
		"ttft_ms.mean": {Low: 95, High: 105}, "ttft_ms.median": {Low: 90, High: 99, AtMost: 101.5},
		"ttft_ms.p90": {Low: 106, High: 115, AtMost: 117}}
	return r
}

// Member is one of an engine's on a host of 8 GPUs, of which it uses some.
func Member(role string, instance, rank int, host string, gpus int) results.Member {
	m := results.Member{
		Role: role, Instance: instance, Rank: rank, Host: host, GPUs: "8xH200", GPUCount: gpus, Price: 30,
		Image: "vllm/vllm-openai:v0.11.0", Digest: "sha256:" + role, Versions: map[string]string{"vllm": "0.11.0"},
		Command: []string{"vllm", role}, Facts: json.RawMessage(`{"os":"os of ` + host + `","gpus":[{"name":"H200"}]}`),
	}
	if role == "router" {
		m.Image, m.Versions, m.GPUs, m.Price = "router:1", nil, "", 0.5
	}
	return m
}

// Of are two cells of an engine of these members.
func Of(engine string, members ...results.Member) []results.Row {
	rows := []results.Row{Row(engine, 16, 240, 24), Row(engine, 64, 400, 32)}
	served := map[string]any{}
	for _, m := range members {
		if m.Role != "router" {
			served[m.Name()] = map[string]any{"role": m.Role, "max_model_len": 8192}
		}
	}
	text, _ := json.Marshal(served) // maps of texts and numbers
	for i := range rows {
		d := &rows[i].Deployment
		d.ID, d.Kind, d.Served = "d-"+engine, KindIn(engine), text
		d.Started, d.Ready, d.Stopped = Start.Add(-time.Minute), 60, Start.Add(time.Hour)
		d.SetMembers(members)
	}
	return rows
}

// Engines of several members: prefill and decode on four hosts, one engine over two, and
// prefill and decode on one.
func FourHosts() []results.Row {
	return Of("group.pd", Member("prefill", 0, 0, "n0", 8), Member("prefill", 1, 0, "n1", 8),
		Member("decode", 0, 0, "n2", 8), Member("router", 0, 0, "n3", 0))
}

func TwoHosts() []results.Row {
	return Of("vllm.wide", Member("serve", 0, 0, "n0", 8), Member("serve", 0, 1, "n1", 8))
}

func OneHost() []results.Row {
	router := Member("router", 0, 0, "n0", 0)
	router.GPUs, router.Price = "8xH200", 30
	return Of("group.small", Member("prefill", 0, 0, "n0", 2), Member("decode", 0, 0, "n0", 2), router)
}

// Start is when the first cell was measured.
var Start = time.Date(2026, 11, 21, 14, 25, 1, 0, time.UTC)

// Stats spread around a mean as latencies do.
func Stats(mean float64) load.Stats {
	return load.Stats{Count: 512, Mean: mean, Median: mean * 0.97, Std: mean * 0.12, Min: mean * 0.8, Max: mean * 1.9,
		Percentiles: map[string]float64{"50": mean * 0.97, "90": mean * 1.1, "95": mean * 1.25, "99": mean * 1.7}}
}

// KindIn is the kind in an engine's name: "vllm" of "vllm.h200".
func KindIn(engine string) string { kind, _, _ := strings.Cut(engine, "."); return kind }

// Row is a cell of an engine at a concurrency, as busy as such a cell may be.
func Row(engine string, concurrency int64, ttft, itl float64) results.Row {
	const tokens = 128
	seconds := (ttft + tokens*itl) / 1000
	throughput := float64(concurrency) / seconds
	return results.Row{
		Cell: results.Cell{
			ID: engine + "-" + time.Duration(concurrency).String(), RunID: "20261121-142501-k3f9", Benchmark: "online",
			Axes: results.Axes{{Name: "engine", Value: engine}, {Name: "concurrency", Value: concurrency},
				{Name: "output_tokens", Value: int64(tokens)}},
			Repetition: 1, Started: Start, Finished: Start.Add(time.Minute),
			Summary: &load.Summary{
				Part: load.Part{Figures: load.Figures{
					Started: Start, Duration: 64 / throughput, Requests: 64, Completed: 64,
					InputTokens: 64 * 1024, AskedInput: 64 * 1024, OutputTokens: 64 * tokens, AskedOutput: 64 * tokens,
					RequestThroughput: throughput, OutputThroughput: throughput * tokens,
					InputThroughput: throughput * 1024, TotalThroughput: throughput * (tokens + 1024),
					TTFT: Stats(ttft), TPOT: Stats(itl), ITL: Stats(itl), E2EL: Stats(seconds * 1000),
					MeanConcurrency: float64(concurrency) * 0.98, PeakConcurrency: int(concurrency), PeakOutputThroughput: throughput * tokens * 1.1,
				}, Generator: load.Generator{CPUShare: 0.0312}, Judgement: load.Judgement{Verdict: load.Verdict{Verdict: load.Valid}}},
			},
		},
		Deployment: results.Deployment{Engine: engine, Kind: KindIn(engine), Host: "h200", GPUs: "8xH200", Model: "deepseek-ai/DeepSeek-R1"},
		Run:        results.Run{ID: "20261121-142501-k3f9", Lab: "deepseek-r1", Command: "apply", Started: Start},
	}
}

func Matrix() []results.Row {
	return []results.Row{
		Row("sglang.h200", 4, 180.4, 21.31), Row("sglang.h200", 16, 310, 24.9), Row("sglang.h200", 128, 1432, 61.2),
		Row("vllm.h200", 4, 95.06, 19.8), Row("vllm.h200", 16, 240, 27.33), Row("vllm.h200", 128, 12_345, 99.7),
	}
}

// Quickstart is what the first command that a user runs prints.
func Quickstart() []results.Row {
	var rows []results.Row
	for _, e := range []string{"sim.vllm", "sim.sglang"} {
		for _, c := range []int64{1, 4, 16} {
			r := Row(e, c, 20, 5)
			r.Run.Lab, r.Run.Command = "quickstart", "rehearse"
			r.Deployment = results.Deployment{Engine: e, Kind: "sim", Host: "local", Model: "sim/small"}
			rows = append(rows, r)
		}
	}
	return rows
}

// Written is what is written into a file.
func Written(t *testing.T, write func(w io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Trimmed are the lines of a text, none of which may end in blanks.
func Trimmed(t *testing.T, text string) iter.Seq[string] {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimRight(line, " ") != line {
			t.Errorf("blanks at the end of %q", line)
		}
	}
	return strings.SplitSeq(text, "\n")
}

// Check says what differs.
func Check(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Holds says which of the texts are not in one.
func Holds(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Swept are cells of two engines by the lengths of prompts and answers, at two loads: more combinations
// than have lines.
func Swept(engines ...string) (rows []results.Row) {
	for e, engine := range engines {
		for i, in := range []int64{128, 1024, 8192} {
			for o, out := range []int64{64, 512, 2048} {
				for _, c := range []int64{4, 64} {
					r := Row(engine, c, float64(50*(i+1)), 20+float64((3*i+5*o+7*e)%11))
					r.ID += fmt.Sprint(in, out)
					r.Axes = append(r.Axes[:2:2], results.Axis{Name: "input_tokens", Value: in}, results.Axis{Name: "output_tokens", Value: out})
					rows = append(rows, r)
				}
			}
		}
	}
	return rows
}
