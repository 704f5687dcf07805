package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"hclbench/plan"
	"hclbench/provision/look"
)

// prepare has the agent set what the host's block wants, and puts back what a killed
// agent has left set. The agent puts it back when the lease ends, however it ends.
// What the host is like then is what is kept with the results.
func (s *site) prepare(ctx context.Context, deployments []*plan.Deployment) error {
	if !s.claim.Reserve {
		return nil
	}
	changes, err := s.agent.Prepare(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrContract, err)
	}
	if len(changes) == 0 {
		return nil
	}
	s.changed = true
	for _, c := range changes {
		s.event(Event{Type: Step, Host: s.host.Name, Message: "set " + c.String() + ", until the end"})
	}
	now, err := look.Condition(ctx, s.conn, s.docker, keptOn(s.host, enginesOf(deployments)))
	if err != nil {
		return err
	}
	s.known.See(now, changes...)
	s.facts, err = json.Marshal(s.known)
	return err
}
