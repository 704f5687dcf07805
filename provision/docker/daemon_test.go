package docker

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"hclbench/provision"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// TestDockerHangs is a daemon that takes the question and does not answer.
func TestDockerHangs(t *testing.T) {
	h := testhost.New(t, testhost.Options{})
	silent, err := net.Listen("unix", filepath.Join(h.Home, "silent.sock"))
	testhost.OK(t, err)
	defer silent.Close()
	host := reachtest.Block(h)
	host.Docker = "/root/silent.sock"
	c := New(reachtest.Dial(t, host, reachtest.Strict(h)), nil)
	c.answer = time.Second
	_, err = c.Version(t.Context())
	testhost.WantError(t, err, provision.ErrDockerAway, "host h200", "has not answered for 1s")
	_, err = c.List(t.Context(), map[string]string{provision.LabelLab: "x"})
	testhost.WantError(t, err, provision.ErrNoDocker, "has not answered for 1s")
}
