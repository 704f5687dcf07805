package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/flow"
	"hclbench/provision"
	"hclbench/provision/docker"
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
	Members []member         `json:"members"` // what was made, or may have been, and is not taken down
	Down    provision.Traces `json:"down"`    // what may be left of what is; how the GPUs were before anything was made

	Memory       map[string]segment `json:"memory,omitempty"` // that its members have used of this machine's, by path
	MemoryBefore []segment          `json:"memory_before"`    // what was there before anything was made
}

// member is one container or process of a claim.
type member struct {
	Name    string            `json:"name"`
	Runtime provision.Runtime `json:"runtime"`
	Docker  string            `json:"docker,omitempty"` // the daemon, see [docker.Daemon.Access]
	Labels  map[string]string `json:"labels"`
	Sum     string            `json:"sum"`          // of the order, which is not kept
	ID      string            `json:"id,omitempty"` // what it is called since it was started
	Ports   []int             `json:"ports,omitempty"`
	Grace   time.Duration     `json:"grace"`

	SharesMemory bool `json:"shares_memory,omitempty"` // a container that sees this machine's /dev/shm
}

// sharesMemory reports whether it sees this machine's /dev/shm.
func (m member) sharesMemory() bool { return m.Runtime != provision.Docker || m.SharesMemory }

func (m member) run() string { return m.Labels[provision.LabelRun] }

func (m member) found() provision.Found {
	return provision.Found{ID: cmp.Or(m.ID, m.Name), Name: m.Name, Labels: m.Labels}
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

// failed reports whether it was not made, as far as is known.
func (w *work) failed() bool {
	select {
	case <-w.done:
		return w.err != nil
	default:
		return false
	}
}

type claim struct {
	dir       string
	ctx       context.Context // ends when the agent does, and with it what is being made
	release   time.Duration   // how long drivers may take to give memory back
	processes *processes
	log       *slog.Logger

	beginning sync.Mutex // held while what earlier runs have left is ended
	making    sync.WaitGroup

	memory struct { // locked before mu
		sync.Mutex
		*segments
	}

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
	c.memory.segments = newSegments(c.note.MemoryBefore, c.note.Memory)
	c.note.MemoryBefore = slices.AppendSeq([]segment{}, maps.Keys(c.memory.before))
	for i := range c.note.Members {
		m := &c.note.Members[i]
		if m.ID == "" && p.get(m.Name) != nil {
			m.ID = m.Name
		}
		c.works[m.Name] = workOf(*m)
	}
	return c
}

// workOf is over with a member that is not of this agent's making.
func workOf(m member) *work {
	over := make(chan struct{})
	close(over)
	return &work{sum: m.Sum, begun: m.ID == "", cancel: func() {}, done: over, id: m.ID}
}

func (c *claim) file() string { return filepath.Join(c.dir, claimName) }

// dialHere is this machine, as the caller calls it.
func (c *claim) dialHere(ctx context.Context) (*reach.Conn, error) { return c.dial(ctx, "") }

func (c *claim) dial(ctx context.Context, docker string) (*reach.Conn, error) {
	c.mu.Lock()
	l := c.note.Lease
	c.mu.Unlock()
	h := provision.Host{
		Name: cmp.Or(l.Host, "local"), Pos: l.Pos, Address: provision.LocalAddress, Runtime: provision.Process, Docker: docker,
	}
	return reach.Dial(ctx, &h, reach.SSH{}, c.log)
}

// left is the life that an agent goes on with which finds the claim of one that was killed.
func (c *claim) left() life {
	n, now := c.note, sinceBoot()
	switch {
	case n.ID == "":
		return life{}
	case n.Boot == boot() && n.Over > now:
		n.Lease.Expires = time.Now().Add(n.Over - now)
		return life{phase: leased, lease: n.Lease, claim: n.ID, since: time.Now().Add(n.Since - now)}
	default:
		return life{phase: expired, lease: n.Lease}
	}
}

// Left are the processes that the lab's agent on a host has left there, as its note tells: it was killed, and a reboot
// has not ended them either.
func Left(ctx context.Context, c *reach.Conn, lab string) (left []provision.Found, err error) {
	note, err := readNote[claimNote](ctx, c, path.Join(Dir(c, lab), claimName))
	if err != nil || note == nil {
		return nil, err
	}
	const bootOf = "cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.bootsessionuuid 2>/dev/null || true"
	now, err := c.Run(ctx, bootOf, nil)
	if err != nil || strings.TrimSpace(now) != note.Boot {
		return nil, err
	}
	for _, m := range note.Members {
		if m.Runtime == provision.Process {
			f := m.found()
			f.State = "left by an agent that was killed"
			left = append(left, f)
		}
	}
	return left, nil
}

// hold notes who has the lease, and until when.
func (c *claim) hold(l life) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := sinceBoot()
	if c.note.ID != l.claim {
		c.note.ID, c.note.Boot, c.note.Since = l.claim, boot(), now
	}
	c.note.Lease, c.note.Over = l.lease, now+time.Until(l.lease.Expires)
	c.keep() // a disk without room must not end what is measured
}

// save writes the note. The caller holds c.mu.
func (c *claim) save() error {
	if c.over { // for a request that has outlived the claim: the next agent would take it for one under way
		return errEnding
	}
	return writeJSON(c.file(), c.note, 0o600)
}

// memberNamed is the member of a name. The caller holds c.mu.
func (c *claim) memberNamed(name string) *member {
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
	w, sum := c.works[name], want.sum()
	switch {
	case c.closed:
		err = errEnding
	case run != c.note.Lease.Run: // which has taken the host over since it was asked
		err = &refusal{Lease: c.note.Lease}
	case w == nil || w.begun || w.failed():
		w, err = c.begin(name, sum, want)
	case w.sum != sum:
		err = fail(http.StatusConflict, "a container or process named %s is there already", name)
	}
	c.mu.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case <-w.done:
		id, err = w.id, w.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil && c.ctx.Err() != nil { // the next agent can
		err = errEnding
	}
	return id, err
}

// begin begins to make something, which stands in the note from then on, also when it was not made: part of it may be
// there. The caller holds c.mu.
func (c *claim) begin(name, sum string, want memberOrder) (*work, error) {
	ct, err := want.container()
	if err != nil {
		return nil, err
	}
	if ct.Labels = maps.Clone(ct.Labels); ct.Labels == nil {
		ct.Labels = map[string]string{}
	}
	l := c.note.Lease
	for label, value := range map[string]string{
		provision.LabelLab: l.Lab, provision.LabelRun: l.Run, provision.LabelStore: l.Store, provision.LabelAgent: c.dir,
	} {
		if value != "" {
			ct.Labels[label] = value
		}
	}
	m := member{Name: name, Runtime: want.Runtime, Labels: ct.Labels, Sum: sum, Ports: ct.Listens, Grace: ct.StopGrace}
	if want.Runtime == provision.Docker {
		m.Docker, m.SharesMemory = l.Docker, ct.IPC == "host"
	}
	was := c.note.Members
	c.note.Members = append(slices.DeleteFunc(slices.Clone(was), m.sameName), m)
	if err := c.save(); err != nil {
		c.note.Members = was
		return nil, fmt.Errorf("note what is to be made: %w", err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	w := &work{sum: sum, cancel: cancel, done: make(chan struct{})}
	c.works[name] = w
	c.making.Go(func() {
		defer close(w.done)
		defer cancel()
		if w.id, w.err = c.start(ctx, m, ct); w.err != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.memberNamed(name).ID = w.id
		c.keep()
	})
	return w, nil
}

func (c *claim) start(ctx context.Context, m member, ct provision.Container) (id string, err error) {
	if m.Runtime != provision.Docker {
		if err := c.processes.start(m.Name, ct); err != nil {
			return "", fail(http.StatusConflict, "%v", err)
		}
		return m.Name, nil
	}
	d, err := c.daemon(ctx, m.Docker)
	if err != nil {
		return "", err
	}
	return d.Start(ctx, ct)
}

// daemon is the Docker daemon at an address, as another [reach.Conn] of this login takes it.
func (c *claim) daemon(ctx context.Context, address string) (*daemon, error) {
	c.mu.Lock()
	d := c.daemons[address]
	c.mu.Unlock()
	if d != nil {
		return d, nil
	}
	conn, err := c.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	d = &daemon{docker.New(conn, nil), conn}
	if self, err := os.Executable(); err == nil {
		d.HideSecrets(self)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.daemons[address]; was != nil {
		conn.Close()
		return was, nil
	}
	c.daemons[address] = d
	return d, nil
}

// stop ends one member, if there is one of that name, and proves that nothing is left of what is down. grace 0 is its
// own.
func (c *claim) stop(ctx context.Context, name string, grace time.Duration) (others []provision.GPUProcess, err error) {
	if err := c.takeDown(ctx, name, grace); err != nil {
		return nil, uncleanOf(fmt.Errorf("%s, which could not be taken down: %w", name, err))
	}
	return c.prove(ctx)
}

// takeDown stops and removes a member, also one that is still being made.
func (c *claim) takeDown(ctx context.Context, name string, grace time.Duration) error {
	c.mu.Lock()
	w := c.works[name]
	c.mu.Unlock()
	if w == nil {
		return nil
	}
	w.cancel()
	select {
	case <-w.done:
	case <-ctx.Done():
		return fmt.Errorf("it is still being made: %w", ctx.Err())
	}
	w.stopping.Lock()
	defer w.stopping.Unlock()
	c.mu.Lock()
	if c.works[name] != w {
		c.mu.Unlock()
		return nil // who was quicker has ended it
	}
	m := *c.memberNamed(name)
	c.mu.Unlock()
	if m.sharesMemory() {
		c.lookAtMemory(ctx, true)
	}
	if err := c.remove(ctx, m, grace); err != nil {
		return err
	}
	if m.sharesMemory() {
		c.memory.Lock()
		defer c.memory.Unlock()
		c.memory.remove()
		c.memory.shared = c.memory.shared || m.SharesMemory
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.sharesMemory() {
		c.note.Memory = c.memory.noted()
	}
	delete(c.works, name)
	c.note.Members = slices.DeleteFunc(c.note.Members, m.sameName)
	c.note.Down = bothTraces(c.note.Down, m.traces())
	c.keep()
	return nil
}

func (m member) sameName(other member) bool { return m.Name == other.Name }

// traces are what to look for when the member is down.
func (m member) traces() provision.Traces {
	t := provision.Traces{Ports: m.Ports}
	if m.Runtime == provision.Docker && m.ID != "" {
		t.Containers = []string{m.ID}
	}
	return t
}

// keep writes the note, as well as that goes. The caller holds c.mu.
func (c *claim) keep() {
	if err := c.save(); err != nil {
		c.log.Warn("note what the claim has", "err", err)
	}
}

// remove stops and removes a member. A daemon that is away is waited for: nobody else will come.
func (c *claim) remove(ctx context.Context, m member, grace time.Duration) error {
	if m.Runtime != provision.Docker {
		return c.processes.stop(ctx, m.Name, grace)
	}
	if grace <= 0 {
		grace = docker.OwnGrace
	}
	d, err := c.daemon(ctx, m.Docker)
	if err != nil {
		return err
	}
	return c.patiently(ctx, "remove "+m.Name, func() error {
		if m.ID != "" {
			return d.Stop(ctx, m.ID, grace)
		}
		found, err := d.List(ctx, map[string]string{provision.LabelAgent: c.dir})
		i := slices.IndexFunc(found, func(f provision.Found) bool { return f.Name == m.Name })
		if err != nil || i < 0 { // it was not made, or the name is somebody else's
			return err
		}
		return d.Stop(ctx, found[i].ID, grace)
	})
}

// patiently does what has to be done in the end, again and again until it is, or the time is over.
func (c *claim) patiently(ctx context.Context, what string, do func() error) error {
	return flow.Patience{First: time.Second, Most: 10 * time.Second, Total: sweepWithin}.Again(ctx, func() error {
		err := do()
		if err != nil {
			c.log.Warn(what, "err", err)
		}
		return err
	}, flow.Never)
}

// extent is how much is to end.
type extent struct {
	of     func(run string) bool // runs of this claim
	docker string                // a daemon, beside those that the claim knows of
	lab    string                // also containers that carry its name and are somebody else's; empty: of none
}

// end ends what the claim has of runs, and proves that it is gone: side by side each gets its stop signal, its grace and
// SIGKILL, and is removed; then nothing of it may run, listen or hold memory of a GPU. It is the one way in which a claim
// ends: normally, interrupted, when its lease is over, for `hcl destroy` and for the next apply. What it can't end stays
// in the note.
func (c *claim) end(ctx context.Context, what extent) (removed []provision.Found, others []provision.GPUProcess, err error) {
	var errs []error
	stop := func(all []member) {
		theirs, left := make([][]provision.GPUProcess, len(all)), make([]error, len(all))
		flow.Each(all, func(i int, m member) error {
			theirs[i], left[i] = c.stop(ctx, m.Name, 0)
			return nil
		})
		for i, m := range all {
			removed, others = append(removed, m.found()), append(others, theirs[i]...)
		}
		errs = append(errs, left...)
	}
	c.mu.Lock()
	noted := slices.DeleteFunc(slices.Clone(c.note.Members), func(m member) bool { return !what.of(m.run()) })
	c.mu.Unlock()
	stop(noted)
	strays, err := c.strays(ctx, what)
	errs = append(errs, err)
	stop(strays)
	if len(noted)+len(strays) == 0 { // what is down may not be proved
		others, err = c.prove(ctx)
		errs = append(errs, err)
	}
	return removed, others, uncleanOf(errs...)
}

// strays are those that stand in no note, and now do: that was lost with a disk, or with its folder.
func (c *claim) strays(ctx context.Context, what extent) (strays []member, err error) {
	for _, f := range c.processes.found() {
		strays = append(strays, member{Name: f.Name, Runtime: provision.Process, ID: f.ID, Labels: f.Labels})
	}
	c.mu.Lock()
	addresses := []string{what.docker, c.note.Lease.Docker}
	for _, m := range c.note.Members {
		addresses = append(addresses, m.Docker)
	}
	c.mu.Unlock()
	whose := []map[string]string{{provision.LabelAgent: c.dir}}
	if what.lab != "" {
		whose = append(whose, map[string]string{provision.LabelLab: what.lab})
	}
	slices.Sort(addresses)
	var errs []error
	for _, address := range slices.Compact(addresses) {
		if address == "" {
			continue
		}
		for _, labels := range whose {
			found, err := c.list(ctx, address, labels)
			errs = append(errs, err)
			for _, f := range found {
				strays = append(strays, member{Name: f.Name, Runtime: provision.Docker, Docker: address, ID: f.ID, Labels: f.Labels})
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	strays = slices.DeleteFunc(strays, func(m member) bool {
		theirs := m.Labels[provision.LabelAgent] != c.dir && m.Runtime == provision.Docker
		if c.works[m.Name] != nil || !theirs && !what.of(m.run()) {
			return true
		}
		c.log.Warn("it stands in no note", "name", m.Name, "runtime", m.Runtime)
		c.works[m.Name], c.note.Members = workOf(m), append(c.note.Members, m)
		return false
	})
	c.keep()
	return strays, errors.Join(errs...)
}

// list lists containers of a daemon, which is waited for.
func (c *claim) list(ctx context.Context, address string, labels map[string]string) (found []provision.Found, err error) {
	d, err := c.daemon(ctx, address)
	if err != nil {
		return nil, err
	}
	err = c.patiently(ctx, "look for containers", func() (err error) {
		found, err = d.List(ctx, labels)
		return err
	})
	return found, err
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
