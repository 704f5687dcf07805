package formats

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/results"
)

// told is what an import tells of each row, on a line.
func told(cells []results.Cell) (lines []string) {
	for _, c := range cells {
		lines = append(lines, fmt.Sprint(c.Axes))
	}
	return lines
}

// cellsOf are the cells of a text that Read or ReadTable reads.
func cellsOf(t *testing.T, read reading, text string) (cells []results.Cell, unused []string) {
	t.Helper()
	all, unused, err := read(strings.NewReader(text))
	check(t, err)
	for _, one := range all {
		cells = append(cells, one.Cell)
	}
	return cells, unused
}

type reading = func(io.Reader) ([]Result, []string, error)

// TestTellApart: results of different configurations are no repetitions of each other,
// and repetitions are.
func TestTellApart(t *testing.T) {
	const object = `{"backend": "vllm", "num_prompts": 10, "completed": 10, "duration": 5.0, "max_concurrency": 4, "mean_ttft_ms": %d, %s}` + "\n"
	for name, c := range map[string]struct {
		read   reading
		text   string
		want   []string
		unused string
	}{
		"metadata": {Read, fmt.Sprintf(object, 700, `"framework": "vllm", "tp": "8", "started_at": "noon"`) + fmt.Sprintf(object, 400, `"framework": "sgl", "tp": "8", "started_at": "one"`),
			[]string{"[{concurrency 4} {framework vllm} {tp 8}]", "[{concurrency 4} {framework sgl} {tp 8}]"}, ""},
		"a number that differs": {Read, fmt.Sprintf(object, 700, `"replicas": 1, "watts": 1.5`) + fmt.Sprintf(object, 400, `"replicas": 2, "watts": 2.5`),
			[]string{"[{concurrency 4} {replicas 1}]", "[{concurrency 4} {replicas 2}]"}, "watts"},
		"a repetition": {Read, fmt.Sprintf(object, 700, `"replicas": 1, "total_energy_j": 7`) + fmt.Sprintf(object, 400, `"replicas": 1, "total_energy_j": 8`),
			[]string{"[{concurrency 4}]", "[{concurrency 4}]"}, "replicas total_energy_j"},
		"builds": {Read, fmt.Sprintf(object, 700, `"commit": "abc"`) + fmt.Sprintf(object, 400, `"commit": "def"`),
			[]string{"[{concurrency 4} {commit abc}]", "[{concurrency 4} {commit def}]"}, ""},
		"data sets of SGLang": {Read, `{"backend": "sglang", "dataset_name": "random", "completed": 1, "duration": 1.0}` + "\n" + `{"backend": "sglang", "dataset_name": "sharegpt", "completed": 1, "duration": 1.0}`,
			[]string{"[{dataset random}]", "[{dataset sharegpt}]"}, ""},
		"lengths by the totals": {ReadTable, "completed,duration,total_input_tokens,total_output_tokens,median_ttft_ms\n1,10,128000,100,9\n1,10,64000,100,8\n1,10,32000,100,7\n",
			[]string{"[{batch 1} {input_tokens 128000}]", "[{batch 1} {input_tokens 64000}]", "[{batch 1} {input_tokens 32000}]"}, ""},
		"settings by name": {ReadTable, "conc,isl,osl,prefill,decode,output_throughput\n8,1024,128,1,3,100\n8,1024,128,2,2,120\n",
			[]string{"[{concurrency 8} {input_tokens 1024} {output_tokens 128} {prefill 1} {decode 3}]", "[{concurrency 8} {input_tokens 1024} {output_tokens 128} {prefill 2} {decode 2}]"}, ""},
		"another column": {ReadTable, "conc,power,chunk,output_throughput\n8,1.5,512,100\n8,2.5,1024,120\n",
			[]string{"[{concurrency 8} {chunk 512}]", "[{concurrency 8} {chunk 1024}]"}, "power"},
		"fractions": {ReadTable, "concurrency,gpu_memory_utilization,output_throughput\n64,0.85,900\n64,1,1000\n",
			[]string{"[{concurrency 64} {gpu_memory_utilization 0.85}]", "[{concurrency 64} {gpu_memory_utilization 1}]"}, ""},
		"quantities": {ReadTable, "conc,busy,power,commit,output_throughput\n8,95%,700 W,abc,100\n16,96%,701 W,abc,120\n",
			[]string{"[{concurrency 8} {commit abc}]", "[{concurrency 16} {commit abc}]"}, "busy power"},
		"repetitions of a table": {ReadTable, "conc,chunk,output_throughput\n8,512,100\n8,512,120\n", []string{"[{concurrency 8}]", "[{concurrency 8}]"}, "chunk"},
		"tabs":                   {ReadTable, "conc\tdataset\toutput_throughput\n8\ta, b\t1,100.5\n", []string{"[{concurrency 8} {dataset a, b}]"}, ""},
		"semicolons":             {ReadTable, "conc;output_throughput\n8;100.5\n", []string{"[{concurrency 8}]"}, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			cells, unused := cellsOf(t, c.read, c.text)
			if diff := cmp.Diff(c.want, told(cells)); diff != "" {
				t.Errorf("axes (-want +got):\n%s", diff)
			}
			if got := strings.Join(unused, " "); got != c.unused {
				t.Errorf("unused %q, want %q", got, c.unused)
			}
		})
	}
}

// TestImportedFailures: what did not come back is counted, or not known, and never
// none.
func TestImportedFailures(t *testing.T) {
	for name, c := range map[string]struct {
		text            string
		failed          int
		known           bool
		verdict, reason string
	}{
		"told":                 {`{"num_prompts": 50, "completed": 40, "failed": 10, "duration": 5.0}`, 10, true, load.Suspect, "10 of 50 requests failed"},
		"by the count":         {`{"num_prompts": 1000, "completed": 17, "duration": 5.0}`, 983, true, load.Suspect, "983 of 1000 requests failed"},
		"more than it says":    {`{"num_prompts": 1000, "completed": 17, "failed": 0, "duration": 5.0}`, 983, true, load.Suspect, "983 of 1000 requests failed"},
		"none":                 {`{"num_prompts": 17, "completed": 17, "duration": 5.0}`, 0, true, load.Imported, ""},
		"SGLang, with errors":  {`{"dataset_name": "random", "completed": 1, "duration": 5.0, "errors": ["", "Bad Gateway", "x"]}`, 2, true, load.Suspect, "2 of 3 requests failed"},
		"SGLang, with none":    {`{"dataset_name": "random", "completed": 1, "duration": 5.0, "errors": [""]}`, 0, true, load.Imported, ""},
		"SGLang cannot know":   {`{"dataset_name": "random", "completed": 1, "duration": 5.0}`, 0, false, load.Imported, ""},
		"an old block":         {"============ Serving Benchmark Result ============\nSuccessful requests: 3\nBenchmark duration (s): 5.00\n==================================================\n", 0, false, load.Imported, ""},
		"none came back":       {`{"num_prompts": 7, "completed": 0, "duration": 5.0}`, 7, true, load.Void, "7 of 7 requests failed"},
		"a table cannot know":  {"completed,duration\n3,5\n", 0, false, load.Imported, ""},
		"a table by its count": {"num_prompts,completed,duration\n5,3,5\n", 2, true, load.Suspect, "2 of 5 requests failed"},
		"a table without any":  {"output_throughput\n3\n", 0, false, load.Imported, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			read := Read
			if strings.HasPrefix(name, "a table") {
				read = ReadTable
			}
			cells, _ := cellsOf(t, read, c.text)
			s := cells[0].Summary
			if s.Failed != c.failed || s.Knows("failed") != c.known || s.Verdict.Verdict != c.verdict || !strings.Contains(strings.Join(s.Verdict.Texts(), "; "), c.reason) {
				t.Errorf("failed %d (known: %v), %v", s.Failed, s.Knows("failed"), s.Verdict)
			}
		})
	}
}

// TestImportedUnknown: what a file does not have is not 0.
func TestImportedUnknown(t *testing.T) {
	cells, _ := cellsOf(t, ReadTable, "elapsed_time,tokens_per_second,median_ttft_ms,mean_tpot_s\n10,935840,5,0.02\n")
	s := cells[0].Summary
	for name, want := range map[string]bool{
		"completed": false, "failed": false, "output_throughput": false, "input_tokens": false, "request_throughput": false,
		"ttft_ms.mean": false, "tpot_ms.median": false,
		"duration_s": true, "total_throughput": true, "ttft_ms.median": true, "tpot_ms.mean": true,
	} {
		if got := s.Knows(name); got != want {
			t.Errorf("%s is known: %v, want %v", name, got, want)
		}
	}
	if s.TPOT.Mean != 20 || s.TotalThroughput != 935840 {
		t.Errorf("TPOT %v, total %v", s.TPOT.Mean, s.TotalThroughput)
	}
	line, err := vllm().JSON(results.Row{Cell: cells[0]})
	check(t, err)
	got := members(t, line)
	if got["completed"] != nil || got["output_throughput"] != nil || got["total_token_throughput"] != 935840.0 || got["mean_ttft_ms"] != nil || got["median_ttft_ms"] != 5.0 {
		t.Errorf("written again: %s", line)
	}

	// Of counts that only one side has, no sum is made.
	cells, _ = cellsOf(t, ReadTable, "completed,duration,total_output_tokens\n2,10,1000\n")
	if s := cells[0].Summary; s.TotalThroughput != 0 || s.Knows("total_throughput") || s.OutputThroughput != 100 {
		t.Errorf("total %v, output %v", s.TotalThroughput, s.OutputThroughput)
	}
}

// TestOtherTools: vLLM's offline tools, latencies in seconds, and members that have
// another meaning elsewhere.
func TestOtherTools(t *testing.T) {
	in := importOne(t, `{"elapsed_time": 50.0, "num_requests": 1000, "total_num_tokens": 500000, "requests_per_second": 20.0, "tokens_per_second": 10000.0}`)
	s := in.Summary
	if in.Origin.Format != results.OriginThroughput || s.Completed != 1000 || s.Duration != 50 || s.TotalThroughput != 10000 || s.Knows("output_throughput") || fmt.Sprint(in.Axes) != "[{batch 1000}]" || s.Verdict.Verdict != load.Imported {
		t.Errorf("vllm bench throughput: %+v %v", s, in.Axes)
	}
	in = importOne(t, `{"avg_latency": 1.5, "latencies": [1.25, 1.5, 1.75], "percentiles": {"10": 1.3, "50": 1.5, "99": 1.75}}`)
	s = in.Summary
	if in.Origin.Format != results.OriginLatency || s.E2EL.Mean != 1500 || s.E2EL.Median != 1500 || s.E2EL.Percentiles["99"] != 1750 || s.E2EL.Count != 3 || s.Knows("completed") || s.Verdict.Verdict != load.Imported {
		t.Errorf("vllm bench latency: %+v", s)
	}

	in = importOne(t, `{"completed": 10, "duration": 60.0, "median_ttft": 0.25, "p99_ttft": 0.5, "p99.9_itl": 0.02, "hw": "h200"}`)
	s = in.Summary
	if s.TTFT.Median != 250 || s.TTFT.Percentiles["99"] != 500 || s.ITL.Percentiles["99.9"] != 20 {
		t.Errorf("in seconds: %+v %+v", s.TTFT, s.ITL)
	}
	in = importOne(t, `{"completed": 10, "duration": 60.0, "median_ttft": 250}`)
	if in.Summary.TTFT.Median != 250 {
		t.Errorf("longer than the run: %+v", in.Summary.TTFT)
	}

	in = importOne(t, `{"num_prompts": 10, "completed": 10, "duration": 60.0, "model_id": "m", "dataset_name": "sharegpt", "mean_e2el_ms": 5.0}`)
	if in.Origin.Format != results.OriginVLLM || in.Summary.E2EL.Mean != 5 {
		t.Errorf("--metadata dataset_name=sharegpt: %s %+v", in.Origin.Format, in.Summary.E2EL)
	}

	// Two rows of SGLang's block are enough to know it.
	text, err := os.ReadFile("testdata/sglang-serve.txt")
	check(t, err)
	short := ""
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "Backend") && !strings.HasPrefix(line, "Traffic") && !strings.HasPrefix(line, "Max request") {
			short += line
		}
	}
	in = importOne(t, short)
	if in.Origin.Format != results.OriginSGLang || in.Summary.E2EL.Mean != 2978.74 || in.Summary.InputThroughput != 10403.99 {
		t.Errorf("a shortened block: %s %+v", in.Origin.Format, in.Summary)
	}
}

// TestRehearsalIsNoMeasurement: what was exported of a rehearsal does not come back as
// the measurement of somebody else.
func TestRehearsalIsNoMeasurement(t *testing.T) {
	row := sglangRow()
	row.Run.Command = "rehearse"
	texts := map[string]string{}
	for name, write := range map[string]func(results.Row) ([]byte, error){"vllm": vllm().JSON, "sglang": sglang().JSON} {
		line, err := write(row)
		check(t, err)
		texts[name] = string(line)
	}
	for name, tool := range map[string]Tool{"vllm-text": vllm(), "sglang-text": sglang()} {
		var b strings.Builder
		check(t, tool.Text(&b, row))
		texts[name] = b.String()
	}
	for name, text := range texts {
		if _, _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "of a rehearsal") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImportedTextIsPrintable: a file of others has no say on a terminal.
func TestImportedTextIsPrintable(t *testing.T) {
	const escape = "\x1b]0;x\a"
	in := importOne(t, `{"num_prompts": 1, "completed": 1, "duration": 1.0, "model_id": "m\u001b[2J", "gpu\u001b[2J": "a\u001b]0;x\u0007b"}`)
	cells, unused := cellsOf(t, ReadTable, "dataset,note"+escape+",x"+escape+",output_throughput\n\"a"+escape+"\",b"+escape+",1.5,3\n")
	text := fmt.Sprintf("%q %s %s %q %q", in.Cell.Axes, in.Job.Target.Model, in.Origin.Fields, told(cells), unused)
	if strings.ContainsAny(text, "\x1b\a") || strings.Contains(text, "u001b") {
		t.Errorf("%q", text)
	}
	_, _, err := ReadTable(strings.NewReader("colour" + escape + "\nred\n"))
	if err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("ReadCSV: %q", err)
	}
}
