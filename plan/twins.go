package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"hclbench/engines"
	"hclbench/origin"
	"hclbench/results"
)

// twin is the pair that tells an engine from another of the lab that is equal but for
// its name or its host.
const twin = "twin"

// identify gives deployments and cells their ids. They are pure functions of what can
// change a number, but for twins: of several equal engines one is identified by that
// alone, and the others by their names too. Which one is asked of what is known, so
// that adding, removing or moving a twin measures no other one again, and none takes
// over the numbers of another.
func (p *Plan) identify(known map[string]results.Known) {
	equal := map[string][]*Deployment{}
	var order []string
	for _, d := range p.Deployments {
		text := canonical(d.Identity)
		if equal[text] == nil {
			order = append(order, text)
		}
		equal[text] = append(equal[text], d)
	}
	for _, text := range order {
		names := namesOf(equal[text])
		first := nameless(equal[text], names, known)
		for i, d := range equal[text] {
			if i == first {
				names[i] = ""
			}
			*d = *d.called(names[i])
		}
	}
	for _, d := range p.Deployments {
		d.identify(p.Lab.Name)
	}
}

// namesOf are the names that tell equal deployments apart: their labels, and of those
// of one engine, which an axis turned without making another of it, also a number.
func namesOf(equal []*Deployment) []string {
	names, met := make([]string, len(equal)), map[string]int{}
	for i, d := range equal {
		names[i] = d.Engine.Label()
		if met[names[i]]++; met[names[i]] > 1 {
			names[i] += " " + strconv.Itoa(met[d.Engine.Label()])
		}
	}
	return names
}

// nameless picks, of equal deployments, the one that needs no name in its identity; -1
// for none.
func nameless(equal []*Deployment, names []string, known map[string]results.Known) int {
	if len(known) == 0 {
		return 0
	}
	var unnamed []int
	taken := false // the nameless id has measurements of another engine
	for i, d := range equal {
		named, bare := d.called(names[i]), d.called("")
		if slices.ContainsFunc(d.Cells, func(c *Cell) bool { _, _, ok := named.measured(c, known); return ok }) {
			continue
		}
		unnamed = append(unnamed, i)
		for _, c := range d.Cells {
			if _, k, ok := bare.measured(c, known); ok {
				if k.Engine == d.Engine.Label() {
					return i
				}
				taken = true
			}
		}
	}
	// One engine alone has been given another name since.
	if len(unnamed) > 0 && (!taken || len(equal) == 1) {
		return unnamed[0]
	}
	return -1
}

// called is the deployment under the name that tells it from its twins; "" for none.
func (d *Deployment) called(name string) *Deployment {
	id := func(identity map[string]string) string {
		if name != "" {
			identity[twin] = name
		}
		return hash(canonical(identity))
	}
	out := *d
	out.Identity = maps.Clone(d.Identity)
	out.ID = id(out.Identity)
	if ref, err := origin.ParseRef(d.Engine.Image); err == nil && ref.Digest != "" && ref.Tag != "" {
		unpinned := *d.Engine
		unpinned.Image = ref.Name() + ":" + ref.Tag
		out.byTag, out.digest = id(engines.Fingerprint(&unpinned)), ref.Digest
	}
	return &out
}

// identify names what is named after the deployment's id, and gives its cells theirs.
func (d *Deployment) identify(lab string) {
	for i := range d.Members {
		m := &d.Members[i]
		m.Container.Name = containerName(lab, d.Engine, d.ID)
		if len(d.Members) > 1 {
			m.Container.Name += fmt.Sprintf("-%s-%d-%d", m.Role, m.Instance, m.Rank)
		}
		m.Container.Labels = map[string]string{
			LabelLab:        lab,
			LabelDeployment: d.ID,
			LabelEngine:     d.Engine.Label(),
		}
	}
	for _, c := range d.Cells {
		c.ID, c.Group = c.id(d.ID), c.group(d.ID)
		if b := c.Batch(); b != nil {
			in := d.Members[0].Container
			b.Bench.Container.Name, b.Bench.Container.Labels = in.Name+"-offline", in.Labels
		}
	}
}
