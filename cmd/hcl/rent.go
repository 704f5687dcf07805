package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hclbench/apply/place"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
)

// offered writes what the hosts of a plan that are rented can be had for, what they may cost, and what ends them.
func offered(ctx context.Context, out io.Writer, p *plan.Plan, opt place.Options) error {
	var hosts []*provision.Host
	for _, d := range p.Deployments {
		for _, h := range d.Needs() {
			if len(d.ToDo()) > 0 && h.Rent != nil && !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	var most float64
	fmt.Fprintln(out, "Rented:")
	for _, r := range place.Offered(ctx, hosts, opt) {
		h := r.Host
		most += h.Rent.MostMoney()
		fmt.Fprintf(out, "  host %s: until %s after it is asked for, at most $%.2f\n", h.Name, plan.Rough(h.Rent.TTL), h.Rent.MostMoney())
		if r.Err != nil {
			fmt.Fprintf(out, "    not known what there is: %v\n", r.Err)
			continue
		}
		for i, o := range r.Offers {
			if i == 3 {
				fmt.Fprintf(out, "    and %d more\n", len(r.Offers)-i)
				break
			}
			fmt.Fprintf(out, "    $%.2f an hour: %s\n", o.PricePerHour, described(o, h.Rent.MaxPrice))
		}
		if len(r.Offers) == 0 {
			fmt.Fprintf(out, "    %s has nothing for it now\n", h.Rent.Plugin)
		}
		fmt.Fprintf(out, "    what ends it: %s\n", strings.Join(r.Layers(), "; "))
	}
	_, err := fmt.Fprintf(out, "  Until their hard ends they cost at most $%.2f, loading and idling in it.\n\n", most)
	return err
}

// described is an offer in words.
func described(o protocol.Offer, most float64) string {
	words := []string{o.ID}
	for _, s := range []string{o.GPUs, o.Region} {
		if s != "" {
			words = append(words, s)
		}
	}
	if o.From.After(time.Now()) {
		words = append(words, "from "+o.From.Local().Format(time.DateTime)+" on")
	}
	if o.Minimum > 0 {
		words = append(words, fmt.Sprintf("%g hours are billed at least", o.Minimum))
	}
	if o.Spot {
		words = append(words, "may be taken away")
	}
	if o.PricePerHour > most {
		words = append(words, "above max_price")
	}
	return strings.Join(words, ", ")
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
	refuses(c, noUse{"env", "plugin", false})
	return c
}

func runSweep(ctx context.Context, t *console, f sweepFlags) error {
	account := func(h *provision.Host) string { return h.Rent.Plugin + fmt.Sprint(secretsIn(h.Rent.Env)) }
	elsewhere := map[*provision.Host][]string{}
	opt, hosts := place.Options{Rent: rent.NewJournal(rentDir(f.hosts.dir()))}, []*provision.Host{}
	for _, name := range f.plugins {
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
		asked := map[string]bool{}
		for _, h := range l.text.Hosts {
			if h.Rent != nil && !asked[account(h)] {
				asked[account(h)] = true
				hosts = append(hosts, h)
				for _, o := range l.text.Hosts {
					if o.Rent != nil && o.Rent.Plugin == h.Rent.Plugin && account(o) != account(h) {
						elsewhere[h] = append(elsewhere[h], o.Name)
					}
				}
			}
		}
		if len(hosts) == 0 {
			_, err := fmt.Fprintf(t.stdout, "Lab %s rents nothing.\n", l.text.Lab.Name)
			return err
		}
	}
	rows, others, blind := [][]any{{"BOX", "LAB", "COSTS", "UNTIL", ""}}, 0, []string{}
	var errs []error
	for _, h := range hosts {
		renter, err := opt.Renter(h, func(format string, args ...any) {
			t.logger().Info(fmt.Sprintf(format, args...), "plugin", h.Rent.Plugin)
		})
		if err != nil {
			return err
		}
		renter.Not = elsewhere[h]
		swept, err := renter.Sweep(ctx, f.dry)
		errs = append(errs, err)
		deleted := "deleted"
		if f.dry {
			deleted = "over, to be deleted"
		}
		add := func(boxes []protocol.Box, what string) {
			for _, b := range boxes {
				rows = append(rows, []any{b.ID, b.Labels[protocol.LabelLab], fmt.Sprintf("$%.2f/h", b.PricePerHour), b.Labels[protocol.LabelExpires], what})
			}
		}
		add(swept.Deleted, deleted)
		add(swept.Failed, "over, and not gone")
		add(swept.Living, "its time is not over")
		if others += len(swept.Others); swept.Blind {
			blind = append(blind, h.Rent.Plugin)
		}
	}
	if len(rows) > 1 {
		errs = append(errs, writeTable(t.stdout, rows))
	} else if errors.Join(errs...) == nil {
		fmt.Fprintln(t.stdout, "There is no box of hcl's.")
	}
	if others > 0 {
		fmt.Fprintf(t.stdout, "%d more without hcl's labels, which nobody touched.\n", others)
	}
	for _, name := range blind {
		fmt.Fprintf(t.stdout, "%s cannot list its boxes: only those that this lab's journal has were looked at.\n", name)
	}
	return errors.Join(errs...)
}

func secretsIn(env []provision.EnvVar) (clear []string) {
	for _, v := range env {
		clear = append(clear, v.Name+"="+v.Value.Reveal())
	}
	return clear
}
