package testhost

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// kubeCache keeps what is built for clusters, for every test and every checkout. It is not
// below the home directory, which a host has of its own.
const kubeCache = "/var/cache/hclbench-test"

// kube is the path of the program that clusters are made of (see testhost/kube), built when it
// was never built from these sources by this Go: minutes, against none from then on.
var kube = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	source := filepath.Join(root, "testhost", "kube")
	version, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("ask for Go's version: %w", err)
	}
	hash := sha256.New()
	hash.Write(version)
	files, _ := filepath.Glob(filepath.Join(source, "*"))
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(path), len(text), text)
	}
	path := filepath.Join(kubeCache, fmt.Sprintf("%x", hash.Sum(nil)[:8]), "kube")
	return path, buildOnce(path, func() (goBuild, error) { return kubeBuild(source) })
})

// kubeBuild is the build of that program, which says Kubernetes' version as Kubernetes' own does: clients go by it.
func kubeBuild(source string) (b goBuild, err error) {
	module := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	module.Dir = source
	version, err := module.Output()
	if err != nil {
		return b, fmt.Errorf("ask for Kubernetes' version: %w", err)
	}
	flags, numbers := "-ldflags=-s -w", strings.Split(strings.TrimSpace(string(version)), ".")
	for _, set := range []string{"gitVersion=" + strings.Join(numbers, "."), "gitMajor=" + numbers[0][1:], "gitMinor=" + numbers[1]} {
		flags += " -X k8s.io/component-base/version." + set
	}
	return goBuild{source, []string{flags, "."}}, nil
}

// goBuild is what a program is built of: a directory in its module, and what is for this program alone of go build's arguments.
type goBuild struct {
	dir   string
	flags []string
}

// buildOnce builds a program where it is not there. Who comes meanwhile waits.
func buildOnce(path string, of func() (goBuild, error)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	lock, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	what, err := of()
	if err != nil {
		return err
	}
	// Compiling takes a third less when nothing is inlined and nothing is for debuggers, and when
	// compilers collect garbage only where it matters; the cluster is about as fast.
	// Tests that need no cluster run meanwhile, and some of them measure time.
	cmd := exec.Command("nice", append([]string{"go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-l -dwarf=false", "-gcflags=std=",
		"-o", path + ".new"}, what.flags...)...)
	cmd.Dir = what.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOGC=off", "GOMEMLIMIT=1GiB")
	if err := run(cmd); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
