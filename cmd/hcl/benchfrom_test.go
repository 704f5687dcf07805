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

// twoSenders are two hosts that send one load, and somebody who has them do so to a server that only
// they reach.
type twoSenders struct {
	*person
	server *testhost.Host
	url    string
	hosts  []*testhost.Host
}

func newSenders(t *testing.T) twoSenders {
	t.Helper()
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
	return twoSenders{u, server, url, hosts[1:]}
}

func (s twoSenders) bench(more ...string) []string {
	return append([]string{"bench", s.url, "--model", "sim", "--from", "c0,c1"}, more...)
}

// stop by a signal while the load runs, and leave nothing that sends.
func (s twoSenders) stop(how os.Signal) (code int) {
	s.Helper()
	inFlight := func() bool {
		var truth sim.Truth
		out, err := s.server.Command("curl", "-sSf", s.url+"/sim/truth").Output()
		return err == nil && json.Unmarshal(out, &truth) == nil && truth.InFlight > 0
	}
	cmd := s.command(s.bench("--input-tokens", "8", "--output-tokens", "4", "--requests", "1000000", "--concurrency", "4")...)
	must(s, cmd.Start())
	eventually(s.T, "the load runs", time.Minute, inFlight)
	code = ends(s, cmd, how)
	s.gone(4 * time.Minute)
	if inFlight() {
		s.Errorf("%v: requests are still sent", how)
	}
	return code
}

// gone waits until the hosts are as they were.
func (s twoSenders) gone(within time.Duration) {
	s.Helper()
	for _, h := range s.hosts {
		eventually(s.T, "the agent is gone", within, func() bool { return len(agents(s.T, h)) == 0 })
	}
}

// TestBenchFrom: two hosts send one load to a server that only they reach, and are as they were.
func TestBenchFrom(t *testing.T) {
	t.Parallel()
	u := newSenders(t)
	out, said, code := u.run(u.bench("--input-tokens", "8", "--output-tokens", "4", "--requests", "12", "--concurrency", "4",
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
	out, said, code = u.run(u.bench("--dataset", "jsonl", "--path", "prompts.jsonl", "--requests", "2", "--concurrency", "2")...)
	if code != 0 && code != exitCells || !strings.Contains(out, "c0") || !strings.Contains(out, "c1") {
		t.Errorf("a file: exit %d\n%s%s", code, out, said)
	}

	wrong := func(code int, message string, args ...string) {
		t.Helper()
		if _, said, got := u.run(args...); got != code || !strings.Contains(said, message) {
			t.Errorf("%v: exit %d, want %d with %q\n%s", args, got, code, message, said)
		}
	}
	wrong(2, "--concurrency: concurrency 1 cannot be shared by 2 hosts", u.bench("--concurrency", "1")...)
	wrong(2, "--from names c0 twice", "bench", u.url, "--from", "c0,c0", "--concurrency", "2")
	wrong(2, "It is not a URL", "bench", u.url, "--from", "ssh://c0", "--concurrency", "2")
	// Who sends the load is asked what the server has: this machine does not reach it, and what is local is so there.
	out, said, code = u.run("bench", u.url, "--from", "c0,c1", "--input-tokens", "8", "--output-tokens", "4", "--requests", "4", "--concurrency", "2")
	if code != 0 && code != exitCells || !strings.Contains(out, "sim at "+u.url) {
		t.Errorf("no model was said: exit %d\n%s%s", code, out, said)
	}
	wrong(1, "say it with --model", "bench", "http://127.0.0.1:1", "--from", "c0,c1", "--concurrency", "2")
	wrong(1, "does not reach the server", slices.Replace(u.bench("--concurrency", "2"), 1, 2, "http://192.0.2.99:1")...)
	if got := u.stop(os.Interrupt); got != exitInterrupted {
		t.Errorf("exit %d, want %d", got, exitInterrupted)
	}
	u.hosts[1].Refuse(true)
	wrong(1, "host c1: ", u.bench("--concurrency", "2")...)
	u.gone(time.Minute)
}

// TestSlowBenchFrom: nobody comes back to the hosts that send, which takes as long as their lease.
func TestSlowBenchFrom(t *testing.T) {
	t.Parallel()
	newSenders(t).stop(os.Kill)
}
