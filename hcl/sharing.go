package hcl

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/engines"
	"hclbench/provision"
)

// checkSharing finds engines that cannot share their host. A host runs one
// engine at a time, but for those that name GPUs of which none is another's:
// they run side by side, and cannot listen on the same port.
func (l *lab) checkSharing(c *Config) {
	instances := map[*engines.Engine]*instance{}
	for _, d := range l.order {
		all := []*declared{d}
		if d.isGroup() {
			all = d.members
		}
		for _, m := range all {
			for _, i := range m.instances {
				if e, ok := i.value.(*engines.Engine); ok {
					instances[e] = i
				}
			}
		}
	}
	hosts := map[*provision.Host][]*engines.Engine{}
	seen := map[*engines.Engine]bool{}
	for _, b := range c.Benchmarks {
		for _, cell := range b.Cells {
			e := cell.Engine
			if seen[e] || e.Host == nil || len(e.Container.GPUIDs) == 0 {
				continue
			}
			seen[e] = true
			for _, other := range hosts[e.Host] {
				if !disjoint(e.Container.GPUIDs, other.Container.GPUIDs) || engines.Port(e) != engines.Port(other) {
					continue
				}
				at, note := l.where(instances[e], "port")
				if instances[e].of == instances[other].of {
					l.errOnce(at, "Port used twice", "In some cells %s uses the GPUs %s and in others %s, so it is started more than once side by side on host.%s, and always listens on port %d. Give each a port of its own, such as\n\n    port = %d + matrix.AXIS%s",
						e.Address(), inGPUs(other), inGPUs(e), e.Host.Name, engines.Port(e), engines.Port(e), note)
					continue
				}
				l.errOnce(at, "Port used twice", "%s and %s run side by side on host.%s, since their GPUs differ (%s and %s), but both listen on port %d. Give each a port of its own, such as\n\n    port = %d%s",
					other.Address(), e.Address(), e.Host.Name, inGPUs(other), inGPUs(e), engines.Port(e), freePort(e, hosts[e.Host]), note)
			}
			hosts[e.Host] = append(hosts[e.Host], e)
		}
	}
}

func disjoint(a, b []string) bool {
	return !slices.ContainsFunc(a, func(id string) bool { return slices.Contains(b, id) })
}

func inGPUs(e *engines.Engine) string {
	return fmt.Sprintf("[%s]", strings.Join(e.Container.GPUIDs, ", "))
}

func freePort(e *engines.Engine, others []*engines.Engine) int {
	port := engines.Port(e)
	for slices.ContainsFunc(others, func(o *engines.Engine) bool { return engines.Port(o) == port }) {
		port++
	}
	return port
}
