package plan

import (
	"strings"
	"testing"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/hcl/lang"
)

// The lab of the table of edits. ENGINE stands for the engine block, whose name is e.
const editedLab = `lab "edited" {
  description = "for edits"
  lease       = "15m"
}
variable "token" {
  default   = "first"
  sensitive = true
}
host "box" {
  address        = "203.0.113.7"
  user           = "ubuntu"
  gpus           = "8xH200"
  price_per_hour = 20
}
host "client" { address = "203.0.113.8" }
model "m" {
  repo     = "org/model"
  revision = "0123456789abcdef0123456789abcdef01234567"
  cache    = "/data/hf"
}
ENGINE
dataset "random" "d" {
  input_tokens = 128
  seed         = 1
}
benchmark "b" {
  matrix { concurrency = [4] }
  engine      = engine.KIND.e
  dataset     = dataset.random.d
  requests    = 100
  percentiles = [50, 99]
  slo { e2el = "5s" }
  load {
    concurrency   = matrix.concurrency
    output_tokens = 64
    timeout       = "10m"
    headers       = { X-Team = "bench", X-Key = var.token }
  }
}
`

// editedEngines are the engine blocks, by kind.
var editedEngines = map[string]string{
	engines.VLLM: `engine "vllm" "e" {
  host  = host.box
  model = model.m
  image = "vllm/vllm-openai:v0.11.0"
  env   = { HF_TOKEN = var.token, VLLM_USE_V1 = "1" }
  flags = { tensor-parallel-size = 8, host = "0.0.0.0", max-model-len = 8192 }
}`,
	engines.SGLang: `engine "sglang" "e" {
  host  = host.box
  model = model.m
  image = "lmsysorg/sglang:v0.5.3"
  env   = { HF_TOKEN = var.token }
  flags = { tp = 8, host = "0.0.0.0" }
}`,
	engines.TRTLLM: `engine "trtllm" "e" {
  host   = host.box
  model  = model.m
  image  = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
  env    = { HF_TOKEN = var.token }
  flags  = { tp_size = 8, host = "0.0.0.0" }
  config = { kv_cache_config = { dtype = "auto" } }
}`,
	engines.OpenAI: `engine "openai" "e" {
  host    = host.box
  model   = model.m
  image   = "org/server:v1"
  port    = 9000
  env     = { HF_TOKEN = var.token }
  command = ["serve", "--port", "9000", "--threads", "8"]
}`,
	engines.External: `engine "external" "e" {
  url     = "http://192.0.2.1:8000"
  model   = model.m
  api_key = var.token
}`,
	engines.Operated: `cluster "moai" { image = "debian:12" }
host "pod" { cluster = cluster.moai }
engine "manifests" "e" {
  host    = host.pod
  model   = model.m
  api_key = var.token
  files   = ["testdata/web.yaml"]
  values  = { replicas = 2 }
  service = "web:80"
  roles   = { serve = "app=web" }
}`,
	engines.Sim: `engine "sim" "e" {
  host  = host.box
  model = model.m
  flags = { ttft = "5ms", itl = "1ms" }
}`,
}

func readLab(t *testing.T, text string) *hcl.Config {
	t.Helper()
	cfg, problems := hcl.Load(&lang.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
	if problems.HasErrors() {
		t.Fatalf("the lab is wrong: %+v\n%s", problems.List()[0], text)
	}
	return cfg
}

// editedBy is the lab with an engine of a kind and with texts in place of others.
func editedBy(t *testing.T, kind string, oldnew ...string) *hcl.Config {
	t.Helper()
	lab := strings.NewReplacer("ENGINE", editedEngines[kind], "KIND", kind).Replace(editedLab)
	return readLab(t, strings.NewReplacer(oldnew...).Replace(lab))
}

// edit replaces a text of the lab; kinds says of which engines ("" of all).
type edit struct {
	what, old, new string
	kinds          string
}

// harmless edits change no number: what was measured is still good.
var harmless = []edit{
	{"the lab described", `"for edits"`, `"edited"`, ""},
	{"another lease", `"15m"`, `"30m"`, ""},
	{"another secret", `"first"`, `"second"`, ""},
	{"the box moved", `203.0.113.7`, `198.51.100.7`, ""},
	{"another login", `"ubuntu"`, `"root"`, ""},
	{"another price", `price_per_hour = 20`, `price_per_hour = 31.5`, ""},
	{"no price", `price_per_hour = 20`, ``, ""},
	{"the GPUs in small letters", `8xH200`, `8xh200`, ""},
	{"a contract", `price_per_hour = 20`, "require { memory = \"1GB\" }", ""},
	{"the host renamed", `box`, `machine`, ""},
	{"the model renamed", `"m"`, `"r1"`, "rename model.m to model.r1"},
	{"the data set renamed", `"d"`, `"short"`, "rename random.d to random.short"},
	{"the engine renamed", `"e" {`, `"fast" {`, "rename KIND.e to KIND.fast"},
	{"the benchmark renamed", `benchmark "b"`, `benchmark "serving"`, ""},
	{"the axis renamed", `concurrency = [4]`, `n = [4]`, "rename matrix.concurrency to matrix.n"},
	{"another cache", `/data/hf`, `/mnt/hf`, ""},
	{"brought by hcl", `/data/hf"`, "/data/hf\"\n  download = true", ""},
	{"more patience", `"e" {`, "\"e\" {\n  ready { stall = \"1h\" }", ""},
	{"described", `"e" {`, "\"e\" {\n  description = \"text\"", ""},
	{"another port", `"e" {`, "\"e\" {\n  port = 12345", "vllm sglang trtllm sim"},
	{"another port in the command", `9000`, `9001`, "openai"},
	{"kernels kept", `"e" {`, "\"e\" {\n  compile_cache = \"/data/kernels\"", "vllm sglang trtllm"},
	{"more time to stop", `"e" {`, "\"e\" {\n  container { stop_grace = \"5m\" }", "vllm sglang trtllm"},
	{"what holds anyway", `"e" {`, "\"e\" {\n  container { network = \"host\" }", "vllm sglang trtllm"},
	{"where it listens", `host = "0.0.0.0"`, `host = "127.0.0.1"`, "vllm sglang trtllm"},
	{"the registry in full", `"vllm/`, `"docker.io/vllm/`, "vllm"},
	{"a number as text", `= 8192`, `= "8192"`, "vllm"},
	{"another order of flags", `tensor-parallel-size = 8, host = "0.0.0.0"`, `host = "0.0.0.0", tensor-parallel-size = 8`, "vllm"},
	{"the model named", `max-model-len = 8192`, `max-model-len = 8192, served-model-name = "m"`, "vllm"},
	{"other labels of pods", `app=web`, `app=server`, "manifests"},
	{"the version said", `"e" {`, "\"e\" {\n  version = \"0.6.0\"", "vllm"},
	{"how offline starts, which is not asked", `"e" {`, "\"e\" {\n  offline_command = [\"bench\"]", "vllm sglang trtllm"},
	{"the axis longer", `[4]`, `[4, 8]`, ""},
	{"repeated", `requests    = 100`, "requests = 100\n  repeat = 3", ""},
	{"other percentiles", `[50, 99]`, `[95]`, ""},
	{"a stricter SLO", `"5s"`, `"1s"`, ""},
	{"an SLO by percentile", `e2el = "5s"`, `e2el_p99 = "5s"`, ""},
	{"no SLO", `slo { e2el = "5s" }`, ``, ""},
	{"a header in other letters", `X-Team`, `x-team`, ""},
	{"nothing more in the body", `output_tokens = 64`, "output_tokens = 64\n    extra_body = {}", ""},
	{"a burstiness that nothing has", `output_tokens = 64`, "output_tokens = 64\n    burstiness = 2", ""},
	{"a report block", "dataset \"random\" \"d\" {", "report { title = \"other\" }\ndataset \"random\" \"d\" {", ""},
}

// changes can change a number: it is measured again.
var changes = []edit{
	{"the GPUs", `8xH200`, `8xH100`, "vllm sglang trtllm openai sim"},
	{"the GPUs of AMD", `8xH200`, `8xMI300X`, "openai"},
	{"fewer GPUs", `8xH200`, `4xH200`, "openai sim"},
	{"the model", `org/model`, `org/other`, ""},
	{"the revision", `revision = "0`, `revision = "1`, "vllm sglang trtllm openai sim"},
	{"the image", `:v0`, `:v1`, "vllm sglang"},
	{"the image's tag", `:1.0.0`, `:1.0.1`, "trtllm"},
	{"the image of a server", `server:v1`, `server:v2`, "openai"},
	{"a flag", `= 8,`, `= 4,`, "vllm sglang trtllm"},
	{"a flag more", `0.0.0.0"`, `0.0.0.0", enable-metrics = true`, "sglang"},
	{"a flag less", `, max-model-len = 8192`, ``, "vllm"},
	{"a word of the command", `"--threads", "8"`, `"--threads", "4"`, "openai"},
	{"where requests go", `web:80`, `front:80`, "manifests"},
	{"an object", `replicas = 2`, `replicas = 3`, "manifests"},
	{"a simulated figure", `"1ms"`, `"2ms"`, "sim"},
	{"the configuration", `"auto"`, `"fp8"`, "trtllm"},
	{"a variable", `VLLM_USE_V1 = "1"`, `VLLM_USE_V1 = "0"`, "vllm"},
	{"a variable less", `HF_TOKEN = var.token`, ``, "sglang trtllm openai"},
	{"a setup", `"e" {`, "\"e\" {\n  setup = [\"pip install x\"]", "vllm sglang trtllm"},
	{"shared memory", `"e" {`, "\"e\" {\n  container { shm_size = \"32GB\" }", "vllm sglang trtllm openai"},
	{"some of the GPUs", `"e" {`, "\"e\" {\n  container { gpu_ids = [\"0\"] }", "openai"},
	{"a mount", `"e" {`, "\"e\" {\n  container { mounts = [\"/a:/b\"] }", "vllm sglang trtllm openai"},
	{"no host network", `"e" {`, "\"e\" {\n  container { network = \"bridge\" }", "vllm sglang trtllm openai"},
	{"as a process", `gpus  `, "runtime = \"process\"\n  gpus", "vllm sglang trtllm"},
	{"a command of its own", `"e" {`, "\"e\" {\n  command = [\"serve2\"]", "vllm sglang trtllm sim"},
	{"a server more", `url     = "http://192.0.2.1:8000"`, `urls = ["http://192.0.2.1:8000", "http://192.0.2.2:8000"]`, "external"},
	{"what it builds", `"e" {`, "\"e\" {\n  build {\n    commands = [\"make\"]\n    output = \"/e\"\n  }", "trtllm"},
	{"held clocks", `price_per_hour = 20`, "prepare { lock_clocks = 1500 }", "vllm sglang trtllm openai"},
	{"a power cap", `price_per_hour = 20`, "prepare { power_cap = 500 }", "vllm sglang trtllm openai"},
	{"the server", `192.0.2.1:8000`, `192.0.2.2:8000`, "external"},
	{"the server's port", `192.0.2.1:8000`, `192.0.2.1:8001`, "external"},
	{"the prompts' length", `input_tokens = 128`, `input_tokens = 129`, ""},
	{"the seed", `seed         = 1`, `seed = 2`, ""},
	{"the requests", `= 100`, `= 200`, ""},
	{"the concurrency", `[4]`, `[5]`, ""},
	{"the answers' length", `= 64`, `= 65`, ""},
	{"the timeout", `"10m"`, `"20m"`, ""},
	{"a header", `"bench"`, `"other"`, ""},
	{"an open loop", `output_tokens = 64`, "output_tokens = 64\n    rate = 5", ""},
	{"a ramp", `output_tokens = 64`, "output_tokens = 64\n    ramp = \"2s\"", ""},
	{"the endpoint", `output_tokens = 64`, "output_tokens = 64\n    endpoint = \"chat\"", ""},
	{"the temperature", `output_tokens = 64`, "output_tokens = 64\n    temperature = 0.5", ""},
	{"adapters", `output_tokens = 64`, "output_tokens = 64\n    adapters = { sql = 0.5 }", ""},
	{"answers may end", `output_tokens = 64`, "output_tokens = 64\n    ignore_eos = false", ""},
	{"answers whole", `output_tokens = 64`, "output_tokens = 64\n    stream = false", ""},
	{"something else in the body", `output_tokens = 64`, "output_tokens = 64\n    extra_body = { top_k = 5 }", ""},
	{"warm-up requests", `output_tokens = 64`, "output_tokens = 64\n    warmup_requests = 3", ""},
	{"lengths that vary", `input_tokens = 128`, "input_tokens = 128\n  range_ratio = 0.5", ""},
	{"sent from elsewhere", `output_tokens = 64`, "output_tokens = 64\n    from = host.client", "vllm sglang trtllm"},
}

// TestEqualByAxis: engines that an axis turns without making them others have ids of
// their own, and keep their numbers when the axis changes.
func TestEqualByAxis(t *testing.T) {
	of := func(argument, values string) *hcl.Config {
		return editedBy(t, engines.VLLM, `"e" {`, "\"e\" {\n"+argument, `{ concurrency = [4] }`, "{\nconcurrency = [4]\nx = "+values+"\n}")
	}
	for _, tt := range [][3]string{
		{"compile_cache = matrix.x", `["/a", "/b", "/c"]`, `["/c", "/b", "/a"]`},
		{"port = matrix.x", `[8001, 8002, 8003]`, `[8003, 8002, 8001]`},
	} {
		p := New(of(tt[0], tt[1]), Options{})
		ids := map[string]bool{}
		for _, d := range p.Deployments {
			ids[d.ID], ids[d.Cells[0].ID] = true, true
		}
		if len(p.Deployments) != 3 || len(ids) != 6 {
			t.Errorf("%s: %d deployments with %d ids", tt[0], len(p.Deployments), len(ids))
		}
		known := measured(p)
		if n := New(of(tt[0], tt[1]), Options{Known: known}).Count(); n.Done != 3 {
			t.Errorf("%s: measured, and then %+v", tt[0], n)
		}
		if n := New(of(tt[0], tt[2]), Options{Known: known}).Count(); n.Done != 3 {
			t.Errorf("%s: measured, turned around, and then %+v", tt[0], n)
		}
	}
}

// TestEditsOfOffline: how the engine's own benchmark starts is part of what an offline
// cell is, and how requests are sent is not.
func TestEditsOfOffline(t *testing.T) {
	of := func(old, new string) *Plan {
		return New(editedBy(t, engines.VLLM, `benchmark "b" {`, "benchmark \"b\" {\nmode = \"offline\"", old, new), Options{})
	}
	known := measured(of("nothing", ""))
	for _, e := range []struct {
		old, new string
		want     Status
	}{
		{`"e" {`, "\"e\" {\n version = \"0.11.0\"", Done},
		{`"e" {`, "\"e\" {\n version = \"0.6.0\"", Stale},
		{`"e" {`, "\"e\" {\n offline_command = [\"bench\"]", Stale},
		{`"10m"`, `"5m"`, Done},
		{`"bench"`, `"other"`, Done},
		{`concurrency   = matrix`, `rate = matrix`, Done},
		{`output_tokens = 64`, "output_tokens = 64\n stream = false", Done},
		{`output_tokens = 64`, "output_tokens = 64\n endpoint = \"chat\"", Done},
		{`output_tokens = 64`, "output_tokens = 64\n temperature = 1", Done},
	} {
		p := of(e.old, e.new)
		p.compare(Options{Known: known})
		if c := p.Deployments[0].Cells[0]; c.Status != e.want {
			t.Errorf("with %q: %s, want %s (%s)", e.new, c.Status, e.want, c.Why)
		}
	}
}

// TestTableOfEdits reads the lab, measures it, edits its text, reads it again, and says
// whether its first cell is still up to date.
func TestTableOfEdits(t *testing.T) {
	for _, kind := range engines.Kinds() {
		lab := strings.NewReplacer("ENGINE", editedEngines[kind], "KIND", kind).Replace(editedLab)
		known := measured(New(readLab(t, lab), Options{}))
		done := func(e edit) bool {
			text := lab
			if from, to, ok := strings.Cut(strings.TrimPrefix(e.kinds, "rename "), " to "); ok {
				text = strings.ReplaceAll(text, strings.ReplaceAll(from, "KIND", kind), strings.ReplaceAll(to, "KIND", kind))
			}
			if !strings.Contains(text, e.old) {
				t.Errorf("%s, %s: the lab has no %q", kind, e.what, e.old)
			}
			return New(readLab(t, strings.ReplaceAll(text, e.old, e.new)), Options{Known: known}).Deployments[0].Cells[0].Status == Done
		}
		of := func(e edit) bool {
			return e.kinds == "" || strings.HasPrefix(e.kinds, "rename ") || strings.Contains(e.kinds, kind)
		}
		for _, e := range harmless {
			if of(e) && !done(e) {
				t.Errorf("%s, %s: measured again for nothing", kind, e.what)
			}
		}
		for _, e := range changes {
			if of(e) && done(e) {
				t.Errorf("%s, %s: the old number is kept", kind, e.what)
			}
		}
	}
}
