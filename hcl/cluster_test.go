package hcl

import (
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// TestNamespaces: two clusters with hosts in one namespace would take each other's pods for what is left.
func TestNamespaces(t *testing.T) {
	const lab = `
cluster "h200" {
  namespace = "bench"
  image     = "debian:12"
}
cluster "mi300" {
  namespace     = "%s"
  image         = "debian:12"
  node_selector = { "gpu.vendor" = "amd" }
}
host "a" { cluster = cluster.h200 }
host "b" { cluster = cluster.%s }
`
	const want = "cluster.h200 and cluster.mi300 put their pods into the same namespace"
	for _, tt := range []struct {
		namespace, cluster string
		bad                bool
	}{
		{"bench", "mi300", true},
		{"bench-amd", "mi300", false},
		{"bench", "h200", false}, // nothing is in the other
	} {
		_, p := loadText(t, strings.NewReplacer("%s\"", tt.namespace+"\"", "%s }", tt.cluster+" }").Replace(lab), lang.Vars{})
		if got := strings.Contains(printed(t, p), want); got != tt.bad || p.HasErrors() != tt.bad {
			t.Errorf("%+v: %s", tt, printed(t, p))
		}
	}
}
