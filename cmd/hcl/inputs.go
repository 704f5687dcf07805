package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"hclbench/hcl"
	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/lock"
	"hclbench/plain"
	"hclbench/plan"
)

// dataFile is a file that a data set reads, and the checksum that it should have.
type dataFile struct{ path, sha256 string }

func datasets(cfg *hcl.Config) iter.Seq[*load.Dataset] {
	return func(yield func(*load.Dataset) bool) {
		for _, b := range cfg.Benchmarks {
			for i := range b.Cells {
				if !yield(&b.Cells[i].Workload.Dataset) {
					return
				}
			}
		}
	}
}

// checksums are those of data files, kept in the user's cache: nobody waits twice for 10 GB.
func checksums(t *console) *lock.Sums {
	const large = 1 << 30
	file := ""
	if dir, err := os.UserCacheDir(); err == nil {
		file = filepath.Join(dir, "hcl", "sums.json")
	}
	return lock.KeepSums(file, func(path string, bytes int64) {
		if bytes >= large {
			t.logger().Info("taking the checksum of a data file", "file", relative(path), "size", plain.Bytes(bytes))
		}
	})
}

// fingerprint gives the data sets of what is planned the checksums of their files, and
// keeps which files are not what the lab or the lock says of them.
func (l *lab) fingerprint(ctx context.Context, cfg *hcl.Config, f *lock.File) error {
	is, err := l.contents(ctx, cfg, f)
	if err != nil {
		return err
	}
	l.strange = map[dataFile]error{}
	hold := func(file dataFile, got, want, by string) {
		if got != "" && want != "" && got != want {
			l.strange[file] = fmt.Errorf("its sha256 is %s, and not %s as %s says", got, want, by)
		}
	}
	locked := func(path string) string { return strings.TrimPrefix(f.Datasets[path], "sha256:") }
	for d := range datasets(cfg) {
		said := strings.ToLower(d.SHA256)
		read, sum := is(d.Path), cmp.Or(locked(d.Path), is(d.Path))
		if d.Kind == load.Text { // what is read of it; all of it has a checksum of its own, and the lock that
			read = is(asText + d.Path)
			sum = read
		}
		d.SHA256 = cmp.Or(said, sum)
		if said != "" {
			hold(dataFile{d.Path, said}, read, said, "the lab")
		} else {
			hold(dataFile{d.Path, sum}, is(d.Path), locked(d.Path), l.lockPath())
		}
		d.TokenizerSHA256 = cmp.Or(locked(d.Tokenizer), is(d.Tokenizer))
		hold(dataFile{d.Tokenizer, d.TokenizerSHA256}, is(d.Tokenizer), locked(d.Tokenizer), l.lockPath())
		d.ImageDirSHA256 = cmp.Or(locked(d.ImageDir), is(d.ImageDir))
		hold(dataFile{d.ImageDir, d.ImageDirSHA256}, is(d.ImageDir), locked(d.ImageDir), l.lockPath())
	}
	return nil
}

func (l *lab) local(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.text.Dir, path)
}

// asText goes before the path of a text, for the checksum of what is read of it.
const asText = "text "

// contents are the checksums of what the data sets read, by path, in hex; of a text also
// that of what is read of it, and of all of it only where the lock has that.
func (l *lab) contents(ctx context.Context, cfg *hcl.Config, f *lock.File) (is func(path string) string, err error) {
	var sums sync.Map
	var all errgroup.Group
	const atOnce = 4
	all.SetLimit(atOnce)
	find := func(name string, sum func() (string, error)) {
		if _, asked := sums.LoadOrStore(name, ""); asked {
			return
		}
		all.Go(func() error {
			if s, err := sum(); err == nil {
				sums.Store(name, strings.TrimPrefix(s, "sha256:"))
			}
			return ctx.Err()
		})
	}
	for d := range datasets(cfg) {
		for _, path := range d.Inputs() {
			if path == d.Path && d.Kind == load.Text {
				find(asText+path, func() (string, error) { return prompts.TextSum(l.local(path)) })
				if f.Datasets[path] == "" {
					continue
				}
			}
			find(path, func() (string, error) { return l.sums.Of(ctx, l.local(path)) })
		}
	}
	return func(path string) string {
		sum, _ := sums.Load(path)
		text, _ := sum.(string)
		return text
	}, all.Wait()
}

// inputs are the data files that cells to be measured read and that are not there,
// and those that are not what the lab or hcl.lock says of them.
func (l *lab) inputs(p *plan.Plan) (missing, strange []error) {
	seen := map[dataFile]bool{}
	check := func(c *plan.Cell, f dataFile) {
		if f.path == "" || seen[f] {
			return
		}
		seen[f] = true
		if err := l.strange[f]; err != nil {
			strange = append(strange, fmt.Errorf("benchmark %s reads %s: %w", c.Benchmark, f.path, err))
		} else if _, err := os.Stat(p.Local(f.path)); err != nil {
			missing = append(missing, fmt.Errorf("benchmark %s reads %s: %w", c.Benchmark, f.path, err))
		}
	}
	for _, d := range p.Deployments {
		for _, c := range d.ToDo() {
			set := c.Task.Stored().Prompts().Dataset
			check(c, dataFile{set.Path, set.SHA256})
			check(c, dataFile{set.Tokenizer, set.TokenizerSHA256})
			check(c, dataFile{set.ImageDir, set.ImageDirSHA256})
		}
	}
	return missing, strange
}

// inputsThere refuses a plan whose data files are not there, not the right ones, or
// nothing that prompts can be made of: nothing is started before.
func (l *lab) inputsThere(p *plan.Plan) error {
	missing, strange := l.inputs(p)
	errs := append(missing, strange...)
	if len(errs) == 0 {
		errs = unusable(p)
	}
	return asUsage(errors.Join(errs...))
}

// unusable are the data files that cells to be measured read and that are of no use.
func unusable(p *plan.Plan) []error {
	var errs []error
	read := map[string]bool{}
	for _, d := range p.Deployments {
		for _, c := range d.ToDo() {
			set := c.Task.Stored().Prompts()
			job := set.Prompts(0)
			if l := c.Load(); l != nil {
				job = l.Job
			}
			job.Files = map[string]string{}
			for _, path := range set.Dataset.Inputs() {
				job.Files[path] = p.Local(path)
			}
			key := fmt.Sprintf("%s %v %v", set.Dataset.Kind, job.Files, set.OutputTokens > 0)
			if len(job.Files) == 0 || read[key] {
				continue
			}
			read[key] = true
			if err := prompts.CheckInputs(job); err != nil {
				errs = append(errs, fmt.Errorf("benchmark %s: %w", c.Benchmark, err))
			}
		}
	}
	return errs
}
