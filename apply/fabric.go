package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// fabric is a network over which hosts run one engine together.
type fabric struct {
	engine *engines.Engine // the first that runs over it
	hosts  []*provision.Host
	works  map[*provision.Host]bool  // has more than the router, which sends no KV cache
	ports  map[*provision.Host][]int // that other hosts come to, by members
}

// fabricOf is the network between an engine's hosts; ok is false where it has none.
func fabricOf(e *engines.Engine) (f fabric, ok bool) {
	f.engine, f.works, f.ports = e, map[*provision.Host]bool{}, map[*provision.Host][]int{}
	for _, m := range engines.Members(e) {
		h := m.Engine.Host()
		if !slices.Contains(f.hosts, h) {
			f.hosts = append(f.hosts, h)
			ok = ok || h.Inside() != f.hosts[0].Inside()
		}
		f.works[h] = f.works[h] || !m.Engine.Router
		for _, p := range m.Ports {
			if p.Open {
				f.ports[h] = append(f.ports[h], p.Number)
			}
		}
	}
	return f, ok
}

// What to do about a fabric.
const (
	correctFabric = "correct that, or name the right address and devices in the host's fabric block"
	levelFabric   = "together they are as slow as the slowest: make them alike"
	longLost      = "packets as long as the interfaces send them are lost on the way, and engines would hang there: " +
		"give all interfaces and switches between the hosts one MTU, and let ICMP through that says what is too long"
	oneMTU    = "the narrowest link cuts what all send: give all interfaces and switches between the hosts one MTU"
	setClocks = "their logs and telemetry cannot be laid side by side: sudo timedatectl set-ntp true"
	clearACS  = "GPUs and RDMA devices reach each other by way of the processor, at a part of the speed: " +
		"switch ACS off in the firmware, or with setpci, unless virtual machines need it"
	openPorts = "engines would hang there: open these ports between the hosts, and also those that the kernel picks, " +
		"or give the fabric blocks the addresses of a network that joins them"
)

// joined is what was found out of a fabric: engines use what is full.
type joined struct {
	facts map[*provision.Host]provision.FabricFacts
	full  map[*provision.Host]provision.Fabric
	found []provision.Finding // what is blocked keeps engines from working
}

func (j *joined) find(check string, level provision.Level, have, advice string) {
	j.found = append(j.found, provision.Finding{Check: check, Level: level, Have: have, Advice: advice})
}

// look finds out how the hosts are joined, and what is wrong with it.
func (f fabric) look(ctx context.Context, at map[*provision.Host]reached) (*joined, error) {
	facts, errs := make([]provision.FabricFacts, len(f.hosts)), make([]error, len(f.hosts))
	var all sync.WaitGroup
	for i, h := range f.hosts {
		all.Go(func() { facts[i], errs[i] = look.Fabric(ctx, at[h].conn) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return &joined{}, err
	}
	j := &joined{facts: map[*provision.Host]provision.FabricFacts{}, full: map[*provision.Host]provision.Fabric{}}
	for i, h := range f.hosts {
		full, problems := facts[i].Complete(at[h].conn.Host()) // of a pod that knows the address
		j.facts[h], j.full[h] = facts[i], full
		check := "host " + h.Name
		for _, p := range problems {
			j.find(check, provision.Blocked, p, correctFabric)
		}
		if problems == nil {
			j.find(check, provision.OK, describe(h, full), "")
		}
		if acs := facts[i].ACS; len(acs) > 0 && len(full.RDMA) > 0 {
			have := fmt.Sprintf("ACS is on at %s, the first is %s", plain.Count(len(acs), "PCI bridge"), plain.Line(acs[0]))
			j.find(check, provision.Warning, have, clearACS)
		}
	}
	for _, difference := range f.differences(facts, j.full) {
		j.find("alike", provision.Warning, difference, levelFabric)
	}
	return j, f.meet(ctx, at, j)
}

// differences says in what the hosts that work are not alike; facts are in the order of all.
func (f fabric) differences(facts []provision.FabricFacts, full map[*provision.Host]provision.Fabric) []string {
	factsOf, fullOf := map[string]provision.FabricFacts{}, map[string]provision.Fabric{}
	for i, h := range f.hosts {
		if f.works[h] {
			factsOf[h.Name], fullOf[h.Name] = facts[i], full[h]
		}
	}
	return provision.CompareFabrics(factsOf, fullOf)
}

// describe says how a host takes part in a fabric.
func describe(h *provision.Host, f provision.Fabric) string {
	have := h.Inside()
	if f.Interface != "" {
		have += " on " + f.Interface
	}
	if len(f.RDMA) == 0 {
		return have + ", no RDMA"
	}
	have += ", " + strings.Join(f.RDMA, " ")
	if f.GIDIndex != nil {
		have += fmt.Sprintf(" with GID index %d", *f.GIDIndex)
	}
	return have
}

// meet has the hosts connect to each other on the very ports of the members.
func (f fabric) meet(ctx context.Context, at map[*provision.Host]reached, j *joined) error {
	var meetings []look.Meeting
	names := map[string]*provision.Host{}
	ports := 0
	for _, h := range f.hosts {
		meetings = append(meetings, look.Meeting{Conn: at[h].conn, Ports: f.ports[h]})
		names[h.Name] = h
		ports += len(f.ports[h])
	}
	met, err := look.Mesh(ctx, meetings)
	if err != nil {
		return err
	}
	for _, a := range met.Apart {
		switch {
		case a.From == a.To:
			c := at[names[a.From]]
			j.find("ports", provision.Blocked, a.String(), line(c.conn.PortTaken(ctx, a.Ports[0], c.docker.Name)))
		case a.Long:
			j.find("packets", provision.Blocked, a.String(), longLost)
		default:
			j.find("ports", provision.Blocked, a.String(), openPorts)
		}
	}
	if len(met.Apart) == 0 {
		const have = "every host reaches every other on %s and on one that its kernel picks, there with long messages too"
		j.find("ports", provision.OK, fmt.Sprintf(have, plain.Count(ports, "port")), "")
	}
	for _, n := range met.Narrow {
		j.find("packets", provision.Warning, n.String(), oneMTU)
	}
	if have, good := provision.CompareClocks(met.Clocks); good {
		j.find("clocks", provision.OK, have, "")
	} else {
		j.find("clocks", provision.Warning, have, setClocks)
	}
	return nil
}

// fabric finds out how the hosts of the engine reach each other, before anything is brought
// there, and completes what the members are started with by it.
func (t *trial) fabric(ctx context.Context) error {
	f, ok := fabricOf(t.d.Engine)
	if !ok || t.run.plan.Rehearsal {
		return nil
	}
	t.tell.say(Step, "looking how its hosts reach each other")
	at := map[*provision.Host]reached{}
	for _, h := range f.hosts {
		at[h] = t.at[h].reached
	}
	j, err := f.look(ctx, at)
	if err != nil {
		return err
	}
	var wrong []string
	for _, found := range j.found {
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
	for h, facts := range j.facts {
		t.at[h].facts.Fabric = facts.Traits(j.full[h])
	}
	t.d = t.d.On(j.full)
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
	var fabrics []fabric
	for _, e := range scope.Engines {
		f, ok := fabricOf(e)
		if !ok {
			continue
		}
		i := slices.IndexFunc(fabrics, func(g fabric) bool { return sameHosts(f.hosts, g.hosts) })
		if i < 0 {
			fabrics = append(fabrics, f)
			continue
		}
		for h, ports := range f.ports {
			all := append(fabrics[i].ports[h], ports...)
			slices.Sort(all)
			fabrics[i].ports[h] = slices.Compact(all)
		}
	}
	out := make([]CheckedFabric, len(fabrics))
	for i, f := range fabrics {
		out[i].Hosts = f.hosts
		j, err := f.check(ctx, opt)
		switch {
		case err != nil || store == "":
		case provision.Worst(j.found) == provision.Blocked:
			j.find("measured", provision.Warning, "nothing, while something is blocked", "")
		default:
			err = f.measure(ctx, scope, store, opt, j)
		}
		out[i].Findings, out[i].Err = j.found, err
	}
	return out
}

func sameHosts(a, b []*provision.Host) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(h *provision.Host) bool { return !slices.Contains(b, h) })
}

// check connects to all hosts at once, brings hcl to them, and looks.
func (f fabric) check(ctx context.Context, opt Options) (*joined, error) {
	conns, errs := make([]reached, len(f.hosts)), make([]error, len(f.hosts))
	var all sync.WaitGroup
	for i, h := range f.hosts {
		all.Go(func() {
			if conns[i], errs[i] = dial(ctx, h, opt); errs[i] == nil {
				errs[i] = bringHCL(ctx, conns[i].conn, opt)
			}
		})
	}
	all.Wait()
	at := map[*provision.Host]reached{}
	for i, h := range f.hosts {
		if at[h] = conns[i]; conns[i].conn != nil {
			defer conns[i].conn.Close()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &joined{}, err
	}
	return f.look(ctx, at)
}

func bringHCL(ctx context.Context, c *reach.Conn, opt Options) error {
	path, err := agent.Install(ctx, c, opt.Binaries, opt.Log)
	if err == nil {
		c.UseHCL(plain.Quote(path))
	}
	return err
}
