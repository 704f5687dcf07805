package engines

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

// TestOverridden: what overrides say stands in the place of what the engine says, by any name of a flag; later ones win, what
// is taken away is gone, and the engine stays as it is.
func TestOverridden(t *testing.T) {
	text := func(s string) *provision.Text { x := provision.Plain(s); return &x }
	e := &Engine{Kind: SGLang, Name: "e", Image: "lmsysorg/sglang:v0.4.3.post2", Model: &Model{Repo: "org/m"}, Placement: On(&provision.Host{Name: "h"}),
		Flags: []Flag{{Name: "enable-metrics"}, {Name: "tp", Value: text("8")}},
		Env:   []provision.EnvVar{{Name: "A", Value: provision.Plain("1")}, {Name: "B", Value: provision.Plain("2")}}}
	was := Fingerprint(e)
	got, _ := Overridden(e,
		Override{Flags: []Flag{{Name: "tensor-parallel-size", Value: text("4")}, {Name: "api-key", Value: text("hunter2")}}, WithoutEnv: []string{"A"}},
		Override{WithoutFlags: []string{"enable-metrics"}, Env: []provision.EnvVar{{Name: "B", Value: provision.Plain("3")}}},
		Override{Flags: []Flag{{Name: "tp", Value: text("2")}}})
	var flags, env []string
	for _, f := range got.Flags {
		flags = append(flags, f.Name+"="+f.text().String())
	}
	for _, v := range got.Env {
		env = append(env, v.Name+"="+v.Value.String())
	}
	if diff := cmp.Diff([]string{"api-key=" + provision.Redacted, "tp=2"}, flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"B=3"}, env); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(was, Fingerprint(e)); diff != "" {
		t.Errorf("the engine itself has changed (-want +got):\n%s", diff)
	}
	if v := Variant(got, `tp=2 config={"a":1}`); v.Label() != `sglang.e["tp=2,config=,a,:1,4d501d"]` || v.Name != "e-tp-2-config-a-1-4d501d" {
		t.Errorf("the variant is %s, its container %s", v.Label(), v.Name)
	}
	// Whatever values say, other settings have another name.
	seen := map[string]string{}
	for _, o := range []Override{
		{Flags: []Flag{{Name: "a", Value: text("1 b=2")}}}, {Flags: []Flag{{Name: "a", Value: text("1")}, {Name: "b", Value: text("2")}}},
		{Flags: []Flag{{Name: "a", Value: text("1,b=2")}}}, {Flags: []Flag{{Name: "a", Value: text("1;b=2")}}}, {Flags: []Flag{{Name: "a", Off: true}}},
		{Flags: []Flag{{Name: "a", Value: text("false")}}}, {Flags: []Flag{{Name: "a"}}}, {Flags: []Flag{{Name: "a", Value: text("")}}},
		{Flags: []Flag{{Name: "a", Value: text(`"false"`)}}}, {WithoutFlags: []string{"a"}},
	} {
		label := Variant(e, o.String()).Label()
		if before, met := seen[label]; met {
			t.Errorf("%s and %s are both called %s", before, o, label)
		}
		seen[label] = o.String()
	}
}
