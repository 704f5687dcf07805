package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/lock"
	"hclbench/plan"
	"hclbench/provision/kube"
)

// labFlags say which lab a verb is about, set its variables, and say where its results are.
type labFlags struct {
	path     string // of its directory or file
	vars     []string
	varFiles []string
	store    string // see [labFlags.shared]
}

func (f *labFlags) add(c *cobra.Command) {
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

// lab is a lab that was opened. There is no other way to open one, so that every verb sees the same lab.
type lab struct {
	text     *hcl.Config // what the text says; nil: it has mistakes
	problems *lang.Problems

	locked   *lock.File // nil: there is no hcl.lock, or it cannot be read
	lockText []byte     // as it was read
	lockErr  error      // why it cannot be read: nothing can be planned

	sums    *lock.Sums
	plans   *hcl.Config        // see [lab.planned]
	strange map[dataFile]error // data files that are not what they are said to be
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
	cfg := pin(l.text, f)
	if err := l.fingerprint(ctx, cfg, f); err != nil {
		return nil, err
	}
	for _, h := range cfg.Hosts { // of manifests nothing else is known of what they run on
		if c := h.Cluster; c != nil && c.Is == "" {
			c.Is, _ = kube.Identity(c) // who opens it tells what is wrong
		}
	}
	l.plans = cfg
	return cfg, nil
}

func validateVerb(t *console) *cobra.Command {
	var lab labFlags
	var asJSON bool
	c := labVerb("validate", &lab, func(context.Context) error { return runValidate(t, lab, asJSON) })
	c.Flags().BoolVar(&asJSON, "json", false, "print the problems as JSON, with their ranges")
	return c
}

func runValidate(t *console, lab labFlags, asJSON bool) error {
	l, err := lab.read(t)
	if err != nil {
		return err
	}
	if !asJSON {
		if err := l.shown(t); err != nil {
			return err
		}
		p := plan.New(l.text, plan.Options{})
		missing, _ := l.inputs(p)
		for _, err := range missing { // it may be where apply is run
			t.logger().Warn(err.Error())
		}
		_, err = fmt.Fprintf(t.stdout, "Lab %s is right: %s.\n", l.text.Lab.Name, p.Count())
		return err
	}
	errors, warnings := l.problems.Count()
	err = t.json(struct {
		FormatVersion string         `json:"format_version"`
		Valid         bool           `json:"valid"`
		Errors        int            `json:"errors"`
		Warnings      int            `json:"warnings"`
		Problems      []lang.Problem `json:"problems"`
	}{"1.0", errors == 0, errors, warnings, slices.Concat([]lang.Problem{}, l.problems.List())})
	if err == nil && errors > 0 {
		err = &exit{code: exitUsage}
	}
	return err
}
