package lock

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/origin"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const commit = "56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad"

func TestDataset(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{"a.json": "hello\n", "books/1.txt": "one", "books/in/2.txt": "two"} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644))
	}
	r := &Resolver{Dir: dir}
	// printf 'hello\n' | sha256sum
	if got, err := r.Dataset(t.Context(), "a.json"); err != nil || got != "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" {
		t.Errorf("Dataset = %q, %v", got, err)
	}
	before, err := r.Dataset(t.Context(), "books")
	check(t, err)
	check(t, os.Rename(filepath.Join(dir, "books/1.txt"), filepath.Join(dir, "books/3.txt")))
	if after, err := r.Dataset(t.Context(), "books"); err != nil || after == before {
		t.Errorf("the folder's sum is the same under another name: %v", err)
	}
	if _, err := r.Dataset(t.Context(), "none.json"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want ErrNotExist", err)
	}
	if _, err := r.Dataset(t.Context(), "/dev/zero"); err == nil {
		t.Error("a device was read")
	}
}

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func TestFile(t *testing.T) {
	dir := t.TempDir()
	if f, _, err := Read(dir); f != nil || err != nil {
		t.Fatalf("Read without a file = %v, %v", f, err)
	}
	f := New("v0.3")
	f.Images["b:1"], f.Images["a:1"] = digest("b"), digest("a")
	f.Models["org/x@main"] = commit
	f.Datasets["data/s.json"] = digest("c")
	check(t, f.Write(dir))
	b, err := os.ReadFile(filepath.Join(dir, Name))
	check(t, err)
	want := `{
  "format_version": "1.0",
  "hcl": "v0.3",
  "images": {
    "a:1": "` + digest("a") + `",
    "b:1": "` + digest("b") + `"
  },
  "models": {
    "org/x@main": "` + commit + `"
  },
  "datasets": {
    "data/s.json": "` + digest("c") + `"
  }
}
`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("hcl.lock (-want +got):\n%s", diff)
	}
	got, text, err := Read(dir)
	check(t, err)
	if diff := cmp.Diff(f, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if string(text) != want {
		t.Errorf("its text is %q", text)
	}
}

func TestBrokenFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":  "EOF",
		"{": "EOF",
		"{\n\"format_version\": \"1.0\",\n\"images\" {}}": "line 3",
		"<<<<<<< HEAD\n{}":            "a merge has left its marks",
		`{"format_version": "2.0"}`:   "this hcl knows 1.0",
		`{}`:                          `format_version is ""`,
		`{"format_version": "1.0"} x`: "after the closing brace",
		`{"format_version": "1.0", "images": {"a": "v1"}}`:            "the image a is locked to \"v1\"",
		`{"format_version": "1.0", "models": {"m": "main"}}`:          "a commit of 40 hex digits",
		`{"format_version": "1.0", "images": {"a": "sha256:012345"}}`: "64 hex digits",
	} {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, Name), []byte(text), 0o644))
		if _, _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hcl.lock") {
			t.Errorf("Read of %q: %v, want %q", text, err, want)
		}
	}
}

func TestEntriesAskMerge(t *testing.T) {
	sum := digest("a")
	places := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v2/team/server/manifests/v1":
			w.Header().Set("Docker-Content-Digest", sum)
		case "/api/models/org/open/revision/main":
			fmt.Fprintf(w, `{"sha":%q}`, commit)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer places.Close()
	image := strings.TrimPrefix(places.URL, "http://") + "/team/server:v1"
	r := &Resolver{Hub: origin.Hub{URL: places.URL}}
	wants := Wants{HCL: "v2", Images: []string{image, image}, Models: []Model{{"org/open", ""}, {"org/none", ""}}}

	fresh := r.Ask(t.Context(), wants.Entries(nil), nil)
	if len(fresh) != 4 || fresh[1].New != sum || !errors.Is(fresh[2].Err, origin.ErrNotFound) || fresh[3].New != commit {
		t.Fatalf("entries = %+v", fresh)
	}
	first := Merge(nil, fresh, false)
	want := New("v2")
	want.Images[image], want.Models["org/open"] = sum, commit
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first lock (-want +got):\n%s", diff)
	}

	old := New("v1")
	old.Images[image], old.Images["gone:1"] = digest("0"), digest("1")
	missing := r.Ask(t.Context(), wants.Entries(old), func(e Entry) bool { return e.Old == "" })
	if missing[1].New != "" || missing[1].Moved() {
		t.Errorf("what is locked was asked again: %+v", missing[1])
	}
	kept := Merge(old, missing, false)
	want = New("v1")
	want.Images[image], want.Images["gone:1"], want.Models["org/open"] = digest("0"), digest("1"), commit
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("lock with what was missing (-want +got):\n%s", diff)
	}
	all := r.Ask(t.Context(), wants.Entries(old), nil)
	if !all[0].Moved() || !all[1].Moved() || all[3].Moved() {
		t.Errorf("moved: %+v", all)
	}
	if diff := cmp.Diff(first, Merge(old, all, true)); diff != "" {
		t.Errorf("upgraded lock (-want +got):\n%s", diff)
	}
}
