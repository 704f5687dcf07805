package apply_test

import (
	"fmt"
	"strings"
	"testing"

	"hclbench/apply"
	"hclbench/testhost"
)

// TestBuild: what is built once is used again; a build that fails says what it
// said, and leaves nothing that looks whole.
func TestBuild(t *testing.T) {
	host := testhost.New(t, testhost.Options{Docker: true, Registry: true, Namespace: true, GPU: "8xH200"})
	b := newBench(t, host)
	host.PushEngine(t, "nvcr.io/nvidia/tensorrt-llm/release:0.17.0", map[string]string{"ENGINE_TTFT": "5ms", "ENGINE_ITL": "1ms"})
	// lab builds by a command first, and has a cell of so many output tokens.
	lab := func(first string, tokens int) string {
		return box + onBox("trtllm", "box", "nvcr.io/nvidia/tensorrt-llm/release:0.17.0", fmt.Sprintf(`setup = ["echo serving"]
  build {
    commands = ["echo [TRT-LLM] converting", %q, "trtllm-build --checkpoint_dir /tmp/c --output_dir /build/r1"]
    output   = "/build/r1"
  }`, first)) + measuring(fmt.Sprintf("output_tokens = [%d]", tokens), "engine.trtllm.box", "output_tokens = matrix.output_tokens")
	}
	builds := func() string {
		out, err := host.Command("sh", "-c", "cd "+host.Home+"/.cache/hcl/builds && find . -mindepth 1").CombinedOutput()
		if err != nil {
			t.Fatalf("list the builds: %s, %v", out, err)
		}
		return string(out)
	}

	r := b.apply(t.Context(), lab("fail no space left in the workspace", 4), nil)
	if r.err != nil || r.Void != 1 {
		t.Fatalf("a failed build: outcome %+v, %v", r.Outcome, r.err)
	}
	for _, want := range []string{"the build: exited with code 1", "[TRT-LLM] converting", "no space left in the workspace"} {
		if !strings.Contains(r.rows[0].Error, want) {
			t.Errorf("the error lacks %q:\n%s", want, r.rows[0].Error)
		}
	}
	if list := strings.Fields(builds()); len(list) != 1 || !strings.HasSuffix(list[0], ".part") {
		t.Errorf("a failed build leaves %v", list)
	}

	for i, again := range []bool{false, true} {
		r = b.apply(t.Context(), lab("echo [TRT-LLM] compiling", 4+i), nil)
		if r.err != nil || r.Valid+r.Suspect != 1 {
			t.Fatalf("outcome %+v, %v, %v", r.Outcome, r.err, r.events)
		}
		if built, there := r.has(apply.Step, "built in"), r.has(apply.Step, "what is built is there"); built == again || there != again {
			t.Errorf("again: %v, but built %v, there %v", again, built, there)
		}
	}
	if list := builds(); strings.Count(list, "rank0.engine") != 1 {
		t.Errorf("the builds are:\n%s", list)
	}
	b.clean()
}
