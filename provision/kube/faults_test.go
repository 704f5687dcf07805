package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/testhost"
)

// refusals are runs and pods that cannot begin. Each says why, and leaves nothing.
func (b *bench) refusals() {
	t, c := b.t, b.open()
	r := b.begin(c, "r1")
	c.patience.room, c.patience.pull = 0, 0
	file := []provision.Mount{{Source: "/etc/passwd", Target: "/models"}}
	for _, tt := range []struct {
		spec PodSpec
		kind error
		want string
	}{
		{PodSpec{Host: b.host("big", 9), Image: image}, provision.ErrNoRoom, "no node has room for it: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu"},
		{PodSpec{Host: b.host("tag", 0), Image: "vllm/vllm-openai:v9"}, provision.ErrImageNotFound, "image vllm/vllm-openai:v9 cannot be pulled"},
		{PodSpec{Host: b.host("name", 0), Image: "Not/An Image"}, provision.ErrImageNotFound, "image Not/An Image cannot be pulled"},
		{PodSpec{Host: b.host("file", 0), Image: image, Mounts: file}, provision.ErrNoBegin, "its container cannot begin: FailedMount: "},
	} {
		_, err := r.Pod(t.Context(), tt.spec, b.say)
		testhost.WantError(t, err, tt.kind, "host "+tt.spec.Host.Name+" (lab.hcl:12): pod hcl-r1-"+tt.spec.Host.Name+"-", tt.want)
	}
	c.patience = usual
	if pods, err := r.Pods(t.Context()); err != nil || len(pods) > 0 {
		t.Errorf("pods of failures = %v, %v", pods, err)
	}
	testhost.OK(t, r.End(t.Context()))

	b.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {pods: 1, requests.nvidia.com/gpu: 4}}}")
	b.kubectl("-n", b.name, "wait", "--for=jsonpath={.status.hard.pods}=1", "resourcequota/small")
	findings, err := c.Check(t.Context(), []PodSpec{{Host: b.host("a", 8), Image: image}})
	testhost.OK(t, err)
	b.blocked(findings, "quota small", "requests.nvidia.com/gpu: 4 of 4 free")
	b.blocked(findings, "quota small", "pods: 1 of 1 free")
	r = b.begin(c, "r2")
	_, err = r.Pod(t.Context(), PodSpec{Host: b.host("a", 4), Image: image}, b.say)
	testhost.WantError(t, err, provision.ErrNoRoom, "make pod hcl-r2-a-1: cluster moai (lab.hcl:3): ", "exceeded quota: small", "a quota of namespace refusals is used up", "describe quota -n refusals")
	_, err = c.Begin(t.Context(), b.of("r3"), b.say)
	testhost.WantError(t, err, provision.ErrNoRoom, "cluster moai (lab.hcl:3): the root's pod was not made", "exceeded quota")
	testhost.OK(t, r.End(t.Context()))
	b.kubectl("-n", b.name, "delete", "resourcequota", "small")

	b.kubectl("label", "namespace", b.name, "pod-security.kubernetes.io/enforce=baseline")
	findings, err = c.Check(t.Context(), []PodSpec{{Host: b.host("a", 1), Image: image, Privileged: true}})
	testhost.OK(t, err)
	b.blocked(findings, "pods", `violates PodSecurity "baseline`)
	b.empty()
}

func (b *bench) blocked(findings []provision.Finding, check, have string) {
	b.t.Helper()
	b.found(findings, provision.Blocked, check, have)
}

func (b *bench) found(findings []provision.Finding, level provision.Level, check, have string) {
	b.t.Helper()
	for _, f := range findings {
		if f.Check == check && f.Level == level && strings.Contains(f.Have, have) && (f.Advice != "") == (level != provision.OK) {
			return
		}
	}
	b.t.Errorf("findings = %+v, want %s %s: %s", findings, check, level, have)
}

// losses are pods that end without us.
func (b *bench) losses() {
	t, c := b.t, b.open()
	r := b.begin(c, "r1")
	p := b.pod(r, "a", 0)
	conn := b.connect(p)
	b.kubectl("-n", b.name, "delete", "pod", p.Name())
	_, err := p.State(t.Context())
	testhost.WantError(t, err, provision.ErrPodLost, "host a (lab.hcl:12): pod "+p.Name()+" is not there any more: somebody deleted it")
	_, err = conn.Run(t.Context(), "true", nil)
	testhost.WantError(t, err, provision.ErrPodLost, "is not there any more")

	p = b.pod(r, "b", 0)
	b.hold(p, `["example.com/hold"]`)
	evict := b.Kubectl("create", "--raw", c.in("pods/"+p.Name()+"/eviction"), "-f", "-")
	evict.Stdin = strings.NewReader(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "` + p.Name() + `"}}`)
	if out, err := evict.CombinedOutput(); err != nil {
		t.Fatalf("evict: %v: %s", err, out)
	}
	_, err = p.State(t.Context())
	testhost.WantError(t, err, provision.ErrPodLost, "pod "+p.Name()+" is lost: somebody evicted it, as `kubectl drain` does", "describe pod "+p.Name()+"` shows it")
	b.hold(p, "null")

	p = b.pod(r, "c", 0)
	_, _ = b.connect(p).Run(t.Context(), "kill -TERM 1", nil)
	for {
		s, err := p.State(t.Context())
		testhost.OK(t, err)
		if !s.Running {
			if s.ExitCode != 0 || s.Finished.IsZero() {
				t.Errorf("state of a pod that ended = %+v", s)
			}
			break
		}
	}
	b.kubectl("delete", "namespace", b.name)
	_, err = r.Pod(t.Context(), PodSpec{Host: b.host("d", 0), Image: image}, b.say)
	testhost.WantError(t, err, provision.ErrForbidden, `namespaces "losses" not found: make it (`, "create namespace losses`)")
	testhost.OK(t, r.End(t.Context()))
}

// agentThere is what looks as an agent does to the first process of a pod.
const agentThere = `d=${HOME%/}/.cache/hcl/agents/x; mkdir -p $d; touch $d/sock
	sh -c 'while :; do sleep 1; done' agent --dir $d >/dev/null 2>&1 & echo $! >$d/lock`

// endsAlone is a run whose caller is gone: when the agent's process in the root ends, so does all. One that is killed
// may come again.
func (b *bench) endsAlone() {
	t, c := b.t, b.open()
	r := b.begin(c, "r1")
	b.pod(r, "a", 0)
	b.apply("{apiVersion: v1, kind: Pod, metadata: {name: other, labels: {hcl.lab: theirs}}, spec: {containers: [{name: c, image: " + image + ", command: [sleep, '1000']}]}}")
	conn := b.connect(r.Self())
	run := func(command string) {
		t.Helper()
		_, err := conn.Run(t.Context(), command, nil)
		testhost.OK(t, err)
	}
	run(agentThere)
	testhost.OK(t, r.Keep(t.Context()))
	if jobs := b.kubectl("-n", b.name, "get", "jobs", "-o", "name"); jobs != "job.batch/hcl-r1" {
		t.Errorf("jobs of a run that is kept = %s", jobs)
	}
	if owners := b.kubectl("-n", b.name, "get", "job", "hcl-r1", "-o", "jsonpath={.metadata.ownerReferences}"); owners != "" {
		t.Errorf("a root that is kept is owned by %s", owners)
	}
	run("sleep 3; kill -9 $(cat ~/.cache/hcl/agents/x/lock); sleep 5; " + agentThere)
	if _, alive := r.Alive(t.Context()); !alive {
		t.Error("a root whose agent was killed, and came again, has ended")
	}
	run("sleep 3; kill $(cat ~/.cache/hcl/agents/x/lock); rm ~/.cache/hcl/agents/x/sock")
	begin := time.Now()
	b.kubectl("-n", b.name, "wait", "--for=delete", "--timeout=3m", "pod", "-l", r.selector())
	b.kubectl("-n", b.name, "wait", "--for=delete", "--timeout=1m", "job", "-l", r.selector())
	t.Logf("all was gone %s after the agent", time.Since(begin).Round(time.Second))
	if found, err := c.Find(t.Context(), ""); err != nil || len(found) > 0 {
		t.Errorf("found = %+v, %v", found, err)
	}
	if left := b.kubectl("-n", b.name, "get", "pods", "-o", "name"); left != "pod/other" {
		t.Errorf("pods = %s, want that of somebody else", left)
	}
}

// neverBegun is a run whose caller is gone before an agent ran: the cluster ends it when its fuse is out, also when its
// image cannot be pulled. Until then others find it at work.
func (b *bench) neverBegun() {
	t := b.t
	b.cluster.Image = "hcl.test/nobody:1"
	c := b.open()
	r := &Root{RunOf: b.of("r1"), client: c}
	ctx, gone := context.WithCancel(t.Context())
	go r.begin(ctx, b.say) // and nobody ends what it made
	b.kubectl("-n", b.name, "wait", "--for=create", "--timeout=1m", "pod", "-l", r.selector())
	gone()
	found, err := c.Find(t.Context(), r.Lab)
	if err != nil || len(found) != 1 {
		t.Fatalf("found = %+v, %v", found, err)
	}
	begun := time.Now()
	if until, alive := found[0].Alive(t.Context()); !alive || until.Before(begun) || until.After(begun.Add(20*time.Minute)) {
		t.Errorf("alive = %v until %s, want a few minutes after %s", alive, until, begun)
	}
	if other, err := c.Find(t.Context(), "another lab"); err != nil || len(other) > 0 {
		t.Errorf("of another lab = %+v, %v", other, err)
	}
	b.kubectl("-n", b.name, "patch", "job", "hcl-r1-fuse", "--type=merge", "-p", `{"spec": {"activeDeadlineSeconds": 1}}`) // instead of minutes
	b.kubectl("-n", b.name, "wait", "--for=delete", "--timeout=1m", "job", "-l", r.selector())
	b.kubectl("-n", b.name, "wait", "--for=delete", "--timeout=1m", "pod", "-l", r.selector())
	b.empty()
}

// otherStore is a run of the same name and lab that another store has made: only its own ends it.
func (b *bench) otherStore() {
	t, c := b.t, b.open()
	r := b.begin(c, "r1")
	theirs := &Root{RunOf: r.RunOf, client: c}
	theirs.Store = "bob"
	testhost.OK(t, theirs.End(t.Context()))
	if _, alive := r.Alive(t.Context()); !alive {
		t.Error("another store has ended it")
	}
	testhost.OK(t, r.End(t.Context()))
	b.empty()
}

// hold gives a pod finalizers.
func (b *bench) hold(p *Pod, list string) {
	b.kubectl("-n", b.name, "patch", "pod", p.Name(), "--type=merge", "-p", `{"metadata":{"finalizers":`+list+`}}`)
}

// leftBehind is what does not go: said, with who holds it.
func (b *bench) leftBehind() {
	t, c := b.t, b.open()
	r := b.begin(c, "r1")
	p := b.pod(r, "a", 0)
	b.hold(p, `["example.com/hold"]`)
	c.patience.going = time.Second
	err := r.End(t.Context())
	testhost.WantError(t, err, provision.ErrUnclean, "cluster moai (lab.hcl:3): not all is gone after ", "pod "+p.Name()+": finalizer example.com/hold holds it",
		"-n left-behind get pod "+p.Name()+" -o yaml` shows it")
	b.kubectl("-n", b.name, "wait", "--for=delete", "--timeout=1m", "pod/"+r.Self().Name())
	found, err := c.Find(t.Context(), r.Lab)
	if err != nil || len(found) != 1 {
		t.Fatalf("found = %+v, %v", found, err)
	}
	b.hold(p, "null")
	c.patience = usual
	testhost.OK(t, found[0].End(t.Context()))
	b.empty()
}

// serverAway is an API server that is gone for a while.
func (b *bench) serverAway() {
	t, c := b.t, b.open()
	r := b.begin(c, "r1")
	conn := b.connect(r.Self())
	ended := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		p := conn.Pipe("echo begun; sleep 1000")
		line := make([]byte, 6)
		_, _ = p.Read(line)
		close(begun)
		_, err := p.Read(line)
		ended <- err
	}()
	<-begun
	back := b.Away(t, b.Control, "apiserver")
	testhost.WantError(t, <-ended, provision.ErrUnreachable, "the connection to pod "+r.Self().Name()+" was lost while it ran")
	_, err := Open(t.Context(), b.cluster, nil)
	testhost.WantError(t, err, provision.ErrUnreachable, "cluster moai (lab.hcl:3): its API server", "does not answer")
	told := make(chan string, 1)
	go func() {
		out, err := conn.Run(t.Context(), "cat /proc/1/comm", nil) // it waits
		told <- fmt.Sprint(out, err)
	}()
	time.AfterFunc(3*time.Second, back)
	if got := <-told; got != "sh\n<nil>" {
		t.Errorf("a command when the API server is back = %q", got)
	}
	testhost.OK(t, r.End(t.Context()))
	b.empty()
}

// nodeAway is a node that has fallen silent: its pods are lost, and cannot be deleted.
func (b *bench) nodeAway() {
	t, c := b.t, b.open()
	r := b.begin(c, "r1")
	p := b.pod(r, "a", 0)
	node := b.Nodes[0]
	if p.Node() != node.Name {
		node = b.Nodes[1]
	}
	back := b.Away(t, node, "kubelet")
	b.kubectl("patch", "node", node.Name, "--subresource=status", "-p", // as the cluster itself does later
		`{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-22T15:30:00Z"}]}}`)
	_, err := p.State(t.Context())
	testhost.WantError(t, err, provision.ErrPodLost, "pod "+p.Name()+" is lost: its node "+node.Name+" has not answered since ")
	c.patience.going = time.Second
	testhost.WantError(t, r.End(t.Context()), provision.ErrUnclean, "pod "+p.Name()+": its node "+node.Name+" does not answer; when that is gone for good, ", "--force")
	back()
	c.patience = usual
	testhost.OK(t, r.End(t.Context()))
	b.empty()
}

// login is a kubeconfig with another user.
func (b *bench) login(user ...string) (file string) {
	b.t.Helper()
	text, err := os.ReadFile(b.Kubeconfig)
	testhost.OK(b.t, err)
	file = filepath.Join(b.t.TempDir(), "config")
	testhost.OK(b.t, os.WriteFile(file, text, 0o600))
	b.kubectl(append([]string{"--kubeconfig", file, "config", "set-credentials", "other"}, user...)...)
	b.kubectl("--kubeconfig", file, "config", "set-context", "--current", "--user=other")
	return file
}

// kubeconfig are logins that are none.
func (b *bench) kubeconfig() {
	t := b.t
	open := func(change func(c *provision.Cluster)) error {
		c := *b.cluster
		change(&c)
		_, err := Open(t.Context(), &c, nil)
		return err
	}
	err := open(func(c *provision.Cluster) { c.Context = "lab" })
	testhost.WantError(t, err, nil, `cluster moai (lab.hcl:3): read its kubeconfig: there is no context "lab" in `+b.Kubeconfig+": it has ")
	err = open(func(c *provision.Cluster) { c.Kubeconfig = "/no/such/file" })
	testhost.WantError(t, err, nil, "cluster moai (lab.hcl:3): read its kubeconfig: ", "/no/such/file")
	with := func(user ...string) error {
		return open(func(c *provision.Cluster) { c.Kubeconfig = b.login(user...) })
	}
	err = with("--token=expired")
	testhost.WantError(t, err, provision.ErrAuth, "cluster moai (lab.hcl:3): it does not let in user \"other\" of context", "the credentials may have expired", "auth whoami")
	err = with("--exec-command=false", "--exec-api-version=client.authentication.k8s.io/v1", "--exec-interactive-mode=Never")
	testhost.WantError(t, err, provision.ErrAuth, "getting credentials: exec: executable false failed with exit code 1", "run it by hand")
}

// rights are those of a login that may do little.
func (b *bench) rights() {
	t := b.t
	token := b.kubectl("-n", b.name, "create", "token", "default")
	b.apply(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: some}, rules: [
		{apiGroups: [""], resources: [pods], verbs: [get, list]}, {apiGroups: [batch], resources: [jobs], verbs: ["*"]}]}`)
	b.apply(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: some},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}, subjects: [{kind: ServiceAccount, name: default}]}`)
	b.cluster.Kubeconfig = b.login("--token=" + token)
	c := b.open()
	findings, err := c.Check(t.Context(), []PodSpec{{Host: b.host("a", 8), Image: image}})
	testhost.OK(t, err)
	b.blocked(findings, "rights", "may not create pods, delete pods, create pods/exec")
	r := b.begin(c, "r1")
	_, err = r.Pod(t.Context(), PodSpec{Host: b.host("a", 8), Image: image}, b.say)
	testhost.WantError(t, err, provision.ErrForbidden, "make pod hcl-r1-a-1: cluster moai (lab.hcl:3): ", `cannot create resource "pods"`, "ask who runs the cluster for that right")
	_, err = reach.Through(t.Context(), r.Self().Host(), r.Self().Transport(), nil)
	testhost.WantError(t, err, provision.ErrForbidden, "cluster moai (lab.hcl:3): ", "pods/exec")
	testhost.OK(t, r.End(t.Context()))
	b.empty()
}
