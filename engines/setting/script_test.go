package setting

import (
	"os/exec"
	"slices"
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

// TestPyPIScript: scripts/settings.py knows which options take no word, and says which it cannot read.
func TestPyPIScript(t *testing.T) {
	const reads = `
import io, sys, zipfile
sys.path.insert(0, "../../scripts")
sys.dont_write_bytecode = True
import settings
wheel = zipfile.ZipFile(io.BytesIO(), "w")
wheel.writestr("vllm_router/router_args.py", """
def add_cli_args(parser, name):
    parser.add_argument("--on", action="store_true")
    parser.add_argument("--off", action="store_false")
    parser.add_argument("-v", "--loud", action="count", default=0)
    parser.add_argument("--old", action=Gone, nargs=0)
    parser.add_argument("--three", action="store_const", const=3)
    parser.add_argument("--many", nargs="+", type=int)
    parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--last", type=float)
""")
for o in settings.options(settings.Source(wheel, "vllm-router"), "vllm-router"):
    print(*o["names"], o["type"], o["default"])
`
	cmd := exec.CommandContext(t.Context(), "python3", "-c", reads)
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.Output()
	want := []string{"on switch false", "off switch true", "loud -v switch 0", "old switch -", "three switch -", "many int+ -", "last float -"}
	if got := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: %q, want %q", err, got, want)
	}
	if !strings.Contains(told.String(), `add_argument(f'--{name}', type=int)`) || strings.Count(told.String(), "\n") != 1 {
		t.Errorf("of the option whose name is no constant it says: %s", told.String())
	}
}
