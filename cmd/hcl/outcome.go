package main

import (
	"errors"
	"fmt"
	"strings"

	"hclbench/apply"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
)

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
	}
	var doubts []string
	if o.Suspect > 0 {
		doubts = append(doubts, fmt.Sprintf("%d suspect", o.Suspect))
	}
	if o.Void > 0 {
		doubts = append(doubts, fmt.Sprintf("%d without a measurement", o.Void))
	}
	if o.Void > 0 || o.Suspect > 0 && !p.Rehearsal {
		return &exit{exitCells, fmt.Errorf("of %s, %s", plain.Count(o.Planned, "cell"), strings.Join(doubts, " and "))}
	}
	return nil
}

// brief is err without what was shown when it happened: of hosts that failed
// only the names are left.
func brief(err error) error {
	failed := new(apply.Error)
	if !errors.As(err, &failed) || len(failed.Hosts) == 0 {
		return err
	}
	var hosts []string
	for _, h := range failed.Hosts {
		hosts = append(hosts, h.Host)
	}
	early := fmt.Errorf("the work on host %s ended early; the reason stands above", strings.Join(hosts, ", "))
	return errors.Join(failed.Cause, failed.Store, early)
}

// leftBy is what an interrupted run could not clean or keep.
func leftBy(err error) error {
	failed := new(apply.Error)
	if !errors.As(err, &failed) {
		return err
	}
	return errors.Join(failed.AtHosts(), failed.Store)
}
