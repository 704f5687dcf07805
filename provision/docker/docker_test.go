package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/origin"
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
		Command:    []provision.Text{provision.Plain("serve"), provision.Plain("org/model"), provision.Plain("--port"), provision.Plain("8000")},
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

// await reads a container's log until a text shows up in it.
func await(t *testing.T, c *Daemon, id, text string) {
	t.Helper()
	log, err := c.Logs(t.Context(), id, true, -1)
	if err != nil {
		t.Fatalf("Logs: %v", err)
	}
	defer log.Close()
	var seen strings.Builder
	piece := make([]byte, 1024)
	for !strings.Contains(seen.String(), text) {
		n, err := log.Read(piece)
		seen.Write(piece[:n])
		if err != nil {
			t.Fatalf("log ends with %v, without %q: %s", err, text, seen.String())
		}
	}
}

// inspectAll decodes all that Docker says about a container.
func inspectAll(t *testing.T, c *Daemon, id string) (all map[string]any) {
	t.Helper()
	api, err := c.api(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := api.ContainerInspectWithRaw(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPull(t *testing.T) {
	h, c := dockerHost(t, "")
	digest := h.PushEngine(t, image, nil)
	if v, err := c.Version(t.Context()); err != nil || !strings.Contains(v, ".") {
		t.Fatalf("DockerVersion = %q, %v", v, err)
	}

	var seen []provision.PullProgress
	got, err := c.Images.Pull(t.Context(), image, func(p provision.PullProgress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	want := provision.Image{Ref: image, Digest: digest, Entrypoint: []string{"python3", "-m", "vllm.entrypoints.openai.api_server"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(provision.Image{}, "ID", "Size")); diff != "" {
		t.Errorf("Pull (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.ID, "sha256:") || got.Size < 1<<20 {
		t.Errorf("Pull: ID %q, %d bytes", got.ID, got.Size)
	}
	if len(seen) == 0 {
		t.Fatal("no progress")
	}
	for i, p := range seen {
		if p.Bytes > p.Total || i > 0 && p.Bytes < seen[i-1].Bytes {
			t.Errorf("progress %d: %+v", i, p)
		}
	}
	last := seen[len(seen)-1]
	if last.Bytes == 0 || last.Bytes != last.Total || last.Layers != 1 || last.Done != 1 || last.Phase != "unpacking" {
		t.Errorf("last progress = %+v, want all bytes and the one layer", last)
	}

	// By digest, and with a tag beside it; what is there is not asked about.
	asked := len(h.RegistryRequests())
	for _, ref := range []string{"vllm/vllm-openai@" + digest, image + "@" + digest} {
		pinned := mustPull(t, c, ref)
		if pinned.ID != got.ID || pinned.Digest != digest || pinned.Ref != ref {
			t.Errorf("Pull(%s) = %+v", ref, pinned)
		}
	}
	if now := h.RegistryRequests(); len(now) != asked {
		t.Errorf("asked the registry about a pinned image that is there: %v", now[asked:])
	}
	other := h.PushEngine(t, "nvcr.io/nvidia/tensorrt-llm/release:1.0", nil)
	if got := mustPull(t, c, "nvcr.io/nvidia/tensorrt-llm/release@"+other); got.Digest != other {
		t.Errorf("Pull by digest = %+v, want %s", got, other)
	}
	plain := h.PushEngine(t, h.Registry+"/mine:1", map[string]string{"N": "1"})
	if got := mustPull(t, c, h.Registry+"/mine:1"); got.Digest != plain {
		t.Errorf("Pull from a registry with a port = %+v, want %s", got, plain)
	}

	// How large an image is, its registry says before anything is pulled.
	c.Images.registries = &origin.Registries{Client: origin.Client{HTTP: h.RegistryClient()}}
	h.PushHuge(t, "vllm/vllm-openai:huge", 1<<50)
	_, err = c.Images.Pull(t.Context(), "vllm/vllm-openai:huge", nil)
	testhost.WantError(t, err, errDiskFull, "host h200 (lab.hcl:12)", "vllm/vllm-openai:huge has layers of 1125899.9 GB still to come, which unpack to 2251799.8 GB at least", "docker image prune")
	h.PushEngine(t, "vllm/vllm-openai:other", map[string]string{"N": "other"})
	for ref, want := range map[string]provision.ImageRoom{image: {There: true}, "vllm/vllm-openai@" + digest: {There: true}, "vllm/vllm-openai:other": {Path: "there"}} {
		got, err := c.Images.Room(t.Context(), ref)
		if got.Free > 0 && got.Path != "" {
			got.Free, got.Path = 0, "there"
		}
		if err != nil || got != want {
			t.Errorf("ImageRoom(%s) = %+v, %v; want %+v", ref, got, err, want)
		}
	}
	if _, err := c.Images.Room(t.Context(), "vllm/vllm-openai:absent"); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("ImageRoom of an image that is nowhere: %v", err)
	}
	c.Images.registries = nil

	// A tag that moves is followed, until the registry cannot be asked.
	moved := h.PushEngine(t, image, map[string]string{"N": "2"})
	if got := mustPull(t, c, image); got.Digest != moved || got.Local {
		t.Errorf("Pull of a tag that has moved = %+v, want %s", got, moved)
	}
	h.PushEngine(t, image, map[string]string{"N": "3"})
	c.Images.pause = 1
	h.RegistryAway(true)
	if got := mustPull(t, c, image); got.Digest != moved || !got.Local {
		t.Errorf("Pull with the registry away = %+v, want %s and Local", got, moved)
	}
	_, err = c.Images.Pull(t.Context(), "vllm/vllm-openai:absent", nil)
	if err == nil || errors.Is(err, provision.ErrImageNotFound) || errors.Is(err, provision.ErrUnreachable) {
		t.Errorf("Pull of an image that is not there, registry away = %v, want an error of no kind", err)
	}
	h.RegistryAway(false)

	for _, ref := range []string{"vllm/vllm-openai:absent", "nvcr.io/nobody/nothing:1", "vllm/vllm-openai@sha256:" + strings.Repeat("0", 64)} {
		_, err := c.Images.Pull(t.Context(), ref, nil)
		testhost.WantError(t, err, provision.ErrImageNotFound, "host h200 (lab.hcl:12)", ref, "check its name")
	}
	h.DenyImage(t, "vllm/private:1")
	_, err = c.Images.Pull(t.Context(), "vllm/private:1", nil)
	testhost.WantError(t, err, errRegistryAuth, "docker login docker.io")

	// Built on the host, and in no registry.
	reachtest.Run(t, c.conn, "docker tag "+image+" homemade:1")
	if got := mustPull(t, c, "homemade:1"); !got.Local || got.Digest != "" {
		t.Errorf("Pull of an image built on the host = %+v, want it as it is", got)
	}
}

// TestPullStalls shows that only silence ends a pull, and that one whose
// connection is lost goes on.
func TestPullStalls(t *testing.T) {
	h, c := dockerHost(t, "")
	digest := h.PushEngine(t, image, nil)
	h.SlowRegistry(1)
	c.Images.stall, c.Images.pause = 300*time.Millisecond, 1
	again := 0
	_, err := c.Images.Pull(t.Context(), image, func(p provision.PullProgress) {
		if p.Phase == "trying again" {
			again++
		}
	})
	if err == nil || !strings.Contains(err.Error(), "nothing has moved for 300ms") || again != pullTries-1 {
		t.Errorf("Pull that stalls = %v after trying again %d times", err, again)
	}
	got, err := c.Images.Pull(t.Context(), image, func(p provision.PullProgress) {
		if p.Phase == "trying again" {
			h.SlowRegistry(0)
			c.Images.stall = pullStall // on a busy machine the daemon alone may be silent for longer than that
		}
	})
	if err != nil || got.Digest != digest {
		t.Errorf("Pull that stalls once = %+v, %v", got, err)
	}
	reachtest.Run(t, c.conn, "docker rmi "+image)
	h.SlowRegistry(1)

	ctx, cancel := context.WithCancel(t.Context())
	began := sync.OnceFunc(cancel)
	if _, err := c.Images.Pull(ctx, image, func(provision.PullProgress) { began() }); !errors.Is(err, context.Canceled) {
		t.Errorf("Pull that is cancelled = %v, want context.Canceled", err)
	}

	cut := sync.OnceFunc(func() {
		h.SlowRegistry(0)
		h.Cut()
	})
	got, err = c.Images.Pull(t.Context(), image, func(provision.PullProgress) { cut() })
	if err != nil || got.Digest != digest {
		t.Errorf("Pull over a connection that is cut = %+v, %v", got, err)
	}
}

func TestContainer(t *testing.T) {
	h, c := dockerHost(t, "8xH200")
	h.PushEngine(t, image, nil)
	mustPull(t, c, image)

	t.Run("serve and stop", func(t *testing.T) {
		ct := server("serve")
		ct.Port = 8000
		id := mustStart(t, c, ct)
		await(t, c, id, "8000")
		s, err := c.State(t.Context(), id)
		if err != nil || !s.Running || s.Started.IsZero() {
			t.Errorf("State = %+v, %v, want it running", s, err)
		}
		tail, err := c.Logs(t.Context(), id, false, 1)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(tail); err != nil || strings.Count(string(text), "\n") != 1 {
			t.Errorf("last line of the log = %q, %v", text, err)
		}
		tail.Close()
		begun := time.Now()
		if err := c.Stop(t.Context(), id, time.Minute); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("Stop took %v: SIGTERM did not reach the engine", took)
		}
		if _, err := c.State(t.Context(), id); !errors.Is(err, provision.ErrNoContainer) {
			t.Errorf("State after Stop = %v, want ErrNoContainer", err)
		}
		if left, err := h.Processes(); err != nil || len(left) > 0 {
			t.Errorf("after Stop there are %v, %v", left, err)
		}
	})

	t.Run("its own stop signal", func(t *testing.T) {
		ct := server("signal")
		ct.StopSignal = "SIGQUIT" // ends a Go program with exit code 2
		ct.Init = false
		id := mustStart(t, c, ct)
		await(t, c, id, "8000")
		ended := make(chan provision.State, 1)
		go func() {
			// Begun before the stop, answered before the removal.
			s, err := c.Wait(t.Context(), id)
			if err != nil && !errors.Is(err, provision.ErrNoContainer) {
				t.Errorf("Wait: %v", err)
			}
			ended <- s
		}()
		grace := 30
		api, err := c.api(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := api.ContainerStop(t.Context(), id, container.StopOptions{Timeout: &grace}); err != nil {
			t.Fatal(err)
		}
		if s := <-ended; s.Running || s.ExitCode != 2 {
			t.Errorf("ended by SIGQUIT: %+v", s)
		}
		mustStop(t, c, id)
	})

	t.Run("deaf to its stop signal", func(t *testing.T) {
		ct := server("deaf")
		ct.Env = []provision.EnvVar{{Name: "ENGINE_FAULT", Value: provision.Plain("ignore-term")}}
		id := mustStart(t, c, ct)
		await(t, c, id, "8000")
		begun := time.Now()
		if err := c.Stop(t.Context(), id, time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < time.Second {
			t.Errorf("Stop took %v, want at least the grace of 1s", took)
		}
		if left, err := h.Processes(); err != nil || len(left) > 0 {
			t.Errorf("after Stop there are %v, %v", left, err)
		}
	})

	t.Run("exits at once", func(t *testing.T) {
		ct := server("exits")
		ct.Env = []provision.EnvVar{{Name: "ENGINE_FAULT", Value: provision.Plain("exit")}}
		id := mustStart(t, c, ct)
		s, err := c.Wait(t.Context(), id)
		if err != nil || s.Running || s.ExitCode != 3 || s.Finished.IsZero() {
			t.Errorf("Wait = %+v, %v, want exit code 3", s, err)
		}
		log, err := c.Logs(t.Context(), id, true, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		if text, err := io.ReadAll(log); err != nil || !strings.Contains(string(text), "OSError: the model is not a local folder") {
			t.Errorf("log = %q, %v", text, err)
		}
		mustStop(t, c, id)
		mustStop(t, c, id) // absent: nil
	})

	t.Run("no such program", func(t *testing.T) {
		ct := server("nothing")
		ct.Entrypoint = []provision.Text{provision.Plain("no-such-program")}
		ct.Init = false // which would start, and fail later
		_, err := c.Start(t.Context(), ct)
		if err == nil || !strings.Contains(err.Error(), "no-such-program") {
			t.Errorf("Start = %v", err)
		}
		if found, err := c.List(t.Context(), ct.Labels); err != nil || len(found) > 0 {
			t.Errorf("a failed start left %v, %v", found, err)
		}
	})

	t.Run("limit refused", func(t *testing.T) {
		ct := server("limit")
		// More open files than the kernel grants anybody, while the daemon may
		// well raise memlock where these tests run.
		ct.Ulimits = []provision.Ulimit{{Name: "stack", Soft: 8 << 20, Hard: 8 << 20}, {Name: "nofile", Soft: 1 << 40, Hard: 1 << 40}}
		_, err := c.Start(t.Context(), ct)
		testhost.WantError(t, err, errLimit, "host h200 (lab.hcl:12)", "container { ulimits = { nofile = null } }")
		if found, err := c.List(t.Context(), ct.Labels); err != nil || len(found) > 0 {
			t.Errorf("a failed start left %v, %v", found, err)
		}
	})

	t.Run("taken", func(t *testing.T) {
		ct := server("taken")
		id := mustStart(t, c, ct)
		defer mustStop(t, c, id)
		_, err := c.Start(t.Context(), ct)
		testhost.WantError(t, err, provision.ErrNameTaken, "host h200 (lab.hcl:12)", "docker inspect taken")
		await(t, c, id, "8000")
		other := server("other")
		other.Port = 8000
		_, err = c.Start(t.Context(), other)
		testhost.WantError(t, err, provision.ErrPortTaken, "port 8000 is in use", "host h200 (lab.hcl:12)")
		other.Network = "bridge"
		_, err = c.Start(t.Context(), other)
		testhost.WantError(t, err, provision.ErrPortTaken)
		if found, err := c.List(t.Context(), other.Labels); err != nil || len(found) > 0 {
			t.Errorf("a failed start left %v, %v", found, err)
		}
	})

	t.Run("no image", func(t *testing.T) {
		ct := server("imageless")
		ct.Image = "nobody/nothing:1"
		_, err := c.Start(t.Context(), ct)
		testhost.WantError(t, err, provision.ErrImageNotFound, "nobody/nothing:1", "pull it first")
	})

	t.Run("list", func(t *testing.T) {
		a, b := server("list-a"), server("list-b")
		b.Env = []provision.EnvVar{{Name: "ENGINE_FAULT", Value: provision.Plain("exit")}}
		foreign := server("list-c")
		foreign.Labels = map[string]string{"hcl.lab": "somebody else's", "hcl.engine": "list-a"}
		foreign.Command[3] = provision.Plain("8001")
		ids := map[string]string{}
		for _, ct := range []provision.Container{b, a, foreign} {
			ids[ct.Name] = mustStart(t, c, ct)
		}
		if _, err := c.Wait(t.Context(), ids["list-b"]); err != nil {
			t.Fatal(err)
		}
		got, err := c.List(t.Context(), map[string]string{"hcl.lab": "test"})
		want := []provision.Found{
			{ID: ids["list-a"], Name: "list-a", Image: image, Labels: a.Labels, State: "running"},
			{ID: ids["list-b"], Name: "list-b", Image: image, Labels: b.Labels, State: "exited"},
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("List: %v (-want +got):\n%s", err, diff)
		}
		got, err = c.List(t.Context(), map[string]string{"hcl.lab": "test", "hcl.engine": "list-a"})
		if err != nil || len(got) != 1 || got[0].Name != "list-a" {
			t.Errorf("List by two labels = %v, %v, want a alone", got, err)
		}
		if got, err := c.List(t.Context(), nil); err == nil {
			t.Errorf("List without labels = %v, want an error", got)
		}
		for _, id := range ids {
			mustStop(t, c, id)
		}
	})

	t.Run("stopped by several at once", func(t *testing.T) {
		id := mustStart(t, c, server("several"))
		await(t, c, id, "8000")
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if err := c.Stop(t.Context(), id, 10*time.Second); err != nil {
					t.Errorf("Stop: %v", err)
				}
			})
		}
		all.Wait()
	})

	t.Run("connection lost", func(t *testing.T) {
		ct := server("lost")
		ct.Env = []provision.EnvVar{{Name: "ENGINE_FAULT", Value: provision.Plain("ignore-term")}}
		id := mustStart(t, c, ct)
		await(t, c, id, "8000")
		log, err := c.Logs(t.Context(), id, true, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		h.Cut()
		_, err = io.ReadAll(log)
		testhost.WantError(t, err, provision.ErrUnreachable, "read log of container")
		if s, err := c.State(t.Context(), id); err != nil || !s.Running {
			t.Errorf("State after a cut = %+v, %v", s, err)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- c.Stop(t.Context(), id, 2*time.Second) }()
		waitStopping(t, h)
		h.Cut()
		if err := <-stopped; err != nil {
			t.Errorf("Stop over a connection that is cut: %v", err)
		}
		if left, err := h.Processes(); err != nil || len(left) > 0 {
			t.Errorf("after Stop there are %v, %v", left, err)
		}
	})

	t.Run("everything asked for", func(t *testing.T) { testEverything(t, h, c) })
}

// waitStopping returns when the daemon has been told to stop a container.
func waitStopping(t *testing.T, h *testhost.Host) {
	t.Helper()
	// A kill is what a stop begins with; the past counts, too.
	cmd := h.Command("docker", "-H", "unix://"+h.Socket, "events", "--since", "1", "--filter", "event=kill", "--format", "{{.Actor.Attributes.name}}")
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	for piece := make([]byte, 256); !strings.Contains(seen.String(), "lost\n"); {
		n, err := r.Read(piece)
		seen.Write(piece[:n])
		if err != nil {
			t.Fatalf("docker events: %v", err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed, as it says
}

// testEverything shows that Start and the line of DockerRun make the same
// container, and that it is the one that was asked for.
func testEverything(t *testing.T, h *testhost.Host, c *Daemon) {
	if err := os.WriteFile(filepath.Join(h.Home, "it's here"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ct := everything()
	ct.Env = append(ct.Env, provision.EnvVar{Name: "HF_TOKEN", Value: provision.Plain("in clear")})
	byHand := ct
	byHand.Name = "by-hand"
	if _, err := c.conn.Run(t.Context(), Run(byHand), nil); err != nil {
		t.Fatal(err)
	}
	want := inspectAll(t, c, byHand.Name)
	if err := c.Stop(t.Context(), byHand.Name, 0); err != nil {
		t.Fatal(err)
	}
	id := mustStart(t, c, ct)
	defer mustStop(t, c, id)
	got := inspectAll(t, c, id)
	for _, part := range []string{"Config", "HostConfig", "Path", "Args", "Mounts"} {
		ignore := cmpopts.IgnoreMapEntries(func(name string, value any) bool {
			switch name {
			case "Cmd", "Entrypoint": // divided differently; Path and Args are their sum
				return true
			case "Hostname", "ConsoleSize", "OnBuild", "Volumes", "Domainname", "AttachStdout", "AttachStderr":
				return true // what the command line adds, and nobody sees
			}
			return empty(value)
		})
		options := cmp.Options{ignore}
		if part == "Config" || part == "HostConfig" || part == "Mounts" { // the command line mixes its mounts, and its variables now and then
			options = append(options, cmpopts.SortSlices(func(a, b any) bool { return fmt.Sprint(a) < fmt.Sprint(b) }))
		}
		if diff := cmp.Diff(want[part], got[part], options); diff != "" {
			t.Errorf("%s of the container (-docker run +Start):\n%s", part, diff)
		}
	}
	if got := reachtest.Run(t, c.conn, "test -d '/root/made/by docker' && echo made"); got != "made\n" {
		t.Errorf("the mount's source was not created")
	}

	// Secrets arrive in clear.
	ct = server("secret")
	ct.Env = []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("s3cret")}}
	id = mustStart(t, c, ct)
	defer mustStop(t, c, id)
	text, err := json.Marshal(inspectAll(t, c, id)["Config"])
	if err != nil || !strings.Contains(string(text), "HF_TOKEN=s3cret") {
		t.Errorf("the container's environment lacks the secret: %s", text)
	}

	// Files are there when it starts, and are in nothing that Docker tells.
	ct = server("files")
	ct.Files = []provision.File{{Name: "config.yaml", Text: provision.Concat(provision.Plain("key: "), provision.Secret("s4cret"))}, {Name: "more.txt", Text: provision.Plain("more")}}
	id = mustStart(t, c, ct)
	defer mustStop(t, c, id)
	for name, want := range map[string]string{"config.yaml": "key: s4cret", "more.txt": "more"} {
		if got, _, err := c.ReadFile(t.Context(), id, path.Join(provision.FilesDir, name)); err != nil || string(got) != want {
			t.Errorf("%s in the container = %q, %v, want %q", name, got, err, want)
		}
	}
	text, err = json.Marshal(inspectAll(t, c, id))
	if err != nil || strings.Contains(string(text), "s4cret") {
		t.Errorf("docker inspect shows a secret, or fails (%v): %s", err, text)
	}

	// Whoever makes it may die before it is started: it is found, and its files go
	// with it.
	ct.Name, ct.Labels = "never-started", map[string]string{"hcl.lab": "cut short"}
	asked := newSpec(ct, nil, "")
	api, err := c.api(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made, err := api.ContainerCreate(t.Context(), &asked.config, &asked.host, nil, nil, ct.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.bringFiles(t.Context(), made.ID, ct.Files); err != nil {
		t.Error(err)
	}
	found, err := c.List(t.Context(), ct.Labels)
	if err != nil || len(found) != 1 || found[0].ID != made.ID || found[0].State != "created" {
		t.Errorf("a container that was never started: %+v, %v", found, err)
	}
	if err := c.Stop(t.Context(), made.ID, time.Second); err != nil {
		t.Error(err)
	}
	if _, err := c.State(t.Context(), made.ID); !errors.Is(err, provision.ErrNoContainer) {
		t.Errorf("after Stop: %v", err)
	}
}

// empty reports whether a JSON value says nothing.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case float64:
		return v == 0
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
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
	ct = server("amd")
	ct.Devices = []string{"/dev/kfd"}
	_, err = c.Start(t.Context(), ct)
	testhost.WantError(t, err, provision.ErrNoGPURuntime, "amdgpu")
	if found, err := c.List(t.Context(), map[string]string{"hcl.lab": "test"}); err != nil || len(found) > 0 {
		t.Errorf("failed starts left %v, %v", found, err)
	}

	id := mustStart(t, c, server("plain"))
	if err := h.Docker.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err = c.Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, h.Socket+" is there, but nobody answers")
	if err := os.Remove(h.Socket); err != nil {
		t.Fatal(err)
	}
	_, err = c.Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "does not run", "systemctl start docker")
	if errors.Is(err, provision.ErrUnreachable) {
		t.Error("a host without Docker is called unreachable")
	}

	// What has to be done waits for a daemon that is being restarted.
	stopped := make(chan error, 1)
	go func() { stopped <- c.Stop(t.Context(), id, time.Second) }()
	if err := h.Docker.Start(); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Stop = %v, want the container stopped by the daemon that came back", err)
	}
	if found, err := c.List(t.Context(), map[string]string{"hcl.lab": "test"}); err != nil || len(found) > 0 {
		t.Errorf("Stop left %v, %v", found, err)
	}
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

	nowhere := New(reachtest.Dial(t, &provision.Host{Name: "here", Address: provision.LocalAddress, Docker: h.Socket + ".absent"}, reach.SSH{}), nil)
	_, err := nowhere.Version(t.Context())
	testhost.WantError(t, err, provision.ErrNoDocker, "host here", "there is no "+h.Socket+".absent")
}

// TestOldDocker is a daemon that speaks an API without GPUs, and one that dies
// over its answer.
func TestOldDocker(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "docker.sock"))
	if err != nil {
		t.Fatal(err)
	}
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

// TestRegistryLogin shows that what `docker login` left on the host is used.
func TestRegistryLogin(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	c := connect(t, h)
	login := func(name string) string {
		t.Helper()
		header, err := c.Images.registryAuth(t.Context(), name)
		if err != nil {
			t.Fatalf("registryAuth(%s): %v", name, err)
		}
		text, err := base64.URLEncoding.DecodeString(header)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := login("nvcr.io"); got != "" {
		t.Errorf("login without a file = %q", got)
	}
	if err := os.Mkdir(filepath.Join(h.Home, ".docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	const config = `{
		"auths": {"nvcr.io": {"auth": "JG9hdXRodG9rZW46azp5"}, "https://index.docker.io/v1/": {"auth": "bWU6cHc="}, "helped.example": {}},
		"credHelpers": {"helped.example": "test", "unknown.example": "test"}
	}`
	if err := os.WriteFile(filepath.Join(h.Home, ".docker", "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Install("docker-credential-test", "#!/bin/sh\nread -r registry\n[ \"$registry\" = helped.example ] && echo '{\"Username\":\"<token>\",\"Secret\":\"t0ken\"}'\n"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nvcr.io":         `{"username":"$oauthtoken","password":"k:y","serveraddress":"nvcr.io"}`,
		"docker.io":       `{"username":"me","password":"pw","serveraddress":"https://index.docker.io/v1/"}`,
		"helped.example":  `{"serveraddress":"helped.example","identitytoken":"t0ken"}`,
		"unknown.example": "",
		"ghcr.io":         "",
	} {
		if got := login(name); got != want {
			t.Errorf("login for %s = %s, want %s", name, got, want)
		}
	}
}
