package rent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/rent/protocol"
)

// Renter rents boxes of one plugin, and gives them back.
type Renter struct {
	Plugin  *Plugin
	Journal *Journal
	Tell    func(format string, args ...any) // of what a person waits for, and of what is odd
	Poll    flow.Patience                    // how a box is waited for, until it runs or is gone; zero: for minutes
	Not     []string                         // hosts that have the same plugin and another account: their rentals are unknown here
	Sure    flow.Patience                    // how long a box that nobody is sure of is looked for; zero: half a minute
}

// Ask is what somebody wants to rent.
type Ask struct {
	Host, Lab, Run string
	Want           *provision.Rent
	GPUs           string // "8xH200", which an offer that tells its GPUs must have; empty: any
	PublicKey      string
}

// ErrTooDear says that no offer is within the price of the rent block.
var ErrTooDear = errors.New("no box within max_price")

// ErrUnsure says that nobody knows whether a box was made. It is looked for by the next apply and by sweep.
var ErrUnsure = errors.New("nobody knows whether there is a box")

// Capabilities are the provider's, with how far its clock is ahead of this machine's.
func (r *Renter) Capabilities(ctx context.Context) (can protocol.Capabilities, ahead time.Duration, err error) {
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Capable})
	if err != nil {
		return can, 0, err
	}
	if a.Capabilities == nil {
		return can, 0, r.Plugin.failed(protocol.Capable, errors.New("there are none in its answer"))
	}
	if !a.Now.IsZero() {
		ahead = time.Until(a.Now)
	}
	return *a.Capabilities, ahead, nil
}

// Offers are what there is for a rent block, the cheapest first, those that are too dear or come later among them.
func (r *Renter) Offers(ctx context.Context, want *provision.Rent, gpus string) ([]protocol.Offer, error) {
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Offers, Spec: want.Spec})
	if err != nil {
		return nil, err
	}
	fits := func(o protocol.Offer) bool { return o.GPUs == "" || gpus == "" || strings.EqualFold(o.GPUs, gpus) }
	all := slices.DeleteFunc(a.Offers, func(o protocol.Offer) bool { return !fits(o) })
	slices.SortStableFunc(all, func(a, b protocol.Offer) int { return cmp.Compare(a.PricePerHour, b.PricePerHour) })
	return all, nil
}

// choose is the cheapest offer that can be had now.
func (r *Renter) choose(ctx context.Context, a Ask, now time.Time) (protocol.Offer, error) {
	all, err := r.Offers(ctx, a.Want, a.GPUs)
	if err != nil {
		return protocol.Offer{}, err
	}
	atOnce := slices.DeleteFunc(slices.Clone(all), func(o protocol.Offer) bool { return o.From.After(now) })
	within := func(o protocol.Offer) bool {
		return o.PricePerHour <= a.Want.MaxPrice && o.PricePerHour*o.Minimum <= a.Want.MostMoney()
	}
	i := slices.IndexFunc(atOnce, within)
	switch {
	case i >= 0:
		return atOnce[i], nil
	case len(atOnce) > 0 && atOnce[0].PricePerHour <= a.Want.MaxPrice:
		return protocol.Offer{}, fmt.Errorf("%w: %s bills %g hours at least, at $%.2f, and the host may cost $%.2f in all",
			ErrTooDear, a.Want.Plugin, atOnce[0].Minimum, atOnce[0].PricePerHour, a.Want.MostMoney())
	case len(atOnce) > 0:
		return protocol.Offer{}, fmt.Errorf("%w: the cheapest that %s has now is $%.2f an hour, and max_price is $%.2f", ErrTooDear, a.Want.Plugin, atOnce[0].PricePerHour, a.Want.MaxPrice)
	case len(all) > 0:
		first := slices.MinFunc(all, func(a, b protocol.Offer) int { return a.From.Compare(b.From) })
		return protocol.Offer{}, fmt.Errorf("%s has none now: the first is there from %s on, at $%.2f an hour", a.Want.Plugin, first.From.Local().Format(time.DateTime), first.PricePerHour)
	}
	return protocol.Offer{}, fmt.Errorf("%s has nothing for this spec%s", a.Want.Plugin, of(a.GPUs))
}

func of(gpus string) string {
	if gpus == "" {
		return ""
	}
	return " with " + gpus
}

// Rent makes a box, or takes one that an earlier run has left, and returns when the provider says that it runs. Where it
// cannot be used, it is given back before Rent returns; a failure of that is in the error.
func (r *Renter) Rent(ctx context.Context, a Ask) (*Rental, error) {
	can, ahead, err := r.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if ahead.Abs() > time.Minute {
		r.Tell("this machine's clock differs from the provider's by %s; the provider's counts for the hard end", ahead.Abs().Round(time.Second))
	}
	left, err := r.takeOver(ctx, a, can, ahead)
	if left != nil {
		left.Until = left.Deadline.Add(-ahead)
	}
	if left != nil || err != nil {
		return left, err
	}
	now := time.Now().Add(ahead)
	offer, err := r.choose(ctx, a, now)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	rand.Read(id)
	t := &Rental{
		Request: "hcl-" + hex.EncodeToString(id), Plugin: a.Want.Plugin, Host: a.Host, Lab: a.Lab, Run: a.Run, Spec: a.Want.Spec,
		Asked: time.Now(), Deadline: now.Add(a.Want.TTL).UTC().Truncate(time.Second), Price: offer.PricePerHour, Stage: Asked,
	}
	t.Until = t.Deadline.Add(-ahead)
	if err := r.Journal.Note(t); err != nil {
		return nil, fmt.Errorf("nothing was rented, as it could not be noted before: %w", err)
	}
	r.Tell("renting %s of %s at $%.2f an hour, until %s at the latest", cmp.Or(offer.GPUs, offer.ID), a.Want.Plugin, offer.PricePerHour, t.Deadline.Local().Format("15:04 on 2 January"))
	// What has been asked for is waited for, also after an interruption: a box that nobody has heard of is not given back.
	sure, cancel := flow.Beyond(ctx, 5*time.Minute)
	defer cancel()
	if err := r.create(sure, t, a, offer, can); err != nil {
		if t.Box.ID != "" { // it is there, and could not be noted
			err = errors.Join(err, r.Release(sure, t))
		}
		return nil, err
	}
	if err := r.usable(ctx, t, offer, a, can); err != nil {
		return nil, errors.Join(err, r.Release(sure, t))
	}
	return t, nil
}

// create has the box made, and notes it. Whatever the plugin says of a create, the box is looked for where it does not say
// that there is one.
func (r *Renter) create(ctx context.Context, t *Rental, a Ask, offer protocol.Offer, can protocol.Capabilities) error {
	answer, err := r.Plugin.ask(ctx, protocol.Request{
		Verb: protocol.Create, Request: t.Request, Offer: offer.ID, Spec: t.Spec, Labels: t.labels(), Deadline: t.Deadline,
		MaxSpend: a.Want.MostMoney(), PublicKey: a.PublicKey, UserData: userData(t, a.Want, can),
	})
	if err == nil && answer.Box == nil {
		err = r.Plugin.failed(protocol.Create, errors.New("there is no box in its answer"))
	}
	box := answer.Box
	if err != nil {
		patience := cmp.Or(r.Sure, flow.Patience{First: time.Second, Most: 8 * time.Second, Total: 30 * time.Second})
		if hasCode(err, protocol.Refused, protocol.Busy) {
			patience.Total = patience.First // to be sure
		}
		looked := patience.Again(ctx, func() (why error) {
			box, why = r.find(ctx, t, can)
			if why == nil && box == nil {
				why = errNotThere
			}
			return why
		}, flow.Never)
		switch {
		case box != nil:
			r.Tell("%v; yet there is a box %s", err, box.ID)
		case errors.Is(looked, errNotThere) && hasCode(err, protocol.Refused, protocol.Busy):
			t.Stage = Never
			return errors.Join(err, r.Journal.Note(t))
		default:
			return fmt.Errorf("%w (request %s): %w. It was looked for: %w. The next apply and `hcl sweep` look again; if it is there, it may cost "+
				"$%.2f an hour until %s", ErrUnsure, t.Request, err, looked, t.Price, t.Deadline.Local().Format(time.DateTime))
		}
	}
	t.Box, t.Stage = *box, Made
	return r.Journal.Note(t)
}

// userData is a second hard end, where a box that is off costs nothing: it shuts itself down, whoever is alive.
// That it boots late, or its clock is wrong, makes it no later.
func userData(t *Rental, want *provision.Rent, can protocol.Capabilities) string {
	if !can.OffIsFree {
		return ""
	}
	const script = "#!/bin/sh\nleft=$(( (%d - $(date +%%s)) / 60 ))\n" +
		"[ $left -ge 1 ] && [ $left -le %[2]d ] || left=%[2]d\nshutdown -P +$left\n"
	return fmt.Sprintf(script, t.Deadline.Unix(), int(math.Ceil(want.TTL.Minutes())))
}

var errNotThere = errors.New("there is no such box")

// find is the box of a request as the provider has it; nil: it has none, or not yet. Of several the first is meant, and the
// others are deleted.
func (r *Renter) find(ctx context.Context, t *Rental, can protocol.Capabilities) (*protocol.Box, error) {
	if !can.List {
		a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Status, Request: t.Request})
		if hasCode(err, protocol.NotFound) || a.Box != nil && a.Box.State == protocol.Gone {
			return nil, nil
		}
		return a.Box, err
	}
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.List})
	if err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(a.Boxes, func(b protocol.Box) bool {
		return b.Labels[protocol.LabelRequest] != t.Request || b.State == protocol.Gone
	})
	if i := slices.IndexFunc(ours, func(b protocol.Box) bool { return b.ID == t.Box.ID }); i > 0 {
		ours[0], ours[i] = ours[i], ours[0]
	}
	// A list may be behind, lack labels, and need not tell addresses: what it has not is gone when the status says so too.
	one := *t
	if len(ours) > 0 {
		one.Box = ours[0]
	} else if t.Box.ID == "" {
		return nil, nil
	}
	box, err := r.status(ctx, &one)
	switch {
	case err != nil:
		return nil, err
	case box != nil && box.State == protocol.Gone:
		box = nil
	}
	if len(ours) == 0 {
		return box, nil
	}
	for _, other := range ours[1:] {
		r.Tell("%s has made a second box for one request, %s: it is deleted", t.Plugin, other.ID)
		second := *t
		second.Box = other
		if err := r.end(ctx, &second, can); err != nil {
			return nil, err
		}
	}
	return cmp.Or(box, &ours[0]), nil
}

// usable waits until a new box runs, and holds it to what was asked for.
func (r *Renter) usable(ctx context.Context, t *Rental, offer protocol.Offer, a Ask, can protocol.Capabilities) error {
	if price := t.Box.PricePerHour; price > max(offer.PricePerHour, 0)*1.001 && price > 0 {
		return fmt.Errorf("box %s of %s costs $%.2f an hour, and was offered at $%.2f", t.Box.ID, t.Plugin, price, offer.PricePerHour)
	}
	if end := t.Box.Deadline; can.Deadline && (end.IsZero() || end.After(t.Deadline.Add(2*time.Minute))) {
		return fmt.Errorf("box %s of %s does not end at %s, as was asked for: %s", t.Box.ID, t.Plugin, t.Deadline.Format(time.RFC3339), ends(end))
	}
	r.Tell("box %s of %s boots", t.Box.ID, t.Plugin)
	patience := cmp.Or(r.Poll, flow.Patience{First: 2 * time.Second, Most: 15 * time.Second})
	patience.Total = max(min(a.Want.BootLimit(), time.Until(t.Until)), time.Millisecond) // zero is for ever
	err := patience.Again(ctx, func() error {
		box, err := r.status(ctx, t)
		switch {
		case err != nil:
			return err
		case box == nil || box.State == protocol.Gone:
			return fmt.Errorf("%w: box %s of %s", errLost, t.Box.ID, t.Plugin)
		case box.State == protocol.Failed || box.State == protocol.Ending:
			return fmt.Errorf("%w: box %s of %s is %s", errLost, t.Box.ID, t.Plugin, box.State)
		}
		t.Box = *box
		if box.State != protocol.Running || box.Address == "" {
			return fmt.Errorf("box %s of %s is %s after %s", box.ID, t.Plugin, box.State, time.Since(t.Asked).Round(time.Second))
		}
		return nil
	}, func(err error) bool { return errors.Is(err, errLost) || hasCode(err, protocol.Refused) })
	if err != nil {
		return err
	}
	return r.Journal.Note(t)
}

var errLost = errors.New("the box was lost before it ran")

func ends(at time.Time) string {
	if at.IsZero() {
		return "the provider tells no end of it"
	}
	return "the provider says " + at.Format(time.RFC3339)
}

// status is the box as the provider has it; nil: it has none.
func (r *Renter) status(ctx context.Context, t *Rental) (*protocol.Box, error) {
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Status, ID: t.Box.ID, Request: t.Request})
	switch {
	case hasCode(err, protocol.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case a.Box == nil:
		return nil, r.Plugin.failed(protocol.Status, errors.New("there is no box in its answer"))
	case a.Box.ID != t.Box.ID:
		return nil, r.Plugin.failed(protocol.Status, fmt.Errorf("it was asked of box %s, and answers of %s", t.Box.ID, a.Box.ID))
	}
	return a.Box, nil
}

// takeOver deals with what earlier runs have left of a host: a box that runs and is as it is wanted is used again, every
// other one is given back first.
func (r *Renter) takeOver(ctx context.Context, a Ask, can protocol.Capabilities, ahead time.Duration) (*Rental, error) {
	now := time.Now().Add(ahead)
	all, err := r.Journal.Rentals()
	if err != nil {
		return nil, err
	}
	var found *Rental
	for _, t := range all {
		if t.Host != a.Host || !t.Open() {
			continue
		}
		if t.Plugin != r.Plugin.Name {
			return nil, r.another(t)
		}
		box, err := r.find(ctx, t, can)
		if err != nil {
			return nil, err
		}
		switch {
		case box == nil && t.Stage == Asked && now.Before(t.Deadline): // it may yet appear: sweep looks again
			r.Tell("request %s of an earlier run has made no box so far", t.Request)
			continue
		case box == nil:
			if err := r.over(ctx, t, can, ahead); err != nil {
				return nil, err
			}
			continue
		}
		t.Box = *box
		end := t.Deadline
		if can.Extend && !t.Hard.IsZero() {
			end = t.Hard
		}
		if most := now.Add(a.Want.TTL).UTC().Truncate(time.Second); end.After(most) {
			end = most
		}
		fits := maps.Equal(t.Spec, a.Want.Spec) && box.State == protocol.Running && box.Address != "" && found == nil &&
			cmp.Or(box.PricePerHour, t.Price) <= a.Want.MaxPrice && end.Sub(now) > a.Want.TTL/4 && (can.Extend || end.Equal(t.Deadline))
		if fits && !end.Equal(t.Deadline) {
			if err := r.extend(ctx, t, end, can); err != nil {
				r.Tell("%v", err)
				fits = false
			}
		}
		if !fits {
			r.Tell("giving back box %s, which run %s left", box.ID, t.Run)
			if err := r.Release(ctx, t); err != nil {
				return nil, err
			}
			continue
		}
		r.Tell("box %s of an earlier run is there, until %s at the latest: it is used again", box.ID, t.Deadline.Local().Format("15:04 on 2 January"))
		t.Stage, t.Run, t.Hard, found = Made, a.Run, time.Time{}, t
		if err := r.Journal.Note(t); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// extend sets a box's deadline anew. On an error nobody knows which one it has.
func (r *Renter) extend(ctx context.Context, t *Rental, until time.Time, can protocol.Capabilities) error {
	anew := *t
	anew.Deadline = until
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Extend, ID: t.Box.ID, Request: t.Request, Deadline: until, Labels: anew.labels()})
	switch {
	case err != nil:
		return err
	case a.Box == nil || a.Box.ID != t.Box.ID:
		return r.Plugin.failed(protocol.Extend, fmt.Errorf("box %s is not in its answer", t.Box.ID))
	case can.Deadline && (a.Box.Deadline.IsZero() || a.Box.Deadline.After(until.Add(2*time.Minute))):
		return fmt.Errorf("box %s of %s does not end at %s, as was asked for: %s", t.Box.ID, t.Plugin, until.Format(time.RFC3339), ends(a.Box.Deadline))
	}
	t.Deadline, t.Box = until, *a.Box
	return nil
}

// Keep leaves a box for the next run, which it is asked to end with by itself as far as the provider can. Where that cannot
// be noted, it is given back.
func (r *Renter) Keep(ctx context.Context, t *Rental, d time.Duration) error {
	can, ahead, err := r.Capabilities(ctx)
	if err != nil {
		return errors.Join(err, r.Release(ctx, t))
	}
	if until := time.Now().Add(ahead).Add(d).UTC().Truncate(time.Second); can.Extend && until.Before(t.Deadline) {
		hard := cmp.Or(t.Hard, t.Deadline)
		if err := r.extend(ctx, t, until, can); err != nil {
			return errors.Join(err, r.Release(ctx, t))
		}
		t.Hard = hard
	}
	t.Stage = Kept
	return r.Journal.Note(t)
}

// Release gives a box back, and returns when the provider says that it is gone.
func (r *Renter) Release(ctx context.Context, t *Rental) error {
	if t.Plugin != r.Plugin.Name {
		return r.another(t)
	}
	can, ahead, err := r.Capabilities(ctx)
	if err != nil {
		return stillThere(t, err)
	}
	if err := r.end(ctx, t, can); err != nil {
		return stillThere(t, err)
	}
	return r.over(ctx, t, can, ahead)
}

// Settle gives back a box that the journal has, also one of which nobody knows whether it was made.
func (r *Renter) Settle(ctx context.Context, t *Rental) error {
	if t.Plugin != r.Plugin.Name {
		return r.another(t)
	}
	if t.Box.ID != "" {
		return r.Release(ctx, t)
	}
	can, ahead, err := r.Capabilities(ctx)
	if err != nil {
		return stillThere(t, err)
	}
	box, err := r.find(ctx, t, can)
	switch {
	case err != nil:
		return stillThere(t, err)
	case box != nil:
		t.Box = *box
		return r.Release(ctx, t)
	case time.Now().Add(ahead).Before(t.Deadline): // it may yet appear
		return fmt.Errorf("%w: %s makes none so far for request %s; `hcl sweep` looks again after %s", ErrUnsure, t.Plugin, t.Request, t.Deadline.Local().Format(time.DateTime))
	}
	return r.over(ctx, t, can, ahead)
}

// another is why nothing is asked about a box of another provider: this one would say that there is none.
func (r *Renter) another(t *Rental) error {
	return stillThere(t, fmt.Errorf("host %s is rented of %s now, which knows nothing of it: write plugin = %q again, and run `hcl destroy`", t.Host, r.Plugin.Name, t.Plugin))
}

func stillThere(t *Rental, err error) error {
	return fmt.Errorf("box %s of %s is not known to be gone, and costs $%.2f an hour until then: %w. `hcl sweep` tries again; its hard end is %s",
		cmp.Or(t.Box.ID, t.Request), t.Plugin, t.Price, err, t.Deadline.Local().Format(time.DateTime))
}

// end deletes a box until the provider says that it is gone: that a delete was taken says nothing.
func (r *Renter) end(ctx context.Context, t *Rental, can protocol.Capabilities) error {
	patience := cmp.Or(r.Poll, flow.Patience{First: 2 * time.Second, Most: 15 * time.Second, Total: 5 * time.Minute})
	return patience.Again(ctx, func() error {
		_, asked := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Delete, ID: t.Box.ID, Request: t.Request})
		if hasCode(asked, protocol.NotFound) {
			asked = nil
		}
		box, err := r.status(ctx, t)
		if err == nil && box != nil && box.State != protocol.Gone {
			err = fmt.Errorf("it is %s", box.State)
		}
		if err == nil && can.List { // which is another source than status, that may lag
			if listed, why := r.listed(ctx, t.Box.ID); why != nil || listed {
				err = cmp.Or(why, errors.New("its status says that it is gone, and the list of all boxes has it"))
			}
		}
		if err == nil {
			return nil
		}
		return errors.Join(asked, err)
	}, flow.Never)
}

func (r *Renter) listed(ctx context.Context, id string) (bool, error) {
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.List})
	return slices.ContainsFunc(a.Boxes, func(b protocol.Box) bool { return b.ID == id && b.State != protocol.Gone }), err
}

// over notes that a box is gone, and what it has cost.
func (r *Renter) over(ctx context.Context, t *Rental, can protocol.Capabilities, ahead time.Duration) error {
	if t.Box.ID == "" {
		t.Stage = Never
		return r.Journal.Note(t)
	}
	t.Stage, t.Ended = Over, time.Now()
	if end := t.Deadline.Add(-ahead); can.Deadline && end.Before(t.Ended) {
		t.Ended = end // nobody was there to see it
	}
	t.Cost, t.ByUs = max(t.Ended.Sub(from(t, ahead)).Hours(), 0)*cmp.Or(t.Box.PricePerHour, t.Price), true
	if can.Cost {
		if a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Cost, ID: t.Box.ID, Request: t.Request}); err != nil {
			r.Tell("what box %s has cost is not told (%v): $%.2f is the price by the time", t.Box.ID, err, t.Cost)
		} else if a.Cost != nil {
			t.Cost, t.ByUs = *a.Cost, false
		}
	}
	return r.Journal.Note(t)
}

// from is since when a rental costs money, as far as anybody knows, by this machine's clock.
func from(t *Rental, ahead time.Duration) time.Time {
	if t.Box.BilledFrom.IsZero() {
		return t.Asked
	}
	return t.Box.BilledFrom.Add(-ahead)
}

func (t *Rental) labels() map[string]string {
	return map[string]string{
		protocol.LabelLab: plain.Cut(t.Lab, 60), protocol.LabelRun: t.Run, protocol.LabelRequest: t.Request,
		protocol.LabelExpires: t.Deadline.UTC().Format(time.RFC3339),
	}
}
