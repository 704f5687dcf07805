package apply

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"hclbench/apply/place"
	"hclbench/engines"
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

// tail returns the end of the log of the member that has ended first, or of the one that
// answers.
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
	return e.front().tail(ctx)
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

// versions asks, in a deployment's container, what it is made of. That it cannot
// be known is no reason not to measure.
func (e *engine) versions(ctx context.Context, m *member) map[string]string {
	command := engines.Versions(m.Engine)
	if command == nil || m.Runtime != provision.Docker {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := m.at.Docker.Exec(ctx, m.id, command)
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

// served is what a member says that it runs with.
func (e *engine) served(ctx context.Context, m *member) json.RawMessage {
	server := m.server(e)
	defer server.close()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, path := range engines.ServedConfig(m.Engine) {
		var said json.RawMessage
		err := server.get(ctx, path, &said)
		if err == nil {
			said, err = engines.WithoutSecrets(m.Engine, said)
		}
		if err == nil {
			return said
		}
		e.debug("what it serves with is not known", err)
	}
	return nil
}

// compareServed warns of every flag that an engine does not run with, and returns
// why its measurements are to be doubted; member names it where there are several.
func (e *engine) compareServed(of *engines.Engine, member string, served json.RawMessage) (doubts []string) {
	differences, err := engines.Differences(of, served)
	if err != nil {
		e.debug("what it serves with cannot be compared", err)
	}
	for _, diff := range differences {
		said := strings.TrimPrefix(member+": "+diff.String(), ": ")
		e.tell.say(Warning, "%s", said)
		doubts = append(doubts, said)
	}
	return doubts
}

// member is a container or process of a deployment that was started.
type member struct {
	plan.Member
	at       *place.Session
	rt       place.Runtime
	tell     teller
	id       string
	name     string            // "decode 0 on n2", of a deployment of several; else empty
	listener *results.Listener // who answers on its port; nil: not looked up yet
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

var errRemoved = errors.New("it was removed, by somebody else or because the lease ran out")

// tailLines is how many lines of a log are told, and lookBack, in how many is looked for them,
// and for why an engine was lost: most may tell of requests.
const (
	tailLines = 20
	lookBack  = 2000
)

// tailWithin is how long last log lines are worth waiting for.
const tailWithin = 10 * time.Second

// tail returns the end of the log, as well as it can be had.
func (m *member) tail(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailWithin)
	defer cancel()
	return linesOf(m.rt.Logs(ctx, m.id, false, lookBack))
}

// longestLine is how much of a log is taken for one line, in bytes.
const longestLine = 256 << 10

// linesOf are the lines of a log, which is no long one.
func linesOf(logs io.ReadCloser, err error) (lines []string) {
	if err != nil {
		return nil
	}
	defer logs.Close()
	sc := bufio.NewScanner(io.LimitReader(logs, 4<<20))
	for sc.Buffer(nil, longestLine); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return lines
}

// lastOf are the last lines of a log that do not tell of requests.
func lastOf(lines []string) []string {
	lines = slices.DeleteFunc(lines, engines.AccessLine)
	return lines[max(len(lines)-tailLines, 0):]
}

// lostBy is what the end of a log says of why the engine was lost.
func (e *engine) lostBy(tail []string) string {
	var cause engines.Cause
	for _, line := range tail {
		cause.Read(line)
	}
	f, ok := cause.Fatal()
	if !ok {
		return ""
	}
	return afterwards + brief(f, e.secrets.Line).String()
}

func withTail(what string, tail []string) string {
	tail = lastOf(slices.Clone(tail))
	if len(tail) == 0 {
		return what
	}
	return what + "\n  last log lines:\n    " + strings.Join(tail, "\n    ")
}

// keepLog keeps what a member has said with the run, before it is removed.
func (t *trial) keepLog(ctx context.Context, m *member) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	log, err := m.rt.Logs(ctx, m.id, false, -1)
	t.keepText(ctx, m.name, log, err)
}

// keepWithin is how long logs may take to be kept.
const keepWithin = 30 * time.Second

// keepText keeps a log of the engine with the run: the beginning, which says how it came up, and the
// end. A log that cannot be read is no reason to leave an engine running.
func (t *trial) keepText(ctx context.Context, of string, log io.ReadCloser, err error) {
	if err != nil {
		t.debug("the log is not kept", err)
		return
	}
	defer log.Close()
	text, err := excerpt(log, 256<<10, 1<<20)
	if len(text) > 0 {
		err = t.run.keep.log(ctx, strings.ReplaceAll(strings.TrimSuffix(t.row.Engine+"-"+of, "-"), " ", "-"), text)
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
