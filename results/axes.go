package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Axis is one coordinate of a cell. Value is an int64, a float64, a bool or a
// string.
type Axis struct {
	Name  string
	Value any
}

// Axes are a cell's coordinates in the order in which the lab declares them.
// Their JSON form is an object in that order. A float64 always has a point or an
// exponent there, so that what is read back has the type that was written.
type Axes []Axis

// MarshalJSON writes an object whose members keep the order of the axes.
func (a Axes) MarshalJSON() ([]byte, error) {
	members := make([]string, len(a))
	for i, x := range a {
		name, _ := json.Marshal(x.Name) // which has a form for any text
		value, err := json.Marshal(x.Value)
		if err != nil {
			return nil, fmt.Errorf("axis %s: %w", x.Name, err)
		}
		if _, ok := x.Value.(float64); ok && !bytes.ContainsAny(value, ".eE") {
			value = append(value, ".0"...)
		}
		members[i] = string(name) + ":" + string(value)
	}
	return []byte("{" + strings.Join(members, ",") + "}"), nil
}

// UnmarshalJSON reads what MarshalJSON writes. An object or a list as a value is
// an error.
func (a *Axes) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*a = nil
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("axes are not a JSON object: %.60s", text)
	}
	axes := Axes{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		value, err := dec.Token()
		if err != nil {
			return err
		}
		switch v := value.(type) {
		case json.Delim:
			return fmt.Errorf("axis %s: a list or an object is not a coordinate", name)
		case json.Number:
			if value, err = number(v); err != nil {
				return fmt.Errorf("axis %s: %w", name, err)
			}
		}
		axes = append(axes, Axis{Name: name.(string), Value: value}) // a member's name is text, or Token had failed
	}
	*a = axes
	return nil
}

func number(n json.Number) (any, error) {
	if strings.ContainsAny(n.String(), ".eE") {
		return n.Float64()
	}
	return n.Int64()
}

// Value returns the value of the axis with that name, and whether there is one.
func (a Axes) Value(name string) (any, bool) {
	for _, x := range a {
		if x.Name == name {
			return x.Value, true
		}
	}
	return nil, false
}
