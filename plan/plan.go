// Package plan decides what runs where, in which order and under which
// identity, and what of it is already done.
//
// A [Plan] is plain data: hcl plan prints exactly the value that hcl apply
// carries out. The package contacts nothing; what is done it reads from the
// results that it is given.
package plan

import (
	"fmt"
	"path/filepath"
	"slices"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/results"
)

// Plan is what one hcl apply does.
type Plan struct {
	Lab         hcl.Lab
	Dir         string // of the lab: what paths in it are relative to
	Rehearsal   bool
	Speed       float64           // of a rehearsal: how many times faster than real everything happens
	MadeUp      []MadeUp          // by a rehearsal
	Hosts       []*provision.Host // those that deployments use or send from, in the order of their first use
	Deployments []*Deployment     // in the order in which they are carried out on each host

	Tunes []*Tune // after all deployments

	Rented   *Rented   // what is rented, likewise; nil: nothing
	Clusters []Cluster // what is made in clusters, where somebody has asked; the plan is as good without

	Only    []string // what [Plan.Select] was asked for
	Targets []string
	Of      *Counts // of the whole lab, when only a part is planned; nil otherwise

	Secrets []provision.Text // of the lab, hidden in what is printed
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
	return fmt.Sprintf("%s on %s, %s", plain.Count(c.Deployments, "deployment"), plain.Count(c.Hosts, "host"), plain.Count(c.Cells, "cell"))
}

// Hide takes the lab's secrets out of what is printed or kept of the plan.
func (p *Plan) Hide(text string) string {
	var words []string
	for _, s := range p.Secrets {
		words = append(words, s.Reveal())
	}
	return plain.NewSecrets(words...).Hide(text)
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
			case Done:
				c.Done++
			case Stale:
				c.Stale++
			}
		}
		c.Starts += d.starts()
	}
	c.Measure = c.Cells - c.Done
	return c
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool {
	return p.Count().Measure == 0 && !slices.ContainsFunc(p.Tunes, (*Tune).ToDo)
}

// Options steer [New].
type Options struct {
	Known       map[string]results.Known // the newest measurement of each cell, by cell id
	Seen        []results.Seen           // what was seen of hosts, oldest first
	Rerun       bool                     // measure what is done again
	StrictFacts bool                     // and what was done on a host that is not as it was then
	Ledgers     map[[2]string][]byte     // of tunings, by lab and [results.LedgerName]
}

// New plans the lab. It cannot fail: the text has been checked.
func New(cfg *hcl.Config, opt Options) *Plan {
	p := Draft(cfg)
	p.Know(opt)
	return p
}

// Know says what is already done of a plan, and which cell is which: without it the plan is a draft.
func (p *Plan) Know(opt Options) {
	p.identify(opt.Known)
	p.compare(opt)
	for _, t := range p.Tunes {
		if !opt.Rerun {
			t.known = opt.Known
			t.Know(opt.Ledgers[[2]string{p.Lab.Name, results.LedgerName(t.Name)}])
		}
	}
}

// Draft plans the lab, of which it is not known what is done.
func Draft(cfg *hcl.Config) *Plan {
	itself := func(h *provision.Host) *provision.Host { return h }
	p, err := draft(cfg, itself, nil)
	if err != nil {
		panic(fmt.Sprintf("plan a tuning: %v. The text was checked: this is a bug in hcl.", err))
	}
	return p
}

// draft is Draft where tunings start other engines in the place of theirs, on hosts in the places of theirs.
func draft(cfg *hcl.Config, place func(*provision.Host) *provision.Host, stand func(*engines.Engine, float64) (*engines.Engine, error)) (*Plan, error) {
	p := &Plan{Lab: cfg.Lab, Dir: cfg.Dir, Secrets: cfg.Secrets}
	byEngine := map[*engines.Engine]*Deployment{}
	type at struct {
		deployment *Deployment
		load       string
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
			if len(c.From) == 1 && c.From[0] == d.Host || c.Offline {
				c.From = nil
			}
			load := loadOf(c, d)
			again[at{d, load.text}]++
			for rep := range max(b.Repeat, 1) {
				d.Cells = append(d.Cells, cell(d, b, c, &Cell{Repetition: rep + 1, load: load, occurrence: again[at{d, load.text}]}))
			}
			for _, h := range d.needs(d.Cells[len(d.Cells)-1:]) {
				if !slices.Contains(p.Hosts, h) {
					p.Hosts = append(p.Hosts, h)
				}
			}
		}
	}
	for _, of := range cfg.Tunes {
		t, err := newTune(of, p.Lab.Name, freeName(cfg, of.Name+"-best"), place, stand)
		if err != nil {
			return nil, err
		}
		p.Tunes = append(p.Tunes, t)
		for _, h := range t.Hosts {
			if !slices.Contains(p.Hosts, h) {
				p.Hosts = append(p.Hosts, h)
			}
		}
	}
	return p, nil
}

// freeName is a name that no engine of the lab has: an earlier winner may be among them, and be what this one inherits.
func freeName(cfg *hcl.Config, name string) string {
	free := name
	for n := 2; slices.ContainsFunc(cfg.Engines, func(e *engines.Engine) bool { return e.Name == free }); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}
