package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

// engine is a deployment's engine on its hosts: what of it is up, and how it is asked.
type engine struct {
	d       *plan.Deployment
	at      sessions
	tell    teller
	secrets plain.Secrets
	log     *slog.Logger
	members []*member // that are up, in order of starting; none: others run the engine
	objects *operated // that operators make the engine of; nil: they do not
}

// How an engine is looked at again: some tell what they have done a moment after the answer.
const (
	countPatience = 5 * time.Second // after the last answer
	countEvery    = 250 * time.Millisecond
)

// home is where the engine serves, or where the load runs when somebody else runs it.
func (e *engine) home() *place.Session { return e.at[e.d.Host] }

// held ends when the lease of one of the engine's hosts does; a sender's ends only what it sends.
func (e *engine) held() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(e.home().Held)
	for _, h := range e.d.Hosts {
		held := e.at[h].Held
		context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	}
	return ctx, func() { cancel(nil) }
}

func (e *engine) launch(ctx context.Context, in plan.Member) (*member, error) {
	s := e.at[in.Host]
	in.Container.Listens = in.Listens()
	m := &member{Member: in, at: s, rt: s.Runtime(in.Runtime), tell: e.tell.at(in.Host)}
	if e.d.Grouped() {
		m.tell.about.Role, m.tell.about.Instance, m.tell.about.Rank = in.Role, in.Instance, in.Rank
		m.name = fmt.Sprintf("%s on %s", in.Name(), in.Host.Name)
	}
	var err error
	m.id, err = m.rt.Start(ctx, in.Container)
	m.started = time.Now()
	switch {
	case err != nil:
		return m, errors.Join(err, failed(ofHost, m.Host, s.Undo(ctx, m.rt, in.Container.Name)))
	case m.name != "":
		m.ahead, _ = m.at.Agent.Ahead(ctx) // 0 where it cannot be had
	}
	return m, nil
}

// tail returns the end of the log of the member that has ended first, or says why the engine is lost, or of the one
// that answers.
func (e *engine) tail(ctx context.Context) []string {
	if e.objects != nil {
		return e.objects.tail(ctx)
	}
	if len(e.members) == 0 {
		return nil
	}
	if m, _ := firstEnded(ctx, e.members); m != nil {
		return m.tail(ctx)
	}
	var last []string
	for _, m := range e.members {
		tail := m.tail(ctx)
		if e.lostBy(tail) != "" {
			return tail
		}
		if m == e.front() {
			last = tail
		}
	}
	return last
}

// front is the member that requests go to. nil: it is not up, or somebody else runs the engine.
func (e *engine) front() *member {
	i := slices.IndexFunc(e.members, func(m *member) bool { return m.Front })
	if i < 0 {
		return nil
	}
	return e.members[i]
}

// workers are the members that answer requests themselves.
func (e *engine) workers() []*member {
	return slices.DeleteFunc(slices.Clone(e.members), func(m *member) bool { return !m.Answers || m.Engine.Router })
}

func (e *engine) debug(what string, err error) {
	e.log.Debug(what, "engine", e.d.Engine.Label(), "err", e.secrets.Text(err.Error()))
}

// askTimeout bounds each question to an engine.
const askTimeout = 30 * time.Second

// member is a container or process of a deployment that was started.
type member struct {
	plan.Member
	at       *place.Session
	rt       place.Runtime
	tell     teller
	id       string
	name     string              // "decode 0 on n2", of a deployment of several; else empty
	listener *results.Listener   // who answers on its port; nil: not looked up yet
	tells    map[string]selfTold // what its server has told of itself, by path
	started  time.Time
	ahead    time.Duration        // how far its host's clock is ahead of ours, of a deployment of several
	sockets  []provision.Listener // that were proved to be its own and to take its connections; nil: they could not be seen
}

// says puts the member before what is said of it, where there are several.
func (m *member) says(what string) string {
	if m.name == "" {
		return what
	}
	return m.name + ": " + what
}

// isHalf reports whether the member answers only together with others.
func (m *member) isHalf() bool { return m.Role == engines.Prefill || m.Role == engines.Decode }

var errRemoved = errors.New("it was removed, by somebody else or because the lease ran out")

// firstEnded is the first of members that has ended, and how; nil: none has.
func firstEnded(ctx context.Context, members []*member) (first *member, how error) {
	var at time.Time
	for _, m := range members {
		st, err := m.rt.State(ctx, m.id)
		switch {
		case errors.Is(err, provision.ErrNoContainer):
			if first == nil {
				first, how = m, errors.New(m.says(errRemoved.Error()))
			}
		case err == nil && !st.Running && (first == nil || st.Finished.Add(-m.ahead).Before(at)):
			first, how, at = m, errors.New(m.says(st.Exit(m.Host))), st.Finished.Add(-m.ahead)
		}
	}
	return first, how
}

// endsSoon is [firstEnded] for those that may take a moment, [exitPatience], to end.
func endsSoon(ctx context.Context, members []*member) (*member, error) {
	ctx, cancel := context.WithTimeout(ctx, exitPatience)
	defer cancel()
	for {
		if m, err := firstEnded(ctx, members); err != nil {
			return m, err
		}
		if !flow.Pause(ctx, exitPatience/10) {
			return nil, nil
		}
	}
}

// exitPatience is how long an engine may take to exit after a fatal line, for
// its exit code to be told with it.
const exitPatience = 3 * time.Second

// tail returns the end of the log, as well as it can be had.
func (m *member) tail(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailWithin)
	defer cancel()
	return linesOf(m.rt.Logs(ctx, m.id, false, lookBack))
}
