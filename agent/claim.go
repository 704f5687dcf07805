package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// A claim is what a run has on this host. All that the agent makes for it stands in its note, by name, before it
// is made, and until it is proved to be gone. An agent that is killed leaves the note to the next in its
// directory, which goes on with the claim where its lease still lasts, and ends it where that is over. It ends in one
// way, whoever asks for it: [claim.end].

// claimName is the claim's note in the agent's directory.
const claimName = "claim.json"

// claimNote is what stands there.
type claimNote struct {
	ID      string           `json:"id"`   // another: what was set and checked for the one before is no more
	Boot    string           `json:"boot"` // of the machine: what is made there does not outlive it
	Lease   Lease            `json:"lease"`
	Since   time.Duration    `json:"since"`   // its first lease, by [sinceBoot]
	Over    time.Duration    `json:"over"`    // its end, unless it is renewed
	Before  provision.GPUUse `json:"before"`  // how the GPUs were before anything was made
	Members []member         `json:"members"` // what was made, or may have been
}

// member is one container or process of a claim.
type member struct {
	Name    string            `json:"name"`
	Run     string            `json:"run"`
	Runtime provision.Runtime `json:"runtime"`
	Docker  string            `json:"docker,omitempty"` // the daemon, see [docker.Daemon.Access]
	Sum     string            `json:"sum"`              // of the order, which is not kept
	ID      string            `json:"id,omitempty"`     // what it is called since it was started
	Ports   []int             `json:"ports,omitempty"`
	Grace   time.Duration     `json:"grace"`
	Down    bool              `json:"down,omitempty"` // it is removed; what it may have left is not proved to be gone
}

// work is what is under way with a member.
type work struct {
	sum      string // of the order
	begun    bool   // by an agent that was killed over it: whether it was made is not known
	cancel   context.CancelFunc
	done     chan struct{} // closed when it was made, or was not
	id       string
	err      error
	stopping sync.Mutex // held by who ends it
}

type claim struct {
	dir       string
	ctx       context.Context // ends when the agent does, and with it what is being made
	release   time.Duration   // how long drivers may take to give memory back
	processes *processes
	log       *slog.Logger

	beginning sync.Mutex // held while what earlier runs have left is ended
	making    sync.WaitGroup

	mu      sync.Mutex
	note    claimNote
	works   map[string]*work
	closed  bool
	over    bool // nothing is noted any more
	daemons map[string]*daemon
}

// daemon is a Docker daemon of this machine, and the connection to it.
type daemon struct {
	*docker.Daemon
	conn *reach.Conn
}

// openClaim reads what an agent that was killed has left.
func openClaim(ctx context.Context, cfg Config, p *processes) *claim {
	c := &claim{
		dir: cfg.Dir, ctx: ctx, release: cmp.Or(cfg.Release, provision.ReleaseWait), processes: p, log: cfg.Log,
		works: map[string]*work{}, daemons: map[string]*daemon{},
	}
	if err := readJSON(c.file(), &c.note); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.log.Error("read what an earlier agent had under way", "err", err)
	}
	for i := range c.note.Members {
		m := &c.note.Members[i]
		if m.ID == "" && p.get(m.Name) != nil {
			m.ID = m.Name
		}
		ended := make(chan struct{})
		close(ended)
		c.works[m.Name] = &work{sum: m.Sum, begun: m.ID == "", cancel: func() {}, done: ended, id: m.ID}
	}
	return c
}

func (c *claim) file() string { return filepath.Join(c.dir, claimName) }

// left is the life that an agent goes on with which finds the claim of one that was killed.
func (c *claim) left() life {
	n, now := c.note, sinceBoot()
	switch {
	case n.ID == "":
		return life{}
	case n.Boot == boot() && n.Over > now:
		n.Lease.Expires = time.Now().Add(n.Over - now)
		return life{phase: leased, lease: n.Lease, since: time.Now().Add(n.Since - now)}
	default:
		return life{phase: expired, lease: n.Lease}
	}
}

// hold notes the lease of a run, and returns the claim's id. anew: it is the run's first.
func (c *claim) hold(l Lease, anew bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := sinceBoot()
	if anew {
		c.note.ID, c.note.Boot, c.note.Since = rand.Text(), boot(), now
	}
	c.note.Lease, c.note.Over = l, now+time.Until(l.Expires)
	if err := c.save(); err != nil { // a disk without room must not end what is measured
		c.log.Warn("note until when the claim lasts", "err", err)
	}
	return c.note.ID
}

// save writes the note. The caller holds c.mu.
func (c *claim) save() error {
	if c.over { // for a request that has outlived the claim: the next agent would take it for one under way
		return errEnding
	}
	return writeJSON(c.file(), c.note, 0o600)
}

// at is the member of a name. The caller holds c.mu.
func (c *claim) at(name string) *member {
	i := slices.IndexFunc(c.note.Members, func(m member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &c.note.Members[i]
}

// make makes a container or process, or waits for it where that is under way, as long as ctx lasts. What it has
// begun goes on without.
func (c *claim) make(ctx context.Context, run, name string, want memberOrder) (id string, err error) {
	c.mu.Lock()
	w, sum, was := c.works[name], want.sum(), c.at(name)
	switch {
	case c.closed:
		err = errEnding
	case run != c.note.Lease.Run: // which has taken the host over since it was asked
		err = &refusal{Lease: c.note.Lease}
	case w != nil && was != nil && was.Down:
		err = fail(http.StatusConflict, "what an earlier %s has left is not proved to be gone", name)
	case w != nil && w.sum != sum:
		err = fail(http.StatusConflict, "a container or process named %s is there already", name)
	case w == nil || w.begun:
		w, err = c.begin(name, sum, want)
	}
	c.mu.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case <-w.done:
		if w.err != nil && c.ctx.Err() != nil { // the next agent can
			return "", errEnding
		}
		return w.id, w.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// begin begins to make something, which stands in the note from then on. The caller holds c.mu.
func (c *claim) begin(name, sum string, want memberOrder) (*work, error) {
	l := c.note.Lease
	m := member{Name: name, Run: l.Run, Runtime: want.Runtime, Sum: sum, Ports: want.Listens, Grace: want.StopGrace}
	if want.Runtime == provision.Docker {
		m.Docker = l.Docker
	}
	c.note.Members = append(slices.DeleteFunc(c.note.Members, func(m member) bool { return m.Name == name }), m)
	if err := c.save(); err != nil {
		c.note.Members = c.note.Members[:len(c.note.Members)-1]
		return nil, fmt.Errorf("note what is to be made: %w", err)
	}
	ct := want.container()
	ct.Labels = maps.Clone(ct.Labels)
	if ct.Labels == nil {
		ct.Labels = map[string]string{}
	}
	for label, value := range map[string]string{
		provision.LabelLab: l.Lab, provision.LabelRun: l.Run, provision.LabelStore: l.Store, provision.LabelAgent: c.dir,
	} {
		if value != "" {
			ct.Labels[label] = value
		}
	}
	w := &work{sum: sum, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(c.ctx)
	w.cancel = cancel
	c.works[name] = w
	c.making.Go(func() {
		defer close(w.done)
		defer cancel()
		if m.Runtime == provision.Docker {
			w.id, w.err = c.startContainer(ctx, m, want.Host, ct)
		} else {
			w.id, w.err = name, c.processes.start(name, specOf(ct))
			if w.err != nil {
				w.err = &nothingLeft{fail(http.StatusConflict, "%v", w.err)}
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch m := c.at(name); {
		case w.err == nil && m != nil:
			m.ID = w.id
		case errors.As(w.err, new(*nothingLeft)):
			c.drop(name)
		}
		if err := c.save(); err != nil {
			c.log.Warn("note what was made", "name", name, "err", err)
		}
	})
	return w, nil
}

// drop takes a member from the note. The caller holds c.mu.
func (c *claim) drop(name string) {
	c.note.Members = slices.DeleteFunc(c.note.Members, func(m member) bool { return m.Name == name })
	delete(c.works, name)
}

// nothingLeft is why something was not made, of which nothing is there.
type nothingLeft struct{ error }

func (e *nothingLeft) Unwrap() error { return e.error }

func specOf(ct provision.Container) processSpec {
	spec := processSpec{Labels: ct.Labels, StopSignal: ct.StopSignal, StopGrace: ct.StopGrace}
	for _, w := range slices.Concat(ct.Entrypoint, ct.Command) {
		spec.Argv = append(spec.Argv, w.Reveal())
	}
	for _, v := range ct.Env {
		spec.Env = append(spec.Env, v.Name+"="+v.Value.Reveal())
	}
	for _, f := range ct.Files {
		if spec.Files == nil {
			spec.Files = map[string]string{}
		}
		spec.Files[f.Name] = f.Text.Reveal()
	}
	return spec
}

// daemon is the Docker daemon at an address, as another [reach.Conn] of this login takes it.
func (c *claim) daemon(address string, h asked) (*daemon, error) {
	key := address + "\x00" + h.Name
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.daemons[key]; d != nil {
		return d, nil
	}
	at := provision.Host{Name: cmp.Or(h.Name, "local"), Pos: h.Pos, Address: provision.LocalAddress, Docker: address}
	conn, err := reach.Dial(context.WithoutCancel(c.ctx), &at, reach.SSH{}, c.log)
	if err != nil {
		return nil, err
	}
	d := &daemon{docker.New(conn, nil), conn}
	if self, err := os.Executable(); err == nil {
		d.HideSecrets(self)
	}
	c.daemons[key] = d
	return d, nil
}

func (c *claim) startContainer(ctx context.Context, m member, h asked, ct provision.Container) (id string, err error) {
	d, err := c.daemon(m.Docker, h)
	if err != nil {
		return "", err
	}
	if id, err = d.Start(ctx, ct); err == nil {
		return id, nil
	}
	down, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	if left := c.removeContainers(down, d, func(f provision.Found) bool { return f.Name == ct.Name }, 0, nil); left != nil {
		return "", errors.Join(err, left)
	}
	return "", &nothingLeft{err}
}

// removeContainers stops and removes those that this agent has made, side by side.
func (c *claim) removeContainers(
	ctx context.Context, d *daemon, which func(provision.Found) bool, grace time.Duration, removed *[]provision.Found,
) error {
	return c.removeOf(ctx, d, map[string]string{provision.LabelAgent: c.dir}, which, grace, removed)
}

func (c *claim) removeOf(
	ctx context.Context, d *daemon, labels map[string]string, which func(provision.Found) bool, grace time.Duration,
	removed *[]provision.Found,
) error {
	found, err := d.List(ctx, labels)
	found = slices.DeleteFunc(found, func(f provision.Found) bool { return !which(f) })
	errs := make([]error, len(found))
	var all sync.WaitGroup
	for i, f := range found {
		c.log.Info("removing", "container", f.Name)
		all.Go(func() { errs[i] = d.Stop(ctx, f.ID, grace) })
	}
	all.Wait()
	for _, f := range found {
		known := func(other provision.Found) bool { return other.ID == f.ID }
		if removed != nil && !slices.ContainsFunc(*removed, known) { // in an earlier try
			*removed = append(*removed, f)
		}
	}
	return errors.Join(err, errors.Join(errs...))
}

// stop ends one member, proves that it is gone, and forgets it. grace 0 is its own.
func (c *claim) stop(ctx context.Context, name string, grace time.Duration) (others []provision.GPUProcess, err error) {
	c.mu.Lock()
	w := c.works[name]
	c.mu.Unlock()
	if w == nil {
		return nil, nil
	}
	w.cancel()
	select {
	case <-w.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("stop %s: it is still being made: %w", name, ctx.Err())
	}
	w.stopping.Lock()
	defer w.stopping.Unlock()
	c.mu.Lock()
	m := c.at(name)
	if m == nil || c.works[name] != w {
		c.mu.Unlock()
		return nil, nil // it was not made, or who was quicker has ended it
	}
	what := *m
	c.mu.Unlock()
	if !what.Down {
		if err := c.takeDown(ctx, what, grace); err != nil {
			left := fmt.Sprintf("%s, which could not be taken down: %v", name, err)
			return nil, &provision.UncleanError{Host: &provision.Host{Name: "local"}, Left: []string{left}}
		}
	}
	c.mu.Lock()
	if m := c.at(name); m != nil { // nil: who was last has proved it meanwhile
		m.Down = true
	}
	last := !slices.ContainsFunc(c.note.Members, func(m member) bool { return !m.Down })
	c.keep()
	c.mu.Unlock()
	if others, err = c.prove(ctx, what.Ports, last); err != nil {
		return others, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.works, name)
	if m := c.at(name); m != nil {
		m.Ports = nil
	}
	c.note.Members = slices.DeleteFunc(c.note.Members, func(m member) bool {
		// What has ended before the last waits for the proof of the GPUs.
		return m.Down && (last || m.Name == name && len(c.note.Before.Memory) == 0)
	})
	c.keep()
	return others, nil
}

// proveRest proves of what is down, and nothing is up beside, that the GPUs are as they were.
func (c *claim) proveRest(ctx context.Context) (others []provision.GPUProcess, err error) {
	c.mu.Lock()
	rest := len(c.note.Members) > 0 && !slices.ContainsFunc(c.note.Members, func(m member) bool { return !m.Down })
	c.mu.Unlock()
	if !rest {
		return nil, nil
	}
	if others, err = c.prove(ctx, nil, true); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.note.Members = nil
		c.keep()
	}
	return others, err
}

// keep writes the note, as well as that goes. The caller holds c.mu.
func (c *claim) keep() {
	if err := c.save(); err != nil {
		c.log.Warn("note what has ended", "err", err)
	}
}

// takeDown stops and removes a member. A daemon that is away is waited for: nobody else will come.
func (c *claim) takeDown(ctx context.Context, m member, grace time.Duration) error {
	if m.Runtime != provision.Docker {
		return c.processes.stop(ctx, m.Name, grace)
	}
	d, err := c.daemon(m.Docker, asked{})
	if err != nil {
		return err
	}
	if grace <= 0 {
		grace = docker.OwnGrace
	}
	return c.patiently(ctx, "remove "+m.Name, func() error {
		return c.removeContainers(ctx, d, func(f provision.Found) bool { return f.Name == m.Name }, grace, nil)
	})
}

// patiently does what has to be done in the end, again and again until it is, or the time is over.
func (c *claim) patiently(ctx context.Context, what string, do func() error) error {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = time.Second, 10*time.Second
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil {
			c.log.Warn(what, "err", err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(sweepWithin))
	return err
}

// prove waits until nothing of what is down is left. gpus: nothing else is up, so that the GPUs are as they were.
func (c *claim) prove(ctx context.Context, ports []int, gpus bool) (others []provision.GPUProcess, err error) {
	c.mu.Lock()
	t := provision.Traces{Ports: slices.Clone(ports), Mark: c.dir + "/"}
	for _, m := range c.note.Members {
		if m.Down && m.Runtime == provision.Docker && m.ID != "" {
			t.Containers = append(t.Containers, m.ID)
		}
		if m.Down && gpus {
			t.Ports = append(t.Ports, m.Ports...)
		}
	}
	if gpus {
		t.Before = c.note.Before
	}
	c.mu.Unlock()
	slices.Sort(t.Ports)
	t.Ports = slices.Compact(t.Ports)
	conn, err := here(ctx, c.log, provision.Host{Name: "local"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return look.ProveGone(ctx, conn, t, c.release)
}

// end ends what the claim has of runs, all or those that are meant, and proves that it is gone: side by side each gets
// its stop signal, its grace and SIGKILL, and is removed; then nothing of it may run, listen or hold memory of a GPU. It
// is the one way in which a claim ends: normally, interrupted, when its lease is over, for `hcl destroy` and
// for the next apply. What it can't end stays in the note.
func (c *claim) end(ctx context.Context, meant func(run string) bool) (removed []provision.Found, others []provision.GPUProcess, err error) {
	c.mu.Lock()
	var all []member
	addresses := map[string]bool{}
	if at := c.note.Lease.Docker; at != "" {
		addresses[at] = true
	}
	for _, m := range c.note.Members {
		if meant(m.Run) {
			all = append(all, m)
			if w := c.works[m.Name]; w != nil {
				w.cancel()
			}
			if m.Runtime == provision.Docker {
				addresses[m.Docker] = true
			}
		}
	}
	c.mu.Unlock()
	errs := make([]error, len(all))
	theirs := make([][]provision.GPUProcess, len(all))
	var ending sync.WaitGroup
	for i, m := range all {
		ending.Go(func() { theirs[i], errs[i] = c.stop(ctx, m.Name, 0) })
	}
	ending.Wait()
	for i, m := range all {
		f := provision.Found{ID: cmp.Or(m.ID, m.Name), Name: m.Name, Labels: map[string]string{provision.LabelRun: m.Run}}
		removed, others = append(removed, f), append(others, theirs[i]...)
	}
	if errors.Join(errs...) == nil {
		last, err := c.proveRest(ctx)
		others, errs = append(others, last...), append(errs, err)
	}
	// What stands in no note: that was lost with a disk, or with its folder.
	for _, f := range c.processes.found() {
		if meant(f.Labels[provision.LabelRun]) && !slices.ContainsFunc(all, func(m member) bool { return m.Name == f.Name }) {
			removed, errs = append(removed, f), append(errs, c.processes.stop(ctx, f.Name, 0))
		}
	}
	for address := range addresses {
		var found []provision.Found
		d, err := c.daemon(address, asked{})
		if err == nil {
			err = c.patiently(ctx, "remove what is left", func() error {
				return c.removeContainers(ctx, d, func(f provision.Found) bool { return meant(f.Labels[provision.LabelRun]) },
					docker.OwnGrace, &found)
			})
		}
		removed, errs = append(removed, found...), append(errs, err)
	}
	return removed, others, uncleanOf(errs...)
}

// close has nothing made any more, and waits for what is being made.
func (c *claim) close() {
	c.mu.Lock()
	c.closed = true
	for _, w := range c.works {
		w.cancel()
	}
	c.mu.Unlock()
	c.making.Wait()
}

// mostGrace is the longest that a member may take to stop.
func (c *claim) mostGrace() (most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.note.Members {
		most = max(most, m.Grace)
	}
	return most
}

// forget removes the note, when all of it is gone or told.
func (c *claim) forget() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, d := range c.daemons {
		d.conn.Close()
	}
	err := os.Remove(c.file())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// baseline notes what the GPUs are in use for, for the proof at the end. swept: engines have just ended there, and
// their driver may give memory back yet.
func (c *claim) baseline(ctx context.Context, conn *reach.Conn, swept bool) (use provision.GPUUse, err error) {
	if use, err = look.GPUUse(ctx, conn); err != nil {
		return use, err
	}
	for end := time.Now().Add(c.release); swept && time.Now().Before(end); {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return use, context.Cause(ctx)
		}
		now, err := look.GPUUse(ctx, conn)
		if err != nil {
			return use, err
		}
		swept, use = falls(use, now), now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note.Before = use
	return use, c.save()
}

// falls reports whether less of any GPU's memory is in use than before.
func falls(before, now provision.GPUUse) bool {
	for gpu, used := range now.Memory[:min(len(now.Memory), len(before.Memory))] {
		if used < before.Memory[gpu] {
			return true
		}
	}
	return false
}

// traces are what to look for where something is left.
func (c *claim) traces() provision.Traces {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := provision.Traces{Before: c.note.Before, Mark: c.dir + "/"}
	for _, m := range c.note.Members {
		t.Ports = append(t.Ports, m.Ports...)
		if m.Runtime == provision.Docker && m.ID != "" {
			t.Containers = append(t.Containers, m.ID)
		}
	}
	return t
}

// uncleanOf is what is left, of what taking down has failed with; nil: nothing.
func uncleanOf(errs ...error) error {
	var left []string
	for _, err := range errs {
		for _, what := range leftOf(err) {
			if !slices.Contains(left, what) { // two that wait for one port say the same
				left = append(left, what)
			}
		}
	}
	if left == nil {
		return nil
	}
	return &provision.UncleanError{Host: &provision.Host{Name: "local"}, Left: left}
}

// leftOf is what an error says to be left; nil: nothing.
func leftOf(err error) []string {
	if unclean, ok := errors.AsType[*provision.UncleanError](err); ok {
		return unclean.Left
	}
	if err != nil {
		return []string{strings.TrimSpace(err.Error())}
	}
	return nil
}
