package formats

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"hclbench/results"
)

// object is a JSON object whose members keep their order and their spelling, so
// that what was read from another tool can be written again as it was.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// add adds a member; what JSON has no form for is null.
func (o *object) add(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte("null")
	}
	if o.values == nil {
		o.values = map[string]json.RawMessage{}
	}
	if _, there := o.values[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.values[key] = text
}

// addText adds a number, or a text where it is none.
func (o *object) addText(key, text string) {
	if _, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) {
		o.add(key, json.RawMessage(text))
		return
	}
	o.add(key, text)
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

// addValue adds a member, with a number as Python spells a float, "1.0", so that a reader
// with types gets the one that it expects.
func (o *object) addValue(key string, value any) {
	switch v := value.(type) {
	case absent:
	case *float64:
		o.addValue(key, *v)
	case float64:
		o.add(key, json.RawMessage(pythonFloat(v)))
	default:
		o.add(key, v)
	}
}

// addFigure adds a figure of a summary, or null where it is not known.
func (o *object) addFigure(c *results.Cell, f figure, key string) {
	at := f.at(c)
	if maybe, ok := at.(**float64); ok {
		at = *maybe
	}
	if !c.Summary.Knows(f.name) || reflect.ValueOf(at).IsNil() {
		at = nil
	}
	o.addValue(key, at)
}

// has reports whether a member is there and says something.
func (o *object) has(key string) bool {
	v, ok := o.values[key]
	return ok && string(v) != "null"
}

// number is a member that is a number, or "inf"; ok is false for every other.
func (o *object) number(key string) (value float64, ok bool) {
	if v := o.values[key]; !o.has(key) || v[0] == '[' || v[0] == '{' { // which may be long
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

func (o *object) integer(key string) int64 { return int64(math.Round(o.float(key))) }

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
func (o *object) line() []byte {
	members := make([]string, len(o.keys))
	for i, key := range o.keys {
		name, _ := json.Marshal(key) // which has a form for any text
		members[i] = string(name) + ": " + string(o.values[key])
	}
	return []byte("{" + strings.Join(members, ", ") + "}\n")
}

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
	return o, nil
}

// pythonOnly are texts, and what Python's json writes for numbers that JSON has none for.
var pythonOnly = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity|NaN`)

// strictJSON replaces such numbers: Infinity becomes "inf", as vLLM itself writes it
// elsewhere, NaN null.
func strictJSON(b []byte) []byte {
	if !bytes.Contains(b, []byte("Infinity")) && !bytes.Contains(b, []byte("NaN")) {
		return b
	}
	strict := map[string]string{"Infinity": `"inf"`, "-Infinity": `"-inf"`, "NaN": "null"}
	return pythonOnly.ReplaceAllFunc(b, func(found []byte) []byte {
		return []byte(cmp.Or(strict[string(found)], string(found)))
	})
}
