package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"hclbench/provision"
)

// says is an API server with these answers, and no others; "403" is one that may not be seen.
func says(answers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch text, ok := answers[r.URL.Path]; {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		case text == "403":
			w.WriteHeader(http.StatusForbidden)
		case text == "503":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, text)
		}
	}
}

// TestNumbersInNames: what an image is called says nothing of why it cannot be pulled.
func TestNumbersInNames(t *testing.T) {
	const image = "140398765.dkr.ecr.example.com:5404/denied@sha256:4017"
	message := `failed to pull and unpack image "` + image + `": dial tcp 10.0.0.1:443: i/o timeout`
	s := pulling(because{Reason: "ErrImagePull", Message: message}, nil, image, usual)
	if s.after != usual.pull || !strings.Contains(s.why, "the way from the node to the registry") {
		t.Errorf("it is seen as %+v", s)
	}
	message = `failed to pull "` + image + `": unexpected status: 401 Unauthorized`
	if s = pulling(because{Reason: "ErrImagePull", Message: message}, nil, image, usual); s.after != 0 {
		t.Errorf("a login that is not taken is seen as %+v", s)
	}
}

// TestStrangers: of a service it is told what is not known to be the engine's own, and what nobody may see.
func TestStrangers(t *testing.T) {
	const (
		base   = "/api/v1/namespaces/bench/"
		behind = "/apis/discovery.k8s.io/v1/namespaces/bench/endpointslices"
		kinds  = `{"resources": [{"name": "pods", "kind": "Pod", "namespaced": true}, {"name": "services", "kind": "Service", "namespaced": true}]}`
	)
	object := func(uid, owner string) string {
		return fmt.Sprintf(`{"metadata": {"uid": %q, "ownerReferences": [{"apiVersion": "v1", "kind": "Gateway", "name": "g", "uid": %q}]}}`, uid, owner)
	}
	slice := func(target string) string {
		return `{"items": [{"endpoints": [{"addresses": ["10.0.0.9"]` + target + `}]}]}`
	}
	pod := func(name, uid string) string {
		return slice(fmt.Sprintf(`, "targetRef": {"kind": "Pod", "name": %q, "uid": %q}`, name, uid))
	}
	for name, tt := range map[string]struct {
		service, behind, pod string // uid of the pod's owner
		want                 string
	}{
		"its own":               {object("service", "made"), pod("p", "p"), "made", ""},
		"of a role":             {object("made", "root"), pod("p", "seen"), "nobody", ""},
		"an operator's":         {object("service", "made"), pod("theirs", "t"), "nobody", "pod theirs behind service front is not known to be of this engine"},
		"without a pod":         {object("made", "root"), slice(""), "", "10.0.0.9 behind service front is not known to be of this engine"},
		"nobody may see it":     {object("made", "root"), "403", "", "what is behind service front cannot be listed"},
		"somebody else's":       {object("service", "theirs"), pod("p", "p"), "made", "service front was not made by this engine"},
		"there is no such name": {"", "", "", "service front was not made by this engine"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{
				"/api/v1": kinds, behind: tt.behind, base + "pods/p": object("p", tt.pod), base + "pods/theirs": object("t", tt.pod),
			}
			if tt.service != "" {
				answers[base+"services/front"] = tt.service
			}
			c, _ := asked(t, says(answers))
			m := made(&Root{client: c}, nil)
			m.objects, m.seen["seen"] = []madeObject{{thing: thing{uid: "made"}}}, true
			got := m.Strangers(t.Context(), "front")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
		})
	}
}

// TestUsed: a namespace is in use when there is anything in it, in whatever version, and when nobody can say.
func TestUsed(t *testing.T) {
	const (
		groups = `{"groups": [{"name": "x.io", "versions": [{"groupVersion": "x.io/v1"}, {"groupVersion": "x.io/v1beta1"}],
			"preferredVersion": {"groupVersion": "x.io/v1"}}]}`
		none   = `{"resources": []}`
		grants = `{"resources": [{"name": "grants", "namespaced": true, "verbs": ["create", "list"]}]}`
		at     = "/apis/x.io/v1beta1/namespaces/bench/grants"
	)
	for name, tt := range map[string]struct {
		beta, things string
		used         bool
		says         string
	}{
		"empty":             {grants, `{"items": []}`, false, ""},
		"in an old version": {grants, `{"items": [{"metadata": {"name": "theirs"}}]}`, true, ""},
		"not to be seen":    {grants, "403", true, ""},
		"one that is down":  {"503", "", true, "namespace bench stays, since nobody can say what is in it: ask for the kinds of x.io/v1beta1"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := asked(t, says(map[string]string{
				"/apis": groups, "/api/v1": none, "/apis/x.io/v1": none, "/apis/x.io/v1beta1": tt.beta, at: tt.things,
			}))
			said := ""
			c.say = func(what string) { said += what }
			if used := c.used(t.Context()); used != tt.used || !strings.HasPrefix(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("used = %v, it says %q", used, said)
			}
		})
	}
}

// TestFuse: a root has an end before it has an agent: that of a Job which makes no pod.
func TestFuse(t *testing.T) {
	c := &provision.Cluster{Name: "moai", Image: "busybox", WaitForNode: 60e9}
	fuse := FuseManifest(c, "bench", RunOf{Lab: "l", Run: "r", Lease: 20e9, Deadline: 3600e9})
	spec := fuse["spec"].(object)
	if spec["parallelism"] != 0 || spec["activeDeadlineSeconds"] != 60+180+20 || spec["ttlSecondsAfterFinished"] != 0 {
		t.Errorf("the fuse is %v", spec)
	}
	root := RootManifest(c, "bench", RunOf{Lab: "l", Run: "r"}, "uid")
	owner := root["metadata"].(object)["ownerReferences"].([]any)[0].(object)
	if owner["name"] != fuse["metadata"].(object)["name"] || owner["uid"] != "uid" {
		t.Errorf("the root's owner is %v", owner)
	}
}
