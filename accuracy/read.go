package accuracy

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hclbench/plain"
)

// What is read of a file at most.
const (
	maxFile = 256 << 20 // bytes
	maxRow  = 4 << 20   // bytes of one line of JSON
	maxRows = 200_000
)

// row is one question as its file has it: a line of JSON, or of CSV with a header. Its first mistake is kept, as readers ask for several
// members before they look.
type row struct {
	line    int
	members map[string]json.RawMessage // of JSON
	fields  map[string]string          // of CSV
	err     *error
}

func (r row) fail(format string, args ...any) {
	if *r.err == nil {
		*r.err = fmt.Errorf(format, args...)
	}
}

func (r row) has(name string) bool {
	_, member := r.members[name]
	_, field := r.fields[name]
	return member && !r.is(name, 'n') || field
}

// is reports whether a member begins so: '[' is a list, '{' an object, 'n' null.
func (r row) is(name string, first byte) bool {
	m := r.members[name]
	return len(m) > 0 && m[0] == first
}

// optional is a text or a number as text; empty where it is missing.
func (r row) optional(name string) string {
	if f, ok := r.fields[name]; ok {
		return f
	}
	if !r.has(name) {
		return ""
	}
	var text string
	var number json.Number
	switch m := r.members[name]; {
	case json.Unmarshal(m, &text) == nil:
		return text
	case json.Unmarshal(m, &number) == nil:
		return number.String()
	}
	r.fail("%q is neither text nor number", name)
	return ""
}

// text is [row.optional] of what has to be there and not empty.
func (r row) text(name string) string {
	s := r.optional(name)
	switch {
	case !r.has(name):
		r.fail("it has no %q", name)
	case strings.TrimSpace(s) == "":
		r.fail("%q is empty", name)
	}
	return s
}

// texts is a list of texts or numbers.
func (r row) texts(name string) []string {
	var list []json.RawMessage
	if !r.has(name) {
		r.fail("it has no %q", name)
	} else if json.Unmarshal(r.members[name], &list) != nil {
		r.fail("%q is no list", name)
	}
	var all []string
	for i, m := range list {
		item := row{members: map[string]json.RawMessage{name: m}, err: new(error)}
		all = append(all, item.optional(name))
		if *item.err != nil || !item.has(name) {
			r.fail("item %d of %q is neither text nor number", i+1, name)
		}
	}
	return all
}

// raw is a list as it is, nil where it is missing.
func (r row) raw(name string) json.RawMessage {
	if !r.has(name) {
		return nil
	}
	if !r.is(name, '[') {
		r.fail("%q is no list", name)
	}
	return r.members[name]
}

// read reads all questions of a task's file.
func (t Task) read(file io.Reader) ([]Question, error) {
	limited := &io.LimitedReader{R: file, N: maxFile + 1}
	in := bufio.NewReaderSize(limited, 64<<10)
	if bom, _ := in.Peek(3); string(bom) == "\ufeff" {
		_, _ = in.Discard(3)
	}
	first, err := in.Peek(4)
	if len(first) == 0 {
		if err == io.EOF {
			err = errors.New("it is empty")
		}
		return nil, err
	}
	if string(first) == "PAR1" {
		return nil, errors.New("it is Parquet, which is not read. Make JSON lines of it: uv run --with pandas --with pyarrow python -c 'import pandas, sys; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient=\"records\", lines=True)' FILE.parquet FILE.jsonl")
	}
	var questions []Question
	ids := map[string]int{}
	add := func(r row) error {
		if len(questions) == maxRows {
			return fmt.Errorf("it has more than %d questions", maxRows)
		}
		r.err = new(error)
		q, err := t.question(r)
		if *r.err != nil {
			err = *r.err
		}
		if err != nil {
			return fmt.Errorf("line %d: %w; a question of %s is one of %s", r.line, err, t.Name, t.File)
		}
		q.line = r.line
		if q.ID == "" {
			q.ID = fmt.Sprint(len(questions) + 1)
		}
		q.ID = plain.Cut(plain.Line(q.ID), 200)
		if line, twice := ids[q.ID]; twice {
			return fmt.Errorf("line %d: its id %q is that of line %d", r.line, q.ID, line)
		}
		ids[q.ID] = r.line
		questions = append(questions, q)
		return nil
	}
	if first[0] == '{' || first[0] == '\n' || first[0] == '#' {
		err = jsonLines(in, add)
	} else {
		err = csvLines(in, add)
	}
	switch {
	case limited.N == 0:
		return nil, fmt.Errorf("it is larger than %s", plain.Bytes(maxFile))
	case err != nil:
		return nil, err
	case len(questions) == 0:
		return nil, errors.New("it has no questions")
	}
	return questions, nil
}

// jsonLines calls add with each line that is not empty and no comment.
func jsonLines(in io.Reader, add func(row) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRow)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if !utf8.Valid(line) {
			return fmt.Errorf("line %d: it is not UTF-8", n)
		}
		r := row{line: n}
		if err := json.Unmarshal(line, &r.members); err != nil {
			return fmt.Errorf("line %d: it is no JSON object: %w", n, err)
		}
		if err := add(r); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: it is longer than %s", n+1, plain.Bytes(maxRow))
	}
	return lines.Err()
}

// csvLines calls add with each record behind the header. A record may have several lines: the first of them counts.
func csvLines(in io.Reader, add func(row) error) error {
	records := csv.NewReader(in)
	header, err := records.Read()
	if err != nil {
		return fmt.Errorf("it is neither JSON lines nor CSV: %w", err)
	}
	for {
		fields, err := records.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err // it names the line
		}
		r := row{fields: map[string]string{}}
		r.line, _ = records.FieldPos(0)
		for i, name := range header {
			if !utf8.ValidString(fields[i]) {
				return fmt.Errorf("line %d: it is not UTF-8", r.line)
			}
			r.fields[name] = fields[i]
		}
		if err := add(r); err != nil {
			return err
		}
	}
}
