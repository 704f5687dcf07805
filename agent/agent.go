// Package agent is what runs on a host: load jobs that survive a lost
// connection, engines as processes where there is no Docker, and the lease that
// cleans the host up when nobody renews it.
//
// The same binary serves as agent and as caller. [Serve] is the agent; [Start]
// and [Client] are how the caller brings one up and speaks to it, over HTTP on a
// unix socket that only the host's user can open. The agent knows jobs,
// processes and labels; it does not know labs, plans, engines or results.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"hclbench/load"
	"hclbench/provision"
)

// Info is what an agent says about itself.
type Info struct {
	Binary string    `json:"binary"` // SHA-256 of the binary that it runs
	PID    int       `json:"pid"`
	Lease  *Lease    `json:"lease,omitempty"` // nil: nobody holds it
	Jobs   int       `json:"jobs"`            // running ones
	Now    time.Time `json:"now"`             // by the host's clock
}

// Lease is one caller's claim on the agent: for which lab, by whom, and for how
// long without being renewed.
type Lease struct {
	Lab         string        `json:"lab"`
	Run         string        `json:"run"`
	Store       string        `json:"store"`  // id of the caller's results store: the same store may take over
	Holder      string        `json:"holder"` // for people: "ada@laptop, hcl apply, pid 4711"
	TTL         load.Duration `json:"ttl"`
	MaxDuration load.Duration `json:"max_duration,omitempty"` // since the run's first lease; 0: no limit
	Docker      string        `json:"docker,omitempty"`       // the daemon that runs the lab's containers, see [provision.Conn.DockerAccess]; empty: none does
	Reserve     bool          `json:"reserve,omitempty"`      // nobody else's lease may be on this machine meanwhile
	Expires     time.Time     `json:"expires,omitzero"`       // set by the agent

	// Traces is what is looked for after the tear-down; the containers and
	// processes are known to the agent.
	Traces provision.Traces `json:"traces,omitzero"`
}

// Config is what an agent works with.
type Config struct {
	Dir          string           // its own; the socket is in it
	Binary       string           // SHA-256 of the binary that it runs
	Cache        string           // where all of hcl is on this host: old things are cleared from it; empty: nothing is
	Reservations string           // directory of the machine's reservation; empty: [Reservations]
	Calibrated   *load.Calibrated // what is known of the generator here; nil: nothing
	Release      time.Duration    // how long drivers may take to give memory back; 0: [provision.ReleaseWait]
	Log          *slog.Logger
}

// unclaimed is how long an agent that nobody claims stays.
const unclaimed = 2 * time.Minute

// downWithin bounds how long an agent whose time is over takes for cleaning up, and
// sweepWithin, how much of that for a Docker daemon that does not answer.
const (
	downWithin  = 5 * time.Minute
	sweepWithin = downWithin - time.Minute
)

// ErrAtWork says that an agent is at work already.
var ErrAtWork = errors.New("another agent works")

// Answers reports whether an agent answers in a directory of this machine.
func Answers(dir string) bool {
	conn, err := net.Dial("unix", filepath.Join(dir, "sock"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Serve runs an agent until its lease is released or runs out, or ctx ends; then
// it stops what it still runs and, when the lease ran out, the lab's containers
// as well, and looks whether the host is free again: what it finds it keeps for
// [ReadUnclean]. ready is called once the socket answers. It fails at once, with
// [ErrAtWork], when another agent works in the directory.
func Serve(ctx context.Context, cfg Config, ready func()) error {
	dir, log := cfg.Dir, cfg.Log
	jobs := filepath.Join(dir, "jobs")
	for _, d := range []string{dir, filepath.Join(dir, "processes")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("make the agent's directory: %w", err)
		}
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return errors.Join(fmt.Errorf("%w in %s", ErrAtWork, dir), err)
	}
	defer lock.Close()
	// Jobs end with their agent, and what nobody has fetched by then nobody will.
	if err := errors.Join(os.RemoveAll(jobs), os.Mkdir(jobs, 0o700)); err != nil {
		return fmt.Errorf("clear what an earlier agent has left: %w", err)
	}
	ln, err := listen(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{Config: cfg, ctx: ctx, log: log, quit: cancel, jobs: map[string]*job{}, watches: map[string]*watch{}, over: make(chan struct{}), ended: readEnded(dir)}
	s.processes, err = openProcesses(filepath.Join(dir, "processes"), log)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := s.forgetKilled(); err != nil {
		log.Warn("forget the reservation of an agent that was killed", "err", err)
	}
	s.expiry = time.AfterFunc(unclaimed, s.expired)

	hs := &http.Server{Handler: s.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }()
	log.Info("serving", "dir", dir, "pid", os.Getpid())
	ready()
	if err := s.clear(keepFor); err != nil {
		log.Warn("clear what is old", "err", err)
	}

	select {
	case err = <-served:
	case <-ctx.Done():
	}
	s.expiry.Stop()
	s.mu.Lock() // no job starts and no lease changes after this
	cancel()
	final := s.life
	s.mu.Unlock()
	s.work.Wait() // jobs end with ctx and have written what they measured
	s.failure = errors.Join(err, s.leave(ctx, final), os.RemoveAll(jobs), gone(ln.Close()))
	close(s.over) // whoever has released the lease is answered, when nothing is left that could be seen
	flush, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	if hs.Shutdown(flush) != nil {
		hs.Close()
	}
	log.Info("done", "err", s.failure)
	return s.failure
}

// listen opens the agent's socket, which only its user can.
func listen(dir string) (net.Listener, error) {
	socket := filepath.Join(dir, "sock")
	os.Remove(socket) // left by an agent that was killed; the lock says that it is gone
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// gone is err unless it says that something is closed already.
func gone(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// leave takes down what the agent still runs, and what else its life obliges it to.
func (s *server) leave(ctx context.Context, final life) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
	defer done()
	err := s.processes.stopAll(ctx)
	if final.phase == expired {
		err = errors.Join(err, s.sweep(ctx, final.lease))
	}
	if final.phase == expired || final.phase == released { // else another agent goes on with what this one runs
		err = errors.Join(err, s.finish(ctx))
	}
	s.mu.Lock()
	s.giveBack()
	s.mu.Unlock()
	return err
}

type server struct {
	Config
	ctx       context.Context // ends when the agent does; jobs live by it
	log       *slog.Logger
	quit      context.CancelFunc
	processes *processes
	work      sync.WaitGroup // running jobs, and watches that are not forgotten

	over    chan struct{} // closed when all is down that has to be
	failure error         // then, what could not be

	changing sync.Mutex // held while settings of the machine are changed or put back

	mu          sync.Mutex
	jobs        map[string]*job
	watches     map[string]*watch
	life        life
	ended       map[string]string // runs whose lease somebody has ended, and who
	reservation *reservation      // of the machine; nil: not asked for
	expiry      *time.Timer
}

// phase is where an agent stands in its life. It goes from idle to leased, and from
// both to one of the ends, of which there is no way back.
type phase int

const (
	idle     phase = iota
	leased         // somebody has claimed the agent
	expired        // nobody has renewed the lease: the lab's containers are ours to remove
	released       // by the holder, who has taken the containers down; or nobody had claimed it
)

// life is where an agent stands, with what belongs to that. It changes under the
// server's lock, and goes by value to who works with it later.
type life struct {
	phase   phase
	lease   Lease            // of leased and expired
	since   time.Time        // of the run's first lease
	earlier provision.Traces // of the run that this one has taken over from
}

func (l life) ending() bool { return l.phase == expired || l.phase == released }

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", s.info)
	mux.HandleFunc("PUT /v1/lease", s.putLease)
	mux.HandleFunc("DELETE /v1/lease", s.deleteLease)
	mux.HandleFunc("PUT /v1/prepare", s.held(s.putPrepare))
	mux.HandleFunc("DELETE /v1/cache", s.held(s.deleteCache))
	mux.HandleFunc("PUT /v1/jobs/{id}", s.held(s.putJob))
	mux.HandleFunc("GET /v1/jobs/{id}/events", s.jobEvents)
	mux.HandleFunc("GET /v1/jobs/{id}/records", s.jobRecords)
	mux.HandleFunc("DELETE /v1/jobs/{id}", s.held(s.deleteJob))
	mux.HandleFunc("PUT /v1/watches/{id}", s.held(s.putWatch))
	mux.HandleFunc("POST /v1/watches/{id}", s.held(s.endWatch))
	mux.HandleFunc("DELETE /v1/watches/{id}", s.held(s.deleteWatch))
	mux.HandleFunc("POST /v1/models", s.held(s.fetchModel))
	mux.HandleFunc("PUT /v1/processes/{name}", s.held(s.putProcess))
	mux.HandleFunc("GET /v1/processes", s.listProcesses)
	mux.HandleFunc("GET /v1/processes/{name}", s.getProcess)
	mux.HandleFunc("GET /v1/processes/{name}/logs", s.processLogs)
	mux.HandleFunc("GET /v1/processes/{name}/files/{file}", s.processFile)
	mux.HandleFunc("DELETE /v1/processes/{name}", s.held(s.deleteProcess))
	return mux
}

func (s *server) info(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := Info{Binary: s.Binary, PID: os.Getpid(), Now: time.Now()}
	if l := s.life; l.phase == leased || l.phase == expired {
		in.Lease = &l.lease
	}
	for _, j := range s.jobs {
		if !j.finished() {
			in.Jobs++
		}
	}
	reply(w, in)
}

// Requests say for which store and run they are made. While there is a lease, only
// those of its holder change anything.
const (
	headerStore = "Hcl-Store"
	headerRun   = "Hcl-Run"
)

// heldBy reports whether a store's caller holds the lease: the run that has it, or one
// that knows no run, as `hcl destroy` does.
func (l Lease) heldBy(store, run string) bool {
	return l.Store == store && (run == "" || run == l.Run)
}

// held lets those change something who hold the lease, and while there is none
// everybody but a run whose lease was ended.
func (s *server) held(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		why := s.against(r)
		s.mu.Unlock()
		if why != nil {
			refuse(w, *why)
			return
		}
		do(w, r)
	}
}

// against is why a request must not change anything; nil when it may. The caller holds
// s.mu.
func (s *server) against(r *http.Request) *refusal {
	store, run := r.Header.Get(headerStore), r.Header.Get(headerRun)
	if by, ok := s.ended[run]; ok {
		return &refusal{Ended: by}
	}
	if s.life.phase == leased && !s.life.lease.heldBy(store, run) {
		return &refusal{Lease: s.life.lease}
	}
	return nil
}

// granted is the answer to who gets the lease.
type granted struct {
	Lease
	Earlier provision.Traces `json:"earlier,omitzero"` // of the run whose caller is gone, and whose tear-down is now this one's
}

// refusal is the answer to who does not get the lease, or has it no more.
type refusal struct {
	Lease        // that is in the way
	Ended string `json:"ended,omitempty"` // who has ended the lease of the run that asks
}

// refuse answers 409.
func refuse(w http.ResponseWriter, why refusal) {
	why.Traces = provision.Traces{} // nobody else's business
	w.WriteHeader(http.StatusConflict)
	reply(w, why)
}

// putLease takes or renews the lease. Another store's live lease is refused with
// 409 and that lease as the body, and so is one that reserves a machine which an
// agent of another lab has reserved, and that of a run whose lease somebody has ended.
// An agent that is ending says 503.
func (s *server) putLease(w http.ResponseWriter, r *http.Request) {
	var want Lease
	if !read(w, r, &want) {
		return
	}
	if want.TTL <= 0 {
		fail(w, http.StatusBadRequest, fmt.Errorf("a lease of %s is none", want.TTL))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.ending() || s.ctx.Err() != nil {
		fail(w, http.StatusServiceUnavailable, errors.New("the agent is ending"))
		return
	}
	if by, ok := s.ended[want.Run]; ok {
		refuse(w, refusal{Ended: by})
		return
	}
	was := s.life
	if was.phase == leased && was.lease.Store != want.Store {
		refuse(w, refusal{Lease: was.lease})
		return
	}
	now, next := time.Now(), was
	anew := was.phase == idle || was.lease.Run != want.Run
	if anew {
		next.since, next.earlier = now, was.lease.Traces
	}
	want.Expires = now.Add(time.Duration(want.TTL))
	if end := next.since.Add(time.Duration(want.MaxDuration)); want.MaxDuration > 0 && end.Before(want.Expires) {
		want.Expires = end
	}
	if want.Reserve {
		by, err := s.reserve(want)
		if err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}
		if by != nil {
			if was.phase == idle { // whoever waits asks again, and the agent stays for that
				s.expiry.Reset(unclaimed)
			}
			refuse(w, refusal{Lease: *by})
			return
		}
	}
	if anew {
		s.log.Info("leased", "lab", want.Lab, "run", want.Run, "holder", want.Holder, "ttl", want.TTL.String())
		if was.phase == leased {
			s.ended[was.lease.Run] = want.Holder // should its caller only have slept
		}
	}
	next.phase, next.lease = leased, want
	s.life = next
	s.expiry.Reset(time.Until(want.Expires))
	reply(w, granted{want, next.earlier})
}

// deleteLease ends the agent, for the lease's holder, or for whoever says in ?by= who
// it is: then the holder is told when it comes again. Only what the agent runs itself is
// stopped: the caller has taken its containers down. The answer comes when that is done.
func (s *server) deleteLease(w http.ResponseWriter, r *http.Request) {
	by := r.URL.Query().Get("by")
	s.mu.Lock()
	if why := s.against(r); why != nil && by == "" {
		s.mu.Unlock()
		refuse(w, *why)
		return
	}
	if !s.life.ending() && s.ctx.Err() == nil {
		if s.life.phase == leased && by != "" {
			s.ended[s.life.lease.Run] = by
			if err := writeEnded(s.Dir, s.ended); err != nil {
				s.log.Error("note whose lease was ended", "err", err)
			}
		}
		s.life.phase = released
	}
	s.mu.Unlock()
	s.quit()
	<-s.over // not r.Context(): that has ended with the agent
	if s.failure != nil {
		fail(w, http.StatusInternalServerError, s.failure)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// endedName is a file in the agent's directory with the runs whose lease was ended by
// somebody else: their callers may be at work yet, and bring up another agent.
const endedName = "ended.json"

func readEnded(dir string) map[string]string {
	ended := map[string]string{}
	b, err := os.ReadFile(filepath.Join(dir, endedName))
	if err != nil || json.Unmarshal(b, &ended) != nil {
		return map[string]string{}
	}
	return ended
}

func writeEnded(dir string, ended map[string]string) error {
	b, err := json.Marshal(ended)
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(dir, endedName), b, 0o600)
}

// expired ends an agent that nobody has claimed, or not again.
func (s *server) expired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.ending() || s.ctx.Err() != nil {
		return
	}
	switch l := s.life.lease; {
	case s.life.phase == idle:
		s.life.phase = released
	case time.Until(l.Expires) > 0: // renewed while the timer fired
		s.expiry.Reset(time.Until(l.Expires))
		return
	default:
		s.life.phase = expired
		s.log.Warn("the lease ran out: cleaning up", "lab", l.Lab, "run", l.Run, "holder", l.Holder)
	}
	s.quit()
}

// sweep removes the lab's containers, in their own graceful way, and proves that the
// host is free again.
func (s *server) sweep(ctx context.Context, l Lease) error {
	traces := l.Traces
	traces.Mark = s.Dir + "/"
	var failed error
	if l.Docker != "" {
		// A daemon that is restarted or upgraded in this moment is waited for: nobody else will come.
		policy := backoff.NewExponentialBackOff()
		policy.InitialInterval, policy.MaxInterval = time.Second, 10*time.Second
		_, failed = backoff.Retry(ctx, func() (struct{}, error) {
			err := s.removeContainers(ctx, l, &traces)
			if err != nil {
				s.log.Warn("remove the lab's containers", "err", err)
			}
			return struct{}{}, err
		}, backoff.WithBackOff(policy), backoff.WithMaxElapsedTime(sweepWithin))
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
	defer done()
	c, err := s.withDocker(ctx, l)
	if err != nil {
		return errors.Join(failed, err)
	}
	defer c.Close()
	others, unclean := c.ProveGone(ctx, traces, cmp.Or(s.Release, provision.ReleaseWait))
	if len(others) > 0 {
		s.log.Warn("others use the GPUs", "processes", others)
	}
	if err = errors.Join(failed, unclean); err == nil {
		s.log.Info("the host is free again")
		return nil
	}
	return errors.Join(err, MarkUnclean(ctx, c, l, traces, err))
}

// withDocker is this machine with the daemon that runs a lease's containers.
func (s *server) withDocker(ctx context.Context, l Lease) (*provision.Conn, error) {
	return provision.Dial(ctx, &provision.Host{Name: "local", Address: provision.LocalAddress, Docker: l.Docker}, provision.SSH{}, s.log)
}

// removeContainers stops and removes the lab's containers side by side, and adds them to
// the traces.
func (s *server) removeContainers(ctx context.Context, l Lease, traces *provision.Traces) error {
	c, err := s.withDocker(ctx, l)
	if err != nil {
		return err
	}
	defer c.Close()
	found, err := c.List(ctx, map[string]string{provision.LabelLab: l.Lab})
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	for i, f := range found {
		s.log.Info("removing", "container", f.Name)
		if !slices.Contains(traces.Containers, f.ID) {
			traces.Containers = append(slices.Clone(traces.Containers), f.ID)
		}
		wg.Go(func() { errs[i] = c.Stop(ctx, f.ID, provision.OwnGrace) })
	}
	wg.Wait()
	return errors.Join(err, errors.Join(errs...))
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // an error here is the caller gone: nobody is left to tell
}

func fail(w http.ResponseWriter, status int, err error) {
	http.Error(w, err.Error(), status)
}

// read decodes a request's body, and answers 400 when it cannot.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	dec := json.NewDecoder(io.LimitReader(r.Body, 16<<20))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf("read the request: %w", err))
		return false
	}
	return true
}
