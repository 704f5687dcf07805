package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/look"
)

// waitPoll is how often a host that somebody else is at work on is asked again.
const waitPoll = 2 * time.Second

// errOverrun ends a run that has lasted as long as its lab allows.
var errOverrun = errors.New("max_duration is over")

// lateRenewal is how long a renewal may take that begins when the lease is over, or
// all but over: a caller that was suspended has to find out what has become of it.
const lateRenewal = 20 * time.Second

// outOfReach ends the work on a host that was not heard of for as long as its
// lease: it has cleaned itself, and there is nothing to be taken down.
type outOfReach struct {
	host *provision.Host
	last time.Time
	err  error
}

func (e *outOfReach) Error() string {
	return fmt.Sprintf("%s: out of reach since %s, for longer than its lease; it cleans itself, and `hcl status` shows it when it is back: %v",
		e.host, e.last.Local().Format(time.TimeOnly), e.err)
}

func (e *outOfReach) Unwrap() []error { return []error{provision.ErrUnreachable, e.err} }

// lease claims the host's agent and keeps the claim until release is called.
// The returned context ends when somebody else has taken the claim over, or the
// lab's time is up.
func (s *site) lease(ctx context.Context, deployments []*plan.Deployment) (context.Context, func() error, error) {
	lab := s.plan.Lab
	s.claim = agent.Lease{
		Lab:         lab.Name,
		Run:         s.opt.Run.ID,
		Store:       s.store.ID(),
		Holder:      s.opt.Holder,
		TTL:         load.Duration(lab.Lease),
		MaxDuration: load.Duration(lab.MaxDuration),
		Reserve:     !s.plan.Rehearsal && (real(deployments) || s.sendsToReal()),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.agent.Lost = func(held *agent.HeldError) { cancel(held) }
	if err := s.take(ctx, deployments); err != nil {
		cancel(nil)
		return nil, nil, errors.Join(err, s.release(ctx)) // an agent that nobody has claimed is not left there
	}
	// Renewing outlives an interrupt: taking down takes its time too.
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var over <-chan time.Time
	if lab.MaxDuration > 0 {
		over = time.After(lab.MaxDuration)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(max(min(lab.Lease/5, 30*time.Second), time.Millisecond))
		defer tick.Stop()
		last := time.Now()
		for lost := false; ; {
			select {
			case <-renewing.Done():
				return
			case <-over: // the agent thinks so too, and must not be brought up again
				cancel(errOverrun)
				return
			case <-tick.C:
			}
			began := time.Now()
			within := lab.Lease - began.Sub(last)
			if within < lab.Lease/5 {
				within = lateRenewal
			}
			err := s.renew(renewing, within)
			if err == nil {
				last = time.Now()
			}
			suspended := time.Since(began) > within+time.Second // meanwhile: it was no fair try
			switch {
			case errors.As(err, new(*agent.HeldError)):
				return // the work has ended with it, see Lost
			case err != nil && time.Since(last) > lab.Lease && !suspended && renewing.Err() == nil:
				cancel(&outOfReach{s.host, last, err})
				return
			case err != nil && !lost && renewing.Err() == nil:
				lost = true
				s.event(Event{Type: Warning, Host: s.host.Name, Message: fmt.Sprintf("cannot renew the lease; the host cleans itself %s after the last renewal: %v", lab.Lease, err)})
			case err == nil && lost:
				lost = false
				s.event(Event{Type: Step, Host: s.host.Name, Message: "the lease is renewed again"})
			}
		}
	})
	return ctx, func() error {
		stop()
		wg.Wait()
		defer cancel(nil)
		if errors.As(context.Cause(ctx), new(*outOfReach)) {
			return nil
		}
		return s.release(ctx)
	}, nil
}

// release ends the host's agent, unless it is at work for somebody else.
func (s *site) release(ctx context.Context) error {
	down, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	err := s.agent.Release(down)
	if errors.As(err, new(*agent.HeldError)) {
		return nil
	}
	return err
}

// real reports whether an engine runs for which a machine has to be reserved: a
// simulated one disturbs nobody.
func real(deployments []*plan.Deployment) bool {
	for _, d := range deployments {
		if len(d.Members) > 0 && d.Engine.Kind != engines.Sim {
			return true
		}
	}
	return false
}

// sendsToReal is [real] for the engines elsewhere that the host sends load to.
func (s *site) sendsToReal() bool {
	return real(slices.DeleteFunc(slices.Clone(s.plan.Deployments), func(d *plan.Deployment) bool {
		return !slices.Contains(d.Senders(), s.host)
	}))
}

// take claims the host, and waits for it when somebody else is at work there: as
// long as was asked for, or, when it is this very run under the name of another
// host block, to the end of that.
func (s *site) take(ctx context.Context, deployments []*plan.Deployment) (err error) {
	if usesDocker(deployments) {
		if _, s.claim.Docker, err = s.docker.Access(ctx); err != nil {
			return err
		}
	}
	end := time.Now().Add(s.opt.Wait)
	for told := false; ; {
		s.earlier, err = s.agent.Lease(ctx, s.claim)
		held := new(agent.HeldError)
		if !errors.As(err, &held) {
			return err
		}
		own := held.Lease.Run == s.claim.Run
		if own && s.places[s.host].shared {
			return fmt.Errorf("%s is the same machine as another host of this lab, and load would be sent between the two: leave `from` out", s.host)
		}
		if !own && time.Now().After(end) {
			return err
		}
		if !told {
			told = true
			message := "waiting for " + held.Lease.Holder
			if held.Lease.Lab != "" {
				message += fmt.Sprintf(", who is at work there for lab %s until %s unless renewed", held.Lease.Lab, held.Lease.Expires.Local().Format(time.TimeOnly))
			}
			if own {
				message = "waiting: it is the same machine as another host of this lab, which is at work; two measurements on one machine measure each other"
			}
			s.event(Event{Type: Step, Host: s.host.Name, Message: message})
		}
		select {
		case <-time.After(waitPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// renew renews the lease with what there is to be cleaned up now.
func (s *site) renew(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s.claimed.Lock()
	claim := s.claim
	s.claimed.Unlock()
	_, err := s.agent.Lease(ctx, claim)
	return err
}

// restore makes the host what it was before the run whose lease has become ours: its
// engines are seen to be gone, and the settings that it had changed are put back. Only
// then can be said what the host is.
func (s *site) restore(ctx context.Context) error {
	if !s.claim.Reserve {
		return nil
	}
	if len(s.earlier.Containers) > 0 || len(s.earlier.Before.Memory) > 0 {
		if _, err := look.ProveGone(ctx, s.conn, s.earlier, s.opt.Release); err != nil {
			return errors.Join(err, agent.MarkUnclean(ctx, s.conn, s.claim, s.earlier, err))
		}
	}
	if err := s.agent.PutBack(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrContract, err)
	}
	return nil
}

// baseline notes what the GPUs are in use for before anything of ours runs, for
// the proof at the end, and has the agent know it too.
func (s *site) baseline(ctx context.Context) error {
	if !s.claim.Reserve {
		return nil
	}
	if err := s.stillUnclean(ctx); err != nil {
		return err
	}
	use, err := look.GPUUse(ctx, s.conn)
	if err != nil {
		return err
	}
	for _, p := range use.Problems {
		s.event(Event{Type: Warning, Host: s.host.Name, Message: "whether its GPUs are free again afterwards cannot be proved: " + p})
	}
	for _, p := range use.Processes {
		s.event(Event{Type: Warning, Host: s.host.Name, Message: "somebody else uses its GPUs: " + p.String()})
	}
	s.claimed.Lock()
	s.claim.Traces.Before = use
	s.claimed.Unlock()
	return s.renew(ctx, s.plan.Lab.Lease)
}

// willListen has the agent know, before anything listens there, of a port that it
// may have to see closed.
func (s *site) willListen(ctx context.Context, port int) error {
	s.claimed.Lock()
	if port != 0 && !slices.Contains(s.claim.Traces.Ports, port) {
		s.claim.Traces.Ports = append(slices.Clone(s.claim.Traces.Ports), port)
	}
	s.claimed.Unlock()
	return s.renew(ctx, s.plan.Lab.Lease)
}

// stillUnclean looks whether what an earlier run could not clean is there still,
// and forgets it when it is gone.
func (s *site) stillUnclean(ctx context.Context) error {
	u, err := agent.ReadUnclean(ctx, s.conn)
	if err != nil || u == nil {
		return err
	}
	if _, err := look.ProveGone(ctx, s.conn, u.Traces, 0); err != nil {
		return fmt.Errorf("run %s of lab %s (%s, %s) has left something: %w", u.Run, u.Lab, u.Holder, u.Time.Local().Format(time.DateTime), err)
	}
	s.event(Event{Type: Step, Host: s.host.Name, Message: "what run " + u.Run + " had left there is gone"})
	return agent.ForgetUnclean(ctx, s.conn)
}

// down stops an instance and proves that it is gone: the runtime has removed it,
// nothing listens on its port any more, and the GPUs are as they were. Otherwise
// the host is unclean, which is noted there for whoever comes next.
func (s *site) down(ctx context.Context, rt runtime, id, engine string, ct provision.Container) error {
	if errors.As(context.Cause(ctx), new(*outOfReach)) {
		return nil
	}
	if errors.As(context.Cause(ctx), new(*agent.HeldError)) {
		return s.withdraw(ctx, rt, id, ct)
	}
	s.event(Event{Type: Step, Host: s.host.Name, Engine: engine, Message: "stopping"})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ct.StopGrace+s.opt.Release+logTime+time.Minute)
	defer cancel()
	traces := provision.Traces{Before: s.claim.Traces.Before, Containers: []string{id}, Mark: s.agent.Mark()}
	if ct.Port != 0 {
		traces.Ports = []int{ct.Port}
	}
	s.keepLog(ctx, rt, id, engine)
	err := rt.Stop(ctx, id, ct.StopGrace)
	if err != nil {
		err = &provision.UncleanError{Host: s.host, Left: []string{fmt.Sprintf("%s, which could not be taken down: %v", ct.Name, err)}}
	} else {
		var others []provision.GPUProcess
		others, err = look.ProveGone(ctx, s.conn, traces, s.opt.Release)
		for _, p := range others {
			s.event(Event{Type: Warning, Host: s.host.Name, Engine: engine, Message: "somebody else uses its GPUs since it was measured: " + p.String()})
		}
	}
	if err != nil {
		return errors.Join(err, agent.MarkUnclean(ctx, s.conn, s.claim, traces, err))
	}
	proved := "stopped, removed, port closed"
	if len(traces.Before.Memory) > 0 {
		proved += ", GPU memory given back"
	}
	s.event(Event{Type: Down, Host: s.host.Name, Engine: engine, Message: proved})
	return nil
}

// withdraw removes an instance from a host that is somebody else's by now. What can be
// seen there of ports and GPUs is theirs, and says nothing of ours.
func (s *site) withdraw(ctx context.Context, rt runtime, id string, ct provision.Container) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ct.StopGrace+time.Minute)
	defer cancel()
	err := rt.Stop(ctx, id, ct.StopGrace)
	if errors.As(err, new(*agent.HeldError)) { // a process is the agent's, and so is theirs of the same name
		return nil
	}
	return err
}
