package results

import (
	"archive/tar"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/gofrs/flock"
	"github.com/klauspost/compress/zstd"

	"hclbench/load"
	"hclbench/plain"
)

// Incoming is a bundle that was read to its end, looked at, and laid down in a folder
// beside the store, which knows nothing of it yet. It is of no use to two goroutines
// at once.
type Incoming struct {
	store   *Store
	dir     string
	held    *flock.Flock
	limits  limits
	run     Run
	cells   map[string]bool // by id
	records map[string]laidDown
	inputs  []input
	files   int
}

// laidDown is a file of the folder with the records of a cell.
type laidDown struct {
	file string
	mark recordsMark
}

// input is a file of the folder with an input of the run.
type input struct{ name, file string }

// The folder's name begins so; while it is in use, somebody holds its lock. It says
// of which run it is once files of it may be among the store's.
const (
	incomingPrefix = "import-"
	incomingLock   = "lock"
	incomingRun    = "run"
)

// ReceiveBundle reads a bundle to its end and looks at all of it, before anything of
// it is kept. Close it in any case.
func (s *Store) ReceiveBundle(ctx context.Context, r io.Reader) (*Incoming, error) {
	return s.receive(ctx, r, doorLimits())
}

func (s *Store) receive(ctx context.Context, r io.Reader, l limits) (_ *Incoming, err error) {
	in := &Incoming{store: s, limits: l, cells: map[string]bool{}, records: map[string]laidDown{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("read bundle: %w", err), in.Close())
		}
	}()
	if err := in.open(ctx); err != nil {
		return nil, err
	}
	if err := in.unpack(ctx, r); err != nil {
		return nil, err
	}
	if err := in.look(); err != nil {
		return nil, fmt.Errorf("%s: %w", bundleIndex, err)
	}
	return in, nil
}

// open makes the folder.
func (in *Incoming) open(ctx context.Context) error {
	if err := os.MkdirAll(in.store.dir, 0o755); err != nil {
		return err
	}
	done, err := in.store.alone(ctx)
	if err != nil {
		return err
	}
	defer done()
	if in.dir, err = os.MkdirTemp(in.store.dir, incomingPrefix); err != nil {
		return err
	}
	in.held = flock.New(filepath.Join(in.dir, incomingLock))
	return in.held.Lock()
}

// Close removes what is laid down.
func (in *Incoming) Close() error {
	if in.dir == "" {
		return nil
	}
	err := os.RemoveAll(in.dir)
	if in.held != nil {
		err = errors.Join(err, in.held.Close())
	}
	if in.store.Shared() {
		os.Remove(in.store.dir) // where it was made for this alone
	}
	return err
}

// Run is the run of the bundle.
func (in *Incoming) Run() Run { return in.run }

// Cells is how many it has.
func (in *Incoming) Cells() int { return len(in.cells) }

// next is a name in the folder that no file has yet.
func (in *Incoming) next() string {
	in.files++
	return filepath.Join(in.dir, strconv.Itoa(in.files))
}

func (in *Incoming) index() string { return filepath.Join(in.dir, bundleIndex) }

// unpack lays down every file of a bundle.
func (in *Incoming) unpack(ctx context.Context, r io.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	seen := map[string]bool{}
	for files := tar.NewReader(&leash{z, in.limits.total}); ; {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		switch {
		case h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || plain.Line(name) != name || len(name) > maxName:
			return fmt.Errorf("%q is not the name of a plain file", plain.Cut(h.Name, 80))
		case seen[name]:
			return fmt.Errorf("%q is in it twice", name)
		case len(seen) == in.limits.things:
			return fmt.Errorf("it has more than %d files", in.limits.things)
		}
		seen[name] = true
		if err := in.layDown(ctx, name, files); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !seen[bundleIndex] {
		return fmt.Errorf("there is no %s in it", bundleIndex)
	}
	return nil
}

// maxWindow bounds what zstd needs to unpack, whatever a file says of itself.
const maxWindow = 128 << 20

// layDown writes one file of the bundle into the folder; what is there for people
// only is left.
func (in *Incoming) layDown(ctx context.Context, name string, r io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if name == bundleIndex {
		return writeFile(in.index(), &leash{r, in.limits.index})
	}
	if id, ok := strings.CutPrefix(name, bundleRecords); ok {
		return in.layDownRecords(ctx, strings.TrimSuffix(id, recordsSuffix), r)
	}
	as, ok := strings.CutPrefix(name, bundleInputs)
	if !ok && !strings.HasPrefix(name, bundleLogs) {
		return nil
	}
	text, err := io.ReadAll(&leash{r, in.limits.file})
	if err != nil {
		return err
	}
	if path.Ext(as) == ".json" {
		text = printableJSON(text)
	} else {
		text = []byte(plain.Text(string(text)))
	}
	in.inputs = append(in.inputs, input{as, in.next()})
	return writeFile(in.inputs[len(in.inputs)-1].file, bytes.NewReader(text))
}

// layDownRecords reads the records of a cell, each for itself, and writes them as
// this program writes its own.
func (in *Incoming) layDownRecords(ctx context.Context, id string, r io.Reader) (err error) {
	file := in.next()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := newRecordsWriter(f)
	if err != nil {
		return err
	}
	memory := in.limits.records
	err = foreignRecords(r, in.limits.element, func(r *load.Record) error {
		if memory -= footprint(r); memory < 0 {
			return errTooLarge
		}
		return errors.Join(ctx.Err(), acceptRecord(r), w.write(r))
	})
	mark, closing := w.close()
	if err = errors.Join(err, closing); err != nil {
		return err
	}
	if mark.count == 0 {
		return errors.New("there is no record in it")
	}
	in.records[id] = laidDown{file, mark}
	return f.Sync()
}

func writeFile(file string, r io.Reader) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// look reads bundle.json through, so that nothing of it can fail later.
func (in *Incoming) look() error {
	deployments, recorded, events := map[string]bool{}, map[string]bool{}, 0
	room := func(n int) error {
		if n >= in.limits.things {
			return fmt.Errorf("it has more than %d of one kind", in.limits.things)
		}
		return nil
	}
	err := in.each(visitor{
		run: func(r Run) error { in.run = r; return nil },
		deployment: func(d Deployment) error {
			if deployments[d.ID] {
				return fmt.Errorf("it has deployment %s twice", d.ID)
			}
			deployments[d.ID] = true
			return room(len(deployments))
		},
		cell: func(c Cell) error {
			if in.cells[c.ID] {
				return fmt.Errorf("it has cell %s twice", c.ID)
			}
			in.cells[c.ID] = true
			return room(len(in.cells))
		},
		recorded: func(id string) error {
			if !isThingID(id) || recorded[id] {
				return fmt.Errorf("it says of %q that it has records, or says it twice", plain.Cut(id, 40))
			}
			recorded[id] = true
			return room(len(recorded))
		},
		event: func(Event) error { events++; return room(events) },
	})
	if err != nil {
		return err
	}
	for id := range recorded {
		if _, there := in.records[id]; !there || !in.cells[id] {
			return fmt.Errorf("the records of cell %s, or the cell, are missing", id)
		}
	}
	for id := range in.records {
		if !recorded[id] {
			return fmt.Errorf("there are records of %q, which is no cell with any", plain.Cut(id, 40))
		}
	}
	return nil
}

// visitor is told what bundle.json holds.
type visitor struct {
	run        func(Run) error
	deployment func(Deployment) error
	cell       func(Cell) error
	recorded   func(id string) error
	event      func(Event) error
}

// each reads bundle.json, one thing after the other, so that it takes no more memory
// than the largest.
func (in *Incoming) each(v visitor) error {
	f, err := os.Open(in.index())
	if err != nil {
		return err
	}
	defer f.Close()
	d := newThingReader(f, in.limits.element)
	if err := d.expect(json.Delim('{')); err != nil {
		return err
	}
	version, run, seen := 0, "", map[string]bool{}
	for d.More() {
		key, err := d.member(seen)
		if err != nil {
			return err
		}
		switch key {
		case "bundle_version":
			err = d.thing(&version)
			if err == nil && version != bundleVersion {
				err = fmt.Errorf("it has version %d of the format, this hcl knows %d", version, bundleVersion)
			}
		case "run":
			var r Run
			if err = d.thing(&r); err == nil {
				err = after(r.accept(), func() error { return v.run(r) })
			}
			run = r.ID
		case "deployments":
			err = eachThing(d, func(x *Deployment) error { return after(x.accept(run), func() error { return v.deployment(*x) }) })
		case "cells":
			err = eachThing(d, func(x *Cell) error { return after(x.accept(run), func() error { return v.cell(*x) }) })
		case "recorded":
			err = eachThing(d, func(id *string) error { return v.recorded(*id) })
		case "events":
			err = eachThing(d, func(x *Event) error { return after(x.accept(), func() error { return v.event(*x) }) })
		default:
			err = d.thing(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	if err := d.expect(json.Delim('}')); err != nil {
		return err
	}
	if version == 0 || run == "" {
		return errors.New("it names no version or no run")
	}
	return nil
}

// after does something unless there is an error already.
func after(err error, do func() error) error {
	if err != nil {
		return err
	}
	return do()
}

// thingReader reads JSON of which no thing may be larger than the limit.
type thingReader struct {
	*json.Decoder
	leash leash
	limit int64
}

func newThingReader(r io.Reader, limit int64) *thingReader {
	d := &thingReader{leash: leash{r: r}, limit: limit}
	d.Decoder = json.NewDecoder(&d.leash)
	return d
}

func (d *thingReader) token() (json.Token, error) {
	d.leash.left = d.limit
	return d.Token()
}

func (d *thingReader) expect(want json.Delim) error {
	t, err := d.token()
	if err == nil && t != want {
		err = fmt.Errorf("there is %.40v in place of %v", t, want)
	}
	return err
}

// member reads the name of the next member, which there may be once.
func (d *thingReader) member(seen map[string]bool) (string, error) {
	t, err := d.token()
	if err != nil {
		return "", err
	}
	key, _ := t.(string)
	if seen[key] || len(seen) > 100 {
		return "", fmt.Errorf("it has %q twice, or too many members", plain.Cut(key, 40))
	}
	seen[key] = true
	return key, nil
}

// thing reads the next thing, with its texts made printable.
func (d *thingReader) thing(v any) error {
	d.leash.left = d.limit
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	return json.Unmarshal(printableJSON(raw), v)
}

// eachThing reads a list; there may be null in its place.
func eachThing[T any](d *thingReader, do func(*T) error) error {
	t, err := d.token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return fmt.Errorf("there is %.40v in place of a list", t)
	}
	for d.More() {
		var x T
		if err := d.thing(&x); err != nil {
			return err
		}
		if err := do(&x); err != nil {
			return err
		}
	}
	return d.expect(']')
}

// foreignRecords reads records that others have written, one after the other.
func foreignRecords(r io.Reader, limit int64, do func(*load.Record) error) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	for d := newThingReader(z, limit); ; {
		var x load.Record
		switch err := d.thing(&x); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := do(&x); err != nil {
			return err
		}
	}
}

// footprint is about how much memory a record takes.
func footprint(r *load.Record) int64 {
	return int64(unsafe.Sizeof(*r)) + 8*int64(len(r.Gaps)) + int64(len(r.Error)+len(r.Finish)+len(r.Class))
}

// Keep puts the run into the store, whole or not at all. It stands apart from what
// was measured here: only a query for this run finds it, and no plan takes its cells
// for done. The same run from an earlier bundle makes room; one that was measured here
// is not touched.
func (in *Incoming) Keep(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("import run %s: %w", in.run.ID, err)
		}
	}()
	s := in.store
	done, err := s.alone(ctx)
	if err != nil {
		return err
	}
	defer done()
	var bundled bool
	switch err := s.db.get(ctx, `SELECT bundled FROM runs WHERE id = ?`, []any{in.run.ID}, &bundled); {
	case err == nil && !bundled:
		return errors.New("it was measured here")
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	}
	var before, moved []string
	if !s.Shared() {
		if before, err = s.recordsFiles(ctx, in.run.ID); err != nil {
			return err
		}
		moved, err = in.move()
	}
	if err == nil {
		err = s.db.change(ctx, func(tx statements) error { return in.put(ctx, tx) })
	}

	// An error does not always mean that the rows are not there: ctx may have ended
	// just after the commit. So they are asked which files may go.
	now, lookErr := s.recordsFiles(context.WithoutCancel(ctx), in.run.ID)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	for _, name := range slices.Concat(before, moved) {
		if !slices.Contains(now, name) {
			os.Remove(filepath.Join(s.recordsDir(), name)) // else it is litter, which hurts nobody
		}
	}
	return err
}

// move makes the records files of the store; the names of those that are there
// already are returned with an error, too.
func (in *Incoming) move() (moved []string, err error) {
	if err := writeFile(filepath.Join(in.dir, incomingRun), strings.NewReader(in.run.ID)); err != nil {
		return nil, err
	}
	dir := in.store.recordsDir()
	for id, r := range in.records {
		name := newRecordsFile(dir, in.run.ID, id)
		if err := os.Rename(r.file, filepath.Join(dir, name)); err != nil {
			return moved, err
		}
		moved = append(moved, name)
		r.file = filepath.Join(dir, name)
		in.records[id] = r
	}
	return moved, syncDir(dir)
}

// put stores every row. It can be done twice.
func (in *Incoming) put(ctx context.Context, tx statements) error {
	if err := forget(ctx, tx, in.run.ID); err != nil {
		return err
	}
	bundled := in.run
	bundled.Bundled = true
	if err := putRun(ctx, tx, bundled); err != nil {
		return err
	}
	err := in.each(visitor{
		run:        func(Run) error { return nil },
		deployment: func(d Deployment) error { return putDeployment(ctx, tx, d) },
		cell:       func(c Cell) error { return in.putCell(ctx, tx, c) },
		recorded:   func(string) error { return nil },
		event:      func(e Event) error { return putEvent(ctx, tx, in.run.ID, e) },
	})
	if err != nil {
		return err
	}
	for _, i := range in.inputs {
		content, err := os.ReadFile(i.file)
		if err == nil {
			err = putInput(ctx, tx, in.run.ID, i.name, content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *Incoming) putCell(ctx context.Context, tx statements, c Cell) error {
	r, recorded := in.records[c.ID]
	if !recorded {
		return putCell(ctx, tx, c, "", recordsMark{})
	}
	if !in.store.Shared() {
		return putCell(ctx, tx, c, filepath.Base(r.file), r.mark)
	}
	if err := putCell(ctx, tx, c, sharedRecords, r.mark); err != nil {
		return err
	}
	f, err := os.Open(r.file)
	if err != nil {
		return err
	}
	defer f.Close()
	parts := newPartWriter(ctx, tx, c.RunID, c.ID)
	_, err = io.Copy(parts, f)
	return errors.Join(err, parts.Flush())
}

// ImportBundle receives a bundle and keeps it.
func (s *Store) ImportBundle(ctx context.Context, r io.Reader) (Run, error) {
	in, err := s.ReceiveBundle(ctx, r)
	if err != nil {
		return Run{}, err
	}
	err = in.Keep(ctx)
	return in.run, errors.Join(err, in.Close())
}
