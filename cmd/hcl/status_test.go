package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/provision"
)

// TestStatusOf: a host that could not be asked is not one with nothing on it.
func TestStatusOf(t *testing.T) {
	h := &provision.Host{Name: "box"}
	for _, test := range []struct {
		of   apply.Presence
		want []string
	}{
		{apply.Presence{Host: h}, []string{"-", "nothing", "-", "-"}},
		{apply.Presence{Host: h, Err: errors.New("away")}, []string{"-", "could not be asked", "-", "why stands below"}},
		{apply.Presence{Host: h, Reserved: &agent.Lease{Holder: "ada"}}, []string{"-", "in use by ada", "-", "-"}},
	} {
		if diff := cmp.Diff([][]string{test.want}, statusOf(test.of)); diff != "" {
			t.Errorf("statusOf (-want +got):\n%s", diff)
		}
	}
}

// TestLeaves: an error with a sentence of its own about several is not taken apart.
func TestLeaves(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	whole := fmt.Errorf("%w: %w", apply.ErrContract, b)
	got := leaves(errors.Join(a, errors.Join(whole, nil), context.Canceled))
	if len(got) != 3 || got[0] != a || got[1] != whole || got[2] != context.Canceled {
		t.Errorf("leaves = %q", got)
	}
}
