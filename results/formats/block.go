package formats

import (
	"bytes"
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

const blockWidth = 50

const blockTitle = " Serving Benchmark Result "

// rehearsalRow is the one row of ours in a block: it is not to be taken for one of theirs.
const rehearsalRow = "A rehearsal, with a simulated engine: nothing was measured"

// writeBlock writes the object as the tool prints it, to the character. What the
// object does not have has no row.
func (t Tool) writeBlock(w io.Writer, o *object) error {
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
	for _, r := range t.head {
		r.write(&b, o)
	}
	for _, l := range t.latencies {
		if rows := l.rows(o); len(rows) > 0 {
			title(l.title, "-")
			for _, r := range rows {
				r.write(&b, o)
			}
		}
	}
	if slices.ContainsFunc(t.last, func(r blockRow) bool { return o.has(r.key) }) {
		title(t.tail, "-")
		for _, r := range t.last {
			r.write(&b, o)
		}
		writePositions(&b, o)
	}
	title("", "=")
	_, err := w.Write(b.Bytes())
	return err
}

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

// rows are the rows of a latency that the object has.
func (l section) rows(o *object) []blockRow {
	statistics := []string{"mean", "median"}
	statistics = append(statistics, l.percentiles(o)...)
	if l.hasMax {
		statistics = append(statistics, "max")
	}
	var rows []blockRow
	for _, s := range statistics {
		if key := s + "_" + l.key + "_ms"; o.has(key) {
			rows = append(rows, blockRow{strings.ToUpper(s[:1]) + s[1:] + " " + l.name + " (ms):", key, hundredth})
		}
	}
	return rows
}

// percentiles are the percentiles of the latency that the object has, in rising order.
func (l section) percentiles(o *object) []string {
	var list []string
	for _, key := range o.keys {
		statistic, ok := strings.CutSuffix(key, "_"+l.key+"_ms")
		if p, is := strings.CutPrefix(statistic, "p"); ok && is && decimal(p) {
			list = append(list, statistic)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return byValue(a[1:], b[1:]) })
	return list
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
func readBlocks(text string) []block {
	var found []block
	var rows []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case strings.Contains(line, strings.TrimSpace(blockTitle)) && strings.Contains(line, "==="):
			inside, rows = true, nil
		case inside && len(line) >= blockWidth && strings.Trim(line, "=") == "":
			inside = false
			found = append(found, readBlock(rows))
		case inside:
			rows = append(rows, line)
		}
	}
	return found
}

// block is a block that was read, and whose it is.
type block struct {
	tool   Tool
	object *object
}

// readBlock takes a block for that of the tool which has more of its rows, of which
// people leave some out.
func readBlock(rows []string) block {
	var best block
	most := -1
	for _, t := range tools() {
		if o, n := t.readRows(rows); n > most {
			best, most = block{t, o}, n
		}
	}
	return best
}

// readRows makes an object of rows, and counts those that are the tool's.
func (t Tool) readRows(rows []string) (o *object, known int) {
	forms := map[string]blockRow{}
	for _, r := range slices.Concat(t.head, t.last) {
		forms[strings.ToLower(r.label)] = r
	}
	o = &object{}
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
		r, ours := forms[strings.ToLower(label)]
		key, ofLatency := t.latencyRow(label)
		if ours || key != "" {
			known++
		}
		switch {
		case ours && r.form == orNotSet && value == "not set":
			o.add(r.key, nil)
		case ours:
			o.addNumber(r.key, value)
		case strings.EqualFold(label, "total throughput (tok/s):"): // of old
			o.addNumber(forms["total token throughput (tok/s):"].key, value)
		case key != "":
			o.addNumber(key, value)
		case ofLatency: // of one that the tool does not have
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
	return o, known
}

var latencyRow = regexp.MustCompile(`^(Mean|Median|Max|P[0-9.]+) (.+) \(ms\):$`)

// latencyRow reads the label of a row of a latency: the member that it is, which may
// be none of this tool's.
func (t Tool) latencyRow(label string) (key string, ok bool) {
	m := latencyRow.FindStringSubmatch(label)
	if m == nil {
		return "", false
	}
	for _, l := range t.latencies {
		if l.name == m[2] {
			return strings.ToLower(m[1]) + "_" + l.key + "_ms", true
		}
	}
	return "", true
}
