package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// names serves a registry and a model hub from files: DIR/images/NAME/TAG is a
// manifest, DIR/models/REPO/REVISION a commit. A script moves a tag by writing
// the file, and takes the network away by removing DIR.
func names(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: names VAR DIR")
	}
	dir := ts.MkAbs(args[1])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(path ...string) ([]byte, bool) {
			if _, err := os.Stat(dir); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return nil, false
			}
			b, err := os.ReadFile(filepath.Join(append([]string{dir}, path...)...))
			if err != nil {
				w.WriteHeader(http.StatusNotFound)
			}
			return b, err == nil
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v2/"); ok {
			name, tag, _ := strings.Cut(rest, "/manifests/")
			if b, ok := answer("images", name, tag); ok {
				w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(b)))
			}
			return
		}
		rest := strings.TrimPrefix(r.URL.Path, "/api/models/")
		repo, revision, _ := strings.Cut(rest, "/revision/")
		if b, ok := answer("models", repo, revision); ok {
			json.NewEncoder(w).Encode(map[string]string{"sha": strings.TrimSpace(string(b))})
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], strings.TrimPrefix(server.URL, "http://"))
}
