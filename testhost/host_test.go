package testhost_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hclbench/testhost"
)

func TestMain(m *testing.M) { os.Exit(testhost.Main(m)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ssh is the real client, with what a host gives to find and to trust it.
func ssh(t *testing.T, h *testhost.Host, command string) string {
	t.Helper()
	out, err := sshCommand(h, command).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh %q: %v\n%s", command, err, out)
	}
	return string(out)
}

func sshCommand(h *testhost.Host, command string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(h.Addr)
	return exec.Command("ssh", append(sshOptions(h), "-p", port, h.User+"@"+host, command)...)
}

func sshOptions(h *testhost.Host) []string {
	return []string{
		"-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes",
		"-o", "UserKnownHostsFile=" + h.KnownHosts, "-o", "GlobalKnownHostsFile=/dev/null", "-i", h.IdentityFile,
	}
}

// engineAPI asks the daemon of a host and decodes the answer into out.
func engineAPI(t *testing.T, h *testhost.Host, method, path string, body, out any) (status int, text string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", h.Socket)
		},
	}}
	encoded, err := json.Marshal(body)
	check(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, "http://docker"+path, bytes.NewReader(encoded))
	check(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if out != nil && resp.StatusCode < 300 {
		if err := json.Unmarshal(answer, out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
	return resp.StatusCode, string(answer)
}

// pull pulls an image and returns what the daemon said.
func pull(t *testing.T, h *testhost.Host, ref string) string {
	t.Helper()
	_, text := engineAPI(t, h, "POST", "/images/create?fromImage="+ref, nil, nil)
	return text
}

// object is a JSON object.
type object = map[string]any

// create makes a container and starts it; the status and text are the start's.
func create(t *testing.T, h *testhost.Host, image string, cmd []string, host object) (id string, status int, text string) {
	t.Helper()
	var made struct{ ID string }
	config := object{"Image": image, "Entrypoint": cmd, "HostConfig": host, "ExposedPorts": object{"30000/tcp": object{}}}
	status, text = engineAPI(t, h, "POST", "/containers/create", config, &made)
	if status != http.StatusCreated {
		t.Fatalf("create container: %d %s", status, text)
	}
	status, text = engineAPI(t, h, "POST", "/containers/"+made.ID+"/start", nil, nil)
	return made.ID, status, text
}

// get asks a URL until it answers.
func get(t *testing.T, url string) string {
	t.Helper()
	var last error
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		resp, err := http.Get(url)
		if err != nil {
			last = err
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			last = fmt.Errorf("status %d: %s", resp.StatusCode, text)
			continue
		}
		return string(text)
	}
	t.Fatalf("GET %s: %v", url, last)
	return ""
}

func TestSSH(t *testing.T) {
	h := testhost.New(t, testhost.Options{Name: "h200-a", GPU: "8xH200"})

	if got, want := ssh(t, h, `hostname; echo $HOME; cd; pwd; echo "$PATH" | cut -d: -f1; id -un`), "h200-a\n/root\n/root\n"+h.Dir+"/bin\nroot\n"; got != want {
		t.Errorf("login says %q, want %q", got, want)
	}
	if got, want := ssh(t, h, "nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c"), "      8 NVIDIA H200\n"; got != want {
		t.Errorf("nvidia-smi counts %q, want %q", got, want)
	}

	if open, accepted := h.Connections(); accepted != 2 {
		t.Errorf("connections: %d open, %d in all, want 2 in all", open, accepted)
	}
}

// failing is a test of which one wants to see how it fails.
type failing struct {
	testing.TB
	said     string
	cleanups []func()
}

func (f *failing) Helper()                   {}
func (f *failing) Failed() bool              { return f.said != "" }
func (f *failing) Cleanup(do func())         { f.cleanups = append(f.cleanups, do) }
func (f *failing) Fatalf(s string, v ...any) { f.said = fmt.Sprintf(s, v...); runtime.Goexit() }

// TestStartFails: what there is already of a host that does not come up is removed.
func TestStartFails(t *testing.T) {
	f := &failing{TB: t}
	var ended sync.WaitGroup
	ended.Go(func() { testhost.New(f, testhost.Options{Name: "half", GPU: "8xABACUS"}) })
	ended.Wait()
	if !strings.Contains(f.said, "8xABACUS") {
		t.Errorf("New says %q", f.said)
	}
	for _, do := range f.cleanups {
		do()
	}
}

func TestConnectionLoss(t *testing.T) {
	h := testhost.New(t, testhost.Options{})

	h.Refuse(true)
	if out, err := sshCommand(h, "true").CombinedOutput(); err == nil {
		t.Errorf("ssh to a host that refuses: %s, want an error", out)
	}
	h.Refuse(false)

	begin := func() (*exec.Cmd, io.Reader) {
		t.Helper()
		cmd := sshCommand(h, "echo begun; read never")
		in, err := cmd.StdinPipe()
		check(t, err)
		t.Cleanup(func() { in.Close() })
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
			t.Fatalf("read first line: %v", err)
		}
		return cmd, out
	}
	for name, lose := range map[string]func() error{
		"cut":     func() error { h.Cut(); return nil },
		"restart": h.Restart,
	} {
		cmd, _ := begin()
		if err := lose(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s: the command ended well, want a lost connection", name)
		}
		if got := ssh(t, h, "echo again"); got != "again\n" {
			t.Errorf("after %s: ssh says %q", name, got)
		}
	}

	// A stalled connection says nothing, and says it all when it goes on.
	cmd := sshCommand(h, "cat")
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	echo := func() {
		fmt.Fprint(in, "x")
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatalf("read echo: %v", err)
		}
	}
	echo()
	h.Stall(true)
	done := make(chan struct{})
	go func() { echo(); close(done) }()
	select {
	case <-done:
		t.Error("a stalled connection answered")
	case <-time.After(200 * time.Millisecond):
	}
	h.Stall(false)
	<-done
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("after the stall: %v", err)
	}
}

func TestDocker(t *testing.T) {
	h := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, GPU: "8xH200"})
	digest := h.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_ITL": "1ms"})
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest) {
		t.Errorf("digest = %q", digest)
	}
	if again := h.PushEngine(t, "nvcr.io/nvidia/tensorrt-llm/release:1.0", map[string]string{"ENGINE_ITL": "1ms"}); again == digest {
		t.Errorf("digest of another image = %q, want another one: its entry point differs", again)
	}
	h.PushEngine(t, h.Registry+"/mine:1", nil)

	for _, ref := range []string{"vllm/vllm-openai:v0.7.3", "vllm/vllm-openai@" + digest, "nvcr.io/nvidia/tensorrt-llm/release:1.0", h.Registry + "/mine:1"} {
		if said := pull(t, h, ref); !strings.Contains(said, "Downloaded newer image") && !strings.Contains(said, "Image is up to date") {
			t.Errorf("pull %s: %s", ref, said)
		}
	}
	for _, ref := range []string{"vllm/vllm-openai:never", "nosuch/image:1", "nvcr.io/nosuch:1"} {
		if said := pull(t, h, ref); !strings.Contains(said, "manifest unknown") && !strings.Contains(said, "name unknown") {
			t.Errorf("pull %s: %s, want it not found", ref, said)
		}
	}
	h.DenyImage(t, "vllm/private:1")
	if said := pull(t, h, "vllm/private:1"); !strings.Contains(said, "denied") {
		t.Errorf("pull of a denied image: %s", said)
	}
	h.RegistryAway(true)
	if said := pull(t, h, "vllm/vllm-openai:v0.7.3"); !strings.Contains(said, "message") {
		t.Errorf("pull with the registry away: %s, want an error", said)
	}
	h.RegistryAway(false)

	gpus := object{"NetworkMode": "host", "Init": true, "DeviceRequests": []object{{"Driver": "", "Count": -1, "Capabilities": [][]string{{"gpu"}}}}}
	id, status, text := create(t, h, "vllm/vllm-openai:v0.7.3", []string{"vllm", "serve", "org/model", "--port", "8000"}, gpus)
	if status != http.StatusNoContent {
		t.Fatalf("start with GPUs: %d %s", status, text)
	}
	if got := get(t, "http://"+h.IP+":8000/v1/models"); !strings.Contains(got, "org/model") {
		t.Errorf("/v1/models = %s, want org/model in it", got)
	}
	if got := ssh(t, h, "ls -l /var/run/docker.sock"); !strings.HasPrefix(got, "srw") {
		t.Errorf("Docker's usual socket on the host: %s", got)
	}

	bridge := object{"PortBindings": object{"30000/tcp": []object{{"HostIp": h.IP, "HostPort": "31000"}}}}
	_, status, text = create(t, h, h.Registry+"/mine:1", []string{"python3", "-m", "sglang.launch_server", "--model-path", "org/other", "--host", "0.0.0.0"}, bridge)
	if status != http.StatusNoContent {
		t.Fatalf("start on the bridge: %d %s", status, text)
	}
	if got := get(t, "http://"+h.IP+":31000/v1/models"); !strings.Contains(got, "org/other") {
		t.Errorf("/v1/models through a published port = %s, want org/other in it", got)
	}

	pid, err := h.Docker.PID()
	check(t, err)
	check(t, h.Docker.Kill())
	check(t, h.Docker.Start())
	if now, err := h.Docker.PID(); err != nil || now == pid {
		t.Errorf("dockerd after restart: process %d, %v; want another than %d", now, err, pid)
	}
	if status, text := engineAPI(t, h, "GET", "/containers/"+id+"/json", nil, nil); status != http.StatusOK {
		t.Errorf("container after restart: %d %s", status, text)
	}
	check(t, h.Docker.Stop())
	if left, err := h.Processes(); err != nil || len(left) > 0 {
		t.Errorf("processes after the daemon stopped: %v, %v", left, err)
	}
}

// listening finds in a container's log where its engine listens.
func listening(t *testing.T, h *testhost.Host, id string) (url string) {
	t.Helper()
	line := regexp.MustCompile(`http://\S+`)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		_, log := engineAPI(t, h, "GET", "/containers/"+id+"/logs?stdout=1&stderr=1", nil, nil)
		if found := line.FindString(log); found != "" {
			return found
		}
	}
	t.Fatal("the engine's log never said where it listens")
	return ""
}

func TestTwoHosts(t *testing.T) {
	amd := testhost.New(t, testhost.Options{Name: "mi300x", Docker: true, Registry: true, GPU: "8xMI300X"})
	none := testhost.New(t, testhost.Options{Name: "plain", Docker: true, Registry: true, Namespace: true})
	const image = "lmsysorg/sglang:v0.4.3.post2-cu124"
	if a, b := amd.PushEngine(t, image, nil), none.PushEngine(t, image, nil); a != b {
		t.Errorf("one image has two digests: %s, %s", a, b)
	}
	for _, h := range []*testhost.Host{amd, none} {
		if said := pull(t, h, image); !strings.Contains(said, "Downloaded newer image") {
			t.Fatalf("pull on %s: %s", h.Name, said)
		}
	}
	kfd := object{"NetworkMode": "host", "GroupAdd": []string{"109"}, "Devices": []object{{"PathOnHost": "/dev/kfd", "PathInContainer": "/dev/kfd", "CgroupPermissions": "rwm"}}}
	command := []string{"/opt/nvidia/nvidia_entrypoint.sh", "python3", "-m", "sglang.launch_server", "--model-path", "org/model", "--port", "0", "--host", "127.0.0.1"}

	id, status, text := create(t, amd, image, command, kfd)
	if status != http.StatusNoContent {
		t.Fatalf("start with /dev/kfd: %d %s", status, text)
	}
	if got := get(t, listening(t, amd, id)+"/v1/models"); !strings.Contains(got, "org/model") {
		t.Errorf("/v1/models = %s, want org/model in it", got)
	}
	if got, want := ssh(t, amd, "rocm-smi --showmeminfo vram --csv | grep -c ^card; getent group render"), "8\nrender:x:109:\n"; got != want {
		t.Errorf("AMD's tools and groups: %q, want %q", got, want)
	}
	if _, _, text := create(t, none, image, command, kfd); !strings.Contains(text, "/dev/kfd") {
		t.Errorf("start with /dev/kfd on a host without: %s", text)
	}
	gpus := object{"DeviceRequests": []object{{"Count": -1, "Capabilities": [][]string{{"gpu"}}}}}
	if _, _, text := create(t, none, image, command, gpus); !strings.Contains(text, "could not select device driver") {
		t.Errorf("start with GPUs on a host without: %s", text)
	}
}

func TestNoRegistry(t *testing.T) {
	h := testhost.New(t, testhost.Options{Docker: true})
	if said := pull(t, h, "vllm/vllm-openai:v0.7.3"); !strings.Contains(said, "connection refused") {
		t.Errorf("pull without a way out: %s", said)
	}
}

// traces finds what there is of a host outside of its own namespaces.
func traces(t *testing.T, dir string) []string {
	t.Helper()
	found, err := testhost.Traces(dir)
	check(t, err)
	return found
}

// hasAddress reports whether this machine has the address.
func hasAddress(t *testing.T, ip string) bool {
	t.Helper()
	all, err := net.InterfaceAddrs()
	check(t, err)
	for _, a := range all {
		if strings.HasPrefix(a.String(), ip+"/") {
			return true
		}
	}
	return false
}

// busyHost is a host with a container and a command that has cut itself loose.
func busyHost(t *testing.T) *testhost.Host {
	t.Helper()
	h := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	h.PushEngine(t, "a/b", nil)
	if said := pull(t, h, "a/b:latest"); !strings.Contains(said, "Downloaded") {
		t.Fatalf("pull: %s", said)
	}
	if _, status, text := create(t, h, "a/b:latest", []string{"vllm", "serve", "m"}, object{"NetworkMode": "host"}); status != http.StatusNoContent {
		t.Fatalf("start: %d %s", status, text)
	}
	ssh(t, h, "setsid sleep 3600 >/dev/null 2>&1 </dev/null &")
	return h
}

func TestNothingIsLeft(t *testing.T) {
	var dir, outer string
	t.Run("host", func(t *testing.T) {
		h := busyHost(t)
		dir = h.Dir
		outer, _, _ = net.SplitHostPort(h.Registry)
		var got string
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && got != "sleep vllm"; <-tick.C {
			running, err := h.Processes()
			check(t, err)
			var names []string
			for _, p := range running {
				names = append(names, strings.Fields(p.Command)[0])
			}
			slices.Sort(names)
			got = strings.Join(names, " ")
		}
		if got != "sleep vllm" {
			t.Errorf("processes = %q, want sleep and vllm", got)
		}
		if !hasAddress(t, outer) {
			t.Errorf("address %s is not there while the host is", outer)
		}
	})
	if left := traces(t, dir); len(left) > 0 {
		t.Errorf("left of the host: %q", left)
	}
	if hasAddress(t, outer) {
		t.Errorf("left of the host: address %s", outer)
	}
}

// TestSweep kills a test process with a busy, stalled host and sweeps.
func TestSweep(t *testing.T) {
	sweepVictim(t, func() []*testhost.Host {
		h := busyHost(t)
		cmd := sshCommand(h, "cat")
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		check(t, cmd.Start())
		h.Stall(true)
		return []*testhost.Host{h}
	})
}

// sweepVictim kills a test process once it has made hosts, and sweeps. The process is this
// test once more, in the role that the environment gives.
func sweepVictim(t *testing.T, make func() []*testhost.Host) {
	t.Helper()
	if os.Getenv("TESTHOST_ROLE") == "victim" {
		for _, h := range make() {
			fmt.Printf("host %s %s\n", h.Dir, h.Outside())
		}
		if t.Failed() {
			return // and it is told why
		}
		fmt.Println("all")
		_, _ = io.ReadAll(os.Stdin) // until killed
		return
	}
	victim := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	victim.Env = append(os.Environ(), "TESTHOST_ROLE=victim")
	victim.Stderr = os.Stderr
	if _, err := victim.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := victim.StdoutPipe()
	check(t, err)
	check(t, victim.Start())
	hosts := map[string]string{} // where the test is for a host, by the host's directory
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "all" {
		var dir, outer string
		if _, err := fmt.Sscanf(lines.Text(), "host %s %s", &dir, &outer); err != nil {
			t.Errorf("the victim says %q", lines.Text())
			continue
		}
		hosts[dir] = outer
		if len(traces(t, dir)) == 0 {
			t.Errorf("no trace of a host that runs")
		}
	}
	check(t, victim.Process.Kill())
	_ = victim.Wait()
	if len(hosts) == 0 {
		t.Error("the victim has made no hosts")
	}
	if err := testhost.Sweep(); err != nil {
		t.Fatalf("sweep: %v", err)
	}
	for dir, outer := range hosts {
		if left := traces(t, dir); len(left) > 0 {
			t.Errorf("left of the host: %q", left)
		}
		if hasAddress(t, outer) {
			t.Errorf("left of the host: address %s", outer)
		}
	}
}
