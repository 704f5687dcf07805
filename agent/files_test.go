package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
}
