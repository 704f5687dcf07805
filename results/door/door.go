// Package door is where what others have written comes in, and nowhere else: bundles,
// and files of other tools. Ids have the form in which they are made, words that mean
// something are among those that are known, numbers are such as can be counted or
// measured, texts can be shown on any terminal, and nothing is larger than there is
// room for.
package door

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
)

// ErrTooLarge says that something is larger than the door lets in.
var ErrTooLarge = errors.New("it is larger than anything that hcl writes")

// Leash is a reader that ends in ErrTooLarge when more than Left bytes come.
type Leash struct {
	io.Reader
	Left int64
}

// Read implements [io.Reader].
func (l *Leash) Read(b []byte) (int, error) {
	if int64(len(b)) > l.Left+1 {
		b = b[:max(l.Left+1, 0)]
	}
	n, err := l.Reader.Read(b)
	if l.Left -= int64(n); l.Left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// Open opens a plain file, and nothing that may never come to its end or cannot be read twice.
func Open(name string) (*os.File, error) {
	switch info, err := os.Stat(name); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no plain file: write what it gives into one", name)
	}
	return os.Open(name)
}

// maxFile bounds a file that is read whole.
const maxFile = 1 << 30

// File reads a file whole.
func File(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(&Leash{r, maxFile})
	if errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("longer than %d MiB", maxFile>>20)
	}
	return text, err
}

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

// IsThingID knows the hashes of cells and deployments.
func IsThingID(id string) bool { return thingID.MatchString(id) }

var thingID = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// MaxName bounds what stands on one line: names, images, models.
const MaxName = 4 << 10

// Lines makes texts fit to stand in a table.
func Lines(texts ...*string) error {
	for _, s := range texts {
		if *s = plain.Line(*s); len(*s) > MaxName {
			return fmt.Errorf("a name has %d bytes: %s", len(*s), plain.Cut(*s, 40))
		}
	}
	return nil
}

// oneOf refuses a word that is none of those that mean something.
func oneOf(what, word string, words ...string) error {
	if !slices.Contains(words, word) {
		return fmt.Errorf("its %s is %q, which is not one of %s", what, plain.Cut(word, 40), strings.Join(words, ", "))
	}
	return nil
}

// dated refuses times that a store cannot keep.
func dated(times ...time.Time) error {
	for _, t := range times {
		if y := t.UTC().Year(); y < 1 || y > 9999 {
			return fmt.Errorf("one of its times is in the year %d", y)
		}
	}
	return nil
}

// counted refuses numbers that nothing can be counted or measured by.
func counted[T int | int64 | float64 | time.Duration](what string, numbers ...T) error {
	for _, n := range numbers {
		if !(n >= 0) || float64(n) > 1<<62 {
			return fmt.Errorf("its %s cannot be %v", what, n)
		}
	}
	return nil
}
