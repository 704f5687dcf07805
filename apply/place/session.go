package place

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/provision/kube"
	"hclbench/provision/look"
	"hclbench/provision/rent"
)

// Work is what a place is opened for.
type Work struct {
	Claim     agent.Lease
	Engines   []*engines.Engine // that will run there
	Docker    bool              // in containers, some of them
	MaxMoney  float64           // USD that the lab may have to pay for what it rents; 0: no limit
	Shared    bool              // the run needs the place together with others
	Root      *kube.Root        // of a pod: what it is rented from
	Pod       kube.PodSpec      // and what it is like
	Pods      []kube.PodSpec    // of a cluster: those that may come
	Rehearsal bool
	Turn      *Turn // when the place may be taken
}

// Session is one place at work: its connection, its agent, the lease, and what it is.
type Session struct {
	Reached
	Host  *provision.Host
	Held  context.Context // ends when the claim is lost, or the lab's time is up, and says why; nil: it was never claimed
	Agent *agent.Client
	Facts provision.Facts
	Files map[string]string // what data sets read: path as the lab has it → path on the host
	Root  *kube.Root        // of a cluster, and of a pod there: what the pods of the run have in common
	Pod   *kube.Pod         // nil: a machine, or the cluster itself

	work    Work
	opt     Options
	tell    Tell
	lease   *lease
	leave   func(context.Context) error // undoes that a cluster has made room; nil: there is nothing to undo
	rental  *rent.Rental                // of a rented box; nil: it is none
	lost    func(context.Context) error // of a rented box: an error if its provider says that it runs no more
	until   time.Time                   // of a rented box: when the work there has to end
	unwatch func()                      // ends the watch of the pod, or of the box; nil: there is none
	claimed string                      // the claim that it was made ready for, see [agent.Client.Claim]
	changed bool                        // its settings, see [Session.settings]
	watched bool                        // what its GPUs are in use for is known
	proved  []string                    // what was seen to get its GPUs, see [Session.ProveGPUs]

	mu   sync.Mutex
	down []string // what could not be taken down: the agent tries again at the end of the claim
}

func (s *Session) say(kind, format string, args ...any) { s.tell.say(s.Host, kind, format, args...) }

// Open connects to a place, takes its lease and makes it ready for engines. A session has
// to be closed, also one of which only a part could be opened.
func Open(ctx context.Context, h *provision.Host, w Work, opt Options, tell Tell) (*Session, error) {
	defer w.Turn.over()
	s := &Session{work: w, Host: h, opt: opt.Filled(), tell: tell, Root: w.Root, Files: map[string]string{}}
	s.say(Step, "connecting")
	err := s.arrive(ctx)
	if err != nil {
		return s, err
	}
	if w.Docker {
		if _, err := s.Docker.Version(ctx); err != nil {
			return s, err
		}
	}
	if err := s.claim(ctx); err != nil {
		return s, err
	}
	if s.Root != nil && s.Root != w.Root {
		if err := s.Root.Keep(s.Held); err != nil {
			return s, err
		}
	}
	if err := s.ready(s.Held); err != nil || s.rental == nil {
		return s, err
	}
	s.rental.Last().Ready = time.Now()
	return s, s.opt.Rent.Note(s.rental)
}

// arrive reaches the place. A pod comes to be before.
func (s *Session) arrive(ctx context.Context) (err error) {
	switch {
	case s.Host.Rent != nil:
		return s.rentBox(ctx)
	case s.Host.Cluster == nil:
		s.Reached, err = dial(ctx, s.Host, s.opt)
		return err
	case s.work.Root == nil:
		return s.beginRoot(ctx)
	}
	s.Pod, err = s.work.Root.Pod(ctx, s.work.Pod, func(what string) { s.say(Step, "%s", what) })
	if err != nil {
		return err
	}
	s.leave = s.Pod.Delete
	s.Reached, err = enter(ctx, s.Host, s.Pod, s.opt)
	return err
}

// beginRoot makes the root of the run in a cluster, when no other run of the lab is at work there.
func (s *Session) beginRoot(ctx context.Context) error {
	client, err := kube.Open(ctx, s.Host.Cluster, func(what string) { s.say(Waiting, "%s", what) })
	if err != nil {
		return err
	}
	s.leave = func(context.Context) error { return client.Close() }
	if err := s.takeOver(ctx, client); err != nil {
		return err
	}
	run := kube.RunOf{
		Lab: s.work.Claim.Lab, Run: s.work.Claim.Run, Holder: s.work.Claim.Holder, Store: s.work.Claim.Store,
		Lease: time.Duration(s.work.Claim.TTL), Deadline: Deadline(time.Duration(s.work.Claim.MaxDuration)),
	}
	if err := client.MakeNamespace(ctx, run); err != nil {
		return err
	}
	s.leave = func(ctx context.Context) error { return errors.Join(client.LeaveNamespace(ctx, run), client.Close()) }
	findings, err := client.Check(ctx, s.work.Pods)
	if err = errors.Join(err, s.meets(findings)); err != nil {
		return err
	}
	s.Root, err = client.Begin(ctx, run, func(what string) { s.say(Step, "%s", what) })
	if err != nil {
		return err
	}
	s.leave = func(ctx context.Context) error {
		return errors.Join(s.Root.End(ctx), client.LeaveNamespace(ctx, run), client.Close())
	}
	s.Pod = s.Root.Self()
	s.Reached, err = enter(ctx, s.Host, s.Pod, s.opt)
	return err
}

const sameSpace = "another cluster block of this lab makes its pods in the same namespace: give each a namespace of its own"

// takeOver ends what earlier runs of the lab have left in the cluster, when nobody is at work there: it
// waits for that as for a host.
func (s *Session) takeOver(ctx context.Context, client *kube.Client) error {
	end := time.Now().Add(s.opt.Wait)
	for told := false; ; told = true {
		err := s.takeOverNow(ctx, client)
		held, is := errors.AsType[*agent.HeldError](err)
		if !is || time.Now().After(end) {
			return err
		}
		if !told {
			s.say(Step, "%s", waitsFor(held.Lease, false))
		}
		if !flow.Pause(ctx, waitPoll) {
			return context.Cause(ctx)
		}
	}
}

func (s *Session) takeOverNow(ctx context.Context, client *kube.Client) error {
	left, err := client.Find(ctx, s.work.Claim.Lab)
	if err != nil {
		return err
	}
	for _, root := range left {
		if root.Run == s.work.Claim.Run {
			return fmt.Errorf("%s: "+sameSpace, s.Host)
		}
		ours, err := vacant(ctx, root, s.Host, s.work.Claim.Store, s.opt)
		if err != nil {
			return err
		}
		if !ours {
			s.say(Warning, leftByOther, s.Host, root.Run, root.Holder)
			continue
		}
		s.say(Step, "removing what run %s left there", root.Run)
		if err := root.End(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) claim(ctx context.Context) error {
	if !s.until.IsZero() {
		ctx, s.unwatch = context.WithDeadlineCause(ctx, s.until, errHardEnd)
	}
	l := &lease{host: s.Host, tell: s.tell, claim: s.work.Claim, stop: func() {}}
	l.held, l.lose = context.WithCancelCause(ctx)
	if s.rental != nil && s.rental.OffAfter > 0 {
		l.claim.PowerOff, l.hard = &agent.PowerOff{After: load.Duration(s.rental.OffAfter)}, s.rental.Until
	}
	var err error
	if s.work.Docker {
		if _, l.claim.Docker, err = s.Docker.Access(ctx); err != nil {
			return err
		}
	}
	until := time.Now().Add(s.opt.Wait)
	if err := s.work.Turn.wait(ctx, s.Conn.Machine()); err != nil {
		return err
	}
	err = l.take(l.held, until, s.work.Shared, func() (err error) {
		if s.Agent != nil {
			return nil
		}
		if s.Agent, err = agent.Start(ctx, s.Conn, s.opt.Binaries, s.work.Claim, s.opt.Log); err == nil {
			l.agent, s.Agent.Lost = s.Agent, func(held *agent.HeldError) { l.lose(held) }
		}
		return err
	})
	if l.agent != nil {
		s.lease, s.Held = l, l.held
	}
	s.work.Turn.over()
	if err != nil {
		return err
	}
	if why := s.Agent.StaysOn(); why != "" {
		s.say(Warning, "it cannot shut itself down when it is not heard of: %s", why)
	}
	// Renewing outlives an interrupt: taking down takes its time too.
	l.stop = flow.Beside(context.WithoutCancel(ctx), l.keepRenewing)
	switch {
	case s.Pod != nil:
		s.unwatch = flow.Beside(l.held, s.watchPod)
	case s.lost != nil:
		unwatch, end := flow.Beside(l.held, s.watchBox), s.unwatch
		s.unwatch = func() {
			unwatch()
			end()
		}
	}
	return nil
}

// watchPod ends the lease of a pod that is lost: nobody else would tell before the lease runs out.
func (s *Session) watchPod(ctx context.Context) {
	st, err := s.Pod.Went(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = provision.Fail(s.Host, provision.ErrPodLost, "its pod has ended: %s", st.Exit(s.Host))
	}
	s.lease.lose(&placeLost{err})
}

// ready makes the place ready for engines: what earlier runs have left there is ended, it is held against its
// block, and its settings are set.
func (s *Session) ready(ctx context.Context) error {
	claimed := s.Agent.Claim()
	found, err := s.Agent.Begin(ctx)
	for _, f := range found.Removed {
		s.say(Step, "removed %s, left by run %s", f.Name, f.Labels[provision.LabelRun])
	}
	if errors.Is(err, provision.ErrSettings) {
		err = fmt.Errorf("%w: %w", ErrContract, err)
	}
	if err != nil {
		return err
	}
	if found.Was != nil {
		s.say(Step, "what run %s had left there is gone", found.Was.Run)
	}
	s.watched = len(found.Use.Memory) > 0
	for _, p := range found.Use.Problems {
		s.say(Warning, "it cannot be proved that its GPUs are free again afterwards: %s", p)
	}
	for _, p := range found.Use.Processes {
		s.say(Warning, "somebody else uses its GPUs: %s", p)
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if s.work.Claim.Reserve {
		if err := s.settings(ctx); err != nil {
			return err
		}
	}
	s.claimed = claimed
	return nil
}

// ReadyAgain makes a place ready again that has cleaned itself since, as it did not hear of us, or was restarted.
func (s *Session) ReadyAgain(ctx context.Context) error {
	if err := s.lease.renew(ctx, time.Duration(s.work.Claim.TTL)); err != nil || !s.Anew() {
		return err
	}
	s.say(Warning, "it has cleaned itself or was restarted since: it is made ready again")
	return s.ready(ctx)
}

// Anew reports whether what was set and checked at the place is no more.
func (s *Session) Anew() bool { return s.Agent.Claim() != s.claimed }

// check holds the place against its block, before anything is started.
func (s *Session) check(ctx context.Context) (err error) {
	if s.Facts, err = look.Facts(ctx, s.Conn, s.Docker); err != nil || s.work.Rehearsal {
		return err
	}
	if s.Pod != nil {
		s.Facts.Hostname = s.Pod.Node() // the machine: each start has a pod of another name
	}
	findings, err := s.checker().contract(ctx, &s.Facts)
	if s.Host.GPUs.Count == 0 { // which nothing is measured on
		findings = slices.DeleteFunc(findings, func(f provision.Finding) bool { return f.Level == provision.Warning })
	}
	if err = errors.Join(err, s.meets(findings)); err != nil {
		return err
	}
	if s.Host.GPUs.Count == 0 {
		return nil
	}
	needed, err := s.checker().needs(ctx, s.Facts)
	for _, f := range needed {
		if f.Level != provision.OK {
			s.say(Warning, "%s", f.Sentence())
		}
	}
	return err
}

func (s *Session) checker() *checker {
	return newChecker(s.Reached, s.work.Claim.Lab, s.work.Engines, s.opt.Hub)
}

// settings has the agent set what the host's block wants, until the lease ends, however it ends.
// What the place is like then is what is kept with the results.
func (s *Session) settings(ctx context.Context) error {
	changes, err := s.Agent.Prepare(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrContract, err)
	}
	if len(changes) == 0 {
		return nil
	}
	s.changed = true
	for _, c := range changes {
		s.say(Step, "set %s, until the end", c)
	}
	now, err := look.Condition(ctx, s.Conn, s.Docker, s.checker().keptOn())
	if err == nil {
		s.Facts.See(now, changes...)
	}
	return err
}

// meets tells what is wrong with a place; what is blocked keeps everything from starting.
func (s *Session) meets(findings []provision.Finding) error {
	errs := []error{fmt.Errorf("%s: %w", s.Host, ErrContract)}
	for _, f := range findings {
		switch f.Level {
		case provision.Blocked:
			errs = append(errs, errors.New("  - "+f.Sentence()))
		case provision.Warning:
			s.say(Warning, "%s", f.Sentence())
		}
	}
	if len(errs) == 1 {
		return nil
	}
	return errors.Join(errs...)
}

// Close gives the place back. met is what the work there has ended with: it is returned with what the end has met.
func (s *Session) Close(met error) (err error) {
	if s.lease != nil {
		err = s.lease.give(s.down)
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	if s.changed && err == nil {
		s.say(Step, "its settings are as they were")
	}
	if s.Agent != nil {
		s.Agent.Close()
	}
	if s.Conn != nil {
		s.Conn.Close()
	}
	// A pod ends with its root in any case.
	if s.leave != nil && !(s.work.Root != nil && s.lease != nil && s.lease.unreachable()) {
		err = errors.Join(err, s.leave(context.Background()))
	}
	if errors.Is(err, provision.ErrUnclean) {
		met = withoutNotDown(met) // which it says again
	}
	return errors.Join(met, err)
}

// Gone reports whether there is nothing to be taken down any more, or nobody who could: the place was not heard of for
// as long as its lease, or somebody else has it.
func (s *Session) Gone() bool {
	return s.lease.unreachable() || errors.As(context.Cause(s.Held), new(*agent.HeldError))
}

// Renew asks for the lease anew: whoever has the place now says so, and so does the provider of a box that was taken away, which ends
// the work there.
func (s *Session) Renew(ctx context.Context) {
	if s.lost == nil || s.boxThere(ctx) {
		s.lease.renew(ctx, lateRenewal)
	}
}

// Forget leaves a pod to the end of its root.
func (s *Session) Forget() { s.leave = nil }

// Runtime is how engines run on a place: in containers or as processes, by the hands of the agent.
func (s *Session) Runtime(r provision.Runtime) Runtime {
	if r == provision.Process {
		return agent.Processes{Client: s.Agent}
	}
	return agent.Containers{Client: s.Agent, Daemon: s.Docker}
}

// Bring brings files of the lab to the place, each once. local says where one lies here.
func (s *Session) Bring(ctx context.Context, files []string, local func(string) string) error {
	for _, file := range files {
		if s.Files[file] != "" {
			continue
		}
		s.say(Step, "bringing %s to the host", file)
		remote, err := agent.Place(ctx, s.Conn, local(file))
		if err != nil {
			return err
		}
		s.Files[file] = remote
	}
	return nil
}

// Path of the place, which may begin with its home.
func (s *Session) Path(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return path.Join(s.Conn.Home(), rest)
	}
	return p
}

// FactsText is what the place is, as it is kept.
func (s *Session) FactsText() json.RawMessage {
	text, err := json.Marshal(s.Facts)
	if err != nil {
		panic(fmt.Sprintf("marshal facts: %v. This is a bug in hcl.", err))
	}
	return text
}

// undone notes that something could not be taken down by itself.
func (s *Session) undone(name string, err error) error {
	left := fmt.Sprintf("%s, which could not be taken down: %v", name, err)
	if unclean, ok := errors.AsType[*provision.UncleanError](err); ok {
		left = strings.Join(unclean.Left, "; ")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = append(s.down, left)
	return &notDown{s.Host, left}
}

// notDown is what could not be taken down by itself. The end of the host's claim decides what it costs.
type notDown struct {
	host *provision.Host
	left string
}

func (e *notDown) Error() string {
	return fmt.Sprintf("%s: %s. Nothing more was started there; it went when the host was given back", e.host, e.left)
}

// withoutNotDown are errors but for those of what could not be taken down.
func withoutNotDown(err error) error {
	if _, is := err.(*notDown); is {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !errors.As(err, new(*notDown)) {
		return err
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		rest = append(rest, withoutNotDown(e))
	}
	return errors.Join(rest...)
}

// EndWith ends work when a host that has a part in it is lost, until what it returns is called.
func EndWith(hosts []*Session, end context.CancelCauseFunc) (stop func()) {
	var stops []func() bool
	for _, s := range hosts {
		stops = append(stops, context.AfterFunc(s.Held, func() { end(context.Cause(s.Held)) }))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// closeAll gives places back, those that could be taken.
func closeAll(at []*Session) error {
	return flow.Each(at, func(_ int, s *Session) error {
		if s == nil {
			return nil
		}
		return s.Close(nil)
	})
}

// reachWithin is how long a connection to a server may take.
const reachWithin = 20 * time.Second

// Reaches reports why no connection comes about from the place to the server at a URL.
func (s *Session) Reaches(ctx context.Context, base string) error {
	return reaches(ctx, s.Reached, Address(base))
}

// reaches reports why no connection comes about from a place to an address.
func reaches(ctx context.Context, from Reached, at string) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	conn, err := from.Conn.Dial(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Address is the host and the port of a URL.
func Address(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base // which the first connection will say
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80"))
}
