package results

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMembers: whatever the members of a deployment have in common, they come out as
// they went in, also from a store.
func TestMembers(t *testing.T) {
	member := func(role string, instance, rank int, host string) Member {
		return Member{
			Role: role, Instance: instance, Rank: rank, Host: host, GPUs: "8xH200", Image: "vllm/vllm-openai:v0.7.3", Digest: "sha256:abc",
			Command: []string{"vllm", "serve"}, Facts: json.RawMessage(`{"os":"linux"}`), GPUCount: 4, Price: 28.5,
			Versions: map[string]string{"vllm": "0.7.3"}, Listener: &Listener{Proved: true, By: "its process"},
		}
	}
	other := member("router", 0, 0, "cpu")
	other.GPUs, other.Image, other.Command, other.Facts, other.GPUCount, other.Price = "", "router:1", []string{"route"}, json.RawMessage(`{"os":"bsd"}`), 0, 0.5
	s := open(t, t.TempDir())
	check(t, s.BeginRun(t.Context(), testRun("r1")))
	for name, c := range map[string]struct {
		members []Member
		want    Deployment // hosts and GPUs of all
		own     int        // bytes of what is a member's own
	}{
		"none":                {nil, Deployment{}, 0},
		"one":                 {[]Member{member("serve", 0, 0, "a")}, Deployment{Host: "a", GPUs: "8xH200", GPUCount: 4, PricePerHour: 28.5}, 50},
		"two ranks":           {[]Member{member("serve", 0, 0, "a"), member("serve", 0, 1, "b")}, Deployment{Host: "a, b", GPUs: "16xH200", GPUCount: 8, PricePerHour: 57}, 250},
		"two on a host":       {[]Member{member("prefill", 0, 0, "a"), member("decode", 0, 0, "a")}, Deployment{Host: "a", GPUs: "8xH200", GPUCount: 8, PricePerHour: 28.5}, 250},
		"of different images": {[]Member{member("serve", 0, 0, "a"), member("serve", 1, 0, "b"), other}, Deployment{Host: "a, b, cpu", GPUs: "16xH200", GPUCount: 8, PricePerHour: 57.5}, 600},
	} {
		d := testDeployment("r1")
		d.SetMembers(c.members)
		check(t, s.PutDeployment(t.Context(), d))
		all, _, err := readDeployments(t.Context(), s.db, "r1")
		check(t, err)
		got := all[0]
		if diff := cmp.Diff(c.members, got.All()); diff != "" {
			t.Errorf("%s: All (-want +got):\n%s", name, diff)
		}
		if whole := (Deployment{Host: got.Host, GPUs: got.GPUs, GPUCount: got.GPUCount, PricePerHour: got.PricePerHour}); !cmp.Equal(whole, c.want) {
			t.Errorf("%s: %+v; want %+v", name, whole, c.want)
		}
		if own, _ := json.Marshal(got.Members); len(own) > c.own+4 {
			t.Errorf("%s: what is a member's own: %s", name, own)
		}
	}
}

// TestMembersOfOld: a deployment that was stored without members is of one; one of an
// engine that somebody else runs has none.
func TestMembersOfOld(t *testing.T) {
	d := testDeployment("r1")
	want := []Member{{
		Host: d.Host, GPUs: d.GPUs, Image: d.Image, Digest: d.Digest, Command: d.Command, Facts: d.Facts,
		GPUCount: d.GPUCount, Price: d.PricePerHour, Versions: d.Versions,
	}}
	if diff := cmp.Diff(want, d.All()); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
	external := Deployment{Engine: "external.api", Host: "elsewhere"}
	if all := external.All(); len(all) > 0 {
		t.Errorf("All = %v", all)
	}
}
