package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/lock"
	"hclbench/plan"
)

// labFlags are the flags of every verb that reads a lab.
type labFlags struct {
	vars     []string
	varFiles []string
}

func (f *labFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.vars, "var", nil, "set a variable, `name=value`; may be repeated")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "read variables from a `file`; may be repeated")
}

// lab is a lab that was opened. There is no other way to open one, so that every
// verb sees the same lab.
type lab struct {
	text     *hcl.Config // what the text says; nil: it has mistakes
	problems *hcl.Problems

	locked   *lock.File // nil: there is no hcl.lock, or it cannot be read
	lockText []byte     // as it was read
	lockErr  error      // why it cannot be read: nothing can be planned

	sums    *lock.Sums
	plans   *hcl.Config        // see [lab.planned]
	strange map[dataFile]error // data files that are not what they are said to be
}

// dataFile is a file that a data set reads, and the checksum that it should have.
type dataFile struct{ path, sha256 string }

// openLab opens the lab at the path that args name. Mistakes and warnings are
// printed; with a mistake there is no lab.
func (a *app) openLab(f labFlags, args []string) (*lab, error) {
	l, err := a.readLab(f, args)
	if err != nil {
		return nil, err
	}
	if err := a.show(l.problems); err != nil {
		return nil, err
	}
	if l.text == nil {
		return nil, &exit{code: exitUsage}
	}
	return l, nil
}

// readLab is openLab without a word; the lab may have mistakes.
func (a *app) readLab(f labFlags, args []string) (*lab, error) {
	src, err := hcl.Read(labPath(args))
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	l := &lab{sums: a.checksums()}
	if l.locked, l.lockText, err = lock.Read(src.Dir); err != nil {
		l.lockErr = &exit{exitUsage, err}
	}
	if l.locked != nil {
		src.Locked = map[string]bool{}
		for image := range l.locked.Images {
			src.Locked[image] = true
		}
	}
	l.text, l.problems = hcl.Load(src, hcl.Vars{Files: f.varFiles, Values: f.vars, Env: os.Environ()})
	return l, nil
}

// checksums are those of data files, kept in the user's cache: nobody waits twice for
// 10 GB.
func (a *app) checksums() *lock.Sums {
	const large = 1 << 30
	file := ""
	if dir, err := os.UserCacheDir(); err == nil {
		file = filepath.Join(dir, "hcl", "sums.json")
	}
	return lock.KeepSums(file, func(path string, bytes int64) {
		if bytes >= large {
			a.logger().Info("taking the checksum of a data file", "file", relative(path), "size", size(bytes))
		}
	})
}

// show prints problems of a lab's text.
func (a *app) show(p *hcl.Problems) error {
	return p.Write(a.stderr, a.width(100), a.colours())
}

func labPath(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

// labDir is the directory of the lab at the path that args name.
func labDir(args []string) string {
	path := labPath(args)
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		return filepath.Dir(path)
	}
	return path
}

// lockPath is where the lab's hcl.lock is, for people.
func (l *lab) lockPath() string { return relative(filepath.Join(l.text.Dir, lock.Name)) }

// planned is what is planned of the lab, by whatever verb: its text with the images,
// models and data files that hcl.lock says, and with the checksums of all data files,
// so that another content is another cell. What is not there is left to who reads it.
func (l *lab) planned(ctx context.Context) (*hcl.Config, error) {
	if l.plans != nil {
		return l.plans, nil
	}
	if l.lockErr != nil {
		return nil, l.lockErr
	}
	f := l.locked
	if f == nil {
		f = lock.New(version)
	}
	cfg := pin(l.text, f)
	sums, err := l.checksums(ctx, cfg, f)
	if err != nil {
		return nil, err
	}
	strange := map[dataFile]error{}
	for i, b := range cfg.Benchmarks {
		for j := range b.Cells {
			d := &cfg.Benchmarks[i].Cells[j].Workload.Dataset
			said, by := strings.ToLower(d.SHA256), "the lab"
			if said == "" {
				said, by = strings.TrimPrefix(f.Datasets[d.Path], "sha256:"), l.lockPath()
			}
			wrong := differs(sums[d.Path], said, by)
			d.SHA256 = cmp.Or(said, sums[d.Path])
			if d.Kind == load.Text { // it reads less than there is, which has a checksum of its own
				d.SHA256 = sums[asText+d.Path]
			}
			if wrong != nil {
				strange[dataFile{d.Path, d.SHA256}] = wrong
			}
			said = strings.TrimPrefix(f.Datasets[d.Tokenizer], "sha256:")
			wrong = differs(sums[d.Tokenizer], said, l.lockPath())
			d.TokenizerSHA256 = cmp.Or(said, sums[d.Tokenizer])
			if wrong != nil {
				strange[dataFile{d.Tokenizer, d.TokenizerSHA256}] = wrong
			}
		}
	}
	l.plans, l.strange = cfg, strange
	return cfg, nil
}

// differs is what is wrong with a file's checksum; nil where one of the two is not
// known.
func differs(is, said, by string) error {
	if is == "" || said == "" || is == said {
		return nil
	}
	return fmt.Errorf("its sha256 is %s, and not %s as %s says", is, said, by)
}

// local is where a path of the lab lies.
func (l *lab) local(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.text.Dir, path)
}

// asText goes before the path of a text, for the checksum of what is read of it.
const asText = "text "

// checksums are those of what the data sets read, by path, in hex; of a text also
// that of what is read of it, and of all of it only where the lock has that.
func (l *lab) checksums(ctx context.Context, cfg *hcl.Config, f *lock.File) (map[string]string, error) {
	sums := map[string]*string{}
	var all errgroup.Group
	const atOnce = 4
	all.SetLimit(atOnce)
	find := func(name string, sum func() (string, error)) {
		if sums[name] != nil {
			return
		}
		found := new(string)
		sums[name] = found
		all.Go(func() error {
			if s, err := sum(); err == nil {
				*found = strings.TrimPrefix(s, "sha256:")
			}
			return ctx.Err()
		})
	}
	for _, b := range cfg.Benchmarks {
		for _, c := range b.Cells {
			d := c.Workload.Dataset
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
	}
	err := all.Wait()
	out := map[string]string{}
	for name, sum := range sums {
		out[name] = *sum
	}
	return out, err
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
	if len(errs) > 0 {
		return &exit{exitUsage, errors.Join(errs...)}
	}
	return nil
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

// pin is the lab with what is locked put in: images by digest beside their tag,
// models by commit, data sets by checksum. The lab itself stays as it is.
func pin(cfg *hcl.Config, f *lock.File) *hcl.Config {
	out := *cfg
	models := map[*engines.Model]*engines.Model{}
	model := func(e *engines.Engine) *engines.Model {
		if !fromHub(e) {
			return e.Model
		}
		if models[e.Model] == nil {
			pinned := *e.Model
			pinned.Revision = cmp.Or(f.Models[lock.Model{Repo: pinned.Repo, Revision: pinned.Revision}.Key()], pinned.Revision)
			models[e.Model] = &pinned
		}
		return models[e.Model]
	}
	image := func(name string) string {
		if digest := f.Images[name]; digest != "" {
			return name + "@" + digest
		}
		return name
	}
	all := map[*engines.Engine]*engines.Engine{}
	engine := func(e *engines.Engine) *engines.Engine {
		if e == nil || all[e] != nil {
			return all[e]
		}
		pinned := *e
		pinned.Image = image(e.Image)
		if e.Build != nil {
			build := *e.Build
			build.Image = image(build.Image)
			pinned.Build = &build
		}
		pinned.Model = model(e)
		all[e] = &pinned
		return &pinned
	}
	out.Engines, out.Benchmarks = nil, nil
	for _, e := range cfg.Engines {
		out.Engines = append(out.Engines, engine(e))
	}
	for _, b := range cfg.Benchmarks {
		cells := make([]hcl.Cell, len(b.Cells))
		for i, c := range b.Cells {
			c.Engine = engine(c.Engine)
			cells[i] = c
		}
		b.Cells = cells
		out.Benchmarks = append(out.Benchmarks, b)
	}
	return &out
}
