// Package formats reads and writes the formats of other tools: of `vllm bench` and of
// SGLang's bench_serving, and tables of published figures.
//
// The numbers that are written are ours, by docs/method.md; docs/results.md says which of
// them the tools define otherwise.
package formats

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// Tool is a load generator of others, whose object and whose block are written and read.
type Tool struct {
	format      string   // as [results.Origin] has it
	members     []member // of its object before the latencies
	latencies   []section
	percentiles func(load.Stats) []string // that its object has
	after       []member
	head        []blockRow // of its block, before the latencies
	tail        string     // title of the rows after them
	last        []blockRow
	readLoad    func(*results.Cell, *object) // what the load was, as far as only this tool says it so
}

// member is a member of a tool's object: a figure, or something else.
type member struct {
	key    string
	figure string // by its name in a summary's JSON
	value  func(*results.Row) any
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

// tools are those that are known.
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
func (t Tool) JSON(r results.Row) ([]byte, error) {
	o, err := t.object(r)
	return exported(r, o, err)
}

// Detailed is JSON with the arrays of vLLM's --save-detailed or of SGLang's
// --output-details: one element per request, failed ones included, and times in
// seconds since the measurement began. The generated texts are not kept, and so are
// empty, unless they came with an import.
func (t Tool) Detailed(r results.Row, records []load.Record) ([]byte, error) {
	o, err := t.object(r)
	if err == nil {
		o.addRecords(records)
		if t.format == results.OriginSGLang { // which does not say when requests began
			o = o.without("start_times")
		}
	}
	return exported(r, o, err)
}

// Text writes the cell as the block that the tool prints, to the character. A cell
// without a measurement is an error.
func (t Tool) Text(w io.Writer, r results.Row) error {
	o, err := t.object(r)
	if err != nil {
		return fmt.Errorf("export cell %s: %w", r.ID, err)
	}
	return t.writeBlock(w, o)
}

// exported is the object as a line, or why there is none.
func exported(r results.Row, o *object, err error) ([]byte, error) {
	var line []byte
	if err == nil {
		line, err = o.withoutPlaces().line()
	}
	if err != nil {
		return nil, fmt.Errorf("export cell %s: %w", r.ID, err)
	}
	return line, nil
}

// rehearsal is the member with which exports of a rehearsal are marked, which no other
// tool has: nobody who reads it again takes it for a measurement.
const rehearsal = "rehearsal"

// object is the cell as the tool's object; the one that it was read from, where that was
// the tool's.
func (t Tool) object(r results.Row) (*object, error) {
	if r.Summary == nil {
		return nil, fmt.Errorf("there is no measurement: %s", strings.Join(r.Verdict().Texts(), "; "))
	}
	if r.Origin != nil && r.Origin.Format == t.format {
		return readObject(r.Origin.Fields)
	}
	o := &object{}
	if r.Run.Command == "rehearse" {
		o.add(rehearsal, true)
	}
	o.addMembers(t.members, r)
	for _, l := range t.latencies {
		o.addLatency(r.Summary, l, t.percentiles)
	}
	o.addMembers(t.after, r)
	return o, nil
}

func (o *object) addMembers(members []member, r results.Row) {
	for _, m := range members {
		if m.figure != "" {
			o.addFigure(r.Summary, m.figure, m.key)
			continue
		}
		switch v := m.value(&r).(type) {
		case absent:
		case float64:
			o.addFloat(m.key, v)
		default:
			o.add(m.key, v)
		}
	}
}

// addLatency adds the members of one latency, with the percentiles that which picks.
func (o *object) addLatency(s *load.Summary, l section, which func(load.Stats) []string) {
	t := timingNamed(l.key)
	add := func(statistic string) { o.addFigure(s, t.name+"_ms."+statistic, statistic+"_"+l.key+"_ms") }
	add("mean")
	add("median")
	add("std")
	for _, p := range which(*t.of(s)) {
		o.addFloat("p"+p+"_"+l.key+"_ms", t.of(s).Percentiles[p])
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

func maxConcurrency(r *results.Row) any { return orNull(r.Job.Workload.Concurrency) }

// rate is the rate that was asked for in the words of both tools, where a closed loop
// sends all at once as far as its cap lets it.
func rate(r *results.Row) any {
	if w := r.Job.Workload; w.Rate != 0 && w.Rate != load.Inf {
		return float64(w.Rate)
	}
	return load.Inf
}
