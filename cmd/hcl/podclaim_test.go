package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Changes of the lab by which its root's pod does not begin.
var (
	noNode  = []string{"image =", "wait_for_node = \"10m\"\n  node_selector = { nobody = \"here\" }\n  image ="}
	noImage = []string{toolsImage, "127.0.0.1:9/nobody:1", `lease = "10m"`, `lease = "20s"`}
)

// root is the uid of the run's Job.
func (p *pods) root() string {
	p.Helper()
	return p.here("get", "jobs", "-l", "hcl.part=root", "-o", "jsonpath={.items[*].metadata.uid}")
}

// burn has the fuse of a run burn down in a second instead of minutes. There is none where an agent was quicker than the
// kill: it had its lease, and has ended all with that.
func (p *pods) burn() {
	p.Helper()
	name := p.here("get", "jobs", "-l", "hcl.part=fuse", "-o", "name")
	if name == "" {
		return
	}
	p.here("patch", name, "--type=merge", "-p", `{"spec": {"activeDeadlineSeconds": 1}}`)
}

// claimsPods: a run in a cluster is somebody's from its first object on, and ends by itself from then on.
func (c *sharedCluster) claimsPods(t *testing.T) {
	for name, test := range map[string]func(*pods){
		"second store":        (*pods).secondStore,
		"restarted agent":     (*pods).restartsAgent,
		"killed before agent": (*pods).killedBeforeAgent,
		"killed before image": (*pods).killedBeforeImage,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			test(c.pods(t, podLab))
		})
	}
}

// secondStore: a run whose root waits for a node is not ended by another store's callers, unless by force.
func (p *pods) secondStore() {
	p.edit(noNode...)
	p.begin()
	p.await("step", "no node yet", 1)
	other := &pods{scene{person: newLocal(p.T, p.text())}, p.cluster, p.namespace}
	other.env = p.env
	was := p.root()
	other.tells("status", exitDone, "moai", p.holder())
	other.tells("apply --auto-approve", exitFailed, "is in use by "+p.holder(), "for lab fault")
	other.tells("destroy", exitFailed, "is in use by "+p.holder())
	if now := p.root(); now != was || was == "" {
		p.Errorf("the root was %s and is %s", was, now)
	}
	p.kill()
	other.tells("destroy", exitFailed, "is in use by ") // for minutes, as on a host for the rest of its lease
	other.tells("destroy --force", exitDone)
	p.gone(time.Minute)
}

// holder is how others name who runs the apply.
func (p *pods) holder() string {
	p.Helper()
	return p.here("get", "jobs", "-l", "hcl.part=root", "-o", `jsonpath={.items[0].metadata.annotations.hcl\.holder}`)
}

// restartsAgent: an agent in a root's pod that is killed is started again, and nothing is lost.
func (p *pods) restartsAgent() {
	p.reach(midCell)
	p.paused(func() {
		root := p.here("get", "pods", "-l", "hcl.part=root", "-o", "jsonpath={.items[0].metadata.name}")
		p.here("exec", root, "--", "sh", "-c", `kill -9 $(cat ${HOME%/}/.cache/hcl/agents/*/lock)`)
	})
	if code := p.end(10 * time.Minute); code != exitDone && code != exitCells || p.kept != faultCells {
		p.Errorf("exit %d with %d cells of %d\n%s", code, p.kept, faultCells, p.told())
	}
	p.gone(2 * time.Minute)
}

// killedBeforeAgent: a run whose caller is gone before an agent has its lease ends with the lease; its fuse, which
// has no pod, burns down later.
func (p *pods) killedBeforeAgent() {
	p.edit(`lease = "10m"`, `lease = "20s"`)
	p.begin()
	p.await("step", "starts it", 1)
	must(p, p.cmd.Process.Signal(os.Kill))
	eventually(p.T, "its root is gone", 3*time.Minute, func() bool { return p.root() == "" && !strings.Contains(p.objects(), "pod/") })
	p.burn()
	p.gone(time.Minute)
}

// killedBeforeImage: so does one whose image cannot be pulled, after minutes.
func (p *pods) killedBeforeImage() {
	p.edit(noImage...)
	p.begin()
	p.await("step", "cannot pull", 1)
	must(p, p.cmd.Process.Signal(os.Kill))
	const most = "320" // for a node, for the image, and the lease
	if ends := p.here("get", "jobs", "-l", "hcl.part=fuse", "-o", "jsonpath={.items[*].spec.activeDeadlineSeconds}"); ends != most {
		p.Errorf("it ends after %s s, want %s", ends, most)
	}
	p.burn()
	p.gone(2 * time.Minute)
}
