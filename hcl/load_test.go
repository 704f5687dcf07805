package hcl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	yaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/hcl/lang"
	"hclbench/load"
	"hclbench/provision"
)

// loadText loads a lab of one file.
func loadText(t testing.TB, s string, vars lang.Vars) (*Config, *lang.Problems) {
	t.Helper()
	return Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(s)}}, vars)
}

// mustLoad is loadText for a lab without errors.
func mustLoad(t testing.TB, s string, vars lang.Vars) *Config {
	t.Helper()
	c, p := loadText(t, s, vars)
	if p.HasErrors() {
		t.Fatal(printed(t, p))
	}
	return c
}

func printed(t testing.TB, p *lang.Problems) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b, 80, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// cells is the cells of the first benchmark, one to a line: axes, engine, flags.
func cells(c *Config) []string {
	var out []string
	for _, x := range c.Benchmarks[0].Cells {
		var b strings.Builder
		for _, a := range x.Axes {
			fmt.Fprintf(&b, "%s=%v ", a.Name, a.Value)
		}
		b.WriteString(x.Engine.Name)
		for _, f := range x.Engine.Flags {
			b.WriteString(" --" + f.Name)
			if f.Value != nil {
				b.WriteString(" " + f.Value.String())
			}
		}
		out = append(out, b.String())
	}
	return out
}

const common = `
host "h" {
  address = "203.0.113.7"
  gpus    = "8xH200"
}
model "m" {
  repo = "org/model"
}
dataset "random" "d" {
  input_tokens = 128
}
`

// vllm is an engine that says more.
func vllm(name, more string) string {
	return "engine \"vllm\" \"" + name +
		"\" {\n  host = host.h\n  model = model.m\n  image = \"vllm/vllm-openai:v0.11.0\"\n" + more + "\n}\n"
}

// benchmarkOf is a benchmark with the given matrices and more arguments.
func benchmarkOf(matrix, more string) string {
	return `
benchmark "b" {
` + matrix + `
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 100
  load {
    concurrency   = 4
    output_tokens = 64
  }
` + more + `
}
`
}

func TestMatrixOrder(t *testing.T) {
	lab := common + `
` + vllm("z", "") + `engine "vllm" "a" {
  inherits = engine.vllm.z
}
` + benchmarkOf(`
  matrix {
    zeta   = ["x", 2.5, true]
    engine = [engine.vllm.z, engine.vllm.a]
    alpha  = matrix.zeta == "x" ? [3, 1, 2] : [7]
  }
  matrix {
    engine = values({ z = engine.vllm.z })
    zeta   = toset(["q", "p"])
    alpha  = range(2)
  }
  exclude { when = matrix.zeta == true && matrix.engine.name == "a" }
  exclude { when = matrix.alpha == 2 }
  description = "unused axes are fine: ${"x"}"
`, "")
	want := []string{
		"zeta=x engine=vllm.z alpha=3 z", "zeta=x engine=vllm.z alpha=1 z",
		"zeta=x engine=vllm.a alpha=3 a", "zeta=x engine=vllm.a alpha=1 a",
		"zeta=2.5 engine=vllm.z alpha=7 z", "zeta=2.5 engine=vllm.a alpha=7 a",
		"zeta=true engine=vllm.z alpha=7 z",
		"engine=vllm.z zeta=p alpha=0 z", "engine=vllm.z zeta=p alpha=1 z",
		"engine=vllm.z zeta=q alpha=0 z", "engine=vllm.z zeta=q alpha=1 z",
	}
	for range 20 { // a map's order would show
		if diff := cmp.Diff(want, cells(mustLoad(t, lab, lang.Vars{}))); diff != "" {
			t.Fatalf("cells (-want +got):\n%s", diff)
		}
	}
}

func TestMatrixInEngines(t *testing.T) {
	c := mustLoad(t, common+`
`+vllm("base", `  flags = { tensor-parallel-size = matrix.tp }`)+`engine "vllm" "more" {
  inherits = engine.vllm.base
  flags    = { max-num-seqs = 8 * matrix.tp }
}
engine "vllm" "plain" {
  inherits = engine.vllm.base
  flags    = { tensor-parallel-size = null }
}
`+benchmarkOf(`
  matrix {
    engine = [engine.vllm.base, engine.vllm.more, engine.vllm.plain]
    tp     = [4, 8]
    load   = [1, 2]
  }
  exclude { when = matrix.engine.flags == {} && matrix.load == 2 }
  exclude { when = try(matrix.engine.flags.max-num-seqs, 0) == 64 && matrix.load == 2 }
`, `  repeat = 3`), lang.Vars{})
	want := []string{
		"engine=vllm.base tp=4 load=1 base --tensor-parallel-size 4",
		"engine=vllm.base tp=4 load=2 base --tensor-parallel-size 4",
		"engine=vllm.base tp=8 load=1 base --tensor-parallel-size 8",
		"engine=vllm.base tp=8 load=2 base --tensor-parallel-size 8",
		"engine=vllm.more tp=4 load=1 more --max-num-seqs 32 --tensor-parallel-size 4",
		"engine=vllm.more tp=4 load=2 more --max-num-seqs 32 --tensor-parallel-size 4",
		"engine=vllm.more tp=8 load=1 more --max-num-seqs 64 --tensor-parallel-size 8",
		"engine=vllm.plain tp=4 load=1 plain",
		"engine=vllm.plain tp=8 load=1 plain",
	}
	if diff := cmp.Diff(want, cells(c)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	all := c.Benchmarks[0].Cells
	if all[0].Engine != all[1].Engine || all[0].Engine == all[2].Engine {
		t.Error("an engine is one pointer per distinct set of values, and it is not")
	}
	if got, want := namesOf(c.Engines), []string{
		"vllm.base tensor-parallel-size=4", "vllm.base tensor-parallel-size=8",
		"vllm.more max-num-seqs=32 tensor-parallel-size=4", "vllm.more max-num-seqs=64 tensor-parallel-size=8",
		"vllm.plain", "vllm.plain",
	}; !slices.Equal(got, want) {
		t.Errorf("Engines = %q, want %q", got, want)
	}
	if c.Benchmarks[0].Repeat != 3 {
		t.Errorf("Repeat = %d, want 3", c.Benchmarks[0].Repeat)
	}
}

// namesOf are the engines of a lab with their flags, one to a text.
func namesOf(all []*engines.Engine) []string {
	var out []string
	for _, e := range all {
		name := e.Label()
		for _, f := range e.Flags {
			name += " " + f.Name + "=" + f.Value.Reveal()
		}
		out = append(out, name)
	}
	return out
}

// TestEnginesOfLab: every engine is in the one list, whether it uses matrix.*, has
// for_each, is in no cell any more, or never was. What removes what an earlier apply
// left goes by this list.
func TestEnginesOfLab(t *testing.T) {
	c := mustLoad(t, common+`
`+vllm("axes", `  flags = { max-num-seqs = matrix.seqs }`)+`engine "vllm" "gone" {
  inherits = engine.vllm.axes
}
engine "vllm" "idle" {
  inherits = engine.vllm.axes
  flags    = { max-num-seqs = 1 }
}
engine "vllm" "each" {
  for_each = ["a", "b"]
  inherits = engine.vllm.axes
}
`+benchmarkOf(`
  matrix {
    engine = [engine.vllm.axes, engine.vllm.each["b"], engine.vllm.gone]
    seqs   = [16, 8]
  }
  exclude { when = matrix.engine.name == "gone" }
`, ""), lang.Vars{})
	want := []string{
		"vllm.axes max-num-seqs=16", "vllm.axes max-num-seqs=8", "vllm.gone", "vllm.idle max-num-seqs=1",
		`vllm.each["a"]`, `vllm.each["b"] max-num-seqs=16`, `vllm.each["b"] max-num-seqs=8`,
	}
	if diff := cmp.Diff(want, namesOf(c.Engines)); diff != "" {
		t.Errorf("Engines (-want +got):\n%s", diff)
	}
	for _, e := range c.Engines {
		if e.Host() == nil || e.Image == "" {
			t.Errorf("%s has host %v and image %q", e, e.Host(), e.Image)
		}
	}
}

// TestNullInObjects: null in env, flags and headers is as if the key were not there,
// whether something is inherited or not.
func TestNullInObjects(t *testing.T) {
	c := mustLoad(t, common+`
`+vllm("parent", `  flags = { a = null }`)+`engine "vllm" "child" {
  inherits = engine.vllm.parent
  env      = { Z = null, Y = true ? null : "1", X = "x" }
}
`+benchmarkOf(`matrix { engine = [engine.vllm.child] }`, ""), lang.Vars{})
	e := c.Benchmarks[0].Cells[0].Engine
	if want := []provision.EnvVar{{Name: "X", Value: provision.Plain("x")}}; !cmp.Equal(e.Env, want,
		cmp.AllowUnexported(provision.Text{})) || len(e.Flags) != 0 {
		t.Errorf("env %v and flags %v, want X=x and none", e.Env, e.Flags)
	}
}

// TestEnvironmentOfVariables: a slip in the name of HCL_VAR_name is told, and what may
// be meant for another lab is not.
func TestEnvironmentOfVariables(t *testing.T) {
	_, p := loadText(t, common+`
variable "address" { default = "a" }
`, lang.Vars{Env: []string{"HCL_VAR_adress=secret", "HCL_VAR_other_lab=x", "HCL_VAR_address=b"}})
	all := printed(t, p)
	if !strings.Contains(all, "HCL_VAR_address?") || strings.Count(all, "Unknown variable") != 1 {
		t.Errorf("one slip is told, and its name; got\n%s", all)
	}
	if strings.Contains(all, "secret") {
		t.Error("the value is shown")
	}
}

// TestListOnCommandLine: who writes a list without brackets is told how it is written.
func TestListOnCommandLine(t *testing.T) {
	for _, given := range []string{"1,2,3", "a", "1 2"} {
		_, p := loadText(t, `variable "l" { type = list(number) }`, lang.Vars{Values: []string{"l=" + given}})
		if text := printed(t, p); !strings.Contains(text, "'l=[1, 2]'") || strings.Contains(text, "Extra characters") {
			t.Errorf("--var l=%s:\n%s", given, text)
		}
	}
}

// TestValuesAreBounded: a text, or a list, that doubles forty times is a mistake and not
// the end of the machine's memory.
func TestValuesAreBounded(t *testing.T) {
	for _, double := range []string{"\"${local.v%d}${local.v%d}\"", "[local.v%d, local.v%d]", "{ a = local.v%d, b = local.v%d }"} {
		var b strings.Builder
		b.WriteString("locals {\n  v0 = \"0123456789\"\n")
		for i := range 40 {
			fmt.Fprintf(&b, "  v%d = "+double+"\n", i+1, i, i)
		}
		b.WriteString("}\n")
		_, p := loadText(t, b.String(), lang.Vars{})
		if text := printed(t, p); !strings.Contains(text, "Value too large") {
			t.Errorf("%s:\n%.2000s", double, text)
		}
	}
}

func TestInherits(t *testing.T) {
	c := mustLoad(t, common+`
engine "sglang" "child" {
  inherits = engine.sglang.parent
  image    = "lmsysorg/sglang:v2"
  env      = { B = "child", C = null }
  flags    = { b = null, c = 3 }
  ready    { timeout = "1h" }
  port     = null
}
engine "sglang" "parent" {
  description = "not inherited"
  host        = host.h
  model       = model.m
  image       = "lmsysorg/sglang:v1"
  env         = { A = "parent", B = "parent", C = "parent" }
  flags       = { a = 1, b = 2 }
  port        = 31000
  container   { shm_size = "32GB" }
  ready       { stall = "20m" }
}
`+benchmarkOf(`matrix { engine = [engine.sglang.child] }`, ""), lang.Vars{})
	got := c.Benchmarks[0].Cells[0].Engine
	text := func(s string) *provision.Text { v := provision.Plain(s); return &v }
	want := &engines.Engine{
		Kind: "sglang", Name: "child", Placement: engines.On(c.Hosts[0]), Model: c.Engines[0].Model, Image: "lmsysorg/sglang:v2",
		Env:       []provision.EnvVar{{Name: "A", Value: *text("parent")}, {Name: "B", Value: *text("child")}},
		Flags:     []engines.Flag{{Name: "a", Value: text("1")}, {Name: "c", Value: text("3")}},
		Container: engines.ContainerSettings{ShmSize: 32_000_000_000},
		Ready:     engines.Ready{Stall: 20 * time.Minute, Timeout: time.Hour},
		Pos:       "lab.hcl:13",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(provision.Text{})); diff != "" {
		t.Errorf("engine (-want +got):\n%s", diff)
	}
}

func TestFlagValues(t *testing.T) {
	c := mustLoad(t, common+`
variable "key" {
  sensitive = true
  default   = "hunter2"
}
`+vllm("a", `  flags = {
    on      = true
    off     = false
    none    = null
    whole   = 8
    decimal = 0.9
    text    = "a b"
    list    = ["x", 2]
    object  = { b = [1, true], a = null }
    hf-token = "k-${upper(var.key)}"
  }`)+benchmarkOf(`matrix { engine = [engine.vllm.a] }`, ""), lang.Vars{})
	want := []string{`engine=vllm.a a --decimal 0.9 --hf-token (sensitive) --list x --list 2 --object {"a":null,"b":[1,true]} --on --text a b --whole 8`}
	if diff := cmp.Diff(want, cells(c)); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	if key, _ := c.Engines[0].Flag("hf-token"); key != "k-HUNTER2" {
		t.Errorf("the clear value is %q, want k-HUNTER2", key)
	}
}

// TestConfig: the file says what the object says, secrets are in what the engine
// reads and not in what is shown, and what is inherited merges.
func TestConfig(t *testing.T) {
	c := mustLoad(t, common+`
variable "key" {
  sensitive = true
  default   = "hunter\"2"
}
variable "steps" {
  sensitive = true
  default   = 31337
}
engine "trtllm" "base" {
  host  = host.h
  model = model.m
  image = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
  config = {
    stream_interval = 10
    kv_cache_config = { dtype = "fp8" }
    gone            = 1
  }
}
engine "trtllm" "a" {
  inherits = engine.trtllm.base
  config = {
    gone            = null
    none            = null
    kv_cache_config = { dtype = "auto", free_gpu_memory_fraction = 0.9, host_cache_size = null }
    cuda_graph_config = { enable_padding = true, batch_sizes = [1, 2.5, "on", "ümlaut: é"] }
    tiny              = 0.0000001
    huge              = 123456789012345678901234567890
    keys              = { outer = var.key, list = [var.key, var.steps] }
  }
}
`+benchmarkOf(`matrix { engine = [engine.trtllm.a] }`, ""), lang.Vars{})
	e := c.Benchmarks[0].Cells[0].Engine
	want := `{
  "cuda_graph_config": {
    "batch_sizes": [
      1,
      2.5,
      "on",
      "ümlaut: é"
    ],
    "enable_padding": true
  },
  "huge": 123456789012345678901234567890,
  "keys": {
    "list": [
      "(sensitive)",
      "(sensitive)"
    ],
    "outer": "(sensitive)"
  },
  "kv_cache_config": {
    "dtype": "auto",
    "free_gpu_memory_fraction": 0.9,
    "host_cache_size": null
  },
  "stream_interval": 10,
  "tiny": 0.0000001
}
`
	if diff := cmp.Diff(want, e.Config.String()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`hunter"2`, "31337", `hunter"2`}, e.Config.Secrets()); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	// The engines read it as YAML.
	shown, err := yaml.Unmarshal([]byte(e.Config.Reveal()), cty.DynamicPseudoType)
	if err != nil {
		t.Fatal(err)
	}
	if keys := shown.GetAttr("keys"); keys.GetAttr("outer").AsString() != `hunter"2` ||
		!keys.GetAttr("list").Index(cty.NumberIntVal(1)).RawEquals(cty.NumberIntVal(31337)) {
		t.Errorf("the engine reads %#v", keys)
	}
	if v, ok := e.Flag("stream_interval"); !ok || v != "10" {
		t.Errorf("the flag stream-interval = %q, %v", v, ok)
	}
}

// TestSensitive walks a secret through functions, templates, conditionals and
// collections, and looks for it in all that can be printed.
func TestSensitive(t *testing.T) {
	const secret = "hunter2"
	c := mustLoad(t, common+`
variable "key" {
  type      = string
  sensitive = true
}
locals {
  list  = [for k in [var.key] : upper("x${k}")]
  both  = merge({ A = "clear" }, { B = join("-", local.list) })
  json  = jsondecode(jsonencode({ k = var.key }))
  maybe = var.key == "" ? "empty" : "full"
}
engine "vllm" "a" {
  host    = host.h
  model   = model.m
  image   = "vllm/vllm-openai:v0.11.0"
  command = ["serve", "--key", var.key]
  config  = { key = [var.key] }
  env = {
    A     = local.both.A
    B     = local.both.B
    JSON  = local.json.k
    MAYBE = local.maybe
    NEW   = sensitive(env("TOKEN"))
    FILE  = split("", var.key)[0]
  }
}
`+benchmarkOf(`matrix { engine = [engine.vllm.a] }`, ""), lang.Vars{
		Values: []string{"key=" + secret},
		Env:    []string{"TOKEN=hunter2"},
	})
	var got []string
	for _, e := range c.Engines[0].Env {
		got = append(got, e.Name+"="+e.Value.String())
	}
	want := []string{"A=clear", "B=(sensitive)", "FILE=(sensitive)", "JSON=(sensitive)", "MAYBE=(sensitive)", "NEW=(sensitive)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	out, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(out), fmt.Sprintf("%+v %#v", c.Engines[0], c.Engines[0].Env)} {
		if strings.Contains(strings.ToLower(text), secret) {
			t.Errorf("the secret is in what can be printed: %s", text)
		}
	}
}

// TestSensitiveProblems makes every mistake it can with a secret, and looks for
// it in the messages.
func TestSensitiveProblems(t *testing.T) {
	variable := func(attrs string) string {
		return "variable \"key\" {\n  sensitive = true\n" + attrs + "\n}\n"
	}
	for _, s := range []string{
		variable(`default = "hunter2" "`),
		variable("default = \"hunter2\n"),
		variable(`default = hunter2("hunter2")`),
		variable(`default = ["hunter2"][3]`),
		variable("type = number\ndefault = \"hunter2\""),
		variable("type = object({ a = number })\ndefault = { a = \"hunter2\" }"),
		variable("default = \"hunter2\"\nvalidation {\n  condition = var.key == \"\"\n  error_message = \"not ${var.key}\"\n}"),
		variable("default = \"hunter2\"\nvalidation {\n  condition = var.key\n  error_message = \"x\"\n}"),
		variable(`default = "hunter2"`) + `locals { a = parseint(upper(var.key), 10) }`,
		variable(`default = "hunter2"`) + `locals { a = jsondecode("[${var.key}") }`,
		variable(`default = "hunter2"`) + `locals { a = { x = 1 }[var.key] }`,
		variable(`default = "hunter2"`) + `locals { a = regex("(", var.key) }`,
		variable(`default = "hunter2"`) + `locals { a = [for x in [var.key] : tonumber(x)] }`,
		variable(`default = "hunter2"`) + `locals { a = file(var.key) }`,
		`locals { a = parseint(sensitive(env("TOKEN")), 10) }`,
		variable(`default = "hunter2"`) + "host \"h\" {\n  address = \"x\"\n  gpus = var.key\n  jump = var.key\n}",
		variable(`default = "hunter2"`) +
			"engine \"external\" \"h\" {\n  url = var.key\n  env = { (var.key) = 1, A = [var.key] }\n  flags = { a = [[var.key]] }\n  command = [[var.key]]\n}",
	} {
		_, p := loadText(t, s, lang.Vars{Env: []string{"TOKEN=hunter2"}})
		if !p.HasErrors() {
			t.Errorf("no error in\n%s", s)
		}
		out, err := json.Marshal(p.List())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{printed(t, p), string(out)} {
			// The name of a function is not a value.
			if strings.Contains(strings.ReplaceAll(strings.ToLower(text), `no function \"hunter2\"`, ""),
				"hunter2") && !strings.Contains(s, "hunter2(") {
				t.Errorf("a message shows the secret of\n%s\n%s", s, text)
			}
		}
	}
	_, p := loadText(t, "variable \"key\" {\n  type = list(number)\n  sensitive = true\n}",
		lang.Vars{Values: []string{"key=[hunter2", "kye=hunter2"}})
	if text := printed(t, p); strings.Contains(text, "hunter2") {
		t.Errorf("a message shows the secret:\n%s", text)
	}
}

func TestVariablePrecedence(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "more.hclvars")
	if err := os.WriteFile(file, []byte("d = \"file\"\ne = \"file\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var lab strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		fmt.Fprintf(&lab, "variable %q {\n  type = string\n  default = \"default\"\n}\n", name)
	}
	lab.WriteString("variable \"list\" {\n  type = list(number)\n}\nvariable \"object\" {\n  type = object({ a = number, b = optional(string, \"two\") })\n}\n")
	lab.WriteString("lab \"x\" {\n  description = \"${var.a} ${var.b} ${var.c} ${var.d} ${var.e} ${var.list[1]} ${var.object.a} ${var.object.b}\"\n}\n")
	c, p := Load(&lang.Source{Dir: dir, Files: map[string][]byte{
		"lab.hcl":     []byte(lab.String()),
		"lab.hclvars": []byte("c = \"lab\"\nd = \"lab\"\ne = \"lab\"\n"),
	}}, lang.Vars{
		Env:    []string{"HCL_VAR_b=env", "HCL_VAR_c=env", "HCL_VAR_d=env", "HCL_VAR_e=env", "HCL_VAR_object={ a = 1 }", "HCL_VAR_other=1"},
		Files:  []string{file},
		Values: []string{"e=overridden", "e=a=b", "list=[1, 2]"},
	})
	if p.HasErrors() {
		t.Fatal(printed(t, p))
	}
	if got, want := c.Lab.Description, "default env lab file a=b 2 1 two"; got != want {
		t.Errorf("variables are %q, want %q", got, want)
	}
}

func TestHostArguments(t *testing.T) {
	c := mustLoad(t, `
host "gpu" {
  description    = "eight of them"
  address        = "gpu1.example.com:2222"
  user           = "ubuntu"
  identity_file  = "~/.ssh/id_ed25519"
  host_key       = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
  jump           = host.bastion
  gpus           = "8xMI300X"
  runtime        = "process"
  docker         = "/run/user/1000/docker.sock"
  image_from     = "caller"
  price_per_hour = 27.5
  prepare {
    power_cap      = 600
    lock_clocks    = 1900
    numa_balancing = false
    ecc            = true
  }
  require {
    driver         = ">= 6.10, < 7"
    rocm           = "6.3.1"
    gpu_memory     = "192GB"
    memory         = "1.5TB"
    disk_free      = "900GB"
    idle_gpus      = true
    numa_balancing = false
  }
}
host "bastion" {
  address = "203.0.113.1"
  jump    = "me@203.0.113.2:22"
}
`, lang.Vars{Env: []string{"HOME=/home/me"}})
	want := &provision.Host{
		Name: "gpu", Description: "eight of them", Address: "gpu1.example.com:2222", User: "ubuntu",
		IdentityFile: "/home/me/.ssh/id_ed25519",
		HostKey:      "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
		GPUs:         provision.GPUs{Count: 8, Model: "MI300X", Vendor: provision.AMD}, Runtime: provision.Process,
		Docker: "/run/user/1000/docker.sock", ImageFrom: provision.FromCaller, PricePerHour: 27.5, Pos: "lab.hcl:2",
		Require: &provision.Require{
			Driver:    provision.Versions{{Op: ">=", Version: "6.10"}, {Op: "<", Version: "7"}},
			ROCm:      provision.Versions{{Op: "=", Version: "6.3.1"}},
			GPUMemory: 192e9, Memory: 1.5e12, DiskFree: 900e9, IdleGPUs: true, NUMABalancing: new(bool),
		},
		Prepare: &provision.Prepare{PowerCap: 600, LockClocks: 1900, NUMABalancing: new(bool), ECC: new(true)},
		Jump: &provision.Host{
			Name: "bastion", Address: "203.0.113.1", Runtime: provision.Docker, ImageFrom: provision.FromRegistry, Pos: "lab.hcl:30",
			Jump: &provision.Host{Name: "me@203.0.113.2:22", Address: "203.0.113.2:22", User: "me",
				Runtime: provision.Docker, Pos: "lab.hcl:32"},
		},
	}
	if diff := cmp.Diff(want, c.Hosts[0]); diff != "" {
		t.Errorf("host (-want +got):\n%s", diff)
	}
	if c.Hosts[0].Jump != c.Hosts[1] {
		t.Error("the jump host is another value than the declared one")
	}
}

func TestWorkloadArguments(t *testing.T) {
	c := mustLoad(t, common+`
engine "external" "e" {
  url = "http://203.0.113.9:8000"
}
dataset "random" "v" {
  input_tokens = 1000
  range_ratio  = 0.5
  convention   = "vllm"
  seed         = 7
}
benchmark "b" {
  engine      = engine.external.e
  dataset     = dataset.random.v
  duration    = "2m"
  percentiles = [50, 99.9]
  load {
    rate            = "inf"
    burstiness      = 0.5
    concurrency     = 10
    output_tokens   = 100
    ignore_eos      = false
    temperature     = 0.7
    extra_body      = { top_p = 0.9, stop = ["x"] }
    endpoint        = "chat"
    warmup_requests = 5
    timeout         = "5m"
    stall           = "30s"
  }
  slo {
    ttft_p99    = "5s"
    e2el_p99_9  = "60s"
    tpot        = "50ms"
  }
}
`, lang.Vars{})
	ratio := 0.5
	b := c.Benchmarks[0]
	want := load.Workload{
		Dataset:  load.Dataset{Kind: "random", InputTokens: 1000, RangeRatio: &ratio, Convention: "vllm", Seed: 7},
		Duration: load.Duration(2 * time.Minute), Concurrency: 10, Rate: load.Inf, Burstiness: 0.5, OutputTokens: 100,
		Temperature: 0.7, Endpoint: "chat", ExtraBody: `{"stop":["x"],"top_p":0.9}`, Warmup: 5,
		Timeout: load.Duration(5 * time.Minute), Stall: load.Duration(30 * time.Second),
		SLO: []load.Objective{
			{Metric: "e2el", Percentile: 99.9, Max: load.Duration(time.Minute)},
			{Metric: "tpot", Max: load.Duration(50 * time.Millisecond)},
			{Metric: "ttft", Percentile: 99, Max: load.Duration(5 * time.Second)},
		},
	}
	if diff := cmp.Diff(want, b.Cells[0].Workload); diff != "" {
		t.Errorf("workload (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]float64{50, 99.9}, b.Percentiles); diff != "" {
		t.Errorf("percentiles (-want +got):\n%s", diff)
	}
}

// TestFilesAreOneText spreads a lab over files, and has blocks refer to each
// other in any order.
func TestFilesAreOneText(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.hcl":      benchmarkOf(`matrix { engine = local.engines }`, ""),
		"rows.yaml":  "- ttft: 1ms\n- {}\n",
		"y.hcl":      "locals {\n  yaml = yamldecode(file(\"rows.yaml\"))[0].ttft\n}\n",
		"b.hcl":      "locals {\n  engines = [engine.sim.one]\n  rows    = csvdecode(file(\"rows.csv\"))\n}\nengine \"sim\" \"one\" {\n  host  = host.h\n  flags = { ttft = local.rows[1].ttft, itl = local.yaml }\n}\n",
		"c.hcl":      common,
		"rows.csv":   "ttft\n1ms\n2ms\n",
		".old.hcl":   "not a lab",
		"notes.hcl~": "not a lab",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	src, err := lang.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, p := Load(src, lang.Vars{})
	if p.HasErrors() {
		t.Fatal(printed(t, p))
	}
	if diff := cmp.Diff([]string{"engine=sim.one one --itl 1ms --ttft 2ms"}, cells(c)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if _, err := lang.Read(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("Read of a path that is not there succeeds")
	}
}
