package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// nodes are three hosts on a network of their own, and somebody with a lab of them: prefill on
// the first, decode over the two others, SGLang's router beside prefill.
type nodes struct {
	scene
	hosts []*testhost.Host
	freed func() error // ends what takes a port; nil: nothing does
}

const nodesLab = `
lab "nodes" { lease = "%LEASE%" }
model "m" { repo = "m" }
dataset "random" "d" {
  input_tokens = 64
}
engine "sglang" "prefill" {
  model = model.m
  image = "lmsysorg/sglang:v0.5.8"
  flags = { tp-size = 8, enable-metrics = true }
  ready {
    timeout = "60s"
  }
  container {
    stop_grace = "%GRACE%"
    ulimits    = { memlock = null }
  }
}
engine "sglang" "decode" {
  inherits = engine.sglang.prefill
  flags    = { tp-size = 16 }
  env      = { DECODE = "fault" }
}
group "pd" {
  role "prefill" {
    engine = engine.sglang.prefill
    on     = [host.n1]
  }
  role "decode" {
    engine = engine.sglang.decode
    on     = [host.n2, host.n3]
    span   = 2
  }
  router "sglang" {
    host  = host.n1
    image = "lmsysorg/sgl-model-gateway:v0.3.2"
    env   = { ROUTER = "fault" }
    container { ulimits = { nofile = null } } # which the daemon of a test host may not raise
  }
  transfer = "nixl"
}
benchmark "b" {
  engine   = group.pd
  dataset  = dataset.random.d
  requests = 16
  load {
    concurrency   = 4
    output_tokens = 16
    stall         = "2s"
  }
}
`

func newNodes(t *testing.T, opt testhost.Options) *nodes {
	t.Helper()
	n := &nodes{scene: scene{lease: 5 * time.Second}}
	opt.Namespace, opt.GPU = true, "8xH200"
	for i := range 3 {
		opt.Name = fmt.Sprintf("n%d", i+1)
		n.hosts = append(n.hosts, testhost.New(t, opt))
	}
	at, err := testhost.Cable(n.hosts...)
	must(t, err)
	text := strings.NewReplacer("%LEASE%", n.lease.String(), "%GRACE%", faultGrace.String()).Replace(nodesLab)
	for i, h := range n.hosts {
		text += fmt.Sprintf("host \"n%d\" {\n%s\ngpus = \"8xH200\"\nfabric {\naddress = %q\n}\n}\n", i+1, reached(h), at[i])
	}
	n.person, n.host, n.others = newPerson(t, n.hosts[0], text), n.hosts[0], n.hosts[1:]
	for _, h := range n.others {
		n.knows(h)
	}
	n.env = []string{"HF_ENDPOINT=http://127.0.0.1:9"} // discard: nobody listens
	return n
}

// TestCheckFabric looks at three hosts, then with a firewall between two of them, and with a
// fabric block that is wrong.
func TestCheckFabric(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testhost.Options{})
	n.edit("gpus = \"8xH200\"", "gpus = \"8xH200\"\nruntime = \"process\"", "image = \"lmsysorg/sglang:v0.5.8\"", "",
		"image = \"lmsysorg/sgl-model-gateway:v0.3.2\"", "", "ulimits    = { memlock = null }", "",
		"container { ulimits = { nofile = null } }", "")
	n.tells("check --fabric", exitDone, "fabric of n1, n2, n3\n", "192.0.2.1 on fabric",
		"every host reaches every other on 6 ports and on one that its kernel picks")
	if said := n.tells("check", exitDone); strings.Contains(said, "fabric") {
		t.Errorf("without --fabric:\n%s", said)
	}
	n.tells("check --measure", exitUsage, "--measure does nothing without --fabric")
	for _, h := range n.hosts {
		if left, err := h.Processes(); err != nil || len(left) > 0 {
			t.Errorf("left on %s: %+v, %v", h.Name, left, err)
		}
	}

	testhost.Do(t, n.hosts[2], "iptables -A INPUT -p tcp --syn -s 192.0.2.2 -j REJECT")
	var shown struct {
		Fabrics []struct {
			Hosts    []string
			Level    string
			Findings []struct{ Level, Check, Have string }
		}
	}
	out, said, code := n.run("check", "--fabric", "--json")
	must(t, json.Unmarshal([]byte(out), &shown))
	if code != exitContract || len(shown.Fabrics) != 1 || shown.Fabrics[0].Level != "blocked" ||
		!strings.Contains(out, "n2 does not reach n3 at 192.0.2.3 on port") || !strings.Contains(said, "of 1 fabric between hosts, 1 cannot be used") {
		t.Errorf("with a firewall: exit %d\n%s%s", code, out, said)
	}

	testhost.Do(t, n.hosts[2], "iptables -F")
	n.edit(`"192.0.2.3"`, `"192.0.2.9"`)
	n.tells("check --fabric", exitContract, "none of its network interfaces has the address 192.0.2.9", "n1 does not reach n3 at 192.0.2.9 on port")
}

// nodesFault is something that goes wrong with an engine over three hosts.
type nodesFault struct {
	name   string
	often  bool     // in TestNodesFaults; all others are in TestSlowNodesFaults
	edit   []string // of the lab
	at     moment   // when it strikes; none: before apply
	strike func(n *nodes)
	undo   func(n *nodes)
	says   []string
	lost   int // host that its caller has lost, from 1; it has to be clean within the lease and the grace
}

// environment has the members of a role run with a switch of the simulation.
func environment(role, name, value string) []string {
	return []string{strings.ToUpper(role) + ` = "fault"`, fmt.Sprintf("%s = %q", name, value)}
}

// onNode runs a command on a host, where it has to succeed.
func onNode(host int, command string) func(*nodes) {
	return func(n *nodes) { testhost.Do(n.T, n.hosts[host-1], command) }
}

// killMember kills the container of a member, "router", on a host.
func killMember(host int, member string) func(*nodes) {
	return onNode(host, fmt.Sprintf("docker kill $(docker ps --quiet --filter 'label=hcl.member=%s')", member))
}

var (
	loading    = environment("decode", "HCL_SIM_NOT_READY_FOR", "1h")
	isStarting = moment{name: "as a member starts", kind: "step", text: "starting", nth: 1}
)

// cutOff is for a worker that is cut off from its router before that looks for it.
var cutOff = append(environment("decode", "HCL_SIM_NOT_READY_FOR", "10s"), `timeout = "60s"`, `timeout = "30s"`)

var nodesFaults = []nodesFault{
	{name: "a rank dies while it loads", edit: loading, at: midLoad, strike: killMember(3, "decode 0 rank 1"), says: []string{"decode 0 rank 1", "137"}},
	{name: "a rank dies before it is ready", edit: environment("decode", "HCL_SIM_DIE_AFTER", "200ms"), says: []string{"decode 0", "told to die"}},
	{name: "a rank dies in mid-cell", often: true, at: midCell, strike: killMember(3, "decode 0 rank 1"), says: []string{"decode 0 rank 1", "137"}},
	{name: "a router dies in mid-cell", at: midCell, strike: killMember(1, "router"), says: []string{"router", "137"}},
	{name: "a rank hangs before it is ready", edit: append([]string{`timeout = "60s"`, `timeout = "60s"
    stall = "5s"`}, environment("decode", "HCL_SIM_NOT_READY_FOR", "1h")...), says: []string{"decode 0", "nothing has moved for 5s"}},
	{name: "a rank hangs in mid-cell", edit: append([]string{"requests = 16", "requests = 4000"}, environment("decode", "HCL_SIM_HANG_AFTER", "40")...),
		says: []string{"every request in flight has stalled, with no token for", "it no longer answers"}},
	{name: "a host is lost", often: true, at: midCell, lost: 3, strike: func(n *nodes) { must(n, n.hosts[2].Link(false)) },
		undo: func(n *nodes) { must(n, n.hosts[2].Link(true)) }, says: []string{"n3", "out of reach"}},
	{name: "a link is cut before the start", often: true, strike: onNode(2, "ip link set fabric1 down"), undo: onNode(2, "ip link set fabric1 up"),
		says: []string{"n1 does not reach n2 at 192.0.2.2", "n2 does not reach n1 at 192.0.2.1"}},
	{name: "a link is cut in mid-cell", at: midCell, strike: onNode(2, "ip link set fabric1 down"), undo: onNode(2, "ip link set fabric1 up"),
		says: []string{"no longer answers"}},
	{name: "the wrong interface", edit: []string{`address = "192.0.2.3"`, "address = \"192.0.2.3\"\ninterface = \"eno7\""}, says: []string{"n3", "no network interface eno7"}},
	{name: "a port is taken", strike: (*nodes).takePort, undo: func(n *nodes) { must(n, n.freed()) }, says: []string{"n2", "20064", "in use"}},
	{name: "images differ", strike: func(n *nodes) { n.images(2, map[string]string{"ENGINE_ITL": "12ms"}) }, undo: func(n *nodes) { n.images(2, nil) },
		says: []string{"n2", "n3", "have to run the same"}},
	{name: "a router is up with a dead worker", edit: cutOff, at: isStarting,
		strike: onNode(2, "iptables -A INPUT -p tcp -s 192.0.2.1 --dport 20064 -j DROP"), undo: onNode(2, "iptables -F INPUT"),
		says: []string{"router", "insufficient healthy workers"}},
	{name: "a router says that a dead worker is well", edit: append(environment("router", "HCL_SIM_COUNT_DEAD", "true"), cutOff...), at: isStarting,
		strike: onNode(2, "iptables -A INPUT -p tcp -s 192.0.2.1 --dport 20064 -j REJECT"), undo: onNode(2, "iptables -F INPUT"),
		says: []string{"router", "error sending request for url"}},
	{name: "decode prefills by itself", edit: environment("decode", "HCL_SIM_LOCAL_PREFILL", "true"), says: []string{"prefill has handed over 0 of 16 requests"}},
	{name: "wrong text with 200", often: true, edit: environment("decode", "HCL_SIM_WRONG_TEXT", "3"), says: []string{"same prompt at temperature 0 is answered with"}},
	{name: "a circuit breaker opens", edit: environment("router", "HCL_SIM_BREAK_AFTER", "10"), says: []string{"circuits open"}},
	{name: "a hand-over is lost", edit: environment("decode", "HCL_SIM_LOSE_KV", "10"), says: []string{"failures"}},
}

// takePort has somebody listen where decode will.
func (n *nodes) takePort() {
	l, err := n.hosts[1].Listen(net.JoinHostPort("0.0.0.0", "20064"))
	must(n, err)
	n.freed = l.Close
}

// images gives a host, from 0, the images that the lab names.
func (n *nodes) images(host int, more map[string]string) {
	env := map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "10ms"}
	maps.Copy(env, more)
	for _, ref := range []string{"lmsysorg/sglang:v0.5.8", "lmsysorg/sgl-model-gateway:v0.3.2"} {
		n.hosts[host].PushEngine(n.T, ref, env)
	}
}

// anew gives the lab its first text with an edit, and forgets what was measured.
func (n *nodes) anew(text string, edit []string) {
	n.write(strings.NewReplacer(edit...).Replace(text))
	must(n, os.RemoveAll(filepath.Join(n.lab, ".hcl")))
	n.kept, n.void = 0, 0
}

// newWhole are nodes with a Docker each and the images of the lab, whose text is returned.
func newWhole(t *testing.T) (n *nodes, text string) {
	n = newNodes(t, testhost.Options{Docker: true, Registry: true})
	for i := range n.hosts {
		n.images(i, nil)
	}
	return n, n.text()
}

// TestNodesFaults breaks some of what can break of an engine over three hosts with a Docker each.
// After each fault the user has read what it was, and nothing is left on any of them.
func TestNodesFaults(t *testing.T) {
	t.Parallel()
	n, text := newWhole(t)
	t.Run("undisturbed", func(t *testing.T) {
		n.T = t
		n.begin()
		if code := n.end(3 * time.Minute); code != exitDone && code != exitCells || n.kept != 1 {
			t.Fatalf("exit %d with %d cells\n%s", code, n.kept, n.told())
		}
		n.gone(30 * time.Second)
	})
	for _, f := range nodesFaults {
		if f.often {
			n.befalls(t, text, f)
		}
	}
}

// TestSlowNodesFaults breaks all the rest, on two sets of hosts.
func TestSlowNodesFaults(t *testing.T) {
	t.Parallel()
	rest := slices.DeleteFunc(slices.Clone(nodesFaults), func(f nodesFault) bool { return f.often })
	t.Run("rest", func(t *testing.T) {
		t.Parallel()
		n, text := newWhole(t)
		for _, f := range rest {
			n.befalls(t, text, f)
		}
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		n, text := newWhole(t)
		whole, takes := n.T, 15*time.Second
		for i := range soaks(t, 10) / 5 {
			t.Run(fmt.Sprintf("kill-%d", i), func(t *testing.T) {
				n.T = t
				n.anew(text, nil)
				phase, _ := n.killAtRandom(&takes)
				n.gone(n.lease + faultGrace)
				t.Logf("killed while %s", phase)
			})
		}
		n.anew(text, []string{"memlock = null", "memlock = null, nofile = null"}) // with RDMA more files are asked for
		t.Run("measured", n.measured)
		n.T = whole
	})
}

// befalls plays the scene of a fault.
func (n *nodes) befalls(t *testing.T, text string, f nodesFault) {
	t.Run(strings.ReplaceAll(f.name, " ", "-"), func(t *testing.T) {
		whole := n.T
		n.T = t
		defer func() { n.T = whole }()
		if f.at == midCell { // which does not end by itself
			f.edit = append([]string{"output_tokens = 16", "output_tokens = 256", "requests = 16", "requests = 4000"}, f.edit...)
		}
		n.anew(text, f.edit)
		if f.undo != nil {
			t.Cleanup(func() { f.undo(n) })
		}
		if f.at.kind == "" {
			if f.strike != nil {
				f.strike(n)
			}
			n.begin()
		} else {
			n.reach(f.at)
			f.strike(n)
		}
		if f.lost > 0 {
			eventually(t, "the lost host has cleaned itself", n.lease+faultGrace, func() bool { return len(n.leftOn(n.hosts[f.lost-1])) == 0 })
		}
		code := n.end(2 * time.Minute)
		if code == exitDone {
			t.Errorf("exit %d: it is said to have gone well", code)
		}
		for _, says := range f.says {
			if !strings.Contains(n.told(), says) {
				t.Errorf("nobody is told %q: exit %d\n%s", says, code, n.told())
				break
			}
		}
		if f.lost > 0 {
			f.undo(n) // before it is looked at again
		}
		n.gone(30 * time.Second)
	})
}
