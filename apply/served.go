package apply

import (
	"context"
	"encoding/json"
	"time"

	"hclbench/engines"
	"hclbench/plan"
)

// askTimeout bounds each question to an engine about itself.
const askTimeout = 30 * time.Second

// versions asks, in a deployment's container, what it is made of. That it cannot
// be known is no reason not to measure.
func (s *site) versions(ctx context.Context, d *plan.Deployment, id string) map[string]string {
	command := engines.Versions(d.Engine)
	if command == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := s.docker.Exec(ctx, id, command)
	var out []byte
	if err == nil {
		out, _, err = s.docker.ReadFile(ctx, id, engines.VersionsFile)
	}
	var versions map[string]string
	if err == nil {
		versions, err = engines.ReadVersions(out)
	}
	if err != nil {
		s.debug("versions are not known", d.Engine.Label(), err)
	}
	return versions
}

// served asks an engine what it runs with.
func (s *site) served(ctx context.Context, d *plan.Deployment) json.RawMessage {
	p := s.prober(engines.BaseURL(d.Engine), d.Engine)
	defer p.close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, path := range engines.ServedConfig(d.Engine) {
		var said json.RawMessage
		err := p.get(ctx, path, &said)
		if err == nil {
			said, err = engines.WithoutSecrets(d.Engine, said)
		}
		if err == nil {
			return said
		}
		s.debug("what it serves with is not known", d.Engine.Label(), err)
	}
	return nil
}

// compareServed warns of every flag that an engine does not run with, and returns
// why its measurements are to be doubted.
func (s *site) compareServed(d *plan.Deployment, served json.RawMessage) (doubts []string) {
	differences, err := engines.Differences(d.Engine, served)
	if err != nil {
		s.debug("what it serves with cannot be compared", d.Engine.Label(), err)
	}
	for _, diff := range differences {
		s.event(Event{Type: Warning, Host: s.host.Name, Engine: d.Engine.Label(), Message: diff.String()})
		doubts = append(doubts, diff.String())
	}
	return doubts
}
