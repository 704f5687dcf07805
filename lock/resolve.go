package lock

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"hclbench/origin"
)

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

// Ask fills in what the entries that ask picks mean today; nil picks all. Some
// questions are asked at the same time; an entry whose question was not answered has
// an Err.
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

// Merge is the lock after the entries were asked: what is new or moved is as it
// is now, everything else as before. upgrade also moves the version of hcl, and
// drops names that the lab does not use; without it they are kept, for with
// other variables the lab may name them.
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
