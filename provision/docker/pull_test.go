package docker

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/origin"
	"hclbench/provision"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

func TestPull(t *testing.T) {
	h, c := dockerHost(t, "")
	digest := h.PushEngine(t, image, nil)
	if v, err := c.Version(t.Context()); err != nil || !strings.Contains(v, ".") {
		t.Fatalf("DockerVersion = %q, %v", v, err)
	}

	var seen []provision.PullProgress
	got, err := c.Images.Pull(t.Context(), image, func(p provision.PullProgress) { seen = append(seen, p) })
	testhost.OK(t, err)
	want := provision.Image{Ref: image, Digest: digest, Entrypoint: []string{"python3", "-m", "vllm.entrypoints.openai.api_server"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(provision.Image{}, "ID", "Size")); diff != "" {
		t.Errorf("Pull (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(got.ID, "sha256:") || got.Size < 1<<20 {
		t.Errorf("Pull: ID %q, %d bytes", got.ID, got.Size)
	}
	if len(seen) == 0 {
		t.Fatal("no progress")
	}
	for i, p := range seen {
		if p.Bytes > p.Total || i > 0 && p.Bytes < seen[i-1].Bytes {
			t.Errorf("progress %d: %+v", i, p)
		}
	}
	last := seen[len(seen)-1]
	if last.Bytes == 0 || last.Bytes != last.Total || last.Layers != 1 || last.Done != 1 || last.Phase != "unpacking" {
		t.Errorf("last progress = %+v, want all bytes and the one layer", last)
	}

	// By digest, and with a tag beside it; what is there is not asked about.
	asked := len(h.RegistryRequests())
	for _, ref := range []string{"vllm/vllm-openai@" + digest, image + "@" + digest} {
		pinned := mustPull(t, c, ref)
		if pinned.ID != got.ID || pinned.Digest != digest || pinned.Ref != ref {
			t.Errorf("Pull(%s) = %+v", ref, pinned)
		}
	}
	if now := h.RegistryRequests(); len(now) != asked {
		t.Errorf("asked the registry about a pinned image that is there: %v", now[asked:])
	}
	other := h.PushEngine(t, "nvcr.io/nvidia/tensorrt-llm/release:1.0", nil)
	if got := mustPull(t, c, "nvcr.io/nvidia/tensorrt-llm/release@"+other); got.Digest != other {
		t.Errorf("Pull by digest = %+v, want %s", got, other)
	}
	plain := h.PushEngine(t, h.Registry+"/mine:1", map[string]string{"N": "1"})
	if got := mustPull(t, c, h.Registry+"/mine:1"); got.Digest != plain {
		t.Errorf("Pull from a registry with a port = %+v, want %s", got, plain)
	}

	// How large an image is, its registry says before anything is pulled.
	c.Images.registries = &origin.Registries{Client: origin.Client{HTTP: h.RegistryClient()}}
	h.PushHuge(t, "vllm/vllm-openai:huge", 1<<50)
	_, err = c.Images.Pull(t.Context(), "vllm/vllm-openai:huge", nil)
	testhost.WantError(t, err, errDiskFull, "host h200 (lab.hcl:12)",
		"vllm/vllm-openai:huge has layers of 1125899.9 GB still to come, which unpack to 2251799.8 GB at least", "docker image prune")
	h.PushEngine(t, "vllm/vllm-openai:other", map[string]string{"N": "other"})
	for ref, want := range map[string]provision.ImageRoom{image: {There: true}, "vllm/vllm-openai@" + digest: {There: true}, "vllm/vllm-openai:other": {Path: "there"}} {
		got, err := c.Images.Room(t.Context(), ref)
		if got.Free > 0 && got.Path != "" {
			got.Free, got.Path = 0, "there"
		}
		if err != nil || got != want {
			t.Errorf("ImageRoom(%s) = %+v, %v; want %+v", ref, got, err, want)
		}
	}
	_, err = c.Images.Room(t.Context(), "vllm/vllm-openai:absent")
	testhost.WantError(t, err, origin.ErrNotFound)
	c.Images.registries = nil

	// A tag that moves is followed, until the registry cannot be asked.
	moved := h.PushEngine(t, image, map[string]string{"N": "2"})
	if got := mustPull(t, c, image); got.Digest != moved || got.Local {
		t.Errorf("Pull of a tag that has moved = %+v, want %s", got, moved)
	}
	h.PushEngine(t, image, map[string]string{"N": "3"})
	c.Images.pause = 1
	h.RegistryAway(true)
	if got := mustPull(t, c, image); got.Digest != moved || !got.Local {
		t.Errorf("Pull with the registry away = %+v, want %s and Local", got, moved)
	}
	_, err = c.Images.Pull(t.Context(), "vllm/vllm-openai:absent", nil)
	if err == nil || errors.Is(err, provision.ErrImageNotFound) || errors.Is(err, provision.ErrUnreachable) {
		t.Errorf("Pull of an image that is not there, registry away = %v, want an error of no kind", err)
	}
	h.RegistryAway(false)

	for _, ref := range []string{"vllm/vllm-openai:absent", "nvcr.io/nobody/nothing:1", "vllm/vllm-openai@sha256:" + strings.Repeat("0", 64)} {
		_, err := c.Images.Pull(t.Context(), ref, nil)
		testhost.WantError(t, err, provision.ErrImageNotFound, "host h200 (lab.hcl:12)", ref, "check its name")
	}
	h.DenyImage(t, "vllm/private:1")
	_, err = c.Images.Pull(t.Context(), "vllm/private:1", nil)
	testhost.WantError(t, err, errRegistryAuth, "docker login docker.io")

	// Built on the host, and in no registry.
	reachtest.Run(t, c.conn, "docker tag "+image+" homemade:1")
	if got := mustPull(t, c, "homemade:1"); !got.Local || got.Digest != "" {
		t.Errorf("Pull of an image built on the host = %+v, want it as it is", got)
	}
}

// TestPullStalls shows that only silence ends a pull, and that one whose connection is lost goes on.
func TestPullStalls(t *testing.T) {
	h, c := dockerHost(t, "")
	digest := h.PushEngine(t, image, nil)
	h.SlowRegistry(1)
	c.Images.stall, c.Images.pause = 300*time.Millisecond, 1
	again := 0
	_, err := c.Images.Pull(t.Context(), image, func(p provision.PullProgress) {
		if p.Phase == "trying again" {
			again++
		}
	})
	if err == nil || !strings.Contains(err.Error(), "nothing has moved for 300ms") || again != pullTries-1 {
		t.Errorf("Pull that stalls = %v after trying again %d times", err, again)
	}
	got, err := c.Images.Pull(t.Context(), image, func(p provision.PullProgress) {
		if p.Phase == "trying again" {
			h.SlowRegistry(0)
			c.Images.stall = pullStall // on a busy machine the daemon alone may be silent for longer than that
		}
	})
	if err != nil || got.Digest != digest {
		t.Errorf("Pull that stalls once = %+v, %v", got, err)
	}
	reachtest.Run(t, c.conn, "docker rmi "+image)
	h.SlowRegistry(1)

	ctx, cancel := context.WithCancel(t.Context())
	began := sync.OnceFunc(cancel)
	_, err = c.Images.Pull(ctx, image, func(provision.PullProgress) { began() })
	testhost.WantError(t, err, context.Canceled)

	cut := sync.OnceFunc(func() {
		h.SlowRegistry(0)
		h.Cut()
	})
	got, err = c.Images.Pull(t.Context(), image, func(provision.PullProgress) { cut() })
	if err != nil || got.Digest != digest {
		t.Errorf("Pull over a connection that is cut = %+v, %v", got, err)
	}
}

// TestRegistryLogin shows that what `docker login` left on the host is used.
func TestRegistryLogin(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	c := connect(t, h)
	login := func(name string) string {
		t.Helper()
		header, err := c.Images.registryAuth(t.Context(), name)
		if err != nil {
			t.Fatalf("registryAuth(%s): %v", name, err)
		}
		text, err := base64.URLEncoding.DecodeString(header)
		testhost.OK(t, err)
		return string(text)
	}
	if got := login("nvcr.io"); got != "" {
		t.Errorf("login without a file = %q", got)
	}
	testhost.OK(t, os.Mkdir(filepath.Join(h.Home, ".docker"), 0o700))
	const config = `{
		"auths": {"nvcr.io": {"auth": "JG9hdXRodG9rZW46azp5"}, "https://index.docker.io/v1/": {"auth": "bWU6cHc="}, "helped.example": {}},
		"credHelpers": {"helped.example": "test", "unknown.example": "test"}
	}`
	testhost.OK(t, os.WriteFile(filepath.Join(h.Home, ".docker", "config.json"), []byte(config), 0o600))
	testhost.OK(t, h.Install("docker-credential-test", "#!/bin/sh\nread -r registry\n[ \"$registry\" = helped.example ] && echo '{\"Username\":\"<token>\",\"Secret\":\"t0ken\"}'\n"))
	for name, want := range map[string]string{
		"nvcr.io":         `{"username":"$oauthtoken","password":"k:y","serveraddress":"nvcr.io"}`,
		"docker.io":       `{"username":"me","password":"pw","serveraddress":"https://index.docker.io/v1/"}`,
		"helped.example":  `{"serveraddress":"helped.example","identitytoken":"t0ken"}`,
		"unknown.example": "",
		"ghcr.io":         "",
	} {
		if got := login(name); got != want {
			t.Errorf("login for %s = %s, want %s", name, got, want)
		}
	}
}
