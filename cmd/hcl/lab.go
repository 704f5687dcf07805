package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"hclbench/accuracy"
	"hclbench/apply"
	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/load/prompts"
	"hclbench/lock"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision/kube"
	"hclbench/results"
)

// labFlags say which lab a verb is about, set its variables, and say where its results are.
type labFlags struct {
	path     string // of its directory or file
	vars     []string
	varFiles []string
	store    string // see [labFlags.shared]
}

func (f *labFlags) addVars(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.vars, "var", nil, "set a variable, `name=value`; may be repeated")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "read variables from a `file`; may be repeated")
}

// addPath is for verbs whose argument is not the lab; more says what it is needed for.
func (f *labFlags) addPath(c *cobra.Command, more string) {
	c.Flags().StringVar(&f.path, "lab", ".", "the lab's `directory` or file"+more)
}

func (f *labFlags) named(args []string) {
	f.path = "."
	if len(args) > 0 {
		f.path = args[0]
	}
}

func (f labFlags) dir() string {
	if st, err := os.Stat(f.path); err == nil && !st.IsDir() {
		return filepath.Dir(f.path)
	}
	return f.path
}

func labVerb(name string, lab *labFlags, run func(context.Context) error) *cobra.Command {
	c := verb(name, atMost(1), func(ctx context.Context, args []string) error {
		lab.named(args)
		return run(ctx)
	})
	lab.addVars(c)
	return c
}

// lab is a lab that was opened. There is no other way to open one, so that every verb sees the same lab.
type lab struct {
	text     *hcl.Config // what the text says; nil: it has mistakes
	problems *lang.Problems

	locked   *lock.File // nil: there is no hcl.lock, or it cannot be read
	lockText []byte     // as it was read
	lockErr  error      // why it cannot be read: nothing can be planned

	sums    *lock.Sums
	plans   *hcl.Config             // see [lab.planned]
	strange map[plan.DataFile]error // data files that are not what they are said to be
}

// open opens the lab. Mistakes and warnings are printed; with a mistake there is no lab.
func (f labFlags) open(t *console) (*lab, error) {
	l, err := f.read(t)
	if err == nil {
		err = l.shown(t)
	}
	return l, err
}

// read is open without a word; the lab may have mistakes.
func (f labFlags) read(t *console) (*lab, error) {
	src, err := lang.Read(f.path)
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	l := &lab{sums: checksums(t)}
	l.locked, l.lockText, err = lock.Read(src.Dir)
	l.lockErr = asUsage(err)
	if l.locked != nil {
		src.Locked = map[string]bool{}
		for image := range l.locked.Images {
			src.Locked[image] = true
		}
	}
	l.text, l.problems = hcl.Load(src, lang.Vars{Files: f.varFiles, Values: f.vars, Env: os.Environ()})
	return l, nil
}

// shown prints the problems of the lab's text. A lab with mistakes is an error that has been printed.
func (l *lab) shown(t *console) error {
	if err := l.problems.Write(t.stderr, t.width(100), t.colours()); err != nil {
		return err
	}
	if l.text == nil {
		return &exit{code: exitUsage}
	}
	return nil
}

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
	cfg := plan.Locked(l.text, f)
	sums, err := l.contents(ctx, plan.Contents(cfg, f))
	if err != nil {
		return nil, err
	}
	l.strange = sums.Lock(cfg, f, l.lockPath())
	for _, h := range cfg.Hosts { // of manifests nothing else is known of what they run on
		if c := h.Cluster; c != nil && c.Is == "" {
			c.Is, _ = kube.Identity(c) // who opens it tells what is wrong
		}
	}
	l.plans = cfg
	return cfg, nil
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

func (l *lab) local(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.text.Dir, path)
}

// contents are the checksums of what the data sets read, as far as it is there.
func (l *lab) contents(ctx context.Context, of []plan.Content) (plan.Sums, error) {
	sums := make([]string, len(of))
	var all errgroup.Group
	const atOnce = 4
	all.SetLimit(atOnce)
	for i, c := range of {
		all.Go(func() (err error) {
			sum := ""
			if c.Read {
				sum, err = prompts.TextSum(l.local(c.Path))
			} else {
				sum, err = l.sums.Of(ctx, l.local(c.Path))
			}
			if err == nil {
				sums[i] = strings.TrimPrefix(sum, "sha256:")
			}
			return ctx.Err()
		})
	}
	err := all.Wait()
	found := plan.Sums{}
	for i, c := range of {
		found[c] = sums[i]
	}
	return found, err
}

// ofBlock is what is wrong with a file that a block of the lab reads.
type ofBlock struct {
	name string
	error
}

func (e *ofBlock) Unwrap() error { return e.error }

// inputs are the data files that cells to be measured read and that are not there,
// and those that are not what the lab or hcl.lock says of them.
func (l *lab) inputs(p *plan.Plan) (missing, strange []error) {
	for c, f := range p.Inputs() {
		reads := func(err error) error {
			return &ofBlock{c.Benchmark, fmt.Errorf("%s %s reads %s: %w", c.Block(), c.Benchmark, f.Path, err)}
		}
		if err := l.strange[f]; err != nil {
			strange = append(strange, reads(err))
		} else if _, err := os.Stat(p.Local(f.Path)); err != nil {
			missing = append(missing, reads(err))
		}
	}
	return missing, strange
}

// inputsThere refuses a plan whose data files are not there, not the right ones, or
// nothing that prompts can be made of: nothing is started before.
func (l *lab) inputsThere(p *plan.Plan) error {
	missing, strange := l.inputs(p)
	if p.Rehearsal && len(missing) > 0 {
		missing = append(missing, errors.New("a rehearsal makes up prompts, but nothing like these: fetch them, or rehearse the rest with --only"))
	}
	errs := append(missing, strange...)
	if len(errs) == 0 {
		errs = append(unusable(p), readQuestions(p)...)
	}
	return asUsage(errors.Join(errs...))
}

// unusable are the data files that cells to be measured read and that are of no use.
func unusable(p *plan.Plan) []error {
	var errs []error
	read := map[string]bool{}
	for _, d := range p.Deployments {
		for _, c := range d.ToDo() {
			if c.Eval() != nil { // see [lab.readQuestions]
				continue
			}
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

// readQuestions reads the questions that cells ask, so that the plan knows how many they are. It returns what is wrong with those
// that are to be asked.
func readQuestions(p *plan.Plan) (errs []error) {
	type read struct {
		questions, takes int
		err              error
	}
	known := map[string]read{}
	ask := func(e *plan.Eval, whose string, toDo bool) {
		key := fmt.Sprint(results.MembersOf(e.Spec))
		r, met := known[key]
		if !met {
			var set *accuracy.Set
			if set, r.err = apply.Questions(e, p.Local); r.err == nil {
				r.questions, r.takes = len(set.Questions), set.Takes()
			}
			known[key] = r
		}
		if e.Questions, e.Takes = r.questions, r.takes; !met && r.err != nil && toDo {
			errs = append(errs, &ofBlock{whose, fmt.Errorf("accuracy %s: %w", whose, r.err)})
		}
	}
	for _, d := range p.Deployments {
		for _, c := range d.Cells {
			if e := c.Eval(); e != nil {
				ask(e, c.Benchmark, c.Status != plan.Done)
			}
		}
	}
	for _, t := range p.Tunes {
		for _, c := range t.Guard {
			ask(c.Eval(), t.Accuracy, t.ToDo())
		}
	}
	return errs
}

// readChanges tells the plan how many answers have changed between each who is asked and its baseline when both were asked last.
func readChanges(ctx context.Context, store *results.Store, p *plan.Plan, lab string) error {
	asks := func(c *plan.Cell) bool { return c.Eval() != nil && c.Eval().Baseline != "" }
	if store == nil || !slices.ContainsFunc(p.Deployments, func(d *plan.Deployment) bool { return slices.ContainsFunc(d.Cells, asks) }) {
		return nil
	}
	scores, err := store.Scored(ctx, results.Query{Lab: lab, Latest: true}, nil)
	for _, d := range p.Deployments {
		for _, c := range d.Cells {
			for i := range scores {
				s := &scores[i]
				if asks(c) && s.Benchmark == c.Benchmark && fmt.Sprint(s.Axes) == fmt.Sprint(c.Axes) && s.Accuracy.Baseline == c.Eval().Baseline && s.Held.Questions > 0 {
					c.Eval().Changed = new(s.Held.Discordance())
				}
			}
		}
	}
	return err
}

// relative shortens a path below the working directory.
func relative(path string) string {
	if wd, err := filepath.Abs("."); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// storeVariable is where the place of the store is looked for without --store.
const storeVariable = "HCL_STORE"

func (f *labFlags) addStore(c *cobra.Command) {
	c.Flags().StringVar(&f.store, "store", "",
		"keep results in the PostgreSQL database at this `url`, postgres://USER@HOST/NAME, and not beside the lab; else "+storeVariable)
}

const passwordSeen = "everybody on this machine can see the password in --store; ~/.pgpass, PGPASSWORD and " +
	storeVariable + " keep it to yourself"

// shared is the URL of the store that a team shares; empty: there is none.
func (f labFlags) shared(t *console) (string, error) {
	place := cmp.Or(f.store, os.Getenv(storeVariable))
	if place != "" && !results.IsShared(place) {
		from := "--store"
		if f.store == "" {
			from = storeVariable
		}
		return "", usage("%s is not the URL of a PostgreSQL database, such as postgres://ada@db.example/bench", from)
	}
	if u, err := url.Parse(f.store); err == nil && f.store != "" {
		if _, has := u.User.Password(); has || u.Query().Has("password") {
			t.logger().Warn(passwordSeen)
		}
	}
	return place, nil
}

// storeDir is where a lab's results are kept, unless they are shared.
func storeDir(dir string) string { return filepath.Join(dir, ".hcl") }

// rentDir is where a lab keeps what it has rented.
func rentDir(dir string) string { return filepath.Join(storeDir(dir), "rent") }

// openStore opens the store of a lab, and makes it when there is none.
func (f labFlags) openStore(ctx context.Context, t *console) (*results.Store, error) {
	place, err := f.shared(t)
	if err != nil {
		return nil, err
	}
	dir, store := f.dir(), (*results.Store)(nil)
	if place != "" {
		store, err = results.OpenShared(ctx, place, storeDir(dir), slog.New(t.logger()))
	} else {
		store, err = results.Open(ctx, storeDir(dir))
	}
	if err != nil {
		return nil, err
	}
	for _, d := range store.Dropped() {
		t.logger().Warn(d.String())
	}
	return store, nil
}

// look opens a store to be read, or returns nil when nothing was ever stored: looking must leave no trace.
func (f labFlags) look(ctx context.Context, t *console) (*results.Store, error) {
	place, err := f.shared(t)
	if err != nil {
		return nil, err
	}
	return lookAt(ctx, t, place, f.dir())
}

// lookAt looks at a shared store, or without a place at that of the lab in dir.
func lookAt(ctx context.Context, t *console, place, dir string) (store *results.Store, err error) {
	if place != "" {
		store, err = results.LookShared(ctx, place, storeDir(dir), slog.New(t.logger()))
	} else {
		store, err = results.Look(ctx, storeDir(dir))
	}
	if errors.Is(err, results.ErrNothing) {
		return nil, nil
	}
	return store, err
}

var errNothingStored = errors.New("nothing is stored")

// existing opens the store of a lab in which something was measured.
func (f labFlags) existing(ctx context.Context, t *console) (*results.Store, error) {
	store, err := f.look(ctx, t)
	if err == nil && store == nil {
		err = nothingIn(f.dir())
	}
	return store, err
}

func nothingIn(dir string) error {
	return &exit{exitFailed, fmt.Errorf("%w for the lab in %s yet; `hcl apply` measures it", errNothingStored, dir)}
}

// results is existing, with the name of the lab that is meant; see [labFlags.labIn].
func (f labFlags) results(ctx context.Context, t *console) (store *results.Store, lab string, err error) {
	if store, err = f.existing(ctx, t); err != nil {
		return nil, "", err
	}
	if lab, err = f.labIn(store); err != nil {
		return nil, "", errors.Join(err, store.Close())
	}
	return store, lab, nil
}

// locked opens the store of a lab into which nobody else measures until it is closed.
func (f labFlags) locked(ctx context.Context, t *console, lab, who string) (*results.Store, func(), error) {
	store, err := f.openStore(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := store.Lock(ctx, lab, who)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, func() {
		_ = unlock() // the lock is dropped with the process
		_ = store.Close()
	}, nil
}

// labIn is the name of the lab that a verb is about, in a store with several: empty
// in a directory without a lab, which is about all of them.
func (f labFlags) labIn(store *results.Store) (string, error) {
	if store == nil || !store.Shared() {
		return "", nil
	}
	return f.name()
}

// name is the lab's; empty: there is none. One whose name cannot be read is an error.
func (f labFlags) name() (string, error) {
	src, err := lang.Read(f.path)
	if errors.Is(err, lang.ErrNoLab) {
		return "", nil
	}
	name := ""
	if err == nil {
		name, err = hcl.NameOf(src)
	}
	return name, asUsage(err)
}

// placeOf names a store for people.
func placeOf(store *results.Store) string {
	if store.Shared() {
		return store.Name()
	}
	return relative(store.Path())
}
