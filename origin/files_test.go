package origin

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost"
)

// TestFiles lists a model over several pages, and opens its files whole and from the middle.
func TestFiles(t *testing.T) {
	large := strings.Repeat("w", testhost.LargeFile)
	server := testhost.NewHub(t, "127.0.0.1:0", map[string][]byte{
		"config.json": []byte("{}"), "model.safetensors": []byte(large), "original/odd name#1.json": []byte("[]"),
	})
	const token = "hf_s3cret"
	server.Require(token)
	h := &Hub{URL: server.URL}
	_, err := h.Files(t.Context(), server.Repo, server.Commit)
	testhost.WantError(t, err, ErrAccess)
	h.Token = token
	got, err := h.Files(t.Context(), server.Repo, server.Commit)
	testhost.OK(t, err)
	want := []File{
		{Path: "config.json", Size: 2, Sum: server.Sum("config.json")},
		{Path: "model.safetensors", Size: testhost.LargeFile, Sum: server.Sum("model.safetensors")},
		{Path: "original/odd name#1.json", Size: 2, Sum: server.Sum("original/odd name#1.json")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Files (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		path   string
		offset int64
		want   string
	}{
		{"original/odd name#1.json", 0, "[]"},
		{"model.safetensors", testhost.LargeFile - 3, "www"},
	} {
		body, at, err := h.Open(t.Context(), server.Repo, server.Commit, test.path, test.offset)
		testhost.OK(t, err)
		b, err := io.ReadAll(body)
		body.Close()
		if err != nil || string(b) != test.want || at != test.offset {
			t.Errorf("Open(%s, %d) = %q from %d, %v", test.path, test.offset, b, at, err)
		}
	}

	// A hub that knows no ranges sends the whole.
	server.Before(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		io.WriteString(w, large)
		return true
	})
	body, at, err := h.Open(t.Context(), server.Repo, server.Commit, "model.safetensors", 5)
	if err != nil || at != 0 {
		t.Fatalf("Open = from %d, %v", at, err)
	}
	body.Close()
	_, _, err = h.Open(t.Context(), server.Repo, server.Commit, "none", 0)
	testhost.WantError(t, err, ErrNotFound)
}

// TestOddFiles are answers that would have files written where they must not be.
func TestOddFiles(t *testing.T) {
	for _, answer := range []string{
		`[{"type":"file","path":"../../etc/passwd","size":1,"oid":"` + commit + `"}]`,
		`[{"type":"file","path":"/etc/passwd","size":1,"oid":"` + commit + `"}]`,
		`[{"type":"file","path":"a","size":1,"oid":"../../a"}]`,
		`[{"type":"file","path":"a","size":-1,"oid":"` + commit + `"}]`,
		`{`,
	} {
		addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
		if files, err := (&Hub{URL: "http://" + addr}).Files(t.Context(), "org/m", commit); err == nil {
			t.Errorf("Files of %s = %v, want an error", answer, files)
		}
	}
}

// TestTokenStays: where the hub sends on to, its token does not go, be it a name of the same domain.
func TestTokenStays(t *testing.T) {
	seen := map[string]string{}
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen[r.Host] = r.Header.Get("Authorization")
		if r.Host == "hub.test" {
			http.Redirect(w, r, "http://cdn.hub.test"+r.URL.Path, http.StatusFound)
			return
		}
		io.WriteString(w, "weights")
	}))
	everywhere := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer everywhere.CloseIdleConnections()
	h := &Hub{Client: Client{HTTP: &http.Client{Transport: everywhere}}, URL: "http://hub.test", Token: "hf_s3cret"}
	body, _, err := h.Open(t.Context(), "org/m", commit, "w", 0)
	testhost.OK(t, err)
	body.Close()
	if diff := cmp.Diff(map[string]string{"hub.test": "Bearer hf_s3cret", "cdn.hub.test": ""}, seen); diff != "" {
		t.Errorf("who saw the token (-want +got):\n%s", diff)
	}
}
