package docker

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"hclbench/provision"
	"hclbench/testhost"
)

// TestSecrets are told to a container when it runs, and to nobody else.
func TestSecrets(t *testing.T) {
	h, c := dockerHost(t, "")
	h.PushEngine(t, image, nil)
	mustPull(t, c, image)
	testhost.Do(t, h, "install -m 755 "+testhost.HCL(t)+" "+h.Home+"/hcl")
	c.HideSecrets("/root/hcl")
	ct := server("secret")
	ct.Env = []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("s3cret")}, {Name: "SEEN", Value: provision.Plain("yes")}}
	ct.Command = append(ct.Command, provision.Plain("--api-key"), provision.Secret("k3y"))
	id := mustStart(t, c, ct)
	defer mustStop(t, c, id)
	await(t, c, id, "startup complete")
	told, err := json.Marshal(inspectAll(t, c, id))
	if err != nil || strings.Contains(string(told), "s3cret") || strings.Contains(string(told), "k3y") {
		t.Errorf("docker inspect shows a secret, or fails (%v): %s", err, told)
	}
	pid := strconv.Itoa(inspectPID(t, c, id))
	for file, want := range map[string]string{"environ": "HF_TOKEN=s3cret\x00", "cmdline": "--api-key\x00k3y\x00"} {
		got, err := h.Command("sh", "-c", "cat /proc/$(pgrep -P "+pid+" || echo "+pid+")/"+file).Output()
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s of the engine: %q, %v, want %q in it", file, got, err, want)
		}
	}

	// Whoever starts it may die before it has told them: they are nowhere, and nothing runs.
	ct.Name, ct.Labels = "cut-short", map[string]string{"hcl.lab": "cut short"}
	hidden, secrets, err := c.hideSecrets(t.Context(), ct)
	if err != nil || !strings.HasSuffix(secrets, "\x00\x00") {
		t.Fatalf("secrets %q, %v", secrets, err)
	}
	asked := newSpec(hidden, nil, "")
	asked.config.OpenStdin, asked.config.StdinOnce, asked.config.AttachStdin = true, true, true
	made, err := c.create(t.Context(), ct.Name, asked)
	testhost.OK(t, err)
	defer mustStop(t, c, made)
	stdin, err := c.stdin(t.Context(), made)
	testhost.OK(t, err)
	api, err := c.api(t.Context())
	testhost.OK(t, err)
	testhost.OK(t, api.ContainerStart(t.Context(), made, container.StartOptions{}))
	if _, err := io.WriteString(stdin, secrets[:len(secrets)-1]); err != nil {
		t.Error(err)
	}
	stdin.Close()
	if s, err := c.Wait(t.Context(), made); err != nil || s.ExitCode == 0 {
		t.Errorf("without its secrets: %+v, %v", s, err)
	}
	await(t, c, made, "the secrets have not come")
}

// inspectPID is the number of a container's first process on its host.
func inspectPID(t *testing.T, c *Daemon, id string) int {
	t.Helper()
	s, err := c.State(t.Context(), id)
	testhost.OK(t, err)
	return s.PID
}
