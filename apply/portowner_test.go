package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
)

// TestJudge: whose a socket is, by who is seen to hold it from outside and from
// inside of the engine's container.
func TestJudge(t *testing.T) {
	const engine, other = "the engine's", "another's"
	held := func(inode uint64, in ...string) provision.Listener {
		l := provision.Listener{Inode: inode}
		for _, c := range in {
			l.Holders = append(l.Holders, provision.Holder{PID: 7, Container: c})
		}
		return l
	}
	for _, c := range []struct {
		name                 string
		seen                 provision.Listener
		own                  bool
		inside               []provision.Listener
		ours, theirs, unseen int
	}{
		{name: "its container holds it", seen: held(1, engine), ours: 1},
		{name: "a server and a helper that it forked", seen: held(1, "", engine), ours: 1},
		{name: "another container holds it", seen: held(1, other), theirs: 1},
		{name: "a process of the host holds it", seen: held(1, ""), theirs: 1},
		{name: "nobody is seen", seen: held(1), unseen: 1},
		{name: "nobody is seen, and the user would see the engine", seen: held(1), own: true, theirs: 1},
		{name: "seen from inside", seen: held(1), inside: []provision.Listener{held(1, "")}, ours: 1},
		{name: "not seen from inside", seen: held(1), inside: []provision.Listener{held(2, ""), held(1)}, theirs: 1},
		{name: "a control group that names no container, seen from inside", seen: held(1, ""), inside: []provision.Listener{held(1, "")}, ours: 1},
		{name: "inside is another network", seen: held(1), inside: []provision.Listener{held(2, "")}, unseen: 1},
		{name: "another's, and inside is another network", seen: held(1, other), inside: []provision.Listener{held(2, "")}, theirs: 1},
	} {
		found := judge([]provision.Listener{c.seen}, func(h provision.Holder) bool { return h.Container == engine }, c.own, c.inside)
		got := [3]int{len(found[our]), len(found[their]), len(found[unseen])}
		if diff := cmp.Diff([3]int{c.ours, c.theirs, c.unseen}, got); diff != "" {
			t.Errorf("%s: ours, theirs, unseen (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestAddresses: of several servers each is looked at where its own requests come.
func TestAddresses(t *testing.T) {
	var hosts []*provision.Host
	for i := range 3 {
		h := &provision.Host{Name: fmt.Sprint("n", i), Address: fmt.Sprint("198.51.100.", i)}
		h.Fabric.Address = fmt.Sprint("10.0.0.", i)
		hosts = append(hosts, h)
	}
	serve := &engines.Engine{Kind: engines.Sim, Image: "sim:1"}
	e := &engines.Engine{Kind: engines.GroupKind, Name: "g", Placement: engines.Placement{
		{Role: engines.Serve, Engine: serve, Hosts: hosts[:1]}, {Role: engines.Serve, Engine: serve, Hosts: hosts[1:2]},
	}}
	w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 8}, Requests: 1, Concurrency: 1, OutputTokens: 1}
	var cells []hcl.Cell
	for _, from := range [][]*provision.Host{nil, hosts[2:]} {
		cells = append(cells, hcl.Cell{Engine: e, Workload: w, From: from})
	}
	d := plan.New(&hcl.Config{Hosts: hosts, Benchmarks: []hcl.Benchmark{{Name: "b", Cells: cells}}}, plan.Options{}).Deployments[0]
	for i, want := range []string{"[127.0.0.1 198.51.100.0]", "[127.0.0.1 10.0.0.1 198.51.100.1]"} {
		if got := fmt.Sprint(addresses(d, &member{Member: d.Members[i]})); got != want {
			t.Errorf("server %d: %s, want %s", i, got, want)
		}
	}
}

func TestOlderOrNot(t *testing.T) {
	host := &provision.Host{Name: "box", Pos: "lab.hcl:3"}
	engine := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after time.Duration
		want  string // of the proof; empty: it is older
	}{
		{4500 * time.Millisecond, "the server on port 8000 says that it started 4.5 s after the engine was"},
		{-time.Second, "the server on port 8000 says that it started 0.0 s after the engine was"},
		{-time.Hour, ""},
	} {
		got, err := olderOrNot(host, 8000, engine.Add(c.after), engine)
		if c.want == "" {
			if !errors.Is(err, provision.ErrPortTaken) || !strings.Contains(err.Error(), "host box (lab.hcl:3)") {
				t.Errorf("started %s after: %+v, %v", c.after, got, err)
			}
			continue
		}
		if err != nil || !got.Proved || got.By != c.want {
			t.Errorf("started %s after: %+v, %v, want %q", c.after, got, err, c.want)
		}
	}
}
