package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"hclbench/provision"
)

// TestNoPods: of a role without pods it is told what the cluster complains of: of what the engine has made
// and what came of that, not of what others have.
func TestNoPods(t *testing.T) {
	const (
		base    = "/apis/apps/v1/namespaces/bench/"
		warning = `{"type": "Warning", "reason": "FailedCreate", "message": %q, "lastTimestamp": "2026-01-02T03:04:%02dZ",
			"involvedObject": {"apiVersion": %q, "kind": %q, "name": %q, "uid": %q}}`
		quota   = `pods "decode-1" is forbidden: exceeded quota: small`
		ownedBy = `{"metadata": {"uid": "2", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "decode", "uid": %q}]}}`
		ofApps  = `{"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": true},
			{"name": "replicasets", "kind": "ReplicaSet", "namespaced": true}]}`
		deployed = `{"metadata": {"uid": "9"}}`
	)
	answers := map[string]string{
		"/apis/apps/v1":                 ofApps,
		base + "replicasets/decode-a":   fmt.Sprintf(ownedBy, "1"),
		base + "replicasets/theirs-a":   fmt.Sprintf(ownedBy, "9"),
		base + "deployments/decode":     deployed,
		"/api/v1/namespaces/bench/pods": `{"items": []}`,
		"/api/v1/namespaces/bench/events": `{"items": [` + strings.Join([]string{
			fmt.Sprintf(warning, quota, 3, "apps/v1", "ReplicaSet", "decode-a", "2"),
			fmt.Sprintf(warning, "an older one", 1, "apps/v1", "ReplicaSet", "decode-a", "2"),
			fmt.Sprintf(warning, "of others", 5, "apps/v1", "ReplicaSet", "theirs-a", "3"),
			fmt.Sprintf(warning, "of a kind that is gone", 6, "gone/v1", "Gone", "gone", "4"),
		}, ",") + `]}`,
	}
	c, _ := asked(t, func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, text)
	})
	m := &Made{
		root: &Root{client: c}, known: map[string][]resource{}, its: map[string]bool{}, seen: map[string]bool{},
		objects: []madeObject{{thing: thing{uid: "1"}}},
	}
	lack, err := m.serves(t.Context(), provision.PodRole{Name: "decode", Instances: 2})
	want := "role decode: 0 of 2 ready: ReplicaSet decode-a: FailedCreate: " + quota
	if err != nil || len(lack) != 1 || lack[0] != want {
		t.Errorf("lack = %q, %v, want %q", lack, err, want)
	}
}
