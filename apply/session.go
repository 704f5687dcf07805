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
	"hclbench/plan"
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
	earlier provision.Traces  // of an earlier run, whose tear-down became ours
	changed bool              // its settings, see [session.settings]
	files   map[string]string // what data sets read: path as the lab has it → path on the host
	proved  []string          // what was seen to get its GPUs, see [session.proveGPUs]
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
}

// open connects to a place, takes its lease and makes it ready for engines. A session has
// to be closed, also one of which only a part could be opened.
func open(ctx context.Context, h *provision.Host, w work, opt Options, tell teller) (*session, error) {
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
	s.agent, err = agent.Start(ctx, s.conn, opt.Binaries, w.claim, opt.Log)
	if err != nil {
		return s, err
	}
	s.docker.HideSecrets(s.agent.Binary())
	if err := s.claim(ctx); err != nil {
		return s, err
	}
	steps := []func(context.Context) error{s.sweep, s.check}
	if w.claim.Reserve {
		steps = []func(context.Context) error{s.sweep, s.restore, s.check, s.baseline, s.settings}
	}
	for _, step := range steps {
		if err := step(s.lease.held); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *session) close() (err error) {
	if s.lease != nil {
		err = s.lease.give()
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
		ctx, done := context.WithTimeout(context.Background(), leaveWithin)
		defer done()
		err = errors.Join(err, s.leave(ctx))
	}
	return err
}

func (s *session) claim(ctx context.Context) error {
	l := &lease{host: s.host, agent: s.agent, tell: s.tell, claim: s.work.claim, stop: func() {}}
	l.held, l.lose = context.WithCancelCause(ctx)
	s.lease = l
	s.agent.Lost = func(held *agent.HeldError) { l.lose(held) }
	var err error
	if s.work.docker {
		if _, l.claim.Docker, err = s.docker.Access(ctx); err != nil {
			return err
		}
	}
	if s.earlier, err = l.take(l.held, s.opt.Wait, s.work.shared); err != nil {
		return err
	}
	l.begin(ctx)
	if s.pod != nil {
		s.watching.Go(func() { s.watchPod(l.held) })
	}
	return nil
}

// runtime is how engines run on a place: Docker there, or the agent's processes.
func (s *session) runtime(r provision.Runtime) runtime {
	if r == provision.Process {
		return agent.Processes{Client: s.agent}
	}
	return s.docker
}

func (s *session) sweep(ctx context.Context) error {
	runtimes := []runtime{agent.Processes{Client: s.agent}}
	if s.work.docker || !s.work.rehearsal && hasDocker(ctx, s.docker) { // what ran there may have been another lab's text
		runtimes = append(runtimes, s.docker)
	}
	for _, rt := range runtimes {
		if _, err := sweep(ctx, rt, s.work.claim.Lab, func(f provision.Found) {
			s.earlier.Containers = append(s.earlier.Containers, f.ID)
			s.tell.say(Step, "removing %s, left by run %s", f.Name, f.Labels[plan.LabelRun])
		}); err != nil {
			return err
		}
	}
	return nil
}

// restore has the engines of the run whose lease has become ours seen to be gone, and its
// settings put back. Only then can be said what the place is.
func (s *session) restore(ctx context.Context) error {
	if len(s.earlier.Containers) > 0 || len(s.earlier.Before.Memory) > 0 {
		if _, err := look.ProveGone(ctx, s.conn, s.earlier, s.opt.Release); err != nil {
			return errors.Join(err, agent.MarkUnclean(ctx, s.conn, s.lease.current(), s.earlier, err))
		}
	}
	if err := s.agent.PutBack(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrContract, err)
	}
	return nil
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

// baseline notes what the GPUs are in use for, for the proof at the end.
func (s *session) baseline(ctx context.Context) error {
	if err := s.stillUnclean(ctx); err != nil {
		return err
	}
	use, err := look.GPUUse(ctx, s.conn)
	if err != nil {
		return err
	}
	for _, p := range use.Problems {
		s.tell.say(Warning, "it cannot be proved that its GPUs are free again afterwards: %s", p)
	}
	for _, p := range use.Processes {
		s.tell.say(Warning, "somebody else uses its GPUs: %s", p)
	}
	return s.lease.note(ctx, func(t *provision.Traces) { t.Before = use })
}

// stillUnclean forgets what an earlier run could not clean, if it is gone by now.
func (s *session) stillUnclean(ctx context.Context) error {
	u, err := agent.ReadUnclean(ctx, s.conn)
	if err != nil || u == nil {
		return err
	}
	if _, err := look.ProveGone(ctx, s.conn, u.Traces, 0); err != nil {
		at := u.Time.Local().Format(time.DateTime)
		return fmt.Errorf("run %s of lab %s (%s, %s) has left something: %w", u.Run, u.Lab, u.Holder, at, err)
	}
	s.tell.say(Step, "what run %s had left there is gone", u.Run)
	return agent.ForgetUnclean(ctx, s.conn)
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

// willListen has the agent know of ports that it may have to see closed.
func (s *session) willListen(ctx context.Context, ports []int) error {
	return s.lease.note(ctx, func(t *provision.Traces) {
		t.Ports = slices.Compact(slices.Sorted(slices.Values(slices.Concat(t.Ports, ports))))
	})
}

func (s *session) factsText() json.RawMessage {
	text, err := json.Marshal(s.facts)
	if err != nil {
		panic(fmt.Sprintf("marshal facts: %v. This is a bug in hcl.", err))
	}
	return text
}
