package testhost

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// HCL returns the path of the hcl binary, built from this tree once per test
// process.
func HCL(t testing.TB) string {
	t.Helper()
	path, err := buildHCL()
	if err != nil {
		t.Fatalf("build hcl: %v", err)
	}
	return path
}

var buildHCL = sync.OnceValues(func() (string, error) { return build("hcl", "./cmd/hcl") })

var built = sync.OnceValues(newDir)

// build compiles a program of this module as it is shipped: static, and equal
// from equal sources.
func build(name, pkg string) (string, error) {
	dir, err := built()
	if err != nil {
		return "", err
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", path, pkg)
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(mod)))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return path, run(cmd)
}

// removeBuilt removes what this process has built, if anything.
func removeBuilt() error {
	dir, err := built()
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}
