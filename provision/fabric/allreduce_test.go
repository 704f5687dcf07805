package fabric

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/testhost"
)

// TestAllReduceWithoutGPU: where PyTorch sees no GPU nothing is measured, least of all the CPU.
func TestAllReduceWithoutGPU(t *testing.T) {
	python, err := exec.LookPath("python3")
	testhost.OK(t, err)
	for built, version := range map[string]string{
		"CUDA 12.4": `cuda, hip = "12.4", None`, "ROCm 6.4": `cuda, hip = None, "6.4"`,
		"neither CUDA nor ROCm": "cuda, hip = None, None",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"torch/__init__.py": "float32 = 0\nclass version: " + version + "\nclass cuda:\n" +
				"    is_available = staticmethod(lambda: False)\ndef device(*_): pass\n",
			"torch/distributed.py": "def init_process_group(*_, **__): raise SystemExit('it measures')\n",
		} {
			at := filepath.Join(dir, name)
			testhost.OK(t, os.MkdirAll(filepath.Dir(at), 0o755))
			testhost.OK(t, os.WriteFile(at, []byte(text), 0o644))
		}
		cmd := exec.CommandContext(t.Context(), python, "-c", allReduce, "1", "1", "0", "127.0.0.1:1", "8", "0")
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
		said, err := cmd.CombinedOutput()
		if want := "PyTorch sees no GPU: it is built for " + built; err == nil || strings.TrimSpace(string(said)) != want {
			t.Errorf("%v, it says %q, want %q", err, said, want)
		}
	}
}
