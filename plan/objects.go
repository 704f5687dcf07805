package plan

import (
	"strings"

	"hclbench/plain"
)

// Cluster is what the plan makes in a Kubernetes cluster, and what the cluster says of it: whoever carries
// plans out fills it in, see [Plan.Clusters].
type Cluster struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace,omitempty"`
	Version   string   `json:"version,omitempty"` // of its API server
	Error     string   `json:"error,omitempty"`   // why it was not asked of all
	Objects   []Object `json:"objects"`
}

// Object is one that the plan makes, as `kubectl apply` takes it. In place of the run's id, which nobody
// knows yet, stands "plan".
type Object struct {
	Kind     string         `json:"kind"`
	Name     string         `json:"name"`
	Host     string         `json:"host,omitempty"`    // that the pod is
	Engine   string         `json:"engine,omitempty"`  // whose manifests it is of
	Refused  string         `json:"refused,omitempty"` // why the cluster would not take it, and what to do
	Adds     []string       `json:"adds,omitempty"`    // what the cluster itself would set
	Manifest map[string]any `json:"manifest"`
	YAML     string         `json:"-"`
}

// cluster says what a cluster is asked for, and what it says.
func (t *printer) cluster(c Cluster) {
	t.printf("\ncluster %s", c.Name)
	if about := strings.Trim(c.Version+", namespace "+c.Namespace, ", "); c.Namespace != "" {
		t.printf(" (%s)", about)
	}
	t.printf("\n")
	if c.Error != "" {
		t.wrapped("  ! ", "nobody asked it whether it takes what follows: "+c.Error)
	}
	for i, o := range c.Objects {
		t.printf("  %s %s", strings.ToLower(o.Kind), o.Name)
		if o.Host != "" {
			t.printf(" for host %s", o.Host)
		}
		if o.Engine != "" {
			t.printf(" of %s", o.Engine)
		}
		t.printf("\n")
		switch {
		case o.Refused == "":
		case i > 0 && o.Refused == c.Objects[i-1].Refused:
			t.printf("    ! refused likewise\n")
		default:
			t.wrapped("    ! refused: ", o.Refused)
		}
		for _, add := range o.Adds {
			t.wrapped("    the cluster adds ", add)
		}
	}
}

// wrapped writes what somebody else says, in lines below each other.
func (t *printer) wrapped(name, text string) {
	lines := plain.Wrap(strings.Fields(text), " ", pageWidth-len(name))
	t.printf("%s%s\n", name, strings.Join(lines, "\n"+strings.Repeat(" ", len(name))))
}

// yaml writes the objects as one stream, between "---" and "...".
func (t *printer) yaml(clusters []Cluster) {
	wrote := false
	for _, c := range clusters {
		for _, o := range c.Objects {
			if o.YAML != "" { // one of manifests is in its file
				t.printf("\n---\n%s", strings.TrimSpace(o.YAML))
				wrote = true
			}
		}
	}
	if wrote {
		t.printf("\n...\n")
	}
}
