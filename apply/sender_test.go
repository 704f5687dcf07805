package apply_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/testhost"
)

// TestLoadFrom: load is sent from a host beside the engine's, to the one address
// that the engine listens on. What does not get through is said, and nothing is
// left on either.
func TestLoadFrom(t *testing.T) {
	t.Parallel()
	host, ref := engineOn(t, testhost.Options{GPU: "8xH200"}, map[string]string{"ENGINE_ITL": "10ms"})
	client := testhost.New(t, testhost.Options{Name: "client", Namespace: true})
	cabled, err := testhost.Cable(host, client)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, host)
	b.opt.SSH.KnownHosts = append(b.opt.SSH.KnownHosts, client.KnownHosts)
	listening := func(at string) string {
		lab := strings.Replace(one(ref, fmt.Sprintf("flags = { host = %q }\nenv = { ENGINE_ITL = \"100ms\" }", at), "from = host.client"),
			"%HOST%", "%HOST%\ngpus = \"8xH200\"", 1)
		return lab + fmt.Sprintf("\nhost \"client\" {\n%s\nruntime = \"process\"\n}\n", reached(client))
	}
	near := listening(cabled[0])
	inUse := false
	r := b.apply(t.Context(), near, func(e apply.Event) {
		if e.Type != apply.Begin || inUse {
			return
		}
		seen, err := apply.Status(t.Context(), apply.Scope{Lab: "other", Hosts: b.load(near).Hosts}, b.opt)
		if err != nil {
			t.Error(err)
		}
		for _, p := range seen {
			inUse = inUse || p.Host.Name == "client" && p.Reserved != nil
		}
	})
	if r.err != nil || r.Valid+r.Suspect != 2 || !inUse {
		t.Errorf("%+v, %v; the client is reserved: %v; events %+v", r.Outcome, r.err, inUse, r.events)
	}
	for _, row := range r.rows {
		if row.Summary == nil || row.Summary.Completed != 4 || row.Identity["load.from"] != "another host" {
			t.Errorf("row %v: %s %+v, identity %v", row.Axes, row.Error, row.Summary, row.Identity)
		} else if row.Summary.Duration > 1.5 { // enough readings
			checkEnergy(t, row)
		}
	}
	jobs := func(h *testhost.Host) int {
		logs, err := filepath.Glob(filepath.Join(h.Home, ".cache/hcl/agents/*/agent.log"))
		if err != nil || len(logs) != 1 {
			t.Fatalf("logs of agents: %v, %v", logs, err)
		}
		log, err := os.ReadFile(logs[0])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), "job started")
	}
	if here, there := jobs(client), jobs(host); here != 2 || there != 0 {
		t.Errorf("the client ran %d jobs and the engine's host %d, want 2 and 0", here, there)
	}
	b.clean()
	(&bench{TB: t, host: client}).noAgent()

	// The address of the host block is the test's way to it, and not the client's.
	b.store = newBench(t, host).store // where an engine listens counts for nothing
	r = b.apply(t.Context(), listening("0.0.0.0"), nil)
	if r.err != nil || r.Void != 2 || len(r.rows) != 2 || !strings.Contains(r.rows[0].Error, "does not reach the engine at "+host.IP) {
		t.Errorf("without a way: %+v, %v, %+v", r.Outcome, r.err, r.rows)
	}

	// A client that cannot be used leaves the engine's host as it is.
	client.Refuse(true)
	b.store = newBench(t, host).store
	r = b.apply(t.Context(), near, nil)
	failed := new(apply.HostError)
	if !errors.As(r.err, &failed) || failed.Host != "client" || len(r.rows) != 0 || !r.has(apply.Failed, "sends its load and cannot be used") {
		t.Errorf("without the client: %d rows, %v, events %+v", len(r.rows), r.err, r.events)
	}
	b.clean()
}
