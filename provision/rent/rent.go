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
	Mine    func(*Rental) bool               // whether it is of the plugin's account, which knows of no other; nil: all of the plugin are
	Sure    flow.Patience                    // how long a box that nobody is sure of is looked for; zero: half a minute
}

// Ask is what somebody wants to rent.
type Ask struct {
	Host, Lab, Run string
	Want           *provision.Rent
	GPUs           string // "8xH200", which an offer that tells its GPUs must have; empty: any
	PublicKey      string
	MaxMoney       float64 // USD that the lab may have to pay at any time; 0: no limit
}

// ErrTooDear says that no offer is within the price of the rent block.
var ErrTooDear = errors.New("no box within max_price")

// ErrBudget says that the lab's money cannot carry another box.
var ErrBudget = errors.New("the lab has not the money for one more box")

// ErrUnsure says that nobody knows whether a box was made. It is looked for by the next apply and by sweep.
var ErrUnsure = errors.New("nobody knows whether there is a box")

// Capabilities are the provider's, for what a rent block asks for, with how far its clock is ahead of this machine's: as little as can
// be, since it was read at some moment between question and answer, and two clocks that agree must not seem to differ by how long that
// took.
func (r *Renter) Capabilities(ctx context.Context, spec map[string]string) (can protocol.Capabilities, ahead time.Duration, err error) {
	asked := time.Now()
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Capable, Spec: spec})
	if err != nil {
		return can, 0, err
	}
	if a.Capabilities == nil {
		return can, 0, r.Plugin.failed(protocol.Capable, errors.New("there are none in its answer"))
	}
	if most, least := a.Now.Sub(asked), time.Until(a.Now); !a.Now.IsZero() {
		ahead = min(most, max(least, 0))
	}
	return *a.Capabilities, ahead, nil
}

// Most is what a box of an offer can cost until its hard end, in USD: the provider may bill more hours than those.
func Most(o protocol.Offer, want *provision.Rent) float64 {
	return o.PricePerHour * max(want.TTL.Hours(), o.Minimum)
}

// Offers are what there is for a rent block, the cheapest until the hard end first, those that are too dear or come later among them.
func (r *Renter) Offers(ctx context.Context, want *provision.Rent, gpus string) ([]protocol.Offer, error) {
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Offers, Spec: want.Spec})
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(a.Offers, func(o protocol.Offer) bool { return !haveGPUs(o.GPUs, gpus) })
	slices.SortStableFunc(all, func(a, b protocol.Offer) int {
		return cmp.Or(cmp.Compare(Most(a, want), Most(b, want)), cmp.Compare(a.Minimum, b.Minimum))
	})
	return all, nil
}

// haveGPUs reports whether what is told of GPUs can be what is wanted; either may be empty.
func haveGPUs(told, wanted string) bool {
	return told == "" || wanted == "" || strings.EqualFold(told, wanted)
}

// Choose is the cheapest of some offers, as [Renter.Offers] sorts them, that can be had now.
func Choose(all []protocol.Offer, want *provision.Rent, gpus string, now time.Time) (protocol.Offer, error) {
	atOnce := slices.DeleteFunc(slices.Clone(all), func(o protocol.Offer) bool { return o.From.After(now) })
	byHour := slices.IndexFunc(atOnce, func(o protocol.Offer) bool { return o.PricePerHour <= want.MaxPrice })
	within := slices.IndexFunc(atOnce, func(o protocol.Offer) bool {
		return o.PricePerHour <= want.MaxPrice && Most(o, want) <= want.MostMoney()
	})
	switch {
	case within >= 0:
		return atOnce[within], nil
	case byHour >= 0:
		return protocol.Offer{}, fmt.Errorf("%w: %s bills %g hours at least, at $%.2f, and the host may cost $%.2f in all",
			ErrTooDear, want.Plugin, atOnce[byHour].Minimum, atOnce[byHour].PricePerHour, want.MostMoney())
	case len(atOnce) > 0:
		first := slices.MinFunc(atOnce, func(a, b protocol.Offer) int { return cmp.Compare(a.PricePerHour, b.PricePerHour) })
		return protocol.Offer{}, fmt.Errorf("%w: the cheapest that %s has now is $%.2f an hour, and max_price is $%.2f", ErrTooDear, want.Plugin, first.PricePerHour, want.MaxPrice)
	case len(all) > 0:
		first := slices.MinFunc(all, func(a, b protocol.Offer) int { return a.From.Compare(b.From) })
		return protocol.Offer{}, fmt.Errorf("%s has none now: the first is there from %s on, at $%.2f an hour", want.Plugin, first.From.Local().Format(time.DateTime), first.PricePerHour)
	}
	return protocol.Offer{}, fmt.Errorf("%s has nothing for this spec%s", want.Plugin, of(gpus))
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
	can, ahead, err := r.Capabilities(ctx, a.Want.Spec)
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
	offers, err := r.Offers(ctx, a.Want, a.GPUs)
	if err != nil {
		return nil, err
	}
	offer, err := Choose(offers, a.Want, a.GPUs, now)
	if err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	rand.Read(id)
	t := &Rental{
		Request: "hcl-" + hex.EncodeToString(id), Plugin: a.Want.Plugin, Payer: can.Account, Host: a.Host, Lab: a.Lab, Run: a.Run, Spec: a.Want.Spec,
		Asked: time.Now(), Deadline: now.Add(a.Want.TTL).UTC().Truncate(time.Second), Price: offer.PricePerHour, Stage: Asked, OffAfter: offAfter(a.Want, can),
		NoEnd:   !can.Deadline && !can.OffIsFree,
		Minimum: offer.Minimum, GPUs: cmp.Or(offer.GPUs, a.GPUs), Key: a.PublicKey, Shares: []Share{{Run: a.Run, From: time.Now()}},
	}
	t.Login, t.Until = r.Plugin.login(t), t.Deadline.Add(-ahead)
	t.Most = Most(offer, a.Want)
	if err := r.Journal.Commit(t, a.MaxMoney); errors.Is(err, ErrBudget) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("nothing was rented, as it could not be noted before: %w", err)
	}
	r.Tell("renting %s of %s at $%.2f an hour, until %s at the latest", cmp.Or(offer.GPUs, offer.ID), a.Want.Plugin, offer.PricePerHour, t.Deadline.Local().Format("15:04 on 2 January"))
	// What has been asked for is waited for, also after an interruption: a box that nobody has heard of is not given back.
	sure, cancel := flow.Beyond(ctx, 5*time.Minute)
	defer cancel()
	if err := r.create(sure, t, a, offer, can); err != nil {
		if t.Box.ID != "" { // it is there, and could not be noted
			err = errors.Join(err, r.giveUp(sure, t))
		}
		return nil, err
	}
	if err := r.usable(ctx, t, a, can, ahead); err != nil {
		return nil, errors.Join(err, r.giveUp(sure, t))
	}
	return t, nil
}

// giveUp gives back a box that cannot be used, and says what it has cost.
func (r *Renter) giveUp(ctx context.Context, t *Rental) error {
	err := r.Release(ctx, t)
	if err == nil {
		r.Tell("%s is gone; it has cost %s", t, t.Money())
	}
	return err
}

// create has the box made, and notes it. Whatever the plugin says of a create, the box is looked for where it does not say
// that there is one.
func (r *Renter) create(ctx context.Context, t *Rental, a Ask, offer protocol.Offer, can protocol.Capabilities) error {
	answer, err := r.Plugin.ask(ctx, protocol.Request{
		Verb: protocol.Create, Request: t.Request, Offer: offer.ID, Spec: t.Spec, Labels: t.labels(), Deadline: t.Deadline,
		MaxSpend: a.Want.MostMoney(), PublicKey: a.PublicKey, UserData: userData(t, a.Want, can),
	})
	box := answer.Box
	switch {
	case err != nil:
	case box == nil:
		err = r.Plugin.failed(protocol.Create, errors.New("there is no box in its answer"))
	case t.isAnothers(box):
		err = r.Plugin.failed(protocol.Create, fmt.Errorf("it was asked for request %s, and answers with box %s of %s", t.Request, box.ID, requestOf(box)))
	}
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
			return fmt.Errorf("%w (request %s): %w. It was looked for: %w. The next apply and `hcl sweep` look again; if it is there, it costs "+
				"$%.2f an hour, and %s", ErrUnsure, t.Request, err, looked, t.Price, t.End())
		}
	}
	t.Box, t.Stage = *box, Made
	return r.Journal.Note(t)
}

// minOff is how much time the next apply has to find a box that a killed one has left, before it shuts itself down. One that is kept is
// not off, nor closed to logins, before its time is over.
const minOff = 10 * time.Minute

// offAfter is [Rental.OffAfter].
func offAfter(want *provision.Rent, can protocol.Capabilities) time.Duration {
	if !can.OffIsFree {
		return 0
	}
	return want.Keep + minOff
}

// userData is a second hard end, where a box that is off costs nothing: it shuts itself down, whoever is alive, also if it was
// restarted. That it boots late, or its clock is wrong, makes it no later. The agent there moves that time nearer.
func userData(t *Rental, want *provision.Rent, can protocol.Capabilities) string {
	if !can.OffIsFree {
		return ""
	}
	const script = `#!/bin/sh
now=$(date +%%s)
left=$(( (%d - now) / 60 ))
[ $left -ge 1 ] && [ $left -le %[2]d ] || left=%[2]d
boots=/var/lib/cloud/scripts/per-boot
mkdir -p $boots
cat > $boots/hcl-hard-end << END
#!/bin/sh
left=\$(( ($(( now + left * 60 )) - \$(date +%%s)) / 60 ))
[ \$left -ge 1 ] || left=1
[ \$left -le %[2]d ] || left=%[2]d
shutdown -P +\$left
END
chmod 755 $boots/hcl-hard-end
shutdown -P +$left
`
	return fmt.Sprintf(script, t.Deadline.Unix(), int(math.Ceil(want.TTL.Minutes())))
}

var errNotThere = errors.New("there is no such box")

// find is the box of a request as the provider has it; nil: it has none, or not yet. Of several the first is meant, and the
// others are deleted.
func (r *Renter) find(ctx context.Context, t *Rental, can protocol.Capabilities) (*protocol.Box, error) {
	if !can.List && t.Box.ID == "" {
		a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Status, Request: t.Request})
		if hasCode(err, protocol.NotFound) || a.Box != nil && (a.Box.State == protocol.Gone || t.isAnothers(a.Box)) {
			return nil, r.believe(t)
		}
		return a.Box, err
	}
	if !can.List {
		box, err := r.status(ctx, t)
		if box != nil && box.State == protocol.Gone {
			box = nil
		}
		return box, err
	}
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.List})
	if err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(a.Boxes, func(b protocol.Box) bool {
		return b.Labels[protocol.LabelRequest] != t.Request && b.Request != t.Request || b.State == protocol.Gone
	})
	if i := slices.IndexFunc(ours, func(b protocol.Box) bool { return b.ID == t.Box.ID }); i > 0 {
		ours[0], ours[i] = ours[i], ours[0]
	}
	// A list may be behind, lack labels, and need not tell addresses: what it has not is gone when the status says so too.
	one := *t
	if len(ours) > 0 {
		t.ends(&ours[0])
		one.Box = ours[0]
		one.Box.BilledUntil = t.Box.BilledUntil
	} else if t.Box.ID == "" {
		return nil, r.believe(t)
	}
	box, err := r.status(ctx, &one)
	t.Login, t.taken, t.Box.BilledUntil = one.Login, one.taken, one.Box.BilledUntil
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
func (r *Renter) usable(ctx context.Context, t *Rental, a Ask, can protocol.Capabilities, ahead time.Duration) error {
	if err := t.agreed(&t.Box, can); err != nil {
		return err
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
			return fmt.Errorf("%w: %s is gone before it ran", ErrLost, t)
		case box.State == protocol.Failed || box.State == protocol.Ending:
			return fmt.Errorf("%w before it ran: %s is %s", ErrLost, t, box.State)
		}
		t.Box = *box
		if err := t.agreed(box, can); err != nil {
			return err
		}
		if box.State != protocol.Running || box.Address == "" {
			return fmt.Errorf("box %s of %s is %s after %s", box.ID, t.Plugin, box.State, time.Since(t.Asked).Round(time.Second))
		}
		return nil
	}, func(err error) bool {
		return errors.Is(err, ErrLost) || errors.Is(err, errNotAgreed) || hasCode(err, protocol.Refused)
	})
	if err != nil {
		return err
	}
	t.billed(ahead)
	return r.Journal.Note(t)
}

// ErrLost says that a box is no more, or must not be for long: it was taken away, has failed, somebody has deleted it, or it is not what
// was agreed any more.
var ErrLost = errors.New("the box is lost")

// Lost is an [ErrLost] if the provider says that a box which ran runs no more, is dearer now, or ends later. That it is gone, all that
// the provider tells has to say.
// A program that is asked when ctx ends has a minute to end by itself: it may keep what it knows of the box in files.
func (r *Renter) Lost(ctx context.Context, t *Rental) error {
	ctx, cancel := flow.Beyond(ctx, time.Minute)
	defer cancel()
	box, err := r.status(ctx, t)
	switch {
	case err != nil:
		return nil
	case box != nil && (box.State == protocol.Running || box.State == protocol.Pending):
		box.Odd = "" // what cannot be read may be so this once
		if t.agreed(box, protocol.Capabilities{Deadline: !t.Box.Deadline.IsZero()}) == nil {
			return nil
		}
		can, _, err := r.Capabilities(ctx, t.Spec)
		if err != nil {
			return nil
		}
		if err := t.agreed(box, can); err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		return nil
	case box != nil && box.State != protocol.Gone:
		return fmt.Errorf("%w: %s is %s", ErrLost, t, box.State)
	}
	can, _, err := r.Capabilities(ctx, t.Spec)
	if err == nil {
		err = r.mine(t, can)
	}
	if err == nil && can.List {
		var listed bool
		if listed, err = r.listed(ctx, t); listed {
			return nil
		}
	}
	if err != nil {
		return nil
	}
	return fmt.Errorf("%w: %s is gone, which nobody here has asked for", ErrLost, t)
}

var errNotAgreed = errors.New("this is not what was asked for")

// agreed holds a box, as the provider tells it now, to the price of its offer and to its hard end.
func (t *Rental) agreed(box *protocol.Box, can protocol.Capabilities) error {
	if box.Odd != "" {
		return fmt.Errorf("%w: box %s of %s: %s", errNotAgreed, box.ID, t.Plugin, box.Odd)
	}
	if box.PricePerHour > t.Price*1.001 {
		return fmt.Errorf("%w: box %s of %s costs $%.2f an hour, and was offered at $%.2f", errNotAgreed, box.ID, t.Plugin, box.PricePerHour, t.Price)
	}
	if end := box.Deadline; can.Deadline && (end.IsZero() || end.After(t.Deadline.Add(inexact))) {
		return fmt.Errorf("%w: box %s of %s does not end at %s: %s", errNotAgreed, box.ID, t.Plugin, t.Deadline.Format(time.RFC3339), ends(end))
	}
	return nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

func ends(at time.Time) string {
	if at.IsZero() {
		return "the provider tells no end of it"
	}
	return "the provider says " + at.Format(time.RFC3339)
}

// believe is an error if who asks must not say that there is no box: with another login than the one that has made it, or has seen it
// since, that may only mean that the account is another. Where the provider tells the account, [Renter.mine] has looked at that.
func (r *Renter) believe(t *Rental) error {
	if t.Payer != "" || t.Login == "" || t.Login == r.Plugin.login(t) {
		return nil
	}
	return fmt.Errorf("%w: use the env of then again, or look at %s, and when it is not there either remove the lines with %s from %s",
		errAnotherLogin, t.Plugin, t.Request, r.Journal.path)
}

var errAnotherLogin = errors.New("it was rented with another env than the rent block has now, and with this one there is no such box, which says nothing")

// errAnothers says that a box no longer carries the request that it did carry, and has labels of somebody's.
var errAnothers = errors.New("it may be another's by now")

// requestOf is the request that a box was made for; empty: that is not told.
func requestOf(b *protocol.Box) string { return cmp.Or(b.Labels[protocol.LabelRequest], b.Request) }

// isAnothers reports whether a box carries a request, and that is not this one's.
func (t *Rental) isAnothers(b *protocol.Box) bool {
	return requestOf(b) != "" && b.Labels[protocol.LabelRequest] != t.Request && b.Request != t.Request
}

// status is the box as the provider has it; nil: it has none. What has its ID and was made for another request is another box.
func (r *Renter) status(ctx context.Context, t *Rental) (*protocol.Box, error) {
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Status, ID: t.Box.ID, Request: t.Request})
	switch {
	case hasCode(err, protocol.NotFound):
		return nil, r.believe(t)
	case err != nil:
		return nil, err
	case a.Box == nil:
		return nil, r.Plugin.failed(protocol.Status, errors.New("there is no box in its answer"))
	case a.Box.ID != t.Box.ID:
		return nil, r.Plugin.failed(protocol.Status, fmt.Errorf("it was asked of box %s, and answers of %s", t.Box.ID, a.Box.ID))
	case t.isAnothers(a.Box):
		t.taken = true
		return nil, r.believe(t)
	case a.Box.State == protocol.Gone:
		t.ends(a.Box)
		return a.Box, r.believe(t)
	case requestOf(a.Box) == "" && len(a.Box.Labels) > 0 && requestOf(&t.Box) == t.Request:
		return nil, fmt.Errorf("%w: box %s of %s carries request %s no more, and other labels: if it is yours, give it that label again, or delete it there; if not, remove the lines with that request from %s",
			errAnothers, t.Box.ID, t.Plugin, t.Request, r.Journal.path)
	}
	if now := r.Plugin.login(t); t.Login != "" && t.Login != now { // within a run it stays: others read it meanwhile
		t.Login = now
	}
	if a.Box.State != protocol.Ending && !t.Box.BilledUntil.IsZero() { // it was ending, and runs on
		t.Box.BilledUntil = time.Time{}
	}
	t.ends(a.Box)
	return a.Box, nil
}

// takeOver deals with what earlier runs have left of a host: a box that runs and is as it is wanted is used again, when
// every other one was given back.
func (r *Renter) takeOver(ctx context.Context, a Ask, can protocol.Capabilities, ahead time.Duration) (found *Rental, err error) {
	now := time.Now().Add(ahead)
	all, err := r.Journal.Open(func(t *Rental) bool { return t.Host == a.Host && t.Lab == a.Lab })
	if err != nil {
		return nil, err
	}
	defer func() { // nobody uses what was found
		if err != nil && found != nil {
			sure, cancel := flow.Beyond(ctx, 5*time.Minute)
			defer cancel()
			found, err = nil, errors.Join(err, r.giveUp(sure, found))
		}
	}()
	giveBack := func(t *Rental, why error) error {
		r.Tell("giving back box %s, which run %s left%s", t.Box.ID, t.Run, because(why))
		return r.giveUp(ctx, t)
	}
	var until time.Time
	nearer := false // the provider ends it before, as whoever has told it so was killed before that was noted
	for _, t := range all {
		if err := r.mine(t, can); err != nil {
			return found, t.StillThere(err)
		}
		box, err := r.find(ctx, t, can)
		if err != nil {
			return found, err
		}
		switch {
		case box == nil && t.Stage == Asked && now.Before(t.Deadline): // it may yet appear: sweep looks again
			r.Tell("request %s of an earlier run has made no box so far", t.Request)
			continue
		case box == nil:
			if err := r.over(ctx, t, can, ahead); err != nil {
				return found, err
			}
			continue
		}
		t.Last().Price = t.PerHour()
		t.Box = *box
		other := cmp.Or(t.agreed(box, can), t.suits(a))
		hard := cmp.Or(t.Hard, t.Deadline)
		known := knownEnd(box, hard)
		if !can.Extend {
			hard = known
		}
		end := hard
		if most := now.Add(a.Want.TTL).UTC().Truncate(time.Second); end.After(most) {
			end = most
		}
		fits := other == nil && box.State == protocol.Running && box.Address != "" && found == nil &&
			cmp.Or(box.PricePerHour, t.Price) <= a.Want.MaxPrice && end.Sub(now) > a.Want.TTL/4 && (can.Extend || end.Equal(hard)) &&
			(t.OffAfter == 0 || now.Before(t.Deadline)) // else it shuts itself down at any time, and lets nobody in before
		if fits {
			found, until = t, end
			nearer = can.Extend && known.Before(end.Add(-inexact))
		} else if err := giveBack(t, other); err != nil {
			return found, err
		}
	}
	if found == nil {
		return nil, nil
	}
	t := found
	if !can.Extend {
		t.Deadline = until
	} else if nearer || !until.Equal(t.Deadline) {
		if err := r.extend(ctx, t, until, can); err != nil {
			return nil, giveBack(t, err)
		}
	}
	r.Tell("box %s of an earlier run is there, until %s at the latest: it is used again", t.Box.ID, t.Deadline.Local().Format("15:04 on 2 January"))
	t.Last()
	t.billed(ahead)
	t.Shares = append(t.Shares, Share{Run: a.Run, From: time.Now()})
	t.Stage, t.Run, t.Hard, t.OffAfter = Made, a.Run, time.Time{}, offAfter(a.Want, can)
	return t, r.Journal.Note(t)
}

// suits is an error if a box was made for something else than is wanted now.
func (t *Rental) suits(a Ask) error {
	switch {
	case !maps.Equal(t.Spec, a.Want.Spec):
		return errors.New("it was rented with another spec")
	case !haveGPUs(t.GPUs, a.GPUs):
		return fmt.Errorf("it was rented with %s", t.GPUs)
	case t.Key != "" && t.Key != a.PublicKey:
		return errors.New("it lets in another key")
	}
	return nil
}

// knownEnd is when a box ends at the latest by what its provider has been told: by itself, or by a sweep.
func knownEnd(box *protocol.Box, hard time.Time) time.Time {
	label, _ := time.Parse(time.RFC3339, box.Labels[protocol.LabelExpires])
	for _, end := range []time.Time{box.Deadline, label} {
		if !end.IsZero() && end.Before(hard) {
			hard = end
		}
	}
	return hard
}

// inexact is by how much a provider may be off with a deadline: some know only minutes.
const inexact = 2 * time.Minute

// extend sets a box's deadline anew. On an error nobody knows which one it has.
func (r *Renter) extend(ctx context.Context, t *Rental, until time.Time, can protocol.Capabilities) error {
	anew := *t
	anew.Deadline, anew.Price = until, math.Inf(1) // a price is no reason to leave the end as it was
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Extend, ID: t.Box.ID, Request: t.Request, Deadline: until, Labels: anew.labels()})
	switch {
	case err != nil:
		return err
	case a.Box == nil || a.Box.ID != t.Box.ID:
		return r.Plugin.failed(protocol.Extend, fmt.Errorf("box %s is not in its answer", t.Box.ID))
	case a.Box.State != protocol.Running:
		return fmt.Errorf("%w: %s is %s", ErrLost, t, a.Box.State)
	}
	if err := anew.agreed(a.Box, can); err != nil {
		return err
	}
	t.Deadline, t.Box = until, *a.Box
	return nil
}

// Keep leaves a box for the next run. Its provider is told the nearer end where it can be; where it ends no box, a sweep of this
// journal does. One that is no more, or cannot be kept so, is given back.
func (r *Renter) Keep(ctx context.Context, t *Rental, d time.Duration) error {
	can, ahead, err := r.toEnd(ctx, t)
	if err != nil {
		return t.StillThere(err)
	}
	if _, err := r.status(ctx, t); isUnknown(err) { // what may be another's is not told a new end
		return t.StillThere(err)
	}
	if err := r.Lost(ctx, t); err != nil {
		return errors.Join(err, r.giveUp(ctx, t))
	}
	hard := cmp.Or(t.Hard, t.Deadline)
	switch until := time.Now().Add(ahead).Add(d).UTC().Truncate(time.Second); {
	case !until.Before(t.Deadline):
	case can.Extend:
		if err := r.extend(ctx, t, until, can); err != nil {
			return errors.Join(err, r.giveUp(ctx, t))
		}
		t.Hard = hard
	case !can.Deadline:
		t.Deadline, t.Hard = until, hard
	}
	t.Stage = Kept
	return r.Journal.Note(t)
}

// Release gives a box back, and returns when the provider says that it is gone.
func (r *Renter) Release(ctx context.Context, t *Rental) error {
	can, ahead, err := r.toEnd(ctx, t)
	if err != nil {
		return t.StillThere(err)
	}
	if err := r.end(ctx, t, can); err != nil {
		return errors.Join(t.StillThere(err), r.Journal.Note(t)) // with the end that the provider may have told
	}
	return r.over(ctx, t, can, ahead)
}

// Settle gives back a box that the journal has, also one of which nobody knows whether it was made.
func (r *Renter) Settle(ctx context.Context, t *Rental) error {
	if t.Box.ID != "" {
		return r.Release(ctx, t)
	}
	can, ahead, err := r.toEnd(ctx, t)
	if err != nil {
		return t.StillThere(err)
	}
	var box *protocol.Box
	err = r.patience().Again(ctx, func() (err error) {
		box, err = r.find(ctx, t, can)
		return err
	}, isFinal)
	switch {
	case err != nil:
		return t.StillThere(err)
	case box != nil:
		t.Box = *box
		return r.Release(ctx, t)
	case time.Now().Add(ahead).Before(t.Deadline): // it may yet appear
		return fmt.Errorf("%w: %s makes none so far for request %s; `hcl sweep` looks again after %s", ErrUnsure, t.Plugin, t.Request, t.Deadline.Local().Format(time.DateTime))
	}
	return r.over(ctx, t, can, ahead)
}

// toEnd are the capabilities of the provider for one whose box is to end. They are asked for until it tells them: a single answer
// that did not come must not leave a box until its hard end.
func (r *Renter) toEnd(ctx context.Context, t *Rental) (can protocol.Capabilities, ahead time.Duration, err error) {
	err = r.patience().Again(ctx, func() (err error) {
		can, ahead, err = r.Capabilities(ctx, t.Spec)
		return err
	}, isFinal)
	if err == nil {
		err = r.mine(t, can)
	}
	return can, ahead, err
}

// isFinal reports whether the next try would bring the same.
func isFinal(err error) bool { return hasCode(err, protocol.Refused) || isUnknown(err) }

// isUnknown reports whether nobody here can say whether a box is there, or is ours.
func isUnknown(err error) bool { return errors.Is(err, errAnotherLogin) || errors.Is(err, errAnothers) }

// patience is how long it is tried to end a box.
func (r *Renter) patience() flow.Patience {
	return cmp.Or(r.Poll, flow.Patience{First: 2 * time.Second, Most: 15 * time.Second, Total: 5 * time.Minute})
}

// mine is an error for a box of another provider, or of another account: this one would say that there is none.
func (r *Renter) mine(t *Rental, can protocol.Capabilities) error {
	const again = "host %s is rented of %s now, which knows nothing of it: write %s again, and run `hcl destroy`"
	switch {
	case t.Plugin != r.Plugin.Name:
		return fmt.Errorf(again, t.Host, r.Plugin.Name, fmt.Sprintf("plugin = %q", t.Plugin))
	case t.Payer != "" && t.Payer != can.Account:
		return fmt.Errorf(again, t.Host, "account "+cmp.Or(can.Account, "?"), "the key of account "+t.Payer)
	}
	return nil
}

// StillThere says that a box costs money, and why it is not given back.
func (t *Rental) StillThere(err error) error {
	what := t.String()
	if t.Box.ID == "" {
		what += " may have made a box, which"
	}
	return fmt.Errorf("%s is not known to be gone, and costs $%.2f an hour until then: %w. `hcl sweep` tries again; %s", what, t.Price, err, t.End())
}

// end deletes a box until the provider says that it is gone: that a delete was taken says nothing.
func (r *Renter) end(ctx context.Context, t *Rental, can protocol.Capabilities) error {
	return r.patience().Again(ctx, func() error {
		// Its ID may be another's by now. A login that has not made it is believed if it sees the box.
		if _, err := r.status(ctx, t); isUnknown(err) || r.believe(t) != nil || t.taken {
			return err
		}
		a, asked := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Delete, ID: t.Box.ID, Request: t.Request})
		if hasCode(asked, protocol.NotFound) {
			asked = nil
		}
		if a.Box != nil {
			t.ends(a.Box)
		}
		box, err := r.status(ctx, t)
		if err == nil && box != nil && box.State != protocol.Gone {
			err = fmt.Errorf("it is %s", box.State)
		}
		if err == nil && can.List { // which is another source than status, that may lag
			if listed, why := r.listed(ctx, t); why != nil || listed {
				err = cmp.Or(why, errors.New("its status says that it is gone, and the list of all boxes has it"))
			}
		}
		if err == nil {
			return nil
		}
		return errors.Join(asked, err)
	}, isUnknown)
}

func (r *Renter) listed(ctx context.Context, t *Rental) (bool, error) {
	a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.List})
	return slices.ContainsFunc(a.Boxes, func(b protocol.Box) bool {
		return b.ID == t.Box.ID && b.State != protocol.Gone && !t.isAnothers(&b)
	}), err
}

// over notes that a box is gone, and what it has cost.
func (r *Renter) over(ctx context.Context, t *Rental, can protocol.Capabilities, ahead time.Duration) error {
	if t.Box.ID == "" {
		t.Stage = Never
	} else {
		r.bill(ctx, t, can, ahead)
	}
	return r.Journal.Note(t)
}

// bill finds out what a box has cost that is gone.
func (r *Renter) bill(ctx context.Context, t *Rental, can protocol.Capabilities, ahead time.Duration) {
	t.billed(ahead)
	t.Stage, t.Ended = Over, time.Now()
	told := t.Box.BilledUntil
	if told.IsZero() && can.Deadline {
		told = t.Deadline
	}
	if end := told.Add(-ahead); !told.IsZero() && end.Before(t.Ended) && !end.Before(t.Since()) {
		t.Ended = end // nobody was there to see it
	}
	t.Cost, t.ByUs = t.Costs(t.Ended), true
	if can.Cost && !t.taken {
		if a, err := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.Cost, ID: t.Box.ID, Request: t.Request}); err != nil {
			r.Tell("what box %s has cost is not told (%v): $%.2f is the price by the time", t.Box.ID, err, t.Cost)
		} else if a.Cost != nil {
			t.Cost, t.ByUs = *a.Cost, false
		}
	}
}

// ends notes until when a box is billed that ends, where the provider tells it: it may know nothing of that box the next time. What it
// has told first stays: of one that is asked to end again it may tell now.
func (t *Rental) ends(box *protocol.Box) {
	if box.State != protocol.Ending && box.State != protocol.Gone {
		return
	}
	if t.Box.BilledUntil.IsZero() {
		t.Box.BilledUntil = box.BilledUntil
	}
	box.BilledUntil = t.Box.BilledUntil
}

// billed notes since when it costs money, where the provider tells it: no long time before it was asked for.
func (t *Rental) billed(ahead time.Duration) {
	t.Last()
	if from := t.Box.BilledFrom.Add(-ahead); !t.Box.BilledFrom.IsZero() && t.Asked.Sub(from) < time.Hour {
		t.Shares[0].From = from
	}
}

func (t *Rental) labels() map[string]string {
	return map[string]string{
		protocol.LabelLab: plain.Cut(t.Lab, 60), protocol.LabelRun: t.Run, protocol.LabelRequest: t.Request,
		protocol.LabelExpires: t.Deadline.UTC().Format(time.RFC3339),
	}
}
