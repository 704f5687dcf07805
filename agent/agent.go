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
	"sync"
	"time"

	"github.com/gofrs/flock"

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

// downWithin bounds how long an agent whose time is over takes for cleaning up.
const downWithin = 5 * time.Minute

// Serve runs an agent until its lease is released or runs out, or ctx ends; then
// it stops what it still runs and, when the lease ran out, the lab's containers
// as well, and looks whether the host is free again: what it finds it keeps for
// [ReadUnclean]. ready is called once the socket answers. It fails at once when
// another agent works in the directory.
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
		return errors.Join(fmt.Errorf("another agent works in %s", dir), err)
	}
	defer lock.Close()
	// Jobs end with their agent, and what nobody has fetched by then nobody will.
	if err := errors.Join(os.RemoveAll(jobs), os.Mkdir(jobs, 0o700)); err != nil {
		return fmt.Errorf("clear what an earlier agent has left: %w", err)
	}

	socket := filepath.Join(dir, "sock")
	os.Remove(socket) // left by an agent that was killed; the lock says that it is gone
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(err, ln.Close())
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{Config: cfg, ctx: ctx, log: log, quit: cancel, jobs: map[string]*job{}, watches: map[string]*watch{}}
	s.processes, err = openProcesses(filepath.Join(dir, "processes"), log)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	s.expiry = time.AfterFunc(unclaimed, s.expired)

	hs := &http.Server{Handler: s.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }()
	log.Info("serving", "socket", socket, "pid", os.Getpid())
	ready()
	if err := s.clear(keepFor); err != nil {
		log.Warn("clear what is old", "err", err)
	}

	select {
	case err = <-served:
	case <-ctx.Done():
	}
	s.expiry.Stop()
	s.mu.Lock() // no job starts after this
	cancel()
	s.mu.Unlock()
	s.work.Wait() // jobs end with ctx and have written what they measured

	down, done := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
	defer done()
	err = errors.Join(err, s.processes.stopAll(down), s.sweep(down))
	if s.ending { // else another agent goes on with what this one runs
		err = errors.Join(err, s.finish(down))
	}
	err = errors.Join(err, s.reservation.release(), os.RemoveAll(jobs))
	flush, done := context.WithTimeout(down, time.Second)
	defer done()
	if hs.Shutdown(flush) != nil {
		hs.Close()
	}
	log.Info("done", "err", err)
	return err
}

type server struct {
	Config
	ctx       context.Context // ends when the agent does; jobs live by it
	log       *slog.Logger
	quit      context.CancelFunc
	processes *processes
	work      sync.WaitGroup // running jobs, and watches that are not forgotten

	changing sync.Mutex // held while settings of the machine are changed or put back

	mu          sync.Mutex
	jobs        map[string]*job
	watches     map[string]*watch
	lease       *Lease
	reservation *reservation // of the machine; nil: not asked for
	since       time.Time    // of the run's first lease
	expiry      *time.Timer
	ending      bool // no lease is given any more
	orphans     bool // the lease ran out: the lab's containers are ours to remove
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", s.info)
	mux.HandleFunc("PUT /v1/lease", s.putLease)
	mux.HandleFunc("DELETE /v1/lease", s.deleteLease)
	mux.HandleFunc("PUT /v1/prepare", s.putPrepare)
	mux.HandleFunc("DELETE /v1/cache", s.deleteCache)
	mux.HandleFunc("PUT /v1/jobs/{id}", s.putJob)
	mux.HandleFunc("GET /v1/jobs/{id}/events", s.jobEvents)
	mux.HandleFunc("GET /v1/jobs/{id}/records", s.jobRecords)
	mux.HandleFunc("DELETE /v1/jobs/{id}", s.deleteJob)
	mux.HandleFunc("PUT /v1/watches/{id}", s.putWatch)
	mux.HandleFunc("POST /v1/watches/{id}", s.endWatch)
	mux.HandleFunc("DELETE /v1/watches/{id}", s.deleteWatch)
	mux.HandleFunc("POST /v1/models", s.fetchModel)
	mux.HandleFunc("PUT /v1/processes/{name}", s.putProcess)
	mux.HandleFunc("GET /v1/processes", s.listProcesses)
	mux.HandleFunc("GET /v1/processes/{name}", s.getProcess)
	mux.HandleFunc("GET /v1/processes/{name}/logs", s.processLogs)
	mux.HandleFunc("GET /v1/processes/{name}/files/{file}", s.processFile)
	mux.HandleFunc("DELETE /v1/processes/{name}", s.deleteProcess)
	return mux
}

func (s *server) info(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := Info{Binary: s.Binary, PID: os.Getpid(), Lease: s.lease, Now: time.Now()}
	for _, j := range s.jobs {
		if !j.finished() {
			in.Jobs++
		}
	}
	reply(w, in)
}

// putLease takes or renews the lease. Another store's live lease is refused with
// 409 and that lease as the body, and so is one that reserves a machine which an
// agent of another lab has reserved. An agent that is ending says 503.
func (s *server) putLease(w http.ResponseWriter, r *http.Request) {
	var want Lease
	if !read(w, r, &want) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.ctx.Err() != nil {
		fail(w, http.StatusServiceUnavailable, errors.New("the agent is ending"))
		return
	}
	if s.lease != nil && s.lease.Store != want.Store {
		refuse(w, *s.lease)
		return
	}
	now := time.Now()
	since := s.since
	if s.lease == nil || s.lease.Run != want.Run {
		since = now
	}
	want.Expires = now.Add(time.Duration(want.TTL))
	if end := since.Add(time.Duration(want.MaxDuration)); want.MaxDuration > 0 && end.Before(want.Expires) {
		want.Expires = end
	}
	if want.Reserve {
		held, err := s.reserve(want)
		if err != nil {
			fail(w, http.StatusInternalServerError, err)
			return
		}
		if held != nil {
			if s.lease == nil { // whoever waits asks again, and the agent stays for that
				s.expiry.Reset(unclaimed)
			}
			refuse(w, *held)
			return
		}
	}
	if s.lease == nil || s.lease.Run != want.Run {
		s.log.Info("leased", "lab", want.Lab, "run", want.Run, "holder", want.Holder, "ttl", want.TTL.String())
	}
	s.lease, s.since = &want, since
	s.expiry.Reset(time.Until(want.Expires))
	reply(w, s.lease)
}

// refuse answers with the lease that is in the way.
func refuse(w http.ResponseWriter, held Lease) {
	held.Traces = provision.Traces{} // nobody else's business
	w.WriteHeader(http.StatusConflict)
	reply(w, held)
}

// deleteLease ends the agent. Only what it runs itself is stopped: the caller
// has taken its containers down.
func (s *server) deleteLease(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.lease, s.ending = nil, true
	s.mu.Unlock()
	if err := s.processes.stopAll(r.Context()); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	// Not r.Context(): the lease may run out in this very moment.
	down, done := context.WithTimeout(context.WithoutCancel(r.Context()), downWithin)
	defer done()
	changed := s.finish(down)
	s.mu.Lock() // before the answer: whoever gets it may want the machine for another lab
	err := s.reservation.release()
	s.reservation = nil
	s.mu.Unlock()
	if err != nil {
		s.log.Error("give the machine back", "err", err)
	}
	if changed != nil {
		fail(w, http.StatusInternalServerError, changed)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
	s.quit()
}

func (s *server) expired() {
	s.mu.Lock()
	if s.lease != nil {
		if until := time.Until(s.lease.Expires); until > 0 { // renewed while the timer fired
			s.expiry.Reset(until)
			s.mu.Unlock()
			return
		}
		s.orphans = true
		s.log.Warn("the lease ran out: cleaning up", "lab", s.lease.Lab, "run", s.lease.Run, "holder", s.lease.Holder)
	}
	s.ending = true
	s.mu.Unlock()
	s.quit()
}

// sweep removes the lab's containers when the lease ran out, in their own graceful
// way, and proves that the host is free again.
func (s *server) sweep(ctx context.Context) error {
	if !s.orphans {
		return nil
	}
	c, err := provision.Dial(ctx, &provision.Host{Name: "local", Address: provision.LocalAddress, Docker: s.lease.Docker}, provision.SSH{}, s.log)
	if err != nil {
		return err
	}
	defer c.Close()
	traces := s.lease.Traces
	traces.Mark = s.Dir + "/"
	if s.lease.Docker != "" {
		var found []provision.Found
		found, err = c.List(ctx, map[string]string{"hcl.lab": s.lease.Lab})
		errs := make([]error, len(found))
		var wg sync.WaitGroup
		for i, f := range found {
			s.log.Info("removing", "container", f.Name)
			traces.Containers = append(traces.Containers, f.ID)
			wg.Go(func() { errs[i] = c.Stop(ctx, f.ID, provision.OwnGrace) })
		}
		wg.Wait()
		err = errors.Join(err, errors.Join(errs...))
	}
	others, unclean := c.ProveGone(ctx, traces, cmp.Or(s.Release, provision.ReleaseWait))
	if len(others) > 0 {
		s.log.Warn("others use the GPUs", "processes", others)
	}
	if err = errors.Join(err, unclean); err == nil {
		s.log.Info("the host is free again")
		return nil
	}
	return errors.Join(err, MarkUnclean(ctx, c, *s.lease, traces, err))
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
