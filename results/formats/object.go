package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
)

// object is a JSON object whose members keep their order and their spelling, so
// that what was read from another tool can be written again as it was.
type object struct {
	keys   []string
	values map[string]json.RawMessage
	err    error // of the first value that JSON has no form for
}

func (o *object) add(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s: %w", key, err)
	}
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	if _, there := o.values[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.values[key] = text
}

// addNumber adds a number that the text form may have left out.
func (o *object) addNumber(key, text string) {
	if _, err := strconv.ParseFloat(text, 64); err != nil || !json.Valid([]byte(text)) {
		o.add(key, text)
		return
	}
	o.add(key, json.RawMessage(text))
}

// without is the object less some members.
func (o *object) without(keys ...string) *object {
	out := &object{err: o.err}
	for _, key := range o.keys {
		if !slices.Contains(keys, key) {
			out.add(key, o.values[key])
		}
	}
	return out
}

// split takes the members from key on out of the object and returns them, unless there
// is a place for the records in it already.
func (o *object) split(key string) *object {
	rest := &object{}
	at := slices.Index(o.keys, key)
	if at < 0 || slices.ContainsFunc(o.keys, func(k string) bool { return slices.Contains(detailed(), k) }) {
		return rest
	}
	for _, k := range o.keys[at:] {
		rest.add(k, o.values[k])
		delete(o.values, k)
	}
	o.keys = o.keys[:at]
	return rest
}

// withoutPlaces is the object without the places where records were.
func (o *object) withoutPlaces() *object {
	var empty []string
	for _, key := range detailed() {
		if !o.has(key) {
			empty = append(empty, key)
		}
	}
	return o.without(empty...)
}

// pythonFloat spells a number as Python does: 10 is 10.0, and 0.00001 is 1e-05.
func pythonFloat(f float64) string {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// addFloat adds a number as Python spells a float, "1.0", so that a reader with types
// gets the one that it expects.
func (o *object) addFloat(key string, v float64) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		o.add(key, v) // which is an error
		return
	}
	o.add(key, json.RawMessage(pythonFloat(v)))
}

// addFigure adds a figure of a summary, or null where it is not known.
func (o *object) addFigure(s *load.Summary, name, key string) {
	if !s.Knows(name) {
		o.add(key, nil)
		return
	}
	switch at := figureNamed(name).of(s).(type) {
	case *float64:
		o.addFloat(key, *at)
	case **float64:
		if o.add(key, nil); *at != nil {
			o.addFloat(key, **at)
		}
	default:
		o.add(key, at)
	}
}

// has reports whether a member is there and says something.
func (o *object) has(key string) bool {
	v, ok := o.values[key]
	return ok && string(v) != "null"
}

// number is a member that is a number, or "inf"; ok is false for every other.
func (o *object) number(key string) (value float64, ok bool) {
	if !o.has(key) {
		return 0, false
	}
	text := strings.Trim(string(o.values[key]), `"`)
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && !math.IsNaN(value)
}

func (o *object) float(key string) float64 {
	v, _ := o.number(key)
	return v
}

func (o *object) whole(key string) int64 { return int64(math.Round(o.float(key))) }

// text is a member that is a string; otherwise its JSON form, and "" for null.
func (o *object) text(key string) string {
	if !o.has(key) {
		return ""
	}
	var s string
	if json.Unmarshal(o.values[key], &s) == nil {
		return s
	}
	return string(o.values[key])
}

// into reads a member into v, and leaves v alone when it is not there.
func (o *object) into(key string, v any) error {
	if !o.has(key) {
		return nil
	}
	if err := json.Unmarshal(o.values[key], v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// line writes the object on one line, as Python's json.dump writes it.
func (o *object) line() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteString(": ")
		b.Write(o.values[key])
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// readObject reads one JSON object.
func readObject(raw []byte) (*object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, fmt.Errorf("it is not an object")
	}
	o := &object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		o.add(key.(string), value)
	}
	return o, o.err
}

// strictJSON replaces what Python's json writes for numbers that JSON has none
// for: Infinity becomes "inf", as vLLM itself writes it elsewhere, NaN null.
func strictJSON(b []byte) []byte {
	if !bytes.Contains(b, []byte("Infinity")) && !bytes.Contains(b, []byte("NaN")) {
		return b
	}
	out := make([]byte, 0, len(b))
	quoted := false
	for i := 0; i < len(b); i++ {
		rest := b[i:]
		switch {
		case quoted && b[i] == '\\' && i+1 < len(b):
			out = append(out, b[i], b[i+1])
			i++
			continue
		case b[i] == '"':
			quoted = !quoted
		case quoted:
		case bytes.HasPrefix(rest, []byte("-Infinity")):
			out = append(out, `"-inf"`...)
			i += len("-Infinity") - 1
			continue
		case bytes.HasPrefix(rest, []byte("Infinity")):
			out = append(out, `"inf"`...)
			i += len("Infinity") - 1
			continue
		case bytes.HasPrefix(rest, []byte("NaN")):
			out = append(out, "null"...)
			i += len("NaN") - 1
			continue
		}
		out = append(out, b[i])
	}
	return out
}
