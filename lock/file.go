// Package lock keeps what the names in a lab meant on one day: which digest an
// image's tag, which commit a model's branch, which checksum a file of prompts
// had. It is the format of hcl.lock and the questions that fill it.
//
// It asks registries and the model hub for names and gets numbers back. It pulls
// nothing, and knows nothing of labs, engines or hosts.
package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"
)

// Name of the file beside the lab.
const Name = "hcl.lock"

// FormatVersion of the file: a change of the minor number adds, one of the major
// number breaks.
const FormatVersion = "1.0"

// File is what hcl.lock holds.
type File struct {
	FormatVersion string            `json:"format_version"`
	HCL           string            `json:"hcl"`      // the version that wrote it
	Images        map[string]string `json:"images"`   // as the lab writes them → "sha256:…" of the manifest
	Models        map[string]string `json:"models"`   // "repository", or "repository@revision" → commit
	Datasets      map[string]string `json:"datasets"` // path as the lab writes it → "sha256:…" of the file
}

// New is a file without entries.
func New(hcl string) *File {
	return &File{FormatVersion, hcl, map[string]string{}, map[string]string{}, map[string]string{}}
}

// part is what the file has of a sort of things.
func (f *File) part(sort string) map[string]string {
	return map[string]map[string]string{SortImage: f.Images, SortModel: f.Models, SortDataset: f.Datasets}[sort]
}

// Read reads hcl.lock in a directory, and returns it with its text. Without one it
// returns nil and no error.
func Read(dir string) (*File, []byte, error) {
	path := filepath.Join(dir, Name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read lock: %w", err)
	}
	f, err := parse(b)
	if err != nil {
		return nil, nil, fmt.Errorf("read lock %s: %w; mend it, or remove it and write another with hcl lock", path, err)
	}
	return f, b, nil
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

func parse(b []byte) (*File, error) {
	f := New("")
	f.FormatVersion = ""
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(f); err != nil {
		if bytes.Contains(b, []byte("<<<<<<<")) {
			return nil, errors.New("a merge has left its marks in it")
		}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(b[:min(int(syntax.Offset), len(b))], []byte("\n")), err)
		}
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something stands after the closing brace")
	}
	if major, _, _ := strings.Cut(f.FormatVersion, "."); major != "1" {
		return nil, fmt.Errorf("its format_version is %q, and this hcl knows %s", f.FormatVersion, FormatVersion)
	}
	for _, sort := range sorts {
		form, example := digestForm, "sha256 and 64 hex digits"
		if sort == SortModel {
			form, example = commitForm, "a commit of 40 hex digits"
		}
		for name, value := range f.part(sort) {
			if !form.MatchString(value) {
				return nil, fmt.Errorf("the %s %s is locked to %q, which is not %s", sort, name, value, example)
			}
		}
	}
	return f, nil
}

// Write writes hcl.lock in a directory, whole or not at all. Equal files are
// equal bytes: entries are sorted.
func (f *File) Write(dir string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(f)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, Name), b.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

// Commit reports whether a revision is a whole commit, which means the same for
// ever and needs no lock.
func Commit(revision string) bool { return commitForm.MatchString(revision) }
