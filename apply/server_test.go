package apply

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/testhost/recording"
)

// oneServer is a way to a host on which one server listens, on whichever port.
type oneServer struct {
	silentHost
	address string
}

func (s oneServer) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", s.address)
}

// TestVersionOfServer: SGLang tells its version and what it runs with in one answer, for which it is asked once. A server whose
// version is none is told of, since its settings are not checked by it.
func TestVersionOfServer(t *testing.T) {
	t.Parallel()
	real := recording.Text(t, "sglang-0.5.23/server_info.json")
	if !strings.Contains(real, `"version":"0.5.23"`) {
		t.Fatal("the recording has another version")
	}
	for answer, want := range map[string]struct{ version, warning string }{
		real: {"0.5.23", ""},
		strings.Replace(real, `"version":"0.5.23"`, `"version":"main"`, 1): {"", "the server tells no version at /server_info (\"main\"), so its settings were checked by what the lab says of it alone"},
		`[]`: {"", "the server tells no version at /server_info (\"\"), so its settings were checked by what the lab says of it alone"},
	} {
		asked, warned := []string{}, []string{}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			io.WriteString(w, answer)
		}))
		h := &provision.Host{Name: "box"}
		conn, err := reach.Through(t.Context(), h, oneServer{address: srv.Listener.Addr().String()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		of := &engines.Engine{Kind: engines.SGLang}
		e := &engine{d: &plan.Deployment{Engine: of}, log: slog.New(slog.DiscardHandler),
			tell: teller{to: func(e Event) { warned = append(warned, e.Message) }}}
		m := &member{Member: plan.Member{Member: engines.Member{Engine: of, Answers: true}}, at: &place.Session{Host: h, Reached: place.Reached{Conn: conn}}}
		versions := e.versions(t.Context(), m)
		served := e.served(t.Context(), m)
		if got := strings.Join(warned, "; "); versions["sglang"] != want.version || got != want.warning {
			t.Errorf("version %q, told %q, want %q and %q", versions["sglang"], got, want.version, want.warning)
		}
		if len(asked) != 1 || !json.Valid(served) {
			t.Errorf("asked for %q; it serves with %.40s", asked, served)
		}
		conn.Close()
		srv.Close()
	}
}
