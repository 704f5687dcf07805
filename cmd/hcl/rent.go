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
	mine := map[*provision.Host]func(*rent.Rental) bool{}
	opt, hosts := place.Options{Rent: rent.NewJournal(rentDir(f.hosts.dir()))}, []*provision.Host{}
	var errs []error
	for _, name := range f.plugins {
		if !provision.IsPlugin(name) {
			return usage("%q is not the NAME of a program hcl-rent-NAME, such as \"shadeform\": lower-case letters, digits and hyphens", plain.Cut(name, 80))
		}
		r := &provision.Rent{Plugin: name}
		for _, variable := range f.env {
			value, is := os.LookupEnv(variable)
			if !is {
				return usage("there is no variable %s in the environment", variable)
			}
			r.Env = append(r.Env, provision.EnvVar{Name: variable, Value: provision.Secret(value)})
		}
		hosts = append(hosts, &provision.Host{Name: name, Rent: r})
	}
	if len(f.plugins) == 0 {
		l, err := f.hosts.read(t)
		if err == nil && l.text == nil {
			err = l.shown(t)
		}
		if err != nil {
			return err
		}
		for _, h := range l.text.Hosts {
			same := func(o *provision.Host) bool { return o.Rent.SameAccount(h.Rent) }
			if h.Rent == nil || slices.ContainsFunc(hosts, same) {
				continue
			}
			hosts = append(hosts, h)
			mine[h] = func(t *rent.Rental) bool {
				by := place.Account(t, l.text.Hosts)
				return l.scope().Owns(t) && by != nil && same(by)
			}
		}
		unasked, err := opt.Rent.Open(func(t *rent.Rental) bool { return l.scope().Owns(t) && place.Account(t, l.text.Hosts) == nil })
		if err != nil {
			return err
		}
		for _, t := range unasked {
			errs = append(errs, fmt.Errorf("host %s: %w", t.Host, place.NoAccount(t)))
		}
		elsewhere, err := opt.Rent.Open(func(t *rent.Rental) bool { return !l.scope().Owns(t) && !time.Now().Before(t.Deadline) })
		if err != nil {
			return err
		}
		for _, b := range elsewhere { // such as one of this lab, whose name was another
			t.logger().Warn(fmt.Sprintf("%s, of lab %s, may be there still: %s; run `hcl sweep` with a lab of that name", b, b.Lab, b.End()))
		}
		if len(hosts)+len(unasked) == 0 {
			_, err := fmt.Fprintf(t.stdout, "Lab %s rents nothing.\n", l.text.Lab.Name)
			return err
		}
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
		renter.Mine = mine[h]
		swept, err := renter.Sweep(ctx, f.dry)
		errs = append(errs, err)
		deleted := "deleted"
		if f.dry {
			deleted = "over, to be deleted"
		}
		add := func(boxes []protocol.Box, what string, costs ...string) {
			for i, b := range boxes {
				since, until, cost := "-", "-", "-"
				if !b.BilledFrom.IsZero() {
					since = b.BilledFrom.Local().Format(time.DateTime)
				}
				if end, err := time.Parse(time.RFC3339, b.Labels[protocol.LabelExpires]); err == nil {
					until = end.Local().Format(time.DateTime)
				}
				if len(costs) > 0 {
					cost = costs[i]
				}
				rows = append(rows, []any{b.ID, cmp.Or(b.Labels[protocol.LabelLab], "-"), fmt.Sprintf("$%.2f/h", b.PricePerHour), since, until, what, cost})
			}
		}
		add(swept.Deleted, deleted, swept.Costs...)
		for _, t := range swept.Gone {
			add([]protocol.Box{t.Box}, "gone by itself", t.Money())
		}
		add(swept.Failed, "over, and not gone")
		add(swept.Living, "its time is not over")
		add(swept.Endless, "its labels tell no end: not touched")
		add(swept.Others, "not hcl's, and not touched")
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
