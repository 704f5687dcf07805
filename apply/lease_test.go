package apply_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/apply/place"
	"hclbench/provision"
	"hclbench/testhost"
)

// TestUnclean: memory that an engine has left on a GPU makes the host unclean:
// nothing more is started there, the next apply is told, and when the memory is
// given back it goes on by itself.
func TestUnclean(t *testing.T) {
	t.Parallel()
	host, ref := engineOn(t, testhost.Options{GPU: "8xH200"}, map[string]string{"ENGINE_ITL": "10ms"})
	b := newBench(t, host)
	b.opt.Release = 2 * time.Second
	text := strings.Replace(one(ref, "", ""), "%HOST%", "%HOST%\n  gpus = \"8xH200\"", 1)
	r := b.apply(t.Context(), text, func(e apply.Event) {
		if e.Type == apply.Ready {
			if err := host.UseGPUs(testhost.GPUUse{GPU: 2, MiB: 90_000}); err != nil {
				t.Error(err)
			}
		}
	})
	unclean := new(provision.UncleanError)
	if !errors.As(r.err, &unclean) || !strings.Contains(r.err.Error(), "GPU 2 has 90000 MiB more in use than before, held by no process") {
		t.Fatalf("Run = %v, want what is left", r.err)
	}
	if r.Valid+r.Suspect != 2 {
		t.Errorf("outcome %+v: what was measured before must be kept", r.Outcome)
	}
	b.clean()

	b.store = newBench(t, host).store
	r = b.apply(t.Context(), text, nil)
	if !errors.As(r.err, &unclean) || !strings.Contains(r.err.Error(), "has left something") || len(r.rows) != 0 {
		t.Errorf("the next apply: %d rows, %v", len(r.rows), r.err)
	}
	seen, err := place.Status(t.Context(), place.Scope{Lab: "one", Hosts: b.plan(text).Hosts}, b.opt.Options)
	if err != nil || seen[0].Unclean == nil || len(seen[0].Unclean.Left) != 1 {
		t.Errorf("status: %+v, %v", seen, err)
	}
	checked := func() (f provision.Finding) {
		for _, c := range place.Check(t.Context(), place.Scope{Lab: "one", Hosts: b.plan(text).Hosts}, b.opt.Options) {
			if i := slices.IndexFunc(c.Findings, func(f provision.Finding) bool { return f.Check == "left behind" }); i >= 0 {
				f = c.Findings[i]
			}
		}
		return f
	}
	if f := checked(); f.Level != provision.Blocked || !strings.Contains(f.Have, "held by no process") || !strings.Contains(f.Advice, "hcl destroy") {
		t.Errorf("check: %+v", f)
	}
	if err := host.UseGPUs(); err != nil {
		t.Fatal(err)
	}
	if f := checked(); f.Level != provision.OK {
		t.Errorf("check, when it is given back: %+v", f)
	}
	r = b.apply(t.Context(), text, nil)
	if r.err != nil || r.Valid+r.Suspect != 2 || !r.has(apply.Step, "had left there is gone") || !r.has(apply.Down, "GPU memory given back") {
		t.Errorf("when it is given back: %+v, %v", r.Outcome, r.err)
	}
	b.clean()

	// A container toolkit that hands out nothing is found before the engine starts.
	if err := host.HandOutGPUs(false); err != nil {
		t.Fatal(err)
	}
	b.store = newBench(t, host).store
	r = b.apply(t.Context(), text, nil)
	b.wantVoid(r, 2, "0 of 8 devices /dev/nvidiaN are there", "nvidia-ctk")
	b.clean()
}

// TestWait: a second lab on the same machine is told who is at work there, and
// may wait; so does a second host block at the same address.
func TestWait(t *testing.T) {
	t.Parallel()
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_ITL": "10ms"})
	first, second := newBench(t, host), newBench(t, host)
	other := strings.ReplaceAll(strings.ReplaceAll(one(ref, "port = 8001", ""), `lab "one"`, `lab "two"`), `"box"`, `"same"`)
	other = strings.ReplaceAll(other, "host.box", "host.same")
	refused, waited := make(chan ran, 1), make(chan ran, 1)
	asked := false
	slow := one(ref, `env = { ENGINE_ITL = "400ms" }`, "") // it is at work as long as the others ask
	r := first.apply(t.Context(), slow, func(e apply.Event) {
		if e.Type != apply.Begin || asked {
			return
		}
		asked = true
		refused <- second.apply(t.Context(), other, nil)
		second.opt.Wait = time.Minute
		waiting := make(chan struct{})
		go func() {
			waited <- second.apply(t.Context(), other, func(e apply.Event) {
				if e.Type == apply.Step && strings.Contains(e.Message, "waiting for the test") {
					close(waiting)
				}
			})
		}()
		<-waiting
	})
	if r.err != nil || r.Valid+r.Suspect != 2 {
		t.Errorf("the first: %+v, %v", r.Outcome, r.err)
	}
	held := new(agent.HeldError)
	if w := <-refused; !errors.As(w.err, &held) || held.Lease.Lab != "one" || !strings.Contains(w.err.Error(), "hcl apply --wait") || strings.Contains(w.err.Error(), "destroy") {
		t.Errorf("the second: %v, want who has the machine", w.err)
	}
	if w := <-waited; w.err != nil || w.Valid+w.Suspect != 2 {
		t.Errorf("the second, when it waits: %+v, %v", w.Outcome, w.err)
	}
	first.clean()

	// One lab that names the machine twice.
	both := strings.Replace(one(ref, "", ""), "model \"m\"", `host "again" {
  %HOST%
}
engine "vllm" "f" {
  host  = host.again
  model = model.m
  image = "`+ref+`"
  container { stop_grace = "2s" }
}
model "m"`, 1)
	both = strings.Replace(both, "matrix { output_tokens = [4, 8] }", "matrix {\n    engine = [engine.vllm.e, engine.vllm.f]\n    output_tokens = [4, 8]\n  }", 1)
	both = strings.Replace(both, "engine   = engine.vllm.e", "engine   = matrix.engine", 1)
	third := newBench(t, host)
	w := third.apply(t.Context(), both, nil)
	if w.err != nil || w.Valid+w.Suspect != 4 || !w.has(apply.Step, "the same machine as another host of this lab") {
		t.Errorf("two blocks at one address: %+v, %v", w.Outcome, w.err)
	}
	third.clean()
}

// TestAgentKilled: the agent is killed in mid-cell. Another takes its place, the
// cell is measured anew, and nothing is lost.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_ITL": "10ms"})
	b := newBench(t, host)
	killed := false
	r := b.apply(t.Context(), one(ref, `env = { ENGINE_ITL = "400ms" }`, ""), func(e apply.Event) {
		if e.Type != apply.Progress || killed {
			return
		}
		killed = true
		for _, p := range b.ours() {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	})
	if !killed || r.err != nil || r.Valid+r.Suspect != 2 || !r.has(apply.Warning, "the agent died in mid-cell") {
		t.Errorf("killed %v: %+v, %v", killed, r.Outcome, r.err)
	}
	for _, row := range r.rows {
		if row.Summary == nil || row.Summary.Completed != 4 {
			t.Errorf("row %v: %s %+v", row.Axes, row.Error, row.Summary)
		}
	}
	b.clean()
}

// TestMaxDuration: a run that has lasted as long as its lab allows ends, is told
// why, and leaves nothing.
func TestMaxDuration(t *testing.T) {
	t.Parallel()
	host, ref := engineOn(t, testhost.Options{}, map[string]string{"ENGINE_ITL": "10ms"})
	b := newBench(t, host)
	text := strings.Replace(one(ref, "", ""), `{ lease = "5m" }`, "{\n  lease = \"1m\"\n  max_duration = \"12s\"\n}", 1)
	text = strings.Replace(text, "[4, 8]", "[4, 100000]", 1)
	r := b.apply(t.Context(), text, nil)
	if r.err == nil || !strings.Contains(r.err.Error(), "max_duration is over") || r.Valid+r.Suspect > 1 || len(r.rows) != r.Valid+r.Suspect {
		t.Errorf("%+v, %v, %d rows", r.Outcome, r.err, len(r.rows))
	}
	b.clean()
}
