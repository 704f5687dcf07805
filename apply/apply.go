// Package apply carries a plan out: connect, check, bring up, wait, measure,
// record, take down. It is the only room that orchestrates.
//
// Hosts work side by side; on a host the deployments come one after another,
// and so do the cells of a deployment, because two measurements on one machine
// measure each other. Whatever is brought up is taken down on every way out, in
// reverse order, with a context of its own. It prints nothing: what happens is
// told to Options.Events.
package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/look"
	"hclbench/provision/reach"
	"hclbench/results"
)

// Options is what carrying out needs besides the plan.
type Options struct {
	SSH      reach.SSH
	Binaries agent.Binaries     // copied to the hosts
	Images   *origin.Registries // as this machine sees them, with its logins; nil: the hosts' own logins alone
	Log      *slog.Logger       // of the connections; nil: silent
	Events   func(Event)        // called with one after the other; nobody at work waits for it; nil: nobody listens
	Run      results.Run        // ID, Lab, Command and Version are set
	Inputs   map[string][]byte  // what the run is made from, kept with it; nothing sensitive is in it
	Hub      origin.Hub         // that hosts get models from, with its token
	Holder   string             // who holds the leases, for people
	Wait     time.Duration      // how long to wait for a host that somebody else is at work on; 0: not
	Release  time.Duration      // how long drivers may take to give memory back; 0: [provision.ReleaseWait]
}

// Outcome counts what a run did.
type Outcome struct {
	Planned int // cells that were to be measured
	Valid   int
	Suspect int
	Void    int // attempted without a measurement; Planned minus all is what was not reached
}

// ErrContract says that a host is not what its block says.
var ErrContract = errors.New("the host does not meet its contract")

// HostError is why the work on a host ended early. An event of type [Failed] has
// told it already.
type HostError struct {
	Host string
	Err  error
	text string // of Err, fit to be told
}

func (e *HostError) Error() string { return e.text }
func (e *HostError) Unwrap() error { return e.Err }

// Run carries the plan out and keeps the results in the store, whose lock the
// caller holds. Cells and deployments that fail are data in the store; the error
// tells of hosts that could not be used, left unclean, or an interruption.
func Run(ctx context.Context, p *plan.Plan, store *results.Store, opt Options) (Outcome, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	opt.Release = cmp.Or(opt.Release, provision.ReleaseWait)
	r := &run{plan: p, store: store, opt: opt, secrets: secretsOf(p, opt.Hub.Token)}
	r.opt.Run.Started = time.Now()
	if err := store.BeginRun(ctx, r.opt.Run); err != nil {
		return r.outcome, err
	}
	if err := store.PutInputs(ctx, r.opt.Run.ID, opt.Inputs); err != nil {
		return r.outcome, err
	}
	tell, told := tellEach(ctx, opt.Events)
	r.tell = tell
	defer told()
	kept := r.keepEvents(ctx)
	work := map[*provision.Host][]*plan.Deployment{}
	for _, d := range p.Deployments {
		if todo := d.ToDo(); len(todo) > 0 {
			work[d.Host()] = append(work[d.Host()], d)
			r.outcome.Planned += len(todo)
		}
	}
	r.places = places(work)
	interrupted := ctx
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	errs := make([]error, len(p.Hosts))
	var wg sync.WaitGroup
	for i, h := range p.Hosts {
		if r.places[h] == nil {
			continue
		}
		wg.Go(func() {
			err := r.host(ctx, h, work[h])
			if err != nil {
				errs[i] = &HostError{h.Name, err, r.secrets.Text(err.Error())}
			}
			if err != nil && ctx.Err() == nil {
				r.event(Event{Type: Failed, Host: h.Name, Message: err.Error()})
			}
		})
	}
	wg.Wait()
	kept()

	err := errors.Join(errs...)
	outcome := "done"
	switch {
	case interrupted.Err() != nil:
		outcome, err = "interrupted", errors.Join(context.Cause(interrupted), err)
	case err != nil:
		outcome = "failed"
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return r.outcome, errors.Join(err, store.FinishRun(finish, r.opt.Run.ID, outcome, time.Now()))
}

type run struct {
	plan    *plan.Plan
	store   *results.Store
	opt     Options
	secrets plain.Secrets              // of all that the run starts and asks
	tell    func(Event)                // the listener, if there is one
	note    func(results.Event)        // the store
	stop    context.CancelCauseFunc    // ends the work on all hosts
	places  map[*provision.Host]*place // where there is work

	mu      sync.Mutex
	outcome Outcome
	begun   int // cells that were begun, for "cell 3 of 12"
}

// runtime is how engines run on a host: Docker there, or the agent's processes.
type runtime interface {
	Start(ctx context.Context, ct provision.Container) (id string, err error)
	State(ctx context.Context, id string) (provision.State, error)
	Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error)
	Stop(ctx context.Context, id string, grace time.Duration) error
	List(ctx context.Context, labels map[string]string) ([]provision.Found, error)
	ReadFile(ctx context.Context, id, path string) (text []byte, written time.Time, err error)
}

// site is one host at work: its connection, its agent, and what it is.
type site struct {
	*run
	host    *provision.Host
	conn    *reach.Conn
	docker  *docker.Daemon
	agent   *agent.Client
	known   provision.Facts
	facts   json.RawMessage  // known, as it is stored
	proved  []string         // what was seen to get its GPUs, see proveGPUs
	changed bool             // its settings, see prepare
	earlier provision.Traces // of an earlier run, whose tear-down became ours

	claimed sync.Mutex
	claim   agent.Lease       // what is renewed
	files   map[string]string // what data sets read: path as the lab has it → path on the host
}

// runtime of an instance.
func (s *site) runtime(r provision.Runtime) runtime {
	if r == provision.Process {
		return agent.Processes{Client: s.agent}
	}
	return s.docker
}

// host does all the work of one host, and keeps it as long as others send from it.
func (r *run) host(ctx context.Context, h *provision.Host, deployments []*plan.Deployment) (err error) {
	here := r.places[h]
	opened, given := sync.OnceFunc(func() { close(here.opened) }), sync.OnceFunc(func() {
		for _, sender := range senders(deployments) {
			r.places[sender].borrowers.Done()
		}
	})
	defer given()
	defer opened()
	r.event(Event{Type: Step, Host: h.Name, Message: "connecting"})
	conn, err := reach.Dial(ctx, h, r.opt.SSH, r.opt.Log)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &site{run: r, host: h, conn: conn, docker: docker.New(conn, r.opt.Images), files: map[string]string{}}
	if usesDocker(deployments) {
		if _, err := s.docker.Version(ctx); err != nil {
			return err
		}
	}
	s.agent, err = agent.Start(ctx, conn, r.opt.Binaries, r.plan.Lab.Name, r.store.ID(), r.opt.Log)
	if err != nil {
		return err
	}
	defer s.agent.Close()
	s.docker.HideSecrets(s.agent.Binary())
	all := ctx
	ctx, release, err := s.lease(ctx, deployments)
	if err != nil {
		return err
	}
	defer func() {
		failed := release()
		if s.changed && failed == nil {
			s.event(Event{Type: Step, Host: h.Name, Message: "its settings are as they were"})
		}
		err = errors.Join(err, failed)
	}()

	for _, step := range []func() error{
		func() error { return s.sweep(ctx, deployments) },
		func() error { return s.restore(ctx) },
		func() error { return s.check(ctx, deployments) },
		func() error { return s.baseline(ctx) },
		func() error { return s.prepare(ctx, deployments) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	here.site, here.lease = s, ctx
	opened()
	defer func() {
		given() // before it waits for others, who may wait for it
		here.borrowers.Wait()
		if err == nil && all.Err() == nil { // nil as well, unless it was given up while others sent from it
			err = context.Cause(ctx)
		}
	}()
	for _, d := range deployments {
		done, err := s.together(ctx, d)
		if elsewhere := new(toldElsewhere); errors.As(err, &elsewhere) {
			s.unmeasured(d, elsewhere)
			continue
		} else if err != nil {
			return err
		}
		err = s.deployment(ctx, d)
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// unmeasured tells of a deployment whose cells are left to the next apply.
func (s *site) unmeasured(d *plan.Deployment, why error) {
	s.event(Event{Type: Failed, Host: s.host.Name, Engine: d.Engine.Label(), Message: fmt.Sprintf("%s: %v", d.Engine, why)})
}

// check holds the host against its block before anything is brought up: as it is when
// nobody else is at work there, and nothing of an earlier run is left.
func (s *site) check(ctx context.Context, deployments []*plan.Deployment) error {
	facts, err := look.Facts(ctx, s.conn, s.docker)
	if err != nil {
		return err
	}
	var findings []provision.Finding
	if !s.plan.Rehearsal {
		if findings, err = contract(ctx, s.conn, s.docker, s.plan.Lab.Name, &facts, keptOn(s.host, enginesOf(deployments))); err != nil {
			return err
		}
	}
	if s.facts, err = json.Marshal(facts); err != nil {
		return err
	}
	s.known = facts
	errs := []error{fmt.Errorf("%s: %w", s.host, ErrContract)}
	for _, f := range findings {
		switch {
		case f.Level == provision.Blocked:
			errs = append(errs, errors.New("  - "+sentence(f)))
		case f.Level == provision.Warning && s.host.GPUs.Count > 0:
			s.event(Event{Type: Warning, Host: s.host.Name, Message: sentence(f)})
		}
	}
	if len(errs) > 1 {
		return errors.Join(errs...)
	}
	if s.plan.Rehearsal || s.host.GPUs.Count == 0 {
		return nil
	}
	needed, err := needs(ctx, s.conn, s.docker, facts, enginesOf(deployments), s.opt)
	for _, f := range needed {
		if f.Level != provision.OK {
			s.event(Event{Type: Warning, Host: s.host.Name, Message: sentence(f)})
		}
	}
	return err
}

func usesDocker(deployments []*plan.Deployment) bool {
	for _, d := range deployments {
		for _, in := range d.Members {
			if in.Runtime == provision.Docker {
				return true
			}
		}
	}
	return false
}

// sweep removes what an earlier run of this lab left on the host.
func (s *site) sweep(ctx context.Context, deployments []*plan.Deployment) error {
	runtimes := []runtime{agent.Processes{Client: s.agent}}
	if usesDocker(deployments) || !s.plan.Rehearsal && hasDocker(ctx, s.docker) { // what ran there before may have been another lab's text
		runtimes = append(runtimes, s.docker)
	}
	for _, rt := range runtimes {
		if _, err := sweep(ctx, rt, s.plan.Lab.Name, func(f provision.Found) {
			s.earlier.Containers = append(s.earlier.Containers, f.ID)
			s.event(Event{Type: Step, Host: s.host.Name, Message: "removing " + f.Name + ", left by run " + f.Labels[plan.LabelRun]})
		}); err != nil {
			return err
		}
	}
	return nil
}

// sweep stops and removes everything of a lab, gracefully and side by side, and
// returns what it found.
func sweep(ctx context.Context, rt runtime, lab string, each func(provision.Found)) ([]provision.Found, error) {
	found, err := rt.List(ctx, map[string]string{plan.LabelLab: lab})
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	for i, f := range found {
		each(f)
		wg.Go(func() { errs[i] = rt.Stop(ctx, f.ID, engines.StopGrace) })
	}
	wg.Wait()
	return found, errors.Join(errs...)
}

// deployment measures the cells of one deployment. It starts the engine as often
// as the engine is lost; each start consumes a cell, so that it ends.
//
// The error is the host's: it cannot be used any more. An engine that does not
// come up is the deployment's own failure, kept with its cells.
func (s *site) deployment(ctx context.Context, d *plan.Deployment) error {
	row := results.Deployment{
		ID: d.ID, RunID: s.opt.Run.ID,
		Engine: d.Engine.Label(), Kind: d.Engine.Kind,
		Host: s.host.Name, GPUs: s.host.GPUs.String(), Model: engines.ServedModel(d.Engine),
		Image: d.Engine.Image, Identity: d.Identity, Facts: s.facts, Started: time.Now(),
	}
	s.compareFacts(d)
	if len(d.Members) > 0 { // else somebody else pays for it
		row.GPUCount, row.PricePerHour = gpusUsed(d.Engine), s.host.PricePerHour
	}
	for _, in := range d.Members {
		for _, w := range append(append([]provision.Text{}, in.Container.Entrypoint...), in.Container.Command...) {
			row.Command = append(row.Command, w.String())
		}
	}
	// Before the engine: loading a model takes long, and costs.
	todo := d.ToDo()
	err := s.placeAll(ctx, todo)
	switch {
	case err == nil:
		err = s.model(ctx, d, &row)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, new(*toldElsewhere)):
		s.unmeasured(d, err)
		return nil
	case !errors.As(err, new(*fs.PathError)): // it is the host that cannot be used
		return err
	}
	var unclean error
	if err == nil {
		unclean, err = s.build(ctx, d, &row)
	}
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), unclean)
	case err != nil:
		err = fmt.Errorf("%s: %w", d.Engine, err)
		s.event(Event{Type: Failed, Host: s.host.Name, Engine: row.Engine, Message: err.Error()})
		return errors.Join(s.giveUp(ctx, row, todo, err), unclean)
	case unclean != nil:
		return unclean
	}
	built := row.Phases
	if unclean, err := s.offline(ctx, d, &row, todo); err != nil || unclean != nil {
		return errors.Join(err, unclean)
	}
	todo = slices.DeleteFunc(todo, func(c *plan.Cell) bool { return c.Batch() != nil })
	for len(todo) > 0 {
		row.Phases = slices.Clone(built)
		consumed, down, err := s.up(ctx, d, &row, todo)
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), down)
		}
		if elsewhere := new(toldElsewhere); errors.As(err, &elsewhere) {
			s.unmeasured(d, elsewhere)
			return down
		}
		if err != nil { // it did not come up: nor would it for the next cell
			s.event(Event{Type: Failed, Host: s.host.Name, Engine: row.Engine, Message: err.Error()})
			if err := s.giveUp(ctx, row, todo[consumed:], err); err != nil {
				return errors.Join(err, down)
			}
			consumed = len(todo)
		}
		if down != nil {
			return down
		}
		todo = todo[consumed:]
	}
	return nil
}

func starting(compileCache string) string {
	if compileCache == "" {
		return "starting"
	}
	return "starting with a " + compileCache + " compile cache"
}

// gpusUsed is how many of its host's GPUs an engine uses: those that the lab gives
// it, or that its flags ask for; all where flags do not tell.
func gpusUsed(e *engines.Engine) int {
	switch {
	case e.Host == nil || e.Host.GPUs.Count == 0:
		return 0
	case len(e.Container.GPUIDs) > 0:
		return len(e.Container.GPUIDs)
	case e.Kind == engines.SGLang || e.Kind == engines.VLLM || e.Kind == engines.TRTLLM:
		return min(engines.GPUs(e), e.Host.GPUs.Count)
	}
	return e.Host.GPUs.Count
}

// giveUp keeps, for each cell that cannot be measured, why.
func (s *site) giveUp(ctx context.Context, row results.Deployment, cells []*plan.Cell, why error) error {
	if err := s.keepDeployment(ctx, row); err != nil {
		return err
	}
	for _, c := range cells {
		out := s.cellRow(row, c)
		out.Finished = out.Started
		out.Error = why.Error()
		what, _, _ := strings.Cut(why.Error(), "\n")
		if err := s.keep(ctx, row, out, nil, func(e Event) { // without a number: it was never begun
			e.Host, e.Engine, e.Benchmark, e.Cell, e.Axes, e.Message = s.host.Name, row.Engine, c.Benchmark, c.ID, c.Axes, what
			s.event(e)
		}); err != nil {
			return err
		}
	}
	return nil
}

// up starts the engine, measures cells until there are no more or the engine is
// lost, and takes it down. consumed counts the cells that are dealt with; err
// says why the engine did not come up; down, that it could not be taken down.
func (s *site) up(ctx context.Context, d *plan.Deployment, row *results.Deployment, todo []*plan.Cell) (consumed int, down, err error) {
	name := row.Engine
	var engine *instance // nil: somebody else runs it
	for _, in := range d.Members {
		rt, ct := s.runtime(in.Runtime), in.Container
		if in.Runtime == provision.Docker {
			if ct.Image, err = s.image(ctx, d, row); err != nil {
				return 0, nil, fmt.Errorf("%s: %w", d.Engine, err)
			}
		}
		if ct, row.CompileCache, err = s.compileCache(ctx, d, ct); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", d.Engine, err)
		}
		if err := s.conn.PortFree(ctx, ct.Port, s.docker.Name); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", d.Engine, err)
		}
		if err := s.willListen(ctx, ct.Port); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", d.Engine, err)
		}
		ct.Labels = maps.Clone(ct.Labels)
		ct.Labels[plan.LabelRun] = s.opt.Run.ID
		s.event(Event{Type: Step, Host: s.host.Name, Engine: name, Message: starting(row.CompileCache)})
		id, err := rt.Start(ctx, ct)
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", d.Engine, err)
		}
		defer func() {
			down = errors.Join(down, s.down(ctx, rt, id, name, ct))
			row.Stopped = time.Now()
			keeping, done := Beyond(ctx, storePatience)
			defer done()
			down = errors.Join(down, s.keepDeployment(keeping, *row))
		}()
		in.Container = ct
		engine = &instance{Member: in, rt: rt, id: id}
		row.Started = time.Now()
		now, err := s.ready(ctx, d, engine)
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", d.Engine, err)
		}
		row.Model, row.Phases, row.Listener = now.model, append(row.Phases, now.phases...), now.listener
		if in.Runtime == provision.Docker {
			found := maps.Clone(row.Versions)
			if found == nil {
				found = map[string]string{}
			}
			maps.Copy(found, s.versions(ctx, d, id))
			row.Versions = found
		}
	}
	if len(d.Members) == 0 {
		now, err := s.ready(ctx, d, nil)
		if err != nil {
			return 0, nil, fmt.Errorf("%s: %w", d.Engine, err)
		}
		row.Model = now.model
	}
	row.Ready = time.Since(row.Started).Seconds()
	row.Served = s.served(ctx, d)
	doubts := s.compareServed(d, row.Served)
	if err := s.keepDeployment(ctx, *row); err != nil {
		return 0, err, nil
	}
	serves := fmt.Sprintf("serves %s after %.1f s", row.Model, row.Ready)
	if l := row.Listener; l != nil && l.Proved {
		serves += "; " + l.By
	} else if l != nil && !s.plan.Rehearsal {
		s.event(Event{Type: Warning, Host: s.host.Name, Engine: name, Message: "the server is " + l.String()})
	}
	s.event(Event{Type: Ready, Host: s.host.Name, Engine: name, Message: serves, Listener: row.Listener})

	for i, c := range todo {
		lost, err := s.measure(ctx, d, *row, c, doubts, engine)
		if elsewhere := new(toldElsewhere); errors.As(err, &elsewhere) {
			return i, nil, elsewhere
		}
		if err != nil {
			return i, err, nil
		}
		if ctx.Err() != nil {
			return i, nil, nil
		}
		if lost != nil {
			s.event(Event{Type: Warning, Host: s.host.Name, Engine: name, Message: "the engine is lost: " + lost.Error()})
			return i + 1, nil, nil
		}
	}
	return len(todo), nil, nil
}
