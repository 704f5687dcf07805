package prompts

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
)

// blockTokens is how many tokens of a prompt one hash id of a trace stands for (Mooncake's block).
const blockTokens = 512

type recording struct {
	at            time.Duration // from the first
	input, output int
	hashes        []int64 // one for each block of the prompt; equal blocks are equal tokens
	model         string  // by the trace's own name; empty: it names none
}

// recordings reads the lines of a trace: Mooncake's JSONL, or the tables of BurstGPT and of Azure's
// LLM inference traces, whose first line names the columns.
type recordings struct {
	job     load.Job
	columns map[string]int // of a table; nil: it is none, or has not begun
	rows    []recording
	models  []string      // that it names
	last    time.Duration // of the line before
	back    []string      // the first few that go back in time
	backs   int
}

// tableColumns are the columns of a table by their names, in lower case and letters only.
func tableColumns() map[string]string {
	return map[string]string{
		"timestamp": "time", "requesttokens": "input", "responsetokens": "output", "model": "model", // BurstGPT
		"contexttokens": "input", "generatedtokens": "output", // Azure
	}
}

// take reads one line.
func (t *recordings) take(raw []byte) error {
	r, err := t.parse(raw)
	if err != nil {
		return err
	}
	if r.model != "" && !slices.Contains(t.models, r.model) {
		t.models = append(t.models, r.model)
	}
	if only := t.job.Workload.Dataset.OfModel; only != "" && r.model != only {
		return errSkip
	}
	if len(t.rows) > 0 && r.at < t.last {
		if t.backs++; len(t.back) < badSamples {
			t.back = append(t.back, fmt.Sprintf("%v after %v", r.at, t.last))
		}
	}
	t.last = r.at
	t.rows = append(t.rows, r)
	return nil
}

func (t *recordings) parse(raw []byte) (recording, error) {
	if raw[0] == '{' {
		return parseRecording(raw)
	}
	fields, err := csv.NewReader(strings.NewReader(string(raw))).Read()
	if err != nil {
		return recording{}, err
	}
	if t.columns == nil {
		return recording{}, t.header(fields)
	}
	field := func(name string) string {
		if i, ok := t.columns[name]; ok && i < len(fields) {
			return strings.TrimSpace(fields[i])
		}
		return ""
	}
	r := recording{model: field("model")}
	if r.at, err = parseMoment(field("time")); err != nil {
		return r, err
	}
	for name, to := range map[string]*int{"input": &r.input, "output": &r.output} {
		if *to, err = strconv.Atoi(field(name)); err != nil || *to < 0 {
			return r, fmt.Errorf("%q is not a number of tokens", field(name))
		}
	}
	if r.input == 0 || r.output == 0 {
		return r, errSkip // a request that failed
	}
	return r, nil
}

// header takes the names of a table's columns.
func (t *recordings) header(fields []string) error {
	columns := map[string]int{}
	for i, f := range fields {
		letters := strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' {
				return c
			}
			return -1
		}, strings.ToLower(f))
		if name, ok := tableColumns()[letters]; ok {
			columns[name] = i
		}
	}
	for _, name := range []string{"time", "input", "output"} {
		if _, ok := columns[name]; !ok {
			return errors.New("neither a JSON object of Mooncake's, nor the first line of a table of BurstGPT's " +
				"(Timestamp, Model, Request tokens, Response tokens) or Azure's (TIMESTAMP, ContextTokens, GeneratedTokens)")
		}
	}
	t.columns = columns
	return errHeader
}

// parseMoment reads seconds, or a date and a time.
func parseMoment(text string) (time.Duration, error) {
	if s, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(s) < mostMilliseconds/1e3 {
		return time.Duration(math.Round(s * 1e9)), nil
	}
	for _, form := range []string{time.DateTime, time.DateTime + "Z07:00"} {
		if at, err := time.Parse(form, text); err == nil { // with any part of a second
			return at.Sub(time.Unix(0, 0)), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time: write seconds, or 2006-01-02 15:04:05.000", text)
}

// mostMilliseconds bounds a timestamp: as one of Unix it is in the year 2096, and what lies between any two is
// still a number of nanoseconds.
const mostMilliseconds = 4e12

func milliseconds(n float64) (time.Duration, error) {
	if !(math.Abs(n) < mostMilliseconds) {
		return 0, fmt.Errorf("\"timestamp\" is %v ms: it lies between %v and %v", n, -mostMilliseconds, mostMilliseconds)
	}
	return time.Duration(math.Round(n / 1e3 * 1e9)), nil
}

// parseRecording reads a line of Mooncake's JSONL.
func parseRecording(raw []byte) (recording, error) {
	var l struct {
		Timestamp    *float64 `json:"timestamp"` // ms
		InputLength  int      `json:"input_length"`
		OutputLength int      `json:"output_length"`
		HashIDs      []int64  `json:"hash_ids"`
		Model        string   `json:"model"`

		Messages json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return recording{}, plainError(err)
	}
	switch {
	case l.Messages != nil:
		return recording{}, fmt.Errorf("it has messages: use a data set of kind %q", load.Conversation)
	case l.Timestamp == nil:
		return recording{}, errors.New("no number \"timestamp\"")
	case l.InputLength < 1:
		return recording{}, fmt.Errorf("\"input_length\" is %d", l.InputLength)
	case l.OutputLength < 1:
		return recording{}, fmt.Errorf("\"output_length\" is %d: it must be at least 1", l.OutputLength)
	}
	at, err := milliseconds(*l.Timestamp)
	return recording{at, l.InputLength, l.OutputLength, l.HashIDs, l.Model}, err
}

// readTrace reads the requests of a trace that count, in the order of their times.
func readTrace(job load.Job) ([]recording, *load.Source, error) {
	t := &recordings{job: job}
	f, err := readEntries(job, func(_ load.Workload, raw []byte) error { return t.take(raw) })
	if err != nil {
		return nil, nil, err
	}
	if err := f.Close(); err != nil {
		return nil, nil, fmt.Errorf("read the trace: %w", err)
	}
	name := filepath.Base(job.Workload.Dataset.Path)
	only := job.Workload.Dataset.OfModel
	switch {
	case t.backs > max(minBad, len(t.rows)/badShare):
		return nil, nil, fmt.Errorf("trace %s: %d of its %d requests go back in time (%s): sort it, or cut it where it begins anew",
			name, t.backs, len(t.rows), strings.Join(t.back, ", "))
	case len(t.rows) > 0:
	case only != "" && t.models == nil:
		return nil, nil, fmt.Errorf("trace %s names no models: remove of_model = %q", name, only)
	case only != "" && !slices.Contains(t.models, only):
		slices.Sort(t.models)
		return nil, nil, fmt.Errorf("trace %s has no request of the model %q, only of %q", name, only, t.models)
	default:
		return nil, nil, errors.New("the trace has no requests" + firstOf(f.source.BadLines))
	}
	slices.SortStableFunc(t.rows, func(a, b recording) int { return cmp.Compare(a.at, b.at) })
	f.source.Reordered = t.backs
	return t.rows, f.source, nil
}

// checkTrace says what makes a trace no use.
func checkTrace(job load.Job) error {
	_, _, err := readTrace(job)
	return err
}

// trace are the requests of a trace, at their times.
func trace(_ context.Context, job load.Job, _ int) (*Set, error) {
	rows, source, err := readTrace(job)
	if err != nil {
		return nil, err
	}
	w := job.Workload
	zero := rows[0].at
	for i := range rows {
		rows[i].at = slowed(w, rows[i].at-zero)
		if w.OutputTokens > 0 {
			rows[i].output = w.OutputTokens
		}
	}
	if w.Requests > 0 {
		rows = rows[:min(len(rows), w.Requests)]
	}
	rows = until(w, rows, func(r recording) time.Duration { return r.at })
	source.Prompts = len(rows)
	due := make([]time.Duration, len(rows))
	for i, r := range rows {
		due[i] = r.at
	}
	return &Set{Due: due, Total: len(due), source: source, rows: func(use uint64) maker {
		return traced{seed: Seed(job), use: use, rows: rows, words: w.SendsText()}
	}}, nil
}

type traced struct {
	seed, use uint64
	rows      []recording
	words     bool
}

func (p traced) append(b []byte, i int) ([]byte, ask) {
	r := p.rows[i%len(p.rows)]
	s := newSynthetic(b, p.words)
	for _, hash := range r.hashes {
		s.add(Random(p.seed^scramble(p.use), forBlock, uint64(hash)), min(blockTokens, r.input-s.n))
	}
	// What no hash stands for is like no other prompt.
	s.add(Random(p.seed, p.use, uint64(i)), r.input-s.n)
	return append(s.b, s.end), ask{input: r.input, output: r.output}
}
