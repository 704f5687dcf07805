package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"hclbench/flow"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/telemetry"
)

// Client speaks to one agent. Its methods survive a lost connection where that
// can be done without doing a thing twice.
type Client struct {
	http *http.Client
	host *provision.Host
	dir  string // of the agent, on its host
	home string // of the login there

	binary string // path there; of a client that Start made

	// Lost is called when the agent says that the host is another's now, or that
	// somebody has ended this client's lease; from any goroutine, and maybe often. nil:
	// nobody wants to know. It is set before the lease is taken.
	Lost func(*HeldError)

	there   func(context.Context) (bool, error)       // whether an agent answers; an error: it cannot be known
	unclean func(context.Context) (*Unclean, error)   // reads what is noted of the host
	noted   func(context.Context) (*claimNote, error) // reads what the last agent has left under way; nil: nothing
	up      func(context.Context) error               // brings up an agent where none answers; nil: the client only looks
	raising chan struct{}                             // one at a time: who does holds its one place
	mu      sync.Mutex
	lab     string
	store   string // for which requests are made
	lease   *Lease // the last that was given, which a new agent has to know
	claimed string // of which claim the lease is
	staysOn string // why the machine cannot be told to shut itself down
}

// ErrJobLost says that the agent which ran a job has ended, and with it the job.
// Nothing of it was measured.
var ErrJobLost = errors.New("the agent ended in the middle of the job")

// leastPatience is how long an agent is asked again at least: one that is cleaning
// up takes so long until another can take its place.
const leastPatience = downWithin + time.Minute

func newClient(c *reach.Conn, socket string) *Client {
	c.UseHCL(anyHCL(c.Home()))
	a := &Client{
		host: c.Host(),
		dir:  path.Dir(socket),
		home: c.Home(),

		raising: make(chan struct{}, 1),
		http: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return c.Dial(ctx, "unix", socket)
			},
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     time.Minute, // each may be a session of the host's
		}},
	}
	a.there = func(ctx context.Context) (bool, error) { return answers(ctx, a, c) }
	a.unclean = func(ctx context.Context) (*Unclean, error) { return ReadUnclean(ctx, c) }
	a.noted = func(ctx context.Context) (*claimNote, error) {
		return readNote[claimNote](ctx, c, path.Join(a.dir, claimName))
	}
	return a
}

// Close drops the client's connections. The agent goes on.
func (a *Client) Close() { a.http.CloseIdleConnections() }

// Mark is how the [provision.ProcessMark] of every process begins that the lab's
// agent on this host has started.
func (a *Client) Mark() string { return a.dir + "/" }

// Binary is the path of the hcl binary that the agent runs, on its host.
func (a *Client) Binary() string { return a.binary }

// HeldError says that somebody else is at work on a host: on the same lab, or,
// where the machine is reserved, on another. Nothing there is ours to take down.
type HeldError struct {
	Host  *provision.Host
	Lab   string // ours
	Lease Lease  // theirs
	Ended string // who has ended our lease; empty: nobody, somebody else has theirs
}

func (e *HeldError) Error() string {
	if e.Ended != "" {
		return fmt.Sprintf("%s: the lease of this run was ended by %s", e.Host, e.Ended)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is in use by %s", e.Host, e.Lease.Holder)
	if e.Lease.Lab != "" {
		fmt.Fprintf(&b, " for lab %s (run %s), until %s unless renewed", e.Lease.Lab, e.Lease.Run, e.Lease.Expires.Local().Format(time.DateTime))
	}
	b.WriteString(". To wait for it:\n\n    hcl apply --wait 1h")
	if e.Lease.Lab == e.Lab {
		b.WriteString("\n\nTo remove what it runs:\n\n    hcl destroy --force")
	}
	return b.String()
}

// statusError is an answer that is no success, for who gives it and for who gets it.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string { return e.body }

// call sends one request and decodes the answer into out, unless that is nil.
func (a *Client) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := a.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	if err != nil {
		return fmt.Errorf("agent on %s: %s %s: %w", a.host, method, path, err)
	}
	return nil
}

// maxAnswer bounds what an agent answers to one request, in bytes: no host may fill the memory of
// the machine that asks. The longest are the records of millions of requests.
const maxAnswer = 2 << 30

// bounded is an answer that breaks off with an error where it is longer than may be.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", int64(maxAnswer))
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// open sends one request and returns the answer of a success.
func (a *Client) open(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, &body)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	req.Header.Set(headerStore, a.store)
	if a.lease != nil {
		req.Header.Set(headerRun, a.lease.Run)
	}
	a.mu.Unlock()
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("agent on %s: %w", a.host, err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if why := new(refusal); resp.StatusCode == http.StatusConflict && json.Unmarshal(b, why) == nil {
			return nil, a.refused(why)
		}
		if why := new(fault); resp.StatusCode == http.StatusUnprocessableEntity && json.Unmarshal(b, why) == nil {
			return nil, &agentError{why.asError(a.host)}
		}
		return nil, fmt.Errorf("agent on %s: %w", a.host, &statusError{resp.StatusCode, strings.TrimSpace(string(b))})
	}
	resp.Body = &bounded{resp.Body, maxAnswer}
	return resp, nil
}

// refused is what the agent says of who has the host, told also to [Client.Lost].
func (a *Client) refused(why *refusal) error {
	a.mu.Lock()
	held, mine := &HeldError{Host: a.host, Lab: a.lab, Lease: why.Lease, Ended: why.Ended}, a.lease != nil
	a.mu.Unlock()
	if mine && a.Lost != nil {
		a.Lost(held)
	}
	return held
}

// insist repeats an idempotent call while the agent cannot be reached, as long as
// its lease would last, and brings up a new agent where it has died. An answer,
// also an unwelcome one, ends it.
func (a *Client) insist(ctx context.Context, call func() error) error {
	patience := flow.Patience{First: 200 * time.Millisecond, Most: 10 * time.Second, Total: leastPatience}
	if lease := a.held(); lease != nil {
		patience.Total = max(leastPatience, time.Duration(lease.TTL))
	}
	return patience.Again(ctx, func() error {
		err := call()
		if err == nil || final(err) {
			return err
		}
		if e := a.raise(ctx); final(e) {
			return e
		} else if e != nil {
			err = errors.Join(err, e)
		}
		return err
	}, final)
}

func unknown(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code == http.StatusNotFound
}

// final reports whether err is an answer that asking again would not change. A host that does
// not let us in, or shows another key than the one known, is not asked twice.
func final(err error) bool {
	_, held := errors.AsType[*HeldError](err)
	_, answered := errors.AsType[*agentError](err)
	status, ok := errors.AsType[*statusError](err)
	return held || answered || ok && status.code != http.StatusServiceUnavailable || provision.NotLetIn(err)
}

// raise brings up a new agent when the last has died, and gives it the lease.
func (a *Client) raise(ctx context.Context) error {
	if a.up == nil {
		return nil
	}
	select {
	case a.raising <- struct{}{}:
		defer func() { <-a.raising }()
	case <-ctx.Done(): // another has more patience with a host that is away
		return context.Cause(ctx)
	}
	if _, err := a.Info(ctx); err == nil {
		return nil // it answers; somebody was quicker, or it was the connection
	}
	if err := a.up(ctx); err != nil {
		return err
	}
	lease := a.held()
	if lease == nil {
		return nil
	}
	return a.claim(ctx, *lease)
}

func (a *Client) held() *Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease
}

// Info asks the agent about itself.
func (a *Client) Info(ctx context.Context) (Info, error) {
	var in Info
	return in, a.call(ctx, "GET", "/v1/info", nil, &in)
}

// Lease takes or renews the lease, of a new agent if the last has died or is
// ending. A [*HeldError] says that somebody else has it, or the machine.
func (a *Client) Lease(ctx context.Context, l Lease) error {
	return a.insist(ctx, func() error { return a.claim(ctx, l) })
}

func (a *Client) claim(ctx context.Context, l Lease) error {
	var got granted
	l.Host, l.Pos = a.host.Name, a.host.Pos
	err := a.call(ctx, "PUT", "/v1/lease", l, &got)
	if err == nil {
		a.mu.Lock()
		a.store, a.lease, a.claimed, a.staysOn = l.Store, &l, got.Claim, got.StaysOn
		a.mu.Unlock()
	}
	return err
}

// Claim is the id of the claim that the lease was for when it was last taken or renewed. Another than before
// says that the host has cleaned itself meanwhile, or was restarted: what was set and checked there is no more.
func (a *Client) Claim() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.claimed
}

// StaysOn is why the machine could not be told when to shut itself down, as the lease says; empty: it was, or it has not to.
func (a *Client) StaysOn() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.staysOn
}

// Begun is what a run finds on a host that it has taken.
type Begun = begun

// Begin readies the host for the run that has taken the lease: what earlier runs of this lab, store and host block
// have left there is ended and proved to be gone, settings are put back, and it is noted what the GPUs are in use
// for. An [provision.UncleanError] says what cannot be ended.
func (a *Client) Begin(ctx context.Context) (said Begun, err error) {
	err = a.insist(ctx, func() error { return a.call(ctx, "POST", "/v1/begin", nil, &said) })
	return said, err
}

// Ended is what has ended with a claim.
type Ended = gone

// Release ends the claim, and with it the agent: whatever it has made is stopped, removed and proved to be gone, and
// settings are put back. It returns when its place is free. A [*HeldError] says that the lease is
// another's, who goes on with it; an [provision.UncleanError], what is left. A host that is out of reach is waited for
// as long as patience, and a minute at least.
func (a *Client) Release(ctx context.Context, patience time.Duration) error {
	_, err := a.release(ctx, nil, patience)
	return err
}

// release ends the claim, also where the lease is another's when by says for whom.
func (a *Client) release(ctx context.Context, by *ending, patience time.Duration) (said Ended, err error) {
	var in any
	if by != nil {
		in = by
	}
	wait := flow.Patience{First: 100 * time.Millisecond, Most: 5 * time.Second, Total: max(patience, leastRelease)}
	heard := false
	err = wait.Again(ctx, func() error {
		try, cancel := context.WithTimeoutCause(ctx, releaseWithin, fmt.Errorf("the agent has not ended within %s: it may hang", releaseWithin))
		defer cancel()
		err := a.call(try, "DELETE", "/v1/lease", in, &said)
		if heard = heard || err == nil; !final(err) {
			err = a.left(ctx) // it has answered, or ended over the answer, or was cut off from us
		}
		return err
	}, final)
	if answered, ok := errors.AsType[*agentError](err); ok {
		err = answered
	}
	said.Missed = said.Missed || by != nil && !heard
	return said, err
}

// releaseWithin is how long an agent may take that answers: the grace of what it stops, and twice what it gives itself.
const releaseWithin = 2*downWithin + 10*time.Minute

// leastRelease is how long an agent is asked to end its claim where nobody can be reached.
const leastRelease = time.Minute

var (
	errThere  = errors.New("the agent is still there")
	errKilled = errors.New("the agent was killed before it had ended what it had under way")
)

// left reports why it is not known that the agent has ended, and its claim with it. In the place of one that was
// killed it brings up another.
func (a *Client) left(ctx context.Context) error {
	own := a.held()
	there, err := a.there(ctx)
	if errors.Is(err, provision.ErrPodLost) {
		return nil // and with the pod all that was in it
	}
	if err != nil {
		return err
	}
	if there {
		info, err := a.Info(ctx)
		if err != nil {
			return err
		}
		if info.Lease == nil || own != nil && info.Lease.Run == own.Run {
			return errThere
		}
	}
	if own == nil {
		return nil
	}
	if !there {
		note, err := a.noted(ctx)
		if err != nil {
			return err
		}
		if note != nil && note.Lease.Run == own.Run {
			return cmp.Or(a.raise(ctx), errKilled)
		}
	}
	// Over an answer that did not come.
	if u, err := a.unclean(ctx); err != nil || u != nil && u.Run == own.Run {
		if err == nil {
			err = &agentError{&provision.UncleanError{Host: a.host, Left: u.Left}}
		}
		return err
	}
	return nil
}

// Measured is what came of a job.
type Measured struct {
	Summary   *load.Summary // nil: nothing was measured, and there is an error
	Records   []load.Record
	Telemetry *telemetry.Record // nil: nothing was asked for
}

// Run carries a job out on the host and reports its progress. It returns when
// the job is done or ctx ends, in which case the job is stopped. Losing the
// connection loses nothing: the job goes on, and Run picks up where it was. When
// the agent dies the error is [ErrJobLost], and a new agent is there.
//
// Something may have been measured also where there is an error.
func (a *Client) Run(ctx context.Context, id string, spec Job, progress func(load.Progress)) (Measured, error) {
	m, _, err := Sender{Client: a}.carryOut(ctx, id, spec, func(e Event) {
		if e.Progress != nil {
			progress(*e.Progress)
		}
	})
	return m, err
}

// RunUntil is [Client.Run] of a load that ends before all is sent when enough is known: enough is called with each request
// that is over, a moment later and without its gaps, and no more are sent once it says so.
func (a *Client) RunUntil(ctx context.Context, id string, spec Job, progress func(load.Progress), enough func(*load.Record) bool) (Measured, error) {
	spec.Tell = true
	known := false
	m, _, err := Sender{Client: a}.carryOut(ctx, id, spec, func(e Event) {
		for i := range e.Over {
			if known {
				break
			}
			if known = enough(&e.Over[i]); known { // whom it does not reach ends by itself
				a.insist(ctx, func() error { return a.call(ctx, "POST", jobPath(id)+"/enough", nil, nil) })
			}
		}
		if e.Progress != nil {
			progress(*e.Progress)
		}
	})
	return m, err
}

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// carryOut is [Client.Run] that tells all events, and returns the last of them too.
func (a Sender) carryOut(ctx context.Context, id string, spec Job, each func(Event)) (m Measured, last Event, err error) {
	path := jobPath(id)
	if err := a.insist(ctx, func() error { return a.call(ctx, "PUT", path, jobOrder{spec, spec.Load.Secrets}, nil) }); err != nil {
		return m, last, err
	}
	// Whatever happens, the host forgets the job; without a connection the agent's
	// lease does that.
	defer a.forget(ctx, path)

	last, err = a.followToEnd(ctx, path, each)
	m = Measured{Summary: last.Summary, Telemetry: last.Telemetry}
	if err == nil && last.Summary != nil {
		err = a.insist(ctx, func() error {
			m.Records, err = a.records(ctx, path)
			return err
		})
	}
	if unknown(err) {
		return Measured{}, last, ErrJobLost
	}
	if last.Error != "" {
		err = errors.Join(errors.New(last.Error), err)
	}
	if err == nil && m.Summary == nil {
		err = errors.New("it has measured nothing")
	}
	return m, last, err
}

// forget has the host drop what it has at a path, also when ctx has ended. Why it has is not
// looked at: that another host is out of reach is no reason to let this one go on.
func (a *Client) forget(ctx context.Context, path string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	a.call(ctx, "DELETE", path, nil, nil)
}

// persist repeats a request whose answer breaks off, as often as the agent can be reached
// and there was something new in it.
func (a *Client) persist(ctx context.Context, try func() (more bool, err error)) error {
	for fruitless := 1; ; fruitless++ {
		more, err := try()
		if more {
			fruitless = 0
		}
		if err == nil || ctx.Err() != nil || fruitless == 10 || final(err) {
			return err
		}
		if err := a.insist(ctx, func() error { _, err := a.Info(ctx); return err }); err != nil {
			return err
		}
	}
}

// followToEnd returns a job's last event.
func (a *Client) followToEnd(ctx context.Context, path string, each func(Event)) (e Event, err error) {
	next := 0
	err = a.persist(ctx, func() (more bool, err error) {
		before := next
		e, err = a.follow(ctx, path, next, func(e Event) {
			next = e.Seq + 1
			each(e)
		})
		return next > before, err
	})
	return e, err
}

// follow reads events from n on until the job is done, and returns the last.
func (a *Client) follow(ctx context.Context, path string, n int, each func(Event)) (e Event, err error) {
	resp, err := a.open(ctx, "GET", path+"/events?from="+strconv.Itoa(n), nil)
	if err != nil {
		return e, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); !e.Done; each(e) {
		e = Event{}
		if err := dec.Decode(&e); err != nil {
			return e, fmt.Errorf("agent on %s: follow the job: %w", a.host, err)
		}
	}
	return e, nil
}

func (a *Client) records(ctx context.Context, path string) ([]load.Record, error) {
	resp, err := a.open(ctx, "GET", path+"/records", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var records []load.Record
	for dec := json.NewDecoder(resp.Body); ; {
		var r load.Record
		if err := dec.Decode(&r); err == io.EOF {
			return records, nil
		} else if err != nil {
			return nil, fmt.Errorf("agent on %s: read the records: %w", a.host, err)
		}
		records = append(records, r)
	}
}
