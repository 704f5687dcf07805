package testhost

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Hub is a model hub that speaks as Hugging Face's does, with one model.
type Hub struct {
	URL    string
	Repo   string // "org/model"
	Commit string // what main is

	files  map[string][]byte
	mu     sync.Mutex
	token  string
	before func(w http.ResponseWriter, r *http.Request, file string) (answered bool)
	asked  []string
}

// Require has the hub give nothing to those without a token; empty: to everybody.
func (h *Hub) Require(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token = token
}

// Before has the hub ask before a file is sent: what is answered is not sent again. It
// is asked in the request's goroutine.
func (h *Hub) Before(ask func(w http.ResponseWriter, r *http.Request, file string) (answered bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = ask
}

// LargeFile is the size from which on the hub keeps a file by its SHA-256.
const LargeFile = 10_000

// NewHub serves a model with those files, by name, on an address "IP:0".
func NewHub(t testing.TB, addr string, files map[string][]byte) *Hub {
	t.Helper()
	h := &Hub{Repo: "org/model", Commit: strings.Repeat("c0ffee00", 5), files: files}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	h.URL = server.URL
	return h
}

// Asked are the files that were asked for since the last call, in order, with the
// offset where there was one: "model.safetensors@4096".
func (h *Hub) Asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

// Sum is the checksum by which the hub knows a file.
func (h *Hub) Sum(name string) string {
	b := h.files[name]
	if len(b) >= LargeFile {
		sum := sha256.Sum256(b)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...))
	return hex.EncodeToString(sum[:])
}

func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	token := h.token
	h.mu.Unlock()
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch path := r.URL.Path; {
	case path == "/api/models/"+h.Repo+"/revision/main":
		json.NewEncoder(w).Encode(map[string]any{"id": h.Repo, "sha": h.Commit})
	case path == "/api/models/"+h.Repo+"/tree/"+h.Commit:
		h.tree(w, r)
	case strings.HasPrefix(path, "/"+h.Repo+"/resolve/"+h.Commit+"/"):
		h.file(w, r, strings.TrimPrefix(path, "/"+h.Repo+"/resolve/"+h.Commit+"/"))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (h *Hub) tree(w http.ResponseWriter, r *http.Request) {
	const page = 2
	names := slices.Sorted(maps.Keys(h.files))
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	to := min(from+page, len(names))
	list := []map[string]any{{"type": "directory", "path": "a folder", "oid": "0", "size": 0}}
	for _, name := range names[from:to] {
		f := map[string]any{"type": "file", "path": name, "size": len(h.files[name]), "oid": h.Sum(name)}
		if len(h.files[name]) >= LargeFile {
			f["oid"], f["lfs"] = strings.Repeat("0", 40), map[string]any{"oid": h.Sum(name), "size": len(h.files[name])}
		}
		list = append(list, f)
	}
	if to < len(names) {
		w.Header().Set("Link", fmt.Sprintf("<https://hub.example%s?recursive=true&cursor=%d>; rel=\"next\"", r.URL.Path, to))
	}
	json.NewEncoder(w).Encode(list)
}

func (h *Hub) file(w http.ResponseWriter, r *http.Request, name string) {
	b, there := h.files[name]
	if !there {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	asked := name
	if offset, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		asked += "@" + strings.TrimSuffix(offset, "-")
	}
	h.mu.Lock()
	h.asked = append(h.asked, asked)
	before := h.before
	h.mu.Unlock()
	if before != nil && before(w, r, name) {
		return
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(b)))
}
