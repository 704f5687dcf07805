package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"hclbench/load"
)

// Origin is what a cell was read from, when another tool has measured it.
type Origin struct {
	Format string `json:"format"` // "vllm" (vllm bench serve) or "sglang" (bench_serving)
	// Fields are the tool's own object, spelt as it was, less what the records of
	// the cell hold: with them it can be written again without loss.
	Fields json.RawMessage `json:"fields"`
}

// Imported is what was read of one measurement of another tool.
type Imported struct {
	Cell                  // without ids, benchmark and axes, which the tool does not know
	Records []load.Record // where the tool wrote down every request; nil: it did not
}

// maxImport bounds a file that is read whole.
const maxImport = 1 << 30

// Import reads what `vllm bench serve` or SGLang's bench_serving has written or
// printed, and finds out by itself which of them: objects of --save-result and
// --append-result, lines of --output-file (where a bare Infinity or NaN is
// understood), an array of such objects, or text with result blocks in it.
//
// The summary has the figures that the format has; docs/method.md says where they
// mean something else than ours. Every member of the tool's object is kept in
// [Cell.Origin]. The verdict is "imported", because neither tool looks whether it
// kept up, and "suspect" where the figures contradict each other.
func Import(r io.Reader) ([]Imported, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxImport+1))
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if len(text) > maxImport {
		return nil, fmt.Errorf("read results: they are longer than %d MiB", maxImport>>20)
	}
	text = bytes.TrimSpace(text)
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		return importJSON(strictJSON(text))
	}
	var all []Imported
	for _, b := range readBlocks(string(text)) {
		one, err := importObject(b.dialect.name, b.object)
		if err != nil {
			return nil, fmt.Errorf("read result block %d: %w", len(all)+1, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, errors.New("read results: there is neither an object nor a \"Serving Benchmark Result\" block")
	}
	return all, nil
}

func importJSON(text []byte) ([]Imported, error) {
	var raws []json.RawMessage
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read result %d: %w", len(raws)+1, err)
		}
		raws = append(raws, raw)
	}
	if len(raws) == 1 && raws[0][0] == '[' {
		if err := json.Unmarshal(raws[0], &raws); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
	}
	var all []Imported
	for i, raw := range raws {
		o, err := readObject(raw)
		var one Imported
		if err == nil {
			format := "vllm"
			if o.has("mean_e2e_latency_ms") || o.has("total_throughput") || o.has("dataset_name") {
				format = "sglang"
			}
			one, err = importObject(format, o)
		}
		if err != nil {
			return nil, fmt.Errorf("read result %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// importObject makes a cell of a tool's object.
func importObject(format string, o *object) (Imported, error) {
	for _, key := range []string{"completed", "duration"} {
		if v, ok := o.number(key); !ok || v < 0 {
			return Imported{}, fmt.Errorf("it has no number %q, so it is not a result of vllm bench serve or of bench_serving", key)
		}
	}
	records, kept, err := readRecords(o)
	if err != nil {
		return Imported{}, err
	}
	fields, err := kept.line()
	if err != nil {
		return Imported{}, err
	}
	s := &load.Summary{
		Duration:             o.float("duration"),
		Completed:            int(o.whole("completed")),
		Failed:               int(o.whole("failed")),
		InputTokens:          o.whole("total_input_tokens"),
		OutputTokens:         o.whole("total_output_tokens"),
		RequestThroughput:    o.float("request_throughput"),
		OutputThroughput:     o.float("output_throughput"),
		PeakOutputThroughput: o.float("max_output_tokens_per_s"),
		PeakConcurrency:      int(o.whole("max_concurrent_requests")),
	}
	s.Requests = s.Completed + s.Failed
	c := Cell{Origin: &Origin{Format: format, Fields: bytes.TrimSpace(fields)}, Summary: s}
	c.Job.Workload = load.Workload{
		Requests: s.Requests, Concurrency: int(o.whole("max_concurrency")), Rate: load.Rate(o.float("request_rate")),
		Endpoint: load.Completions,
	}
	w := &c.Job.Workload
	if math.IsInf(float64(w.Rate), 1) && w.Concurrency > 0 {
		w.Rate = 0 // a closed loop is what both tools make of it
	}
	if format == "sglang" {
		readSGLang(&c, o)
	} else {
		readVLLM(&c, o)
	}
	c.Finished = c.Started.Add(time.Duration(s.Duration * float64(time.Second)))
	s.Started = c.Started
	if s.Verdict = importedVerdict(s, w.Concurrency); s.Completed == 0 {
		s.Verdict = load.Verdict{Verdict: load.Void, Reasons: append([]string{"no request was completed"}, s.Verdict.Reasons...)}
	}
	return Imported{c, records}, nil
}

// importedVerdict is that of figures that others have measured: nobody can look at
// how, only whether they can be true together.
func importedVerdict(s *load.Summary, limit int) load.Verdict {
	if wrong := s.Contradictions(limit); len(wrong) > 0 {
		return load.Verdict{Verdict: load.Suspect, Reasons: wrong}
	}
	return load.Verdict{Verdict: load.Imported}
}

// stats reads a metric. A metric that the tool did not report has the count 0.
func (m blockMetric) stats(o *object, count int) load.Stats {
	s := load.Stats{Percentiles: map[string]float64{}}
	if !o.has("mean_" + m.key + "_ms") {
		return s
	}
	s.Count, s.Mean, s.Median = count, o.float("mean_"+m.key+"_ms"), o.float("median_"+m.key+"_ms")
	s.Std, s.Max = o.float("std_"+m.key+"_ms"), o.float("max_"+m.key+"_ms")
	for _, p := range m.percentiles(o) {
		s.Percentiles[p] = o.float("p" + p + "_" + m.key + "_ms")
	}
	return s
}

// detailed are the members of --save-detailed and --output-details that are kept
// as records.
func detailed() []string {
	return []string{"input_lens", "output_lens", "ttfts", "itls", "start_times", "errors"}
}

// elsewhere is the class of a request that failed at another tool, which has no
// classes.
const elsewhere = "elsewhere"

// readRecords makes records of the arrays of every request, and returns the
// object without them. Times count from the first start; where there are no
// starts, each request seems to begin at once.
func readRecords(o *object) ([]load.Record, *object, error) {
	var inputs, outputs []int
	var ttfts, starts []float64
	var itls [][]float64
	var errs []string
	var wrong []error
	for key, v := range map[string]any{"input_lens": &inputs, "output_lens": &outputs, "ttfts": &ttfts, "itls": &itls, "start_times": &starts, "errors": &errs} {
		wrong = append(wrong, o.into(key, v))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, nil, err
	}
	n := len(ttfts)
	if n == 0 || len(inputs) != n || len(outputs) != n || len(itls) != n || len(errs) > n || starts != nil && len(starts) != n {
		return nil, o, nil // not all of them: they stay what they are
	}
	zero := 0.0
	if starts != nil {
		zero = slices.Min(starts)
	}
	records := make([]load.Record, n)
	for i := range records {
		r := &records[i]
		r.Seq, r.InputTokens, r.OutputTokens, r.AskedInput, r.AskedOutput = i, inputs[i], outputs[i], inputs[i], outputs[i]
		if starts != nil {
			r.Sent = seconds(starts[i] - zero)
		}
		r.Scheduled, r.Ready = r.Sent, r.Sent
		if ttfts[i] > 0 {
			r.First = r.Sent + seconds(ttfts[i])
		}
		r.Last = max(r.Sent, r.First)
		for _, gap := range itls[i] {
			r.Gaps = append(r.Gaps, seconds(gap))
			r.Last += seconds(gap)
		}
		r.End = r.Last
		if i < len(errs) && errs[i] != "" {
			r.Class, r.Error = elsewhere, errs[i]
		}
	}
	return records, o.without(detailed()...), nil
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// addRecords adds the arrays of every request, failed ones included, with times
// in seconds since the measurement began. The generated texts are not kept, and
// so are empty, unless they came with an import.
func (o *object) addRecords(records []load.Record) {
	n := len(records)
	inputs, outputs := make([]int, n), make([]int, n)
	ttfts, itls, starts := make([]float64, n), make([][]float64, n), make([]float64, n)
	errs := make([]string, n)
	for i, r := range records {
		inputs[i], outputs[i], starts[i], itls[i] = r.InputTokens, r.OutputTokens, r.Sent.Seconds(), []float64{}
		if !r.OK() {
			if inputs[i] == 0 {
				inputs[i] = r.AskedInput // the server said nothing about it
			}
			if errs[i] = r.Class + ": " + r.Error; r.Class == elsewhere {
				errs[i] = r.Error
			}
		}
		if r.First > 0 {
			ttfts[i] = (r.First - r.Sent).Seconds()
		}
		for _, gap := range r.Gaps {
			itls[i] = append(itls[i], gap.Seconds())
		}
	}
	o.add("input_lens", inputs)
	o.add("output_lens", outputs)
	o.add("ttfts", ttfts)
	o.add("itls", itls)
	o.add("start_times", starts)
	if !o.has("generated_texts") {
		o.add("generated_texts", make([]string, n))
	}
	o.add("errors", errs)
}
