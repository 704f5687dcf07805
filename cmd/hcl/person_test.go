package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/testhost"
)

// must ends a test that cannot go on.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// person is somebody with a home directory, a lab and the hcl binary.
type person struct {
	*testing.T
	hcl, home, lab string
	on             *testhost.Host // the machine they sit at; nil: this one
	env            []string       // NAME=VALUE, beside this process's
}

func newPerson(t *testing.T, host *testhost.Host, lab string) *person {
	t.Helper()
	u := newLocal(t, strings.ReplaceAll(lab, "%HOST%", reached(host)))
	must(t, os.Mkdir(filepath.Join(u.home, ".ssh"), 0o700))
	u.knows(host)
	return u
}

// reached is what a lab says of how a host is reached.
func reached(host *testhost.Host) string {
	return fmt.Sprintf("address = %q\nuser = %q\nidentity_file = %q", host.Addr, host.User, host.IdentityFile)
}

// newLocal is somebody whose lab is on this machine.
func newLocal(t *testing.T, lab string) *person {
	t.Helper()
	home, err := os.MkdirTemp("", "h") // short, for the agent's socket is below it
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	u := &person{T: t, hcl: testhost.HCL(t), home: home, lab: t.TempDir()}
	u.write(lab)
	return u
}

// text is the lab's, which write replaces and edit changes.
func (u *person) text() string {
	u.Helper()
	read := func() ([]byte, error) { return os.ReadFile(filepath.Join(u.lab, "lab.hcl")) }
	if u.on != nil {
		read = u.on.Command("cat", filepath.Join(u.lab, "lab.hcl")).Output
	}
	text, err := read()
	must(u, err)
	return string(text)
}

func (u *person) write(text string) {
	u.Helper()
	if u.on == nil {
		must(u, os.WriteFile(filepath.Join(u.lab, "lab.hcl"), []byte(text), 0o644))
		return
	}
	cmd := u.on.Command("tee", filepath.Join(u.lab, "lab.hcl"))
	cmd.Stdin = strings.NewReader(text)
	must(u, cmd.Run())
}

func (u *person) edit(oldnew ...string) {
	u.Helper()
	u.write(strings.NewReplacer(oldnew...).Replace(u.text()))
}

// knows has the person trust a host's keys.
func (u *person) knows(host *testhost.Host) {
	u.Helper()
	keys, err := os.ReadFile(host.KnownHosts)
	must(u, err)
	known, err := os.OpenFile(filepath.Join(u.home, ".ssh", "known_hosts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(u, err)
	_, err = known.Write(keys)
	must(u, errors.Join(err, known.Close()))
}

func (u *person) command(args ...string) *exec.Cmd {
	if args[0] == "apply" && !slices.Contains(args, "--auto-approve") {
		args = append(args[:1:1], append([]string{"--auto-approve"}, args[1:]...)...) // nobody is there to ask
	}
	cmd := exec.CommandContext(u.Context(), u.hcl, args...)
	if u.on != nil {
		cmd = u.on.Command("sh", append([]string{"-c", `cd "$0" && exec "$@"`, u.lab, u.hcl}, args...)...)
	}
	cmd.Dir = u.lab
	cmd.Env = append(os.Environ(), "HOME="+u.home, "SSH_AUTH_SOCK=")
	cmd.Env = append(cmd.Env, u.env...)
	return cmd
}

// run runs hcl to its end.
func (u *person) run(args ...string) (stdout, stderr string, code int) {
	u.Helper()
	cmd := u.command(args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		u.Fatal(err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// json decodes what hcl prints.
func (u *person) json(v any, args ...string) {
	u.Helper()
	out, said, _ := u.run(args...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		u.Fatalf("hcl %v: %v\n%s%s", args, err, out, said)
	}
}

// Exit codes of which a test wants several: a busy machine may make cells suspect.
const (
	applied = -1 // done, or some cells are suspect
	anyCode = -2
)

// tells has hcl exit with a code and print all the words, and returns what it prints.
func (u *person) tells(command string, code int, words ...string) string {
	u.Helper()
	out, said, got := u.run(strings.Fields(command)...)
	right := code == anyCode || got == code || code == applied && (got == exitDone || got == exitCells)
	for _, w := range words {
		right = right && strings.Contains(out+said, w)
	}
	if !right {
		u.Errorf("hcl %s: exit %d, want %d with %q\n%s%s", command, got, code, words, out, said)
	}
	return out + said
}

// start starts hcl, and returns what it prints.
func (u *person) start(args ...string) (*exec.Cmd, *bufio.Scanner) {
	u.Helper()
	cmd := u.command(args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(u, err)
	must(u, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// until starts hcl apply and returns once an event of the type has come.
func (u *person) until(event string) *exec.Cmd {
	u.Helper()
	cmd, out := u.start("apply", "--json")
	for out.Scan() {
		var e struct{ Type string }
		must(u, json.Unmarshal(out.Bytes(), &e))
		if e.Type == event {
			return cmd
		}
	}
	u.Fatalf("apply ended before %s: %v", event, cmd.Wait())
	return nil
}

// ends sends a signal to what was started, and returns how it exits.
func ends(t testing.TB, cmd *exec.Cmd, by os.Signal) int {
	t.Helper()
	must(t, cmd.Process.Signal(by))
	cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

func inDocker(t *testing.T, host *testhost.Host, args ...string) string {
	t.Helper()
	out, err := host.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// agents are the processes of ours on the host.
func agents(t *testing.T, host *testhost.Host) []testhost.Process {
	t.Helper()
	all, err := host.Processes()
	must(t, err)
	return slices.DeleteFunc(all, func(p testhost.Process) bool { return !strings.Contains(fmt.Sprint(p), ".cache/hcl") })
}

// eventually waits for a condition that something else brings about.
func eventually(t *testing.T, what string, within time.Duration, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not after %s: %s", within, what)
		}
	}
}

// benchmarkOf is a benchmark that sends so many requests at each point of a matrix.
func benchmarkOf(engine, matrix string, requests int, concurrency string, outputs int) string {
	return fmt.Sprintf(`
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  matrix { %s }
  engine   = %s
  dataset  = dataset.random.d
  requests = %d
  load {
    concurrency   = %s
    output_tokens = %d
  }
}
`, matrix, engine, requests, concurrency, outputs)
}

var slowLab = `
lab "slow" { lease = "%LEASE%" }
variable "token" {
  default   = "canary-7f3a"
  sensitive = true
}
host "box" {
  %HOST%
}
model "m" { repo = "m" }
engine "vllm" "e" {
  host  = host.box
  model = model.m
  image = "vllm/vllm-openai:v0.7.3"
  env   = { HF_TOKEN = var.token }
  flags  = { first = 1, some-key = "of ${var.word}" }
  config = { another-key = var.token }
  ready { stall = "1m" }
}
variable "word" {
  default   = "canary-word"
  sensitive = true
}` + benchmarkOf("engine.vllm.e", "concurrency = [1, 2]", 20, "matrix.concurrency", 20)
