package formats

import (
	"bytes"
	"cmp"
	"fmt"
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

// block is the object as the tool prints it, to the character. What the object does
// not have has no row.
func (t Tool) block(o *object) []byte {
	var b bytes.Buffer
	title := func(text, fill string) {
		left := (blockWidth - len(text)) / 2
		fmt.Fprintln(&b, strings.Repeat(fill, left)+text+strings.Repeat(fill, blockWidth-len(text)-left))
	}
	part := func(text string, rows []blockRow) {
		if slices.ContainsFunc(rows, func(r blockRow) bool { return o.has(r.key) }) {
			title(text, "-")
		}
		for _, r := range rows {
			r.write(&b, o)
		}
	}
	title(blockTitle, "=")
	if o.has(rehearsal) {
		fmt.Fprintln(&b, rehearsalRow)
	}
	for _, r := range t.head {
		r.write(&b, o)
	}
	for _, l := range t.latencies {
		part(l.title, l.rows(o))
	}
	part(t.tail, t.last)
	var rates []float64
	if o.into(positions, &rates) == nil && len(rates) > 0 {
		fmt.Fprintln(&b, "Per-position acceptance (%):")
		for i, r := range rates {
			fmt.Fprintf(&b, "%-40s %-10.2f\n", fmt.Sprintf("  Position %d:", i), 100*r)
		}
	}
	title("", "=")
	return b.Bytes()
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

// latencyName is a name of a latency's statistic, as the tools write it.
var latencyName = regexp.MustCompile(`^(mean|median|std|min|max|p\d+(?:\.\d+)?)_(?:ttft|tpot|itl|e2el|e2e_latency)_ms$`)

// rows are those of a latency, with the percentiles that the object has in rising order.
func (l section) rows(o *object) []blockRow {
	row := func(name, statistic string) blockRow {
		return blockRow{name + " " + l.name + " (ms):", statistic + "_" + l.key + "_ms", hundredth}
	}
	var percentiles []string
	for _, key := range o.keys {
		if m := latencyName.FindStringSubmatch(key); m != nil && key == m[1]+"_"+l.key+"_ms" && m[1][0] == 'p' {
			percentiles = append(percentiles, m[1][1:])
		}
	}
	slices.SortFunc(percentiles, byValue)
	rows := []blockRow{row("Mean", "mean"), row("Median", "median")}
	for _, p := range percentiles {
		rows = append(rows, row("P"+p, "p"+p))
	}
	if l.hasMax {
		rows = append(rows, row("Max", "max"))
	}
	return rows
}

// positions is the member of vLLM's object with the acceptance at each place of
// a draft, as shares.
const positions = "spec_decode_per_position_acceptance_rates"

// readBlocks reads the results in what tools have printed, whatever else they have
// printed around them.
func readBlocks(text string) (all []Result, err error) {
	var rows []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case strings.Contains(line, strings.TrimSpace(blockTitle)) && strings.Contains(line, "==="):
			inside, rows = true, nil
		case inside && len(line) >= blockWidth && strings.Trim(line, "=") == "":
			inside = false
			one, err := readBlock(rows)
			if err != nil {
				return nil, fmt.Errorf("read result block %d: %w", len(all)+1, err)
			}
			all = append(all, one)
		case inside:
			rows = append(rows, line)
		}
	}
	return all, nil
}

// readBlock takes a block for that of the tool which has more of its rows, of which
// people leave some out.
func readBlock(rows []string) (Result, error) {
	var as Tool
	var best *object
	most := -1
	for _, t := range tools() {
		if o, n := t.readRows(rows); n > most {
			as, best, most = t, o, n
		}
	}
	return as.reader().result(best)
}

// readRows makes an object of rows, and counts those that are the tool's.
func (t Tool) readRows(rows []string) (o *object, known int) {
	keys := map[string]string{}
	for _, r := range slices.Concat(t.head, t.last) {
		keys[strings.ToLower(r.label)] = r.key
	}
	keys["total throughput (tok/s):"] = keys["total token throughput (tok/s):"] // of old
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
		key, ofLatency := t.latencyRow(label)
		if key = cmp.Or(keys[strings.ToLower(label)], key); key != "" {
			known++
		}
		switch {
		case key == "max_concurrency" && value == "not set":
			o.add(key, nil)
		case key != "":
			o.addText(key, value)
		case ofLatency: // of one that the tool does not have
		case strings.HasPrefix(label, "Position "):
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				rates = append(rates, v/100)
			}
		case value != "":
			o.addText(strings.TrimSuffix(label, ":"), value)
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
