package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/lock"
	"hclbench/origin"
	"hclbench/plan"
	"hclbench/provision"
)

func lockVerb(t *console) *cobra.Command {
	var lab labFlags
	var upgrade bool
	c := labVerb("lock", &lab, func(ctx context.Context) error { return runLock(ctx, t, lab, upgrade) })
	c.Flags().BoolVar(&upgrade, "upgrade", false, "ask about everything again")
	return c
}

func runLock(ctx context.Context, t *console, lab labFlags, upgrade bool) error {
	l, err := lab.open(t)
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
	entries := r.Ask(ctx, l.names(), missing)
	for _, e := range entries {
		err = errors.Join(err, e.Err)
	}
	if err != nil {
		return fmt.Errorf("lock: %w\nNothing was written%s", err, notAsNodes(l.text, entries))
	}
	return writeLock(t.stdout, l, entries, upgrade)
}

const asksFromHere = ". Images are asked for from this machine, with its logins: what the nodes of %s pull by theirs need " +
	"not be known here. Log in (docker login), or write the digest into image: %s@sha256:…"

// notAsNodes is what to do about an image that only a cluster's nodes may know; empty: nothing is said.
func notAsNodes(cfg *hcl.Config, entries []lock.Entry) string {
	pod := slices.IndexFunc(cfg.Hosts, func(h *provision.Host) bool { return h.Cluster != nil })
	image := slices.IndexFunc(entries, func(e lock.Entry) bool { return e.Sort == lock.SortImage && e.Err != nil })
	if pod < 0 || image < 0 {
		return ""
	}
	return fmt.Sprintf(asksFromHere, cfg.Hosts[pod].Cluster, entries[image].Name)
}

const nothingToLock = "There is nothing to lock: every image, model and data file of the lab means the same for ever."

func writeLock(w io.Writer, l *lab, entries []lock.Entry, upgrade bool) error {
	old, path := l.locked, l.lockPath()
	if old == nil && !slices.ContainsFunc(entries, func(e lock.Entry) bool { return e.Sort != lock.SortHCL }) {
		_, err := fmt.Fprintln(w, nothingToLock)
		return err
	}
	file := lock.Merge(old, entries, upgrade)
	n := map[byte]int{}
	say := func(sign byte, format string, args ...any) {
		n[sign]++
		fmt.Fprintf(w, "%c "+format+"\n", append([]any{sign}, args...)...)
	}
	for _, e := range entries {
		name := label(e)
		switch {
		case e.Old == "":
			say('+', "%s  %s", name, shortened(e.New))
		case e.Sort == lock.SortHCL && e.Moved() && !upgrade:
			say('=', "%s  %s (this is %s; --upgrade writes it down)", name, e.Old, e.New)
		case e.Moved():
			say('~', "%s  %s → %s", name, shortened(e.Old), shortened(e.New))
		default:
			say('=', "%s  %s", name, shortened(e.Old))
		}
	}
	if old != nil {
		for _, name := range dropped(old, file) {
			say('-', "%s", name)
		}
		if n['+']+n['~']+n['-'] == 0 {
			_, err := fmt.Fprintf(w, "\n%s is up to date.\n", path)
			return err
		}
	}
	if err := file.Write(l.text.Dir); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nWrote %s: %d new, %d moved, %d as before, %d gone.\n", path, n['+'], n['~'], n['='], n['-'])
	return err
}

// label names an entry: "image vllm/vllm-openai:v0.14.0"; "hcl".
func label(e lock.Entry) string {
	if e.Sort == lock.SortHCL {
		return e.Sort
	}
	return e.Sort + " " + e.Name
}

func dropped(old, now *lock.File) []string {
	var out []string
	for sort, files := range map[string][2]map[string]string{
		lock.SortImage:   {old.Images, now.Images},
		lock.SortModel:   {old.Models, now.Models},
		lock.SortDataset: {old.Datasets, now.Datasets},
	} {
		for name := range files[0] {
			if _, ok := files[1][name]; !ok {
				out = append(out, sort+" "+name)
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

func resolver(l *lab) (*lock.Resolver, error) {
	images, err := registries()
	if err != nil {
		return nil, err
	}
	images.HTTP = &http.Client{Timeout: 30 * time.Second} // for one answer
	hub := modelHub()
	hub.HTTP = images.HTTP
	return &lock.Resolver{Registries: *images, Hub: hub, Dir: l.text.Dir, Sums: l.sums}, nil
}

// names is everything in the lab whose name can mean something else tomorrow, with what it meant when it was locked.
func (l *lab) names() []lock.Entry {
	all := plan.Names(l.text)
	all.HCL = version
	return all.Entries(l.locked)
}

func (l *lab) notLocked(w io.Writer) {
	if l.locked == nil {
		return
	}
	var missing []string
	for _, e := range l.names() {
		if e.Old == "" {
			missing = append(missing, label(e))
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(w, "Not in %s: %s. hcl lock adds what is missing.\n\n", l.lockPath(), strings.Join(missing, ", "))
	}
}

const lockBroken = `%s does not hold any more, and --locked was asked for:

    %s

hcl lock adds what is missing, hcl lock --upgrade takes what has moved`

// unmoved refuses a lab of which something is not locked, or means something else today than the lock says.
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
	entries := r.Ask(ctx, l.names(), func(e lock.Entry) bool { return e.Old != "" })
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
		return usage(lockBroken, path, strings.Join(append(wrong, unknown...), "\n    "))
	case len(unknown) > 0:
		return fmt.Errorf("whether %s still holds could not be found out:\n\n    %s", path, strings.Join(unknown, "\n    "))
	}
	return nil
}
