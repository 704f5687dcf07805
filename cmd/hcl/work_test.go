package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/plan"
	"hclbench/provision"
)

// TestStatusOf: a host that could not be asked is not one with nothing on it.
func TestStatusOf(t *testing.T) {
	h := &provision.Host{Name: "box"}
	for _, test := range []struct {
		of   apply.Presence
		want []any
	}{
		{apply.Presence{Host: h}, []any{"-", "nothing", "-", "-"}},
		{apply.Presence{Host: h, Err: errors.New("away")}, []any{"-", "could not be asked", "-", "why stands below"}},
		{apply.Presence{Host: h, Reserved: &agent.Lease{Holder: "ada"}}, []any{"-", "in use by ada", "-", "-"}},
	} {
		if diff := cmp.Diff([][]any{test.want}, statusOf(test.of)); diff != "" {
			t.Errorf("statusOf (-want +got):\n%s", diff)
		}
	}
}

// TestOutcome: what a run has ended with, in a line and an exit code.
func TestOutcome(t *testing.T) {
	at := func(err error) error {
		return &apply.Error{Hosts: []*apply.HostError{{Host: "box", Err: err}, {Host: "other", Err: err}}}
	}
	const above = "the work on host box, other ended early; the reason stands above"
	for _, test := range []struct {
		done apply.Outcome
		err  error
		code int
		says string
	}{
		{done: apply.Outcome{Planned: 2, Valid: 2}, code: exitDone},
		{done: apply.Outcome{Planned: 2, Void: 2}, code: exitFailed, says: "no cell could be measured"},
		{done: apply.Outcome{Planned: 3, Valid: 1, Suspect: 1, Void: 1}, code: exitCells, says: "of 3 cells, 1 suspect and 1 without a measurement"},
		{err: at(errors.New("away")), code: exitFailed, says: above},
		{err: at(fmt.Errorf("%w: no GPU", apply.ErrContract)), code: exitContract, says: above},
		{err: at(fmt.Errorf("stop: %w", &provision.UncleanError{})), code: exitUnclean, says: above},
		{err: errors.New("the disk is full"), code: exitFailed, says: "the disk is full"},
	} {
		err := outcome(&plan.Plan{}, test.done, test.err)
		if code, _ := exitOf(t.Context(), err); code != test.code || err != nil && err.Error() != test.says {
			t.Errorf("outcome(%+v, %v) = exit %d, %v, want %d, %s", test.done, test.err, code, err, test.code, test.says)
		}
	}
}
