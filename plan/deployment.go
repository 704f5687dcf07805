package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/provision"
)

// Deployment is one start of an engine and the cells that are measured on it.
type Deployment struct {
	ID       string
	Engine   *engines.Engine
	Members  []Member          // in the order of starting; none for an engine that someone else runs
	Identity map[string]string // what ID is the hash of
	Cells    []*Cell

	start  time.Duration // until it serves, estimated; 0: not known
	byTag  string        // its id when its image was not pinned yet; empty: it is not, or has no tag
	digest string        // what its image is pinned to then
}

// Member is one container or process of a deployment.
type Member struct {
	Role      string // what it does in the deployment: [Serve]
	Instance  int    // which of those of its role, from 0
	Rank      int    // which of those that are one instance together, from 0
	Host      *provision.Host
	Runtime   provision.Runtime
	Container provision.Container
	Ports     []int // of its host, that it listens on; the first is its server's
}

// Serve is the role of a member that answers requests from beginning to end.
const Serve = "serve"

// local is where the load runs when no host block is involved.
var local = &provision.Host{Name: "local", Address: provision.LocalAddress, Runtime: provision.Process}

func deployment(e *engines.Engine) *Deployment {
	d := &Deployment{Engine: e, Identity: engines.Fingerprint(e)}
	if engines.Runtime(e) != "" {
		ct := engines.Container(e)
		d.Members = []Member{{Role: Serve, Host: e.Host, Runtime: engines.Runtime(e), Container: ct, Ports: []int{ct.Port}}}
	}
	return d
}

// ToDo returns the cells that are to be measured.
func (d *Deployment) ToDo() []*Cell {
	return slices.DeleteFunc(slices.Clone(d.Cells), func(c *Cell) bool { return c.Status == Done })
}

// starts is how often the engine is started when all goes well: once to serve,
// and once for each batch.
func (d *Deployment) starts() int {
	if len(d.Members) == 0 {
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

// Hosts are those that the deployment needs for what is to be done: where it serves, its
// other members' hosts, and those that send load, in the order of their first use.
func (d *Deployment) Hosts() []*provision.Host { return d.hosts(d.ToDo()) }

// Serving are the hosts of the deployment's engine, each once; where the load runs when
// somebody else runs the engine.
func (d *Deployment) Serving() []*provision.Host { return d.hosts(nil) }

func (d *Deployment) hosts(cells []*Cell) []*provision.Host {
	list := []*provision.Host{d.Host()}
	add := func(h *provision.Host) {
		if h != nil && !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	for _, m := range d.Members {
		add(m.Host)
	}
	for _, c := range cells {
		add(c.From())
	}
	return list
}

// Host is where the deployment's engine serves, or where the load runs when
// someone else runs it.
func (d *Deployment) Host() *provision.Host {
	if len(d.Members) > 0 {
		return d.Members[0].Host
	}
	return cmp.Or(d.Engine.Host, local)
}

// The labels that every container and process of a lab carries. They are how
// destroy and the next apply find them, whoever left them there.
const (
	LabelLab        = provision.LabelLab
	LabelRun        = "hcl.run"
	LabelDeployment = "hcl.deployment"
	LabelEngine     = "hcl.engine"
	LabelMember     = "hcl.member" // of a deployment of several: "decode 0 rank 1"
)

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
