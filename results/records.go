package results

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/klauspost/compress/zstd"

	"hclbench/load"
	"hclbench/plain"
)

// ErrNoCell says that the store has no such cell.
var ErrNoCell = errors.New("no such cell")

// recordsDir is the folder with one file of records per cell: one JSON object
// per line, compressed with Zstandard.
func (s *Store) recordsDir() string { return filepath.Join(s.dir, "records") }

// recordsFile is the name of the file with a cell's records, empty when it was
// stored without, and what was noted of them.
func (s *Store) recordsFile(ctx context.Context, run, cell string) (string, recordsMark, error) {
	var file, sum sql.NullString
	var count sql.NullInt64
	err := s.db.get(ctx, `SELECT records, records_sum, records_count FROM cells WHERE run_id = ? AND id = ?`, []any{run, cell}, &file, &sum, &count)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoCell
	}
	return file.String, recordsMark{sum.String, int(count.Int64)}, err
}

// recordsFiles are the names of the files that a run's cells have.
func (s *Store) recordsFiles(ctx context.Context, run string) ([]string, error) {
	return collect(ctx, s.db, "read records", `SELECT records FROM cells WHERE run_id = ? AND records IS NOT NULL`, []any{run},
		func(scan func(...any) error) (name string, err error) {
			err = scan(&name)
			return name, err
		})
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
func writeRecords(path string, records []load.Record) (recordsMark, error) {
	dir := filepath.Dir(path)
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithPermissions(0o644))
	if err != nil {
		return recordsMark{}, err
	}
	defer f.Cleanup() // nothing is left to clean once the file has its name

	mark, err := encodeRecords(f, records)
	if err != nil {
		return recordsMark{}, err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return recordsMark{}, err
	}
	return mark, syncDir(dir)
}

// syncDir has the names in a folder reach the disk, before the rows that mention
// them do.
func syncDir(dir string) error {
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
	parts := newPartWriter(ctx, tx, run, cell)
	mark, err := encodeRecords(parts, records)
	if err = errors.Join(err, parts.Flush()); err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE cells SET records_sum = ?, records_count = ? WHERE run_id = ? AND id = ?`, mark.sum, mark.count, run, cell)
	return err
}

// newPartWriter stores what is written to it as the parts of a cell's records.
func newPartWriter(ctx context.Context, tx statements, run, cell string) *bufio.Writer {
	n := 0
	return bufio.NewWriterSize(partWriter(func(content []byte) error {
		for part := range slices.Chunk(content, recordsPart) { // what is larger than the buffer comes in one piece
			n++
			if _, err := tx.exec(ctx, `INSERT INTO records (run_id, cell, part, content) VALUES (?, ?, ?, ?)`, run, cell, n, part); err != nil {
				return err
			}
		}
		return nil
	}), recordsPart)
}

// partWriter hands on each piece that is written to it.
type partWriter func([]byte) error

func (w partWriter) Write(b []byte) (int, error) { return len(b), w(b) }

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
	file, _, err := s.recordsFile(ctx, run, cell)
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

// ErrDamaged says that something in the store is not what was put there.
var ErrDamaged = errors.New("it is not what was stored")

// Records reads the records of a cell, in the order in which its requests were
// dispatched: none when the cell was stored without. A cell that the store does
// not have is ErrNoCell; records that are not those that were stored are ErrDamaged.
func (s *Store) Records(ctx context.Context, run, cell string) (records []load.Record, err error) {
	err = s.readRecords(ctx, run, cell, func(r io.Reader) (n int, err error) {
		records, err = decodeRecords(r)
		return len(records), err
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// CheckRecords reads the records of a cell; it is ErrDamaged when they are not those
// that were stored.
func (s *Store) CheckRecords(ctx context.Context, run, cell string) error {
	_, err := s.Records(ctx, run, cell)
	return err
}

// readRecords has the compressed records of a cell read, and holds what was read
// against what was noted when they were stored; an older hcl has noted nothing.
func (s *Store) readRecords(ctx context.Context, run, cell string, read func(io.Reader) (n int, err error)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read records of cell %s in run %s: %w", cell, run, err)
		}
	}()
	file, mark, err := s.recordsFile(ctx, run, cell)
	if err != nil || file == "" {
		return err
	}
	content, _, err := s.openRecords(ctx, run, cell)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return err
	}
	defer content.Close()
	sum := sha256.New()
	n, err := read(io.TeeReader(content, sum))
	if err == nil {
		_, err = io.Copy(sum, content) // what stands behind the end
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case n == 0, mark.sum != "" && (hex.EncodeToString(sum.Sum(nil)) != mark.sum || n != mark.count):
		return fmt.Errorf("%w: %s was changed", ErrDamaged, file)
	}
	return nil
}

// recordsMark is what is noted of records, so that it is seen when they are others.
type recordsMark struct {
	sum   string // SHA-256 of what was written, in hex
	count int
}

// recordsWriter writes one JSON object per line, compressed with Zstandard.
type recordsWriter struct {
	packed *zstd.Encoder
	lines  *bufio.Writer
	enc    *json.Encoder
	sum    hash.Hash
	n      int
}

func newRecordsWriter(w io.Writer) (*recordsWriter, error) {
	sum := sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(w, sum), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewWriter(z)
	return &recordsWriter{packed: z, lines: lines, enc: json.NewEncoder(lines), sum: sum}, nil
}

func (w *recordsWriter) write(r *load.Record) error {
	w.n++
	return w.enc.Encode(r)
}

func (w *recordsWriter) close() (recordsMark, error) {
	err := errors.Join(w.lines.Flush(), w.packed.Close())
	return recordsMark{hex.EncodeToString(w.sum.Sum(nil)), w.n}, err
}

// encodeRecords writes records, with what servers have said in them made printable.
func encodeRecords(to io.Writer, records []load.Record) (recordsMark, error) {
	w, err := newRecordsWriter(to)
	if err != nil {
		return recordsMark{}, err
	}
	for i := range records {
		r := records[i]
		r.Finish, r.Class, r.Error = plain.Line(r.Finish), plain.Line(r.Class), plain.Text(r.Error)
		if err := w.write(&r); err != nil {
			w.packed.Close()
			return recordsMark{}, err
		}
	}
	return w.close()
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
