package place

import (
	"context"
	"errors"
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
