package apply

import (
	"context"
	"encoding/json"
	"time"

	"hclbench/engines"
	"hclbench/provision"
)

// askTimeout bounds each question to an engine.
const askTimeout = 30 * time.Second

// versions asks, in a deployment's container, what it is made of. That it cannot
// be known is no reason not to measure.
func (e *engine) versions(ctx context.Context, m *member) map[string]string {
	command := engines.Versions(e.d.Engine)
	if command == nil || m.Runtime != provision.Docker {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := m.at.docker.Exec(ctx, m.id, command)
	var out []byte
	if err == nil {
		out, _, err = m.rt.ReadFile(ctx, m.id, engines.VersionsFile)
	}
	var versions map[string]string
	if err == nil {
		versions, err = engines.ReadVersions(out)
	}
	if err != nil {
		e.debug("versions are not known", err)
	}
	return versions
}

// served asks an engine what it runs with.
func (e *engine) served(ctx context.Context) json.RawMessage {
	server := e.server(engines.BaseURL(e.d.Engine))
	defer server.close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, path := range engines.ServedConfig(e.d.Engine) {
		var said json.RawMessage
		err := server.get(ctx, path, &said)
		if err == nil {
			said, err = engines.WithoutSecrets(e.d.Engine, said)
		}
		if err == nil {
			return said
		}
		e.debug("what it serves with is not known", err)
	}
	return nil
}

// compareServed warns of every flag that an engine does not run with, and returns
// why its measurements are to be doubted.
func (e *engine) compareServed(served json.RawMessage) (doubts []string) {
	differences, err := engines.Differences(e.d.Engine, served)
	if err != nil {
		e.debug("what it serves with cannot be compared", err)
	}
	for _, diff := range differences {
		e.tell.say(Warning, "%s", diff)
		doubts = append(doubts, diff.String())
	}
	return doubts
}
