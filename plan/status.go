package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
)

// measured is what is known of a cell of the deployment, and under which id: its own, or
// the one that it had before its images were pinned, if the tags meant the same images then.
func (d *Deployment) measured(c *Cell, known map[string]results.Known) (id string, k results.Known, ok bool) {
	id = c.id(d.ID)
	k, ok = known[id]
	if d.byTag == "" || ok && k.Verdict != load.Void {
		return id, k, ok
	}
	byTag := c.id(d.byTag)
	old, had := known[byTag]
	for role, digest := range d.pinned {
		had = had && old.Digests[role] == digest
	}
	if had && (!ok || old.Finished.After(k.Finished)) {
		return byTag, old, true
	}
	return id, k, ok
}

func (p *Plan) compare(opt Options) {
	earlier := newEarlier(p.Lab.Name, opt.Known)
	seen := newSeen(p.Lab.Name, opt.Seen)
	past := newHistory(opt.Known)
	for _, d := range p.Deployments {
		d.start = past.starts[d.Engine.Label()+" "+d.Where()].Ready
		for _, c := range d.Cells {
			c.Status = Measure
			if s := c.Search(); s != nil {
				s.Tries = c.tried(opt.Known, opt, seen)
			}
			id, k, ok := d.measured(c, opt.Known)
			if !ok {
				k, ok := earlier.nearest(c)
				c.takes = cmp.Or(past.takes(c), k.Took)
				if ok {
					c.Status, c.Why = Stale, difference(k.Identity, c.Identity())
				}
				if c.Search() != nil {
					c.goesOn(nil)
				}
				continue
			}
			c.takes = cmp.Or(k.Took, past.takes(c))
			c.known(id, k, opt, seen)
			if s := c.Search(); s != nil && c.Status == Done {
				switch {
				case !k.Capacity.Outcome.Over || k.Capacity.Question != s.Asked():
					c.Status, c.Why = Measure, "it was not over"
					c.goesOn(k.Capacity)
				case s.lacks(&k.Capacity.Outcome):
					c.Status, c.Why = Measure, "a load of it brought no measurement"
					c.goesOn(k.Capacity)
				}
			}
		}
	}
}

func (c *Cell) known(id string, k results.Known, opt Options, seen *seen) {
	at := k.Finished.Local().Format(time.DateTime)
	c.Why, c.measured = "measured "+at, at
	changed := seen.changes(c, k)
	switch {
	case opt.Rerun:
		c.Why += ", again because of --rerun"
	case k.Verdict == load.Void:
		c.Why = "the last attempt, " + at + ", brought no measurement"
	case opt.StrictFacts && len(changed) > 0:
		c.Status, c.Why = Stale, strings.Join(changed, ", ")
	default:
		c.Status, c.ID, c.Run, c.Digests, c.HostChanged = Done, id, k.RunID, k.Digests, changed
		if k.Verdict != load.Valid {
			c.Why += ", " + k.Verdict
		}
		if h := c.deployment.Where(); k.Host != "" && k.Host != h {
			c.Why += ", on host " + k.Host
		}
		if len(changed) > 0 {
			c.Why += "; the host has changed since: " + strings.Join(changed, ", ")
		}
	}
}

type place struct {
	benchmark, axes string
	repetition      int
}

type earlier map[place][]results.Known

// newEarlier takes what the lab itself has measured: of others nothing has become stale.
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

// nearest is the measurement at the cell's place that is most like it; of several the newest.
func (e earlier) nearest(c *Cell) (results.Known, bool) {
	list := e[place{c.Benchmark, text(c.Axes), c.Repetition}]
	if len(list) == 0 {
		return results.Known{}, false
	}
	identity := c.Identity()
	return slices.MinFunc(list, func(a, b results.Known) int {
		apart := len(differing(a.Identity, identity)) - len(differing(b.Identity, identity))
		return cmp.Or(apart, b.Finished.Compare(a.Finished), cmp.Compare(b.RunID, a.RunID))
	}), true
}

func difference(old, now map[string]string) string {
	var parts []string
	for _, k := range differing(old, now) {
		was, had := old[k]
		is, has := now[k]
		switch {
		case !had:
			parts = append(parts, strings.TrimSpace("+ "+k+" "+is))
		case !has:
			parts = append(parts, strings.TrimSpace("- "+k+" "+was))
		default:
			parts = append(parts, fmt.Sprintf("%s %s → %s", k, cmp.Or(was, `""`), cmp.Or(is, `""`)))
		}
	}
	return strings.Join(parts, ", ")
}

// differing are the names of what separates two identities, sorted; the deployment, which
// sums others up, is none.
func differing(old, now map[string]string) []string {
	all := map[string]string{}
	maps.Copy(all, old)
	maps.Copy(all, now)
	maps.DeleteFunc(all, func(k, _ string) bool {
		was, had := old[k]
		is, has := now[k]
		return k == "deployment" || had == has && was == is
	})
	return slices.Sorted(maps.Keys(all))
}

// seen is what was seen of a lab's hosts.
type seen struct {
	then   map[[2]string]map[string]json.RawMessage // when a deployment was started, by run and deployment, by host
	newest map[string]json.RawMessage               // by host
	facts  map[string]*provision.Facts              // read, by their text
}

func newSeen(lab string, all []results.Seen) *seen {
	s := &seen{map[[2]string]map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]*provision.Facts{}}
	for _, one := range all { // oldest first
		of := [2]string{one.RunID, one.Deployment}
		if s.then[of] == nil {
			s.then[of] = map[string]json.RawMessage{}
		}
		s.then[of][one.Host] = one.Facts
		if one.Lab == lab {
			s.newest[one.Host] = one.Facts
		}
	}
	return s
}

// changes says in what the hosts of the deployment, and those that send the cell's load, are not as they were
// when the cell was measured. Of one that had another name then, and no other has, that is taken.
func (s *seen) changes(c *Cell, k results.Known) (all []string) {
	then, hosts := maps.Clone(s.then[[2]string{k.RunID, k.Deployment}]), c.deployment.needs([]*Cell{c})
	var renamed []*provision.Host
	texts := map[*provision.Host]json.RawMessage{}
	for _, h := range hosts {
		if text, same := then[h.Name]; same {
			texts[h] = text
		} else {
			renamed = append(renamed, h)
		}
	}
	for _, h := range c.deployment.needs(c.deployment.Cells) {
		delete(then, h.Name)
	}
	if len(renamed) == 1 && len(then) == 1 {
		texts[renamed[0]] = slices.Collect(maps.Values(then))[0]
	}
	c.Facts = map[*provision.Host]*provision.Facts{}
	for _, h := range hosts {
		was, now := s.read(texts[h]), s.read(s.newest[h.Name])
		if was == nil {
			continue
		}
		c.Facts[h] = was
		if now == nil || was == now {
			continue
		}
		for _, changed := range now.Differences(*was) {
			if len(hosts) > 1 {
				changed = h.Name + ": " + changed
			}
			all = append(all, changed)
		}
	}
	return all
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
