package apply

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"hclbench/engines"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
)

// engine is a deployment's engine on its hosts: what of it is up, and how it is asked.
type engine struct {
	d       *plan.Deployment
	at      map[*provision.Host]*session // of all hosts that the deployment needs
	tell    teller
	secrets plain.Secrets
	members []*member // that are up, in order of starting; none: somebody else runs the engine
}

// home is the session of the host where the engine serves, or where the load runs when
// somebody else runs it.
func (e *engine) home() *session { return e.at[e.d.Host()] }

// held returns a context that ends when the lease of one of the engine's hosts does.
// That of a sender ends only what it sends.
func (e *engine) held() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(e.home().lease.held)
	for _, h := range e.d.Serving() {
		held := e.at[h].lease.held
		context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	}
	return ctx, func() { cancel(nil) }
}

func (e *engine) launch(ctx context.Context, in plan.Member) (*member, error) {
	s := e.at[in.Host]
	in.Container.Labels = maps.Clone(in.Container.Labels)
	in.Container.Labels[plan.LabelRun] = s.work.claim.Run
	m := &member{Member: in, at: s, rt: s.runtime(in.Runtime), tell: e.tell}
	m.tell.about.Host = in.Host.Name
	if len(e.d.Members) > 1 {
		m.tell.about.Role, m.tell.about.Rank = in.Role, in.Rank
	}
	var err error
	m.id, err = m.rt.Start(ctx, in.Container)
	m.started = time.Now()
	return m, err
}

// tail returns the last log lines of the member that has ended, or of the one that serves.
func (e *engine) tail(ctx context.Context) []string {
	if len(e.members) == 0 {
		return nil
	}
	ended := slices.IndexFunc(e.members, func(m *member) bool { return m.alive(ctx) != nil })
	return e.members[max(ended, 0)].tail(ctx)
}

// front is the member that serves, the plan's first. nil: somebody else runs the engine.
func (e *engine) front() *member {
	if len(e.members) == 0 {
		return nil
	}
	return e.members[0]
}

func (e *engine) debug(what string, err error) {
	e.home().opt.Log.Debug(what, "engine", e.d.Engine.Label(), "err", e.secrets.Text(err.Error()))
}

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
	clean := map[string]string{}
	for name, version := range versions {
		clean[e.secrets.Line(name)] = e.secrets.Line(version)
	}
	return clean
}

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
