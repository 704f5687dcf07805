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

// TestHangs: that a silent engine hangs is known when its patience is over, also where its members do not tell their
// counts any more.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &provision.Host{Name: "box"}
		conn, err := reach.Through(t.Context(), h, silentHost{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		at := &place.Session{Host: h, Reached: place.Reached{Conn: conn}}
		e, prefill, decode := split(engines.VLLM)
		for _, m := range []*member{prefill, decode} {
			m.at, m.rt = at, awake{}
		}
		e.d.Engine, e.at = decode.Engine, sessions{nil: at}
		e.log = slog.New(slog.DiscardHandler)
		trial := &trial{engine: e}
		trial.row.Model = "m"
		m := &measurement{t: trial}
		s := newServer("http://127.0.0.1:8000", at, provision.Text{}, e.secrets)
		defer s.close()
		begun := time.Now()
		err = m.hangs(t.Context(), s, stillWithin)
		if took := time.Since(begun); took > stillWithin+exitPatience+countPatience {
			t.Errorf("it took %s to know that it hangs, want about %s", took, stillWithin)
		}
		if err == nil || !strings.Contains(err.Error(), "it no longer answers") {
			t.Errorf("hangs = %v", err)
		}
	})
}

// awake is a runtime whose members all run.
type awake struct{ place.Runtime }

func (awake) State(context.Context, string) (provision.State, error) {
	return provision.State{Running: true}, nil
}
