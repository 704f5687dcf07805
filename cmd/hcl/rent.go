package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
)

// giveBackLeft gives back the boxes that earlier runs have left and this one has no use for, before it costs more. One of which nobody
// knows whether it was made is left to `hcl sweep`.
func (w *work) giveBackLeft(ctx context.Context) error {
	log := w.logger()
	left, err := w.opt.Left(w.cfg.Lab.Name, w.lab.text.Hosts, apply.ToRent(w.plan))
	for _, t := range left {
		why := place.GiveBack(ctx, []*rent.Rental{t}, w.lab.text.Hosts, w.opt.Options, tellPlace(log))
		if errors.Is(why, rent.ErrUnsure) {
			log.Warn(why.Error())
			continue
		}
		err = errors.Join(err, why)
	}
	return err
}

type sweepFlags struct {
	hosts   hostFlags
	plugins []string
	env     []string
	dry     bool
}

func sweepVerb(t *console) *cobra.Command {
	var f sweepFlags
	c := labVerb("sweep", &f.hosts.labFlags, func(ctx context.Context) error { return runSweep(ctx, t, f) })
	c.Flags().StringArrayVar(&f.plugins, "plugin", nil, "ask this `plugin`, and no lab; may be repeated")
	c.Flags().StringArrayVar(&f.env, "env", nil, "with --plugin: a `variable` of hcl's environment that the plugins get; may be repeated")
	c.Flags().BoolVar(&f.dry, "dry-run", false, "delete nothing, only look")
	refuses(c, noUse{flag: "env", other: "plugin"})
	return c
}

func runSweep(ctx context.Context, t *console, f sweepFlags) error {
	opt := place.Options{Rent: rent.NewJournal(rentDir(f.hosts.dir()))}
	hosts, err := f.ofPlugins()
	mine := func(*provision.Host) func(*rent.Rental) bool { return nil }
	var errs []error
	if err == nil && len(f.plugins) == 0 {
		var l *lab
		if l, err = f.hosts.read(t); err == nil && l.text == nil {
			err = l.shown(t)
		}
		if err == nil {
			hosts, mine = l.accounts()
			errs, err = l.unasked(t, opt.Rent)
		}
		if err == nil && len(hosts)+len(errs) == 0 {
			_, err := fmt.Fprintf(t.stdout, "Lab %s rents nothing.\n", l.text.Lab.Name)
			return err
		}
	}
	if err != nil {
		return err
	}
	rows, others, blind := [][]any{{"BOX", "LAB", "COSTS", "SINCE", "UNTIL", "", "HAS COST"}}, 0, []string{}
	for _, h := range hosts {
		renter, err := opt.Renter(h, func(format string, args ...any) {
			t.logger().Info(fmt.Sprintf(format, args...), "plugin", h.Rent.Plugin)
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		renter.Mine = mine(h)
		swept, err := renter.Sweep(ctx, f.dry)
		errs = append(errs, err)
		rows = append(rows, sweptRows(swept, f.dry)...)
		if others += len(swept.Others); swept.Blind {
			blind = append(blind, h.Rent.Plugin)
		}
	}
	if len(rows) == 1+others && errors.Join(errs...) == nil {
		fmt.Fprintln(t.stdout, "There is no box of hcl's.")
	}
	if len(rows) > 1 {
		errs = append(errs, writeTable(t.stdout, rows))
	}
	for _, name := range blind {
		fmt.Fprintf(t.stdout, "%s cannot list its boxes: only those that this lab's journal has were looked at.\n", name)
	}
	return errors.Join(errs...)
}

// ofPlugins are hosts that rent of the plugins which the command line names, with what it says that they get.
func (f sweepFlags) ofPlugins() (hosts []*provision.Host, err error) {
	for _, name := range f.plugins {
		if !provision.IsPlugin(name) {
			return nil, usage("%q is not the NAME of a program hcl-rent-NAME, such as \"shadeform\": lower-case letters, digits and hyphens", plain.Cut(name, 80))
		}
		r := &provision.Rent{Plugin: name}
		for _, variable := range f.env {
			value, is := os.LookupEnv(variable)
			if !is {
				return nil, usage("there is no variable %s in the environment", variable)
			}
			r.Env = append(r.Env, provision.EnvVar{Name: variable, Value: provision.Secret(value)})
		}
		hosts = append(hosts, &provision.Host{Name: name, Rent: r})
	}
	return hosts, nil
}

// accounts are hosts of a lab, one of each account that it rents of, and which of its boxes each of them can look at.
func (l *lab) accounts() (hosts []*provision.Host, mine func(*provision.Host) func(*rent.Rental) bool) {
	for _, h := range l.text.Hosts {
		if h.Rent != nil && !slices.ContainsFunc(hosts, func(o *provision.Host) bool { return o.Rent.SameAccount(h.Rent) }) {
			hosts = append(hosts, h)
		}
	}
	return hosts, func(h *provision.Host) func(*rent.Rental) bool {
		return func(t *rent.Rental) bool {
			by := place.Account(t, l.text.Hosts)
			return l.scope().Owns(t) && by != nil && by.Rent.SameAccount(h.Rent)
		}
	}
}

// unasked are errors that name the lab's boxes which none of its hosts can look at. Those of other labs whose time is over are warned of: one
// may be this lab, whose name was another.
func (l *lab) unasked(t *console, journal *rent.Journal) (errs []error, err error) {
	open, err := journal.Open(func(*rent.Rental) bool { return true })
	for _, b := range open {
		switch {
		case !l.scope().Owns(b) && !time.Now().Before(b.Deadline):
			t.logger().Warn(fmt.Sprintf("%s, of lab %s, may be there still: %s; run `hcl sweep` with a lab of that name", b, b.Lab, b.End()))
		case l.scope().Owns(b) && place.Account(b, l.text.Hosts) == nil:
			errs = append(errs, fmt.Errorf("host %s: %w", b.Host, place.NoAccount(b)))
		}
	}
	return errs, err
}

// sweptRows are what was found of an account's boxes, as a table.
func sweptRows(s rent.Swept, dry bool) (rows [][]any) {
	add := func(b protocol.Box, what, cost string) {
		since, until := "-", "-"
		if !b.BilledFrom.IsZero() {
			since = b.BilledFrom.Local().Format(time.DateTime)
		}
		if end, err := time.Parse(time.RFC3339, b.Labels[protocol.LabelExpires]); err == nil {
			until = end.Local().Format(time.DateTime)
		}
		rows = append(rows, []any{b.ID, cmp.Or(b.Labels[protocol.LabelLab], "-"), fmt.Sprintf("$%.2f/h", b.PricePerHour), since, until, what, cost})
	}
	for i, b := range s.Deleted {
		if dry {
			add(b, "over, to be deleted", "-")
		} else {
			add(b, "deleted", s.Costs[i])
		}
	}
	for _, t := range s.Gone {
		add(t.Box, "gone by itself", t.Money())
	}
	for _, t := range s.Unsure {
		rows = append(rows, []any{t.Request, t.Lab, fmt.Sprintf("$%.2f/h", t.Price), t.Asked.Local().Format(time.DateTime), t.Deadline.Local().Format(time.DateTime),
			"asked for, and not there so far: run hcl sweep again", "-"})
	}
	for _, of := range []struct {
		what  string
		boxes []protocol.Box
	}{
		{"over, and not gone", s.Failed},
		{"its time is not over", s.Living},
		{"its labels tell no end: not touched", s.Endless},
		{"not hcl's, and not touched", s.Others},
	} {
		for _, b := range of.boxes {
			add(b, of.what, "-")
		}
	}
	return rows
}
