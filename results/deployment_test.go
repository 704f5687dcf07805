package results

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMembers: members come out of a store as they went in; hosts and GPUs of all are
// added up. A deployment that was stored without is of one, and an engine that somebody
// else runs has none.
func TestMembers(t *testing.T) {
	member := func(role string, rank int, host string) Member {
		return Member{
			Role: role, Rank: rank, Host: host, GPUs: "8xH200", Image: "vllm/vllm-openai:v0.7.3", Digest: "sha256:abc",
			Command: []string{"vllm", "serve"}, Facts: json.RawMessage(`{"os":"linux"}`), GPUCount: 4, Price: 28.5,
			Versions: map[string]string{"vllm": "0.7.3"}, Listener: &Listener{Proved: true, By: "its process"},
		}
	}
	router := Member{Role: "router", Host: "cpu", Image: "router:1", Command: []string{"route"}, Price: 0.5}
	other, free := member("decode", 0, "b"), member("serve", 1, "b")
	spare := member("router", 0, "b")
	other.GPUs, other.Price, free.Price, spare.GPUCount = "8xB200", 50, 0, 0
	s := open(t, t.TempDir())
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	for name, c := range map[string]struct {
		members []Member
		want    Deployment // hosts and GPUs of all
	}{
		"one":            {[]Member{member("serve", 0, "a")}, Deployment{Host: "a", GPUs: "8xH200", GPUCount: 4, PricePerHour: 28.5}},
		"two ranks":      {[]Member{member("serve", 0, "a"), member("serve", 1, "b")}, Deployment{Host: "a, b", GPUs: "16xH200", GPUCount: 8, PricePerHour: 57}},
		"two on a host":  {[]Member{member("prefill", 0, "a"), member("decode", 0, "a")}, Deployment{Host: "a", GPUs: "8xH200", GPUCount: 8, PricePerHour: 28.5}},
		"two models":     {[]Member{member("prefill", 0, "a"), other, member("prefill", 1, "c")}, Deployment{Host: "a, b, c", GPUs: "16xH200, 8xB200", GPUCount: 12, PricePerHour: 107}},
		"no price":       {[]Member{member("serve", 0, "a"), free}, Deployment{Host: "a, b", GPUs: "16xH200", GPUCount: 8}},
		"router on GPUs": {[]Member{member("serve", 0, "a"), spare}, Deployment{Host: "a, b", GPUs: "8xH200", GPUCount: 4, PricePerHour: 57}},
		"router beside":  {[]Member{{Role: "router", Host: "a", GPUs: "8xH200", Price: 28.5}, member("serve", 0, "a")}, Deployment{Host: "a", GPUs: "8xH200", GPUCount: 4, PricePerHour: 28.5}},
		"and a router":   {[]Member{member("serve", 0, "a"), router}, Deployment{Host: "a, cpu", GPUs: "8xH200", GPUCount: 4, PricePerHour: 29}},
	} {
		d := testDeployment("r1")
		d.SetMembers(c.members)
		d.Clients = map[string]json.RawMessage{"client": json.RawMessage(`{"os":"linux"}`)}
		check(t, s.PutDeployment(t.Context(), d))
		stored, err := s.Deployments(t.Context(), "r1")
		check(t, err)
		got := stored[0]
		if diff := cmp.Diff(d.Clients, got.Clients); diff != "" || got.seen("lab")[len(got.seen("lab"))-1].Host != "client" {
			t.Errorf("%s: clients (-want +got):\n%s%v", name, diff, got.seen("lab"))
		}
		if diff := cmp.Diff(c.members, got.All()); diff != "" {
			t.Errorf("%s: All (-want +got):\n%s", name, diff)
		}
		if whole := (Deployment{Host: got.Host, GPUs: got.GPUs, GPUCount: got.GPUCount, PricePerHour: got.PricePerHour}); !cmp.Equal(whole, c.want) {
			t.Errorf("%s: %+v; want %+v", name, whole, c.want)
		}
	}
	d := testDeployment("r1")
	d.SetMembers([]Member{member("prefill", 0, "a"), other, router})
	d.Members[1].Digest = "sha256:def"
	check(t, s.PutDeployment(t.Context(), d))
	check(t, s.PutCell(t.Context(), testCell("r1", "c1"), nil))
	known, err := s.Known(t.Context())
	check(t, err)
	if diff := cmp.Diff(map[string]string{"prefill": "sha256:abc", "decode": "sha256:def", "router": ""}, known["c1"].Digests); diff != "" {
		t.Errorf("what is known of its images (-want +got):\n%s", diff)
	}
	external := Deployment{Engine: "external.api", Host: "elsewhere"}
	if all := external.All(); len(all) > 0 {
		t.Errorf("members of an engine that somebody else runs: %v", all)
	}
}

// TestStreamInterval: of a group that counts which its members that generate are given.
func TestStreamInterval(t *testing.T) {
	for want, identity := range map[int]map[string]string{
		0: {"--tp": "8"}, 10: {"--stream-interval": "10"}, 20: {"prefill.--stream-interval": "1", "decode.--stream-interval": "20"},
		30: {"serve.config.stream_interval": "30"},
	} {
		if got := (&Deployment{Identity: identity}).StreamInterval(); got != want {
			t.Errorf("%v: %d, want %d", identity, got, want)
		}
	}
}

// TestBatchInvariant: an engine is batch invariant where it was told to be.
func TestBatchInvariant(t *testing.T) {
	for _, x := range []struct {
		name, value string
		want        bool
	}{{"env VLLM_BATCH_INVARIANT", "1", true}, {"env VLLM_BATCH_INVARIANT", "0", false}, {"--enable-deterministic-inference", "", true},
		{"--enable-deterministic-inference", "false", false}, {"prefill.env VLLM_BATCH_INVARIANT", "1", false}} {
		if got := (&Deployment{Identity: map[string]string{x.name: x.value}}).BatchInvariant(); got != x.want {
			t.Errorf("%s=%s: %v", x.name, x.value, got)
		}
	}
}

// TestServedBy: what members say they run with is found under their names; of one alone it is
// what is stored.
func TestServedBy(t *testing.T) {
	alone := Deployment{Command: []string{"serve"}, Served: json.RawMessage(`{"a":1}`)}
	if got := string(alone.ServedBy(alone.All()[0])); got != `{"a":1}` {
		t.Errorf("of one: %s", got)
	}
	d := Deployment{Served: json.RawMessage(`{"decode 1 rank 2":{"a":2},"router":{"a":3}}`)}
	d.SetMembers([]Member{{Role: "decode", Instance: 1, Rank: 2}, {Role: "router"}, {Role: "prefill"}})
	for i, want := range []string{`{"a":2}`, `{"a":3}`, ""} {
		if got := string(d.ServedBy(d.Members[i])); got != want {
			t.Errorf("of %s: %s, want %s", d.Members[i].Name(), got, want)
		}
	}
	for _, odd := range []string{"", "[1]", `"text"`, "null"} {
		d.Served = json.RawMessage(odd)
		if got := d.ServedBy(d.Members[0]); got != nil {
			t.Errorf("of %q: %s", odd, got)
		}
	}
}
