package docker

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/origin"
	"hclbench/provision"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// callersRegistries are the registries behind a host, asked with a login for
// Docker Hub; "" has none.
func callersRegistries(t *testing.T, h *testhost.Host, login string) *origin.Registries {
	t.Helper()
	r := &origin.Registries{Client: origin.Client{HTTP: h.RegistryClient()}}
	if login != "" {
		dir := t.TempDir()
		config := fmt.Sprintf(`{"auths":{"https://index.docker.io/v1/":{"auth":%q}}}`, base64.StdEncoding.EncodeToString([]byte(login)))
		testhost.OK(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		r.Logins = origin.LocalLogins(dir)
	}
	return r
}

// TestPrivateRegistry shows that a login of the caller lets a host pull, and is
// nowhere on it afterwards.
func TestPrivateRegistry(t *testing.T) {
	h, c := dockerHost(t, "")
	digest := h.PushEngine(t, image, nil)
	const canary = "canary-7f3a"
	h.RequireLogin("docker.io", "ada", canary)
	_, err := c.Images.Pull(t.Context(), image, nil)
	testhost.WantError(t, err, errRegistryAuth, "docker login docker.io", "here or on the host")
	c.Images.registries = callersRegistries(t, h, "ada:wrong")
	if _, err := c.Images.Pull(t.Context(), image, nil); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("Pull with a wrong password = %v, want an error without it", err)
	}
	c.Images.registries = callersRegistries(t, h, "ada:"+canary)
	if got := mustPull(t, c, image); got.Digest != digest {
		t.Errorf("Pull = %+v, want %s", got, digest)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("ada:" + canary))
	found := reachtest.Run(t, c.conn,
		"grep -rlE '"+canary+"|"+encoded+"' /root "+h.Dir+"/dockerd.log "+h.Dir+"/docker/image 2>/dev/null || true")
	if found != "" {
		t.Errorf("the login is in %s", found)
	}
}

// TestPullThroughCaller shows that a host without a way out gets what the registry
// has, and of a later image only the layers that it lacks.
func TestPullThroughCaller(t *testing.T) {
	h := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, NoWayOut: true})
	c := connect(t, h)
	c.Images.pause = 1
	first := h.PushEngine(t, image, nil)
	h.RequireLogin("docker.io", "ada", "s3cret")
	if _, err := c.Images.Pull(t.Context(), image, nil); err == nil {
		t.Fatal("the host reaches the registry: the test shows nothing")
	}

	c.host.ImageFrom = provision.FromCaller
	_, err := c.Images.Pull(t.Context(), image, nil)
	testhost.WantError(t, err, provision.ErrImageNotFound, "asks no registries")
	c.Images.registries = callersRegistries(t, h, "")
	_, err = c.Images.Pull(t.Context(), image, nil)
	testhost.WantError(t, err, errRegistryAuth, "docker login")
	c.Images.registries = callersRegistries(t, h, "ada:s3cret")
	h.CutLayers(2) // the daemon, or else the pull, goes on
	var last provision.PullProgress
	got, err := c.Images.Pull(t.Context(), image, func(p provision.PullProgress) { last = p })
	testhost.OK(t, err)
	if got.Digest != first || got.Ref != image || got.Size < 1<<20 || last.Done != 1 || last.Bytes == 0 {
		t.Errorf("Pull = %+v with progress %+v, want %s and the one layer", got, last, first)
	}
	if names := reachtest.Run(t, c.conn, "docker images --format '{{.Repository}}:{{.Tag}}' | sort"); names != kept(first).String()+"\n"+image+"\n" {
		t.Errorf("images there:\n%s", names)
	}

	layers := func() (n int) {
		for _, asked := range h.RegistryRequests() {
			if strings.HasPrefix(asked, "GET ") && strings.Contains(asked, "/blobs/") {
				n++
			}
		}
		return n
	}
	before := layers()
	second := h.PushEngine(t, image, map[string]string{"N": "2"})
	if got := mustPull(t, c, image); got.Digest != second {
		t.Errorf("Pull of a tag that has moved = %+v, want %s", got, second)
	}
	if n := layers() - before; n != 1 { // the configuration; the layer is there
		t.Errorf("%d blobs travelled for an image with the same layer", n)
	}
	asked := len(h.RegistryRequests())
	if got := mustPull(t, c, image+"@"+first); got.Digest != first || got.Local {
		t.Errorf("Pull of a pinned image that is there = %+v", got)
	}
	if now := h.RegistryRequests(); len(now) != asked {
		t.Errorf("asked about it: %v", now[asked:])
	}

	_, err = c.Images.Pull(t.Context(), "vllm/vllm-openai:absent", nil)
	testhost.WantError(t, err, provision.ErrImageNotFound, "check the image's name")
	h.RegistryAway(true)
	if got := mustPull(t, c, image); got.Digest != second || !got.Local {
		t.Errorf("Pull with the registry away = %+v, want %s and Local", got, second)
	}
	if _, err := c.Images.Pull(t.Context(), "vllm/vllm-openai@sha256:"+strings.Repeat("0", 64), nil); err == nil || !strings.Contains(err.Error(), "from here, as image_from says") {
		t.Errorf("Pull of what is not there = %v", err)
	}
}
