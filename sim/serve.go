package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long streams may go on after the engine was told to end.
const grace = 2 * time.Second

// Banner is what an engine logs while it starts, the line by which its
// readiness is known included; url is where it listens.
func Banner(as, model, url string) []string {
	uvicorn := "INFO:     Uvicorn running on " + url + " (Press CTRL+C to quit)"
	switch as {
	case SGLang:
		return []string{
			"server_args=ServerArgs(model_path=" + quote(model) + ")",
			"Loading safetensors checkpoint shards: 100% Completed | 1/1",
			"INFO:     Application startup complete.",
			uvicorn,
			"The server is fired up and ready to roll!",
		}
	case TRTLLM:
		return []string{
			"[TensorRT-LLM] Loading " + model,
			"INFO:     Application startup complete.",
			uvicorn,
		}
	}
	return []string{
		"INFO vLLM API server version " + simVersion + ", model " + model,
		"Loading safetensors checkpoint shards: 100% Completed | 1/1",
		"INFO:     Started server process [1]",
		"INFO:     Waiting for application startup.",
		"INFO:     Application startup complete.",
		uvicorn,
	}
}

func (c Config) listen(ctx context.Context, address string) (net.Listener, error) {
	var how net.ListenConfig
	if c.SharePort {
		how.Control = sharePort
	}
	l, err := how.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// sharePort lets others listen on a socket's port too.
func sharePort(_, _ string, socket syscall.RawConn) (err error) {
	failed := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(failed, err)
}

// Serve runs a simulated engine on the address listen ("host:port", port 0
// takes a free one) until ctx ends, and writes its log. It then lets streams go
// on for a short while, cuts the rest, and returns nil. It returns an error when
// it cannot listen, or when the configuration wants the start to fail.
func Serve(ctx context.Context, cfg Config, listen string, log io.Writer) error {
	if cfg.Routes != nil {
		return serveRouter(ctx, cfg, listen, log)
	}
	if cfg.Place.follower(cfg.As) {
		return serveFollower(ctx, cfg, listen, log)
	}
	ctx, alive := cfg.mortal(ctx)
	defer alive()
	l, err := cfg.listen(ctx, listen)
	if err != nil {
		return err
	}
	engine := New(cfg)
	engine.address, engine.log = l.Addr().String(), func(line string) { fmt.Fprintln(log, line) }
	others, err := openDoors(ctx, engine, log)
	if err != nil {
		l.Close()
		return err
	}
	defer others()
	fmt.Fprintf(log, "simulated %s engine on http://%s\n", engine.cfg.As, l.Addr())
	server := &http.Server{Handler: engine}
	served := make(chan error, 1)
	door := newDoor(engine, l)
	go func() { served <- server.Serve(door) }()
	end := func(grace time.Duration) error {
		// The caller's context is over; the end has its own.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		door.drain(ctx)
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	}

	started := newAlarm(ctx)
	defer started.stop()
	if !waitWhole(ctx, engine) || !started.wait(engine.started.Add(engine.cfg.NotReadyFor)) {
		return errors.Join(died(ctx), end(grace))
	}
	if cfg.FailStart != "" {
		fmt.Fprintln(log, cfg.FailStart)
		return errors.Join(errors.New("the engine was told to fail at its start"), end(0))
	}
	for _, line := range Banner(engine.cfg.As, engine.cfg.Model, "http://"+l.Addr().String()) {
		fmt.Fprintln(log, line)
	}
	select {
	case <-ctx.Done():
		return errors.Join(died(ctx), end(grace))
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	}
}

// died is why an engine ended, when nobody had told it to.
func died(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errMortal) {
		return cause
	}
	return nil
}

// serveRouter is [Serve] of a router.
func serveRouter(ctx context.Context, cfg Config, listen string, log io.Writer) error {
	ctx, alive := cfg.mortal(ctx)
	defer alive()
	router := newRouter(cfg.As, *cfg.Routes)
	if cfg.As == VLLM { // it does not listen before
		fmt.Fprintf(log, "Waiting for %d unique hosts to become healthy\n", len(router.all()))
		for again := time.NewTicker(100 * time.Millisecond); !router.whole(ctx); {
			select {
			case <-again.C:
			case <-ctx.Done():
				again.Stop()
				return died(ctx)
			}
		}
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(log, "simulated %s router on http://%s\n", cfg.As, l.Addr())
	server := &http.Server{Handler: router.mux}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case <-ctx.Done():
		server.Close()
		<-served
		return died(ctx)
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	}
}

// openDoors opens what the engine's other ranks and its decode servers come to, or goes to rank 0.
// The function that it returns closes that, and waits.
func openDoors(ctx context.Context, s *Server, log io.Writer) (closed func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	closed = func() { cancel(); all.Wait() }
	var doors []net.Listener
	open := func(address string) (l net.Listener) {
		if err == nil && address != "" {
			if l, err = net.Listen("tcp", address); err == nil {
				doors = append(doors, l)
			}
		}
		return l
	}
	var store, door net.Listener
	if s.ranks != nil {
		store = open(s.cfg.Place.Store)
	}
	if s.cfg.Place.Rank == 0 || s.cfg.As == VLLM {
		door = open(s.cfg.Place.Door)
	}
	if err != nil {
		for _, l := range doors {
			l.Close()
		}
		cancel()
		return nil, fmt.Errorf("listen: %w", err)
	}
	if store != nil {
		all.Go(func() { s.ranks.serve(ctx, store) })
		all.Go(func() {
			select {
			case <-s.ranks.lost:
				s.broken.Store(true) // the rest hangs in a collective operation, and says nothing
			case <-ctx.Done():
			}
		})
	}
	if at := s.cfg.Place; at.spans() && at.Rank > 0 { // one that answers for its own host
		all.Go(func() {
			if at.join(ctx, log) == nil {
				s.broken.Store(true)
			}
		})
	}
	if door != nil {
		server := &http.Server{Handler: &s.kv}
		all.Go(func() { server.Serve(door) })
		all.Go(func() { <-ctx.Done(); server.Close() })
	}
	return closed, nil
}

// waitWhole waits until all ranks are there.
func waitWhole(ctx context.Context, s *Server) bool {
	if s.ranks == nil || s.cfg.EarlyReady {
		return true
	}
	select {
	case <-s.ranks.whole:
		return true
	case <-ctx.Done():
		return false
	}
}
