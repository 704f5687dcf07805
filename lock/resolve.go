package lock

import (
	"context"
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
	add := func(sort string, names []string, locked map[string]string) {
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			out = append(out, Entry{Sort: sort, Name: name, Old: locked[name]})
		}
	}
	var models []string
	for _, m := range w.Models {
		models = append(models, m.Key())
	}
	add(SortImage, slices.Clone(w.Images), old.Images)
	add(SortModel, models, old.Models)
	add(SortDataset, slices.Clone(w.Datasets), old.Datasets)
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
	sums := r.Sums
	if sums == nil {
		sums = new(Sums)
	}
	return sums.Of(ctx, path)
}

// Merge is the lock after the entries were asked: what is new or moved is as it
// is now, everything else as before. upgrade also moves the version of hcl, and
// drops names that the lab does not use; without it they are kept, for with
// other variables the lab may name them.
func Merge(old *File, entries []Entry, upgrade bool) *File {
	out := New("")
	if old != nil && !upgrade {
		for _, part := range []struct{ to, from map[string]string }{
			{out.Images, old.Images}, {out.Models, old.Models}, {out.Datasets, old.Datasets},
		} {
			for name, value := range part.from {
				part.to[name] = value
			}
		}
	}
	for _, e := range entries {
		value := e.New
		if value == "" || e.Sort == SortHCL && e.Old != "" && !upgrade {
			value = e.Old
		}
		if value == "" {
			continue
		}
		switch e.Sort {
		case SortHCL:
			out.HCL = value
		case SortImage:
			out.Images[e.Name] = value
		case SortModel:
			out.Models[e.Name] = value
		case SortDataset:
			out.Datasets[e.Name] = value
		}
	}
	return out
}
