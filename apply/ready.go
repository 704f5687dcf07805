package apply

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

// tailLines is how much of an engine's log an error shows.
const tailLines = 20

// NotReadyError says why an engine does not serve.
type NotReadyError struct {
	Why       string   // "exited with code 3", "nothing has moved for 15m0s"
	LastProbe string   // what the last look at the server said
	Tail      []string // its last log lines
}

func (e *NotReadyError) Error() string {
	var b strings.Builder
	b.WriteString("does not serve: " + e.Why)
	if e.LastProbe != "" {
		b.WriteString("\n  last probe: " + e.LastProbe)
	}
	if len(e.Tail) > 0 {
		b.WriteString("\n  last log lines:")
		for _, line := range e.Tail {
			b.WriteString("\n    " + line)
		}
	}
	return b.String()
}

// serving is what is known of an engine that has proved that it serves.
type serving struct {
	model    string            // its name at the server
	phases   []results.Phase   // what took how long, by the engine's log
	listener *results.Listener // nil for an engine that someone else runs
}

// ready waits until the engine really serves: alive, port open, by nobody else,
// healthy, the model listed, still nobody else, one token generated.
// It gives up at once when the engine exits, when it logs a line that no engine comes
// back from or when somebody else's server has its port; soon, when the server
// answers what waiting does not change; and otherwise when nothing has moved for the
// engine's stall time.
// in is nil for an engine that someone else runs.
func (s *site) ready(ctx context.Context, d *plan.Deployment, in *instance) (now serving, err error) {
	want := engines.ReadinessOf(d.Engine)
	if want.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, want.Timeout, fmt.Errorf("not ready after %s", want.Timeout))
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := newWait()

	if in != nil {
		stop, err := s.follow(ctx, w, in.rt, in.id, d.Engine.Label(), cancel)
		if err != nil {
			return now, err
		}
		defer stop()
	}

	p := s.prober(engines.BaseURL(d.Engine), d.Engine)
	defer p.close()
	looks := s.looks(d, in, p, w, &now)
	var same standing
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for step := 0; step < len(looks); {
		if err := s.ended(ctx, w, in); err != nil {
			return now, err
		}
		probe := looks[step](ctx)
		switch {
		case probe == nil:
			w.move()
			same = standing{}
			step++
			continue
		case errors.Is(probe, provision.ErrPortTaken):
			return now, probe
		case errors.Is(probe, errNoWay), errors.Is(probe, provision.ErrUnreachable):
			w.move()
			same = standing{}
		case probe != errWait:
			w.probed(probe)
			same.see(probe, time.Now())
		}
		if hopeless(probe, in != nil, step == len(looks)-1) && same.lasts() > min(hopelessAfter, want.Stall) {
			return now, w.failed(fmt.Sprintf("for %s its server has answered what waiting does not change", same.lasts().Round(time.Second)))
		}
		if idle := w.idle(); idle > want.Stall {
			return now, w.failed(fmt.Sprintf("nothing has moved for %s", want.Stall))
		}
		if step > 0 && same.due(w.idle()) {
			s.event(Event{Type: Waiting, Host: s.host.Name, Engine: d.Engine.Label(), Message: "it does not serve yet: " + same.text})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			why := context.Cause(ctx).Error()
			if fatal := new(fatalLine); errors.As(context.Cause(ctx), &fatal) {
				why = s.withExit(ctx, in, why)
			}
			return now, w.failed(why)
		}
	}
	now.phases = w.phases()
	return now, s.othersServe(ctx, d.Engine, want, now.model)
}

// looks are what has to be seen of an engine, one after the other; the last has it
// generate. What is found is put into now.
func (s *site) looks(d *plan.Deployment, in *instance, p *prober, w *wait, now *serving) []func(context.Context) error {
	want := engines.ReadinessOf(d.Engine)
	whose := func(ctx context.Context) error {
		if in == nil {
			return nil
		}
		found, err := s.listener(ctx, d, in)
		now.listener = &found
		return err
	}
	var asked time.Time
	return []func(context.Context) error{
		func(ctx context.Context) error {
			err := p.open(ctx)
			if err == nil {
				w.listens()
			}
			return err
		},
		whose,
		func(ctx context.Context) error {
			switch {
			case want.Health == "":
				return nil
			case time.Since(asked) < want.HealthEvery:
				return errWait
			}
			err := p.get(ctx, want.Health, nil)
			asked = time.Now()
			return err
		},
		func(ctx context.Context) (err error) {
			now.model, err = p.model(ctx, want.Models, want.Model)
			return err
		},
		whose,
		func(ctx context.Context) error { return p.generate(ctx, now.model, want.Stall) },
	}
}

// ended reports, at every fifth look, how an engine has ended that comes up.
func (s *site) ended(ctx context.Context, w *wait, in *instance) error {
	look := w.count%5 == 0
	w.count++
	if in == nil || !look {
		return nil
	}
	st, err := in.rt.State(ctx, in.id)
	switch {
	case errors.Is(err, provision.ErrNoContainer):
		return w.failed(errRemoved.Error())
	case err != nil: // out of reach, which is no silence of the engine's
		w.move()
	case !st.Running:
		w.lastWords()
		why := exit(st)
		if cause := w.cause(); cause != nil {
			why += " after it said: " + cause.Error()
		}
		return w.failed(why)
	}
	return nil
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
		return errors.Is(err, errNoToken)
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

// othersServe makes sure that the other servers of an external engine serve the
// same model.
func (s *site) othersServe(ctx context.Context, e *engines.Engine, want engines.Readiness, model string) error {
	for _, base := range engines.MoreURLs(e) {
		p := s.prober(base, e)
		defer p.close()
		_, err := p.model(ctx, want.Models, model)
		if err == nil {
			err = p.generate(ctx, model, want.Stall)
		}
		if err != nil {
			return &NotReadyError{Why: base + ", one of its urls, does not serve as the first does", LastProbe: err.Error()}
		}
	}
	return nil
}

// errNoWay says that the host did not even refuse: it is out of reach, and nothing
// is known of the engine.
var errNoWay = errors.New("the host is out of reach")

// errWait says that it is too early to ask again.
var errWait = errors.New("too early")

// fatalLine is a log line after which no engine comes up.
type fatalLine struct {
	engines.Fatal
	line string
}

func (e *fatalLine) Error() string {
	if e.Rank != "" {
		return fmt.Sprintf("%s (rank %s): %s", e.Means, e.Rank, e.line)
	}
	return e.Means + ": " + e.line
}

// exitPatience is how long an engine may take to exit after a fatal line, for
// its exit code to be told with it.
const exitPatience = 3 * time.Second

// withExit adds how an engine has ended to why it had to.
func (s *site) withExit(ctx context.Context, in *instance, why string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exitPatience)
	defer cancel()
	for tick := time.NewTicker(exitPatience / 10); ; {
		if err := s.alive(ctx, in); err != nil {
			tick.Stop()
			return fmt.Sprintf("%v after it said: %s", err, why)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return why
		}
	}
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

// wait is what is known about an engine that comes up.
type wait struct {
	count int // looks at the state

	mu    sync.Mutex
	moved time.Time
	asked bool // it listens: what it says may be of our own looks at it
	seen  news
	last  string // that a look has found
	tail  []string
	up    comingUp
	at    engines.Progress // the last that it has told
	fatal *fatalLine       // the first, or the first cause after a line that follows from one

	ended chan struct{} // closed when the log has been read to its end
	line  func(string)  // told of each line as it comes; nil: nobody is
}

func newWait() *wait { return &wait{moved: time.Now(), ended: make(chan struct{})} }

// follow reads a log beside whoever waits, tells what moves in it, and gives up when
// a line says that there is no use in waiting. stop returns when it reads no more.
func (s *site) follow(ctx context.Context, w *wait, rt runtime, id, engine string, giveUp context.CancelCauseFunc) (stop func(), err error) {
	logs, err := rt.Logs(ctx, id, true, -1)
	if err != nil {
		return nil, err
	}
	var reading sync.WaitGroup
	detach := context.AfterFunc(ctx, func() { logs.Close() })
	reading.Go(func() {
		w.read(logs, func(news string) {
			s.event(Event{Type: Waiting, Host: s.host.Name, Engine: engine, Message: news})
		}, giveUp)
	})
	return func() {
		detach()
		logs.Close()
		reading.Wait()
	}, nil
}

// read follows a log until it ends. It tells the news of the engine's progress, and
// gives up when a line says that there is no use in waiting: at once for a cause,
// and a little later for what follows from one, whose line may still come.
func (w *wait) read(logs io.Reader, news func(string), giveUp context.CancelCauseFunc) {
	defer close(w.ended)
	for r := bufio.NewReaderSize(logs, 64<<10); ; {
		b, err := r.ReadSlice('\n')
		if line := strings.TrimSpace(string(b)); line != "" {
			// Progress bars rewrite their line: what counts is what stands there.
			line = strings.TrimSpace(line[strings.LastIndexByte(line, '\r')+1:])
			text := ""
			w.mu.Lock()
			p, progress := engines.ProgressOf(line)
			if w.seen.in(line) || !w.asked || progress && p != w.at {
				w.moved = time.Now()
			}
			if w.tail = append(w.tail, line); len(w.tail) > tailLines {
				w.tail = w.tail[1:]
			}
			if progress {
				w.at = p
				text = w.up.see(p, time.Now())
			}
			w.mu.Unlock()
			if w.line != nil {
				w.line(line)
			}
			if text != "" {
				news(text)
			}
			if f, ok := engines.FatalLine(line); ok {
				w.gaveUp(&fatalLine{f, line}, giveUp)
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// gaveUp notes a fatal line, unless a better one is known.
func (w *wait) gaveUp(f *fatalLine, giveUp context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.fatal == nil && f.Follows:
		w.fatal = f
		time.AfterFunc(exitPatience, func() { giveUp(w.cause()) })
	case w.fatal == nil || w.fatal.Follows && !f.Follows:
		w.fatal = f
		giveUp(f)
	}
}

// cause is why there is no use in waiting, as far as the log says.
func (w *wait) cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fatal == nil {
		return nil
	}
	return w.fatal
}

// phases are what coming up took, now that it has ended.
func (w *wait) phases() []results.Phase {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.up.end(time.Now())
}

// lastWords waits for the end of the log of an engine that has ended.
func (w *wait) lastWords() {
	select {
	case <-w.ended:
	case <-time.After(exitPatience):
	}
}

func (w *wait) move() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = time.Now()
}

// listens notes that the server takes connections: from now on it may log every look
// at it, which is no progress of its own.
func (w *wait) listens() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = true
}

// probed notes what a look at the server said; an answer of another form than all
// before is progress too.
func (w *wait) probed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err.Error()
	if w.seen.in("answer: " + w.last) {
		w.moved = time.Now()
	}
}

func (w *wait) idle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.moved)
}

// lines are the last of the log.
func (w *wait) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tail)
}

func (w *wait) failed(why string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &NotReadyError{Why: why, LastProbe: w.last, Tail: slices.Clone(w.tail)}
}

// prober asks a server through the host's connection.
type prober struct {
	base string
	addr string
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	http *http.Client
	key  provision.Text // what the server asks for; empty: nothing
	// shown makes an answer fit to be told.
	shown func(string) string
}

func (s *site) prober(base string, e *engines.Engine) *prober {
	p := &prober{base: base, dial: s.conn.Dial, key: e.APIKey, shown: s.secrets.Line}
	if u, err := url.Parse(base); err == nil {
		p.addr = u.Host
		if u.Port() == "" {
			p.addr = net.JoinHostPort(u.Hostname(), map[string]string{"https": "443"}[u.Scheme])
			if u.Scheme != "https" {
				p.addr = net.JoinHostPort(u.Hostname(), "80")
			}
		}
	}
	p.http = &http.Client{
		Transport: &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 1},
		// A server must not choose whom this machine asks, with its key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

func (p *prober) close() { p.http.CloseIdleConnections() }

// open reports whether something listens.
func (p *prober) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := p.dial(ctx, "tcp", p.addr)
	if ctx.Err() != nil || errors.Is(err, provision.ErrUnreachable) {
		return fmt.Errorf("%w: %w", errNoWay, err)
	}
	if err != nil {
		return fmt.Errorf("nothing listens on %s yet", p.addr)
	}
	return c.Close()
}

// get fetches path and decodes the answer into out, unless that is nil.
func (p *prober) get(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return p.do(ctx, "GET", path, nil, out)
}

func (p *prober) do(ctx context.Context, method, path string, in []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(in))
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	key := p.key.Reveal()
	if key != "" {
		req.Header.Set(load.Authorization, load.Bearer(key))
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	switch {
	case resp.StatusCode/100 == 3:
		return &answerError{resp.StatusCode, fmt.Sprintf("%s %s: %s, to %s; hcl follows no redirect: a url has to be the server's own",
			method, path, p.part([]byte(resp.Status)), p.part([]byte(resp.Header.Get("Location"))))}
	case resp.StatusCode != http.StatusOK:
		return &answerError{resp.StatusCode, fmt.Sprintf("%s %s: %s %s", method, path, p.part([]byte(resp.Status)), p.part(body))}
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte: // as it is
		*out = body
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s %s: not what this engine answers: %s", method, path, p.part(body))
	}
	return nil
}

type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return e.text }

// answerShown is how much of an answer an error shows, in bytes.
const answerShown = 300

// part is the beginning of an answer, on one line.
func (p *prober) part(answer []byte) string {
	return plain.Cut(strings.Join(strings.Fields(p.shown(string(answer))), " "), answerShown)
}

// unlistedError says that a server does not list the model.
type unlistedError struct {
	path, want string
	listed     []string
}

func (e *unlistedError) Error() string {
	switch {
	case e.want == "" || len(e.listed) == 0:
		return fmt.Sprintf("GET %s: no model is listed", e.path)
	default:
		return fmt.Sprintf("GET %s: the model %s is not listed, only %s", e.path, e.want, plain.Cut(strings.Join(e.listed, ", "), answerShown))
	}
}

// model returns the name under which the model is served. Without a name to look
// for it is the first that is listed.
func (p *prober) model(ctx context.Context, path, want string) (string, error) {
	var list struct {
		Data []struct{ ID string }
	}
	if err := p.get(ctx, path, &list); err != nil {
		return "", err
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
	}
	switch {
	case want != "" && slices.Contains(ids, want):
		return want, nil
	case want == "" && len(ids) > 0:
		if p.shown(ids[0]) != ids[0] {
			return "", fmt.Errorf("GET %s: the model %q has a name that cannot be shown: say in a model block which one is meant", path, p.shown(ids[0]))
		}
		return ids[0], nil
	}
	for i, id := range ids {
		ids[i] = p.shown(id)
	}
	return "", &unlistedError{path, want, ids}
}

// errNoToken says that a server answers without an error, and without a token.
var errNoToken = errors.New("the server answers, but generates no token")

// generate has the server make one token, the only proof that it serves.
func (p *prober) generate(ctx context.Context, model string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	name, err := json.Marshal(model)
	if err != nil {
		return err
	}
	var answer struct {
		Choices []json.RawMessage
		Usage   *struct {
			Completion int `json:"completion_tokens"`
		}
	}
	err = p.do(ctx, "POST", "/v1/completions", []byte(`{"model":`+string(name)+`,"prompt":"Hello","max_tokens":1,"temperature":0}`), &answer)
	if status := new(answerError); errors.As(err, &status) && status.code == http.StatusNotFound {
		err = p.do(ctx, "POST", "/v1/chat/completions", []byte(`{"model":`+string(name)+`,"messages":[{"role":"user","content":"Hello"}],"max_tokens":1,"temperature":0}`), &answer)
	}
	switch {
	case err != nil:
		return err
	case len(answer.Choices) == 0 || answer.Usage != nil && answer.Usage.Completion == 0:
		return errNoToken
	}
	return nil
}
