package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hclbench/apply"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
)

// leaves are the errors that errors.Join has joined: those whose text is that of their
// parts, line by line. One with a sentence of its own is a whole.
func leaves(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || err.Error() != errors.Join(joined.Unwrap()...).Error() {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, leaves(e)...)
	}
	return all
}

// brief is err without what was shown when it happened: of hosts that failed
// only the names are left.
func brief(err error) error {
	var hosts []string
	var rest []error
	for _, e := range leaves(err) {
		if h, ok := e.(*apply.HostError); ok {
			hosts = append(hosts, h.Host)
		} else {
			rest = append(rest, e)
		}
	}
	if len(hosts) > 0 {
		rest = append(rest, fmt.Errorf("the work on host %s ended early; the reason stands above", strings.Join(hosts, ", ")))
	}
	return errors.Join(rest...)
}

// unclean is what of an interrupted run's error is not the interruption itself.
func unclean(err error) error {
	var left []error
	for _, e := range leaves(err) {
		if h, ok := e.(*apply.HostError); ok {
			left = append(left, unclean(h.Err))
		} else if !errors.Is(e, context.Canceled) {
			left = append(left, e)
		}
	}
	return errors.Join(left...)
}

// outcome turns what a run did into the verb's error.
func outcome(p *plan.Plan, o apply.Outcome, err error) error {
	switch {
	case errors.As(err, new(*provision.UncleanError)):
		return &exit{exitUnclean, brief(err)}
	case errors.Is(err, apply.ErrContract):
		return &exit{exitContract, brief(err)}
	case err != nil:
		return brief(err)
	case o.Planned > 0 && o.Void == o.Planned:
		return &exit{exitFailed, errors.New("no cell could be measured")}
	case o.Void > 0 || o.Suspect > 0 && !p.Rehearsal:
		var doubts []string
		if o.Suspect > 0 {
			doubts = append(doubts, fmt.Sprintf("%d suspect", o.Suspect))
		}
		if o.Void > 0 {
			doubts = append(doubts, fmt.Sprintf("%d without a measurement", o.Void))
		}
		return &exit{exitCells, fmt.Errorf("of the %s, %s", plain.Count(o.Planned, "cell"), strings.Join(doubts, " and "))}
	}
	return nil
}
