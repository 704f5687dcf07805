package prompts

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hclbench/load"
)

// What may be wrong with a file before it is no use: more bad entries than
// minBad, and than one in badShare.
const (
	minBad   = 10
	badShare = 100
	// badSamples is how many of them are named.
	badSamples = 5
	// maxEntry bounds one entry of a file.
	maxEntry = 64 << 20
)

// CheckInputs reads the files of the job's data set as a run does, but for counting
// tokens, and says what makes them no use: here that takes seconds, and a run finds it
// only when the engine is up.
func CheckInputs(j load.Job) error {
	d := j.Workload.Dataset
	if d.Tokenizer != "" {
		if _, err := loadTokens(j, d.Tokenizer); err != nil {
			return err
		}
	}
	if d.Kind == load.Text {
		text, _, err := readCorpus(fileOf(j, d.Path))
		if err == nil && len(text) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			return fmt.Errorf("read the text of data set %s: %w", filepath.Base(d.Path), err)
		}
	}
	sound := sound(j.Workload)
	if sound == nil {
		return nil
	}
	f, err := entries(j, sound)
	if err != nil {
		return err
	}
	if len(f.found) == 0 {
		err = fmt.Errorf("data set file %s has no entry that can be used%s", filepath.Base(d.Path),
			firstOf(f.source.BadLines))
	}
	return errors.Join(err, f.Close())
}

// sound says what is wrong with an entry of the data set's file; nil for a data set
// whose file has no entries, or that has none.
func sound(w load.Workload) func(raw []byte) error {
	k := kinds()[w.Dataset.Kind]
	if k.sound == nil {
		return nil
	}
	return func(raw []byte) error { return k.sound(w, raw) }
}

// errSkip says that an entry is sound, but not one to use.
var errSkip = errors.New("not used")

// entry is where one entry of a file lies.
type entry struct {
	at     int64
	length int
}

// file is a data set's file whose entries have been looked at, and not kept.
type file struct {
	*os.File
	found  []entry
	source *load.Source
}

// entries reads through a file of JSON values, one to a line or all in an array,
// without keeping it, and returns where those lie that sound finds sound. It
// makes sure of the checksum, and counts and names bad entries.
func entries(j load.Job, sound func(raw []byte) error) (file, error) {
	d := j.Workload.Dataset
	f, err := openFile(j, d.Path)
	if err != nil {
		return file{}, err
	}
	c := collector{sound: sound, source: &load.Source{}}
	sum := sha256.New()
	src := io.TeeReader(f, sum)
	scanned := c.scan(bufio.NewReaderSize(src, 1<<20))
	if _, err := io.Copy(io.Discard, src); err != nil { // the rest of a file that could not be read to its end
		scanned = errors.Join(scanned, err)
	}
	c.source.SHA256 = hex.EncodeToString(sum.Sum(nil))
	// A file that is not the one meant need not be complained about otherwise.
	err = scanned
	if d.SHA256 != "" && !strings.EqualFold(d.SHA256, c.source.SHA256) {
		err = fmt.Errorf("its sha256 is %s, not %s", c.source.SHA256, d.SHA256)
	} else if err == nil {
		err = c.tooBad()
	}
	if err != nil {
		return file{}, errors.Join(fmt.Errorf("read data set file %s: %w", filepath.Base(d.Path), err), f.Close())
	}
	return file{f, c.found, c.source}, nil
}

// shuffled hands over the entries in random order, until there are enough.
func (f file) shuffled(seed uint64, take func(raw []byte) (enough bool, err error)) error {
	for _, k := range Random(seed, forOrder, 0).Perm(len(f.found)) {
		raw := make([]byte, f.found[k].length)
		if _, err := f.ReadAt(raw, f.found[k].at); err != nil {
			return fmt.Errorf("read the data set file again: %w", err)
		}
		if enough, err := take(raw); enough || err != nil {
			return err
		}
	}
	return nil
}

// collector goes through the entries of a file.
type collector struct {
	sound  func(raw []byte) error
	found  []entry
	source *load.Source
	seen   int

	skipped int64 // bytes before the first entry's line
}

func (c *collector) entry(what string, number int, at int64, raw []byte) {
	c.seen++
	err := c.sound(raw)
	switch {
	case err == nil:
		c.found = append(c.found, entry{at, len(raw)})
	case errors.Is(err, errSkip):
		c.source.LeftOut++
	default:
		c.source.Bad++
		if len(c.source.BadLines) < badSamples {
			c.source.BadLines = append(c.source.BadLines, fmt.Sprintf("%s %d: %v", what, number, err))
		}
	}
}

func (c *collector) tooBad() error {
	if c.source.Bad > max(minBad, c.seen/badShare) {
		return fmt.Errorf("%d of %d entries are bad: %s", c.source.Bad, c.seen, strings.Join(c.source.BadLines, "; "))
	}
	return nil
}

func (c *collector) scan(r *bufio.Reader) error {
	const mark = "\uFEFF" // with which Windows' editors begin a text
	if b, _ := r.Peek(len(mark)); string(b) == mark {
		c.skipped = int64(len(mark))
		r.Discard(len(mark))
	}
	for n := 1; ; n++ {
		b, err := r.Peek(n)
		if err != nil {
			return nil // nothing but space
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n':
			if n < r.Size() {
				continue
			}
		case '[':
			return c.array(r)
		}
		return c.lines(r)
	}
}

func (c *collector) array(r io.Reader) error {
	d := json.NewDecoder(r)
	if _, err := d.Token(); err != nil {
		return err
	}
	for n := 1; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("entry %d: %w", n, err)
		}
		if len(raw) > maxEntry {
			return fmt.Errorf("entry %d is longer than %d MiB", n, maxEntry>>20)
		}
		c.entry("entry", n, c.skipped+d.InputOffset()-int64(len(raw)), raw)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("after %d entries: %w", c.seen, err)
	}
	return nil
}

func (c *collector) lines(r *bufio.Reader) error {
	at := c.skipped
	var long []byte
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		for err == bufio.ErrBufferFull {
			long = append(long, line...)
			if len(long) > maxEntry {
				return fmt.Errorf("line %d is longer than %d MiB", n, maxEntry>>20)
			}
			line, err = r.ReadSlice('\n')
		}
		if len(long) > 0 {
			line = append(long, line...)
			long = line[:0]
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			c.entry("line", n, at+int64(bytes.Index(line, text)), text)
		}
		at += int64(len(line))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// plainError is what is wrong with a JSON value, without Go's words for it.
func plainError(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%q is a %s, which it cannot be", kind.Field, kind.Value)
	}
	return err
}
