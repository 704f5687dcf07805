package apply

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
)

// probe is one thing that has to be seen of an engine.
type probe struct {
	look  func(context.Context) error
	every time.Duration // how often it may be asked; 0: at each look
}

// wait is what is known about members that are waited for: that they serve, or that
// they end.
type wait struct {
	what    string // see [waitError]
	members []*member
	beside  []*member     // that serve already, and must not end meanwhile
	stall   time.Duration // how long nothing may move
	tell    teller
	shown   func(string) string // makes a log line fit to be told
	line    func(string)        // is told of each line as it comes; nil: nobody is

	same   standing  // the answer that is given again and again
	told   string    // the log line that was told last
	toldAt time.Time // when that was

	asked atomic.Bool // it listens: what it says may be of our own looks at it

	mu     sync.Mutex
	moved  time.Time
	seen   news
	last   string // that a probe has found
	logs   []*memberLog
	newest string  // line of any log that tells of no request
	by     *member // who has said it
	up     comingUp
	fatal  *fatalLine // the first, or the first cause after a line that follows from one
}

type memberLog struct {
	tail  []string // without the lines of requests
	cause engines.Cause
	ended chan struct{} // closed when it has been read to its end
}

func (e *engine) waitFor(what string, members ...*member) *wait {
	now := time.Now()
	w := &wait{
		what: what, members: members, stall: engines.ReadinessOf(e.d.Engine).Stall,
		tell: e.tell, shown: e.secrets.Line, moved: now, toldAt: now,
	}
	for range members {
		w.logs = append(w.logs, &memberLog{ended: make(chan struct{})})
	}
	return w
}

// How often a member's state is asked while it is waited for, in looks of a probe.
const (
	lookEvery = 100 * time.Millisecond
	stateAt   = 5
)

// until waits until each of the probes has succeeded, one after the other; without any, until the
// members have ended well. It gives up at once when a member fails, logs a line that no engine comes
// back from or somebody else has its port; soon, when the server answers what waiting does not
// change; and otherwise when nothing has moved for the stall time.
func (w *wait) until(ctx context.Context, probes ...probe) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer giveUp(nil)
	for i, m := range w.members {
		logs, err := w.open(ctx, m)
		if err != nil {
			return err
		}
		reading.Go(func() { w.follow(ctx, i, logs, giveUp) })
	}
	all, serves := len(probes), len(probes) > 0
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var asked time.Time
	for look := 0; ; look++ {
		if look%stateAt == 0 {
			if ended, err := w.ended(ctx, serves); ended || err != nil {
				return err
			}
		}
		if serves && time.Since(asked) >= probes[0].every {
			good, err := w.look(ctx, probes[0], len(probes) == 1)
			if err != nil {
				return err
			}
			asked = time.Now()
			if good && len(probes) == 1 {
				return nil
			}
			if good {
				probes, asked = probes[1:], time.Time{}
				continue
			}
		}
		if w.idle() > w.stall {
			return w.failed(0, fmt.Sprintf("nothing has moved for %s", w.stall))
		}
		w.tellNews(serves, len(probes) < all)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return w.failed(0, w.withExit(ctx))
		}
	}
}

// look looks once. The error says that there is no use in looking again.
func (w *wait) look(ctx context.Context, p probe, last bool) (good bool, err error) {
	found := p.look(ctx)
	// A cluster has said that waiting for a pod does not help.
	final := []error{provision.ErrImageNotFound, provision.ErrNoRoom, provision.ErrPodLost}
	switch {
	case errors.Is(found, provision.ErrPortTaken):
		return false, found
	case slices.ContainsFunc(final, func(kind error) bool { return errors.Is(found, kind) }):
		return false, w.failed(0, found.Error())
	case ctx.Err() != nil: // it was broken off: what was found before says more
		return false, nil
	case found == nil, errors.Is(found, errNoWay), errors.Is(found, provision.ErrUnreachable):
		w.move()
		return found == nil, nil
	}
	w.probed(found)
	w.same.see(found, time.Now())
	if lasts := w.same.lasts(); hopeless(found, len(w.members) > 0, last) && lasts > min(hopelessAfter, w.stall) {
		why := fmt.Sprintf("for %s its server has answered what waiting does not change", lasts.Round(time.Second))
		return false, w.failed(0, why)
	}
	return false, nil
}

// hopelessAfter is how long a server may answer what waiting does not change: some
// say that they are ready a little before they are.
const hopelessAfter = time.Minute

// hopeless reports whether waiting does not change such an answer. ours says that the
// server was started for this run, with the one model that it serves; last, that it
// was asked to generate, after it had said that it was ready.
func hopeless(err error, ours, last bool) bool {
	unlisted, answer := new(unlistedError), new(answerError)
	switch {
	case errors.As(err, &unlisted):
		return ours && len(unlisted.listed) > 0
	case !errors.As(err, &answer):
		return errors.Is(err, errNoToken) || errors.Is(err, errNoVector)
	}
	switch answer.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout: // they say: later
		return false
	}
	return last || answer.code/100 == 3
}

// ended reports whether a member has ended well, which those that serve never do. Of several
// that have ended the first counts: the others follow from it.
func (w *wait) ended(ctx context.Context, serves bool) (bool, error) {
	if m, how := firstEnded(ctx, w.beside); m != nil {
		return false, &waitError{what: w.what, why: how.Error(), tail: m.tail(ctx)}
	}
	i := 0
	if len(w.members) > 1 {
		first, _ := firstEnded(ctx, w.members)
		i = max(slices.Index(w.members, first), 0)
	} else if len(w.members) == 0 {
		return false, nil
	}
	m := w.members[i]
	st, err := m.rt.State(ctx, m.id)
	switch {
	case errors.Is(err, provision.ErrNoContainer):
		return false, w.failed(i, m.says(errRemoved.Error()))
	case err != nil: // out of reach, which is no silence of the engine's
		w.move()
		return false, nil
	case st.Running:
		return false, nil
	}
	select {
	case <-w.logs[i].ended: // with its last words
	case <-time.After(exitPatience):
	}
	if serves || st.ExitCode != 0 || st.OOMKilled || st.Error != "" {
		why := m.says(st.Exit(m.Host))
		if cause := w.lastWords(i); cause != nil {
			why += afterwards + cause.Error()
		}
		return false, w.failed(i, why)
	}
	return true, nil
}

const toolNews = 10 * time.Second

// tellNews tells what a server answers instead of serving, and the newest line where that says more than anything else: of a
// tool, and of an engine that has not come to a phase, as while commands of the lab run before it.
func (w *wait) tellNews(serves, listens bool) {
	if listens && w.same.due(w.idle()) {
		w.tell.say(Waiting, "it does not serve yet: %s", w.same.text)
	}
	w.mu.Lock()
	line, by, phased := w.newest, w.by, len(w.up.done) > 0 || w.up.phase != ""
	w.mu.Unlock()
	if line == w.told || time.Since(w.toldAt) < toolNews || serves && phased {
		return
	}
	who := w.what
	if serves {
		who = "it says"
	}
	w.told, w.toldAt = line, time.Now()
	by.tell.say(Waiting, "%s: %s", who, plain.Cut(w.shown(line), 200))
}

// withExit is why there is no use in waiting any more, and how the engine has ended for it.
func (w *wait) withExit(ctx context.Context) string {
	why := context.Cause(ctx).Error()
	if !errors.As(context.Cause(ctx), new(*fatalLine)) {
		return why
	}
	if _, ended := endsSoon(context.WithoutCancel(ctx), w.members); ended != nil {
		return ended.Error() + afterwards + why
	}
	return why
}

type fatalLine struct {
	engines.Fatal
	by *member
}

func (e *fatalLine) Error() string { return e.by.says(e.String()) }

// longestCause bounds what is told of a line that says why an engine fails, in bytes.
const longestCause = 400

// afterwards stands between how an engine has ended and what it had said of it.
const afterwards = " after it said: "

// open opens a member's log. A host that is out of reach is waited for: that is no silence of the engine's.
func (w *wait) open(ctx context.Context, m *member) (io.ReadCloser, error) {
	for {
		logs, err := m.rt.Logs(ctx, m.id, true, -1)
		if !errors.Is(err, provision.ErrUnreachable) || ctx.Err() != nil {
			return logs, err
		}
		w.move()
		flow.Pause(ctx, stateAt*lookEvery)
	}
}

// follow reads a member's log to its end. Where it breaks off, as the host is out of reach or its daemon begins
// anew, it goes on behind what was heard.
func (w *wait) follow(ctx context.Context, i int, logs io.ReadCloser, giveUp context.CancelCauseFunc) {
	defer close(w.logs[i].ended)
	m := w.members[i]
	for heard := 0; ; {
		stop := context.AfterFunc(ctx, func() { logs.Close() })
		more, err := w.read(i, logs, heard, giveUp)
		heard = max(heard, more)
		stop()
		logs.Close()
		if err == nil {
			st, gone := m.rt.State(ctx, m.id)
			if errors.Is(gone, provision.ErrNoContainer) || gone == nil && !st.Running {
				return
			}
		}
		if !flow.Pause(ctx, stateAt*lookEvery) {
			return
		}
		if logs, err = w.open(ctx, m); err != nil {
			return
		}
	}
}

// read reads a member's log until it ends, and gives up at a line that says so. The first lines, so many, were heard
// before. It returns how many there are; an error is why it broke off.
func (w *wait) read(i int, logs io.Reader, heard int, giveUp context.CancelCauseFunc) (lines int, err error) {
	for r := bufio.NewReaderSize(logs, 64<<10); ; {
		b, err := r.ReadSlice('\n')
		if line := strings.TrimSpace(string(b)); line != "" && lines >= heard {
			// Progress bars rewrite their line: what counts is what stands there.
			line = strings.TrimSpace(line[strings.LastIndexByte(line, '\r')+1:])
			if text := w.noteLine(i, line, giveUp); text != "" {
				w.members[i].tell.say(Waiting, "%s", text)
			}
			if w.line != nil {
				w.line(line)
			}
		}
		switch err {
		case nil:
			lines++
		case bufio.ErrBufferFull:
		case io.EOF:
			return lines, nil
		default:
			return lines, err
		}
	}
}

// noteLine notes a line of a member's log, and returns what to tell of it.
func (w *wait) noteLine(i int, line string, giveUp context.CancelCauseFunc) (text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.in(line, w.asked.Load()) {
		w.moved = time.Now()
	}
	log := w.logs[i]
	if !engines.AccessLine(line) {
		log.tail = append(log.tail, line)
		log.tail = log.tail[max(len(log.tail)-tailLines, 0):]
		w.newest, w.by = line, w.members[i]
	}
	log.cause.Read(line)
	if f, ok := log.cause.Fatal(); ok {
		w.gaveUp(&fatalLine{brief(f, w.shown), w.members[i]}, giveUp)
	}
	if p, ok := engines.ProgressOf(line); ok {
		text = w.up.see(p, time.Now())
	}
	return text
}

// gaveUp notes why the engine fails, unless a better reason is known, and gives up: at once for a
// cause, and a little later for what follows from one, whose line may still come.
func (w *wait) gaveUp(f *fatalLine, giveUp context.CancelCauseFunc) {
	switch {
	case w.fatal == nil && f.Follows:
		w.fatal = f
		time.AfterFunc(exitPatience, func() { giveUp(w.cause()) })
	case w.fatal == nil || w.fatal.Follows && !f.Follows:
		w.fatal = f
		giveUp(f)
	case w.fatal.Follows && w.fatal.by == f.by: // its log says more now
		w.fatal = f
	}
}

// brief is a cause as it can be told.
func brief(f engines.Fatal, shown func(string) string) engines.Fatal {
	f.Line = plain.Cut(shown(f.Line), longestCause)
	return f
}

func (w *wait) cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fatal == nil {
		return nil
	}
	return w.fatal
}

// lastWords is why a member has ended, as far as it has said.
func (w *wait) lastWords(i int) error {
	if cause := w.cause(); cause != nil {
		return cause
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.logs[i].cause.Last(); ok {
		return &fatalLine{brief(f, w.shown), w.members[i]}
	}
	return nil
}

// move notes that something has moved, and that no answer stands.
func (w *wait) move() {
	w.same = standing{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = time.Now()
}

// probed notes what a look has found; another answer than all before is progress too.
func (w *wait) probed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err.Error()
	if w.seen.in("answer: "+w.last, true) {
		w.moved = time.Now()
	}
}

func (w *wait) idle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.moved)
}

func (w *wait) failed(i int, why string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := &waitError{what: w.what, why: why, probe: w.last}
	if i < len(w.logs) {
		e.tail = slices.Clone(w.logs[i].tail)
	}
	return e
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
