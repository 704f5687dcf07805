package rent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"hclbench/provision/rent/protocol"
)

// Swept is what was found of a provider's boxes.
type Swept struct {
	Deleted []protocol.Box // ours, whose time was over
	Gone    []*Rental      // of the journal, that are gone by themselves
	Unsure  []*Rental      // of the journal, requests that may have made a box yet which nobody sees so far
	Costs   []string       // of Deleted, as [Rental.Money]; nil: nothing was deleted
	Living  []protocol.Box // ours, whose time is not over
	Endless []protocol.Box // hcl's, whose labels tell no end that can be read: nobody touches them
	Others  []protocol.Box // without hcl's labels: nobody touches them
	Failed  []protocol.Box // ours, whose time was over, and that are not gone
	Blind   bool           // the provider cannot list its boxes: those of this lab's journal were looked at alone
}

// Sweep deletes the boxes that hcl has made and whose time is over, by the provider's clock, whoever has made them. It
// touches no other one. Where dry is set it only looks. Rentals of the journal are brought up to date; one that this login says nothing of
// is an error.
func (r *Renter) Sweep(ctx context.Context, dry bool) (s Swept, err error) {
	can, ahead, err := r.Capabilities(ctx, nil)
	if err != nil {
		return s, err
	}
	known, err := r.Journal.Open(func(t *Rental) bool { return t.Plugin == r.Plugin.Name && (r.Mine == nil || r.Mine(t)) })
	if err != nil {
		return s, err
	}
	known = slices.DeleteFunc(known, func(t *Rental) bool {
		other := r.mine(t, can)
		if other != nil {
			err = errors.Join(err, t.StillThere(other))
		}
		return other != nil
	})
	var boxes []protocol.Box
	if s.Blind = !can.List; can.List {
		a, why := r.Plugin.ask(ctx, protocol.Request{Verb: protocol.List})
		if why != nil {
			return s, errors.Join(err, why)
		}
		boxes = slices.DeleteFunc(a.Boxes, func(b protocol.Box) bool { return b.State == protocol.Gone })
	}
	known = slices.DeleteFunc(known, func(t *Rental) bool { // which the list lacks, or their labels
		if slices.ContainsFunc(boxes, func(b protocol.Box) bool { return b.Labels[protocol.LabelRequest] == t.Request }) {
			return false
		}
		box, why := r.find(ctx, t, can)
		switch {
		case why != nil: // it may be there
			err = errors.Join(err, t.StillThere(why))
		case box != nil:
			boxes = slices.DeleteFunc(boxes, func(b protocol.Box) bool { return b.ID == box.ID })
			box.Labels = t.labels()
			boxes = append(boxes, *box)
		}
		return why != nil
	})
	now := time.Now().Add(ahead)
	for _, b := range boxes {
		until, unread := time.Parse(time.RFC3339, b.Labels[protocol.LabelExpires])
		request := b.Labels[protocol.LabelRequest]
		i := slices.IndexFunc(known, func(t *Rental) bool { return t.Request == request })
		if i >= 0 && (unread != nil || known[i].Deadline.Before(until)) { // it is kept no longer
			until, unread = known[i].Deadline, nil
		}
		switch {
		case request == "" && b.Request == "" && b.Labels[protocol.LabelLab] == "":
			s.Others = append(s.Others, b)
		case request == "" || unread != nil:
			s.Endless = append(s.Endless, b)
		case now.Before(until):
			s.Living = append(s.Living, b)
		case dry:
			s.Deleted = append(s.Deleted, b)
		default:
			t := &Rental{Request: request, Plugin: r.Plugin.Name, Lab: b.Labels[protocol.LabelLab], Run: b.Labels[protocol.LabelRun], Asked: cmp.Or(b.BilledFrom, now).Add(-ahead), Deadline: until, Price: b.PricePerHour}
			if i >= 0 {
				t = known[i]
			}
			t.ends(&b)
			t.Box = b
			why := r.end(ctx, t, can)
			if why != nil {
				if i >= 0 {
					err = errors.Join(err, r.Journal.Note(t))
				}
				s.Failed, err = append(s.Failed, b), errors.Join(err, t.StillThere(why))
				continue
			}
			if r.bill(ctx, t, can, ahead); i >= 0 {
				err = errors.Join(err, r.Journal.Note(t))
			}
			cost := t.Money()
			if i < 0 && t.ByUs && b.BilledFrom.IsZero() { // nobody knows since when
				cost = "not known"
			}
			s.Deleted, s.Costs = append(s.Deleted, b), append(s.Costs, cost)
		}
	}
	for _, t := range known { // those that are gone by themselves, or were never made
		there := func(b protocol.Box) bool { return b.Labels[protocol.LabelRequest] == t.Request }
		switch {
		case !t.Open() || slices.ContainsFunc(boxes, there):
		case t.Stage == Asked && !now.After(t.Deadline):
			s.Unsure = append(s.Unsure, t)
		case !dry:
			err = errors.Join(err, r.over(ctx, t, can, ahead))
			if t.Stage == Over {
				s.Gone = append(s.Gone, t)
			}
		}
	}
	return s, err
}
