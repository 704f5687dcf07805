package engines

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
)

func compiled() *Engine {
	return &Engine{
		Kind: TRTLLM, Name: "e", Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
		Placement: On(&provision.Host{Name: "h", GPUs: provision.GPUs{Count: 8, Model: "H200", Vendor: provision.NVIDIA}}),
		Model:     &Model{Name: "m", Repo: "org/model", Revision: "abc", Cache: "/data"},
		Env:       []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("canary")}},
		Build:     &Build{Commands: []string{"convert", "trtllm-build --output_dir /build/m"}, Output: "/build/m"},
	}
}

// TestBuild: the build writes where the server reads, and the server serves what
// was built.
func TestBuild(t *testing.T) {
	e := compiled()
	b, output, ok := BuildContainer(e)
	if !ok {
		t.Fatal("no container for the build")
	}
	var argv []string
	for _, w := range append(b.Entrypoint, b.Command...) {
		argv = append(argv, w.String())
	}
	if diff := cmp.Diff([]string{"/bin/sh", "-c", "set -e\nfind '/build/m' -mindepth 1 -delete\nconvert\ntrtllm-build --output_dir /build/m"}, argv); diff != "" {
		t.Errorf("command of the build (-want +got):\n%s", diff)
	}
	kept, read := b.Mounts[len(b.Mounts)-1], Container(e).Mounts[1]
	if kept.Source != output+".part" || read.Source != output || kept.Target != "/build/m" || read.Target != "/build/m" || kept.ReadOnly || !read.ReadOnly {
		t.Errorf("the build writes %+v, and the server reads %+v", kept, read)
	}
	if b.GPUs != -1 || b.Image != e.Image || len(b.Env) != len(Container(e).Env) {
		t.Errorf("the build's container is %+v", b)
	}
	var words []string
	for _, w := range Container(e).Command {
		words = append(words, w.String())
	}
	if got, want := strings.Join(words, " "), "/build/m --host 127.0.0.1 --port 8000"; got != want {
		t.Errorf("the server's arguments are %q, want %q", got, want)
	}
	if got, want := ServedModel(e), "m"; got != want {
		t.Errorf("ServedModel = %q, want %q", got, want)
	}
	if _, _, ok := BuildContainer(&Engine{Kind: VLLM}); ok {
		t.Error("an engine without a build has a container for it")
	}
}

// TestBuildIsKept: the output has another place as soon as what goes into it
// changes, and only then.
func TestBuildIsKept(t *testing.T) {
	place := func(e *Engine) string { return e.Build.mount(e).Source }
	first := place(compiled())
	if !strings.HasPrefix(first, "~/.cache/hcl/builds/") {
		t.Errorf("the output is kept in %s", first)
	}
	for name, c := range map[string]struct {
		change func(*Engine)
		moves  bool
	}{
		"nothing":    {func(*Engine) {}, false},
		"a command":  {func(e *Engine) { e.Build.Commands[1] += " --fast" }, true},
		"an input":   {func(e *Engine) { e.Build.Inputs = []string{"patch"} }, true},
		"the image":  {func(e *Engine) { e.Image += "-1" }, true},
		"its image":  {func(e *Engine) { e.Build.Image = "builder:1" }, true},
		"the model":  {func(e *Engine) { e.Model.Revision = "def" }, true},
		"the GPUs":   {func(e *Engine) { e.Host().GPUs.Model = "B200" }, true},
		"a variable": {func(e *Engine) { e.Env = nil }, true},
		"the token":  {func(e *Engine) { e.Env[0].Value = provision.Secret("another") }, false},
		"the flags":  {func(e *Engine) { e.Flags = flagsOf("x") }, false},
		"the port":   {func(e *Engine) { e.Placement[0].Port = 9000 }, false},
	} {
		e := compiled()
		c.change(e)
		if moved := place(e) != first; moved != c.moves {
			t.Errorf("with %s changed the output moves: %v, want %v", name, moved, c.moves)
		}
	}
}

func TestMaxContext(t *testing.T) {
	n := provision.Plain("4096")
	for name, kind := range map[string]string{"max-model-len": VLLM, "max_model_len": VLLM, "context-length": SGLang, "max_seq_len": TRTLLM} {
		if got, flag, ok := MaxContext(&Engine{Kind: kind, Flags: []Flag{{Name: name, Value: &n}}}); got != 4096 || flag != name || !ok {
			t.Errorf("MaxContext with %s = %d, %q, %v", name, got, flag, ok)
		}
	}
	auto := provision.Plain("auto")
	if _, _, ok := MaxContext(&Engine{Kind: VLLM, Flags: []Flag{{Name: "max-model-len", Value: &auto}}}); ok {
		t.Error("a flag that is no number says how long a context is")
	}
}

// TestAltered: what runs before a server or is built for it marks an engine, and a group one of whose members has it.
func TestAltered(t *testing.T) {
	plain, patched := &Engine{Kind: "vllm"}, &Engine{Kind: "vllm", Setup: []string{"pip install ./wheel"}}
	built := &Engine{Kind: "trtllm", Build: &Build{Output: "/build"}}
	for _, x := range []struct {
		e    *Engine
		want string
	}{
		{plain, ""},
		{patched, "setup"},
		{built, "build"},
		{&Engine{Kind: GroupKind, Placement: Placement{{Engine: plain}, {Engine: built}, {Engine: patched}}}, "setup and build"},
	} {
		if got := Altered(x.e); got != x.want {
			t.Errorf("%+v is altered by %q, want %q", x.e, got, x.want)
		}
	}
}
