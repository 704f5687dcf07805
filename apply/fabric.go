package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/fabric"
	"hclbench/provision/reach"
	"hclbench/results"
)

// network is the one over which hosts run an engine together.
type network struct {
	engine *engines.Engine // the first that runs over it
	hosts  []*provision.Host
	works  map[*provision.Host]bool  // has more than the router, which sends no KV cache
	ports  map[*provision.Host][]int // that other hosts come to, by members
}

// fabricOf is the network between an engine's hosts; ok is false where it has none.
func fabricOf(e *engines.Engine) (n network, ok bool) {
	n.engine, n.hosts, n.works, n.ports = e, e.Placement.Hosts(), map[*provision.Host]bool{}, map[*provision.Host][]int{}
	for _, m := range engines.Members(e) {
		h := m.Engine.Host()
		ok = ok || h.Inside() != n.hosts[0].Inside()
		n.works[h] = n.works[h] || !m.Engine.Router
		for _, p := range m.Ports {
			if p.Open {
				n.ports[h] = append(n.ports[h], p.Number)
			}
		}
	}
	return n, ok
}

// look finds out how the hosts are joined, in their order, and what is wrong with it.
func (n network) look(ctx context.Context, at func(i int, h *provision.Host) reached) (*fabric.Joined, error) {
	places := make([]fabric.Place, len(n.hosts))
	for i, h := range n.hosts {
		c := at(i, h)
		places[i] = fabric.Place{Conn: c.conn, Docker: c.docker, Ports: n.ports[h], Works: n.works[h]}
	}
	return fabric.Look(ctx, places)
}

// fabric finds out how the hosts of the engine reach each other, before anything is brought
// there, and completes what the members are started with by it.
func (t *trial) fabric(ctx context.Context) error {
	n, ok := fabricOf(t.d.Engine)
	if !ok || t.run.plan.Rehearsal {
		return nil
	}
	t.tell.say(Step, "looking how its hosts reach each other")
	j, err := n.look(ctx, func(_ int, h *provision.Host) reached { return t.at[h].reached })
	if err != nil {
		return err
	}
	var wrong []string
	for _, found := range j.Findings {
		switch found.Level {
		case provision.Blocked:
			wrong = append(wrong, sentence(found))
		case provision.Warning:
			t.tell.say(Warning, "its hosts: %s", sentence(found))
		}
	}
	if len(wrong) > 0 {
		return errors.New("its hosts cannot work together:\n  - " + strings.Join(wrong, "\n  - "))
	}
	full := map[*provision.Host]provision.Fabric{}
	for i, h := range n.hosts {
		full[h] = j.Full[i]
		t.at[h].facts.Fabric = j.Facts[i].Traits(full[h])
	}
	t.d = t.d.On(full)
	t.describe()
	return nil
}

// CheckedFabric is what hosts that run engines together have between them.
type CheckedFabric struct {
	Hosts    []*provision.Host
	Findings []provision.Finding
	Err      error // why it could not be looked at; nil: it was
}

// CheckFabric looks at the networks over which engines of the scope run, one after the other
// as they may share hosts. hcl runs on the hosts for a moment. Where nothing is
// blocked, and store is not empty, the hosts are taken for that store's caller, as apply takes them,
// and containers measure what engines get of it.
func CheckFabric(ctx context.Context, scope Scope, store string, opt Options) []CheckedFabric {
	opt = opt.filled()
	var all []network
	for _, e := range scope.Engines {
		n, ok := fabricOf(e)
		if !ok {
			continue
		}
		i := slices.IndexFunc(all, func(o network) bool { return sameHosts(n.hosts, o.hosts) })
		if i < 0 {
			all = append(all, n)
			continue
		}
		for h, ports := range n.ports {
			both := append(all[i].ports[h], ports...)
			slices.Sort(both)
			all[i].ports[h] = slices.Compact(both)
		}
	}
	out := make([]CheckedFabric, len(all))
	for i, n := range all {
		out[i].Hosts = n.hosts
		j, err := n.check(ctx, opt)
		switch {
		case err != nil || store == "":
		case provision.Worst(j.Findings) == provision.Blocked:
			j.Findings = append(j.Findings, notMeasured("nothing, while something is blocked"))
		default:
			err = n.measure(ctx, scope, store, opt, j)
		}
		out[i].Findings, out[i].Err = j.Findings, err
	}
	return out
}

func sameHosts(a, b []*provision.Host) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(h *provision.Host) bool { return !slices.Contains(b, h) })
}

func notMeasured(why string) provision.Finding {
	return provision.Finding{Check: "measured", Level: provision.Warning, Have: why}
}

// check connects to all hosts at once, brings hcl to them, and looks.
func (n network) check(ctx context.Context, opt Options) (*fabric.Joined, error) {
	conns := make([]reached, len(n.hosts))
	err := flow.Each(n.hosts, func(i int, h *provision.Host) (err error) {
		if conns[i], err = dial(ctx, h, opt); err != nil {
			return err
		}
		return bringHCL(ctx, conns[i].conn, opt)
	})
	for _, c := range conns {
		if c.conn != nil {
			defer c.conn.Close()
		}
	}
	if err != nil {
		return &fabric.Joined{}, err
	}
	return n.look(ctx, func(i int, _ *provision.Host) reached { return conns[i] })
}

func bringHCL(ctx context.Context, c *reach.Conn, opt Options) error {
	path, err := agent.Install(ctx, c, opt.Binaries, opt.Log)
	if err == nil {
		c.UseHCL(plain.Quote(path))
	}
	return err
}

// measure adds to what was found between hosts what an engine gets of it. The hosts are held by a
// lease meanwhile, so that nothing stays there, whatever becomes of the caller.
func (n network) measure(ctx context.Context, scope Scope, store string, opt Options, j *fabric.Joined) (err error) {
	spots := n.spots(j)
	if len(spots) < 2 {
		j.Findings = append(j.Findings, notMeasured("nothing: fewer than two of these hosts run containers with GPUs"))
		return nil
	}
	tell, told := listening(ctx, opt.Events)
	defer told()
	at := make([]*session, len(spots))
	defer func() {
		err = errors.Join(err, flow.Each(at, func(_ int, s *session) error {
			if s == nil {
				return nil
			}
			return s.close()
		}))
	}()
	claim := agent.Lease{
		Lab: scope.Lab, Run: results.NewRunID(time.Now()), Store: store, Holder: opt.Holder, TTL: load.Duration(scope.Lease), Reserve: true,
	}
	err = flow.Each(spots, func(i int, s *fabric.Spot) (err error) {
		to := teller{about: Event{Host: s.Host.Name}, to: tell}
		w := work{claim: claim, docker: true, shared: true, engines: scope.on(s.Host)}
		if at[i], err = open(ctx, s.Host, w, opt, to); err != nil {
			return err
		}
		return at[i].lend(ctx, s)
	})
	if err != nil {
		return err
	}
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	defer endsWith(at, lose)()
	found, err := fabric.Measure(ctx, spots, func(what string) {
		for _, s := range at {
			s.tell.say(Step, "%s", what)
		}
	})
	j.Findings = append(j.Findings, found...)
	return err
}

// lend brings a spot's image to the place, and lends it the agent's hands.
func (s *session) lend(ctx context.Context, to *fabric.Spot) error {
	image, err := s.pull(ctx, to.Like.Image, s.tell)
	to.Like.Image = image.ID
	to.Like.Name = "hcl-" + s.work.claim.Lab + "-fabric"
	to.Like.Labels = map[string]string{provision.LabelEngine: "fabric"}
	rt := s.runtime(provision.Docker)
	to.Docker, to.Start = s.docker, rt.Start
	to.Stop = func(ctx context.Context, ct provision.Container) error {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), ct.StopGrace+s.opt.Release+downPatience)
		defer done()
		others, err := rt.Stop(ctx, ct.Name, ct.StopGrace)
		for _, p := range others {
			s.tell.say(Warning, "somebody else has begun to use its GPUs since it was measured: %s", p)
		}
		if err != nil {
			return s.undone(ct.Name, err)
		}
		return nil
	}
	return err
}

// spots are the hosts on which containers get GPUs, each with what they may do.
func (n network) spots(j *fabric.Joined) (spots []*fabric.Spot) {
	completed, of := map[*provision.Host]*provision.Host{}, map[*provision.Host]*fabric.Spot{}
	for i, h := range n.hosts {
		c := *h
		c.Fabric = j.Full[i]
		completed[h], of[&c] = &c, &fabric.Spot{Host: h, Fabric: c.Fabric, Facts: j.Facts[i], Ports: n.ports[h]}
	}
	moved := n.engine.Moved(func(h *provision.Host) *provision.Host { return completed[h] })
	for _, m := range engines.Members(moved) {
		e := m.Engine
		if e.Router || engines.Runtime(e) != provision.Docker || e.Host().GPUs.Count == 0 {
			continue
		}
		s := of[e.Host()]
		if s.GPUs == 0 {
			spots = append(spots, s)
		}
		s.Add(engines.Container(e), e.GPUIDs())
	}
	return spots
}
