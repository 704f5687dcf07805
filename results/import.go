package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/plain"
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
	Cell                  // without ids and benchmark, which the tool does not know
	Records []load.Record // where the tool wrote down every request; nil: it did not
}

// maxImport bounds a file that is read whole.
const maxImport = 1 << 30

// Import reads what `vllm bench serve`, `throughput` or `latency` or SGLang's
// bench_serving has written or printed, and finds out by itself which of them:
// objects of --save-result and --append-result, lines of --output-file (where a bare
// Infinity or NaN is understood), an array of such objects, or text with result
// blocks in it.
//
// The summary has the figures that the format has, and names those that it has not
// in [load.Summary.Unknown]; docs/method.md says where they mean something else than
// ours. Every member of the tool's object is kept in [Cell.Origin]. What the load was,
// and what --metadata and other members say of the engine, are axes. The verdict is
// "imported", because neither tool looks whether it kept up, and "suspect" where
// requests failed or the figures contradict each other.
//
// Unused are members with a number that nobody understands here.
func Import(r io.Reader) (all []Imported, unused []string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxImport+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read results: %w", err)
	}
	if len(text) > maxImport {
		return nil, nil, fmt.Errorf("read results: they are longer than %d MiB", maxImport>>20)
	}
	text = bytes.TrimSpace(text)
	var others []extras
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		if all, others, err = importJSON(printableJSON(strictJSON(text))); err != nil {
			return nil, nil, err
		}
	} else {
		for _, b := range readBlocks(plain.Text(string(text))) {
			one, more, err := importObject(b.dialect.name, b.object)
			if err != nil {
				return nil, nil, fmt.Errorf("read result block %d: %w", len(all)+1, err)
			}
			all, others = append(all, one), append(others, more)
		}
	}
	if len(all) == 0 {
		return nil, nil, errors.New("read results: there is neither an object nor a \"Serving Benchmark Result\" block")
	}
	var cells []apart
	for i := range all {
		cells = append(cells, apart{&all[i].Cell, all[i].Job.Target.Model, others[i]})
	}
	return all, tellApart(cells), nil
}

func importJSON(text []byte) (all []Imported, others []extras, err error) {
	var raws []json.RawMessage
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); err == io.EOF {
			break
		} else if err != nil {
			return nil, nil, fmt.Errorf("read result %d: %w", len(raws)+1, err)
		}
		raws = append(raws, raw)
	}
	if len(raws) == 1 && raws[0][0] == '[' {
		if err := json.Unmarshal(raws[0], &raws); err != nil {
			return nil, nil, fmt.Errorf("read results: %w", err)
		}
	}
	for i, raw := range raws {
		o, err := readObject(raw)
		var one Imported
		var more extras
		if err == nil {
			if one, more, err = importObject(formatOf(o), o); err == nil {
				one.Axes = append(one.Axes, more.texts...)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read result %d: %w", i+1, err)
		}
		all, others = append(all, one), append(others, more)
	}
	return all, others, nil
}

// The formats of an object, as [Origin.Format] has them.
const (
	formatVLLM       = "vllm"
	formatSGLang     = "sglang"
	formatThroughput = "vllm-throughput" // vllm bench throughput
	formatLatency    = "vllm-latency"    // vllm bench latency
)

// formatOf tells by its members what has written an object. Of vLLM's own, some are in
// no other; its --metadata can add any.
func formatOf(o *object) string {
	any := func(keys ...string) bool { return slices.ContainsFunc(keys, o.has) }
	switch {
	case any("num_prompts", "model_id", "tokenizer_id", "endpoint_type", "total_token_throughput"):
		return formatVLLM
	case any("mean_e2e_latency_ms", "total_throughput", "dataset_name"):
		return formatSGLang
	case o.has("avg_latency") && any("latencies", "percentiles"):
		return formatLatency
	case o.has("elapsed_time") && o.has("num_requests") && !o.has("completed"):
		return formatThroughput
	}
	return formatVLLM
}

// rehearsal is the member with which we mark exports of a rehearsal, which no other
// tool has.
const rehearsal = "rehearsal"

// importObject makes a cell of a tool's object, and returns what else that says.
func importObject(format string, o *object) (Imported, extras, error) {
	if o.has(rehearsal) {
		return Imported{}, extras{}, errors.New("it is of a rehearsal, with a simulated engine: nothing was measured")
	}
	read, required := readOnline, []string{"completed", "duration"}
	switch format {
	case formatThroughput:
		read, required = readThroughput, []string{"num_requests", "elapsed_time"}
	case formatLatency:
		read, required = readLatency, []string{"avg_latency"}
	}
	for _, key := range required {
		if v, ok := o.number(key); !ok || v < 0 {
			return Imported{}, extras{}, fmt.Errorf("it has no number %q, so it is not a result of vllm bench or of bench_serving", key)
		}
	}
	records, kept, err := readRecords(o)
	if err != nil {
		return Imported{}, extras{}, err
	}
	fields, err := kept.line()
	if err != nil {
		return Imported{}, extras{}, err
	}
	s := &load.Summary{}
	c := Cell{Origin: &Origin{Format: format, Fields: bytes.TrimSpace(fields)}, Summary: s}
	c.Job.Workload.Endpoint = load.Completions
	f := o.inMilliseconds()
	told := read(&c, format, f)
	var errs []string
	if o.has("errors") && o.into("errors", &errs) == nil { // SGLang counts them nowhere
		failed := len(slices.DeleteFunc(errs, func(e string) bool { return e == "" }))
		s.Failed, told["failed"] = max(s.Failed, failed), true
	}
	s.Requests = max(s.Requests, s.Completed+s.Failed)
	c.Finished = c.Started.Add(time.Duration(s.Duration * float64(time.Second)))
	s.Started = c.Started
	s.Unknown = unknownFigures(s, told)
	s.Verdict = importedVerdict(s, c.Job.Workload.Concurrency)
	more := o.extras()
	if err := errors.Join(acceptSummary(s), oneLine(&c.Job.Target.Model, &c.Job.Workload.Dataset.Kind), acceptAxes(c.Axes), acceptAxes(more.texts)); err != nil {
		return Imported{}, extras{}, err
	}
	return Imported{c, records}, more, nil
}

// readOnline reads a result of vllm bench serve or of bench_serving, and returns which
// figures it has.
func readOnline(c *Cell, format string, o *object) map[string]bool {
	s, w := c.Summary, &c.Job.Workload
	s.Duration, s.Completed, s.Failed = o.float("duration"), int(o.whole("completed")), int(o.whole("failed"))
	s.InputTokens, s.OutputTokens = o.whole("total_input_tokens"), o.whole("total_output_tokens")
	s.RequestThroughput, s.OutputThroughput = o.float("request_throughput"), o.float("output_throughput")
	s.PeakOutputThroughput, s.PeakConcurrency = o.float("max_output_tokens_per_s"), int(o.whole("max_concurrent_requests"))
	told := map[string]bool{}
	for figure, key := range map[string]string{
		"duration_s": "duration", "completed": "completed", "failed": "failed", "input_tokens": "total_input_tokens", "output_tokens": "total_output_tokens",
		"request_throughput": "request_throughput", "output_throughput": "output_throughput",
		"peak_output_throughput": "max_output_tokens_per_s", "peak_concurrency": "max_concurrent_requests",
	} {
		told[figure] = o.has(key)
	}
	if asked := int(o.whole("num_prompts")); asked > 0 {
		// All that were asked for were sent; those without an answer are in no count.
		s.Requests, s.Failed = asked, max(s.Failed, asked-s.Completed)
		told["requests"], told["failed"] = true, true
	}
	w.Requests = max(s.Requests, s.Completed+s.Failed)
	w.Concurrency, w.Rate = int(o.whole("max_concurrency")), load.Rate(o.float("request_rate"))
	if math.IsInf(float64(w.Rate), 1) && w.Concurrency > 0 {
		w.Rate = 0 // a closed loop is what both tools make of it
	}
	if format == formatSGLang {
		readSGLang(c, o)
	} else {
		readVLLM(c, o)
	}
	for _, t := range timings(s) {
		for figure, key := range map[string]string{"mean": "mean", "median": "median", "std": "std", "max": "max"} {
			for _, name := range []string{t.key, t.sglang} {
				told[t.key+"_ms."+figure] = told[t.key+"_ms."+figure] || o.has(key+"_"+name+"_ms")
			}
		}
	}
	if c.Axes = onlineAxes(*c); format == formatSGLang && o.has("dataset_name") {
		c.Axes = append(c.Axes, Axis{"dataset", o.text("dataset_name")})
	}
	return told
}

// onlineAxes are what the load was.
func onlineAxes(c Cell) (axes Axes) {
	add := func(name string, value any, known bool) {
		if known {
			axes = append(axes, Axis{name, value})
		}
	}
	w, s := c.Job.Workload, c.Summary
	add("concurrency", int64(w.Concurrency), w.Concurrency > 0)
	add("rate", float64(w.Rate), w.Rate > 0 && w.Rate != load.Inf)
	n := int64(max(s.Completed, 1)) // of equal lengths, when the count says so
	add("input_tokens", s.InputTokens/n, s.InputTokens > 0 && s.InputTokens%n == 0)
	add("output_tokens", s.OutputTokens/n, s.OutputTokens > 0 && s.OutputTokens%n == 0)
	return axes
}

// readThroughput reads a result of vllm bench throughput, which sends all at once.
func readThroughput(c *Cell, _ string, o *object) map[string]bool {
	s := c.Summary
	s.Completed, s.Duration = int(o.whole("num_requests")), o.float("elapsed_time")
	s.RequestThroughput, s.TotalThroughput = o.float("requests_per_second"), o.float("tokens_per_second")
	s.Requests, c.Job.Workload.Requests = s.Completed, s.Completed
	c.Axes = Axes{{"batch", int64(s.Completed)}}
	return map[string]bool{"completed": true, "requests": true, "duration_s": true,
		"request_throughput": o.has("requests_per_second"), "total_throughput": o.has("tokens_per_second")}
}

// readLatency reads a result of vllm bench latency: how long one batch takes, in
// seconds, and not of how many requests that is.
func readLatency(c *Cell, _ string, o *object) map[string]bool {
	t := &c.Summary.E2EL
	t.Mean, t.Percentiles = 1e3*o.float("avg_latency"), map[string]float64{}
	var latencies []float64
	var percentiles map[string]float64
	if o.into("latencies", &latencies) == nil {
		t.Count = len(latencies)
	}
	if o.into("percentiles", &percentiles) == nil {
		for p, v := range percentiles {
			t.Percentiles[p] = 1e3 * v
		}
	}
	t.Median = t.Percentiles["50"]
	return map[string]bool{"e2el_ms.mean": true}
}

// inMilliseconds is the object with the latencies in milliseconds that it has in
// seconds: "median_ttft" for "median_ttft_ms". A name without a unit is taken to be
// of seconds, as Python's clocks are, unless that were longer than the whole run.
func (o *object) inMilliseconds() *object {
	longest, found := 0.0, map[string]float64{}
	for _, key := range o.keys {
		bare, seconds := strings.CutSuffix(key, "_s")
		statistic, timing, _ := strings.Cut(bare, "_")
		v, ok := o.number(key)
		if !ok || o.has(bare+"_ms") || !slices.Contains([]string{"ttft", "tpot", "itl", "e2el", "e2e_latency"}, timing) {
			continue
		}
		if p, ok := strings.CutPrefix(statistic, "p"); !ok || !decimal(p) {
			if !slices.Contains([]string{"mean", "median", "std", "max", "min"}, statistic) {
				continue
			}
		}
		if found[bare+"_ms"] = v; !seconds {
			longest = max(longest, v)
		}
	}
	if len(found) == 0 {
		return o
	}
	factor := 1e3
	if longest > o.float("duration") {
		factor = 1
	}
	out := o.without()
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out.add(key, factor*found[key])
	}
	return out
}

// timings are the latencies of a summary, with their names in both tools.
func timings(s *load.Summary) []struct {
	*load.Stats
	key, sglang string
} {
	return []struct {
		*load.Stats
		key, sglang string
	}{{&s.TTFT, "ttft", "ttft"}, {&s.TPOT, "tpot", "tpot"}, {&s.ITL, "itl", "itl"}, {&s.E2EL, "e2el", "e2e_latency"}}
}

// unknownFigures are the figures of a summary that are 0 and that nobody has told. Of
// a latency without any figure, its count says enough.
func unknownFigures(s *load.Summary, told map[string]bool) []string {
	// What only this program's generator measures of itself.
	unknown := []string{"asked_input_tokens", "asked_output_tokens", "normalized_latency_ms", "queue_ms", "send_lag_ms", "merged_chunks", "merged_share", "client_cpu_share"}
	figure := func(name string, v float64) {
		if v == 0 && !told[name] {
			unknown = append(unknown, name)
		}
	}
	figure("duration_s", s.Duration)
	figure("completed", float64(s.Completed))
	figure("failed", float64(s.Failed))
	if !told["failed"] && !told["requests"] {
		unknown = append(unknown, "requests") // there may have been more
	}
	figure("input_tokens", float64(s.InputTokens))
	figure("output_tokens", float64(s.OutputTokens))
	figure("request_throughput", s.RequestThroughput)
	figure("input_throughput", s.InputThroughput)
	figure("output_throughput", s.OutputThroughput)
	figure("total_throughput", s.TotalThroughput)
	figure("mean_concurrency", s.MeanConcurrency)
	figure("peak_concurrency", float64(s.PeakConcurrency))
	figure("peak_output_throughput", s.PeakOutputThroughput)
	for _, t := range timings(s) {
		if t.Mean > 0 || t.Median > 0 || t.Max > 0 || len(t.Percentiles) > 0 {
			figure(t.key+"_ms.mean", t.Mean)
			figure(t.key+"_ms.median", t.Median)
			figure(t.key+"_ms.std", t.Std)
			figure(t.key+"_ms.min", t.Min)
			figure(t.key+"_ms.max", t.Max)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// importedVerdict is that of figures that others have measured: nobody can look at
// how, only whether they can be true together, and whether requests failed.
func importedVerdict(s *load.Summary, limit int) load.Verdict {
	wrong := s.Contradictions(limit)
	if s.Failed > 0 {
		wrong = append(load.Because(fmt.Sprintf("%d of %d requests failed", s.Failed, s.Requests)), wrong...)
	}
	switch {
	case s.Completed == 0 && s.Knows("completed"):
		return load.Verdict{Verdict: load.Void, Reasons: append(load.Because("no request was completed"), wrong...)}
	case len(wrong) > 0:
		return load.Verdict{Verdict: load.Suspect, Reasons: wrong}
	}
	return load.Verdict{Verdict: load.Imported}
}

// stats reads a metric. A metric that the tool did not report has the count 0.
func (m blockMetric) stats(o *object, count int) load.Stats {
	s := load.Stats{Percentiles: map[string]float64{}}
	if !o.has("mean_"+m.key+"_ms") && !o.has("median_"+m.key+"_ms") && len(m.percentiles(o)) == 0 {
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
// object with null in their places. Times count from the first start; where there are no
// starts, each request seems to begin at once.
func readRecords(o *object) ([]load.Record, *object, error) {
	var inputs, outputs []int
	var ttfts, starts []float64
	var itls [][]float64
	var errs []string
	var wrong []error
	for i, v := range []any{&inputs, &outputs, &ttfts, &itls, &starts, &errs} {
		wrong = append(wrong, o.into(detailed()[i], v))
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
		if err := acceptRecord(r); err != nil {
			return nil, nil, err
		}
	}
	kept := o.without()
	for _, key := range detailed() {
		if kept.has(key) {
			kept.add(key, nil) // its place
		}
	}
	return records, kept, nil
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
	// Where the tools have them, unless they came from a file, which says where.
	rest := o.split("max_output_tokens_per_s")
	o.add("input_lens", inputs)
	o.add("output_lens", outputs)
	o.add("ttfts", ttfts)
	o.add("itls", itls)
	o.add("start_times", starts)
	if !o.has("generated_texts") && !rest.has("generated_texts") {
		o.add("generated_texts", make([]string, n))
	}
	o.add("errors", errs)
	for _, key := range rest.keys {
		o.add(key, rest.values[key])
	}
}
