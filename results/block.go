package results

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The text blocks that `vllm bench serve` and SGLang's bench_serving print are
// their JSON objects, row by row: one table for each says which row is which
// member, and serves for writing as for reading.

// dialect is the block of one tool.
type dialect struct {
	name    string // "vllm", "sglang"
	head    []blockRow
	metrics []blockMetric
	tail    string // title of the rows after the metrics
	last    []blockRow
}

// blockRow is one row of a block.
type blockRow struct {
	label, key string
	form       rowForm
}

type rowForm int

const (
	whole     rowForm = iota // an integer
	hundredth                // a number with two decimals
	asSpelt                  // a text, or a number as the object spells it
	orNotSet                 // asSpelt, and "not set" for null
)

// blockMetric is one section of a block. Its rows are mean, median, percentiles
// in rising order, and where hasMax the maximum.
type blockMetric struct {
	key, name, title string
	hasMax           bool
}

const blockWidth = 50

const blockTitle = " Serving Benchmark Result "

// write writes the object as the tool prints it, to the character. What the
// object does not have has no row.
func (d dialect) write(w io.Writer, o *object) error {
	if o.err != nil {
		return o.err
	}
	var b bytes.Buffer
	title := func(text, fill string) {
		left := (blockWidth - len(text)) / 2
		fmt.Fprintln(&b, strings.Repeat(fill, left)+text+strings.Repeat(fill, blockWidth-len(text)-left))
	}
	title(blockTitle, "=")
	if o.has(rehearsal) {
		fmt.Fprintln(&b, rehearsalRow)
	}
	for _, r := range d.head {
		r.write(&b, o)
	}
	for _, m := range d.metrics {
		if rows := m.rows(o); len(rows) > 0 {
			title(m.title, "-")
			for _, r := range rows {
				r.write(&b, o)
			}
		}
	}
	if slices.ContainsFunc(d.last, func(r blockRow) bool { return o.has(r.key) }) {
		title(d.tail, "-")
		for _, r := range d.last {
			r.write(&b, o)
		}
		writePositions(&b, o)
	}
	title("", "=")
	_, err := w.Write(b.Bytes())
	return err
}

// rehearsalRow is the one row of ours in a block: it is not to be taken for one of theirs.
const rehearsalRow = "A rehearsal, with a simulated engine: nothing was measured"

func (r blockRow) write(b *bytes.Buffer, o *object) {
	v, number := o.number(r.key)
	text := ""
	switch {
	case r.form == orNotSet && !o.has(r.key):
		text = "not set"
	case r.form == asSpelt || r.form == orNotSet:
		text = o.text(r.key)
	case !number || strings.HasPrefix(string(o.values[r.key]), `"`):
	case r.form == whole:
		text = strconv.FormatInt(int64(v), 10)
	default:
		text = strconv.FormatFloat(v, 'f', 2, 64)
	}
	if text != "" {
		fmt.Fprintf(b, "%-40s %-10s\n", r.label, text)
	}
}

// rows are the rows of a metric that the object has.
func (m blockMetric) rows(o *object) []blockRow {
	var rows []blockRow
	add := func(label, key string) {
		if o.has(key) {
			rows = append(rows, blockRow{label + " " + m.name + " (ms):", key, hundredth})
		}
	}
	add("Mean", "mean_"+m.key+"_ms")
	add("Median", "median_"+m.key+"_ms")
	for _, p := range m.percentiles(o) {
		add("P"+p, "p"+p+"_"+m.key+"_ms")
	}
	if m.hasMax {
		add("Max", "max_"+m.key+"_ms")
	}
	return rows
}

// percentiles are the percentiles of the metric that the object has, in rising
// order.
func (m blockMetric) percentiles(o *object) []string {
	var list []string
	for _, key := range o.keys {
		p, ok := strings.CutPrefix(key, "p")
		p, ok2 := strings.CutSuffix(p, "_"+m.key+"_ms")
		if _, err := strconv.ParseFloat(p, 64); ok && ok2 && err == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, byValue)
	return list
}

// byValue compares numbers that are written as text.
func byValue(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
}

// positions is the member of vLLM's object with the acceptance at each place of
// a draft, as shares.
const positions = "spec_decode_per_position_acceptance_rates"

func writePositions(b *bytes.Buffer, o *object) {
	var rates []float64
	if o.into(positions, &rates) != nil || len(rates) == 0 {
		return
	}
	fmt.Fprintln(b, "Per-position acceptance (%):")
	for i, r := range rates {
		fmt.Fprintf(b, "%-40s %-10.2f\n", fmt.Sprintf("  Position %d:", i), 100*r)
	}
}

// readBlocks finds the blocks in what a tool has printed, whatever else it has
// printed around them. A log's blocks are of one tool or of both.
func readBlocks(text string) []readBlock {
	var found []readBlock
	var rows []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case strings.Contains(line, strings.TrimSpace(blockTitle)) && strings.Contains(line, "==="):
			inside, rows = true, nil
		case inside && len(line) >= blockWidth && strings.Trim(line, "=") == "":
			inside = false
			found = append(found, readRows(rows))
		case inside:
			rows = append(rows, line)
		}
	}
	return found
}

// readBlock is a block that was read, and whose it is.
type readBlock struct {
	dialect dialect
	object  *object
}

func readRows(rows []string) readBlock {
	d := dialectOf(rows)
	known := map[string]blockRow{}
	for _, r := range slices.Concat(d.head, d.last) {
		known[strings.ToLower(r.label)] = r
	}
	known["total throughput (tok/s):"] = known["total token throughput (tok/s):"] // of old
	metric := metricRow()
	o := &object{}
	var rates []float64
	for _, row := range rows {
		if row == rehearsalRow {
			o.add(rehearsal, true)
		}
		i := strings.LastIndex(row, ":")
		if i < 0 {
			continue // a title
		}
		label, value := strings.TrimSpace(row[:i+1]), strings.TrimSpace(row[i+1:])
		r, ok := known[strings.ToLower(label)]
		m := metric.FindStringSubmatch(label)
		switch {
		case ok && r.form == orNotSet && value == "not set":
			o.add(r.key, nil)
		case ok:
			o.addNumber(r.key, value)
		case m != nil:
			for _, s := range d.metrics {
				if s.name == m[2] {
					o.addNumber(strings.ToLower(m[1])+"_"+s.key+"_ms", value)
				}
			}
		case strings.HasPrefix(label, "Position "):
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				rates = append(rates, v/100)
			}
		case value != "":
			o.addNumber(strings.TrimSuffix(label, ":"), value)
		}
	}
	if rates != nil {
		o.add(positions, rates)
	}
	return readBlock{d, o}
}

// metricRow is a row of a latency, with its statistic and its name.
func metricRow() *regexp.Regexp {
	return regexp.MustCompile(`^(Mean|Median|Max|P[0-9.]+) (.+) \(ms\):$`)
}

// dialectOf is the dialect that has more of the rows, of which people leave some out.
func dialectOf(rows []string) dialect {
	has := func(d dialect) (n int) {
		labels := map[string]bool{}
		for _, r := range slices.Concat(d.head, d.last) {
			labels[strings.ToLower(r.label)] = true
		}
		names := map[string]bool{}
		for _, m := range d.metrics {
			names[m.name] = true
		}
		metric := metricRow()
		for _, row := range rows {
			label := strings.TrimSpace(row[:strings.LastIndex(row, ":")+1])
			if m := metric.FindStringSubmatch(label); labels[strings.ToLower(label)] || m != nil && names[m[2]] {
				n++
			}
		}
		return n
	}
	if sglang := sglangDialect(); has(sglang) > has(vllmDialect()) {
		return sglang
	}
	return vllmDialect()
}
