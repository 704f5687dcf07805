package results

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A bundle is one file with all that is known of a run: a tar archive, compressed
// with Zstandard. bundle.json comes first; then inputs/ and logs/, records/ in the order
// of the cells, and what is there for people only.

// bundleVersion is the version of bundle.json. A reader refuses another one.
const bundleVersion = 1

// bundle is bundle.json.
type bundle struct {
	Version     int          `json:"bundle_version"`
	Run         Run          `json:"run"`
	Deployments []Deployment `json:"deployments"`
	Cells       []Cell       `json:"cells"`
	Recorded    []string     `json:"recorded"` // ids of the cells with a file in records/
	Events      []Event      `json:"events"`
}

const (
	bundleIndex   = "bundle.json"
	bundleInputs  = "inputs/"
	bundleLogs    = "logs/" // inputs by that name
	bundleRecords = "records/"
	recordsSuffix = ".jsonl.zst"
)

// IsBundle reports whether a file that begins so can be a bundle.
func IsBundle(begin []byte) bool { return bytes.HasPrefix(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}) }

// WriteBundle writes a run as a bundle, with more files for people beside it. The
// same run gives the same bytes.
func (s *Store) WriteBundle(ctx context.Context, w io.Writer, run string, more map[string][]byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bundle run %s: %w", run, err)
		}
	}()
	b := bundle{Version: bundleVersion}
	if b.Run, err = s.run(ctx, run); err != nil {
		return err
	}
	if b.Deployments, err = s.deployments(ctx, run); err != nil {
		return err
	}
	if b.Events, err = s.Events(ctx, run); err != nil {
		return err
	}
	inputs, err := s.Inputs(ctx, run)
	if err != nil {
		return err
	}
	rows, err := s.Rows(ctx, Query{Run: run})
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Damaged != "" {
			return fmt.Errorf("cell %s: %s", r.ID, r.Damaged)
		}
		b.Cells = append(b.Cells, r.Cell)
		file, _, err := s.recordsFile(ctx, run, r.ID)
		if err != nil {
			return err
		}
		if file != "" {
			b.Recorded = append(b.Recorded, r.ID)
		}
	}
	var index bytes.Buffer
	enc := json.NewEncoder(&index)
	enc.SetEscapeHTML(false) // JSON from elsewhere is kept as it is
	if err := enc.Encode(b); err != nil {
		return err
	}

	out, err := newBundleWriter(w, b.Run.Started)
	if err != nil {
		return err
	}
	out.file(bundleIndex, index.Bytes())
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		at := name
		if !strings.HasPrefix(name, bundleLogs) {
			at = bundleInputs + name
		}
		out.file(at, inputs[name])
	}
	for _, id := range b.Recorded {
		if out.err == nil {
			out.err = s.bundleRecords(ctx, out, run, id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		out.file(name, more[name])
	}
	return out.close()
}

// bundleRecords adds the records of a cell, which have to be whole: a bundle that
// nobody can read later is no bundle.
func (s *Store) bundleRecords(ctx context.Context, out *bundleWriter, run, id string) error {
	if err := s.CheckRecords(ctx, run, id); err != nil {
		return err
	}
	content, size, err := s.openRecords(ctx, run, id)
	if err != nil {
		return err
	}
	defer content.Close()
	out.add(bundleRecords+id+recordsSuffix, size, content)
	return out.err
}

// bundleWriter writes files into a bundle until the first error.
type bundleWriter struct {
	packed *zstd.Encoder
	files  *tar.Writer
	at     time.Time // of all files
	err    error
}

func newBundleWriter(w io.Writer, at time.Time) (*bundleWriter, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return &bundleWriter{packed: z, files: tar.NewWriter(z), at: at.Truncate(time.Second)}, nil
}

func (w *bundleWriter) add(name string, size int64, content io.Reader) {
	if w.err != nil {
		return
	}
	w.err = w.files.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: w.at, Format: tar.FormatPAX})
	if w.err == nil {
		_, w.err = io.Copy(w.files, content)
	}
}

func (w *bundleWriter) file(name string, content []byte) {
	w.add(name, int64(len(content)), bytes.NewReader(content))
}

func (w *bundleWriter) close() error {
	if w.err == nil {
		w.err = w.files.Close()
	}
	return errors.Join(w.err, w.packed.Close())
}

// run reads one run.
func (s *Store) run(ctx context.Context, id string) (Run, error) {
	runs, err := s.Runs(ctx)
	if err != nil {
		return Run{}, err
	}
	if i := slices.IndexFunc(runs, func(r Run) bool { return r.ID == id }); i >= 0 {
		return runs[i], nil
	}
	return Run{}, ErrNoRun
}

// ErrNoRun says that the store has no such run.
var ErrNoRun = errors.New("there is no such run")

func (s *Store) deployments(ctx context.Context, run string) ([]Deployment, error) {
	return collect(ctx, s.db, "read deployments", `SELECT `+deploymentColumns+` FROM deployments d WHERE d.run_id = ? ORDER BY d.rowid`, []any{run},
		func(scan func(...any) error) (d Deployment, err error) {
			err = scanInto(scan, deploymentTargets(&d, nil))
			return d, err
		})
}
