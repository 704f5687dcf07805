package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/lock"
	"hclbench/origin"
	"hclbench/provision"
)

// answerTimeout bounds one question to a registry or the model hub.
const answerTimeout = 30 * time.Second

func (a *app) lock() *cobra.Command {
	var lab labFlags
	var upgrade bool
	c := &cobra.Command{
		Use:   "lock [LAB]",
		Short: "Write down what images and models mean today",
		Long: `Asks the registries which digest each image's tag stands for, and the model hub
which commit each model's branch is, takes the checksum of each data set, and
writes hcl.lock beside the lab. Nothing is pulled. From then on plan and apply use
exactly these, on every host and every day.

What is in the file stays as it is; only what is missing is asked. --upgrade asks
about everything again, and drops what the lab does not name any more.

Private registries are asked with the logins of Docker's config.json and its
credential helpers, the model hub with the token in HF_TOKEN. HF_ENDPOINT names
another hub. In front of a line, + is new, ~ has moved, = is as it was, - is gone.`,
		Example: `  hcl lock
  hcl lock lab/ --upgrade
  hcl apply lab/ --locked

Exit codes: 0 done, 1 something could not be found out, and nothing was written;
2 the lab or the command line is wrong, 130 interrupted.`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := a.openLab(lab, args)
			if err != nil {
				return err
			}
			if l.lockErr != nil {
				return l.lockErr
			}
			r, err := resolver(l)
			if err != nil {
				return err
			}
			missing := func(e lock.Entry) bool { return e.Old == "" }
			if upgrade {
				missing = nil
			}
			entries := r.Ask(c.Context(), wants(l.text).Entries(l.locked), missing)
			var unknown []error
			for _, e := range entries {
				if e.Err != nil {
					unknown = append(unknown, e.Err)
				}
			}
			if len(unknown) > 0 {
				return fmt.Errorf("lock: %w\nNothing was written", errors.Join(unknown...))
			}
			return a.writeLock(l, entries, upgrade)
		},
	}
	lab.add(c)
	c.Flags().BoolVar(&upgrade, "upgrade", false, "ask about everything again")
	return c
}

// writeLock writes the file if it changes, and says what changed.
func (a *app) writeLock(l *lab, entries []lock.Entry, upgrade bool) error {
	old, path := l.locked, l.lockPath()
	if old == nil && !slices.ContainsFunc(entries, func(e lock.Entry) bool { return e.Sort != lock.SortHCL }) {
		_, err := fmt.Fprintln(a.stdout, "There is nothing to lock: every image, model and data file of the lab means the same for ever.")
		return err
	}
	file := lock.Merge(old, entries, upgrade)
	var added, moved, same, gone int
	for _, e := range entries {
		name := label(e)
		switch {
		case e.Old == "":
			added++
			fmt.Fprintf(a.stdout, "+ %s  %s\n", name, shortened(e.New))
		case e.Sort == lock.SortHCL && e.Moved() && !upgrade:
			same++
			fmt.Fprintf(a.stdout, "= %s  %s (this is %s; --upgrade writes it down)\n", name, e.Old, e.New)
		case e.Moved():
			moved++
			fmt.Fprintf(a.stdout, "~ %s  %s → %s\n", name, shortened(e.Old), shortened(e.New))
		default:
			same++
			fmt.Fprintf(a.stdout, "= %s  %s\n", name, shortened(e.Old))
		}
	}
	if old != nil {
		for _, name := range dropped(old, file) {
			gone++
			fmt.Fprintf(a.stdout, "- %s\n", name)
		}
	}
	if old != nil && added+moved+gone == 0 {
		_, err := fmt.Fprintf(a.stdout, "\n%s is up to date.\n", path)
		return err
	}
	if err := file.Write(l.text.Dir); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "\nWrote %s: %d new, %d moved, %d as before, %d gone.\n", path, added, moved, same, gone)
	return err
}

// label names an entry: "image vllm/vllm-openai:v0.14.0"; "hcl".
func label(e lock.Entry) string {
	if e.Sort == lock.SortHCL {
		return e.Sort
	}
	return e.Sort + " " + e.Name
}

// dropped names what one lock has and the other has not.
func dropped(old, now *lock.File) []string {
	var out []string
	for _, part := range []struct {
		sort     string
		old, now map[string]string
	}{
		{lock.SortImage, old.Images, now.Images}, {lock.SortModel, old.Models, now.Models}, {lock.SortDataset, old.Datasets, now.Datasets},
	} {
		for name := range part.old {
			if _, ok := part.now[name]; !ok {
				out = append(out, part.sort+" "+name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// shortened is a digest or commit as people compare them.
func shortened(s string) string {
	const digits = 12
	if hex, ok := strings.CutPrefix(s, "sha256:"); ok && len(hex) > digits {
		return "sha256:" + hex[:digits]
	}
	if lock.Commit(s) {
		return s[:digits]
	}
	return s
}

// resolver asks with what this machine's environment says.
func resolver(l *lab) (*lock.Resolver, error) {
	images, err := registries()
	if err != nil {
		return nil, err
	}
	images.HTTP = &http.Client{Timeout: answerTimeout}
	hub := modelHub()
	hub.HTTP = images.HTTP
	return &lock.Resolver{
		Registries: *images,
		Hub:        hub,
		Dir:        l.text.Dir,
		Sums:       l.sums,
	}, nil
}

// fromHub reports whether an engine loads its model from the model hub.
func fromHub(e *engines.Engine) bool {
	return e.Model != nil && e.Kind != engines.Sim && e.Kind != engines.External && !strings.HasPrefix(e.Model.Repo, "/")
}

// open reports whether a data set is of a file whose checksum the lab leaves
// open.
func open(d load.Dataset) bool { return d.Path != "" && d.SHA256 == "" }

// wants is everything in the lab whose name can mean something else tomorrow.
func wants(cfg *hcl.Config) lock.Wants {
	w := lock.Wants{HCL: version}
	image := func(name string) {
		if ref, err := origin.ParseRef(name); err == nil && !ref.Pinned() {
			w.Images = append(w.Images, name)
		}
	}
	for _, e := range cfg.Engines {
		if engines.Runtime(e) == provision.Docker {
			image(e.Image)
			if e.Build != nil {
				image(e.Build.Image)
			}
		}
		if fromHub(e) && !lock.Commit(e.Model.Revision) {
			w.Models = append(w.Models, lock.Model{Repo: e.Model.Repo, Revision: e.Model.Revision})
		}
	}
	for _, b := range cfg.Benchmarks {
		for _, c := range b.Cells {
			if open(c.Workload.Dataset) {
				w.Datasets = append(w.Datasets, c.Workload.Dataset.Path)
			}
			if t := c.Workload.Dataset.Tokenizer; t != "" {
				w.Datasets = append(w.Datasets, t)
			}
		}
	}
	return w
}

// notLocked says what of a lab with an hcl.lock is not in it.
func (a *app) notLocked(l *lab) {
	if l.locked == nil {
		return
	}
	var missing []string
	for _, e := range wants(l.text).Entries(l.locked) {
		if e.Old == "" {
			missing = append(missing, label(e))
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(a.stderr, "Not in %s: %s. hcl lock adds what is missing.\n\n", l.lockPath(), strings.Join(missing, ", "))
	}
}

// unmoved refuses a lab of which something is not locked, or means something
// else today than the lock says.
func (l *lab) unmoved(ctx context.Context) error {
	path := l.lockPath()
	switch {
	case l.lockErr != nil:
		return l.lockErr
	case l.locked == nil:
		return usage("there is no %s, which --locked asks for; hcl lock writes it", path)
	}
	r, err := resolver(l)
	if err != nil {
		return err
	}
	entries := r.Ask(ctx, wants(l.text).Entries(l.locked), func(e lock.Entry) bool { return e.Old != "" })
	var wrong, unknown []string
	for _, e := range entries {
		switch {
		case e.Old == "":
			wrong = append(wrong, label(e)+" is not locked")
		case errors.Is(e.Err, origin.ErrNotFound):
			wrong = append(wrong, fmt.Sprintf("%s is gone: %v", label(e), e.Err))
		case e.Err != nil:
			unknown = append(unknown, e.Err.Error())
		case e.Moved():
			wrong = append(wrong, fmt.Sprintf("%s has moved: %s → %s", label(e), e.Old, e.New))
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(wrong) > 0:
		return usage("%s does not hold any more, and --locked was asked for:\n\n    %s\n\nhcl lock adds what is missing, hcl lock --upgrade takes what has moved", path, strings.Join(append(wrong, unknown...), "\n    "))
	case len(unknown) > 0:
		return fmt.Errorf("whether %s still holds could not be found out:\n\n    %s", path, strings.Join(unknown, "\n    "))
	}
	return nil
}
