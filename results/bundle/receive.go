package bundle

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/klauspost/compress/zstd"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
	"hclbench/results/door"
)

// limits bound what is taken from a bundle.
type limits struct {
	total   int64 // bytes of all that is in it, unpacked
	file    int64 // bytes of one of its inputs
	index   int64 // bytes of bundle.json
	element int64 // bytes of one thing in bundle.json, or of one record
	things  int   // files, and things of one kind in bundle.json
	records int64 // bytes of memory that the records of one cell take
}

// farAbove is what no run has by far.
func farAbove() limits {
	return limits{total: 64 << 30, file: 256 << 20, index: 4 << 30, element: 64 << 20, things: 1 << 20, records: 2 << 30}
}

// maxWindow bounds what zstd needs to unpack, whatever a file says of itself.
const maxWindow = 128 << 20

func unzstd(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
}

// Incoming is a bundle that was read to its end, looked at, and laid down beside the
// store, which knows nothing of it yet. It is of no use to two goroutines at once.
type Incoming struct {
	stage  *results.Stage
	limits limits
	index  string // the file with bundle.json
	run    results.Run
	cells  map[string]bool           // by id
	inputs map[string]string         // laid down files with inputs of the run, by name
	scores map[string]accuracy.Score // of the answers that are laid down, by cell
}

// Receive reads a bundle to its end and looks at all of it, before anything of it is
// kept. Close it in any case.
func Receive(ctx context.Context, r io.Reader, store *results.Store) (*Incoming, error) {
	return receive(ctx, r, store, farAbove())
}

func receive(ctx context.Context, r io.Reader, store *results.Store, l limits) (*Incoming, error) {
	stage, err := store.Stage(ctx)
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	in := &Incoming{stage: stage, limits: l, inputs: map[string]string{}, scores: map[string]accuracy.Score{}}
	if err = in.unpack(ctx, r); err == nil {
		if err = in.look(); err != nil {
			err = fmt.Errorf("%s: %w", indexName, err)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read bundle: %w", err), in.Close())
	}
	return in, nil
}

// Close removes what is laid down.
func (in *Incoming) Close() error { return in.stage.Close() }

// Run is the run of the bundle.
func (in *Incoming) Run() results.Run { return in.run }

// Cells is how many it has.
func (in *Incoming) Cells() int { return len(in.cells) }

// unpack lays down every file of a bundle.
func (in *Incoming) unpack(ctx context.Context, r io.Reader) error {
	z, err := unzstd(r)
	if err != nil {
		return err
	}
	defer z.Close()
	seen := map[string]bool{}
	for files := tar.NewReader(&door.Leash{Reader: z, Left: in.limits.total}); ; {
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
		case h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || plain.Line(name) != name || len(name) > door.MaxName:
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
	if in.index == "" {
		return fmt.Errorf("there is no %s in it", indexName)
	}
	return nil
}

// layDown writes one file of the bundle into the stage; what is there for people only
// is left.
func (in *Incoming) layDown(ctx context.Context, name string, r io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if name == indexName {
		f, err := os.Create(in.stage.File())
		if err != nil {
			return err
		}
		in.index = f.Name()
		_, err = io.Copy(f, &door.Leash{Reader: r, Left: in.limits.index})
		return errors.Join(err, f.Close())
	}
	if id, ok := strings.CutPrefix(name, recordsDir); ok {
		return in.layDownRecords(ctx, strings.TrimSuffix(id, results.RecordsSuffix), r)
	}
	if id, ok := strings.CutPrefix(name, answersDir); ok {
		return in.layDownAnswers(ctx, strings.TrimSuffix(id, results.RecordsSuffix), r)
	}
	as, ok := strings.CutPrefix(name, inputsDir)
	if !ok && !strings.HasPrefix(name, logsDir) {
		return nil
	}
	text, err := io.ReadAll(&door.Leash{Reader: r, Left: in.limits.file})
	if err != nil {
		return err
	}
	if path.Ext(as) == ".json" {
		text = plain.JSON(text)
		if strings.HasPrefix(as, results.LedgerInputs) {
			if err := ledger(text); err != nil {
				return err
			}
		}
	} else {
		text = []byte(plain.Text(string(text)))
	}
	in.inputs[as] = in.stage.File()
	return os.WriteFile(in.inputs[as], text, 0o644)
}

// ledger refuses what is not the ledger of a tuning.
func ledger(text []byte) error {
	var l results.Ledger
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	return door.Ledger(&l)
}

// layDownRecords reads the records of a cell, each for itself, and lays them down as
// this program writes its own.
func (in *Incoming) layDownRecords(ctx context.Context, id string, r io.Reader) error {
	z, err := unzstd(r)
	if err != nil {
		return err
	}
	defer z.Close()
	err = in.stage.Records(id, func(put func(*load.Record) error) error {
		memory := in.limits.records
		for d := door.NewThings(z, in.limits.element); ; {
			var x load.Record
			switch err := d.Next(&x); {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			}
			if memory -= footprint(&x); memory < 0 {
				return door.ErrTooLarge
			}
			if err := errors.Join(ctx.Err(), door.Record(&x), put(&x)); err != nil {
				return err
			}
		}
	})
	if err == nil && in.stage.Recorded()[id] == 0 {
		err = errors.New("there is no record in it")
	}
	return err
}

// layDownAnswers reads the answers of a cell, each for itself, and lays them down as this program writes its own.
func (in *Incoming) layDownAnswers(ctx context.Context, id string, r io.Reader) error {
	z, err := unzstd(r)
	if err != nil {
		return err
	}
	defer z.Close()
	var marks []accuracy.Answer
	err = in.stage.Answers(id, func(put func(*accuracy.Answer) error) error {
		for d := door.NewThings(z, accuracy.MaxLine); ; {
			var a accuracy.Answer
			switch err := d.Next(&a); {
			case err == io.EOF:
				return nil
			case err != nil:
				return err
			}
			if len(marks) == in.limits.things {
				return door.ErrTooLarge
			}
			if err := errors.Join(ctx.Err(), door.Answer(&a), put(&a)); err != nil {
				return err
			}
			marks = append(marks, accuracy.Answer{Question: a.Question, Sample: a.Sample, Mark: a.Mark})
		}
	})
	in.scores[id] = accuracy.Sum(marks)
	return err
}

// sameMarks reports whether two scores are of the same marks, and their shares and intervals, which follow from those: processors round otherwise.
func sameMarks(a, b accuracy.Score) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
	return [5]int{a.Right, a.Wrong, a.Invalid, a.Cut, a.Failed} == [5]int{b.Right, b.Wrong, b.Invalid, b.Cut, b.Failed} &&
		near(a.Share, b.Share) && near(a.Low, b.Low) && near(a.High, b.High)
}

// footprint is about how much memory a record takes.
func footprint(r *load.Record) int64 {
	return int64(unsafe.Sizeof(*r)) + 8*int64(len(r.Gaps)) + int64(len(r.Error)+len(r.Finish)+len(r.Class))
}

// look reads bundle.json through, so that nothing of it can fail later.
func (in *Incoming) look() error {
	in.cells = map[string]bool{}
	asked := map[string]bool{}
	deployments, capacities, stays, recorded, events := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	// once notes an id, which may be there once; things are not more than there is room for.
	once := func(seen map[string]bool, id, twice string) error {
		if seen[id] {
			return fmt.Errorf(twice, plain.Cut(id, 40))
		}
		seen[id] = true
		return in.room(len(seen))
	}
	err := in.each(visitor{
		run:        func(r results.Run) error { in.run = r; return nil },
		deployment: func(d results.Deployment) error { return once(deployments, d.ID, "it has deployment %s twice") },
		cell: func(c results.Cell) error {
			if a := c.Accuracy; a != nil && !sameMarks(a.Score, in.scores[c.ID]) {
				return fmt.Errorf("the answers of cell %s do not make its score", c.ID)
			}
			asked[c.ID] = c.Accuracy != nil
			return once(in.cells, c.ID, "it has cell %s twice")
		},
		recorded: func(id string) error {
			if !door.IsThingID(id) {
				return fmt.Errorf("it says of %q that it has records", plain.Cut(id, 40))
			}
			return once(recorded, id, "it says of %q twice that it has records")
		},
		event:    func(results.Event) error { events++; return in.room(events) },
		capacity: func(c results.Capacity) error { return once(capacities, c.ID, "it has capacity %s twice") },
		stay:     func(s results.Stay) error { return once(stays, s.Request, "it has the box of request %s twice") },
	})
	if err != nil {
		return err
	}
	for id := range in.scores {
		if !asked[id] {
			return fmt.Errorf("there are answers of %q, which asks nothing", plain.Cut(id, 40))
		}
	}
	laidDown := in.stage.Recorded()
	for id := range recorded {
		if laidDown[id] == 0 || !in.cells[id] {
			return fmt.Errorf("the records of cell %s, or the cell, are missing", id)
		}
	}
	for id := range laidDown {
		if !recorded[id] {
			return fmt.Errorf("there are records of %q, which is no cell with any", plain.Cut(id, 40))
		}
	}
	return nil
}

// visitor is told what bundle.json holds.
type visitor struct {
	run        func(results.Run) error
	deployment func(results.Deployment) error
	cell       func(results.Cell) error
	recorded   func(id string) error
	event      func(results.Event) error
	capacity   func(results.Capacity) error
	stay       func(results.Stay) error
}

// each reads bundle.json, one thing after the other, each made fit to be kept.
func (in *Incoming) each(v visitor) error {
	f, err := os.Open(in.index)
	if err != nil {
		return err
	}
	defer f.Close()
	d := door.NewThings(f, in.limits.element)
	is, run := 0, results.Run{}
	err = d.Members(func(name string) error {
		switch name {
		case "bundle_version":
			err := d.Next(&is)
			if err == nil && is != version {
				err = fmt.Errorf("it has version %d of the format, this hcl knows %d", is, version)
			}
			return err
		case "run":
			if err := d.Next(&run); err != nil {
				return err
			}
			return visit(&run, door.Run, v.run)
		case "deployments":
			check := func(d *results.Deployment) error { return door.Deployment(d, run.ID) }
			return door.Each(d, func(x *results.Deployment) error { return visit(x, check, v.deployment) })
		case "cells":
			check := func(c *results.Cell) error { return door.Cell(c, run.ID) }
			return door.Each(d, func(x *results.Cell) error { return visit(x, check, v.cell) })
		case "recorded":
			return door.Each(d, func(id *string) error { return v.recorded(*id) })
		case "events":
			return door.Each(d, func(x *results.Event) error { return visit(x, door.Event, v.event) })
		case "capacities":
			check := func(c *results.Capacity) error { return door.Capacity(c, run.ID) }
			return door.Each(d, func(x *results.Capacity) error { return visit(x, check, v.capacity) })
		case "stays":
			check := func(s *results.Stay) error { return door.Stay(s, run.ID) }
			return door.Each(d, func(x *results.Stay) error { return visit(x, check, v.stay) })
		}
		return d.Next(new(json.RawMessage))
	})
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is more behind its end")
		}
	}
	if err == nil && (is == 0 || run.ID == "") {
		err = errors.New("it names no version or no run")
	}
	return err
}

// visit hands a thing over that was made fit to be kept.
func visit[T any](x *T, fit func(*T) error, then func(T) error) error {
	if err := fit(x); err != nil {
		return err
	}
	return then(*x)
}

// room refuses more things of one kind than there is room for.
func (in *Incoming) room(n int) error {
	if n > in.limits.things {
		return fmt.Errorf("it has more than %d of one kind", in.limits.things)
	}
	return nil
}

// Keep puts the run into the store, whole or not at all.
func (in *Incoming) Keep(ctx context.Context) error {
	run := in.run
	run.Bundled = true
	return in.stage.Keep(ctx, run, func(rows *results.Rows) error {
		err := in.each(visitor{
			run:        func(results.Run) error { return nil },
			deployment: rows.Deployment,
			cell:       rows.Cell,
			recorded:   func(string) error { return nil },
			event:      rows.Event,
			capacity:   rows.Capacity,
			stay:       rows.Stay,
		})
		for name, file := range in.inputs {
			var content []byte
			if err == nil {
				content, err = os.ReadFile(file)
			}
			if err == nil {
				err = rows.Input(name, content)
			}
		}
		return err
	})
}
