// Package lock keeps what the names in a lab meant on one day: which digest an
// image's tag, which commit a model's branch, which checksum a file of prompts
// had. It is the format of hcl.lock and the questions that fill it.
//
// It asks registries and the model hub for names and gets numbers back. It pulls
// nothing, and knows nothing of labs, engines or hosts.
package lock

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sync/errgroup"

	"hclbench/origin"
)

// Name of the file beside the lab.
const Name = "hcl.lock"

// FormatVersion of the file: a change of the minor number adds, one of the major number breaks.
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

// Resolver asks what names mean today.
type Resolver struct {
	Registries origin.Registries
	Hub        origin.Hub
	Dir        string // what paths of data sets are relative to
	Sums       *Sums  // nil: checksums are not kept
}

// Wants is what a lab names and a lock should hold.
type Wants struct {
	HCL      string // this version
	Images   []string
	Models   []Model
	Datasets []string // paths
}

// Model is a model repository and its revision, a branch or tag; empty is the
// repository's default.
type Model struct{ Repo, Revision string }

// Key is the model's name in the lock.
func (m Model) Key() string {
	if m.Revision == "" {
		return m.Repo
	}
	return m.Repo + "@" + m.Revision
}

// The sorts of things in a lock.
const (
	SortHCL     = "hcl"
	SortImage   = "image"
	SortModel   = "model"
	SortDataset = "dataset"
)

// sorts are those that have a part of the file, in its order.
var sorts = []string{SortImage, SortModel, SortDataset}

// Entry is one name and what it means: before, in the lock, and now.
type Entry struct {
	Sort string // [SortHCL], [SortImage], [SortModel] or [SortDataset]
	Name string
	Old  string // "": it is not in the lock
	New  string // "": it was not asked, or Err says why it is not known
	Err  error
}

// Moved reports whether the name means something else than the lock says.
func (e Entry) Moved() bool { return e.Old != "" && e.New != "" && e.Old != e.New }

// Entries lists what the lab names, in the order of the file, beside what the
// lock says of it; old may be nil.
func (w Wants) Entries(old *File) []Entry {
	if old == nil {
		old = New("")
	}
	out := []Entry{{Sort: SortHCL, Name: SortHCL, Old: old.HCL, New: w.HCL}}
	names := map[string][]string{SortImage: slices.Clone(w.Images), SortDataset: slices.Clone(w.Datasets)}
	for _, m := range w.Models {
		names[SortModel] = append(names[SortModel], m.Key())
	}
	for _, sort := range sorts {
		slices.Sort(names[sort])
		for _, name := range slices.Compact(names[sort]) {
			out = append(out, Entry{Sort: sort, Name: name, Old: old.part(sort)[name]})
		}
	}
	return out
}

// atOnce is how many questions are under way at a time.
const atOnce = 8

// Ask fills in what the entries that ask picks mean today; nil picks all. Some questions are
// asked at the same time; an entry whose question was not answered has an Err.
func (r *Resolver) Ask(ctx context.Context, entries []Entry, ask func(Entry) bool) []Entry {
	out := slices.Clone(entries)
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i := range out {
		e := &out[i]
		if e.Sort == SortHCL || ask != nil && !ask(*e) {
			continue
		}
		all.Go(func() error {
			switch e.Sort {
			case SortImage:
				e.New, e.Err = r.Registries.Digest(ctx, e.Name)
			case SortModel:
				repo, revision, _ := strings.Cut(e.Name, "@")
				e.New, e.Err = r.Hub.Commit(ctx, repo, revision)
			case SortDataset:
				e.New, e.Err = r.Dataset(ctx, e.Name)
			}
			return nil // it is the entry's
		})
	}
	all.Wait()
	return out
}

// Dataset is the checksum of a data set's file or folder, as [Sums.Of] takes it.
func (r *Resolver) Dataset(ctx context.Context, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Dir, path)
	}
	return cmp.Or(r.Sums, new(Sums)).Of(ctx, path)
}

// Merge is the lock after the entries were asked: what is new or moved is as it is now,
// everything else as before. upgrade also moves the version of hcl, and drops names that the
// lab does not use; without it they are kept, for with other variables the lab may name them.
func Merge(old *File, entries []Entry, upgrade bool) *File {
	out := New("")
	if old != nil && !upgrade {
		for _, sort := range sorts {
			maps.Copy(out.part(sort), old.part(sort))
		}
	}
	for _, e := range entries {
		value := e.New
		if value == "" || e.Sort == SortHCL && e.Old != "" && !upgrade {
			value = e.Old
		}
		if e.Sort == SortHCL {
			out.HCL = value
		} else if value != "" {
			out.part(e.Sort)[e.Name] = value
		}
	}
	return out
}
