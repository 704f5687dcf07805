// Package formats reads and writes the formats of other tools: of `vllm bench` and of
// SGLang's bench_serving, and tables of published figures.
//
// The numbers that are written are ours, by docs/method.md; docs/results.md says which of
// them the tools define otherwise.
package formats

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
	"hclbench/telemetry"
)

// Tool is a load generator of others, whose object and whose block are written and read.
type Tool struct {
	format      string                            // as [results.Origin] has it
	members     string                            // of its object before the latencies, in order
	values      map[string]func(*results.Row) any // of members that are no figures
	latencies   []section
	percentiles []string   // that its object has, of those that there are; nil: all
	after       string     // members after the latencies
	head        []blockRow // of its block, before the latencies
	tail        string     // title of the rows after them
	last        []blockRow
	readLoad    func(*results.Cell, *object) // what the load was, as far as only this tool says it so
}

// section is one latency in a tool's object and block. Its figures are mean, median,
// standard deviation, percentiles in rising order, and where hasMax the maximum.
type section struct {
	key    string // "ttft": of mean_ttft_ms
	name   string // "TTFT"
	title  string
	hasMax bool
}

// absent is the value of a member that is not there.
type absent struct{}

func tools() []Tool { return []Tool{vllm(), sglang()} }

// Named finds the tool of a format, "vllm", and whether the format is its block, "vllm-text".
func Named(format string) (t Tool, text, ok bool) {
	name, text := strings.CutSuffix(format, "-text")
	all := tools()
	i := slices.IndexFunc(all, func(t Tool) bool { return t.format == name })
	if i < 0 {
		return Tool{}, false, false
	}
	return all[i], text, true
}

// JSON is the cell as the tool's object, on one line: of vLLM's --save-result, or of
// SGLang's --output-file. A cell without a measurement is an error.
func (t Tool) JSON(r results.Row) ([]byte, error) { return t.line(r, nil) }

// Detailed is JSON with the arrays of vLLM's --save-detailed or of SGLang's
// --output-details: one element per request, failed ones included, and times in
// seconds since the measurement began. The generated texts are not kept, and so are
// empty, unless they came with an import.
func (t Tool) Detailed(r results.Row, records []load.Record) ([]byte, error) {
	return t.line(r, func(o *object) { o.addRecords(records) })
}

func (t Tool) line(r results.Row, detail func(*object)) ([]byte, error) {
	o, err := t.object(r, detail)
	if err != nil {
		return nil, err
	}
	hidden := slices.DeleteFunc(detailed(), o.has)         // places where records were
	if detail != nil && t.format == results.OriginSGLang { // which does not say when requests began
		hidden = append(hidden, "start_times")
	}
	o.keys = slices.DeleteFunc(o.keys, func(key string) bool { return slices.Contains(hidden, key) })
	return o.line(), nil
}

// Text writes the cell as the block that the tool prints, to the character. A cell
// without a measurement is an error.
func (t Tool) Text(w io.Writer, r results.Row) error {
	o, err := t.object(r, nil)
	if err == nil {
		_, err = w.Write(t.block(o))
	}
	return err
}

// rehearsal is the member with which exports of a rehearsal are marked, which no other
// tool has: nobody who reads it again takes it for a measurement.
const rehearsal = "rehearsal"

// detailsBefore is the member before which both tools have their arrays.
const detailsBefore = "max_output_tokens_per_s"

// object is the cell as the tool's object, or the one that it was read from, where that
// was the tool's; detail adds the arrays of each request.
func (t Tool) object(r results.Row, detail func(*object)) (*object, error) {
	if r.Summary == nil {
		return nil, fmt.Errorf("export cell %s: %w", r.ID, errNothing(&r))
	}
	if r.Origin != nil && r.Origin.Format == t.format {
		o, err := readObject(r.Origin.Fields)
		if err != nil {
			return nil, fmt.Errorf("export cell %s: %w", r.ID, err)
		}
		if detail != nil {
			detail(o)
		}
		return o, nil
	}
	o := &object{}
	if r.Run.Command == "rehearse" {
		o.add(rehearsal, true)
	}
	add := func(members string) {
		for key := range strings.FieldsSeq(members) {
			if key == detailsBefore && detail != nil {
				detail(o)
			}
			if value := t.values[key]; value != nil {
				o.addValue(key, value(&r))
			} else {
				o.addFigure(&r.Cell, figureOf(key), key)
			}
		}
	}
	add(t.members)
	for _, l := range t.latencies {
		t.addLatency(o, &r.Cell, l)
	}
	add(t.after)
	return o, nil
}

// addLatency adds the members of one latency.
func (t Tool) addLatency(o *object, c *results.Cell, l section) {
	add := func(name string) { o.addFigure(c, statistic(l.key, name), name+"_"+l.key+"_ms") }
	add("mean")
	add("median")
	add("std")
	all := latencies(c.Summary)[ownName(l.key)].Percentiles
	for _, p := range slices.SortedFunc(maps.Keys(all), byValue) {
		if t.percentiles == nil || slices.Contains(t.percentiles, p) {
			o.addValue("p"+p+"_"+l.key+"_ms", all[p])
		}
	}
	if l.hasMax {
		add("max")
	}
}

// The values of members that both tools have.

func null(*results.Row) any { return nil }

func model(r *results.Row) any { return r.Job.Target.Model }

func orNull(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// engineSays is what the engine told, times a factor; absent where it told nothing.
func engineSays(of func(*telemetry.Record) *float64, factor float64) func(*results.Row) any {
	return func(r *results.Row) any {
		if r.Telemetry == nil || of(r.Telemetry) == nil {
			return absent{}
		}
		return factor * *of(r.Telemetry)
	}
}

func maxConcurrency(r *results.Row) any { return orNull(r.Job.Workload.Concurrency) }

// rate is the rate that was asked for in the words of both tools, where a closed loop
// sends all at once as far as its cap lets it.
func rate(r *results.Row) any {
	if w := r.Job.Workload; w.Rate != 0 && w.Rate != load.Inf {
		return float64(w.Rate)
	}
	return load.Inf
}
