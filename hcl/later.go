package hcl

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// NotCarriedOut returns what the lab's cells ask for that this version can read
// and plan, but not do. It is empty for a lab that can be applied; it looks only
// at the cells that are in the Config when it is called. A rehearsal, on this
// machine and with simulated engines, needs no hosts.
func (c *Config) NotCarriedOut(rehearsal bool) *Problems {
	out := &Problems{files: map[string][]byte{}, seen: map[problemKey]bool{}}
	if c.text != nil {
		out.files, out.outside, out.hidden, out.bodies = c.text.files, c.text.outside, c.text.hidden, c.text.bodies
	}
	const summary = "Not carried out yet"
	add := func(place, pos, format string, args ...any) {
		at, ok := c.places[place]
		if !ok {
			at.Filename, _, _ = strings.Cut(pos, ":")
		}
		out.add(SeverityError, at, summary, fmt.Sprintf(format, args...))
	}
	for _, b := range c.Benchmarks {
		for _, cell := range b.Cells {
			if rehearsal {
				continue
			}
			if cell.From != nil {
				add(b.Name+" load.from", b.Pos, "This version reads and plans the argument from of load blocks, but sends the load from the engine's own host only. Remove it for now.")
			}
		}
	}
	out.sort()
	out.addContext(out.bodies)
	return out
}

// place notes where something stands that NotCarriedOut may name.
func (l *lab) place(name string, at hcl.Range) {
	if _, known := l.places[name]; !known {
		l.places[name] = at
	}
}
