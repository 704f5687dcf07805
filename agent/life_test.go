package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/testhost"
)

// another is a client of the same agent that stands for another store.
func another(t *testing.T, dir, store string) *Client {
	t.Helper()
	a := newClient(local(t), filepath.Join(dir, "sock"))
	a.store = store
	t.Cleanup(a.Close)
	return a
}

// TestStrangersChangeNothing: while a lease is held nobody else ends it, or what runs
// under it.
func TestStrangersChangeNothing(t *testing.T) {
	dir := shortDir(t)
	a, ended := serve(t, dir)
	hold(t, a, lease("run", "store", time.Hour))
	name, err := Processes{a}.Start(t.Context(), shell("sleep 1000"))
	check(t, err)
	b := another(t, dir, "other")
	b.lease = &Lease{Run: "gone"}
	told := 0
	b.Lost = func(*HeldError) { told++ }
	for what, err := range map[string]error{
		"release":     b.Release(t.Context(), 0),
		"stop":        stop(b, t.Context(), name, time.Second),
		"clear":       b.Clear(t.Context()),
		"run nothing": b.call(t.Context(), "PUT", "/v1/jobs/j", Job{}, nil),
	} {
		if held := new(HeldError); !errors.As(err, &held) || held.Lease.Run != "run" {
			t.Errorf("%s: %v, want who holds the lease", what, err)
		}
	}
	if told != 4 {
		t.Errorf("the client was told %d times that the host is another's, want 4", told)
	}
	// A run whose store's caller is gone may not end that of the next.
	c := another(t, dir, "store")
	c.lease = &Lease{Run: "earlier"}
	if err := c.Release(t.Context(), 0); !errors.As(err, new(*HeldError)) {
		t.Errorf("release by an earlier run: %v", err)
	}
	if st, err := (Processes{a}).State(t.Context(), name); err != nil || !st.Running {
		t.Errorf("the process: %+v, %v", st, err)
	}
	if found, err := (Processes{b}).List(t.Context(), nil); err != nil || len(found) != 1 {
		t.Errorf("to look is free to all: %v, %v", found, err)
	}
	c.lease = nil // as hcl destroy of that store, which knows of no run
	if err := c.Release(t.Context(), 0); err != nil {
		t.Errorf("release by the store: %v", err)
	}
	check(t, <-ended)
}

// TestEndedByAnother: a run whose lease somebody has ended does not come back, not to
// the next agent either.
func TestEndedByAnother(t *testing.T) {
	dir := shortDir(t)
	a, ended := serve(t, dir)
	hold(t, a, lease("run", "store", time.Hour))
	_, err := another(t, dir, "other").release(t.Context(), &ending{By: "eve, hcl destroy", Force: true}, 0)
	check(t, err)
	<-ended
	a, _ = serve(t, dir)
	err = a.Lease(t.Context(), lease("run", "store", time.Hour))
	if held := new(HeldError); !errors.As(err, &held) || !strings.Contains(err.Error(), "was ended by eve, hcl destroy") {
		t.Errorf("the run that was ended: %v", err)
	}
	back := another(t, dir, "store")
	back.lease = &Lease{Run: "run"}
	if err := back.Release(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "was ended by eve") {
		t.Errorf("the run that was ended, on its way out: %v: whoever destroys may be using the agent", err)
	}
	if err := a.Lease(t.Context(), lease("next", "store", time.Hour)); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// TestEndedIsBounded: of the runs whose lease was ended the last are remembered.
func TestEndedIsBounded(t *testing.T) {
	dir := shortDir(t)
	serve(t, dir)
	run := func(n int) string { return fmt.Sprintf("20260101-%06d", n) }
	for n := range endedMost + 10 {
		hold(t, another(t, dir, "store"), lease(run(n), "store", time.Hour))
	}
	if noted := readEnded(dir); len(noted) != endedMost || noted[run(endedMost+8)] == "" || noted[run(0)] != "" {
		t.Errorf("%d runs are noted: %v", len(noted), noted)
	}
}

// TestEndsWhileItMakes: what an agent that ends was asked for, and had not made yet, is asked of the next.
func TestEndsWhileItMakes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := openClaim(ctx, Config{Dir: shortDir(t), Log: slog.New(slog.DiscardHandler)}, &processes{})
	c.hold(life{lease: lease("run", "store", time.Hour), claim: "c"})
	want := newMemberOrder(provision.Process, shell("exit 0"))
	c.works["p"] = &work{sum: want.sum(), done: make(chan struct{})} // under way
	cancel()
	if _, err := c.make(ctx, "run", "p", want); !errors.Is(err, errEnding) {
		t.Errorf("make = %v, want that the agent is ending", err)
	}
}

// TestDaemonOutOfReach: a Docker daemon that is looked for and does not answer keeps nobody else waiting.
func TestDaemonOutOfReach(t *testing.T) {
	tools := t.TempDir()
	begun := filepath.Join(tools, "begun")
	check(t, os.WriteFile(filepath.Join(tools, "sh"), []byte("#!/bin/bash\necho >"+begun+"; exec sleep 1000\n"), 0o755))
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancel(t.Context())
	c := openClaim(ctx, Config{Dir: shortDir(t), Log: slog.New(slog.DiscardHandler)}, &processes{})
	dialled := make(chan error, 1)
	go func() {
		_, err := c.daemon(ctx, "/nowhere.sock")
		dialled <- err
	}()
	eventually(t, "the daemon is looked for", func() bool { return text(begun) != "" })
	c.hold(life{lease: lease("run", "store", time.Hour), claim: "c"})
	cancel()
	if err := <-dialled; !errors.Is(err, context.Canceled) {
		t.Errorf("daemon = %v, want that nobody waits any more", err)
	}
}

// TestEndedByForceAlone: another store's caller, that has not seen who has the lease, ends nothing.
func TestEndedByForceAlone(t *testing.T) {
	dir := shortDir(t)
	a, _ := serve(t, dir)
	hold(t, a, lease("run", "store", time.Hour))
	if _, err := another(t, dir, "other").release(t.Context(), &ending{By: "eve"}, 0); !errors.As(err, new(*HeldError)) {
		t.Errorf("release = %v, want who has the lease", err)
	}
	check(t, a.Lease(t.Context(), lease("run", "store", time.Hour)))
}

// TestAskedAgainOfTheNext: what an agent was killed over is made by the next, when it is asked for again.
func TestAskedAgainOfTheNext(t *testing.T) {
	dir, shared := shortDir(t), shortDir(t)
	cmd := spawn(t, dir, shared)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	defer a.Close()
	hold(t, a, lease("run", "store", time.Hour))
	check(t, cmd.Process.Kill())
	cmd.Wait()
	ct := shell("sleep 1000")
	var note claimNote
	check(t, readJSON(filepath.Join(dir, claimName), &note))
	note.Members = []member{{Name: "p", Labels: map[string]string{provision.LabelRun: "run"}, Runtime: provision.Process, Sum: newMemberOrder(provision.Process, ct).sum()}}
	check(t, writeJSON(filepath.Join(dir, claimName), note, 0o600))
	spawn(t, dir, shared)
	for range 2 {
		begin(t, a, ct)
	}
	if found, err := (Processes{a}).List(t.Context(), nil); err != nil || len(found) != 1 || found[0].State != "running" {
		t.Errorf("List = %+v, %v", found, err)
	}
	late := another(t, dir, "store")
	late.lease = &Lease{Run: "earlier"}
	if _, err := (Processes{late}).Start(t.Context(), shell("exit 0")); !errors.As(err, new(*HeldError)) {
		t.Errorf("a run that has the host no more starts: %v", err)
	}
	check(t, a.Release(t.Context(), 0))
}

// TestNoteLost: a process of an earlier run that stands in no note any more is ended by the next run.
func TestNoteLost(t *testing.T) {
	dir, shared := shortDir(t), shortDir(t)
	cmd := spawn(t, dir, shared)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	defer a.Close()
	hold(t, a, lease("run", "store", time.Hour))
	begin(t, a, shell("sleep 1000"))
	check(t, cmd.Process.Kill())
	cmd.Wait()
	check(t, os.Remove(filepath.Join(dir, claimName)))
	spawn(t, dir, shared)
	hold(t, a, lease("next", "store", time.Hour))
	found, err := a.Begin(t.Context())
	if err != nil || len(found.Removed) != 1 || found.Removed[0].Name != "p" {
		t.Errorf("Begin = %+v, %v", found, err)
	}
	if left, err := (Processes{a}).List(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	check(t, a.Release(t.Context(), 0))
}

// TestTakenOver: a caller that only slept while the next run of its store took over is
// told so, and the next ends what it has left.
func TestTakenOver(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	first := lease("first", "store", time.Hour)
	hold(t, a, first)
	begin(t, a, shell("sleep 1000"))
	claimed := a.Claim()
	next := another(t, a.dir, "store")
	hold(t, next, lease("second", "store", time.Hour))
	if next.Claim() == claimed || claimed == "" {
		t.Errorf("the claim of the next is %q too", claimed)
	}
	for _, want := range []int{1, 0} { // again, as after a lost answer
		found, err := next.Begin(t.Context())
		if err != nil || len(found.Removed) != want || want > 0 && (found.Removed[0].Name != "p" || found.Removed[0].Labels[provision.LabelRun] != "first") {
			t.Errorf("of the earlier run: %+v, %v", found, err)
		}
	}
	if left, err := (Processes{next}).List(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := a.Lease(t.Context(), first); err == nil || !strings.Contains(err.Error(), "was ended by ada@laptop") {
		t.Errorf("the first again: %v", err)
	}
}

// TestAgentKilledAmidAClaim: the next agent goes on with the claim of one that was killed, and ends it where its
// lease is over meanwhile.
func TestAgentKilledAmidAClaim(t *testing.T) {
	dir, shared := shortDir(t), shortDir(t)
	cmd := spawn(t, dir, shared)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	defer a.Close()
	l := lease("run", "store", time.Hour)
	hold(t, a, l)
	begin(t, a, shell("sleep 1000"))
	claimed, pid := a.Claim(), pidOf(t, dir, "p")
	check(t, cmd.Process.Kill())
	cmd.Wait()
	cmd = spawn(t, dir, shared)
	if err := another(t, dir, "other").claim(t.Context(), lease("theirs", "other", time.Hour)); !errors.As(err, new(*HeldError)) {
		t.Errorf("another store beside the claim: %v", err)
	}
	hold(t, a, l)
	if a.Claim() != claimed {
		t.Error("the claim is another now, though its lease was never over")
	}
	check(t, cmd.Process.Kill())
	cmd.Wait()
	var note claimNote
	check(t, readJSON(filepath.Join(dir, claimName), &note))
	note.Over = sinceBoot()
	check(t, writeJSON(filepath.Join(dir, claimName), note, 0o600))
	spawn(t, dir, shared)
	eventually(t, "the next agent has ended the claim and itself", func() bool {
		return birth(pid) == "" && text(filepath.Join(dir, claimName)) == "" && !Answers(dir)
	})
}

// TestReleaseOfOneThatWasKilled: a claim whose agent is killed before it has ended it is ended by the next.
func TestReleaseOfOneThatWasKilled(t *testing.T) {
	dir, shared := shortDir(t), shortDir(t)
	cmd := spawn(t, dir, shared)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	defer a.Close()
	a.up = spawns(t, dir, shared)
	hold(t, a, lease("run", "store", time.Hour))
	begin(t, a, shell("sleep 1000"))
	pid := pidOf(t, dir, "p")
	check(t, cmd.Process.Kill())
	cmd.Wait()
	check(t, a.Release(t.Context(), 0))
	if birth(pid) != "" {
		t.Error("the run has ended well, and its process lives")
	}
}

// TestDestroyBesideAnEnd: what is asked of an agent that is ending by itself is not taken for done.
func TestDestroyBesideAnEnd(t *testing.T) {
	dir := shortDir(t)
	check(t, writeJSON(filepath.Join(dir, claimName), claimNote{ID: "c", Boot: "before", Lease: lease("run", "store", time.Hour)}, 0o600))
	serve(t, dir)
	said, err := another(t, dir, "store").release(t.Context(), &ending{By: "eve, hcl destroy", Force: true}, 0)
	if err != nil || !said.Missed {
		t.Errorf("what else was asked is told to be done: %+v, %v", said, err)
	}
}

// TestNoteAfterTheEnd: a request that outlives the claim brings no note of it back, which the next agent would hold.
func TestNoteAfterTheEnd(t *testing.T) {
	dir := shortDir(t)
	c := openClaim(t.Context(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}, nil)
	c.hold(life{lease: lease("run", "store", time.Hour), claim: "c"})
	check(t, c.forget())
	c.keep()
	if note := text(c.file()); note != "" {
		t.Errorf("the claim is noted again: %s", note)
	}
}

// TestUnclaimed: a caller that is killed before it has taken its lease leaves no agent for
// longer than that lease.
func TestUnclaimed(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	log := slog.New(slog.DiscardHandler)
	c, err := reach.Dial(t.Context(), &provision.Host{Name: "box", Address: h.Addr, User: h.User, IdentityFile: h.IdentityFile, HostKey: h.HostKeyLine}, reach.SSH{}, log)
	check(t, err)
	defer c.Close()
	binaries, err := ReadBinaries(testhost.HCL(t))
	check(t, err)
	a, err := Start(t.Context(), c, binaries, Lease{Lab: "lab", Store: "store", TTL: load.Duration(5 * time.Second)}, log)
	check(t, err)
	a.Close()
	eventually(t, "the agent that nobody has claimed is gone", func() bool {
		there, err := Attach(t.Context(), c, "lab")
		check(t, err)
		if there != nil {
			there.Close()
		}
		return there == nil
	})
}

func TestNoLeaseOfNoTime(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	status := new(statusError)
	if err := a.claim(t.Context(), lease("run", "store", 0)); !errors.As(err, &status) || status.code != http.StatusBadRequest {
		t.Errorf("claim = %v, want that it is none", err)
	}
	check(t, a.claim(t.Context(), lease("run", "store", time.Hour)))
}

// TestReleaseOutlivesItsCaller: a caller that releases the lease and goes costs the
// engine nothing of its grace, and the agent ends all the same.
func TestReleaseOutlivesItsCaller(t *testing.T) {
	dir := shortDir(t)
	a, ended := serve(t, dir)
	hold(t, a, lease("run", "store", time.Hour))
	bye, fifo := filepath.Join(dir, "bye"), filepath.Join(dir, "go")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	beginUntil(t, a, `trap 'echo term; read x <`+fifo+`; echo bye >`+bye+`; exit 0' TERM; echo up; while :; do sleep 0.02; done`, "up")
	ctx, leave := context.WithCancel(t.Context())
	released := make(chan error, 1)
	go func() { released <- a.Release(ctx, 0) }()
	// The log's stream ends with the agent's serving; that the signal has come tells the file.
	eventually(t, "the engine gets its stop signal", func() bool {
		return strings.Contains(text(filepath.Join(dir, "processes", "p", "log")), "term")
	})
	leave()
	<-released
	check(t, os.WriteFile(fifo, []byte("\n"), 0))
	check(t, <-ended)
	if got := text(bye); got != "bye\n" {
		t.Errorf("the engine said %q before it ended, want its goodbye", got)
	}
}

// TestReleaseForTheNext: whoever waits may have an agent of their own in the place of the one
// that has ended, before anybody has seen it free.
func TestReleaseForTheNext(t *testing.T) {
	socket := filepath.Join(shortDir(t), "sock")
	ln, err := net.Listen("unix", socket)
	check(t, err)
	next := handler(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method == http.MethodDelete {
			panic(http.ErrAbortHandler)
		}
		return reply(w, Info{Lease: &Lease{Run: "next"}})
	})
	server := &httptest.Server{Listener: ln, Config: &http.Server{Handler: next}}
	server.Start()
	defer server.Close()
	a := newClient(local(t), socket)
	defer a.Close()
	a.lease = &Lease{Run: "run"}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	check(t, a.Release(ctx, 0))
}

// TestReleaseWhileCleaningUp: a caller that wakes up while its agent cleans up after it
// disturbs nothing: the note that the host is unclean is written.
func TestReleaseWhileCleaningUp(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dir := shortDir(t)
	port, _ := leftBehind(t, dir)
	a, ended := serveAs(t, Config{Dir: dir, Release: 5 * time.Second})
	hold(t, a, lease("run", "store", time.Hour))
	ct := shell("sleep 1000")
	ct.Listens = []int{port}
	begin(t, a, ct)
	l := lease("run", "store", 200*time.Millisecond)
	for { // until it is cleaning up
		if err := a.claim(t.Context(), l); err != nil {
			break
		}
		select {
		case <-time.After(time.Duration(l.TTL) + 50*time.Millisecond):
		case <-ended:
			t.Fatal("the agent has ended already")
		}
	}
	if err := a.Release(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "left unclean") {
		t.Errorf("Release = %v, want what the clean-up has found", err)
	}
	if err := <-ended; err == nil {
		t.Error("Serve = nil, want that the host is unclean")
	}
	if u, err := ReadUnclean(t.Context(), local(t)); err != nil || u == nil || u.Run != "run" {
		t.Errorf("the note: %+v, %v", u, err)
	}
}

// TestNumberOfAnother: a process that has the number of one that an agent kept, be it
// since a reboot or since it ended, is left alone.
func TestNumberOfAnother(t *testing.T) {
	for what, change := range map[string]func(*identity){
		"another boot":   func(i *identity) { i.Boot = "earlier" },
		"a later number": func(i *identity) { i.Birth = "1" },
	} {
		t.Run(what, func(t *testing.T) {
			dir := shortDir(t)
			victim := bystander(t)
			k := kept{Name: "p", identity: identityOf(victim.Process.Pid), StopSignal: "SIGTERM"}
			change(&k.identity)
			work := filepath.Join(dir, "processes", "p")
			check(t, os.MkdirAll(work, 0o700))
			b, err := json.Marshal(k)
			check(t, err)
			check(t, os.WriteFile(filepath.Join(work, stateName), b, 0o600))
			a, _ := serve(t, dir)
			check(t, stop(a, t.Context(), "p", time.Second))
			if birth(victim.Process.Pid) == "" {
				t.Error("a process was killed that only has the number")
			}
			if err := k.signal(0); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("signal = %v, want that it is done", err)
			}
		})
	}
}

// TestNamesOfFiles: what a process is given is beside what its agent keeps of it.
func TestNamesOfFiles(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	for _, name := range []string{"log", "state.json", "../x", ".state", ""} {
		ct := shell("exit 0")
		ct.Files = []provision.File{{Name: name, Text: provision.Plain("x")}}
		if _, err := (Processes{a}).Start(t.Context(), ct); err == nil || !strings.Contains(err.Error(), "cannot be named") {
			t.Errorf("a file %q: %v", name, err)
		}
	}
}

// roundTrip is a way to a host.
type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return r(q) }

// TestRenewedWhileTheDiskHangs: a disk that hangs keeps no renewal waiting.
func TestRenewedWhileTheDiskHangs(t *testing.T) {
	image, dir := filepath.Join(t.TempDir(), "disk"), shortDir(t)
	command := func(argv ...string) {
		t.Helper()
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", argv, err, out)
		}
	}
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 16<<20))
	command("mkfs.ext4", "-q", image)
	command("mount", "-o", "loop", image, dir)
	t.Cleanup(func() { command("umount", dir) })
	a, ended := serve(t, dir)
	l := lease("run", "store", time.Hour)
	l.Reserve = true
	hold(t, a, l)
	command("fsfreeze", "--freeze", dir)
	thaw := sync.OnceFunc(func() { command("fsfreeze", "--unfreeze", dir) })
	defer thaw()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		check(t, a.Lease(ctx, l))
	}
	thaw()
	check(t, a.Release(t.Context(), 0))
	check(t, <-ended)
}

// TestNotLetIn: a host that shows another key in the middle of a run, or refuses the login, is asked once, for whatever it is.
func TestNotLetIn(t *testing.T) {
	var asked atomic.Int32
	var other error
	a := newClient(local(t), filepath.Join(shortDir(t), "sock"))
	defer a.Close()
	a.http.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
		asked.Add(1)
		return nil, other
	})
	a.there = func(context.Context) (bool, error) { return false, other }
	a.lease = &Lease{Run: "run"}
	for what, call := range map[string]func() error{
		"release": func() error { return a.Release(t.Context(), 0) },
		"insist":  func() error { return a.insist(t.Context(), func() error { _, err := a.Info(t.Context()); return err }) },
	} {
		for _, why := range []error{provision.ErrHostKey, provision.ErrHostKeyUnknown, provision.ErrAuth} {
			asked.Store(0)
			other = provision.Fail(&provision.Host{Name: "box"}, why, "it is refused")
			if err := call(); !errors.Is(err, why) || asked.Load() != 1 {
				t.Errorf("%s: asked %d times: %v", what, asked.Load(), err)
			}
		}
	}
}
