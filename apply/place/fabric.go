package place

import (
	"context"
	"errors"
	"slices"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/fabric"
)

// Network is the one over which hosts run an engine together.
type Network struct {
	engine *engines.Engine // the first that runs over it
	Hosts  []*provision.Host
	works  map[*provision.Host]bool  // has more than the router, which sends no KV cache
	ports  map[*provision.Host][]int // that other hosts come to, by members
}

// NetworkOf is the network between an engine's hosts; ok is false where it has none.
func NetworkOf(e *engines.Engine) (n Network, ok bool) {
	n.engine, n.Hosts, n.works, n.ports = e, e.Placement.Hosts(), map[*provision.Host]bool{}, map[*provision.Host][]int{}
	for _, m := range engines.Members(e) {
		h := m.Engine.Host()
		ok = ok || h.Inside() != n.Hosts[0].Inside()
		n.works[h] = n.works[h] || !m.Engine.Router
		for _, p := range m.Ports {
			if p.Open {
				n.ports[h] = append(n.ports[h], p.Number)
			}
		}
	}
	return n, ok
}

// Look finds out how the hosts are joined, in their order, and what is wrong with it.
func (n Network) Look(ctx context.Context, at func(i int, h *provision.Host) Reached) (*fabric.Joined, error) {
	places := make([]fabric.Place, len(n.Hosts))
	for i, h := range n.Hosts {
		c := at(i, h)
		places[i] = fabric.Place{Conn: c.Conn, Docker: c.Docker, Ports: n.ports[h], Works: n.works[h]}
	}
	return fabric.Look(ctx, places)
}

// CheckedFabric is what hosts that run engines together have between them.
type CheckedFabric struct {
	Hosts    []*provision.Host
	Findings []provision.Finding
	Err      error // why it could not be looked at; nil: it was
}

// CheckFabric looks at the networks over which engines of the scope run, one after the other
// as they may share hosts. hcl runs on the hosts for a moment. Where nothing is
// blocked, and there is a claim, the hosts are taken by it, as apply takes them,
// and containers measure what engines get of it.
func CheckFabric(ctx context.Context, scope Scope, claim *agent.Lease, opt Options, tell Tell) []CheckedFabric {
	opt = opt.Filled()
	var all []Network
	for _, e := range scope.Engines {
		n, ok := NetworkOf(e)
		if !ok {
			continue
		}
		i := slices.IndexFunc(all, func(o Network) bool {
			return len(n.Hosts) == len(o.Hosts) && !slices.ContainsFunc(n.Hosts, func(h *provision.Host) bool { return !slices.Contains(o.Hosts, h) })
		})
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
	tell, told := listening(ctx, tell)
	defer told()
	out := make([]CheckedFabric, len(all))
	for i, n := range all {
		out[i].Hosts = n.Hosts
		j, err := n.check(ctx, opt)
		switch {
		case err != nil || claim == nil:
		case provision.Worst(j.Findings) == provision.Blocked:
			j.Findings = append(j.Findings, notMeasured("nothing, while something is blocked"))
		default:
			err = n.measure(ctx, scope, *claim, opt, j, tell)
		}
		out[i].Findings, out[i].Err = j.Findings, err
	}
	return out
}

func notMeasured(why string) provision.Finding {
	return provision.Finding{Check: "measured", Level: provision.Warning, Have: why}
}

// check connects to all hosts at once, brings hcl to them, and looks.
func (n Network) check(ctx context.Context, opt Options) (*fabric.Joined, error) {
	at := make([]Reached, len(n.Hosts))
	err := flow.Each(n.Hosts, func(i int, h *provision.Host) (err error) {
		if at[i], err = dial(ctx, h, opt); err != nil {
			return err
		}
		path, err := agent.Install(ctx, at[i].Conn, opt.Binaries, opt.Log)
		if err == nil {
			at[i].Conn.UseHCL(plain.Quote(path))
		}
		return err
	})
	for _, c := range at {
		if c.Conn != nil {
			defer c.Conn.Close()
		}
	}
	if err != nil {
		return &fabric.Joined{}, err
	}
	return n.Look(ctx, func(i int, _ *provision.Host) Reached { return at[i] })
}

// measure adds to what was found between hosts what an engine gets of it. The hosts are held by a
// lease meanwhile, so that nothing stays there, whatever becomes of the caller.
func (n Network) measure(ctx context.Context, scope Scope, claim agent.Lease, opt Options, j *fabric.Joined, tell Tell) (err error) {
	spots := n.spots(j)
	if len(spots) < 2 {
		j.Findings = append(j.Findings, notMeasured("nothing: fewer than two of these hosts run containers with GPUs"))
		return nil
	}
	at := make([]*Session, len(spots))
	defer func() { err = errors.Join(err, closeAll(at)) }()
	claim.Lab, claim.Holder, claim.Reserve = scope.Lab, opt.Holder, true
	err = flow.Each(spots, func(i int, s *fabric.Spot) (err error) {
		w := Work{Claim: claim, Docker: true, Shared: true, Engines: scope.on(s.Host)}
		if at[i], err = Open(ctx, s.Host, w, opt, tell); err != nil {
			return err
		}
		return at[i].lend(ctx, s, "fabric")
	})
	if err != nil {
		return err
	}
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	defer EndWith(at, lose)()
	found, err := fabric.Measure(ctx, spots, func(what string) {
		for _, s := range at {
			s.say(Step, "%s", what)
		}
	})
	j.Findings = append(j.Findings, found...)
	return err
}

// lend brings a spot's image to the place, where it has one, and lends it the agent's hands, under a name for what it measures.
func (s *Session) lend(ctx context.Context, to *fabric.Spot, name string) error {
	rt := s.Runtime(provision.Process)
	if to.Like.Image != "" {
		image, err := s.Pull(ctx, to.Like.Image, s.tell)
		if err != nil {
			return err
		}
		to.Like.Image, rt = image.ID, s.Runtime(provision.Docker)
	}
	to.Like.Name = "hcl-" + s.work.Claim.Lab + "-" + name
	to.Like.Labels = map[string]string{provision.LabelEngine: name}
	to.Runtime = rt
	to.Stop = func(ctx context.Context, ct provision.Container) error {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), ct.StopGrace+s.opt.Release+downPatience)
		defer done()
		warnings, err := rt.Stop(ctx, ct.Name, ct.StopGrace)
		for _, text := range warnings {
			s.say(Warning, "%s", text)
		}
		if err != nil {
			return s.undone(ct.Name, err)
		}
		return nil
	}
	return nil
}

// spots are the hosts on which containers get GPUs, each with what they may do.
func (n Network) spots(j *fabric.Joined) (spots []*fabric.Spot) {
	completed, of := map[*provision.Host]*provision.Host{}, map[*provision.Host]*fabric.Spot{}
	for i, h := range n.Hosts {
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
