package place

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"hclbench/agent"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/provision/rent"
)

// TestLeft: a box that is kept for a host which is not needed now is left alone, but no longer than it was to be kept.
func TestLeft(t *testing.T) {
	host := &provision.Host{Name: "box", Rent: &provision.Rent{Plugin: "fake"}}
	for _, of := range []struct {
		stage   rent.Stage
		within  time.Duration
		needed  bool
		lab     string
		nothing bool
	}{
		{stage: rent.Made, within: time.Hour, lab: "lab"},
		{stage: rent.Made, within: time.Hour, lab: "lab", needed: true, nothing: true},
		{stage: rent.Made, within: time.Hour, lab: "another", nothing: true},
		{stage: rent.Kept, within: time.Hour, lab: "lab", nothing: true},
		{stage: rent.Kept, within: -time.Minute, lab: "lab"},
		{stage: rent.Over, within: -time.Minute, lab: "lab", nothing: true},
	} {
		opt := Options{Rent: rent.NewJournal(t.TempDir())}
		if err := opt.Rent.Note(&rent.Rental{Request: "r", Lab: of.lab, Host: "box", Stage: of.stage, Deadline: time.Now().Add(of.within)}); err != nil {
			t.Fatal(err)
		}
		var needed []*provision.Host
		if of.needed {
			needed = append(needed, host)
		}
		left, err := opt.Left("lab", []*provision.Host{host}, needed)
		if err != nil || (len(left) == 0) != of.nothing {
			t.Errorf("%+v: %v, %v", of, left, err)
		}
	}
}

// TestKeepsNoDestroyed: a box is not kept of a run whose lease somebody has ended.
func TestKeepsNoDestroyed(t *testing.T) {
	for _, why := range []error{nil, &agent.HeldError{Ended: "hcl destroy"}} {
		held, lose := context.WithCancelCause(t.Context())
		defer lose(nil)
		if why != nil {
			lose(why)
		}
		given := false
		s := &Session{
			Host: &provision.Host{Name: "box", Rent: &provision.Rent{Keep: time.Minute}}, Held: held, claimed: "claim", until: time.Now().Add(time.Hour),
			lease: &lease{held: held}, tell: func(e Event) { given = given || strings.HasPrefix(e.Message, "giving back") },
		}
		renter := &rent.Renter{Plugin: &rent.Plugin{Name: "none"}}
		if err := s.giveBox(t.Context(), renter, &rent.Rental{Plugin: "none"}); err == nil || given != (why != nil) {
			t.Errorf("where its lease ended with %v, it is given back: %v; %v", why, given, err)
		}
	}
}

// TestHardEndAfterSleep: the work on a box ends at its hard end by the clock on the wall: timers stand still while a laptop is closed.
func TestHardEndAfterSleep(t *testing.T) {
	for _, until := range []time.Duration{-time.Minute, time.Hour} {
		held, lose := context.WithCancelCause(t.Context())
		asked := 0
		s := &Session{
			lease: &lease{claim: agent.Lease{TTL: load.Duration(5 * time.Millisecond)}, held: held, lose: lose}, until: time.Now().Add(until).Round(0),
			lost: func(context.Context) error {
				if asked++; asked == 3 {
					lose(nil)
				}
				return nil
			},
		}
		s.watchBox(held)
		if err := context.Cause(held); errors.Is(err, errHardEnd) != (until < 0) {
			t.Errorf("with a hard end in %s the work ends with %v", until, err)
		}
	}
}
