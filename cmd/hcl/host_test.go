package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hclbench/testhost"
)

// TestKilled: apply is killed in the middle of a cell. destroy removes
// everything of the lab and nothing else, and the next apply goes on.
func TestKilled(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "5ms"})
	host.PushEngine(t, "somebody/else:1", nil)
	u := newPerson(t, host, strings.ReplaceAll(slowLab, "%LEASE%", "10m"))

	// Somebody else's container, which looks a bit like ours.
	inDocker(t, host, "run", "--detach", "--name", "hcl-slow-vllm-e-else", "--label", "hcl.lab=other", "--network=none", "somebody/else:1", "vllm", "serve", "x")

	u.edit("requests = 20", "requests = 20000") // it is in mid-cell until it is killed
	cmd := u.until("progress")
	if got := inDocker(t, host, "ps", "--quiet", "--filter", "label=hcl.lab=slow"); strings.Count(got, "\n") != 0 || got == "" {
		t.Errorf("in mid-cell these run: %q", got)
	}
	u.tells("status", anyCode, "vllm.e", "running", "leased by")
	// Meanwhile a second apply of the same lab directory is refused.
	u.tells("apply", exitFailed, "hcl apply")
	u.tells("logs vllm.e", exitDone, "Application startup complete")

	// The secret is in the engine's environment: it is not in what Docker tells of
	// the container, in no command line here or there, and in no log.
	id := inDocker(t, host, "ps", "--quiet", "--filter", "label=hcl.lab=slow")
	if told := inDocker(t, host, "inspect", id) + inDocker(t, host, "logs", id); strings.Contains(told, "canary-") || !strings.Contains(told, "--first") {
		t.Errorf("Docker tells a secret:\n%s", told)
	}
	if top := inDocker(t, host, "top", id); strings.Contains(top, "canary-") || !strings.Contains(top, "--config /hcl/config.yaml --first 1") {
		t.Errorf("the process list tells a secret, or not where the engine finds it:\n%s", top)
	}
	config, err := exec.Command("sh", "-c", "docker -H unix://"+host.Socket+" cp "+id+":/hcl/config.yaml - | tar -xO").Output()
	if err != nil || string(config) != "{\n  \"another-key\": \"canary-7f3a\",\n  \"some-key\": \"of canary-word\"\n}\n" {
		t.Errorf("the engine reads %s, %v", config, err)
	}
	pid := inDocker(t, host, "inspect", "--format", "{{.State.Pid}}", id)
	if found, err := host.Command("sh", "-c", "cat /proc/"+pid+"/environ /proc/$(cat /proc/"+pid+"/task/"+pid+"/children | cut -d' ' -f1)/environ").Output(); err != nil || !strings.Contains(string(found), "HF_TOKEN=canary-7f3a") {
		t.Errorf("the secret does not reach the engine: %v", err)
	}
	if found, err := exec.Command("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'canary-7[f]3a'; true").Output(); err != nil || strings.TrimSpace(string(found)) != "0" {
		t.Errorf("the secret is in %s command lines, %v", found, err)
	}

	ends(t, cmd, os.Kill)
	if inDocker(t, host, "ps", "--quiet", "--filter", "label=hcl.lab=slow") == "" {
		t.Fatal("the container died with its caller: there is nothing to destroy")
	}

	// What runs there can be removed also when the store is out of reach.
	const noStore = "--store=postgres://somebody@127.0.0.1:1/none"
	u.tells("destroy "+noStore, exitFailed, "--force")
	u.tells("destroy --force "+noStore, exitDone, "Removed 1 engine of lab slow")
	if got := inDocker(t, host, "ps", "--all", "--format", "{{.Names}} {{.State}}"); got != "hcl-slow-vllm-e-else running" {
		t.Errorf("after destroy these are left: %s", got)
	}
	eventually(t, "the agent is gone", time.Minute, func() bool { return len(agents(t, host)) == 0 })
	u.tells("destroy", exitDone, "Nothing of lab slow")
	u.edit("requests = 20000", "requests = 20")

	said := u.tells("apply", applied, "Stored as run")
	u.tells("plan --detailed-exitcode", exitDone)
	if got := inDocker(t, host, "ps", "--all", "--format", "{{.Names}}"); got != "hcl-slow-vllm-e-else" {
		t.Errorf("at the end these are left: %s", got)
	}

	// The secret reached the engine, and is nowhere else.
	for _, where := range []string{u.lab, u.home, host.Home} {
		found, _ := exec.Command("grep", "-rl", "--exclude=lab.hcl", "canary-7f3a", where).Output()
		if len(found) > 0 {
			t.Errorf("the secret is in %s", found)
		}
	}
	if strings.Contains(said, "canary-7f3a") {
		t.Error("the secret is printed")
	}
}

// TestDestroyEngineOfMatrix: the only engine of a lab uses matrix.*. destroy finds its container while the
// lease still runs, and so do status and logs, and check knows its image.
func TestDestroyEngineOfMatrix(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "5ms"})
	u := newPerson(t, host, `
lab "axes" { lease = "10m" }
host "box" {
  %HOST%
}
model "m" { repo = "m" }
model "n" { repo = "n" }
engine "vllm" "e" {
  host  = host.box
  model = matrix.model
  image = "vllm/vllm-openai:v0.7.3"
  ready { stall = "1m" }
}
`+benchmarkOf("engine.vllm.e", "model = [model.m, model.n]", 20000, "1", 20))
	cmd := u.until("progress")
	u.tells("status", anyCode, "vllm.e", "running")
	u.tells("logs vllm.e", exitDone, "Application startup complete")
	u.tells("check", anyCode, "vllm/vllm-openai:v0.7.3")
	follow, log := u.start("logs", "vllm.e", "--follow")
	if !log.Scan() {
		t.Error("the log that is followed says nothing")
	}
	if code := ends(t, follow, os.Interrupt); code != exitInterrupted {
		t.Errorf("logs --follow after Ctrl-C: exit %d, want %d", code, exitInterrupted)
	}
	ends(t, cmd, os.Kill)

	// The engine is taken out of the lab, which has no container any more.
	u.edit(`engine "vllm" "e"`, `engine "sim" "e"`, `  image = "vllm/vllm-openai:v0.7.3"`+"\n", "", "engine.vllm.e", "engine.sim.e")
	u.tells("status", anyCode, "vllm.e")
	u.tells("destroy", exitDone, "Removed 1 engine of lab axes")
	if got := inDocker(t, host, "ps", "--all", "--quiet"); got != "" {
		t.Errorf("after destroy these are left: %s", got)
	}
}

// TestNobodyComesBack: apply is killed and nobody destroys. When its lease has
// run out the host has cleaned itself. It is a host as they are handed out: a login
// that may use Docker only by sudo, and an sshd that forwards nothing.
func TestNobodyComesBack(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, GPU: "8xH200", Login: "ada", Sudo: true, SSHD: []string{"DisableForwarding yes"}})
	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "1s"})
	lab := strings.NewReplacer("%LEASE%", "3s", "%HOST%", "%HOST%\n  gpus = \"8xH200\"\n  prepare {\n    power_cap = 600\n    lock_clocks = 1500\n  }",
		"image =", "container { ulimits = { memlock = null } }\n  image =").Replace(slowLab)
	u := newPerson(t, host, lab)
	settings := func() string {
		t.Helper()
		out, err := host.Command(filepath.Join(host.Dir, "bin", "nvidia-smi"), "--query-gpu=power.limit,clocks_throttle_reasons.active", "--format=csv,noheader,nounits", "-i", "6").Output()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	const free, set = "700.00, 0x0000000000000001", "600.00, 0x0000000000000002"
	cmd := u.until("progress")
	if got := settings(); got != set {
		t.Errorf("while it is measured the GPUs have %s, want %s", got, set)
	}
	ends(t, cmd, os.Kill)
	eventually(t, "the container is gone", 30*time.Second, func() bool { return inDocker(t, host, "ps", "--all", "--quiet") == "" })
	eventually(t, "the agent is gone", time.Minute, func() bool { return len(agents(t, host)) == 0 })
	if got := settings(); got != free {
		t.Errorf("after the lease the GPUs have %s, want %s", got, free)
	}

	// The caller and then the agent: destroy finds what they have left set.
	cmd = u.until("progress")
	ends(t, cmd, os.Kill)
	for _, a := range agents(t, host) {
		_ = syscall.Kill(a.PID, syscall.SIGKILL) // what it stands between may be gone with it
	}
	u.tells("status", exitDone, "set for a run", "power limit of GPU 0-7: 700 W → 600 W")
	if out, said, code := u.run("destroy"); code != 0 || settings() != free {
		t.Errorf("destroy: exit %d, the GPUs have %s\n%s%s", code, settings(), out, said)
	}

	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms"})
	u.tells("plan", exitDone, "! power limit 600 W: `nvidia-smi -i 0,1,2,3,4,5,6,7 -pl 600`, then back to what it was")
	u.tells("apply", applied,
		"set power limit of GPU 0-7: 700 W → 600 W, until the end", "; only its container listens on port 8000", "stopped, removed, port closed")
	if got := settings(); got != free {
		t.Errorf("after the next apply the GPUs have %s, want %s", got, free)
	}
	u.tells("check", exitDone, "at sudo -n docker -H unix:///var/run/docker.sock system dial-stdio")
}

// TestFirstContact: what a user reads who connects to a host for the first time.
func TestFirstContact(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true})
	u := newPerson(t, host, strings.ReplaceAll(slowLab, "%LEASE%", "1m"))
	known := filepath.Join(u.home, ".ssh", "known_hosts")
	must(t, os.Remove(known))
	u.tells("status", exitFailed, "SHA256:", "--accept-new-host-keys")
	// With the key accepted the next thing is missing: Docker. Both are said in
	// full, with the host and its place in the lab.
	u.tells("apply --accept-new-host-keys", exitFailed, "SHA256:", "host box (lab.hcl:", "ocker")
	if b, err := os.ReadFile(known); err != nil || len(b) == 0 {
		t.Errorf("the key was not kept: %v", err)
	}
	// A changed key is refused, whatever is asked for.
	line := strings.Fields(host.HostKeyLine)
	b, err := os.ReadFile(known)
	must(t, err)
	wrong := bytes.ReplaceAll(b, []byte(line[1][len(line[1])-8:]), []byte("AAAAAAAA"))
	must(t, os.WriteFile(known, wrong, 0o600))
	u.tells("apply --accept-new-host-keys", exitFailed, "has changed", "ssh-keygen")
}

// TestCtrlC: the first takes everything down and ends with 130; while an engine
// takes its time to stop, a second leaves at once.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "1s"})
	u := newPerson(t, host, strings.ReplaceAll(slowLab, "%LEASE%", "10m"))
	cmd := u.until("progress")
	if got := ends(t, cmd, os.Interrupt); got != exitInterrupted {
		t.Errorf("exit %d, want %d", got, exitInterrupted)
	}
	if got := inDocker(t, host, "ps", "--all", "--quiet"); got != "" {
		t.Errorf("left: %s", got)
	}
	eventually(t, "the agent is gone", time.Minute, func() bool { return len(agents(t, host)) == 0 })

	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "1s", "ENGINE_FAULT": "ignore-term"})
	cmd = u.until("progress")
	must(t, cmd.Process.Signal(os.Interrupt))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// Signals are asked for until one is the second; the engine's grace is a minute.
	start := time.Now()
	for {
		select {
		case <-ended:
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("the second Ctrl-C took %s", took)
			}
			u.tells("status", exitDone, "vllm.e")
			return
		case <-time.After(100 * time.Millisecond):
			cmd.Process.Signal(os.Interrupt)
		}
	}
}

// TestEvents holds what apply --json prints to docs/events.md: every type that comes is in its table, with
// the members that it names. Its model comes with a token that nobody else gets to see.
func TestEvents(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/events.md")
	must(t, err)
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true})
	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "5ms"})
	hub := testhost.NewHub(t, net.JoinHostPort(host.Outside(), "0"), map[string][]byte{"config.json": []byte("{}"), "model.bin": bytes.Repeat([]byte("w"), 1<<20)})
	const token = "hf_canary-1c7e"
	hub.Require(token)
	cache := t.TempDir()
	lab := strings.Replace(slowLab, `{ repo = "m" }`, fmt.Sprintf("{\n  repo     = \"org/model\"\n  cache    = %q\n  download = true\n}", cache), 1)
	u := newPerson(t, host, strings.ReplaceAll(lab, "%LEASE%", "1m"))
	u.env = []string{"HF_ENDPOINT=" + hub.URL, "HF_TOKEN=" + token}

	// The hub's token is looked for wherever somebody else could see it: while the
	// model comes, while the engine serves, and when all is over.
	secret := func(where string, text []byte) {
		t.Helper()
		if bytes.Contains(text, []byte(token)) {
			t.Errorf("the hub's token is in %s", where)
		}
	}
	processes := func() {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range lines {
			if line, err := os.ReadFile(file); err == nil { // it has not ended meanwhile
				secret("a command line", line)
			}
		}
		for _, a := range agents(t, host) {
			if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", a.PID)); err == nil {
				secret("the environment of "+a.Command, env)
			}
		}
	}
	var looked atomic.Int64
	hub.Before(func(http.ResponseWriter, *http.Request, string) bool {
		processes()
		looked.Add(1)
		return false
	})
	cmd := u.command("apply", "--json")
	var said bytes.Buffer
	cmd.Stderr = &said
	read, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var out string
	for sc := bufio.NewScanner(read); sc.Scan(); {
		out += sc.Text() + "\n"
		if strings.Contains(sc.Text(), `"type":"ready"`) {
			id := inDocker(t, host, "ps", "--quiet", "--filter", "label=hcl.lab=slow")
			secret("what Docker tells of the engine", []byte(inDocker(t, host, "inspect", id)+inDocker(t, host, "logs", id)+inDocker(t, host, "top", id)))
			processes()
			looked.Add(1)
		}
	}
	cmd.Wait() // its exit status is below
	if code := cmd.ProcessState.ExitCode(); code != exitDone && code != exitCells {
		t.Fatalf("exit %d\n%s", code, said.String())
	}
	if n := looked.Load(); n != 3 {
		t.Errorf("the token was looked for %d times, want at two files and once at the engine", n)
	}
	secret("what apply prints", []byte(out+said.String()))
	if found, _ := exec.Command("grep", "-rl", token, u.home, u.lab, cache).Output(); len(found) > 0 {
		t.Errorf("the hub's token is in %s", found)
	}
	if found, err := host.Command("sh", "-c", "grep -rl 'hf_canary-1c7[e]' /root /run/lock 2>/dev/null; true").Output(); err != nil || len(found) > 0 {
		t.Errorf("on the host the hub's token is in %s, %v", found, err)
	}

	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		kind, _ := e["type"].(string)
		seen[kind] = true
		if !bytes.Contains(page, []byte("| `"+kind+"` |")) {
			t.Errorf("docs/events.md has no row for %q", kind)
		}
		for _, member := range []string{"pull", "download", "progress"} {
			inner, _ := e[member].(map[string]any)
			for name := range inner {
				if !bytes.Contains(page, []byte(name)) {
					t.Errorf("docs/events.md does not name %s.%s", member, name)
				}
			}
		}
	}
	for _, kind := range []string{"step", "pull", "download", "ready", "begin", "progress", "end", "down", "outcome"} {
		if !seen[kind] {
			t.Errorf("no event of type %q came", kind)
		}
	}
}

// TestImageFromCaller: the host has no way out, and its image comes from a
// registry that wants a login, which only this machine has.
func TestImageFromCaller(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, NoWayOut: true})
	host.PushEngine(t, "vllm/vllm-openai:v0.7.3", nil)
	host.RequireLogin("docker.io", "ada", "canary-7f3a")
	lab := strings.ReplaceAll(slowLab, "%LEASE%", "10m")
	u := newPerson(t, host, strings.Replace(lab, "%HOST%", "%HOST%\nimage_from = \"caller\"", 1))
	u.env = append(host.RegistryEnv(), "PATH="+u.home+":"+os.Getenv("PATH"))
	u.tells("apply", exitFailed, "docker login")
	must(t, os.Mkdir(filepath.Join(u.home, ".docker"), 0o700))
	must(t, os.WriteFile(filepath.Join(u.home, ".docker", "config.json"), []byte(`{"credsStore":"test"}`), 0o600))
	const helper = "#!/bin/sh\nread -r registry\n[ \"$registry\" = https://index.docker.io/v1/ ] && echo '{\"Username\":\"ada\",\"Secret\":\"canary-7f3a\"}'\n"
	must(t, os.WriteFile(filepath.Join(u.home, "docker-credential-test"), []byte(helper), 0o700))
	if said := u.tells("apply", applied); strings.Contains(said, "canary-7f3a") {
		t.Errorf("apply tells the secret:\n%s", said)
	}
	shown, said, code := u.run("check")
	if code != exitDone || !regexp.MustCompile(`ok +image +there +vllm/vllm-openai:v0.7.3`).MatchString(shown) {
		t.Errorf("check of an image that is there: exit %d\n%s%s", code, shown, said)
	}

	// An image that is too large is not even begun to be pulled.
	host.PushHuge(t, "vllm/vllm-openai:v0.7.3-huge", 1<<50)
	u.edit(":v0.7.3", ":v0.7.3-huge")
	const lacks = "has layers of 1125899.9 GB still to come, which unpack to 2251799.8 GB at least"
	u.tells("check", exitContract, "blocked, image: vllm/vllm-openai:v0.7.3-huge "+lacks)
	before := len(host.RegistryRequests())
	u.tells("apply", exitFailed, lacks)
	for _, asked := range host.RegistryRequests()[before:] {
		if strings.HasPrefix(asked, "GET ") && strings.Contains(asked, "/blobs/") && strings.Contains(asked, fmt.Sprintf("%x", sha256.Sum256([]byte("vllm/vllm-openai:v0.7.3-huge")))) {
			t.Errorf("its layer was asked for: %s", asked)
		}
	}
}
