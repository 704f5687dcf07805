package apply

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/look"
)

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
			m.tell.say(Warning, "somebody else uses its GPUs since it was measured: %s", p)
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

// withdraw removes the member from a host that is somebody else's by now. What can be
// seen there of ports and GPUs is theirs, and says nothing of ours.
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

// Of a log its beginning is kept, which says how the engine came up, and its end.
const (
	logBegin = 256 << 10
	logEnd   = 1 << 20
	logTime  = 30 * time.Second // to read it
)

// keepLog keeps what a member has said with the run, before it is removed. A log that
// cannot be read is no reason to leave an engine running.
func (t *trial) keepLog(ctx context.Context, m *member) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTime)
	defer cancel()
	log, err := m.rt.Logs(ctx, m.id, false, -1)
	if err != nil {
		t.debug("the log is not kept", err)
		return
	}
	defer log.Close()
	text, err := excerpt(log, logBegin, logEnd)
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
