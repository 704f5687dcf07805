package agent

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/telemetry"
	"hclbench/testhost"
)

// TestSharedHome: two machines have one home, as in most clusters. What is noted of one
// is not told of the other, and what one has changed only its own agent puts back.
func TestSharedHome(t *testing.T) {
	options := testhost.Options{Namespace: true, GPU: "8xH200"}
	options.Name = "one"
	one := testhost.New(t, options)
	options.Name = "two"
	two := testhost.New(t, options)
	if out, err := two.Command("mount", "--bind", one.Home, "/root").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	binaries, err := ReadBinaries(testhost.HCL(t))
	check(t, err)
	log := slog.New(slog.DiscardHandler)
	at := func(h *testhost.Host, lab string) (*reach.Conn, *Client) {
		t.Helper()
		block := &provision.Host{Name: "box", Address: h.Addr, User: h.User, IdentityFile: h.IdentityFile, HostKey: h.HostKeyLine,
			GPUs: provision.GPUs{Count: 8, Model: "H200", Vendor: provision.NVIDIA}, Prepare: &provision.Prepare{PowerCap: 400}}
		c, err := reach.Dial(t.Context(), block, reach.SSH{}, log)
		check(t, err)
		t.Cleanup(func() { c.Close() })
		a, err := Start(t.Context(), c, binaries, Lease{Lab: lab, Store: "store " + lab}, log)
		check(t, err)
		t.Cleanup(a.Close)
		l := lease("run "+lab, "store "+lab, time.Hour)
		l.Lab, l.Reserve = lab, true
		hold(t, a, l)
		return c, a
	}
	limit := func(h *testhost.Host) string {
		t.Helper()
		out, err := h.Command(filepath.Join(h.Dir, "bin", "nvidia-smi"), "--query-gpu=power.limit", "--format=csv,noheader,nounits", "-i", "6").Output()
		check(t, err)
		return strings.TrimSpace(string(out))
	}
	c1, a1 := at(one, "lab") // the same lab, whose block may name another address the next time
	if changed, err := a1.Prepare(t.Context()); err != nil || len(changed) != 1 || limit(one) != "400.00" {
		t.Fatalf("Prepare = %v, %v, with %s W", changed, err, limit(one))
	}
	c2, a2 := at(two, "lab")
	_, err = a2.Begin(t.Context())
	check(t, err)
	if changed, err := ReadPrepared(t.Context(), c1); err != nil || len(changed) != 1 {
		t.Errorf("of the first machine is noted %v, %v", changed, err)
	}
	if changed, err := ReadPrepared(t.Context(), c2); err != nil || len(changed) != 0 {
		t.Errorf("of the second machine is noted %v, %v", changed, err)
	}
	note, err := json.Marshal(Unclean{Run: "run", Left: []string{"memory is stuck"}})
	check(t, err)
	_, err = c1.Run(t.Context(), "cat >"+uncleanFile(c1), bytes.NewReader(note))
	check(t, err)
	if u, err := ReadUnclean(t.Context(), c2); err != nil || u != nil {
		t.Errorf("the second machine is unclean: %+v, %v", u, err)
	}
	_, err = a2.Begin(t.Context())
	check(t, err)
	if u, err := ReadUnclean(t.Context(), c1); err != nil || u == nil {
		t.Errorf("the first machine is not unclean any more: %v", err)
	}
	if err := a2.Release(t.Context(), 0); err != nil || limit(one) != "400.00" {
		t.Errorf("Release = %v, with %s W on the first machine", err, limit(one))
	}
	if err := a1.Release(t.Context(), 0); err != nil || limit(one) != "700.00" {
		t.Errorf("Release = %v, with %s W", err, limit(one))
	}
}

// TestAnyHCL: another machine with the same home may have put a binary there that this
// one cannot run.
func TestAnyHCL(t *testing.T) {
	home := t.TempDir()
	bin := filepath.Join(home, root, "bin")
	check(t, os.MkdirAll(bin, 0o700))
	for name, text := range map[string]string{"0": "\x7fELF of another kind", "1": "#!/bin/sh\necho hcl \"$@\"\n"} {
		check(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	out, err := local(t).Run(t.Context(), anyHCL(home)+" connect unix 'a b'", nil)
	if err != nil || out != "hcl connect unix a b\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestToolsEndWithTheAgent: what reads the GPUs does not outlive an agent that is killed.
func TestToolsEndWithTheAgent(t *testing.T) {
	bin, dir := shortDir(t), shortDir(t)
	file := filepath.Join(bin, "pid")
	check(t, os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte("#!/bin/sh\necho $$ >"+file+".new; mv "+file+".new "+file+"\nwhile :; do sleep 0.1; done\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	cmd := spawn(t, dir, dir)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	check(t, a.Watch(t.Context(), "w", telemetry.Plan{Interval: 0.1, GPUs: &telemetry.GPUs{Vendor: telemetry.NVIDIA, Count: 1}}))
	pid := noted(t, file)
	check(t, cmd.Process.Kill())
	cmd.Wait()
	eventually(t, "the tool ends with the agent", func() bool { return birth(pid) == "" })
}
