package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"hclbench/provision"
	"hclbench/testhost"
)

// TestCheck: a user looks at two boxes, one of which somebody else uses, and is
// kept from using it.
func TestCheck(t *testing.T) {
	host := testhost.New(t, testhost.Options{Namespace: true, GPU: "8xH200"})
	lab := strings.NewReplacer("%LEASE%", "1m", "%HOST%", `%HOST%
  gpus    = "8xH200"
  runtime = "process"
  require {
    driver    = ">= 550.144"
    idle_gpus = true
  }`, `image = "vllm/vllm-openai:v0.7.3"`, `command = ["sleep", "60"]`).Replace(slowLab)
	u := newPerson(t, host, lab)
	level := func(stdout, check string) string {
		t.Helper()
		var out struct {
			Hosts []struct{ Findings []provision.Finding }
		}
		if err := json.Unmarshal([]byte(stdout), &out); err != nil || len(out.Hosts) != 1 {
			t.Fatalf("%v: %s", err, stdout)
		}
		i := slices.IndexFunc(out.Hosts[0].Findings, func(f provision.Finding) bool { return f.Check == check })
		if i < 0 {
			t.Fatalf("%s is not checked: %s", check, stdout)
		}
		return string(out.Hosts[0].Findings[i].Level)
	}

	out, said, code := u.run("check", "--json")
	if code != exitDone || level(out, "gpus") != "ok" || level(out, "driver") != "ok" || level(out, "gpu users") != "ok" {
		t.Errorf("a good box: exit %d\n%s%s", code, out, said)
	}
	if err := host.UseGPUs(testhost.GPUUse{GPU: 2, PID: 4711, MiB: 20000, Name: "python3"}); err != nil {
		t.Fatal(err)
	}
	if out, _, code = u.run("check", "--json"); code != exitContract || level(out, "gpu users") != "blocked" {
		t.Errorf("a box that somebody uses: exit %d\n%s", code, out)
	}
	out, said, code = u.run("check")
	if code != exitContract || !strings.Contains(out, "python3 (process 4711, 20000 MiB)") || !strings.Contains(out, "host box (lab.hcl:7)") || !strings.Contains(said, "of one host, 1 cannot be used") {
		t.Errorf("the table: exit %d\n%s%s", code, out, said)
	}
	_, said, code = u.run("apply", "--auto-approve")
	if code != exitContract || !strings.Contains(said, "gpu users: python3 (process 4711") {
		t.Errorf("apply: exit %d\n%s", code, said)
	}
}
