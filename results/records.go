package results

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/klauspost/compress/zstd"

	"hclbench/load"
)

// ErrNoCell says that the store has no such cell.
var ErrNoCell = errors.New("no such cell")

// recordsDir is the folder with one file of records per cell: one JSON object
// per line, compressed with Zstandard.
func (s *Store) recordsDir() string { return filepath.Join(s.dir, "records") }

// recordsFile is the name of the file with a cell's records, empty when it was
// stored without.
func (s *Store) recordsFile(ctx context.Context, run, cell string) (string, error) {
	var file sql.NullString
	err := s.db.get(ctx, `SELECT records FROM cells WHERE run_id = ? AND id = ?`, []any{run, cell}, &file)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoCell
	}
	return file.String, err
}

// newRecordsFile is a name that no file has yet: what is stored about a cell
// stays whole until what takes its place is.
func newRecordsFile(dir, run, cell string) string {
	name := run + "-" + cell + ".jsonl.zst"
	for n := 2; ; n++ {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%s.%d.jsonl.zst", run, cell, n)
	}
}

// writeRecords writes the whole file and flushes it to disk, or leaves what was
// there.
func writeRecords(path string, records []load.Record) error {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer f.Cleanup() // nothing is left to clean once the file has its name

	if err := encodeRecords(f, records); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}

	// The new name is in the folder, and has to reach the disk before the row
	// that mentions it.
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sharedRecords stands in a cell's row in place of a file's name when its records
// are in the shared database.
const sharedRecords = "table"

// recordsPart is how many bytes of records are in one row of a shared database.
const recordsPart = 1 << 20

// putRecords stores the records of a cell in a shared database, in place of those
// that are there.
func putRecords(ctx context.Context, tx statements, run, cell string, records []load.Record) error {
	if _, err := tx.exec(ctx, `DELETE FROM records WHERE run_id = ? AND cell = ?`, run, cell); err != nil || len(records) == 0 {
		return err
	}
	parts := &partWriter{}
	parts.put = func(content []byte) error {
		parts.n++
		_, err := tx.exec(ctx, `INSERT INTO records (run_id, cell, part, content) VALUES (?, ?, ?, ?)`, run, cell, parts.n, content)
		return err
	}
	b := bufio.NewWriterSize(parts, recordsPart)
	if err := encodeRecords(b, records); err != nil {
		return err
	}
	return b.Flush()
}

// partWriter hands on each piece that is written to it.
type partWriter struct {
	n   int
	put func([]byte) error
}

func (w *partWriter) Write(b []byte) (int, error) { return len(b), w.put(b) }

// partReader reads what putRecords has stored, one part at a time.
type partReader struct {
	next func(n int) ([]byte, error)
	n    int
	left []byte
}

func (r *partReader) Read(b []byte) (int, error) {
	if len(r.left) == 0 {
		r.n++
		part, err := r.next(r.n)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		r.left = part
	}
	n := copy(b, r.left)
	r.left = r.left[n:]
	return n, nil
}

// openRecords opens the compressed records of a cell; nil when it was stored
// without.
func (s *Store) openRecords(ctx context.Context, run, cell string) (content io.ReadCloser, size int64, err error) {
	file, err := s.recordsFile(ctx, run, cell)
	if err != nil || file == "" {
		return nil, 0, err
	}
	if s.Shared() {
		err := s.db.get(ctx, `SELECT coalesce(sum(length(content)), 0) FROM records WHERE run_id = ? AND cell = ?`, []any{run, cell}, &size)
		next := func(n int) (part []byte, err error) {
			err = s.db.get(ctx, `SELECT content FROM records WHERE run_id = ? AND cell = ? AND part = ?`, []any{run, cell, n}, &part)
			return part, err
		}
		return io.NopCloser(&partReader{next: next}), size, err
	}
	f, err := os.Open(filepath.Join(s.recordsDir(), file))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Records reads the records of a cell, in the order in which its requests were
// dispatched: none when the cell was stored without. A cell that the store does
// not have is ErrNoCell.
func (s *Store) Records(ctx context.Context, run, cell string) (_ []load.Record, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read records of cell %s in run %s: %w", cell, run, err)
		}
	}()
	content, _, err := s.openRecords(ctx, run, cell)
	if err != nil || content == nil {
		return nil, err
	}
	defer content.Close()
	return decodeRecords(content)
}

// encodeRecords writes one JSON object per line, compressed with Zstandard.
func encodeRecords(w io.Writer, records []load.Record) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	b := bufio.NewWriter(z)
	enc := json.NewEncoder(b)
	for i := range records {
		if err := enc.Encode(&records[i]); err != nil {
			z.Close()
			return err
		}
	}
	return errors.Join(b.Flush(), z.Close())
}

// decodeRecords reads what encodeRecords has written.
func decodeRecords(r io.Reader) ([]load.Record, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var records []load.Record
	for dec := json.NewDecoder(z); ; {
		var r load.Record
		switch err := dec.Decode(&r); {
		case err == io.EOF:
			return records, nil
		case err != nil:
			return nil, err
		}
		records = append(records, r)
	}
}
