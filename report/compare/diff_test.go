package compare

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"hclbench/load"
	"hclbench/report/figure"
	"hclbench/report/reporttest"
	"hclbench/report/say"
	"hclbench/results"
)

func TestDiff(t *testing.T) {
	a := slices.Concat(reporttest.Repeated("vllm.h200", 4, 100, 101, 99, 100), reporttest.Repeated("vllm.h200", 16, 300, 310, 290, 305),
		reporttest.Repeated("vllm.h200", 64, 500), reporttest.Repeated("vllm.h200", 128, 1))
	b := slices.Concat(reporttest.Repeated("vllm.h200", 4, 90, 91, 89, 90), reporttest.Repeated("vllm.h200", 16, 301, 309, 288, 300), reporttest.Repeated("vllm.h200", 64, 550))
	for i := range a {
		a[i].Deployment.Identity = map[string]string{"--tp": "8", "image": "x"}
		a[i].Deployment.Facts = json.RawMessage(`{"kernel":"5.15","gpus":[{"driver":"550.1"}],
			"settings":{"ecc":"on"},"condition":{"clock_skew":1}}`)
	}
	for i := range b {
		b[i].Deployment.Identity = map[string]string{"--tp": "4", "image": "x"}
		b[i].Deployment.Facts = json.RawMessage(`{"kernel":"5.15","gpus":[{"driver":"570.2"}],
			"settings":{"ecc":"off"},"condition":{"clock_skew":2}}`)
		b[i].Deployment.Versions = map[string]string{"torch": "2.6"}
	}
	b[8].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: load.Because("", "hot")}
	d, err := Diff("run a", a, "run b", b, []string{"output_throughput"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range d.Cells {
		for _, f := range c.Figures {
			got = append(got, strings.Join([]string{c.Name(), say.Spread(f.A), say.Spread(f.B), f.text(), f.doubt(c)}, " | "))
		}
	}
	want := []string{
		"vllm.h200 concurrency=4 output_tokens=128 | 100 ±1.0% | 90.0 ±1.2% | −10 % | p=0.029 n=4+4",
		"vllm.h200 concurrency=16 output_tokens=128 | 302 ±4.2% | 300 ±4.2% | ~ | p=0.743 n=4+4, some 397 repetitions would tell",
		"vllm.h200 concurrency=64 output_tokens=128 | 500 | 550 | +10 % | n=1+1, too few to tell, which takes 4 of each, B suspect",
	}
	reporttest.Check(t, "cells", want, got)
	if d.OnlyA != 1 || d.OnlyB != 0 {
		t.Errorf("only in one: %d, %d", d.OnlyA, d.OnlyB)
	}
	wantInputs := []InputDiff{
		{"vllm.h200", "--tp", "8", "4", 3}, {"vllm.h200", "host: gpus[0].driver", "550.1", "570.2", 3},
		{"vllm.h200", "host: settings.ecc", "on", "off", 3}, {"vllm.h200", "version: torch", "", "2.6", 3},
	}
	reporttest.Check(t, "inputs", wantInputs, d.Inputs)

	less, errLess := ParseLimit("output_throughput < -5%")
	more, errMore := ParseLimit("output_throughput > 5 %")
	if err := errors.Join(errLess, errMore, d.Check([]GateLimit{less, more}, []string{Suspects})); err != nil {
		t.Fatal(err)
	}
	var broken []string
	for _, x := range d.Failing() {
		broken = append(broken, x.String())
	}
	wantBroken := []string{
		"online vllm.h200 concurrency=4 output_tokens=128: output_throughput < -5%: changed by −10 % (100 tok/s to 90.0 tok/s)",
		"online vllm.h200 concurrency=128 output_tokens=128: output_throughput < -5%: it is missing in B",
		"online vllm.h200 concurrency=64 output_tokens=128: output_throughput > 5 %: changed by +10 % (500 tok/s to 550 tok/s)",
		"online vllm.h200 concurrency=128 output_tokens=128: output_throughput > 5 %: it is missing in B",
	}
	reporttest.Check(t, "broken limits", wantBroken, broken)
	reporttest.Holds(t, reporttest.Written(t, d.JUnit), `tests="8" failures="4" skipped="0"`)

	for format, want := range map[string]string{
		"text": "cells in both, 1 only in A\n" +
			"in all cells: benchmark online, engine vllm.h200, output_tokens 128\noutput_throughput: 1 worse, 1 level, 1 suspect\n\nOutput",
		"text, inputs": "\nWhat else is not the same\n" +
			"engine     what went in          A      B      cells\nvllm.h200  --tp                  8      4          3\n",
		"markdown":  "| concurrency | A | B | change |  |\n|---:|---:|---:|---:|---|\n| 4 | 100 ±1.0% | 90.0 ±1.2% | −10 % |",
		"json":      `"change_percent": -10`,
		"benchstat": "side: B\nresults: run b\nBenchmarkOnline/engine=vllm.h200/concurrency=4/output_tokens=128\t1\t90 output_throughput\n",
	} {
		format, _, _ = strings.Cut(format, ",")
		reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return d.Write(w, format, 100) }), want)
	}
	if _, err := Diff("a", a, "b", b, []string{"speed"}); err == nil || !strings.Contains(err.Error(), `there is no metric "speed"`) {
		t.Errorf("Diff of an unknown metric = %v", err)
	}
}

// A comparison says of each side what has no figures, and whose host is another now.
func TestDiffTells(t *testing.T) {
	a, b := reporttest.Repeated("vllm.h200", 4, 100), reporttest.Repeated("vllm.h200", 4, 100)
	a, b = append(a, reporttest.Repeated("vllm.h200", 8, 200)...), append(b, reporttest.Repeated("vllm.h200", 8, 200)...)
	b[0].HostChanged = []string{"driver 550 → 570"}
	b[1] = figure.Unmeasured(b[:1], []figure.Planned{{ID: "x", Benchmark: "online", Engine: "vllm.h200", Axes: b[1].Axes}})[0]
	d, err := Diff("a", a, "b", b, DefaultMetrics())
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string][]string{
		"text": {"2 cells in both (1 void in B)\n",
			"B: Host h200 has changed since 1 of these cells was measured: driver 550 → 570.\n",
			"\nEverything that is known to have gone in is the same.\n"},
		"markdown": {"2 cells in both (1 void in B)", "B: Host h200 has changed"},
		"json":     {`"B: Host h200 has changed since`},
	} {
		reporttest.Holds(t, reporttest.Written(t, func(w io.Writer) error { return d.Write(w, format, 100) }), want...)
	}
}

// What a run kept of its plan tells that a cell is the same under another name.
func TestDiffOfRunRenamed(t *testing.T) {
	a, b := reporttest.Repeated("vllm.h200", 4, 100), reporttest.Repeated("vllm.h200", 4, 100)
	figure.Group(a, []figure.Planned{{ID: a[0].ID, Group: "g"}})
	b[0].Group, b[0].Benchmark = "g", "serving"
	if d, err := Diff("run a", a, "b", b, DefaultMetrics()); err != nil || len(d.Cells) != 1 {
		t.Errorf("%v, %+v", err, d)
	}
}

// A file names the engine in a column, which is an axis in a lab.
func TestDiffEngineIsAnAxisOrNot(t *testing.T) {
	a, b := reporttest.Repeated("vllm.h200", 4, 100), reporttest.Repeated("vllm.h200", 4, 100)
	b[0].Deployment.Kind, b[0].Axes = "", slices.DeleteFunc(slices.Clone(b[0].Axes), func(x results.Axis) bool { return x.Name == "engine" })
	if len(a[0].Axes) == len(b[0].Axes) {
		t.Fatal("the engine is no axis")
	}
	if d, err := Diff("lab", a, "its.csv", b, DefaultMetrics()); err != nil || len(d.Cells) != 1 {
		t.Errorf("%v, %+v", err, d)
	}
}
