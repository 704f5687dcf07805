package apply

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
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
// version is none, or is not told, is told of once, since its settings are not checked by it.
func TestVersionOfServer(t *testing.T) {
	t.Parallel()
	real := recording.Text(t, "sglang-0.5.23/server_info.json")
	if !strings.Contains(real, `"version":"0.5.23"`) {
		t.Fatal("the recording has another version")
	}
	const unknown = "the server's version is not known, so its settings were checked by what the lab says of it alone: "
	older := []string{"/server_info", "/get_server_info"}
	for _, tt := range []struct {
		answers          map[string]string
		version, warning string
		asked            []string
	}{
		{map[string]string{"/server_info": real}, "0.5.23", "", older[:1]},
		{map[string]string{"/server_info": strings.Replace(real, `"version":"0.5.23"`, `"version":"main"`, 1)},
			"", unknown + `at /server_info it says "main"`, older[:1]},
		{map[string]string{"/server_info": `[]`}, "", unknown + `at /server_info it says ""`, older[:1]},
		{map[string]string{"/get_server_info": real}, "0.5.23", "", older},
		{nil, "", unknown + "GET /server_info: 404 Not Found nothing here", older},
	} {
		asked, warned := []string{}, []string{}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			answer, has := tt.answers[r.URL.Path]
			if !has {
				http.Error(w, "nothing here", http.StatusNotFound)
			}
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
		if got := strings.Join(warned, "; "); versions["sglang"] != tt.version || got != tt.warning {
			t.Errorf("version %q, told %q, want %q and %q", versions["sglang"], got, tt.version, tt.warning)
		}
		if !slices.Equal(asked, tt.asked) || (tt.answers != nil) != json.Valid(served) {
			t.Errorf("asked for %q, want %q; it serves with %.40s", asked, tt.asked, served)
		}
		conn.Close()
		srv.Close()
	}
}
