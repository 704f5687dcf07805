package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/provision"
	"hclbench/provision/kube"
	"hclbench/provision/look"
)

// sessions are those of the hosts that a deployment needs.
type sessions map[*provision.Host]*session

// of are the sessions of hosts, in their order.
func (at sessions) of(hosts []*provision.Host) []*session {
	all := make([]*session, len(hosts))
	for i, h := range hosts {
		all[i] = at[h]
	}
	return all
}

// session is one place at work: its connection, its agent, the lease, and what it is.
// It knows no plan.
type session struct {
	work work
	host *provision.Host
	opt  Options
	tell teller
	reached
	root     *kube.Root                  // of a cluster: what the pods of the run have in common
	pod      *kube.Pod                   // nil: a machine, or the cluster itself
	watching sync.WaitGroup              // of the pod
	leave    func(context.Context) error // undoes that a cluster has made room; nil: there is nothing to undo
	agent    *agent.Client
	lease    *lease

	facts   provision.Facts
	claimed string // the claim that it was made ready for, see [agent.Client.Claim]
	changed bool   // its settings, see [session.settings]
	watched bool   // what its GPUs are in use for is known

	mu   sync.Mutex
	down []string // what could not be taken down: the agent tries again at the end of the claim

	files  map[string]string // what data sets read: path as the lab has it → path on the host
	proved []string          // what was seen to get its GPUs, see [session.proveGPUs]
}

type work struct {
	claim     agent.Lease
	engines   []*engines.Engine // that will run there
	docker    bool              // in containers, some of them
	shared    bool              // the run needs the place together with others
	root      *kube.Root        // of a pod: what it is rented from
	pod       kube.PodSpec      // and what it is like
	pods      []kube.PodSpec    // of a cluster: those that may come
	rehearsal bool
	turn      *turn // when the place may be taken
}

// open connects to a place, takes its lease and makes it ready for engines. A session has
// to be closed, also one of which only a part could be opened.
func open(ctx context.Context, h *provision.Host, w work, opt Options, tell teller) (*session, error) {
	defer w.turn.over()
	s := &session{work: w, host: h, opt: opt, tell: tell, files: map[string]string{}}
	tell.say(Step, "connecting")
	err := s.arrive(ctx)
	if err != nil {
		return s, err
	}
	if w.docker {
		if _, err := s.docker.Version(ctx); err != nil {
			return s, err
		}
	}
	if err := s.claim(ctx); err != nil {
		return s, err
	}
	if s.root != nil {
		if err := s.root.Keep(s.lease.held); err != nil {
			return s, err
		}
	}
	return s, s.ready(s.lease.held)
}

// ready makes the place ready for engines: what earlier runs have left there is ended, it is held against its
// block, and its settings are set.
func (s *session) ready(ctx context.Context) error {
	claimed := s.agent.Claim()
	found, err := s.agent.Begin(ctx)
	for _, f := range found.Removed {
		s.tell.say(Step, "removed %s, left by run %s", f.Name, f.Labels[provision.LabelRun])
	}
	if errors.Is(err, provision.ErrSettings) {
		err = fmt.Errorf("%w: %w", ErrContract, err)
	}
	if err != nil {
		return err
	}
	if found.Was != nil {
		s.tell.say(Step, "what run %s had left there is gone", found.Was.Run)
	}
	s.watched = len(found.Use.Memory) > 0
	for _, p := range found.Use.Problems {
		s.tell.say(Warning, "it cannot be proved that its GPUs are free again afterwards: %s", p)
	}
	for _, p := range found.Use.Processes {
		s.tell.say(Warning, "somebody else uses its GPUs: %s", p)
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if s.work.claim.Reserve {
		if err := s.settings(ctx); err != nil {
			return err
		}
	}
	s.claimed = claimed
	return nil
}

// renew makes a place ready again that has cleaned itself since, as it did not hear of us, or was restarted.
func (s *session) renew(ctx context.Context) error {
	if err := s.lease.renew(ctx, time.Duration(s.work.claim.TTL)); err != nil || !s.anew() {
		return err
	}
	s.tell.say(Warning, "it has cleaned itself or was restarted since: it is made ready again")
	return s.ready(ctx)
}

// anew reports whether what was set and checked at the place is no more.
func (s *session) anew() bool { return s.agent.Claim() != s.claimed }

func (s *session) close() (err error) {
	if s.lease != nil {
		err = s.lease.give(s.down)
		s.watching.Wait()
	}
	if s.changed && err == nil {
		s.tell.say(Step, "its settings are as they were")
	}
	if s.agent != nil {
		s.agent.Close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	if s.leave != nil {
		err = errors.Join(err, s.leave(context.Background()))
	}
	return err
}

func (s *session) claim(ctx context.Context) error {
	l := &lease{host: s.host, tell: s.tell, claim: s.work.claim, stop: func() {}}
	l.held, l.lose = context.WithCancelCause(ctx)
	var err error
	if s.work.docker {
		if _, l.claim.Docker, err = s.docker.Access(ctx); err != nil {
			return err
		}
	}
	until := time.Now().Add(s.opt.Wait)
	if err := s.work.turn.wait(ctx, s.conn.Machine()); err != nil {
		return err
	}
	err = l.take(l.held, until, s.work.shared, func() (err error) {
		if s.agent != nil {
			return nil
		}
		if s.agent, err = agent.Start(ctx, s.conn, s.opt.Binaries, s.work.claim, s.opt.Log); err == nil {
			l.agent, s.agent.Lost = s.agent, func(held *agent.HeldError) { l.lose(held) }
		}
		return err
	})
	if l.agent != nil {
		s.lease = l
	}
	s.work.turn.over()
	if err != nil {
		return err
	}
	l.begin(ctx)
	if s.pod != nil {
		s.watching.Go(func() { s.watchPod(l.held) })
	}
	return nil
}

// runtime is how engines run on a place: in containers or as processes, by the hands of the agent.
func (s *session) runtime(r provision.Runtime) runtime {
	if r == provision.Process {
		return agent.Processes{Client: s.agent}
	}
	return agent.Containers{Client: s.agent, Daemon: s.docker}
}

// check holds the place against its block, before anything is started.
func (s *session) check(ctx context.Context) (err error) {
	if s.facts, err = look.Facts(ctx, s.conn, s.docker); err != nil || s.work.rehearsal {
		return err
	}
	if s.pod != nil {
		s.facts.Hostname = s.pod.Node() // the machine: each start has a pod of another name
	}
	findings, err := s.checker().contract(ctx, &s.facts)
	if s.host.GPUs.Count == 0 { // which nothing is measured on
		findings = slices.DeleteFunc(findings, func(f provision.Finding) bool { return f.Level == provision.Warning })
	}
	if err = errors.Join(err, s.meets(findings)); err != nil {
		return err
	}
	if s.host.GPUs.Count == 0 {
		return nil
	}
	needed, err := s.checker().needs(ctx, s.facts)
	for _, f := range needed {
		if f.Level != provision.OK {
			s.tell.say(Warning, "%s", sentence(f))
		}
	}
	return err
}

func (s *session) checker() *checker {
	return newChecker(s.reached, s.work.claim.Lab, s.work.engines, s.opt.Hub)
}

// settings has the agent set what the host's block wants, until the lease ends, however it ends.
// What the place is like then is what is kept with the results.
func (s *session) settings(ctx context.Context) error {
	changes, err := s.agent.Prepare(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrContract, err)
	}
	if len(changes) == 0 {
		return nil
	}
	s.changed = true
	for _, c := range changes {
		s.tell.say(Step, "set %s, until the end", c)
	}
	now, err := look.Condition(ctx, s.conn, s.docker, s.checker().keptOn())
	if err == nil {
		s.facts.See(now, changes...)
	}
	return err
}

// place brings files of the lab to the place, each once. local says where one lies here.
func (s *session) place(ctx context.Context, files []string, local func(string) string) error {
	for _, file := range files {
		if s.files[file] != "" {
			continue
		}
		s.tell.say(Step, "bringing %s to the host", file)
		remote, err := agent.Place(ctx, s.conn, local(file))
		if err != nil {
			return err
		}
		s.files[file] = remote
	}
	return nil
}

// path of the place, which may begin with its home.
func (s *session) path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return path.Join(s.conn.Home(), rest)
	}
	return p
}

func (s *session) factsText() json.RawMessage {
	text, err := json.Marshal(s.facts)
	if err != nil {
		panic(fmt.Sprintf("marshal facts: %v. This is a bug in hcl.", err))
	}
	return text
}
