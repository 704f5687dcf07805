package origin

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Mirror serves one image to whoever cannot reach its registry, as a registry
// would: what it is asked for, it asks for, with the login that it has. It hands
// out what is named by digest in this one repository, and only under a name that
// cannot be guessed.
type Mirror struct {
	Digest string // of the image's manifest, "sha256:…"
	Name   string // of the repository here

	repo *repository
}

// Mirror asks an image's registry what it is today, and returns what serves it.
// Errors are those of [Registries.Digest].
func (r *Registries) Mirror(ctx context.Context, image string) (*Mirror, error) {
	repo, err := r.repository(ctx, image)
	if err != nil {
		return nil, err
	}
	digest, err := repo.digest(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s for %s: %w", repo.ref.Registry, image, err)
	}
	return &Mirror{Digest: digest, Name: strings.ToLower(rand.Text()) + "/" + repo.ref.Repository, repo: repo}, nil
}

// passed are the headers that mean the same on both sides.
var passed = []string{"Accept", "Range"}
var returned = []string{"Accept-Ranges", "Content-Length", "Content-Range", "Content-Type", "Docker-Content-Digest"}

func (m *Mirror) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if req.URL.Path == "/v2/" {
		return
	}
	path, ours := strings.CutPrefix(req.URL.Path, "/v2/"+m.Name+"/")
	kind, digest, _ := strings.Cut(path, "/")
	if !ours || kind != "manifests" && kind != "blobs" || !digestForm.MatchString(digest) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	header := http.Header{}
	for _, name := range passed {
		if values := req.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	resp, err := m.repo.ask(req.Context(), req.Method, path, header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for _, name := range returned {
		if value := resp.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // or what is cut off would look whole
	}
}
