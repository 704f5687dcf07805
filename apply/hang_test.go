package apply

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// silentHost takes connections and says nothing.
type silentHost struct{}

func (silentHost) Run(_ context.Context, _ string, _ io.Reader, out, _ io.Writer) error {
	_, err := io.WriteString(out, "/home/ada\nbox\n")
	return err
}

func (silentHost) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	context.AfterFunc(ctx, func() { theirs.Close() })
	go io.Copy(io.Discard, theirs)
	return ours, nil
}

func (silentHost) Listen(context.Context) (net.Listener, error) { return nil, reach.ErrNotForwarded }

func (silentHost) Close() error { return nil }

// silentMeasurement is a load on a server that does not answer, of an engine whose members all run and have said something.
func silentMeasurement(t *testing.T, log string) (*measurement, *server) {
	t.Helper()
	h := &provision.Host{Name: "box"}
	conn, err := reach.Through(t.Context(), h, silentHost{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := &place.Session{Host: h, Reached: place.Reached{Conn: conn}}
	e, prefill, decode := split(engines.VLLM)
	prefill.at, prefill.rt = at, awake{}
	decode.at, decode.rt = at, awake{log: log}
	e.d.Engine, e.at = decode.Engine, sessions{nil: at}
	e.log = slog.New(slog.DiscardHandler)
	trial := &trial{engine: e}
	trial.row.Model = "m"
	s := newServer("http://127.0.0.1:8000", at, provision.Text{}, e.secrets)
	t.Cleanup(func() {
		s.close()
		conn.Close()
	})
	return &measurement{t: trial}, s
}

// TestHangs: that a silent engine hangs is known when its patience is over, also where its members do not tell their
// counts any more.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := silentMeasurement(t, "")
		begun := time.Now()
		err := m.hangs(t.Context(), s, stillWithin)
		if took := time.Since(begun); took > stillWithin+exitPatience+countPatience {
			t.Errorf("it took %s to know that it hangs, want about %s", took, stillWithin)
		}
		if err == nil || !strings.Contains(err.Error(), "it no longer answers") {
			t.Errorf("hangs = %v", err)
		}
	})
}

// TestLostButAlive: an engine that is silent and has said in its log that it is lost is not waited for: SGLang lives on for a
// minute. One that has not said so may be silent until requests have stalled.
func TestLostButAlive(t *testing.T) {
	for log, lost := range map[string]bool{
		"[2026-11-24 13:24:52] Subprocess detokenizer (pid=286) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n": true,
		"INFO: 127.0.0.1:48624 - \"POST /v1/completions HTTP/1.1\" 200 OK\n":                                                    false,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, s := silentMeasurement(t, log)
			ctx, cancel := context.WithTimeout(t.Context(), load.DefaultStall)
			defer cancel()
			begun := time.Now()
			running := make(chan struct{})
			defer func() { <-running }()
			go func() {
				defer close(running)
				for flow.Pause(ctx, time.Second) {
					m.silent.Store(int64(time.Since(begun)))
				}
			}()
			err := m.watch(ctx, s)
			took := time.Since(begun)
			cancel()
			if lost != (err != nil) || lost != (took < 30*time.Second) {
				t.Errorf("after %q and %s: %v", log, took, err)
			}
		})
	}
}

// awake is a runtime whose members all run.
type awake struct {
	place.Runtime
	log string
}

func (awake) State(context.Context, string) (provision.State, error) {
	return provision.State{Running: true}, nil
}

func (a awake) Logs(context.Context, string, bool, int) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(a.log)), nil
}
