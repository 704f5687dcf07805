package formats

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
	"hclbench/results/door"
)

// ReadTable reads a table of published figures whose first line names the columns.
// Names are understood in the spellings of `vllm bench serve`, of SGLang's
// bench_serving and of well-known studies, whatever their case and punctuation;
// docs/results.md lists them. A metric whose name begins with that of an engine
// ("vllm_output_throughput_tok_s") makes a row of its own. Other columns with text
// tell rows apart, and become axes; so do those with whole numbers where rows would
// else be taken for repetitions of each other. The names of the rest are returned.
// Columns are parted by commas, semicolons or tabs.
//
// What a row does not have is in [load.Summary.Unknown]. Throughputs that it lacks
// are computed where its counts and its duration allow it.
func ReadTable(r io.Reader) (rows []Result, unused []string, err error) {
	if rows, unused, err = readTable(r); err != nil {
		return nil, nil, fmt.Errorf("read table: %w", err)
	}
	return rows, unused, nil
}

func readTable(r io.Reader) (rows []Result, unused []string, err error) {
	lines, decimals, err := readLines(r)
	if err != nil {
		return nil, nil, err
	}
	if len(lines) < 2 {
		return nil, nil, errors.New("it has no rows")
	}
	columns := columnsNamed(lines[0])
	if columns[0].normal == "metric" {
		return nil, nil, errors.New("it has a metric a row, as AIPerf's has; import the summary beside it, profile_export_aiperf.json")
	}
	if !slices.ContainsFunc(columns, func(c column) bool { return c.isFigure() }) {
		return nil, nil, fmt.Errorf("none of its columns is a figure that is known here, such as output_throughput or mean_ttft_ms: it has %s",
			plain.Cut(plain.Line(strings.Join(lines[0], ", ")), 400))
	}
	for n, line := range lines[1:] {
		made, err := readRow(columns, line, decimals)
		for i := range made {
			if made[i].rehearsed {
				err = errRehearsal
			}
			err = errors.Join(err, door.Summary(made[i].Summary), door.Axes(made[i].Axes))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", n+2, err)
		}
		rows = append(rows, made...)
	}
	tellApart(rows)
	nameServers(rows)
	for _, c := range columns {
		axis := slices.ContainsFunc(rows, func(r Result) bool { _, ok := r.Axes.Value(c.normal); return ok })
		if c.normal != "" && c.name == "" && c.text == nil && !axis {
			unused = append(unused, plain.Line(c.written))
		}
	}
	return rows, unused, nil
}

// readLines reads the cells of a table, and with which mark it writes decimals.
func readLines(r io.Reader) (lines [][]string, decimals rune, err error) {
	text, err := door.File(r)
	if err != nil {
		return nil, 0, err
	}
	text = []byte(plain.Text(string(bytes.TrimPrefix(text, []byte("\ufeff")))))
	in := csv.NewReader(bytes.NewReader(text))
	in.FieldsPerRecord = -1 // spreadsheets end some lines early
	in.Comma = separator(text)
	lines, err = in.ReadAll()
	decimals = '.'
	any := func(form *regexp.Regexp) bool {
		return slices.ContainsFunc(lines, func(line []string) bool { return slices.ContainsFunc(line, form.MatchString) })
	}
	if !any(decimalPoint) && (any(decimalComma) || in.Comma == ';' && any(thousands)) {
		decimals = ','
	}
	return lines, decimals, err
}

func separator(text []byte) rune {
	head, _, _ := bytes.Cut(text, []byte("\n"))
	for _, sep := range ",\t;" {
		if bytes.ContainsRune(head, sep) {
			return sep
		}
	}
	return ','
}

// readRow makes the rows of a line: one, or one for each engine that its columns name.
func readRow(columns []column, line []string, decimals rune) (rows []Result, err error) {
	engines := []string{""}
	for _, c := range columns {
		if c.engine != "" && !slices.Contains(engines, c.engine) {
			engines = append(engines, c.engine)
		}
	}
	if len(engines) > 1 {
		engines = engines[1:]
	}
	for _, engine := range engines {
		r := Result{Cell: results.Cell{Summary: &load.Summary{}}, Deployment: results.Deployment{Kind: engine}}
		told := map[string]bool{}
		for i, c := range columns {
			if i >= len(line) || c.engine != "" && c.engine != engine {
				continue
			}
			if err := r.readColumn(c, strings.TrimSpace(plain.Line(line[i])), decimals, told); err != nil {
				return nil, err
			}
		}
		if len(told) > 0 {
			r.complete(told)
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// readColumn takes in what a row has in one column, and notes which figures it tells.
func (r *Result) readColumn(c column, text string, decimals rune, told map[string]bool) error {
	v, err := parseNumber(text, decimals)
	number := err == nil && !math.IsNaN(v)
	switch {
	case text == "" || c.normal == "":
	case c.text != nil:
		c.text(r, text)
	case c.name != "" && err == nil && math.IsInf(v, 1): // no limit, which is what absence says too
	case c.name != "" && number && v >= 0:
		c.set(&r.Cell, v)
		if c.isFigure() {
			told[c.name] = true
		}
	case c.axis && err != nil:
		r.Axes = append(r.Axes, results.Axis{Name: c.name, Value: text})
	case c.name != "":
		return fmt.Errorf("%s is %q, which is no figure", plain.Line(c.written), plain.Cut(text, 80))
	case err != nil && isMoment(c.normal):
	case err != nil && measured.MatchString(text):
		r.rest = append(r.rest, results.Axis{Name: c.normal, Value: text})
	case err != nil:
		r.Axes = append(r.Axes, results.Axis{Name: c.normal, Value: text})
	case number && !math.IsInf(v, 0):
		r.rest = append(r.rest, results.Axis{Name: c.normal, Value: v})
	}
	return nil
}

// A number may have commas between its thousands, or one before its decimals. Of one comma
// before three digits only the rest of the table tells, and a leading 0.
var (
	thousands    = regexp.MustCompile(`^[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$`)
	decimalComma = regexp.MustCompile(`^ *[-+]?(\d+,(\d{1,2}|\d{4,})|0,\d+|\d{1,3}(\.\d{3})+,\d+) *$`)
	decimalPoint = regexp.MustCompile(`^ *[-+]?(\d+\.(\d{1,2}|\d{4,})|0\.\d+|\d{1,3}(,\d{3})+\.\d+|[\d.]+[eE][-+]?\d+) *$`)
)

func parseNumber(text string, decimals rune) (float64, error) {
	switch {
	case decimals == ',':
		text = strings.ReplaceAll(strings.ReplaceAll(text, ".", ""), ",", ".")
	case thousands.MatchString(text):
		text = strings.ReplaceAll(text, ",", "")
	}
	return strconv.ParseFloat(text, 64)
}

// complete fills in what follows from the rest.
func (r *Result) complete(told map[string]bool) {
	s, d := r.Summary, &r.Deployment
	if d.Kind == "" && len(d.Command) > 0 {
		d.Kind = engineKind(strings.Join(d.Command, " "))
	}
	if s.Requests > 0 && told["completed"] { // those without an answer are in no count
		s.Failed, told["failed"] = max(s.Failed, s.Requests-s.Completed), true
	}
	s.Requests = max(s.Requests, s.Completed+s.Failed)
	r.timed()
	w := &r.Job.Workload
	if w.Requests = cmp.Or(w.Requests, s.Requests); r.ours == nil && w.Concurrency == 0 && w.Rate == 0 && s.Requests > 0 {
		addAxis(&r.Cell, "batch", float64(s.Requests)) // all at once
	}
	if s.Duration > 0 {
		fill := func(rate *float64, count int64) { *rate = cmp.Or(*rate, float64(count)/s.Duration) }
		fill(&s.RequestThroughput, int64(s.Completed))
		fill(&s.InputThroughput, s.InputTokens)
		fill(&s.OutputThroughput, s.OutputTokens)
		if s.InputTokens > 0 && s.OutputTokens > 0 {
			fill(&s.TotalThroughput, s.InputTokens+s.OutputTokens)
		}
	}
	r.setLength("input_tokens", s.InputTokens)
	r.setLength("output_tokens", s.OutputTokens)
	r.judge(told)
}

// setLength sets the axis of a length to what was sent: benchmarks print the length that
// random prompts would have, whatever the data set is.
func (r *Result) setLength(axis string, tokens int64) {
	for i, x := range r.Axes {
		if n, ok := length(r.Summary, tokens); ok && x.Name == axis {
			r.Axes[i].Value = n
		}
	}
}

// length is how many tokens each request had, where the count says that all had as many.
func length(s *load.Summary, tokens int64) (each int64, ok bool) {
	n := int64(max(s.Completed, 1))
	return tokens / n, s.Completed > 0 && tokens > 0 && tokens%n == 0
}

// Figures are the figures among the columns of one published row, by the names that
// [ReadTable] understands. Values are int64, float64 or text; what is no number is left
// out, and nothing is computed.
func Figures(row map[string]any) *load.Summary {
	c := results.Cell{Summary: &load.Summary{}}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		m := guess(normalName(name))
		if v, err := parseNumber(strings.TrimSpace(fmt.Sprint(row[name])), '.'); err == nil && m.isFigure() {
			m.set(&c, v)
		}
	}
	return c.Summary
}
