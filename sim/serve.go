package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	var how net.ListenConfig
	if cfg.SharePort {
		how.Control = sharePort
	}
	l, err := how.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	engine := New(cfg)
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
	if !started.wait(engine.started.Add(engine.cfg.NotReadyFor)) {
		return end(grace)
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
		return end(grace)
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	}
}
