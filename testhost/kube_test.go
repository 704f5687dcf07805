package testhost

import (
	"os/exec"
	"strings"
	"testing"
)

// TestKube builds what clusters are made of where it is not there. `make test` runs it
// before all others: minutes of compiling would make them wait.
func TestKube(t *testing.T) {
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
