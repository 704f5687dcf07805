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
	err := s.db.QueryRowContext(ctx, `SELECT records FROM cells WHERE run_id = ? AND id = ?`, run, cell).Scan(&file)
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

	z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
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
	if err := errors.Join(b.Flush(), z.Close()); err != nil {
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

// Records reads the records of a cell, in the order in which its requests were
// dispatched: none when the cell was stored without. A cell that the store does
// not have is ErrNoCell.
func (s *Store) Records(ctx context.Context, run, cell string) (_ []load.Record, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read records of cell %s in run %s: %w", cell, run, err)
		}
	}()
	file, err := s.recordsFile(ctx, run, cell)
	if err != nil || file == "" {
		return nil, err
	}
	f, err := os.Open(filepath.Join(s.recordsDir(), file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decodeRecords(f)
}

// decodeRecords reads what writeRecords has written.
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
