package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"hclbench/provision"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

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
		testhost.OK(t, err)
		if text, err := io.ReadAll(tail); err != nil || strings.Count(string(text), "\n") != 1 {
			t.Errorf("last line of the log = %q, %v", text, err)
		}
		tail.Close()
		begun := time.Now()
		testhost.OK(t, c.Stop(t.Context(), id, time.Minute))
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("Stop took %v: SIGTERM did not reach the engine", took)
		}
		_, err = c.State(t.Context(), id)
		testhost.WantError(t, err, provision.ErrNoContainer)
		nothingRuns(t, h)
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
		testhost.OK(t, err)
		testhost.OK(t, api.ContainerStop(t.Context(), id, container.StopOptions{Timeout: &grace}))
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
		testhost.OK(t, c.Stop(t.Context(), id, time.Second))
		if took := time.Since(begun); took < time.Second {
			t.Errorf("Stop took %v, want at least the grace of 1s", took)
		}
		nothingRuns(t, h)
	})

	t.Run("loses its first stop signal", func(t *testing.T) {
		ct := server("loses")
		ct.Env = []provision.EnvVar{{Name: "ENGINE_FAULT", Value: provision.Plain("miss-term")}}
		id := mustStart(t, c, ct)
		await(t, c, id, "8000")
		begun := time.Now()
		testhost.OK(t, c.Stop(t.Context(), id, time.Minute))
		if took := time.Since(begun); took < 10*time.Second || took > 40*time.Second {
			t.Errorf("Stop took %v, want no more than it takes to ask again", took)
		}
		nothingRuns(t, h)
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
		testhost.OK(t, err)
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
		testhost.WantError(t, err, nil, "no-such-program")
		mustStop(t, c, ct.Name)
		nothingLeft(t, c, ct.Labels)
	})

	t.Run("limit refused", func(t *testing.T) {
		ct := server("limit")
		// More open files than the kernel grants anybody, while the daemon may
		// well raise memlock where these tests run.
		ct.Ulimits = []provision.Ulimit{{Name: "stack", Soft: 8 << 20, Hard: 8 << 20}, {Name: "nofile", Soft: 1 << 40, Hard: 1 << 40}}
		_, err := c.Start(t.Context(), ct)
		testhost.WantError(t, err, errLimit, "host h200 (lab.hcl:12)", "container { ulimits = { nofile = null } }")
		mustStop(t, c, ct.Name)
		nothingLeft(t, c, ct.Labels)
	})

	t.Run("broken off", func(t *testing.T) {
		for i := range 10 { // somewhere between its creation and its start
			ct := server("broken-off")
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*15*time.Millisecond)
			c.Start(ctx, ct)
			cancel()
			mustStop(t, c, ct.Name)
			nothingLeft(t, c, ct.Labels)
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
		mustStop(t, c, other.Name)
		nothingLeft(t, c, other.Labels)
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
		testhost.OK(t, err)
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
		nothingRuns(t, h)
	})

	t.Run("everything asked for", func(t *testing.T) { testEverything(t, h, c) })
}

func nothingRuns(t *testing.T, h *testhost.Host) {
	t.Helper()
	if left, err := h.Processes(); err != nil || len(left) > 0 {
		t.Errorf("after Stop there are %v, %v", left, err)
	}
}

// waitStopping returns when the daemon has been told to stop a container.
func waitStopping(t *testing.T, h *testhost.Host) {
	t.Helper()
	// A kill is what a stop begins with; the past counts, too.
	cmd := h.Command("docker", "-H", "unix://"+h.Socket, "events", "--since", "1", "--filter", "event=kill", "--format",
		"{{.Actor.Attributes.name}}")
	r, err := cmd.StdoutPipe()
	testhost.OK(t, err)
	testhost.OK(t, cmd.Start())
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
	testhost.OK(t, os.WriteFile(filepath.Join(h.Home, "it's here"), nil, 0o600))
	ct := everything()
	ct.Env = append(ct.Env, provision.EnvVar{Name: "HF_TOKEN", Value: provision.Plain("in clear")})
	byHand := ct
	byHand.Name = "by-hand"
	if _, err := c.conn.Run(t.Context(), Run(byHand), nil); err != nil {
		t.Fatal(err)
	}
	want := inspectAll(t, c, byHand.Name)
	testhost.OK(t, c.Stop(t.Context(), byHand.Name, 0))
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
	ct.Files = []provision.File{{Name: "config.yaml",
		Text: provision.Concat(provision.Plain("key: "), provision.Secret("s4cret"))}, {Name: "more.txt", Text: provision.Plain("more")}}
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

	// Whoever makes it may die before it is started: it is found, and its files go with it.
	ct.Name, ct.Labels = "never-started", map[string]string{"hcl.lab": "cut short"}
	asked := newSpec(ct, nil, "")
	api, err := c.api(t.Context())
	testhost.OK(t, err)
	made, err := api.ContainerCreate(t.Context(), &asked.config, &asked.host, nil, nil, ct.Name)
	testhost.OK(t, err)
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
	_, err = c.State(t.Context(), made.ID)
	testhost.WantError(t, err, provision.ErrNoContainer)
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
