package lock

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
)

const (
	// worthKeeping is from which size on a checksum is kept: a smaller file is read
	// again sooner than its checksum is looked up.
	worthKeeping = 4 << 20
	// settled is how long a file must have been left alone for its checksum to be
	// kept: clocks of file systems are coarse, and one that is being written could
	// change again within a tick of them.
	settled = 2 * time.Second
)

// Sums are checksums of files, kept over runs for as long as a file's size and times stay. The
// zero value keeps nothing. Its methods may be called by several goroutines at once.
type Sums struct {
	file    string              // where they are kept; empty: nowhere
	settled time.Duration       // how long a file must have been left alone
	tell    func(string, int64) // who is told of a large file that is read

	mu    sync.Mutex
	known map[string]known // by absolute path; nil: not read yet
}

// known is a checksum and the state of the file that it is of.
type known struct {
	Size    int64  `json:"size"`
	Changed int64  `json:"changed"` // when it was last written, or its status changed, in ns since 1970
	Sum     string `json:"sha256"`
}

// KeepSums are checksums that are kept in a file. read is told of every large file
// before it is read, with its size in bytes; nil: nobody is.
func KeepSums(file string, read func(path string, size int64)) *Sums {
	return &Sums{file: file, settled: settled, tell: read}
}

// Of is the SHA-256 of a file, "sha256:…", however large it is; of a folder that of
// the sorted lines "SUM  PATH" of all files in it.
func (s *Sums) Of(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() {
		return s.checksum(ctx, path)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil {
		path, err = filepath.EvalSymlinks(path) // a link to a folder would be no folder
	}
	if err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	}
	all := sha256.New()
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			return err
		}
		sum, err := s.checksum(ctx, name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%s  %s\n", strings.TrimPrefix(sum, "sha256:"), filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	}
	return fmt.Sprintf("sha256:%x", all.Sum(nil)), nil
}

func (s *Sums) checksum(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	}
	is := known{Size: info.Size(), Changed: changed(info).UnixNano()}
	key, err := filepath.Abs(path)
	keep := err == nil && s.file != "" && is.Size >= worthKeeping && time.Since(changed(info)) > s.settled
	if keep {
		if was := s.look(key); was.Size == is.Size && was.Changed == is.Changed {
			return was.Sum, nil
		}
	}
	if s.tell != nil && is.Size >= worthKeeping {
		s.tell(path, is.Size)
	}
	h := sha256.New()
	defer context.AfterFunc(ctx, func() { f.Close() })() // which ends the reading
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read data set: %w", cmp.Or(ctx.Err(), err))
	}
	is.Sum = fmt.Sprintf("sha256:%x", h.Sum(nil))
	if now, err := f.Stat(); keep && err == nil && now.Size() == is.Size && changed(now).UnixNano() == is.Changed {
		s.keep(key, is)
	}
	return is.Sum, nil
}

func (s *Sums) look(path string) known {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = s.read()
	}
	return s.known[path]
}

// read is what was kept. What cannot be read is found out again.
func (s *Sums) read() map[string]known {
	var all map[string]known
	b, err := os.ReadFile(s.file)
	if err != nil || json.Unmarshal(b, &all) != nil || all == nil {
		return map[string]known{}
	}
	return all
}

// keep writes a checksum down, with what others have written meanwhile; files that are gone are
// forgotten. Where nothing can be kept, the next run reads the file again.
func (s *Sums) keep(path string, k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.read()
	maps.DeleteFunc(all, func(name string, _ known) bool { _, err := os.Stat(name); return err != nil })
	all[path] = k
	s.known = all
	b, err := json.MarshalIndent(all, "", "  ")
	if err == nil && os.MkdirAll(filepath.Dir(s.file), 0o755) == nil {
		renameio.WriteFile(s.file, b, 0o644)
	}
}
