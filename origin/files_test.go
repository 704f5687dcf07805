package origin

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost"
)

// TestFiles lists a model over several pages, and opens its files whole and from
// the middle.
func TestFiles(t *testing.T) {
	large := strings.Repeat("w", testhost.LargeFile)
	server := testhost.NewHub(t, "127.0.0.1:0", map[string][]byte{
		"config.json": []byte("{}"), "model.safetensors": []byte(large), "original/odd name#1.json": []byte("[]"),
	})
	server.Token = "hf_s3cret"
	h := &Hub{URL: server.URL}
	if _, err := h.Files(t.Context(), server.Repo, server.Commit); !errors.Is(err, ErrAccess) {
		t.Errorf("Files without a token: %v", err)
	}
	h.Token = server.Token
	got, err := h.Files(t.Context(), server.Repo, server.Commit)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(body)
		body.Close()
		if err != nil || string(b) != test.want || at != test.offset {
			t.Errorf("Open(%s, %d) = %q from %d, %v", test.path, test.offset, b, at, err)
		}
	}

	// A hub that knows no ranges sends the whole.
	server.Before = func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		io.WriteString(w, large)
		return true
	}
	body, at, err := h.Open(t.Context(), server.Repo, server.Commit, "model.safetensors", 5)
	if err != nil || at != 0 {
		t.Fatalf("Open = from %d, %v", at, err)
	}
	body.Close()
	if _, _, err := h.Open(t.Context(), server.Repo, server.Commit, "none", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("Open of a file that is not there: %v", err)
	}
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
