package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Knows reports whether a figure was told, by its name in JSON: "failed",
// "itl_ms.mean".
func (s *Summary) Knows(name string) bool { return !slices.Contains(s.Unknown, name) }

// MarshalJSON leaves out what is not known: a 0 would be taken for a figure.
func (s Summary) MarshalJSON() ([]byte, error) {
	type bare Summary
	text, err := json.Marshal(bare(s))
	if err != nil || len(s.Unknown) == 0 {
		return text, err
	}
	return withoutMembers(text, s.Unknown)
}

// withoutMembers is an object less some members, which are named with a point between
// a member and its own: "itl_ms.mean".
func withoutMembers(text []byte, names []string) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		name := fmt.Sprint(key)
		if slices.Contains(names, name) {
			continue
		}
		var within []string
		for _, n := range names {
			if rest, ok := strings.CutPrefix(n, name+"."); ok {
				within = append(within, rest)
			}
		}
		if within != nil && value[0] == '{' {
			if value, err = withoutMembers(value, within); err != nil {
				return nil, err
			}
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:%s", name, value) // the names are our own
	}
	return append(out, '}'), nil
}
