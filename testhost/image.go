package testhost

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/distribution/reference"
)

// PushEngine puts an image with the simulated engine under ref, a full name such as
// "vllm/vllm-openai:v0.7.3", "nvcr.io/nvidia/tensorrt-llm/release:1.0" or one that begins with
// [Host.Registry], and returns its digest, "sha256:…". The image is built FROM scratch; the
// engine is there under the names that the real images have: vllm, python3, trtllm-serve, and
// those of routers. env steers it, see the package documentation of testhost/engine; it is part
// of the image, and so of the digest. Equal content has an equal digest, in every test and process.
func (h *Host) PushEngine(t testing.TB, ref string, env map[string]string) (digest string) {
	t.Helper()
	return h.pushLayers(t, ref, env, engineLayer)
}

// PushEngine is that of [Host] with an image that has a real shell and its tools as well,
// BusyBox's: what runs in a pod is not started from outside alone.
func (c *Cluster) PushEngine(t testing.TB, ref string, env map[string]string) (digest string) {
	t.Helper()
	return c.Control.pushLayers(t, ref, env, engineLayer, shellLayer)
}

// PushBare puts an image under ref in which nothing is but what a program of this machine needs beside /usr.
func (h *Host) PushBare(t testing.TB, ref string) (digest string) {
	t.Helper()
	return h.pushLayers(t, ref, nil, bareLayer)
}

func (h *Host) pushLayers(t testing.TB, ref string, env map[string]string, makers ...func() (layer, error)) (digest string) {
	t.Helper()
	if h.images == nil {
		t.Fatalf("push %s: this test host was made without Options.Registry", ref)
	}
	var layers []layer
	for _, made := range makers {
		l, err := made()
		if err != nil {
			t.Fatalf("build image %s: %v", ref, err)
		}
		layers = append(layers, l)
	}
	name, repository, tag := parseRef(t, ref)
	digest, err := push(h.images.handler(name), repository, tag, imageConfig(name+"/"+repository, env), layers...)
	if err != nil {
		t.Fatalf("push %s: %v", ref, err)
	}
	return digest
}

// PushHuge puts an image under ref whose registry says that it has a layer of so many
// bytes, packed. It cannot be pulled.
func (h *Host) PushHuge(t testing.TB, ref string, size int64) {
	t.Helper()
	name, repository, tag := parseRef(t, ref)
	l := layer{compressed: []byte(ref), diffID: digestOf([]byte("unpacked " + ref)), size: size}
	if _, err := push(h.images.handler(name), repository, tag, imageConfig(ref, nil), l); err != nil {
		t.Fatalf("push %s: %v", ref, err)
	}
}

func parseRef(t testing.TB, ref string) (registry, repository, tag string) {
	t.Helper()
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		t.Fatalf("push %s: %v", ref, err)
	}
	tag = "latest"
	if tagged, ok := named.(reference.Tagged); ok {
		tag = tagged.Tag()
	}
	return registryName(reference.Domain(named)), reference.Path(named), tag
}

// runConfig is the part of an image's configuration that says how it is run.
type runConfig struct {
	Env        []string `json:"Env"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

// imageConfig gives an image the entry point and environment of the real one.
func imageConfig(name string, env map[string]string) runConfig {
	c := runConfig{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, WorkingDir: "/"}
	switch {
	case strings.Contains(name, "vllm-openai"):
		c.Entrypoint = []string{"python3", "-m", "vllm.entrypoints.openai.api_server"}
		c.WorkingDir = "/vllm-workspace"
	case strings.Contains(name, "sglang"), strings.Contains(name, "tensorrt-llm"):
		c.Entrypoint = []string{"/opt/nvidia/nvidia_entrypoint.sh"}
	case strings.Contains(name, "pause"):
		c.Entrypoint = []string{"/bin/pause"}
	}
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	slices.Sort(c.Env[1:])
	return c
}

type layer struct {
	compressed []byte
	diffID     string // of the tar archive
	size       int64  // of the compressed bytes, as the manifest has it
}

// engineLayer builds the layer with the engine once per process.
var engineLayer = sync.OnceValues(func() (layer, error) {
	path, err := build("engine", "./testhost/engine")
	if err != nil {
		return layer{}, err
	}
	links := map[string]string{}
	for _, name := range []string{
		"bin/sh", "usr/bin/python3", "usr/local/bin/trtllm-serve", "usr/local/bin/trtllm-bench",
		"usr/local/bin/vllm-router", "usr/local/bin/smg", "opt/nvidia/nvidia_entrypoint.sh",
		"usr/bin/ibv_rc_pingpong", "usr/bin/ib_write_bw", "bin/pause",
	} {
		links[name] = "/usr/local/bin/vllm"
	}
	return layerOf(path, "usr/local/bin/vllm", links,
		"bin/", "opt/", "opt/nvidia/", "root/", "usr/", "usr/bin/", "usr/local/", "usr/local/bin/", "vllm-workspace/", "tmp/")
})

// shellLayer makes the layer with BusyBox once per process, to be laid over that of the engine.
var shellLayer = sync.OnceValues(func() (layer, error) {
	path := tool("busybox")
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return layer{}, fmt.Errorf("list programs of BusyBox (package busybox-static; run scripts/prepare): %w", err)
	}
	links := map[string]string{}
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" {
			links["bin/"+name] = "/bin/busybox"
		}
	}
	return layerOf(path, "bin/busybox", links)
})

// bareLayer makes the layer once per process in which programs of this machine run, where its /usr is mounted. Docker
// puts a program of its own into /sbin.
var bareLayer = sync.OnceValues(func() (layer, error) {
	return layerOf("/etc/passwd", "etc/passwd", map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"},
		"etc/", "root/", "sbin/", "tmp/", "usr/", "var/", "var/tmp/")
})

// layerOf is the layer with a file of this machine at a place, in folders that are there or made before, and links.
// Nothing in it may differ from build to build: no times, no owners.
func layerOf(file, at string, links map[string]string, folders ...string) (layer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return layer{}, fmt.Errorf("read a file for an image: %w", err)
	}
	var files, compressed bytes.Buffer
	w := tar.NewWriter(&files)
	var errs []error
	add := func(h tar.Header) { errs = append(errs, w.WriteHeader(&h)) }
	for _, name := range folders {
		mode := int64(0o755)
		if strings.HasSuffix(name, "tmp/") {
			mode = 0o1777
		}
		add(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode})
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: at, Mode: 0o755, Size: int64(len(content))})
	_, err = w.Write(content)
	for _, name := range slices.Sorted(maps.Keys(links)) {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: links[name], Mode: 0o777})
	}
	errs = append(errs, err, w.Close())
	z, _ := gzip.NewWriterLevel(&compressed, gzip.BestSpeed) // there is this level
	_, err = z.Write(files.Bytes())
	err = errors.Join(append(errs, err, z.Close())...)
	return layer{compressed: compressed.Bytes(), diffID: digestOf(files.Bytes()), size: int64(compressed.Len())}, err
}

func digestOf(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// push stores an image in a registry and returns the digest of its manifest.
func push(r http.Handler, repository, tag string, run runConfig, layers ...layer) (string, error) {
	type object = map[string]any
	var contents []string
	var listed []object
	for _, l := range layers {
		contents = append(contents, l.diffID)
		listed = append(listed, object{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": l.size, "digest": digestOf(l.compressed)})
	}
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "created": "2025-03-01T00:00:00Z", "config": run,
		"rootfs": object{"type": "layers", "diff_ids": contents},
	})
	if err != nil {
		return "", fmt.Errorf("write configuration: %w", err)
	}
	const manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	manifest, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": object{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digestOf(config)},
		"layers": listed,
	})
	if err != nil {
		return "", fmt.Errorf("write manifest: %w", err)
	}
	put := func(method, path, mediaType string, body []byte) error {
		req := httptest.NewRequest(method, "/v2/"+repository+path, bytes.NewReader(body))
		req.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != http.StatusCreated {
			text, _ := io.ReadAll(w.Body)
			return fmt.Errorf("%s %s: status %d: %s", method, path, w.Code, text)
		}
		return nil
	}
	blobs := [][]byte{config}
	for _, l := range layers {
		blobs = append(blobs, l.compressed)
	}
	for _, blob := range blobs {
		if err := put(http.MethodPost, "/blobs/uploads/?digest="+digestOf(blob), "application/octet-stream", blob); err != nil {
			return "", err
		}
	}
	if err := put(http.MethodPut, "/manifests/"+tag, manifestType, manifest); err != nil {
		return "", err
	}
	return digestOf(manifest), nil
}

// HCL returns the path of the hcl binary, built from this tree once per test process.
func HCL(t testing.TB) string {
	t.Helper()
	path, err := buildHCL()
	if err != nil {
		t.Fatalf("build hcl: %v", err)
	}
	return path
}

// Plugin builds the program hcl-rent-NAME of this tree, where [HCL] finds it: beside itself.
func Plugin(t testing.TB, name string) {
	t.Helper()
	if _, err := build("hcl-rent-"+name, "./plugins/hcl-rent-"+name); err != nil {
		t.Fatalf("build hcl-rent-%s: %v", name, err)
	}
}

var buildHCL = sync.OnceValues(func() (string, error) { return build("hcl", "./cmd/hcl") })

var built = sync.OnceValues(newDir)

// build compiles a program of this module as it is shipped: static, and equal from equal sources.
func build(name, pkg string) (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", path, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return path, run(cmd)
}

// moduleRoot is the folder with our go.mod.
func moduleRoot() (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(mod))), nil
}

// removeBuilt removes what this process has built, if anything.
func removeBuilt() error {
	dir, err := built()
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
