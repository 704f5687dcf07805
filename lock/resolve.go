package lock

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// HuggingFace is the model hub.
const HuggingFace = "https://huggingface.co"

// Resolver asks what names mean today.
type Resolver struct {
	HTTP         *http.Client // nil: [http.DefaultClient]; ctx bounds a request
	Hub          string       // URL of the model hub; empty: [HuggingFace]
	HubToken     string       // for models that want one
	DockerConfig string       // directory of Docker's config.json with logins; empty: none are used
	Dir          string       // what paths of data sets are relative to
	UserAgent    string
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

// Ask fills in what the entries that ask picks mean today; nil picks all. The
// questions are asked at the same time; an entry whose question was not answered
// has an Err.
func (r *Resolver) Ask(ctx context.Context, entries []Entry, ask func(Entry) bool) []Entry {
	out := slices.Clone(entries)
	var all sync.WaitGroup
	for i := range out {
		e := &out[i]
		if e.Sort == SortHCL || ask != nil && !ask(*e) {
			continue
		}
		all.Go(func() {
			switch e.Sort {
			case SortImage:
				e.New, e.Err = r.Image(ctx, e.Name)
			case SortModel:
				repo, revision, _ := strings.Cut(e.Name, "@")
				e.New, e.Err = r.Model(ctx, Model{repo, revision})
			case SortDataset:
				e.New, e.Err = r.Dataset(ctx, e.Name)
			}
		})
	}
	all.Wait()
	return out
}

// Model asks the hub for the commit that a revision is today. Errors wrap
// [ErrNotFound], [ErrAccess] or [ErrNotReachable] where they are that.
func (r *Resolver) Model(ctx context.Context, m Model) (string, error) {
	commit, err := r.commit(ctx, m)
	if err != nil {
		return "", fmt.Errorf("ask %s for model %s: %w", strings.TrimPrefix(r.hub(), "https://"), m.Key(), err)
	}
	return commit, nil
}

func (r *Resolver) hub() string {
	if r.Hub == "" {
		return HuggingFace
	}
	return strings.TrimRight(r.Hub, "/")
}

func (r *Resolver) commit(ctx context.Context, m Model) (string, error) {
	// The default branch is main on every repository of the hub.
	revision := m.Revision
	if revision == "" {
		revision = "main"
	}
	var parts []string
	for part := range strings.SplitSeq(m.Repo, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.hub()+"/api/models/"+strings.Join(parts, "/")+"/revision/"+url.PathEscape(revision), nil)
	if err != nil {
		return "", err
	}
	if r.HubToken != "" {
		req.Header.Set("Authorization", "Bearer "+r.HubToken)
	}
	resp, err := r.do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", fmt.Errorf("%w: there is no such repository or revision", ErrNotFound)
	case http.StatusUnauthorized, http.StatusForbidden:
		hint := "the token in HF_TOKEN may not see it"
		if r.HubToken == "" {
			hint = "if it wants a token, set HF_TOKEN"
		}
		return "", fmt.Errorf("%w: it is private, or there is no such repository; %s", ErrAccess, hint)
	default:
		return "", answered(resp)
	}
	var answer struct {
		SHA string `json:"sha"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	if !Commit(answer.SHA) {
		return "", fmt.Errorf("the answer's sha %q is not a commit", answer.SHA)
	}
	return answer.SHA, nil
}

// Dataset is the SHA-256 of a file, "sha256:…", however large it is; of a folder
// that of the sorted lines "SUM  PATH" of all files in it.
func (r *Resolver) Dataset(ctx context.Context, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.Dir, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	}
	if !info.IsDir() {
		return sumOf(ctx, path)
	}
	all := sha256.New()
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		sum, err := sumOf(ctx, name)
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

func sumOf(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read data set: %s is not a regular file", path)
	}
	h := sha256.New()
	if _, err := io.Copy(h, withContext{ctx, f}); err != nil {
		return "", fmt.Errorf("read data set: %w", err)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}

// withContext is a reader that ends with a context.
type withContext struct {
	ctx context.Context
	r   io.Reader
}

func (r withContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

func (r *Resolver) do(req *http.Request) (*http.Response, error) {
	client := r.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	if r.UserAgent != "" {
		req.Header.Set("User-Agent", r.UserAgent)
	}
	resp, err := client.Do(req)
	if err != nil {
		if ctxErr := req.Context().Err(); ctxErr != nil {
			return nil, ctxErr
		}
		var wrapped *url.Error // its text repeats the method and a URL that may hold a token
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%w: %w", ErrNotReachable, err)
	}
	return resp, nil
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
