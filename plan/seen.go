package plan

import (
	"encoding/json"

	"hclbench/provision"
	"hclbench/results"
)

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
