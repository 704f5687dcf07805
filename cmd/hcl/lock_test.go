package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/lock"
	"hclbench/testhost"
)

// TestLockedImage: the tag has moved since it was locked, and apply runs what is locked, on a real daemon.
func TestLockedImage(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	const image = "vllm/vllm-openai:v0.7.3"
	locked := host.PushEngine(t, image, map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "2ms"})
	moved := host.PushEngine(t, image, map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "3ms"})
	if locked == moved {
		t.Fatal("the tag has not moved")
	}
	model := t.TempDir() // of the host's own, so that no hub is asked
	must(t, os.WriteFile(filepath.Join(model, "config.json"), []byte("{}"), 0o644))
	u := newPerson(t, host, strings.NewReplacer("%LEASE%", "10m", `repo = "m"`, fmt.Sprintf("repo = %q", model)).Replace(slowLab))
	file := lock.New("dev")
	file.Images[image] = locked
	must(t, file.Write(u.lab))
	u.tells("apply", applied, "v0.7.3@"+locked[:len("sha256:")+12])
	out, said, code := u.run("report", "--json")
	if code != exitDone || !strings.Contains(out, `"digest": "`+locked) || strings.Contains(out, moved) {
		t.Errorf("report: exit %d\n%s%s", code, out, said)
	}
	u.tells("plan --detailed-exitcode", exitDone)
	// Without the lock, it is another image, and the plan says so.
	must(t, os.Remove(filepath.Join(u.lab, lock.Name)))
	u.tells("plan", exitDone, "stale: image sha256:")
}
