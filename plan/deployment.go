package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/provision"
	"hclbench/results"
)

// Deployment is one start of an engine and the cells that are measured on it.
type Deployment struct {
	ID       string
	Engine   *engines.Engine
	Host     *provision.Host   // where it serves, or where the load runs when someone else runs the engine
	Hosts    []*provision.Host // of its members, each once, in the order of starting; of none, that where the load runs
	Members  []Member          // in the order of starting; none for an engine that someone else runs
	Identity map[string]string // what ID is the hash of
	Cells    []*Cell
	Tuned    bool      // it is a start of a tuning, which an engine that is lost ends
	Until    time.Time // when it is broken off; zero: never

	// Enough reports whether what the cells so far have measured makes those after them needless; nil: never.
	Enough func() bool

	start  time.Duration     // until it serves, estimated; 0: not known
	byTag  string            // its id when its images were not pinned yet; empty: none is
	pinned map[string]string // what its images are pinned to then, by role
}

// Member is one container or process of a deployment, at its place.
type Member struct {
	engines.Member
	Host      *provision.Host
	Runtime   provision.Runtime
	Container provision.Container
	Fabric    provision.Fabric // of its host, as far as it was found out
}

// Listens are the numbers of the ports of its host that the member listens on.
func (m Member) Listens() []int {
	var list []int
	for _, p := range m.Ports {
		list = append(list, p.Number)
	}
	return list
}

// Stored is which member it is, and where, as results say it.
func (m Member) Stored() results.Member {
	return results.Member{
		Role: m.Role, Instance: m.Instance, Rank: m.Rank,
		Host: m.Host.Name, GPUs: m.Host.GPUs.String(), GPUCount: engines.GPUsUsed(m.Engine),
	}
}

// Stored is which engine the deployment is, and where, as results say it; see [results.Deployment.SetMembers].
func (d *Deployment) Stored() results.Deployment {
	return results.Deployment{
		Engine: d.Engine.Label(), Kind: d.Engine.Kind, Model: engines.ServedModel(d.Engine),
		Host: d.Host.Name, GPUs: d.Host.GPUs.String(),
	}
}

// local is where the load runs when no host block is involved.
var local = &provision.Host{Name: "local", Address: provision.LocalAddress, Runtime: provision.Process}

func deployment(e *engines.Engine) *Deployment {
	d := &Deployment{Engine: e, Identity: engines.Fingerprint(e), Host: cmp.Or(e.Host(), local), Hosts: e.Placement.Hosts()}
	if d.Hosts == nil {
		d.Hosts = []*provision.Host{d.Host}
	}
	for _, m := range engines.Members(e) {
		d.Members = append(d.Members, Member{m, m.Engine.Host(), engines.Runtime(m.Engine), engines.Container(m.Engine), provision.Fabric{}})
	}
	return d
}

// On is the deployment with what was found out of its hosts' fabrics. It is the same but for the
// flags and variables of its members, and the addresses that load goes to, which follow from that.
func (d *Deployment) On(fabrics map[*provision.Host]provision.Fabric) *Deployment {
	completed := map[*provision.Host]*provision.Host{}
	for h, f := range fabrics {
		c := *h
		c.Fabric = f
		completed[h] = &c
	}
	place := func(h *provision.Host) *provision.Host { return cmp.Or(completed[h], h) }
	e := d.Engine.Moved(place)
	out := *d
	out.Cells = slices.Clone(d.Cells)
	for i, c := range d.Cells {
		out.Cells[i] = c.sentTo(e, place)
	}
	out.Members = slices.Clone(d.Members)
	for i, m := range engines.Members(e) {
		was := d.Members[i]
		ct := engines.Container(m.Engine)
		ct.Name, ct.Labels = was.Container.Name, was.Container.Labels
		out.Members[i] = Member{m, was.Host, was.Runtime, ct, fabrics[was.Host]}
	}
	return &out
}

// ToDo returns the cells that are to be measured.
func (d *Deployment) ToDo() []*Cell {
	return slices.DeleteFunc(slices.Clone(d.Cells), func(c *Cell) bool { return c.Status == Done })
}

// starts is how often the engine is started when all goes well: once to serve,
// and once for each batch.
func (d *Deployment) starts() int {
	if d.Engine.Kind == engines.External {
		return 0
	}
	n, serves := 0, 0
	for _, c := range d.ToDo() {
		if c.Batch() != nil {
			n++
		} else {
			serves = 1
		}
	}
	return n + serves
}

// Needs are the hosts that the deployment needs for what is to be done: where it serves, its
// other members' hosts, and those that send load, in the order of their first use.
func (d *Deployment) Needs() []*provision.Host { return d.needs(d.ToDo()) }

func (d *Deployment) needs(cells []*Cell) []*provision.Host {
	list := []*provision.Host{d.Host}
	add := func(hosts []*provision.Host) {
		for _, h := range hosts {
			if !slices.Contains(list, h) {
				list = append(list, h)
			}
		}
	}
	add(d.Hosts)
	for _, c := range cells {
		add(c.From())
	}
	return list
}

// Where is what results call its hosts: "h200", or "n0, n1".
func (d *Deployment) Where() string { return strings.Join(hostNames(d.Hosts), ", ") }

// Senders are the hosts that a cell's load is sent from, or that do its work.
func (d *Deployment) Senders(c *Cell) []*provision.Host {
	if from := c.From(); from != nil {
		return from
	}
	return []*provision.Host{d.Host}
}

// Grouped reports whether the deployment has several members.
func (d *Deployment) Grouped() bool { return len(d.Members) > 1 }

// maxContainerName leaves room for the id in what the agent takes for the name of a
// process, 100 characters.
const maxContainerName = 90

// containerName is unique on a host and tells a person what it is.
func containerName(lab string, e *engines.Engine, id string) string {
	name := "hcl-" + clean(lab) + "-" + clean(e.Kind) + "-" + clean(e.Name)
	return name[:min(len(name), maxContainerName)] + "-" + id[:6]
}

// clean keeps what Docker allows in a name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
			return r
		}
		return '-'
	}, s)
}
