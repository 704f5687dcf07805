package lock

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSums: a large file is read once, until it changes.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	large, small := filepath.Join(dir, "large"), filepath.Join(dir, "small")
	text := bytes.Repeat([]byte("0123456789abcdef"), worthKeeping/16)
	write := func(path string, text []byte) {
		t.Helper()
		check(t, os.WriteFile(path, text, 0o644))
	}
	write(large, text)
	write(small, text[:10])
	kept := filepath.Join(dir, "cache", "sums.json")
	read := 0
	sum := func(path string) string {
		t.Helper()
		s := KeepSums(kept, func(string, int64) { read++ })
		s.settled = 0
		got, err := s.Of(t.Context(), path)
		check(t, err)
		return got
	}
	plain := func(path string) string {
		t.Helper()
		got, err := new(Sums).Of(t.Context(), path)
		check(t, err)
		return got
	}
	first := sum(large)
	if first != plain(large) || sum(large) != first || read != 1 {
		t.Errorf("%q, read %d times, want %q once", first, read, plain(large))
	}
	if sum(small) != plain(small) || sum(dir) == "" {
		t.Error("small files and folders have no checksum")
	}

	// The same size and the time of before, with other content.
	info, err := os.Stat(large)
	check(t, err)
	text[0] = 'X'
	for tick := changed(info); !changed(info).After(tick); { // the clock of files is coarse
		write(large, text)
		check(t, os.Chtimes(large, info.ModTime(), info.ModTime()))
		if info, err = os.Stat(large); err != nil {
			t.Fatal(err)
		}
	}
	if got := sum(large); got == first || got != plain(large) {
		t.Errorf("after a change it is %q, want %q", got, plain(large))
	}

	// One that was written just now is not trusted to stay.
	kept, read = filepath.Join(dir, "fresh.json"), 0
	s := KeepSums(kept, func(string, int64) { read++ })
	s.settled = time.Hour
	for range 2 {
		if _, err := s.Of(t.Context(), large); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(kept); read != 2 || err == nil {
		t.Errorf("a fresh file was read %d times, and its checksum kept: %v", read, err)
	}

	// What was kept is no text of ours, or cannot be written.
	for _, broken := range []string{"{", "null"} {
		write(kept, []byte(broken))
		if got := sum(large); got != plain(large) {
			t.Errorf("with the file of checksums %q: %q", broken, got)
		}
	}
	kept = filepath.Join(large, "nowhere")
	if got := sum(large); got != plain(large) {
		t.Errorf("without a place to keep: %q", got)
	}
}

// TestSumsOfLinks: a link to a folder is that folder, and one in it to a file is a file of it.
func TestSumsOfLinks(t *testing.T) {
	dir := t.TempDir()
	folder, link, outside := filepath.Join(dir, "folder"), filepath.Join(dir, "link"), filepath.Join(dir, "outside")
	check(t, errors.Join(os.Mkdir(folder, 0o755), os.Symlink("folder", link), os.Symlink("../outside", filepath.Join(folder, "linked"))))
	seen := map[string]bool{}
	for _, text := range []string{"one", "another"} {
		check(t, os.WriteFile(outside, []byte(text), 0o644))
		of, err := new(Sums).Of(t.Context(), folder)
		through, also := new(Sums).Of(t.Context(), link)
		check(t, errors.Join(err, also))
		if of != through {
			t.Errorf("the folder is %s, and through a link %s", of, through)
		}
		seen[of] = true
	}
	if len(seen) != 2 {
		t.Error("what a link in the folder means makes no difference")
	}
}
