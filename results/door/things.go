package door

import (
	"encoding/json"
	"fmt"
	"io"

	"hclbench/plain"
)

// Things reads JSON, one thing after the other, so that it takes no more memory than
// the largest, which may be so large and not larger.
type Things struct {
	*json.Decoder
	leash   Leash
	largest int64
}

// NewThings reads JSON of which no thing is larger than so many bytes.
func NewThings(r io.Reader, largest int64) *Things {
	d := &Things{leash: Leash{Reader: r}, largest: largest}
	d.Decoder = json.NewDecoder(&d.leash)
	return d
}

func (d *Things) token() (json.Token, error) {
	d.leash.Left = d.largest
	return d.Token()
}

func (d *Things) expect(want json.Delim) error {
	t, err := d.token()
	if err == nil && t != want {
		err = fmt.Errorf("there is %.40v in place of %v", t, want)
	}
	return err
}

// Next reads the next thing, with its texts made printable.
func (d *Things) Next(v any) error {
	d.leash.Left = d.largest
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	return json.Unmarshal(plain.JSON(raw), v)
}

// maxMembers bounds the members of an object.
const maxMembers = 100

// Members reads an object, whose members may be there once each; do reads what a
// member holds.
func (d *Things) Members(do func(name string) error) error {
	if err := d.expect('{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		if seen[name] || len(seen) > maxMembers {
			return fmt.Errorf("it has %q twice, or too many members", plain.Cut(name, 40))
		}
		seen[name] = true
		if err := do(name); err != nil {
			return err
		}
	}
	return d.expect('}')
}

// Each reads a list; there may be null in its place.
func Each[T any](d *Things, do func(*T) error) error {
	t, err := d.token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("there is %.40v in place of a list", t)
	}
	for d.More() {
		var x T
		if err := d.Next(&x); err != nil {
			return err
		}
		if err := do(&x); err != nil {
			return err
		}
	}
	return d.expect(']')
}
