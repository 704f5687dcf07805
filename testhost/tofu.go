package testhost

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// tofuVersion is of OpenTofu.
const tofuVersion = "v1.12.6"

// Tofu is a directory with the program tofu, OpenTofu, which is built of its Go module by the first test that asks for it: four
// minutes of processor time, once.
func Tofu(t testing.TB) string {
	t.Helper()
	path, err := tofu()
	if err != nil {
		t.Fatalf("build OpenTofu %s: %v", tofuVersion, err)
	}
	return filepath.Dir(path)
}

var tofu = sync.OnceValues(func() (string, error) {
	path := filepath.Join(kubeCache, "tofu-"+tofuVersion+"-"+runtime.Version(), "tofu")
	return path, buildOnce(path, func() (b goBuild, err error) { // not by go install: its module replaces another one
		out, err := exec.Command("go", "mod", "download", "-json", "github.com/opentofu/opentofu@"+tofuVersion).Output()
		if err != nil {
			return b, fmt.Errorf("download its module: %w: %s", err, out)
		}
		var module struct{ Dir string }
		err = json.Unmarshal(out, &module)
		return goBuild{module.Dir, []string{"-ldflags=-s -w", "./cmd/tofu"}}, err
	})
})
