package pypi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/examples"
)

// TestPyPITells: what keeps an environment from being made is told with what to do. A version that is not there asks PyPI.
func TestPyPITells(t *testing.T) {
	for want, tried := range map[string]struct {
		script string
		room   float64
		env    []string
	}{
		"PyPI has no such version":  {examples.VLLMForCPU, 0, []string{"VERSION=9.9.9"}},
		"PyPI is not reached":       {examples.VLLMForCPU, 0, []string{"VERSION=0.32.0", "PIP_INDEX_URL=http://127.0.0.1:1/simple", "PIP_RETRIES=0"}},
		"remove versions there":     {sglangScript, 1e18, nil},
		"Install python3-venv":      {"echo 'ensurepip is not available'; exit 1", 0, nil},
		"broke off\nin the middle":  {"printf 'broke off\\nin the middle'; exit 1", 0, nil},
		"this kind of machine":      {"echo 'has no wheels with a matching platform tag'; exit 1", 0, nil},
		"by which proxy":            {"echo 'Failed to fetch'; exit 1", 0, nil},
		"no such version: pypi.org": {"echo 'there is no version of x'; exit 1", 0, nil},
	} {
		err := whole(t.TempDir(), tried.script, tried.room, tried.env)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := enough(1e6); err == nil || !strings.Contains(err.Error(), "1000000 real engines at once want") {
		t.Errorf("memory for a million engines: %v", err)
	}
}

// TestPyPIAnew: what was made by another recipe is made again, and what is whole is not.
func TestPyPIAnew(t *testing.T) {
	dir := t.TempDir()
	script := `echo made >> "$DIR/log"`
	for _, s := range []string{script, script, script + "; true"} {
		if err := whole(dir, s, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(got) != "made\nmade\n" {
		t.Errorf("%q, %v: want it made twice", got, err)
	}
}
