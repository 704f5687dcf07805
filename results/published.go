package results

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hclbench/load"
	"hclbench/plain"
)

// Published is a row of a table that somebody has published.
type Published struct {
	Cell                  // without ids and benchmark; its axes are the row's own
	Deployment Deployment // engine, kind, GPUs, model and command, as far as the row tells them
}

// ReadCSV reads a table of published figures whose first line names the columns.
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
func ReadCSV(r io.Reader) (rows []Published, unused []string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxImport+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read table: %w", err)
	}
	if len(text) > maxImport {
		return nil, nil, fmt.Errorf("read table: it is longer than %d MiB", maxImport>>20)
	}
	text = []byte(plain.Text(string(bytes.TrimPrefix(text, []byte("\ufeff")))))
	in := csv.NewReader(bytes.NewReader(text))
	in.FieldsPerRecord = -1 // spreadsheets end some lines early
	in.Comma = separator(text)
	lines, err := in.ReadAll()
	if err != nil {
		return nil, nil, fmt.Errorf("read table: %w", err)
	}
	if len(lines) < 2 {
		return nil, nil, errors.New("read table: it has no rows")
	}
	head := lines[0]
	columns := make([]publishedColumn, len(head))
	figures := false
	for i, name := range head {
		columns[i] = columnNamed(name, head)
		figures = figures || columns[i].figure != nil
	}
	if !figures {
		return nil, nil, fmt.Errorf("read table: none of its columns is a figure that is known here, such as output_throughput or mean_ttft_ms: it has %s", plain.Cut(plain.Line(strings.Join(head, ", ")), 400))
	}
	var numbers []extras
	for n, line := range lines[1:] {
		if !slices.ContainsFunc(line, func(s string) bool { return strings.TrimSpace(s) != "" }) {
			continue
		}
		made, more, err := readPublished(columns, line)
		for i := range made {
			err = errors.Join(err, acceptSummary(made[i].Summary), acceptAxes(made[i].Axes))
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read table, row %d: %w", n+2, err)
		}
		for range made {
			numbers = append(numbers, more)
		}
		rows = append(rows, made...)
	}
	var all []apart
	for i := range rows {
		p := &rows[i]
		all = append(all, apart{&p.Cell, fmt.Sprint(p.Deployment.Kind, p.Deployment.GPUs, p.Deployment.Model, p.Deployment.Command), numbers[i]})
	}
	tellApart(all)
	for _, c := range columns {
		if c.name != "" && c.figure == nil && c.text == nil && !slices.ContainsFunc(rows, func(p Published) bool { _, ok := p.Axes.Value(c.name); return ok }) {
			unused = append(unused, plain.Line(c.written))
		}
	}
	return rows, unused, nil
}

// separator is what parts the columns of a table.
func separator(text []byte) rune {
	head, _, _ := bytes.Cut(text, []byte("\n"))
	for _, sep := range ",\t;" {
		if bytes.ContainsRune(head, sep) {
			return sep
		}
	}
	return ','
}

// PublishedFigures are the figures among the columns of one published row, by the
// names that [ReadCSV] understands. Values are int64, float64 or text; what is no
// number is left out, and nothing is computed.
func PublishedFigures(row map[string]any) *load.Summary {
	c := Cell{Summary: &load.Summary{}}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		put, _ := figureNamed(normalName(name))
		if put == nil {
			continue
		}
		switch v := row[name].(type) {
		case int64:
			put(&c, float64(v))
		case float64:
			put(&c, v)
		case string:
			if f, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(v), ",", ""), 64); err == nil {
				put(&c, f)
			}
		}
	}
	return c.Summary
}

// publishedColumn is what a column is: a figure, something about the row, or, with
// neither, an axis when it holds text.
type publishedColumn struct {
	written string
	name    string // in small letters and underscores
	engine  string // that the figure is of, when its name says so
	axis    string // of the load, which text may be too: "sharegpt" for a length
	figure  func(*Cell, float64)
	of      string // the figure's name in a summary's JSON
	text    func(*Published, string)
}

// normalName is a column's name in small letters and digits, joined by
// underscores: "Mean TTFT (ms)" is mean_ttft_ms.
func normalName(column string) string {
	words := strings.FieldsFunc(strings.ToLower(column), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' })
	return strings.Join(words, "_")
}

func columnNamed(written string, head []string) publishedColumn {
	c := publishedColumn{written: written, name: normalName(written)}
	name := c.name
	for _, engine := range []string{"vllm", "sglang", "trtllm"} {
		if rest, ok := strings.CutPrefix(name, engine+"_"); ok {
			if f, of := figureNamed(rest); f != nil {
				c.engine, c.figure, c.of = engine, f, of
				return c
			}
		}
	}
	if name == "concurrency" && slices.ContainsFunc(head, func(s string) bool { return strings.Contains(normalName(s), "max_concurrency") }) {
		name = "mean_concurrency" // SGLang's name for how many there were, beside how many there might be
	}
	c.figure, c.of = figureNamed(name)
	c.text = textNamed(name)
	for axis, names := range loadColumns() {
		if slices.Contains(names, name) {
			c.axis = axis
		}
	}
	return c
}

// loadColumns are the names of what a load is, by axis.
func loadColumns() map[string][]string {
	return map[string][]string{
		"concurrency":   {"concurrency", "max_concurrency", "maximum_request_concurrency", "conc", "num_concurrency", "concurrent_requests"},
		"rate":          {"rate", "request_rate", "request_rate_configured_rps", "qps"},
		"batch":         {"batch", "batch_size"},
		"input_tokens":  {"input_tokens", "input_len", "random_input_len", "isl", "in_len", "input_length", "prompt_len", "prompt_length"},
		"output_tokens": {"output_tokens", "output_len", "random_output_len", "osl", "out_len", "output_length"},
		// Settings of an engine, under their own names.
		"prefill": {"prefill"}, "decode": {"decode"}, "tp": {"tp"}, "pp": {"pp"}, "dp": {"dp"}, "ep": {"ep"},
		"tensor_parallel_size": {"tensor_parallel_size"}, "pipeline_parallel_size": {"pipeline_parallel_size"}, "data_parallel_size": {"data_parallel_size"},
	}
}

// figureNamed returns how a figure goes into a cell, and its name in a summary's JSON,
// where it goes there; nil: there is none of this name.
func figureNamed(name string) (put func(*Cell, float64), of string) {
	workload := map[string]func(*load.Workload, float64){
		"concurrency":   func(w *load.Workload, v float64) { w.Concurrency = int(v) },
		"rate":          func(w *load.Workload, v float64) { w.Rate = load.Rate(v) },
		"batch":         func(w *load.Workload, v float64) { w.Requests = int(v) },
		"input_tokens":  func(w *load.Workload, v float64) { w.Dataset.InputTokens = int(v) },
		"output_tokens": func(w *load.Workload, v float64) { w.OutputTokens = int(v) },
	}
	for axis, names := range loadColumns() {
		if !slices.Contains(names, name) {
			continue
		}
		return func(c *Cell, v float64) {
			if put := workload[axis]; put != nil {
				put(&c.Job.Workload, v)
			}
			if _, there := c.Axes.Value(axis); !there {
				c.Axes = append(c.Axes, Axis{axis, wholeOr(v)})
			}
		}, ""
	}
	summary := func(put func(*load.Summary, float64)) func(*Cell, float64) {
		return func(c *Cell, v float64) { put(c.Summary, v) }
	}
	for _, known := range []struct {
		of    string
		names []string
		put   func(*load.Summary, float64)
	}{
		{"completed", []string{"completed", "successful_requests", "num_requests"}, func(s *load.Summary, v float64) { s.Completed = int(v) }},
		{"failed", []string{"failed", "failed_requests"}, func(s *load.Summary, v float64) { s.Failed = int(v) }},
		{"requests", []string{"num_prompts"}, func(s *load.Summary, v float64) { s.Requests = int(v) }},
		{"duration_s", []string{"duration", "duration_s", "elapsed_time", "benchmark_duration_s"}, func(s *load.Summary, v float64) { s.Duration = v }},
		{"input_tokens", []string{"total_input_tokens"}, func(s *load.Summary, v float64) { s.InputTokens = int64(v) }},
		{"output_tokens", []string{"total_output_tokens", "total_generated_tokens"}, func(s *load.Summary, v float64) { s.OutputTokens = int64(v) }},
		{"request_throughput", []string{"request_throughput", "requests_per_second", "request_throughput_req_s"}, func(s *load.Summary, v float64) { s.RequestThroughput = v }},
		{"input_throughput", []string{"input_throughput", "input_token_throughput_tok_s"}, func(s *load.Summary, v float64) { s.InputThroughput = v }},
		{"output_throughput", []string{"output_throughput", "output_token_throughput_tok_s", "output_throughput_tok_s"}, func(s *load.Summary, v float64) { s.OutputThroughput = v }},
		{"total_throughput", []string{"total_throughput", "total_token_throughput", "total_token_throughput_tok_s", "tokens_per_second"}, func(s *load.Summary, v float64) { s.TotalThroughput = v }},
		{"goodput", []string{"goodput", "request_goodput"}, func(s *load.Summary, v float64) { s.Goodput = &v }},
		{"peak_output_throughput", []string{"peak_output_throughput", "max_output_tokens_per_s"}, func(s *load.Summary, v float64) { s.PeakOutputThroughput = v }},
		{"peak_concurrency", []string{"peak_concurrent_requests", "max_concurrent_requests"}, func(s *load.Summary, v float64) { s.PeakConcurrency = int(v) }},
		{"mean_concurrency", []string{"mean_concurrency"}, func(s *load.Summary, v float64) { s.MeanConcurrency = v }},
	} {
		if slices.Contains(known.names, name) {
			return summary(known.put), known.of
		}
	}
	rest, inMs := strings.CutSuffix(name, "_ms")
	factor := 1.0
	if !inMs {
		if rest, inMs = strings.CutSuffix(name, "_s"); inMs {
			factor = 1e3
		}
	}
	statistic, timing, ok := strings.Cut(rest, "_")
	if !ok || !inMs {
		return nil, ""
	}
	which := map[string]func(*load.Summary) *load.Stats{
		"ttft": func(s *load.Summary) *load.Stats { return &s.TTFT }, "tpot": func(s *load.Summary) *load.Stats { return &s.TPOT },
		"itl": func(s *load.Summary) *load.Stats { return &s.ITL }, "e2el": func(s *load.Summary) *load.Stats { return &s.E2EL },
		"e2e_latency": func(s *load.Summary) *load.Stats { return &s.E2EL },
	}[timing]
	if which == nil {
		return nil, ""
	}
	var into func(*load.Stats, float64)
	switch p, isPercentile := strings.CutPrefix(statistic, "p"); {
	case statistic == "mean":
		into = func(s *load.Stats, v float64) { s.Mean = v }
	case statistic == "median" || statistic == "p50":
		into = func(s *load.Stats, v float64) { s.Median = v }
	case statistic == "std":
		into = func(s *load.Stats, v float64) { s.Std = v }
	case statistic == "min":
		into = func(s *load.Stats, v float64) { s.Min = v }
	case statistic == "max":
		into = func(s *load.Stats, v float64) { s.Max = v }
	case isPercentile && decimal(p):
		into = func(s *load.Stats, v float64) {
			if s.Percentiles == nil {
				s.Percentiles = map[string]float64{}
			}
			s.Percentiles[p] = v
		}
	default:
		return nil, ""
	}
	if statistic == "p50" {
		statistic = "median"
	}
	return summary(func(s *load.Summary, v float64) { into(which(s), factor*v) }), strings.Replace(timing, "e2e_latency", "e2el", 1) + "_ms." + statistic
}

func decimal(s string) bool { _, err := strconv.ParseFloat(s, 64); return err == nil }

// wholeOr is a number as an axis has it.
func wholeOr(v float64) any {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return int64(v)
	}
	return v
}

// textNamed returns how a text goes into a row; nil: it is an axis.
func textNamed(name string) func(*Published, string) {
	switch name {
	case "gpu", "gpus":
		return func(p *Published, s string) { p.Deployment.GPUs = gpuModel(s) }
	case "engine", "backend":
		return func(p *Published, s string) { p.Deployment.Kind = engineKind(s) }
	case "model", "model_id":
		return func(p *Published, s string) { p.Deployment.Model = s }
	case "command", "serve_command":
		return func(p *Published, s string) { p.Deployment.Command = strings.Fields(s) }
	case "dataset", "dataset_name", "workload":
		return func(p *Published, s string) {
			p.Job.Workload.Dataset.Kind = s
			p.Axes = append(p.Axes, Axis{"dataset", s})
		}
	}
	return nil
}

// engineKind is the kind of an engine that others call otherwise, or that is the
// program of a command; empty: not known.
func engineKind(name string) string {
	name = strings.ToLower(name)
	switch {
	case strings.Contains(name, "sglang"):
		return "sglang"
	case strings.Contains(name, "vllm"):
		return "vllm"
	case strings.Contains(name, "trt"):
		return "trtllm"
	}
	return name
}

// readPublished makes the rows of a line: one, or one for each engine that its
// columns name. Numbers that nobody understands here are returned, too.
func readPublished(columns []publishedColumn, line []string) (rows []Published, more extras, err error) {
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
		p := Published{Cell: Cell{Summary: &load.Summary{}}, Deployment: Deployment{Kind: engine}}
		told := map[string]bool{}
		figures := false
		for i, c := range columns {
			if i >= len(line) || c.engine != "" && c.engine != engine {
				continue
			}
			text := strings.TrimSpace(plain.Line(line[i]))
			v, wrong := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
			switch {
			case text == "" || c.name == "":
			case c.text != nil:
				c.text(&p, text)
			case c.figure != nil && wrong != nil && c.axis != "":
				p.Axes = append(p.Axes, Axis{c.axis, text})
			case c.figure != nil && (wrong != nil || math.IsNaN(v) || v < 0):
				return nil, extras{}, fmt.Errorf("%s is %q, which is no figure", plain.Line(c.written), plain.Cut(text, 80))
			case c.figure != nil && math.IsInf(v, 1): // no limit, which is what absence says too
			case c.figure != nil:
				c.figure(&p.Cell, v)
				figures, told[c.of] = true, true
			case wrong != nil:
				p.Axes = append(p.Axes, Axis{c.name, text})
			case !math.IsNaN(v) && !math.IsInf(v, 0):
				more.number(c.name, v)
			}
		}
		if !figures {
			continue
		}
		p.complete(told)
		rows = append(rows, p)
	}
	return rows, more, nil
}

// complete fills in what follows from the rest.
func (p *Published) complete(told map[string]bool) {
	s, d := p.Summary, &p.Deployment
	if d.Kind == "" && len(d.Command) > 0 {
		d.Kind = engineKind(strings.Join(d.Command, " "))
	}
	for _, t := range []*load.Stats{&s.TTFT, &s.TPOT, &s.E2EL} {
		if t.Mean > 0 || t.Median > 0 {
			t.Count = s.Completed
		}
	}
	if s.ITL.Mean > 0 || s.ITL.Median > 0 {
		s.ITL.Count = gaps(s)
	}
	if s.Requests > 0 && told["completed"] { // those without an answer are in no count
		s.Failed, told["failed"] = max(s.Failed, s.Requests-s.Completed), true
	}
	s.Requests = max(s.Requests, s.Completed+s.Failed)
	w := &p.Job.Workload
	if w.Requests = cmp.Or(w.Requests, s.Requests); w.Concurrency == 0 && w.Rate == 0 && s.Requests > 0 {
		if _, there := p.Axes.Value("batch"); !there {
			p.Axes = append(p.Axes, Axis{"batch", int64(s.Requests)}) // all at once
		}
	}
	if s.Duration > 0 {
		fill := func(rate *float64, count float64) {
			if *rate == 0 {
				*rate = count / s.Duration
			}
		}
		fill(&s.RequestThroughput, float64(s.Completed))
		fill(&s.InputThroughput, float64(s.InputTokens))
		fill(&s.OutputThroughput, float64(s.OutputTokens))
		if s.InputTokens > 0 && s.OutputTokens > 0 {
			fill(&s.TotalThroughput, float64(s.InputTokens+s.OutputTokens))
		}
	}
	if s.Completed > 0 {
		each := func(axis string, tokens int64) {
			for i, x := range p.Axes {
				// Benchmarks print the length that random prompts would have, whatever
				// the data set is; the count is what was sent.
				if x.Name == axis && tokens > 0 && tokens%int64(s.Completed) == 0 {
					p.Axes[i].Value = tokens / int64(s.Completed)
				}
			}
		}
		each("input_tokens", s.InputTokens)
		each("output_tokens", s.OutputTokens)
	}
	s.Unknown = unknownFigures(s, told)
	s.Verdict = importedVerdict(s, p.Job.Workload.Concurrency)
}

// gpuModel is a GPU as its maker writes it, its count as we do: "8xH200".
func gpuModel(s string) string {
	count, model, found := strings.Cut(strings.ToLower(s), "x")
	if n, err := strconv.Atoi(strings.TrimSpace(count)); found && err == nil {
		return fmt.Sprintf("%dx%s", n, gpuModel(strings.TrimSpace(model)))
	}
	if s = strings.ToUpper(s); s == "MI300" { // as published tables shorten it
		return "MI300X"
	}
	return s
}
