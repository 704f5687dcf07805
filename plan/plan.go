// Package plan decides what runs where, in which order and under which
// identity, and what of it is already done.
//
// A [Plan] is plain data: hcl plan prints exactly the value that hcl apply
// carries out. The package contacts nothing; what is done it reads from the
// results that it is given.
package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/provision"
	"hclbench/results"
)

// Plan is what one hcl apply does.
type Plan struct {
	Lab         hcl.Lab
	Dir         string // of the lab: what paths in it are relative to
	Rehearsal   bool
	Speed       float64           // of a rehearsal: how many times faster than real everything happens
	Hosts       []*provision.Host // those that deployments use or send from, in the order of their first use
	Deployments []*Deployment     // in the order in which they are carried out on each host

	Only    []string // what [Plan.Select] was asked for
	Targets []string
	Of      *Counts // of the whole lab, when only a part is planned; nil otherwise
}

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

// Status says what apply does with a cell.
type Status string

const (
	Measure Status = "measure" // there is no measurement of it
	Done    Status = "done"    // there is one, with the same identity
	Stale   Status = "stale"   // there is one, of something else: Why tells the difference
)

// Cell is one measurement.
type Cell struct {
	ID         string // of the measurement; of one that is done the id in the store
	Group      string // the id of all the repetitions of the cell together
	Benchmark  string
	Axes       results.Axes
	Repetition int // from 1
	Task       Task
	Status     Status
	Why        string           // of the status, for people: "measured 2026-11-20, suspect: …", "--tp 8 → 4"
	Digest     string           // of a cell that is done: the image that it was measured with
	Facts      *provision.Facts // of a cell that is done: what its host was then; nil: not known
	// HostChanged says, of a cell that is done, in what its host is not as it was then, as
	// far as it was seen since.
	HostChanged []string

	deployment *Deployment
	load       *loadIdentity
	occurrence int           // from 1: of equal loads on the same deployment
	takes      time.Duration // estimated; 0: not known
}

// ToDo returns the cells that are to be measured.
func (d *Deployment) ToDo() []*Cell {
	var todo []*Cell
	for _, c := range d.Cells {
		if c.Status != Done {
			todo = append(todo, c)
		}
	}
	return todo
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

// Senders are the other hosts that send load to the deployment in what is to be done,
// in the order of their first use.
func (d *Deployment) Senders() []*provision.Host {
	var list []*provision.Host
	for _, c := range d.ToDo() {
		if h := c.From(); h != nil && !slices.Contains(list, h) {
			list = append(list, h)
		}
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

// Counts sums a plan up.
type Counts struct {
	Hosts       int `json:"hosts"`
	Deployments int `json:"deployments"`
	Cells       int `json:"cells"`
	Measure     int `json:"measure"` // cells to be measured
	Stale       int `json:"stale"`   // how many of those are stale
	Done        int `json:"done"`
	Starts      int `json:"starts"` // engine starts, each one a load of the model
}

// String is "2 deployments on 1 host, 6 cells".
func (c Counts) String() string {
	return fmt.Sprintf("%s on %s, %s", count(c.Deployments, "deployment"), count(c.Hosts, "host"), count(c.Cells, "cell"))
}

// Local is where a path of the lab lies on this machine.
func (p *Plan) Local(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.Dir, path)
}

// Count sums the plan up.
func (p *Plan) Count() Counts {
	c := Counts{Hosts: len(p.Hosts), Deployments: len(p.Deployments)}
	for _, d := range p.Deployments {
		c.Cells += len(d.Cells)
		for _, cell := range d.Cells {
			switch cell.Status {
			case Measure:
				c.Measure++
			case Stale:
				c.Measure++
				c.Stale++
			case Done:
				c.Done++
			}
		}
		c.Starts += d.starts()
	}
	return c
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool {
	n := p.Count()
	return n.Measure == 0
}

// Options steer [New].
type Options struct {
	Known       map[string]results.Known // the newest measurement of each cell, by cell id
	Seen        []results.Seen           // what was seen of hosts, oldest first
	Rerun       bool                     // measure what is done again
	StrictFacts bool                     // and what was done on a host that is not as it was then
}

// New plans the lab. It cannot fail: the text has been checked.
func New(cfg *hcl.Config, opt Options) *Plan {
	p := &Plan{Lab: cfg.Lab, Dir: cfg.Dir}
	byEngine := map[*engines.Engine]*Deployment{}
	ids := newIdentities()
	type at struct {
		deployment *Deployment
		load       *loadIdentity
	}
	again := map[at]int{} // how often a load was met
	for _, b := range cfg.Benchmarks {
		for _, c := range b.Cells {
			d := byEngine[c.Engine]
			if d == nil {
				d = deployment(c.Engine)
				byEngine[c.Engine] = d
				p.Deployments = append(p.Deployments, d)
			}
			if c.From == d.Host() || c.Offline {
				c.From = nil
			}
			same := ids.load(c)
			again[at{d, same}]++
			for rep := range max(b.Repeat, 1) {
				d.Cells = append(d.Cells, cell(d, b, c, &Cell{Repetition: rep + 1, load: same, occurrence: again[at{d, same}]}))
			}
			for _, h := range d.hosts(d.Cells[len(d.Cells)-1:]) {
				if !slices.Contains(p.Hosts, h) {
					p.Hosts = append(p.Hosts, h)
				}
			}
		}
	}
	p.identify(opt.Known)
	p.compare(opt)
	return p
}

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

// cell fills in what is measured.
func cell(d *Deployment, b hcl.Benchmark, c hcl.Cell, out *Cell) *Cell {
	out.Benchmark, out.deployment = b.Name, d
	task, err := newTask(d.Engine, b, c, out.seed())
	if err != nil {
		panic(fmt.Sprintf("plan a cell of benchmark %s: %v. The text was checked: this is a bug in hcl.", b.Name, err))
	}
	out.Task = task
	for _, a := range c.Axes {
		out.Axes = append(out.Axes, results.Axis(a))
	}
	return out
}

// text is the form in which the store gives a cell's axes.
func text(a results.Axes) string {
	b, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("marshal axes: %v. This is a bug in hcl.", err))
	}
	return string(b)
}
