package plan

import (
	"fmt"
	"strings"

	"hclbench/plain"
)

// objects writes what an engine of manifests is made of, and what is waited for.
func (t *printer) objects(d *Deployment) {
	m := d.Engine.Manifests
	if m == nil {
		return
	}
	var list []string
	for _, o := range m.Objects {
		list = append(list, o.String())
	}
	t.printf("    made in the cluster: %s\n", strings.Join(list, ", "))
	for _, a := range m.Wait {
		t.printf("    waited for: %s\n", strings.TrimSpace(fmt.Sprintf("%s %s", a.Kind, a.Name))+" is "+a.Condition)
	}
	for _, r := range m.Roles {
		pods := "pods"
		if r.Instances > 0 {
			pods = plain.Count(r.Instances, "pod")
		}
		t.printf("    %s: %s with %s\n", r.Name, pods, r.Selector)
	}
	if t.verbose {
		for _, o := range m.Objects {
			t.printf("    %s\n", o.Text)
		}
	}
}
