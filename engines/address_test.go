package engines

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/provision"
)

// TestRemoteURLsOfService: only pods of its own block know a service by its name, which other namespaces
// and other machines do not.
func TestRemoteURLsOfService(t *testing.T) {
	a, b := &provision.Cluster{Name: "a", Namespace: "a"}, &provision.Cluster{Name: "b", Namespace: "b"}
	e := &Engine{Kind: Operated, Placement: On(&provision.Host{Name: "client", Cluster: a}), Manifests: &Manifests{Service: "web:80"}}
	const want = "its service has a name that only pods in its namespace know. Send from hosts of cluster.a"
	for from, want := range map[*provision.Host]string{
		{Name: "other", Cluster: a}: "[http://web:80] <nil>", {Name: "there", Cluster: b}: want, {Name: "box", Address: "box"}: want,
	} {
		urls, err := RemoteURLs(e, from)
		if got := fmt.Sprint(urls, " ", err); !strings.Contains(got, want) {
			t.Errorf("from %s: %s, want %s", from.Name, got, want)
		}
	}
}
