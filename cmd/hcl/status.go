package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/results"
)

func statusVerb(t *console) *cobra.Command {
	var of hostFlags
	var asJSON bool
	c := labVerb("status", &of.labFlags, func(ctx context.Context) error { return runStatus(ctx, t, of, asJSON) })
	of.addAccept(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

func runStatus(ctx context.Context, t *console, of hostFlags, asJSON bool) error {
	l, opt, err := of.reach(ctx, t)
	if err != nil {
		return err
	}
	all, err := place.Status(ctx, l.scope(), opt)
	if asJSON {
		return errors.Join(err, t.json(map[string]any{"format_version": "1.0", "hosts": hostStatus(all)}))
	}
	return errors.Join(err, writeStatus(t.stdout, all))
}

// statusHost is what is said of a host to programs.
type statusHost struct {
	Host   string          `json:"host"`
	There  []statusThing   `json:"there,omitempty"`  // as people are told it, but for what is rented
	Rented *plan.RentedBox `json:"rented,omitempty"` // absent: nothing
	Error  string          `json:"error,omitempty"`  // why it could not be asked of all
}

type statusThing struct {
	Engine string `json:"engine,omitempty"`
	State  string `json:"state"`
	Run    string `json:"run,omitempty"`
	Name   string `json:"name,omitempty"`
}

func hostStatus(all []place.Presence) (hosts []statusHost) {
	for _, p := range all {
		h := statusHost{Host: p.Host.Name}
		if p.Rental != nil {
			box := apply.Box(p.Rental, time.Now())
			h.Rented = &box
		}
		if p.Err != nil {
			h.Error = p.Err.Error()
		}
		bare := p
		bare.Rental, bare.Err, bare.Host = nil, nil, &provision.Host{Name: p.Host.Name}
		for _, row := range statusOf(bare) {
			var words [4]string
			for i, word := range row {
				if words[i] = fmt.Sprint(word); words[i] == "-" {
					words[i] = ""
				}
			}
			if words[1] != "nothing" {
				h.There = append(h.There, statusThing{words[0], words[1], words[2], words[3]})
			}
		}
		hosts = append(hosts, h)
	}
	return hosts
}

const uncleanHint = `
Nothing is started on a host that is unclean. ` + "`hcl check` and `hcl apply`" + ` look again;
so does ` + "`hcl destroy`" + `, and --force forgets it. Memory that no process holds takes a
reset of the GPUs by their owner, or a reboot.
`

func writeStatus(out io.Writer, all []place.Presence) error {
	rows := [][]any{{"HOST", "ENGINE", "STATE", "RUN", "NAME"}}
	for _, p := range all {
		for _, row := range statusOf(p) {
			rows = append(rows, append([]any{p.Host.Name}, row...))
		}
	}
	err := writeTable(out, rows)
	if err == nil && slices.ContainsFunc(all, func(p place.Presence) bool { return p.Unclean != nil }) {
		_, err = fmt.Fprint(out, uncleanHint)
	}
	return err
}

// statusOf is what is said of a host, in rows of engine, state, run and name.
func statusOf(p place.Presence) (rows [][]any) {
	add := func(row ...any) { rows = append(rows, row) }
	until := func(l *agent.Lease) string {
		return "until " + l.Expires.Local().Format(time.TimeOnly) + " unless renewed"
	}
	for _, f := range append(p.Containers, p.Processes...) {
		add(f.Labels[provision.LabelEngine], f.State, f.Labels[provision.LabelRun], f.Name)
	}
	for _, f := range p.Others {
		add(f.Labels[provision.LabelEngine], f.State, f.Labels[provision.LabelRun], f.Name+", somebody else's: "+place.Whose(f))
	}
	if u := p.Unclean; u != nil {
		add("-", "unclean since "+u.Time.Local().Format(time.DateTime), u.Run, strings.Join(u.Left, "; "))
	}
	for _, change := range p.Changed {
		add("-", "set for a run", "-", change.String())
	}
	if l := p.Reserved; l != nil && l.Lab == "" {
		add("-", "in use by "+l.Holder, "-", "-")
	} else if l != nil {
		add("-", "in use by "+l.Holder+" for lab "+l.Lab, l.Run, until(l))
	}
	if l := p.Lease; l != nil {
		add("-", "leased by "+l.Holder, l.Run, until(l))
	}
	if t := p.Rental; t != nil {
		b := apply.Box(t, time.Now())
		state, made := "rented", ""
		if b.Box == "" {
			state, made = "asked for", " if it did"
		}
		what := fmt.Sprintf("%s, since %s, has cost $%.2f so far%s; %s", b, b.Since.Local().Format(time.DateTime), b.Cost, made, t.End())
		if !time.Now().Before(b.Until) {
			what += ": `hcl sweep` deletes it, if it is there still"
		}
		if b.Off > 0 {
			what += fmt.Sprintf(", off by itself %s after a lease on it that nobody renews", time.Duration(b.Off*float64(time.Second)))
		}
		if b.Kept {
			what += ", kept for the next run"
		}
		if p.NoAccount != nil {
			what += "; " + p.NoAccount.Error()
		} else if p.Host.Rent == nil {
			what += ", for a host that the lab has no more: `hcl apply` and `hcl destroy` give it back"
		}
		add("-", fmt.Sprintf("%s at $%.2f an hour", state, b.Price), b.Run, what)
	} else if p.Host.Rent != nil {
		add("-", "not rented now", "-", "-")
	}
	if p.Unseen != nil {
		add("-", "Docker does not answer", "-", p.Unseen.Error())
	}
	switch {
	case p.Err != nil:
		add("-", "could not be asked", "-", "why stands below")
	case len(rows) == 0:
		add("-", "nothing", "-", "-")
	}
	return rows
}

type logsOptions struct {
	hosts  hostFlags
	follow bool
	tail   int
}

func logsVerb(t *console) *cobra.Command {
	var o logsOptions
	c := verb("logs", between(1, 1, "name one engine, such as vllm.h200"),
		func(ctx context.Context, args []string) error { return runLogs(ctx, t, o, args[0]) })
	o.hosts.addVars(c)
	o.hosts.addPath(c, "")
	o.hosts.addAccept(c)
	c.ValidArgsFunction = firstOnly(fromLab(t, func(cfg *hcl.Config) []string { return engineNames(cfg, (*engines.Engine).Label) }))
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what comes")
	c.Flags().IntVar(&o.tail, "tail", -1, "only the last `n` lines; -1 is all")
	return c
}

func runLogs(ctx context.Context, t *console, o logsOptions, name string) error {
	l, opt, err := o.hosts.reach(ctx, t)
	if err != nil {
		return err
	}
	engine, err := engineNamed(l.text, name)
	if err != nil {
		return err
	}
	write := func(b []byte) error {
		_, err := t.stdout.Write(b)
		return err
	}
	err = place.Logs(ctx, l.scope(), place.Log{Engine: engine, Follow: o.follow, Tail: o.tail, Write: write}, opt)
	if ctx.Err() != nil && !errors.Is(err, errReaderLeft) {
		return &exit{code: exitInterrupted}
	}
	return err
}

func engineNamed(cfg *hcl.Config, name string) (*engines.Engine, error) {
	var names []string
	var found *engines.Engine
	for _, e := range cfg.Engines { // several forms of one have one name, and it runs in one of them
		if !slices.Contains(names, e.Label()) {
			names = append(names, e.Label())
		}
		if name == e.Address() || name == e.Label() {
			found = e
		}
	}
	if found == nil || found.Kind == engines.External {
		there := strings.Join(names, ", ")
		return nil, usage("there is no engine %q whose servers this lab starts; there are: %s", name, there)
	}
	return found, nil
}

type destroyOptions struct {
	hosts hostFlags
	force bool
	cache bool
}

func destroyVerb(t *console) *cobra.Command {
	var o destroyOptions
	c := labVerb("destroy", &o.hosts.labFlags, func(ctx context.Context) error { return runDestroy(ctx, t, o) })
	o.hosts.addAccept(c)
	o.hosts.addStore(c)
	c.Flags().BoolVar(&o.force, "force", false, "also where somebody else's apply of this lab holds the lease, "+
		"or the store of results cannot be opened; also what carries this lab's name and is another login's, store's "+
		"or host block's; and forget what could not be cleaned")
	c.Flags().BoolVar(&o.cache, "cache", false,
		"also remove ~/.cache/hcl from the hosts: binaries, files of data sets and what engines have built")
	return c
}

func runDestroy(ctx context.Context, t *console, o destroyOptions) error {
	l, opt, err := o.hosts.reach(ctx, t)
	if err != nil {
		return err
	}
	store, done, err := o.locked(ctx, t, l)
	if err != nil {
		return err
	}
	defer done()
	how := agent.Destroying{Force: o.force, Cache: o.cache}
	if store != nil {
		how.Store = store.ID()
	}
	rented, err := opt.Rent.Open(l.scope().Owns)
	if err != nil {
		return err
	}
	removed, err := place.Destroy(ctx, l.scope(), how, opt, tellPlace(t.logger()))
	if store != nil {
		err = errors.Join(err, apply.KeepStays(context.WithoutCancel(ctx), store, opt.Rent)) // of boxes that are gone now
	}
	now, why := opt.Rent.Rentals()
	for _, box := range now {
		if box.Stage == rent.Over && slices.ContainsFunc(rented, func(was *rent.Rental) bool { return was.Request == box.Request }) {
			fmt.Fprintf(t.stdout, "Gave back %s, which has cost %s.\n", box, box.Money())
		}
	}
	if err = errors.Join(err, why); err != nil {
		return err
	}
	n, others := 0, 0
	for _, p := range removed {
		n += len(p.Containers) + len(p.Processes)
		others += len(p.Others)
	}
	said := fmt.Sprintf("Nothing of lab %s is on its hosts.", l.text.Lab.Name)
	if others > 0 {
		said = fmt.Sprintf("Nothing of yours of lab %s is on its hosts.", l.text.Lab.Name)
	}
	if n > 0 {
		said = fmt.Sprintf("Removed %s of lab %s.", plain.Count(n, "engine"), l.text.Lab.Name)
	}
	_, err = fmt.Fprintln(t.stdout, said)
	return err
}

const (
	stopItFirst = "%w\nStop it with Ctrl-C: it takes down what it has brought up"
	whoseIsIt   = "%w\nWithout its results hcl cannot tell whether what runs there is this lab's own: " +
		"--force removes all the same what carries its name"
)

// locked is the lab's store, which nobody measures into until done; nil:
// it cannot be opened, and that was told.
func (o destroyOptions) locked(ctx context.Context, t *console, l *lab) (store *results.Store, done func(), err error) {
	store, done, err = o.hosts.locked(ctx, t, l.text.Lab.Name, "hcl destroy")
	switch {
	case err == nil:
		return store, done, nil
	case errors.Is(err, results.ErrLocked):
		return nil, nil, fmt.Errorf(stopItFirst, err)
	case ctx.Err() != nil:
		return nil, nil, err
	case !o.force:
		return nil, nil, fmt.Errorf(whoseIsIt, err)
	}
	// What costs by the hour does not wait for a disk or a database.
	t.logger().Warn("the store of results cannot be opened", "err", err)
	return nil, func() {}, nil
}
