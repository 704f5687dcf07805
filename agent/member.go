package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
)

// What callers ask for when the agent makes and ends containers and processes. To make one may be asked again,
// as its answer may be lost: the same name with the same content is the same thing.

// memberOrder is a container or a process as a caller asks for it. It travels over the connection and is not kept: it
// holds secrets in clear.
type memberOrder struct {
	Runtime   provision.Runtime `json:"runtime"`
	Container bare              `json:"container"` // what of it JSON does not take, or not in clear, follows
	Texts     []word            `json:"texts"`
	Listens   []int             `json:"listens"`
	StopGrace time.Duration     `json:"stop_grace"`
	PID       string            `json:"pid"`
}

// bare is a container that JSON takes as it is.
type bare provision.Container

// word is a text in clear, and what is shown of one with secrets.
type word struct {
	Clear   string   `json:"clear"`
	Shown   string   `json:"shown,omitempty"`
	Secrets []string `json:"secrets,omitempty"`
}

func newMemberOrder(r provision.Runtime, ct provision.Container) memberOrder {
	o := memberOrder{Runtime: r, Container: bare(ct), Listens: ct.Listens, StopGrace: ct.StopGrace, PID: ct.PID}
	for _, t := range ct.Texts() {
		w := word{Clear: t.Reveal()}
		if t.IsSecret() {
			w.Shown, w.Secrets = t.String(), t.Secrets()
		}
		o.Texts = append(o.Texts, w)
	}
	return o
}

// container is what was asked for, whole again.
func (o memberOrder) container() (provision.Container, error) {
	ct := provision.Container(o.Container)
	ct.Listens, ct.StopGrace, ct.PID = o.Listens, o.StopGrace, o.PID
	texts := ct.Texts()
	if len(texts) != len(o.Texts) {
		return ct, fail(http.StatusBadRequest, "%d texts are asked for, and %d follow", len(texts), len(o.Texts))
	}
	for i, w := range o.Texts {
		*texts[i] = provision.Partly(w.Clear, w.Shown, w.Secrets)
	}
	return ct, nil
}

// fault is an error of the agent's work on its host, as it goes to the caller.
type fault struct {
	Kind string   `json:"kind"`
	Text string   `json:"text"`
	Left []string `json:"left,omitempty"` // of [provision.ErrUnclean]: what, and what holds it
}

func (f *fault) Error() string { return f.Text }

func faultOf(err error) error {
	if err == nil {
		return nil
	}
	if _, is := errors.AsType[*statusError](err); is {
		return err
	}
	f := &fault{Kind: provision.Kind(err), Text: err.Error()}
	if unclean, ok := errors.AsType[*provision.UncleanError](err); ok {
		f.Left = unclean.Left
	}
	return f
}

// answer is what an agent has said of its work: to ask again would not change it.
type agentError struct{ err error }

func (a *agentError) Error() string { return a.err.Error() }
func (a *agentError) Unwrap() error { return a.err }

// asError is the error at the caller's end.
func (f *fault) asError(h *provision.Host) error {
	if f.Left != nil {
		return &provision.UncleanError{Host: h, Left: f.Left}
	}
	return provision.Told(f.Kind, f.Text)
}

// started is the answer to who has asked for a container or a process.
type started struct {
	ID string `json:"id"`
}

// gone is the answer to who has it ended, and the claim.
type gone struct {
	Removed []provision.Found      `json:"removed,omitempty"`
	Others  []provision.GPUProcess `json:"others,omitempty"` // that have begun to use the GPUs meanwhile
	Memory  []string               `json:"memory,omitempty"` // of other users, which the agent cannot see to be the engines' or not, see [segments.foreign]
	Missed  bool                   `json:"missed,omitempty"` // it was ending by itself: what else was asked is not done
}

// Warnings are what its user has to know of the host.
func (g gone) Warnings() (all []string) {
	for _, p := range g.Others {
		all = append(all, fmt.Sprintf("somebody else has begun to use its GPUs since it was measured: %s", p))
	}
	if n := len(g.Memory); n > 0 {
		const text = "other users have %s of shared memory there that came while it ran, first %s: only root can see whether it left them, and remove them"
		all = append(all, fmt.Sprintf(text, plain.Count(n, "file"), plain.Line(g.Memory[0])))
	}
	return all
}

func (c *claim) put(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	var want memberOrder
	if err := readNamed(r, name, &want); err != nil {
		return err
	}
	id, err := c.make(r.Context(), r.Header.Get(headerRun), name, want)
	if err != nil {
		return faultOf(err)
	}
	return reply(w, started{id})
}

func (c *claim) delete(w http.ResponseWriter, r *http.Request) error {
	grace, _ := time.ParseDuration(r.URL.Query().Get("grace")) // none, or nonsense: its own
	// A caller whose connection is lost must not cost the engine its grace.
	ctx, done := context.WithTimeout(context.WithoutCancel(r.Context()), max(grace, 0)+downWithin)
	defer done()
	others, err := c.stop(ctx, r.PathValue("name"), grace)
	if err != nil {
		return faultOf(err)
	}
	return reply(w, gone{Others: others, Memory: c.foreignMemory()})
}

// Start has the agent make a container, or a process, under its name, and returns its id.
func (a *Client) start(ctx context.Context, r provision.Runtime, ct provision.Container) (string, error) {
	var made started
	err := a.insist(ctx, func() error {
		return a.call(ctx, "PUT", "/v1/members/"+url.PathEscape(ct.Name), newMemberOrder(r, ct), &made)
	})
	return made.ID, err
}

// Stop has the agent stop what it has made under a name: its stop signal, grace (0: its own), SIGKILL; remove
// it, and prove that it is gone: nothing of it runs or listens, and when it was the last of the claim the GPUs are as
// they were. What is not there is stopped. warnings are of what others have there meanwhile. What is left is an
// [provision.UncleanError], and the agent's to try again when the claim ends.
func (a *Client) Stop(ctx context.Context, name string, grace time.Duration) (warnings []string, err error) {
	var said gone
	err = a.insist(ctx, func() error {
		return a.call(ctx, "DELETE", fmt.Sprintf("/v1/members/%s?grace=%s", url.PathEscape(name), grace), nil, &said)
	})
	return said.Warnings(), err
}

// Containers runs engines as containers by the hands of the agent, which is beside the daemon when the network is
// not. What they do the daemon itself is asked.
type Containers struct {
	*Client
	Daemon *docker.Daemon
}

// Start makes a container of an image that is on the host, and starts it. What it returns tells it in questions.
func (c Containers) Start(ctx context.Context, ct provision.Container) (id string, err error) {
	return c.start(ctx, provision.Docker, ct)
}

func (c Containers) State(ctx context.Context, id string) (provision.State, error) {
	return c.Daemon.State(ctx, id)
}

func (c Containers) Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error) {
	return c.Daemon.Logs(ctx, id, follow, tail)
}

func (c Containers) ReadFile(ctx context.Context, id, path string) ([]byte, time.Time, error) {
	return c.Daemon.ReadFile(ctx, id, path)
}

func (c Containers) List(ctx context.Context, labels map[string]string) ([]provision.Found, error) {
	return c.Daemon.List(ctx, labels)
}

// sum tells one order from another of the same name. What was asked for cannot be read from it.
func (o memberOrder) sum() string {
	b, _ := json.Marshal(o) // of texts and numbers
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
