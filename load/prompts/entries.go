package prompts

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hclbench/load"
)

// What may be wrong with a file before it is no use: more bad entries than
// minBad, and than one in badShare.
const (
	minBad     = 10
	badShare   = 100
	badSamples = 5        // how many of them are named
	maxEntry   = 64 << 20 // bounds one entry of a file
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
	if check := kinds()[d.Kind].check; check != nil {
		return check(j)
	}
	return nil
}

// checkEntries looks at a file of entries as their parser does.
func checkEntries[T any](parse func(load.Workload, []byte) (T, error)) func(load.Job) error {
	return func(j load.Job) error {
		f, err := readEntries(j, soundFor(parse))
		if err != nil {
			return err
		}
		if len(f.found) == 0 {
			err = fmt.Errorf("data set file %s has no entry that can be used%s", filepath.Base(j.Workload.Dataset.Path),
				firstOf(f.source.BadLines))
		}
		return errors.Join(err, f.Close())
	}
}

var (
	errSkip   = errors.New("not used")     // says that an entry is sound, but not one to use
	errHeader = errors.New("not an entry") // says that a line names columns
	errImage  = errors.New("image")        // that what is wrong is an image: one is as bad as many
)

// entry is where one entry of a file lies: in several places, where it is rows of one session.
type entry []span

type span struct {
	at     int64
	length int
}

// entries are where the sound entries of a data set's file lie, which has been read through and is not kept.
type entries struct {
	*os.File
	sound    func(raw []byte) error
	found    []entry
	source   *load.Source
	seen     int
	grave    bool      // one bad entry is enough to give the file up
	skipped  int64     // bytes before the first entry's line
	sessions *sessions // that entries are requests of; nil: each stands alone
}

// readEntries reads through a file of JSON values, one to a line or all in an array,
// without keeping it, and returns where those lie that sound finds sound. It
// makes sure of the checksum, and counts and names bad entries.
func readEntries(j load.Job, sound func(w load.Workload, raw []byte) error) (*entries, error) {
	d := j.Workload.Dataset
	open, err := openFile(j, d.Path)
	if err != nil {
		return nil, err
	}
	f := &entries{File: open, sound: func(raw []byte) error { return sound(j.Workload, raw) }, source: &load.Source{}}
	if d.Kind == load.Conversation {
		f.sessions = newSessions()
	}
	sum := sha256.New()
	src := io.TeeReader(f, sum)
	scanned := f.scan(bufio.NewReaderSize(src, 1<<20))
	_, err = io.Copy(io.Discard, src) // the rest of a file that could not be read to its end
	f.source.SHA256 = hex.EncodeToString(sum.Sum(nil))
	// A file that is not the one meant need not be complained about otherwise.
	if other := sameSum(d.SHA256, f.source.SHA256); other != nil {
		err = other
	} else if err = errors.Join(scanned, err, f.join()); err == nil && (f.grave || f.source.Bad > max(minBad, f.seen/badShare)) {
		err = fmt.Errorf("%d of %d entries are bad: %s", f.source.Bad, f.seen, strings.Join(f.source.BadLines, "; "))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read data set file %s: %w", filepath.Base(d.Path), err), f.Close())
	}
	return f, nil
}

func openFile(j load.Job, path string) (*os.File, error) {
	f, err := os.Open(fileOf(j, path))
	if err != nil {
		return nil, fmt.Errorf("open data set file %s: %w", filepath.Base(path), errors.Unwrap(err))
	}
	return f, nil
}

// sameSum says when a file is not the one that is meant, by a checksum in hex; empty: any is.
func sameSum(want, is string) error {
	if want != "" && !strings.EqualFold(want, is) {
		return fmt.Errorf("its sha256 is %s, not %s", is, want)
	}
	return nil
}

// draw takes what parse makes of the entries of a job's file, in random order and until
// there is enough for its requests: for how many one is good, use says, 0: it is left
// out. Their tokens are counted by what count finds.
func draw[T, U any](ctx context.Context, job load.Job, total int, count func(context.Context, load.Job) (tokens, error),
	parse func(load.Workload, []byte) (T, error), use func(tokens, T) (_ U, requests int, err error),
) ([]U, *load.Source, error) {
	f, err := readEntries(job, soundFor(parse))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	t, err := count(ctx, job)
	if err != nil {
		return nil, nil, err
	}
	if f.source.Tokenizer = "none"; t != nil {
		f.source.Tokenizer = t.name()
	}
	left := wanted(total, job.Workload)
	var all []U
	for _, k := range Random(Seed(job), forOrder, 0).Perm(len(f.found)) {
		raw, err := f.read(f.found[k])
		var parsed T
		if err == nil {
			parsed, err = parse(job.Workload, raw)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the data set file again: %w", err)
		}
		one, requests, err := use(t, parsed)
		if err != nil {
			return nil, nil, err
		}
		if requests == 0 {
			f.source.LeftOut++
			continue
		}
		all = append(all, one)
		if total == 0 { // nobody knows how many turns there will be
			requests = 1
		}
		if left -= requests; left <= 0 {
			break
		}
	}
	return all, f.source, nil
}

// wanted is how many prompts a run and its warm-up need.
func wanted(total int, w load.Workload) int {
	if total == 0 {
		return enough
	}
	return total + w.Warmup
}

// read reads an entry again.
func (f *entries) read(e entry) (raw []byte, err error) {
	for _, s := range e {
		part := make([]byte, s.length)
		if _, err := f.ReadAt(part, s.at); err != nil {
			return nil, err
		}
		raw = append(append(raw, part...), '\n')
	}
	return raw[:len(raw)-1], nil
}

// add looks at an entry, and keeps where it lies if it is sound.
func (f *entries) add(what string, number int, at int64, raw []byte) {
	err := f.sound(raw)
	if errors.Is(err, errHeader) {
		return
	}
	f.seen++
	switch {
	case err == nil:
		f.keep(span{at, len(raw)}, raw)
		return
	case errors.Is(err, errSkip):
		f.source.LeftOut++
	default:
		f.grave = f.grave || errors.Is(err, errImage)
		f.bad("%s %d: %v", what, number, err)
	}
	if f.sessions != nil {
		f.sessions.broken[sessionOf(raw)] = true
	}
}

// keep notes where a sound entry lies: behind those of its session.
func (f *entries) keep(s span, raw []byte) {
	if f.sessions != nil {
		if i, begun := f.sessions.place(raw, len(f.found)); begun {
			f.found[i] = append(f.found[i], s)
			return
		}
	}
	f.found = append(f.found, entry{s})
}

// bad counts an entry that is no use, and says why of the first few.
func (f *entries) bad(format string, args ...any) {
	f.source.Bad++
	if len(f.source.BadLines) < badSamples {
		f.source.BadLines = append(f.source.BadLines, fmt.Sprintf(format, args...))
	}
}

// join looks at sessions of several entries once more, each of which is sound by itself. One that lacks a request
// would be another session, and is left out.
func (f *entries) join() error {
	if f.sessions == nil {
		return nil
	}
	if err := f.sessions.check(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(f.sessions.places)) {
		e := &f.found[f.sessions.places[name]]
		if f.sessions.broken[name] {
			f.source.LeftOut += len(*e)
			*e = nil
		}
		if len(*e) <= 1 {
			continue
		}
		raw, err := f.read(*e)
		if err != nil {
			return err
		}
		if err := f.sound(raw); err != nil {
			f.bad("session %q: %v", name, err)
			*e = nil
		}
	}
	f.found = slices.DeleteFunc(f.found, func(e entry) bool { return e == nil })
	return nil
}

func (f *entries) scan(r *bufio.Reader) error {
	const mark = "\uFEFF" // with which Windows' editors begin a text
	if b, _ := r.Peek(len(mark)); string(b) == mark {
		f.skipped = int64(len(mark))
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
			return f.array(json.NewDecoder(r))
		case '{':
			if b, _ = r.Peek(r.Size()); f.sessions != nil {
				switch formOfTalks(b) {
				case "conversations":
					return f.object(json.NewDecoder(r))
				case "filetype":
					return fmt.Errorf("it describes how vLLM makes conversations, and has none: use a data set of kind %q",
						load.RandomConversation)
				}
			}
		}
		return f.lines(r)
	}
}

// object reads the conversations of one of SGLang's agentic traces.
func (f *entries) object(d *json.Decoder) error {
	d.Token()
	for d.More() {
		if key, err := d.Token(); err != nil || key == "conversations" {
			return errors.Join(err, f.array(d))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

func (f *entries) array(d *json.Decoder) error {
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
		f.add("entry", n, f.skipped+d.InputOffset()-int64(len(raw)), raw)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("after %d entries: %w", f.seen, err)
	}
	return nil
}

func (f *entries) lines(r io.Reader) error {
	at, n := f.skipped, 1
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxEntry)
	lines.Split(func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i+1], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for ; lines.Scan(); n++ {
		line := lines.Bytes()
		if text := bytes.TrimSpace(line); len(text) > 0 {
			f.add("line", n, at+int64(bytes.Index(line, text)), text)
		}
		at += int64(len(line))
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d MiB", n, maxEntry>>20)
	}
	return lines.Err()
}

// plainError is what is wrong with a JSON value, without Go's words for it.
func plainError(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%q cannot be a %s", kind.Field, kind.Value)
	}
	return err
}
