package testhost

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSlowKube asks what clusters are made of for its version.
func TestSlowKube(t *testing.T) {
	path, err := kube()
	OK(t, err)
	said, err := exec.Command(path, "kubectl", "version", "--client").Output()
	if err != nil || !strings.Contains(string(said), "v1.34.4") {
		t.Errorf("kubectl says %q, %v; want its version", said, err)
	}
	if said, err := exec.Command(path, "ghost").CombinedOutput(); err == nil || !strings.Contains(string(said), "apiserver, controller-manager, dns, gpus, kubectl,") {
		t.Errorf("an unknown part says %q, %v; want those that there are", said, err)
	}
}
