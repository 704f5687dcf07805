package apply

import (
	"context"
	"slices"
	"time"

	"hclbench/apply/place"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
)

// ToRent are the hosts that a plan has to rent.
func ToRent(p *plan.Plan) (hosts []*provision.Host) {
	add := func(all []*provision.Host) {
		for _, h := range all {
			if h.Rent != nil && !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	for _, d := range p.Deployments {
		if len(d.ToDo()) > 0 {
			add(d.Needs())
		}
	}
	for _, t := range p.Tunes {
		if t.ToDo() {
			add(t.Hosts)
		}
	}
	return hosts
}

// Offers are what a plan rents of whom, and what that costs; nil: it rents nothing. all are the lab's hosts. Nothing is rented.
func Offers(ctx context.Context, p *plan.Plan, all []*provision.Host, opt place.Options) (*plan.Rented, error) {
	hosts, now := ToRent(p), time.Now()
	left, err := opt.Left(p.Lab.Name, all, hosts)
	if err != nil || len(hosts)+len(left) == 0 {
		return nil, err
	}
	out := &plan.Rented{}
	for _, t := range left {
		out.Left = append(out.Left, Box(t, now))
	}
	open, err := opt.Rent.Open(func(t *rent.Rental) bool { return t.Lab == p.Lab.Name })
	if err != nil {
		return nil, err
	}
	stay := slices.DeleteFunc(open, func(t *rent.Rental) bool { // beside what is rented: the others are given back first
		if t.Box.ID == "" {
			return !now.Before(t.Deadline)
		}
		return slices.ContainsFunc(left, func(l *rent.Rental) bool { return l.Request == t.Request })
	})
	for _, t := range stay {
		if t.Box.ID == "" {
			out.Unsure += t.MostMoney()
		}
	}
	out.Most = out.Unsure
	known := true
	for _, r := range place.Offered(ctx, p.Lab.Name, hosts, opt) {
		want := r.Host.Rent
		h := plan.RentedHost{
			Host: r.Host.Name, Plugin: want.Plugin, TTL: want.TTL.Seconds(), MaxPrice: want.MaxPrice, Offers: append([]protocol.Offer{}, r.Offers...), Most: want.MostMoney(), Ends: ends(r),
		}
		if r.Box != nil {
			box := Box(r.Box, now)
			h.Box = &box
		}
		if r.Err != nil {
			h.Error, h.Ends = r.Err.Error(), nil
		} else if o, err := choose(p, r, &stay, now); err != nil {
			h.None = err.Error()
		} else {
			h.Chosen, h.Least = o.ID, p.AtLeast(r.Host, o)
		}
		known = known && h.Least > 0
		out.Least, out.Most, out.Hosts = out.Least+h.Least, out.Most+h.Most, append(out.Hosts, h)
	}
	if !known {
		out.Least = 0
	}
	return out, nil
}

// choose is the offer that apply would take for a host now, if the lab's money can carry it beside what stays. It stays then, too.
func choose(p *plan.Plan, r place.Rental, stay *[]*rent.Rental, now time.Time) (protocol.Offer, error) {
	o, err := rent.Choose(r.Offers, r.Host.Rent, r.Host.GPUs.String(), now.Add(r.Ahead))
	if err != nil {
		return o, err
	}
	itsBox := func(t *rent.Rental) bool { return t.Host == r.Host.Name && t.Box.ID != "" } // which is used again, or given back first
	next := &rent.Rental{
		Request: "for host " + r.Host.Name, Plugin: r.Host.Rent.Plugin, Lab: p.Lab.Name, Host: r.Host.Name, Run: "to come", Deadline: now.Add(r.Host.Rent.TTL),
		Most: rent.Most(o, r.Host.Rent), Stage: rent.Asked,
	}
	err = rent.Carries(slices.DeleteFunc(slices.Clone(*stay), itsBox), next, p.Lab.MaxMoney)
	if err == nil && !slices.ContainsFunc(*stay, itsBox) {
		*stay = append(*stay, next)
	}
	return o, err
}

// Box is a rental, as plans and people see it at a time.
func Box(t *rent.Rental, now time.Time) plan.RentedBox {
	return plan.RentedBox{
		Box: t.Box.ID, Request: t.Request, Plugin: t.Plugin, Host: t.Host, Run: t.Run, Kept: t.Stage == rent.Kept, Price: t.PerHour(), Since: t.Since(), Until: t.Deadline,
		Cost: t.Costs(now), Off: t.OffAfter.Seconds(),
	}
}

// ends are those of a box of a provider, the surest first.
func ends(r place.Rental) (all []string) {
	if r.Can.Deadline {
		all = append(all, plan.EndProvider)
	}
	if r.Can.OffIsFree {
		all = append(all, plan.EndItself)
	}
	if all = append(all, plan.EndHere); r.Can.List {
		all = append(all, plan.EndSweep)
	}
	return all
}
