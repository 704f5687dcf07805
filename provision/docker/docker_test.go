package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// connect is the daemon of a test host.
func connect(t *testing.T, h *testhost.Host) *Daemon {
	t.Helper()
	return New(reachtest.Connect(t, h), nil)
}

// dockerHost is a host with a daemon and registries.
func dockerHost(t *testing.T, gpu string) (*testhost.Host, *Daemon) {
	t.Helper()
	h := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, GPU: gpu})
	return h, connect(t, h)
}

const image = "vllm/vllm-openai:v0.7.3"

// server is a container with an engine that serves until it is told to stop.
func server(name string) provision.Container {
	return provision.Container{
		Name:       name,
		Image:      image,
		Entrypoint: []provision.Text{provision.Plain("vllm")},
		Command:    plainTexts([]string{"serve", "org/model", "--port", "8000"}),
		Labels:     map[string]string{"hcl.lab": "test", "hcl.engine": name},
		Network:    "host",
		Init:       true,
	}
}

func mustPull(t *testing.T, c *Daemon, ref string) provision.Image {
	t.Helper()
	got, err := c.Images.Pull(t.Context(), ref, nil)
	if err != nil {
		t.Fatalf("Pull(%s): %v", ref, err)
	}
	return got
}

func mustStart(t *testing.T, c *Daemon, ct provision.Container) string {
	t.Helper()
	id, err := c.Start(t.Context(), ct)
	if err != nil {
		t.Fatalf("Start(%s): %v", ct.Name, err)
	}
	return id
}

func mustStop(t *testing.T, c *Daemon, id string) {
	t.Helper()
	if err := c.Stop(t.Context(), id, 10*time.Second); err != nil {
		t.Fatalf("Stop: %v", err)
	}
}

func nothingLeft(t *testing.T, c *Daemon, labels map[string]string) {
	t.Helper()
	if found, err := c.List(t.Context(), labels); err != nil || len(found) > 0 {
		t.Errorf("left are %v, %v", found, err)
	}
}

// await reads a container's log until a text shows up in it.
func await(t *testing.T, c *Daemon, id, text string) {
	t.Helper()
	testhost.OK(t, heard(t.Context(), c, id, text))
}

func heard(ctx context.Context, c *Daemon, id, text string) error {
	log, err := c.Logs(ctx, id, true, -1)
	if err != nil {
		return err
	}
	defer log.Close()
	var seen strings.Builder
	piece := make([]byte, 1024)
	for !strings.Contains(seen.String(), text) {
		n, err := log.Read(piece)
		seen.Write(piece[:n])
		if err != nil {
			return fmt.Errorf("log ends with %w, without %q: %s", err, text, seen.String())
		}
	}
	return nil
}

// inspectAll decodes all that Docker says about a container.
func inspectAll(t *testing.T, c *Daemon, id string) (all map[string]any) {
	t.Helper()
	api, err := c.api(t.Context())
	testhost.OK(t, err)
	_, text, err := api.ContainerInspectWithRaw(t.Context(), id, false)
	testhost.OK(t, err)
	testhost.OK(t, json.Unmarshal(text, &all))
	return all
}

func TestAMD(t *testing.T) {
	h, c := dockerHost(t, "8xMI300X")
	h.PushEngine(t, "rocm/sglang-staging:1", nil)
	mustPull(t, c, "rocm/sglang-staging:1")
	ct := server("amd")
	ct.Image = "rocm/sglang-staging:1"
	ct.Devices = []string{"/dev/kfd", "/dev/dri"}
	ct.HostGroups = []string{"render", "no-such-group", "video"}
	id := mustStart(t, c, ct)
	defer mustStop(t, c, id)
	host := inspectAll(t, c, id)["HostConfig"].(map[string]any)
	if diff := cmp.Diff([]any{"109", "44"}, host["GroupAdd"]); diff != "" {
		t.Errorf("GroupAdd (-want +got):\n%s", diff)
	}
}

// TestNoGPU is a host without GPUs and, in the end, without Docker.
func TestNoGPU(t *testing.T) {
	h, c := dockerHost(t, "")
	h.PushEngine(t, image, nil)
	mustPull(t, c, image)
	ct := server("nvidia")
	ct.GPUs = -1
	_, err := c.Start(t.Context(), ct)
	testhost.WantError(t, err, provision.ErrNoGPURuntime, "nvidia-container-toolkit", "host h200 (lab.hcl:12)")
	mustStop(t, c, ct.Name)
	ct = server("amd")
	ct.Devices = []string{"/dev/kfd"}
	_, err = c.Start(t.Context(), ct)
	testhost.WantError(t, err, provision.ErrNoGPURuntime, "amdgpu")
	mustStop(t, c, ct.Name)
	nothingLeft(t, c, map[string]string{"hcl.lab": "test"})

	id := mustStart(t, c, server("plain"))
	testhost.OK(t, h.Docker.Kill())
	_, err = c.Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, h.Socket+" is there, but nobody answers")
	testhost.OK(t, os.Remove(h.Socket))
	_, err = c.Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "does not run", "systemctl start docker")
	if errors.Is(err, provision.ErrUnreachable) {
		t.Error("a host without Docker is called unreachable")
	}

	// What has to be done waits for a daemon that is being restarted.
	stopped := make(chan error, 1)
	go func() { stopped <- c.Stop(t.Context(), id, time.Second) }()
	testhost.OK(t, h.Docker.Start())
	if err := <-stopped; err != nil {
		t.Errorf("Stop = %v, want the container stopped by the daemon that came back", err)
	}
	nothingLeft(t, c, map[string]string{"hcl.lab": "test"})
}

// TestLocalDocker is the daemon of the machine that hcl runs on.
func TestLocalDocker(t *testing.T) {
	h := testhost.New(t, testhost.Options{Docker: true, Registry: true})
	h.PushEngine(t, image, nil)
	c := New(reachtest.Dial(t, &provision.Host{Name: "here", Address: provision.LocalAddress, Docker: h.Socket}, reach.SSH{}), nil)
	mustPull(t, c, image)
	ct := server("local")
	ct.Env = []provision.EnvVar{{Name: "ENGINE_FAULT", Value: provision.Plain("exit")}}
	ct.Network = "none"
	id := mustStart(t, c, ct)
	if s, err := c.Wait(t.Context(), id); err != nil || s.ExitCode != 3 {
		t.Errorf("Wait = %+v, %v, want exit code 3", s, err)
	}
	mustStop(t, c, id)

	nowhere := New(reachtest.Dial(t,
		&provision.Host{Name: "here", Address: provision.LocalAddress, Docker: h.Socket + ".absent"}, reach.SSH{}), nil)
	_, err := nowhere.Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "host here", "there is no "+h.Socket+".absent")
}

// TestOldDocker is a daemon that speaks an API without GPUs, and one that dies over its answer.
func TestOldDocker(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "docker.sock"))
	testhost.OK(t, err)
	version := make(chan string, 1)
	daemon := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_ping" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Api-Version", <-version)
	})}
	served := make(chan error, 1)
	go func() { served <- daemon.Serve(l) }()
	defer func() {
		daemon.Close()
		<-served
	}()
	h := &provision.Host{Name: "here", Address: provision.LocalAddress, Docker: l.Addr().String()}

	version <- "1.39"
	_, err = New(reachtest.Dial(t, h, reach.SSH{}), nil).Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "host here", "1.39", "Docker 19.03 or newer")
	version <- "1.40"
	_, err = New(reachtest.Dial(t, h, reach.SSH{}), nil).Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "host here", "the Docker daemon went away: EOF")
	if strings.Contains(err.Error(), "http") {
		t.Errorf("DockerVersion = %v, want no address of the client's", err)
	}
}

// TestDockerHangs is a daemon that takes the question and does not answer.
func TestDockerHangs(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	silent, err := net.Listen("unix", filepath.Join(h.Home, "silent.sock"))
	testhost.OK(t, err)
	defer silent.Close()
	host := reachtest.Block(h)
	host.Docker = "/root/silent.sock"
	c := New(reachtest.Dial(t, host, reachtest.Strict(h)), nil)
	c.answer = time.Second
	_, err = c.Version(t.Context())
	testhost.WantError(t, err, provision.ErrDockerAway, "host h200", "has not answered for 1s")
	_, err = c.List(t.Context(), map[string]string{provision.LabelLab: "x"})
	testhost.WantError(t, err, provision.ErrNoDocker, "has not answered for 1s")
}

// TestDockerAccess are the ways to the daemon of a host whose login is not root: a
// socket of its own, that of root by sudo, each also where sshd forwards nothing.
func TestDockerAccess(t *testing.T) {
	h := testhost.New(t, testhost.Options{Docker: true, Login: "ada", Sudo: true})
	open := testhost.New(t, testhost.Options{Docker: true, SSHD: []string{"DisableForwarding yes"}})
	host := func(h *testhost.Host, socket string) *provision.Host {
		b := reachtest.Block(h)
		b.Docker = socket
		return b
	}
	works := func(c *Daemon, want string) {
		t.Helper()
		if _, err := c.Version(t.Context()); err != nil {
			t.Error(err)
			return
		}
		if by, _, err := c.Access(t.Context()); err != nil || by != want {
			t.Errorf("access by %q, %v, want %q", by, err, want)
		}
	}

	const system = "/var/run/docker.sock"
	works(New(reachtest.Dial(t, host(h, ""), reachtest.Strict(h)), nil), "sudo -n docker -H unix://"+system+" system dial-stdio")

	// With a socket of the login's own, as a daemon without root has.
	const own = "/run/user/61000/docker.sock"
	testhost.Do(t, h, "mkdir -p /run/user/61000 && chown ada "+h.Socket+" && ln -s "+h.Socket+" "+own)
	c := New(reachtest.Dial(t, host(h, ""), reachtest.Strict(h)), nil)
	works(c, own)
	if _, address, err := c.Access(t.Context()); err != nil || address != own {
		t.Errorf("DockerAccess = %q, %v", address, err)
	}
	testhost.Do(t, h, "rm "+own)
	works(New(reachtest.Dial(t, host(h, h.Socket), reachtest.Strict(h)), nil), h.Socket)
	works(New(reachtest.Dial(t, host(h, system), reachtest.Strict(h)), nil), "sudo -n docker -H unix://"+system+" system dial-stdio")

	works(New(reachtest.Dial(t, host(open, ""), reachtest.Strict(open)), nil), "docker -H unix://"+system+" system dial-stdio")
	open.Install("docker", "#!/bin/sh\necho no plugin here >&2\nexit 1\n")
	_, err := New(reachtest.Dial(t, host(open, ""), reachtest.Strict(open)), nil).Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, system+" is there, but nobody answers", system+" (no answer)",
		"system dial-stdio (no plugin here)")

	h.Install("sudo", "#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n")
	_, err = New(reachtest.Dial(t, host(h, ""), reachtest.Strict(h)), nil).Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "ada may not use "+system, "usermod -aG docker ada", "sudo: a password is required")
}

func TestMain(m *testing.M) { os.Exit(testhost.Main(m)) }
