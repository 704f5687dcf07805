package results

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/klauspost/compress/zstd"

	"hclbench/accuracy"
	"hclbench/load"
	"hclbench/plain"
)

// ErrNoCell says that the store has no such cell.
var ErrNoCell = errors.New("no such cell")

// ErrDamaged says that something in the store is not what was put there.
var ErrDamaged = errors.New("it is not what was stored")

// RecordsSuffix ends the names of files of records: one JSON object per line,
// compressed with Zstandard.
const RecordsSuffix = ".jsonl.zst"

// Records reads the records of a cell, in the order in which its requests were
// dispatched: none when the cell was stored without. A cell that the store does
// not have is ErrNoCell; records that are not those that were stored are ErrDamaged.
func (s *Store) Records(ctx context.Context, run, cell string) ([]load.Record, error) {
	records, _, err := readRecords(ctx, s.db, s.place, run, cell)
	return records, reading(err, run, cell)
}

// PackedRecords are the records of a cell as they are kept, compressed, when they are
// those that were stored; nil when it was stored without.
func (s *Store) PackedRecords(ctx context.Context, run, cell string) ([]byte, error) {
	_, content, err := readRecords(ctx, s.db, s.place, run, cell)
	return content, reading(err, run, cell)
}

func reading(err error, run, cell string) error {
	if err != nil {
		err = fmt.Errorf("read records of cell %s in run %s: %w", cell, run, err)
	}
	return err
}

// readRecords holds what it reads against what was noted when it was stored; an older
// hcl has noted nothing.
func readRecords(ctx context.Context, db *database, at place, run, cell string) ([]load.Record, []byte, error) {
	var name string
	var mark recordsMark
	err := db.get(ctx, `SELECT records, `+db.column("cells", "records_sum")+`, `+db.column("cells", "records_count")+
		` FROM cells c WHERE run_id = ? AND id = ?`, []any{run, cell},
		field{&name, nil}, field{&mark.sum, nil}, field{&mark.count, nil})
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoCell
	}
	if err != nil || name == "" {
		return nil, nil, err
	}
	content, err := at.open(ctx, run, cell, name)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, nil, err
	}
	records, err := decodeRecords[load.Record](content)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	case len(records) == 0, mark.sum != "" && mark != recordsMark{fmt.Sprintf("%x", sha256.Sum256(content)), len(records)}:
		return nil, nil, fmt.Errorf("%w: %s was changed", ErrDamaged, name)
	}
	return records, content, nil
}

// recordsMark is what is noted of records, so that it is seen when they are others.
type recordsMark struct {
	sum   string // SHA-256 of what was written, in hex
	count int
}

// packed are the compressed records of a cell on their way into the store: in memory,
// or in a file of its own on the same file system. The zero value is of a cell without.
type packed struct {
	mark    recordsMark
	content []byte
	file    string // empty: in memory
}

// pack compresses records, with what servers have said in them made printable.
func pack(records []load.Record) (packed, error) {
	if len(records) == 0 {
		return packed{}, nil
	}
	var b bytes.Buffer
	mark, err := writeRecords(&b, func(put func(*load.Record) error) error {
		for _, r := range records {
			r.Finish, r.Class, r.Error = plain.Line(r.Finish), plain.Line(r.Class), plain.Text(r.Error)
			if err := put(&r); err != nil {
				return err
			}
		}
		return nil
	})
	return packed{mark: mark, content: b.Bytes()}, err
}

// bytes are all of them.
func (p packed) bytes() ([]byte, error) {
	if p.file == "" {
		return p.content, nil
	}
	return os.ReadFile(p.file)
}

// moveTo makes them a file, which is whole and on disk, or not there.
func (p packed) moveTo(path string) error {
	if p.file != "" {
		return os.Rename(p.file, path)
	}
	return renameio.WriteFile(path, p.content, 0o644, renameio.WithTempDir(filepath.Dir(path)))
}

// writeRecords writes one JSON object per line, compressed with Zstandard; all hands the
// records, or answers, over one after the other.
func writeRecords[T load.Record | accuracy.Answer](w io.Writer, all func(put func(*T) error) error) (recordsMark, error) {
	sum := sha256.New()
	z, err := zstd.NewWriter(io.MultiWriter(w, sum), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return recordsMark{}, err
	}
	lines := bufio.NewWriter(z)
	enc := json.NewEncoder(lines)
	n := 0
	err = all(func(r *T) error {
		n++
		return enc.Encode(r)
	})
	err = errors.Join(err, lines.Flush(), z.Close())
	return recordsMark{fmt.Sprintf("%x", sum.Sum(nil)), n}, err
}

func decodeRecords[T load.Record | accuracy.Answer](content []byte) ([]T, error) {
	z, err := zstd.NewReader(bytes.NewReader(content), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var records []T
	for dec := json.NewDecoder(z); ; {
		var r T
		switch err := dec.Decode(&r); {
		case err == io.EOF:
			return records, nil
		case err != nil:
			return nil, err
		}
		records = append(records, r)
	}
}

// newRecordsFile is a name that no file has yet: what is stored about a cell
// stays whole until what takes its place is.
func newRecordsFile(dir, run, cell string) string {
	name := run + "-" + cell + RecordsSuffix
	for n := 2; ; n++ {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%s.%d%s", run, cell, n, RecordsSuffix)
	}
}

// isRecordsOf reports whether a file is one of those that newRecordsFile names for a
// run's cells, or one that is being written, which begins with a point.
func isRecordsOf(run, file string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(file, "."), run+"-")
	cell, _, whole := strings.Cut(rest, ".")
	return ok && whole && cell != "" && !strings.Contains(cell, "-") && strings.Contains(rest, RecordsSuffix)
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
