package setting

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPyPITold: what keeps scripts/settings.py from reading a release is told, and no table is written.
func TestPyPITold(t *testing.T) {
	for want, args := range map[string][]string{
		"PyPI has no wheel of vllm 9.9.9":              {"vllm", "9.9.9"},
		"invalid Version value: 'newest'":              {"vllm", "newest"},
		"spans of versions grow at their ends only":    {"vllm-router", "0.1.9"},
		"PyPI is not reached: say by which proxy":      {"vllm", "9.9.9", "PIP_INDEX_URL=http://127.0.0.1:1/simple", "PIP_RETRIES=0"},
		"PyPI has no wheel of sglang-router 0.1.99999": {"sglang-router", "0.1.99999"},
	} {
		cmd := exec.CommandContext(t.Context(), "python3", append([]string{"../../scripts/settings.py"}, args[:2]...)...)
		cmd.Env = append(cmd.Environ(), args[2:]...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, want %q:\n%s", args, err, want, out)
		}
	}
}
