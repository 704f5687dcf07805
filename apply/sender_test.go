package apply_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/apply/place"
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
		seen, err := place.Status(t.Context(), place.Scope{Lab: "other", Hosts: b.load(near).Hosts}, b.opt.Options)
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

// TestLoadFromSeveral: three clients send one load, each prompt once, and are measured as one. A
// client that cannot send its share is named, and nothing is measured without it.
func TestLoadFromSeveral(t *testing.T) {
	t.Parallel()
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_ITL": "5ms"})
	clients := make([]*testhost.Host, 3)
	for i := range clients {
		clients[i] = testhost.New(t, testhost.Options{Name: fmt.Sprint("c", i), Namespace: true})
	}
	cabled, err := testhost.Cable(append([]*testhost.Host{host}, clients...)...)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, host)
	lab := one(ref, fmt.Sprintf("flags = { host = %q }", cabled[0]), "from = [host.c0, host.c1, host.c2]")
	lab = strings.NewReplacer("requests = 4", "requests = 30", "concurrency = 2", "concurrency = 6", "[4, 8]", "[4]").Replace(lab)
	for i, c := range clients {
		b.opt.SSH.KnownHosts = append(b.opt.SSH.KnownHosts, c.KnownHosts)
		lab += fmt.Sprintf("\nhost \"c%d\" {\n%s\nruntime = \"process\"\n}\n", i, reached(c))
	}
	r := b.apply(t.Context(), lab, nil)
	if r.err != nil || len(r.rows) != 1 {
		t.Fatalf("%+v, %v; events %+v", r.Outcome, r.err, r.events)
	}
	for _, row := range r.rows {
		s := row.Summary
		if s == nil || s.Completed != 30 || len(s.Clients) != 3 || row.Identity["load.from"] != "another host, another host, another host" {
			t.Fatalf("row %v: %s %+v, identity %v", row.Axes, row.Error, s, row.Identity)
		}
		for i, c := range s.Clients {
			if c.Host != fmt.Sprint("c", i) || c.Requests != 10 || c.Completed != 10 || c.Clock.Within <= 0 || c.Clock.Within > 1000 {
				t.Errorf("client %d: %+v", i, c)
			}
		}
		records, err := b.store.Records(t.Context(), row.RunID, row.ID)
		if err != nil {
			t.Fatal(err)
		}
		seen, by := map[int]bool{}, [3]int{}
		for i, x := range records {
			seen[x.Seq] = true
			if by[x.Client]++; x.Client != x.Seq%6%3 || i > 0 && x.Sent < records[i-1].Sent {
				t.Errorf("request %d of client %d, at %v", x.Seq, x.Client, x.Sent)
			}
		}
		if len(records) != 30 || len(seen) != 30 || by != [3]int{10, 10, 10} {
			t.Errorf("%d records, %d of them different; by client %v", len(records), len(seen), by)
		}
	}
	b.clean()

	// None has room for its streams.
	wide := strings.NewReplacer("concurrency = 6", `rate = "inf"`, "requests = 30", "requests = 5000000").Replace(lab)
	b.store = newBench(t, host).store
	if r = b.apply(t.Context(), wide, nil); r.err != nil || r.Void != 1 || !strings.Contains(r.rows[0].Error, "sends a part of the load: ") ||
		!strings.Contains(r.rows[0].Error, "open files, and the limit is") {
		t.Errorf("without room: %+v, %v, %+v", r.Outcome, r.err, r.rows)
	}
	b.clean()
}
