package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"hclbench/plain"
)

// SpeedsVerb is the verb of the hcl binary that measures memory and disks of the machine on which it runs.
const SpeedsVerb = "speeds"

// Speeds are how fast a machine's memory and disks are.
type Speeds struct {
	Copied float64     `json:"copied"` // bytes a second that were read and written, by all processors together
	CPUs   int         `json:"cpus"`
	Disks  []DiskSpeed `json:"disks"` // of each path that was asked for
}

// DiskSpeed is how fast a file below a path was read.
type DiskSpeed struct {
	Speed  float64 `json:"speed,omitempty"` // bytes a second
	Failed string  `json:"failed,omitempty"`
}

// What is measured: each processor copies so much to and fro; of a file so much is read, in such blocks; and it is
// large enough to say something.
const (
	copiedBytes   = 32 << 20 // more than a processor's share of any cache
	copiedFor     = 500 * time.Millisecond
	readBlock     = 16 << 20
	readFor       = 2 * time.Second
	leastFile     = 64 << 20
	mostFilesSeen = 20_000
	pageSize      = 4096 // what direct reads are multiples of
)

// MeasureSpeeds measures the machine on which it runs, in a few seconds.
func MeasureSpeeds(ctx context.Context, paths []string) Speeds {
	s := Speeds{CPUs: runtime.NumCPU(), Disks: []DiskSpeed{}}
	s.Copied = copySpeed(ctx, s.CPUs)
	for _, path := range paths {
		speed, err := readSpeed(ctx, path)
		d := DiskSpeed{Speed: speed}
		if err != nil {
			d.Failed = err.Error()
		}
		s.Disks = append(s.Disks, d)
	}
	return s
}

// copySpeed copies memory on all processors at once. As STREAM does, it counts what is read and what is written.
func copySpeed(ctx context.Context, cpus int) float64 {
	var copied atomic.Int64
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(cpus)
	for range cpus {
		done.Go(func() {
			from, to := make([]byte, copiedBytes), make([]byte, copiedBytes)
			copy(to, from) // so that its pages are there, where this processor is
			ready.Done()
			<-begin
			for start := time.Now(); time.Since(start) < copiedFor && ctx.Err() == nil; {
				copied.Add(int64(2 * copy(to, from)))
			}
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	done.Wait()
	return float64(copied.Load()) / time.Since(start).Seconds()
}

// readSpeed reads the largest file below a path, past the page cache.
func readSpeed(ctx context.Context, path string) (float64, error) {
	name, size := largest(ctx, path)
	if size < leastFile {
		return 0, fmt.Errorf("no file of %s or more is there", plain.Bytes(leastFile))
	}
	f, err := os.OpenFile(name, os.O_RDONLY|direct, 0)
	if err != nil {
		return 0, fmt.Errorf("its files cannot be read past the page cache: %w", errors.Unwrap(err))
	}
	defer f.Close()
	return speedOf(ctx, f)
}

// speedOf is how fast a file is read.
func speedOf(ctx context.Context, f io.Reader) (float64, error) {
	block := aligned(readBlock)
	read, start := 0, time.Now()
	for time.Since(start) < readFor && ctx.Err() == nil {
		n, err := f.Read(block)
		read += n
		if err != nil && err != io.EOF {
			return 0, err
		}
		if n < readBlock { // what is left is no whole block
			break
		}
	}
	return float64(read) / time.Since(start).Seconds(), ctx.Err()
}

// largest is the largest file below a path, of those that are seen first.
func largest(ctx context.Context, path string) (name string, size int64) {
	seen := 0
	_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if seen++; seen > mostFilesSeen || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil || !d.Type().IsRegular() {
			return nil // what cannot be read is none of its models
		}
		if info, err := d.Info(); err == nil && info.Size() > size {
			name, size = at, info.Size()
		}
		return nil
	})
	return name, size
}

// aligned is a block that begins where a page does.
func aligned(size int) []byte {
	all := make([]byte, size+pageSize)
	off := pageSize - int(uintptr(unsafe.Pointer(&all[0]))%pageSize)
	return all[off : off+size]
}
