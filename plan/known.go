package plan

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/origin"
	"hclbench/provision"
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
		text := string(canonical(d.Identity))
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
				*d = *d.called("")
			} else {
				*d = *d.called(names[i])
			}
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
	out := *d
	out.Identity = maps.Clone(d.Identity)
	if name != "" {
		out.Identity[twin] = name
	}
	out.ID = hash(canonical(out.Identity))
	if ref, err := origin.ParseRef(d.Engine.Image); err == nil && ref.Digest != "" && ref.Tag != "" {
		unpinned := *d.Engine
		unpinned.Image = ref.Name() + ":" + ref.Tag
		tagged := engines.Fingerprint(&unpinned)
		if name != "" {
			tagged[twin] = name
		}
		out.byTag, out.digest = hash(canonical(tagged)), ref.Digest
	}
	return &out
}

// identify names what is named after the deployment's id, and gives its cells theirs.
func (d *Deployment) identify(lab string) {
	for i := range d.Members {
		ct := &d.Members[i].Container
		ct.Name = containerName(lab, d.Engine, d.ID)
		ct.Labels = map[string]string{
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

// measured is what is known of a cell of the deployment, and under which id: its own, or
// the one that it had before its image was pinned, if the tag meant the same image then.
func (d *Deployment) measured(c *Cell, known map[string]results.Known) (id string, k results.Known, ok bool) {
	id = c.id(d.ID)
	k, ok = known[id]
	if d.byTag == "" || ok && k.Verdict != load.Void {
		return id, k, ok
	}
	byTag := c.id(d.byTag)
	if old, had := known[byTag]; had && old.Digest == d.digest && (!ok || old.Finished.After(k.Finished)) {
		return byTag, old, true
	}
	return id, k, ok
}

// compare holds every cell against what is known.
func (p *Plan) compare(opt Options) {
	earlier := newEarlier(p.Lab.Name, opt.Known)
	seen := newSeen(p.Lab.Name, opt.Seen)
	past := newHistory(opt.Known)
	for _, d := range p.Deployments {
		d.start = past.start(d.Engine.Label(), d.Host())
		for _, c := range d.Cells {
			c.Status = Measure
			id, k, ok := d.measured(c, opt.Known)
			if !ok {
				k, ok := earlier.nearest(c)
				c.takes = cmp.Or(past.takes(c), k.Took)
				if ok {
					c.Status, c.Why = Stale, difference(k.Identity, c.Identity())
				}
				continue
			}
			c.takes = cmp.Or(k.Took, past.takes(c))
			c.known(id, k, opt, seen)
		}
	}
}

// known sets the status of a cell of which there is a measurement.
func (c *Cell) known(id string, k results.Known, opt Options, seen *seen) {
	at := k.Finished.Local().Format(time.DateTime)
	c.Why = "measured " + at
	changed := seen.changes(c, k)
	switch {
	case opt.Rerun:
		c.Why += ", again because of --rerun"
	case k.Verdict == load.Void:
		c.Why = "the last attempt, " + at + ", brought no measurement"
	case opt.StrictFacts && len(changed) > 0:
		c.Status, c.Why = Stale, strings.Join(changed, ", ")
	default:
		c.Status, c.ID, c.Digest, c.HostChanged = Done, id, k.Digest, changed
		if k.Verdict != load.Valid {
			c.Why += ", " + k.Verdict
		}
		if h := c.deployment.Host().Name; k.Host != "" && k.Host != h {
			c.Why += ", on host " + k.Host
		}
		if len(changed) > 0 {
			c.Why += "; the host has changed since: " + strings.Join(changed, ", ")
		}
	}
}

// place is where a cell stands in a lab.
type place struct {
	benchmark, axes string
	repetition      int
}

// earlier are the measurements of a lab by their places.
type earlier map[place][]results.Known

// newEarlier takes what the lab itself has measured: of others, and of what was
// imported, nothing has become stale.
func newEarlier(lab string, known map[string]results.Known) earlier {
	all := earlier{}
	for _, k := range known {
		if k.Lab == lab && !k.Imported && k.Verdict != load.Void {
			at := place{k.Benchmark, k.Axes, k.Repetition}
			all[at] = append(all[at], k)
		}
	}
	return all
}

// nearest is the measurement at the cell's place that differs least from it; of several
// the newest.
func (e earlier) nearest(c *Cell) (results.Known, bool) {
	list := e[place{c.Benchmark, text(c.Axes), c.Repetition}]
	if len(list) == 0 {
		return results.Known{}, false
	}
	identity := c.Identity()
	return slices.MinFunc(list, func(a, b results.Known) int {
		return cmp.Or(len(differing(a.Identity, identity))-len(differing(b.Identity, identity)), b.Finished.Compare(a.Finished), cmp.Compare(b.RunID, a.RunID))
	}), true
}

// seen is what was seen of a lab's hosts.
type seen struct {
	then   map[[2]string]json.RawMessage // when a deployment was started, by run and deployment
	newest map[string]json.RawMessage    // by host
	facts  map[string]*provision.Facts   // read, by their text
}

func newSeen(lab string, all []results.Seen) *seen {
	s := &seen{map[[2]string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]*provision.Facts{}}
	for _, one := range all { // oldest first
		s.then[[2]string{one.RunID, one.Deployment}] = one.Facts
		if one.Lab == lab {
			s.newest[one.Host] = one.Facts
		}
	}
	return s
}

// changes says in what the host of a cell is not as it was when the cell was measured,
// as far as it was seen since.
func (s *seen) changes(c *Cell, k results.Known) []string {
	was, now := s.read(s.then[[2]string{k.RunID, k.Deployment}]), s.read(s.newest[c.deployment.Host().Name])
	c.Facts = was
	if was == nil || now == nil || was == now {
		return nil
	}
	return now.Differences(*was)
}

// read is facts as they were stored; nil where there are none, or nobody can read them.
func (s *seen) read(text json.RawMessage) *provision.Facts {
	if len(text) == 0 {
		return nil
	}
	f, ok := s.facts[string(text)]
	if !ok {
		f = new(provision.Facts)
		if json.Unmarshal(text, f) != nil {
			f = nil
		}
		s.facts[string(text)] = f
	}
	return f
}
