package results

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"hclbench/load"
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
		b.Cells = append(b.Cells, r.Cell)
		file, err := s.recordsFile(ctx, run, r.ID)
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

	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	out := tar.NewWriter(z)
	add := func(name string, size int64, content io.Reader) error {
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: b.Run.Started.Truncate(time.Second), Format: tar.FormatPAX}
		if err := out.WriteHeader(&h); err != nil {
			return err
		}
		_, err := io.Copy(out, content)
		return err
	}
	addBytes := func(name string, content []byte) error {
		return add(name, int64(len(content)), bytes.NewReader(content))
	}
	addRecords := func(id string) error {
		content, size, err := s.openRecords(ctx, run, id)
		if err != nil {
			return err
		}
		defer content.Close()
		return add(bundleRecords+id+recordsSuffix, size, content)
	}
	err = addBytes(bundleIndex, index.Bytes())
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		at := name
		if !strings.HasPrefix(name, bundleLogs) {
			at = bundleInputs + name
		}
		err = errors.Join(err, addBytes(at, inputs[name]))
	}
	for _, id := range b.Recorded {
		err = errors.Join(err, addRecords(id))
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		err = errors.Join(err, addBytes(name, more[name]))
	}
	return errors.Join(err, out.Close(), z.Close())
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
			err = scanInto(scan, deploymentTargets(&d))
			return d, err
		})
}

// ImportBundle stores the run of a bundle, whole or not at all. It stands apart
// from what was measured here: only a query for this run finds it, and no plan
// takes its cells for done. A bundle that was imported before takes its own place;
// a run that was measured here is not touched.
func (s *Store) ImportBundle(ctx context.Context, r io.Reader) (_ Run, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("import bundle: %w", err)
		}
	}()
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxImport))
	if err != nil {
		return Run{}, err
	}
	defer z.Close()
	in := tar.NewReader(z)
	h, err := in.Next()
	if err != nil {
		return Run{}, err
	}
	if h.Name != bundleIndex {
		return Run{}, fmt.Errorf("it begins with %q, not with %s", h.Name, bundleIndex)
	}
	text, err := readBounded(in)
	if err != nil {
		return Run{}, err
	}
	var b bundle
	if err := json.Unmarshal(text, &b); err != nil {
		return Run{}, fmt.Errorf("read %s: %w", bundleIndex, err)
	}
	if b.Version != bundleVersion {
		return Run{}, fmt.Errorf("it has version %d of the format, this hcl knows %d", b.Version, bundleVersion)
	}
	if err := s.beginBundled(ctx, b.Run); err != nil {
		return Run{}, err
	}
	if err := s.importRest(ctx, in, b); err != nil {
		return Run{}, errors.Join(err, s.Remove(context.WithoutCancel(ctx), Litter{Run: b.Run.ID}))
	}
	return b.Run, nil
}

// beginBundled makes room for a run from elsewhere.
func (s *Store) beginBundled(ctx context.Context, r Run) error {
	var bundled bool
	switch err := s.db.get(ctx, `SELECT bundled FROM runs WHERE id = ?`, []any{r.ID}, &bundled); {
	case err == nil && !bundled:
		return fmt.Errorf("run %s was measured here", r.ID)
	case err == nil:
		if err := s.Remove(ctx, Litter{Run: r.ID}); err != nil {
			return err
		}
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	begun := r
	begun.Finished, begun.Outcome = time.Time{}, importing // until all of it is there
	begun.Bundled = true
	return s.BeginRun(ctx, begun)
}

func (s *Store) importRest(ctx context.Context, in *tar.Reader, b bundle) error {
	for _, d := range b.Deployments {
		if d.RunID != b.Run.ID {
			return fmt.Errorf("deployment %s is of run %s", d.ID, d.RunID)
		}
		if err := s.PutDeployment(ctx, d); err != nil {
			return err
		}
	}
	cells := b.Cells
	// put stores the cells before the one with that id, and this one with records.
	put := func(id string, records []load.Record) error {
		for len(cells) > 0 {
			c := cells[0]
			cells = cells[1:]
			if c.RunID != b.Run.ID {
				return fmt.Errorf("cell %s is of run %s", c.ID, c.RunID)
			}
			if c.ID == id {
				return s.PutCell(ctx, c, records)
			}
			if slices.Contains(b.Recorded, c.ID) {
				return fmt.Errorf("the records of cell %s are missing", c.ID)
			}
			if err := s.PutCell(ctx, c, nil); err != nil {
				return err
			}
		}
		if id != "" {
			return fmt.Errorf("there are records of %s, which is no cell", id)
		}
		return nil
	}
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(h.Name, bundleInputs); ok || strings.HasPrefix(h.Name, bundleLogs) {
			content, err := readBounded(in)
			if err != nil {
				return err
			}
			if err := s.PutInputs(ctx, b.Run.ID, map[string][]byte{name: content}); err != nil {
				return err
			}
		} else if name, ok := strings.CutPrefix(h.Name, bundleRecords); ok {
			records, err := decodeRecords(in)
			if err == nil {
				err = put(strings.TrimSuffix(name, recordsSuffix), records)
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", h.Name, err)
			}
		}
	}
	if err := put("", nil); err != nil {
		return err
	}
	for _, e := range b.Events {
		if err := s.Event(ctx, b.Run.ID, e); err != nil {
			return err
		}
	}
	return s.FinishRun(ctx, b.Run.ID, b.Run.Outcome, b.Run.Finished)
}

// readBounded reads a file of a bundle whole.
func readBounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(bufio.NewReader(r), maxImport+1))
	if err == nil && len(text) > maxImport {
		err = fmt.Errorf("a file is longer than %d MiB", maxImport>>20)
	}
	return text, err
}
