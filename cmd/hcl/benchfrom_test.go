package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
	"hclbench/testhost"
)

// TestBenchFrom: two hosts send one load to a server that only they reach, and are as they were.
func TestBenchFrom(t *testing.T) {
	t.Parallel()
	hosts := make([]*testhost.Host, 3)
	for i := range hosts {
		hosts[i] = testhost.New(t, testhost.Options{Name: fmt.Sprint("b", i), Namespace: true})
	}
	at, err := testhost.Cable(hosts...)
	must(t, err)
	server, url := hosts[0], fmt.Sprintf("http://%s:8000", at[0])
	serving := server.Command(testhost.HCL(t), "sim", "--host", at[0], "--port", "8000", "--ttft", "5ms", "--itl", "2ms")
	must(t, serving.Start())
	t.Cleanup(func() {
		serving.Process.Kill()
		serving.Wait()
	})
	eventually(t, "the server answers", time.Minute, func() bool {
		return server.Command("curl", "-sSf", url+"/health").Run() == nil
	})

	u := newPerson(t, hosts[1], "")
	u.knows(hosts[2])
	var config strings.Builder
	for i, h := range hosts[1:] {
		address, port, _ := strings.Cut(h.Addr, ":")
		fmt.Fprintf(&config, "Host c%d\n  HostName %s\n  Port %s\n  User %s\n  IdentityFile %s\n", i, address, port, h.User, h.IdentityFile)
	}
	must(t, os.WriteFile(filepath.Join(u.home, ".ssh", "config"), []byte(config.String()), 0o600))
	must(t, os.WriteFile(filepath.Join(u.lab, "prompts.jsonl"), []byte(`{"prompt":"one two three","output_tokens":4}`+"\n"+
		`{"prompt":"four five six","output_tokens":4}`+"\n"), 0o644))
	bench := func(more ...string) []string {
		return append([]string{"bench", url, "--model", "sim", "--from", "c0,c1"}, more...)
	}

	out, said, code := u.run(bench("--input-tokens", "8", "--output-tokens", "4", "--requests", "12", "--concurrency", "4",
		"--repeat", "2", "--format", "records")...)
	if code != 0 && code != exitCells {
		t.Fatalf("exit %d\n%s", code, said)
	}
	by := [2]int{}
	for line := range strings.Lines(out) {
		var r load.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Error != "" {
			t.Fatalf("%q: %v", line, err)
		}
		by[r.Client]++
	}
	if by != [2]int{12, 12} {
		t.Errorf("the hosts sent %v requests, want 12 each\n%s", by, said)
	}
	out, said, code = u.run(bench("--dataset", "jsonl", "--path", "prompts.jsonl", "--requests", "2", "--concurrency", "2")...)
	if code != 0 && code != exitCells || !strings.Contains(out, "c0") || !strings.Contains(out, "c1") {
		t.Errorf("a file: exit %d\n%s%s", code, out, said)
	}

	wrong := func(code int, message string, args ...string) {
		t.Helper()
		if _, said, got := u.run(args...); got != code || !strings.Contains(said, message) {
			t.Errorf("%v: exit %d, want %d with %q\n%s", args, got, code, message, said)
		}
	}
	wrong(2, "--concurrency: concurrency 1 cannot be shared by 2 hosts", bench("--concurrency", "1")...)
	wrong(2, "--from names c0 twice", "bench", url, "--from", "c0,c0", "--concurrency", "2")
	wrong(2, "It is not a URL", "bench", url, "--from", "ssh://c0", "--concurrency", "2")
	// Who sends the load is asked what the server has: this machine does not reach it, and what is local is so there.
	out, said, code = u.run("bench", url, "--from", "c0,c1", "--input-tokens", "8", "--output-tokens", "4", "--requests", "4", "--concurrency", "2")
	if code != 0 && code != exitCells || !strings.Contains(out, "sim at "+url) {
		t.Errorf("no model was said: exit %d\n%s%s", code, out, said)
	}
	wrong(1, "say it with --model", "bench", "http://127.0.0.1:1", "--from", "c0,c1", "--concurrency", "2")
	wrong(1, "does not reach the server", slices.Replace(bench("--concurrency", "2"), 1, 2, "http://192.0.2.99:1")...)
	// A caller that is interrupted, and one that is killed, leave nothing that sends.
	inFlight := func() bool {
		var truth sim.Truth
		out, err := server.Command("curl", "-sSf", url+"/sim/truth").Output()
		return err == nil && json.Unmarshal(out, &truth) == nil && truth.InFlight > 0
	}
	for _, how := range []os.Signal{os.Interrupt, os.Kill} {
		cmd := u.command(bench("--input-tokens", "8", "--output-tokens", "4", "--requests", "1000000", "--concurrency", "4")...)
		must(t, cmd.Start())
		eventually(t, "the load runs", time.Minute, inFlight)
		if got := ends(t, cmd, how); how == os.Interrupt && got != exitInterrupted {
			t.Errorf("exit %d, want %d", got, exitInterrupted)
		}
		for _, h := range hosts[1:] {
			eventually(t, "the agent is gone", 4*time.Minute, func() bool { return len(agents(t, h)) == 0 })
		}
		if inFlight() {
			t.Errorf("%v: requests are still sent", how)
		}
	}

	hosts[2].Refuse(true)
	wrong(1, "host c1: ", bench("--concurrency", "2")...)
	for _, h := range hosts[1:] {
		eventually(t, "the agent is gone", time.Minute, func() bool { return len(agents(t, h)) == 0 })
	}
}
