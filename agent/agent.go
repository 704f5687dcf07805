// Package agent is what runs on a host: load jobs that survive a lost
// connection, and the claim, which is all that a run has made there, containers and
// processes. The agent makes it, holds it while its lease is renewed, and ends it.
//
// The same binary serves as agent and as caller. [Serve] is the agent; [Start]
// and [Client] are how the caller brings one up and speaks to it, over HTTP on a
// unix socket that only the host's user can open. The agent knows jobs,
// containers, processes and labels; it does not know labs, plans, engines or results.
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
	"regexp"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"hclbench/load"
	"hclbench/provision"
)

// Info is what an agent says about itself.
type Info struct {
	Binary string    `json:"binary"`          // SHA-256 of the binary that it runs
	Lease  *Lease    `json:"lease,omitempty"` // nil: nobody holds it
	Now    time.Time `json:"now"`             // by the host's clock
	// Up is for how long the agent has been there, by a clock of the host's that nobody sets.
	Up time.Duration `json:"up"`
}

// Config is what an agent works with.
type Config struct {
	Dir          string           // its own; the socket is in it
	Binary       string           // SHA-256 of the binary that it runs
	Cache        string           // where all of hcl is on this host: old things are cleared from it; empty: nothing is
	Unclaimed    time.Duration    // how long it stays when nobody claims it; 0: [Unclaimed]
	Reservations string           // directory of the machine's reservation; empty: [Reservations]
	Calibrated   *load.Calibrated // what is known of the generator here; nil: nothing
	Release      time.Duration    // how long drivers may take to give memory back; 0: [provision.ReleaseWait]
	Log          *slog.Logger
}

// Unclaimed is how long at most an agent that nobody claims stays. The lease that its caller
// is about to take may be shorter: so long it stays then, as with a caller that is lost later.
const Unclaimed = 2 * time.Minute

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

// Serve runs an agent until its lease is released or runs out, or ctx ends. At the end of a
// lease it ends the claim: what it has made is stopped and removed, and it is proved that the
// host is free again; what is left it keeps for [ReadUnclean]. ready is called once the socket answers. It fails at once, with
// [ErrAtWork], when another agent works in the directory.
func Serve(ctx context.Context, cfg Config, ready func()) error {
	dir, log := cfg.Dir, cfg.Log
	lock, err := occupy(dir, log)
	if err != nil {
		return err
	}
	defer lock.Close()
	jobs := filepath.Join(dir, "jobs")
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
	s := newServer(ctx, cancel, cfg)
	s.processes, err = openProcesses(filepath.Join(dir, "processes"), cmp.Or(cfg.Release, provision.ReleaseWait), log)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := s.lessor.machine.forgetKilled(); err != nil {
		log.Warn("forget the reservation of an agent that was killed", "err", err)
	}
	s.claim = openClaim(ctx, cfg, s.processes)
	s.lessor.claim, s.settings.here = s.claim, s.claim.dialHere
	s.jobs.spent, s.watches.spent = s.claim.spent, s.claim.spent
	s.lessor.goOn(s.claim.left())
	s.claim.making.Go(func() { s.claim.watchMemory(ctx) })

	hs := &http.Server{Handler: s.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }()
	log.Info("serving", "dir", dir, "pid", os.Getpid())
	ready()
	if err := s.cache.clear(keepFor); err != nil {
		log.Warn("clear what is old", "err", err)
	}

	select {
	case err = <-served:
	case <-ctx.Done():
	}
	cancel() // no job starts and no lease changes after this
	final := s.lessor.final()
	s.works.wait() // jobs end with ctx and have written what they measured
	said, failed := s.leave(ctx, final)
	err = errors.Join(err, failed, os.RemoveAll(jobs))
	ln.Close() // and with it goes the socket
	s.lessor.said, s.lessor.err = said, err
	close(s.lessor.over) // whoever has released the lease is answered, when nothing is left that could be seen
	flush, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	if hs.Shutdown(flush) != nil {
		hs.Close()
	}
	log.Info("done", "err", err)
	return err
}

// occupy makes the agent's directory, and locks it for this agent alone.
func occupy(dir string, log *slog.Logger) (*flock.Flock, error) {
	for _, d := range []string{dir, filepath.Join(dir, "processes")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make the agent's directory: %w", err)
		}
	}
	lock := flock.New(filepath.Join(dir, "lock"))
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("%w in %s", ErrAtWork, dir), err)
	}
	// A pod lives as long as the agent whose number it reads there. On a host with a full disk nobody misses it.
	if err := os.WriteFile(lock.Path(), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		log.Warn("say which process the agent is", "err", err)
	}
	return lock, nil
}

// listen opens the agent's socket, which only its user can.
func listen(dir string) (net.Listener, error) {
	socket := filepath.Join(dir, "sock")
	os.Remove(socket) // left by an agent that was killed; the lock says that it is gone
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return ln, os.Chmod(socket, 0o600)
}

type server struct {
	Config
	lessor    *lessor
	works     *works
	jobs      *jobs
	watches   *watches
	processes *processes
	claim     *claim
	settings  *settings
	cache     cache
}

func newServer(ctx context.Context, quit context.CancelFunc, cfg Config) *server {
	w := &works{ctx: ctx}
	l := &lessor{
		dir: cfg.Dir, ctx: ctx, quit: quit, over: make(chan struct{}), notes: make(chan chan<- struct{}, 1), log: cfg.Log, ended: readEnded(cfg.Dir),
		unclaimed: cmp.Or(cfg.Unclaimed, Unclaimed),
		machine:   machine{dir: cfg.Dir, cache: cfg.Cache, locks: cfg.Reservations, log: cfg.Log},
	}
	return &server{
		Config: cfg, lessor: l, works: w,
		jobs:     &jobs{dir: filepath.Join(cfg.Dir, "jobs"), calibrated: cfg.Calibrated, since: time.Now(), works: w, log: cfg.Log, all: map[string]*job{}},
		watches:  &watches{works: w, all: map[string]*watch{}},
		settings: &settings{dir: cfg.Dir, cache: cfg.Cache, reserved: l.reserved, log: cfg.Log},
		cache:    cache{root: cfg.Cache, own: cfg.Dir, log: cfg.Log},
	}
}

// leave ends the claim, in the way of [claim.end], and with it all that was for its lease: settings go back, and what
// could not be cleaned is noted for whoever comes next.
func (s *server) leave(ctx context.Context, final life) (said gone, err error) {
	s.claim.close()
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), s.claim.mostGrace()+downWithin)
	defer done()
	if !final.ending() { // another agent goes on with the claim; processes end with this one
		defer s.lessor.giveBack()
		return said, s.processes.stopAll(ctx)
	}
	var left error
	all := extent{of: func(string) bool { return true }}
	if final.by != nil {
		all.docker = final.by.Docker
		if final.by.Force {
			all.lab = final.by.Lab
		}
	}
	said.Removed, said.Others, left = s.claim.end(ctx, all)
	said.Memory = s.claim.foreignMemory()
	left = uncleanOf(left, s.processes.stopAll(ctx))
	if final.by != nil {
		left = s.clean(ctx, *final.by, left)
	}
	back := s.settings.finish(ctx)
	switch err = left; {
	case left != nil:
		err = uncleanOf(left, back)
		err = errors.Join(err, s.markUnclean(ctx, final.lease, err))
	case back != nil:
		err = provision.Told(provision.ErrSettings.Error(), back.Error())
	}
	err = errors.Join(err, s.claim.forget())
	s.lessor.giveBack()
	return said, err
}

func (s *server) handler() http.Handler {
	held := s.lessor.held
	mux := http.NewServeMux()
	for pattern, do := range map[string]handler{
		"GET /v1/info":                          s.info,
		"PUT /v1/lease":                         s.lessor.put,
		"DELETE /v1/lease":                      s.lessor.end,
		"PUT /v1/prepare":                       held(s.settings.put),
		"DELETE /v1/cache":                      held(s.cache.forget),
		"PUT /v1/jobs/{id}":                     held(s.jobs.put),
		"POST /v1/jobs/{id}/begin":              held(s.jobs.begin),
		"POST /v1/jobs/{id}/enough":             held(s.jobs.enough),
		"GET /v1/jobs/{id}/events":              s.jobs.events,
		"GET /v1/jobs/{id}/records":             s.jobs.records,
		"DELETE /v1/jobs/{id}":                  held(s.jobs.forget),
		"PUT /v1/watches/{id}":                  held(s.watches.put),
		"POST /v1/watches/{id}":                 held(s.watches.end),
		"DELETE /v1/watches/{id}":               held(s.watches.forget),
		"POST /v1/models":                       held(s.fetchModel),
		"POST /v1/begin":                        held(s.begin),
		"PUT /v1/members/{name}":                held(s.claim.put),
		"DELETE /v1/members/{name}":             held(s.claim.delete),
		"GET /v1/processes":                     s.processes.list,
		"GET /v1/processes/{name}":              s.processes.state,
		"GET /v1/processes/{name}/logs":         s.processes.logs,
		"GET /v1/processes/{name}/files/{file}": s.processes.file,
	} {
		mux.Handle(pattern, do)
	}
	return mux
}

// handler answers a request, unless it returns why it cannot.
type handler func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP answers an error with its status, and 500 for one without.
func (do handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := do(w, r)
	if err == nil {
		return
	}
	if why, ok := errors.AsType[*refusal](err); ok {
		w.WriteHeader(http.StatusConflict)
		reply(w, why)
		return
	}
	if why, ok := errors.AsType[*fault](err); ok {
		w.WriteHeader(http.StatusUnprocessableEntity)
		reply(w, why)
		return
	}
	status := http.StatusInternalServerError
	if e, ok := errors.AsType[*statusError](err); ok {
		status = e.code
	}
	http.Error(w, err.Error(), status)
}

func (s *server) info(w http.ResponseWriter, r *http.Request) error {
	return reply(w, Info{Binary: s.Binary, Lease: s.lessor.current(), Now: time.Now(), Up: time.Since(s.jobs.since)})
}

func reply(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // an error here is the caller gone: nobody is left to tell
	return nil
}

func fail(status int, format string, args ...any) error {
	return &statusError{status, fmt.Sprintf(format, args...)}
}

var errEnding = fail(http.StatusServiceUnavailable, "the agent is ending")

func read(r *http.Request, v any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, 16<<20))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fail(http.StatusBadRequest, "read the request: %v", err)
	}
	return nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,100}$`)

// readNamed is read for something that is kept under a name, in a file.
func readNamed(r *http.Request, name string, v any) error {
	if !nameForm.MatchString(name) {
		return fail(http.StatusBadRequest, "nothing here can be named %q", name)
	}
	return read(r, v)
}

// writeJSON writes a file whole or not at all, with exactly these permissions.
func writeJSON(file string, v any, perm os.FileMode) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return renameio.WriteFile(file, b, perm, renameio.IgnoreUmask())
}

func readJSON(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
