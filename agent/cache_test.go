package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
)

// TestClear: what is old and unused goes, what is used or young stays.
func TestClear(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		age   time.Duration
		other bool // another lab's agent is at work
		want  []string
	}{
		"at the start of an agent": {keepFor, false, []string{"agents/b/agent.log", "agents/b/lock", "agents/mine", "bin/new", "builds/half.part/x", "builds/new/x", "files/half.part", "files/new"}},
		"by destroy --cache":       {0, false, []string{"agents/mine"}},
		"while another works":      {0, true, []string{"agents/b/agent.log", "agents/b/lock", "agents/mine", "bin/new", "builds/half.part/x", "builds/new/x", "files/half.part", "files/new"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, age := range map[string]time.Duration{
				"bin/new": time.Hour, "bin/old": 40 * day, "bin/.old.hcl-X": 2 * day,
				"files/new": time.Hour, "files/old": 40 * day, "files/half.part": time.Hour, "files/dead.part": 2 * day, "files/.dead.part.hcl-X": 2 * day,
				"builds/new/x": time.Hour, "builds/old/x": 40 * day, "builds/half.part/x": time.Hour,
				"agents/a/agent.log": 40 * day, "agents/a/lock": 40 * day,
				"agents/b/agent.log": time.Hour, "agents/b/lock": 40 * day,
				"agents/mine/": time.Hour,
			} {
				file := filepath.Join(root, path)
				check(t, os.MkdirAll(filepath.Dir(file), 0o700))
				if path[len(path)-1] == '/' {
					check(t, os.MkdirAll(file, 0o700))
				} else if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				when := time.Now().Add(-age)
				if strings.HasPrefix(path, "builds/") {
					file = filepath.Dir(file)
				}
				check(t, os.Chtimes(file, when, when))
			}
			if c.other {
				lock := flock.New(filepath.Join(root, "agents/b/lock"))
				if ok, err := lock.TryLock(); !ok {
					t.Fatal(err)
				}
				defer lock.Close()
			}
			s := cache{own: filepath.Join(root, "agents/mine"), root: root, log: slog.New(slog.DiscardHandler)}
			check(t, s.clear(c.age))
			var left []string
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if rel, _ := filepath.Rel(root, path); !d.IsDir() || rel == "agents/mine" {
					left = append(left, rel)
				}
				return err
			})
			check(t, err)
			slices.Sort(left)
			if diff := cmp.Diff(c.want, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlace brings a file and a folder to a host: whole, once, and under a name
// that follows from what is in them.
func TestPlace(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	c := local(t)
	from := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(from, name)
		check(t, os.MkdirAll(filepath.Dir(file), 0o755))
		check(t, os.WriteFile(file, []byte(text), 0o644))
	}
	place := func(path string) string {
		t.Helper()
		remote, err := Place(t.Context(), c, path)
		check(t, err)
		return remote
	}
	read := func(path, want string) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v, want %q", path, b, err, want)
		}
	}

	write("one.json", "1")
	one := place(filepath.Join(from, "one.json"))
	read(one, "1")
	if again := place(filepath.Join(from, "one.json")); again != one {
		t.Errorf("the same file is at %s, then at %s", one, again)
	}

	write("texts/a.txt", "A")
	write("texts/deep/b.txt", "B")
	texts := place(filepath.Join(from, "texts"))
	read(filepath.Join(texts, "a.txt"), "A")
	read(filepath.Join(texts, "deep", "b.txt"), "B")

	write("texts/deep/b.txt", "another B")
	if changed := place(filepath.Join(from, "texts")); changed == texts {
		t.Error("a folder with other content is taken for the same")
	} else {
		read(filepath.Join(changed, "deep", "b.txt"), "another B")
	}
	read(filepath.Join(texts, "deep", "b.txt"), "B")

	// As in every cache of Hugging Face's: names are links to what has them.
	link := func(to, name string) {
		t.Helper()
		check(t, os.Symlink(to, filepath.Join(from, name)))
	}
	link("one.json", "link.json")
	read(place(filepath.Join(from, "link.json")), "1")
	link("../one.json", "texts/c.txt")
	link("texts", "more")
	read(filepath.Join(place(filepath.Join(from, "more")), "c.txt"), "1")
	link("deep", "texts/again")
	for name, says := range map[string]string{"texts": "a link to a folder", "none": "no such file", "nothing": "there is no file"} {
		check(t, os.MkdirAll(filepath.Join(from, "nothing"), 0o755))
		if _, err := Place(t.Context(), c, filepath.Join(from, name)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".cache/hcl/files/*.part"))
	if err != nil || len(left) > 0 {
		t.Errorf("parts are left: %v, %v", left, err)
	}

	// What a call that was broken off has left is not taken over.
	write("last/a.txt", "A")
	_, sum, err := inventory(filepath.Join(from, "last"))
	check(t, err)
	half := filepath.Join(os.Getenv("HOME"), ".cache/hcl/files", sum+".part")
	check(t, os.MkdirAll(half, 0o700))
	check(t, os.WriteFile(filepath.Join(half, ".a.txt.hcl-X"), nil, 0o600))
	last := place(filepath.Join(from, "last"))
	if got, err := os.ReadDir(last); err != nil || len(got) != 1 || got[0].Name() != "a.txt" {
		t.Errorf("placed are %v, %v, want a.txt alone", got, err)
	}
}

// TestPlaceBrokenOff: who gives up between the files of a folder leaves nothing of it on the host.
func TestPlaceBrokenOff(t *testing.T) {
	home, bin := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	c := local(t)
	from, began := t.TempDir(), filepath.Join(bin, "began")
	check(t, os.WriteFile(filepath.Join(from, "a.txt"), []byte("A"), 0o644))
	check(t, os.WriteFile(filepath.Join(from, "b.txt"), []byte("B"), 0o644))
	check(t, syscall.Mkfifo(began, 0o600))
	check(t, os.WriteFile(filepath.Join(bin, "sync"), []byte("#!/bin/sh\necho >"+began+"\nexec sleep 1000\n"), 0o755))
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		os.ReadFile(began) // the first file is there, and not yet whole
		interrupt()
	}()
	if _, err := Place(ctx, c, from); !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(home, root, "files", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
