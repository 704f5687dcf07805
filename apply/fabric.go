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
	hosts []*provision.Host
	ports map[*provision.Host][]int // that other hosts come to, by members
}

// fabricOf is the network between an engine's hosts; ok is false where it has none.
func fabricOf(e *engines.Engine) (f fabric, ok bool) {
	f.ports = map[*provision.Host][]int{}
	for _, m := range engines.Members(e) {
		h := m.Engine.Host
		if !slices.Contains(f.hosts, h) {
			f.hosts = append(f.hosts, h)
			ok = ok || h.Inside() != f.hosts[0].Inside()
		}
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
	openPorts     = "engines would hang there: open these ports between the hosts, and also those that the kernel picks, " +
		"or give the fabric blocks the addresses of a network that joins them"
)

// look finds out how the hosts are joined, and what is wrong with it. Engines use what is
// full; what is blocked keeps them from working.
func (f fabric) look(ctx context.Context, at map[*provision.Host]reached) (full map[*provision.Host]provision.Fabric, found []provision.Finding, err error) {
	facts, errs := make([]provision.FabricFacts, len(f.hosts)), make([]error, len(f.hosts))
	var all sync.WaitGroup
	for i, h := range f.hosts {
		all.Go(func() { facts[i], errs[i] = look.Fabric(ctx, at[h].conn) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	full, byName := map[*provision.Host]provision.Fabric{}, map[string]provision.FabricFacts{}
	for i, h := range f.hosts {
		var problems []string
		full[h], problems = facts[i].Complete(h)
		byName[h.Name] = facts[i]
		check := "host " + h.Name
		for _, p := range problems {
			found = append(found, provision.Finding{Check: check, Level: provision.Blocked, Have: p, Advice: correctFabric})
		}
		if problems == nil {
			found = append(found, provision.Finding{Check: check, Level: provision.OK, Have: describe(h, full[h])})
		}
	}
	for _, difference := range provision.CompareFabrics(byName) {
		found = append(found, provision.Finding{Check: "alike", Level: provision.Warning, Have: difference, Advice: levelFabric})
	}
	met, err := f.meet(ctx, at)
	return full, append(found, met...), err
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
func (f fabric) meet(ctx context.Context, at map[*provision.Host]reached) (found []provision.Finding, err error) {
	var meetings []look.Meeting
	names := map[string]*provision.Host{}
	ports := 0
	for _, h := range f.hosts {
		meetings = append(meetings, look.Meeting{Conn: at[h].conn, Ports: f.ports[h]})
		names[h.Name] = h
		ports += len(f.ports[h])
	}
	apart, err := look.Mesh(ctx, meetings)
	if err != nil {
		return nil, err
	}
	for _, a := range apart {
		bad := provision.Finding{Check: "ports", Level: provision.Blocked, Have: a.String(), Advice: openPorts}
		if a.From == a.To {
			c := at[names[a.From]]
			bad.Advice = line(c.conn.PortTaken(ctx, a.Ports[0], c.docker.Name))
		}
		found = append(found, bad)
	}
	if found == nil {
		have := fmt.Sprintf("every host reaches every other on %s and on one that its kernel picks", plain.Count(ports, "port"))
		found = []provision.Finding{{Check: "ports", Level: provision.OK, Have: have}}
	}
	return found, nil
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
	full, findings, err := f.look(ctx, at)
	if err != nil {
		return err
	}
	var wrong []string
	for _, found := range findings {
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
// as they may share hosts. hcl runs on the hosts for a moment.
func CheckFabric(ctx context.Context, scope Scope, opt Options) []CheckedFabric {
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
		out[i].Findings, out[i].Err = f.check(ctx, opt)
	}
	return out
}

func sameHosts(a, b []*provision.Host) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(h *provision.Host) bool { return !slices.Contains(b, h) })
}

// check connects to all hosts at once, brings hcl to them, and looks.
func (f fabric) check(ctx context.Context, opt Options) ([]provision.Finding, error) {
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
		return nil, err
	}
	_, found, err := f.look(ctx, at)
	return found, err
}

func bringHCL(ctx context.Context, c *reach.Conn, opt Options) error {
	path, err := agent.Install(ctx, c, opt.Binaries, opt.Log)
	if err == nil {
		c.UseHCL(plain.Quote(path))
	}
	return err
}
