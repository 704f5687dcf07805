package apply

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/look"
)

// engine is a deployment's engine on its hosts: what of it is up, and how it is asked.
type engine struct {
	d       *plan.Deployment
	at      map[*provision.Host]*session // of all hosts that the deployment needs
	tell    teller
	secrets plain.Secrets
	members []*member // that are up, in order of starting; none: somebody else runs the engine
}

// home is where the engine serves, or where the load runs when somebody else runs it.
func (e *engine) home() *session { return e.at[e.d.Host()] }

// held ends when the lease of one of the engine's hosts does; a sender's ends only what it sends.
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

// member is a container or process of a deployment that was started.
type member struct {
	plan.Member
	at      *session
	rt      runtime
	tell    teller
	id      string
	started time.Time
	sockets []provision.Listener // that were proved to be its own and to take its connections; nil: they could not be seen
}

var errRemoved = errors.New("it was removed, by somebody else or because the lease ran out")

// alive reports how the member has ended. Not being able to ask says nothing.
func (m *member) alive(ctx context.Context) error {
	st, err := m.rt.State(ctx, m.id)
	if errors.Is(err, provision.ErrNoContainer) {
		return errRemoved
	}
	if err != nil || st.Running {
		return nil
	}
	return errors.New(exit(st))
}

func exit(st provision.State) string {
	switch {
	case st.OOMKilled:
		return "the host's kernel killed it: out of memory"
	case st.Error != "":
		return fmt.Sprintf("exited with code %d: %s", st.ExitCode, st.Error)
	default:
		return fmt.Sprintf("exited with code %d", st.ExitCode)
	}
}

const tailLines = 20

// tail returns the last log lines, as well as they can be had.
func (m *member) tail(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	logs, err := m.rt.Logs(ctx, m.id, false, tailLines)
	if err != nil {
		return nil
	}
	defer logs.Close()
	var lines []string
	for sc := bufio.NewScanner(io.LimitReader(logs, 256<<10)); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return lines
}

func withTail(what string, tail []string) string {
	if len(tail) == 0 {
		return what
	}
	return what + "\n  last log lines:\n    " + strings.Join(tail, "\n    ")
}

// down stops the member and proves that it is gone: the runtime has removed it,
// nothing listens on its port any more, and the GPUs are as they were. Otherwise
// the host is unclean, which is noted there for whoever comes next.
func (m *member) down(ctx context.Context) error {
	ct, s := m.Container, m.at
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ct.StopGrace+s.opt.Release+time.Minute)
	defer cancel()
	claim := s.lease.current()
	traces := provision.Traces{Containers: []string{m.id}, Ports: m.Ports, Mark: s.agent.Mark()}
	traces.Before = claim.Traces.Before
	err := m.rt.Stop(ctx, m.id, ct.StopGrace)
	if err != nil {
		left := fmt.Sprintf("%s, which could not be taken down: %v", ct.Name, err)
		err = &provision.UncleanError{Host: m.Host, Left: []string{left}}
	} else {
		var others []provision.GPUProcess
		others, err = look.ProveGone(ctx, s.conn, traces, s.opt.Release)
		for _, p := range others {
			m.tell.say(Warning, "somebody else has begun to use its GPUs since it was measured: %s", p)
		}
	}
	if err != nil {
		return errors.Join(err, agent.MarkUnclean(ctx, s.conn, claim, traces, err))
	}
	proved := "stopped, removed, port closed"
	if len(traces.Before.Memory) > 0 {
		proved += ", GPU memory given back"
	}
	m.tell.say(Down, "%s", proved)
	return nil
}

// withdraw removes the member from a host that is somebody else's by now, as are its ports and GPUs.
func (m *member) withdraw(ctx context.Context) error {
	grace := m.Container.StopGrace
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace+time.Minute)
	defer cancel()
	err := m.rt.Stop(ctx, m.id, grace)
	if errors.As(err, new(*agent.HeldError)) { // a process is the agent's, and so is theirs of the same name
		return nil
	}
	return err
}

// keepLog keeps what a member has said with the run, before it is removed: the beginning,
// which says how the engine came up, and the end. A log that cannot be read is no reason to
// leave an engine running.
func (t *trial) keepLog(ctx context.Context, m *member) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	log, err := m.rt.Logs(ctx, m.id, false, -1)
	if err != nil {
		t.debug("the log is not kept", err)
		return
	}
	defer log.Close()
	text, err := excerpt(log, 256<<10, 1<<20)
	if len(text) > 0 {
		err = t.run.keep.log(ctx, t.row.Engine, text)
	}
	if err != nil {
		t.debug("the log is not kept whole", err)
	}
}

// excerpt is the beginning and the end of a text, in whole lines where something
// between them is left out.
func excerpt(r io.Reader, begin, end int) (text []byte, err error) {
	left := 0
	for buf := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = r.Read(buf)
		text = append(text, buf[:n]...)
		if more := len(text) - begin - end; more > end || err != nil && more > 0 {
			text, left = slices.Delete(text, begin, begin+more), left+more
		}
	}
	if err == io.EOF {
		err = nil
	}
	if left > 0 {
		from := bytes.LastIndexByte(text[:begin], '\n') + 1
		to := begin + bytes.IndexByte(text[begin:], '\n') + 1
		text = slices.Replace(text, from, to, fmt.Appendf(nil, "… %d bytes are left out …\n", left+to-from)...)
	}
	return text, err
}
