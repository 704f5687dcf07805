package engines

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/testhost/golden"
)

func host(gpus string) *provision.Host {
	g, err := provision.ParseGPUs(gpus)
	if err != nil {
		panic(err)
	}
	return &provision.Host{Name: "box", Address: "203.0.113.7", GPUs: g, Pos: "lab.hcl:3"}
}

// alone is one instance on a host, on a port and with GPUs of its own.
func alone(h *provision.Host, port int, ids ...string) Placement {
	return Placement{{Hosts: []*provision.Host{h}, Port: port, GPUIDs: ids}}
}

// processHost is a rented box that is itself a container, or a pod.
func processHost(c *provision.Cluster) *provision.Host {
	h := host("8xH200")
	h.Runtime, h.Cluster = provision.Process, c
	return h
}

func value(s string) *provision.Text {
	t := provision.Plain(s)
	return &t
}

// flagsOf are flags written as "name=value" or "name".
func flagsOf(words ...string) []Flag {
	var out []Flag
	for _, w := range words {
		f := Flag{Name: w}
		if name, v, said := strings.Cut(w, "="); said {
			f = Flag{Name: name, Value: value(v)}
		}
		out = append(out, f)
	}
	return out
}

func commandOf(words ...string) []provision.Text { return plainWords(words) }

var r1 = &Model{Name: "r1", Repo: "deepseek-ai/DeepSeek-R1", Revision: "56d4cbb", Cache: "/data/huggingface"}

// TestContainer holds the container of each engine kind on each GPU vendor
// against the docker run line that a person can compare with the engines' own
// installation pages.
func TestContainer(t *testing.T) {
	token := []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("hf_canary")}}
	yes, files := true, int64(1<<20)
	cases := map[string]*Engine{
		"sglang-nvidia": {Kind: SGLang, Placement: On(host("8xH200")), Model: r1, Image: "lmsysorg/sglang:v0.4.3.post2-cu124", Env: token,
			Flags: flagsOf("enable-dp-attention", "tp=8", "trust-remote-code")},
		"sglang-amd": {Kind: SGLang, Placement: On(host("8xMI300X")), Model: r1, Image: "rocm/sglang-staging:20250212", Env: token,
			Flags: flagsOf("tp=8")},
		"vllm-nvidia": {Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.7.3", Env: token,
			Flags: flagsOf("tensor-parallel-size=8")},
		"vllm-nvidia-download": {Kind: VLLM, Placement: On(host("8xH200")), Image: "vllm/vllm-openai:v0.7.3",
			Model: &Model{Name: "r1", Repo: "deepseek-ai/DeepSeek-R1", Cache: "/data/huggingface", Download: true}},
		"vllm-nvidia-setup": {Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.7.3",
			Setup: []string{"pip uninstall -y vllm", "pip install vllm --pre"}, APIKey: provision.Secret("canary"), Flags: []Flag{{Name: "api-key", Value: func() *provision.Text { s := provision.Secret("canary"); return &s }()}}},
		"vllm-nvidia-subset": {Kind: VLLM, Placement: alone(host("8xH200"), 8001, "0", "1"), Model: r1, Image: "vllm/vllm-openai:v0.7.3",
			Container: ContainerSettings{ShmSize: 32e9, StopGrace: 120e9, Ulimits: []Ulimit{{"memlock", nil}, {"nofile", &files}}}},
		"vllm-amd": {Kind: VLLM, Placement: On(host("8xMI300X")), Model: r1, Image: "rocm/vllm-dev:vllm-ds3-staging-0217",
			Env:       []provision.EnvVar{{Name: "VLLM_FP8_PADDING", Value: provision.Plain("0")}},
			Flags:     flagsOf("max-model-len=32768"),
			Container: ContainerSettings{Privileged: &yes, CapAdd: []string{"SYS_PTRACE", "IPC_LOCK"}, Devices: []string{"/dev/infiniband"}}},
		"vllm-amd-subset": {Kind: VLLM, Placement: alone(host("8xMI300X"), 0, "4", "5"), Model: r1, Image: "rocm/vllm-dev:x"},
		"trtllm-nvidia": {Kind: TRTLLM, Placement: On(host("8xH200")), Model: &Model{Repo: "/data/models/DeepSeek-R1"}, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
			Flags: flagsOf("backend=pytorch", "ep_size=4", "tp_size=8")},
		"vllm-compile-cache": {Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.11.0", CompileCache: "~/.cache/hcl/compiled",
			Env: []provision.EnvVar{{Name: "TRITON_CACHE_DIR", Value: provision.Plain("/tmp/triton")}}},
		"trtllm-config": {Kind: TRTLLM, Placement: On(host("8xH200")), Model: &Model{Repo: "/data/models/DeepSeek-R1"}, Image: "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
			Config: provision.Partly(`{"stream_interval": 10, "key": "canary"}`, `{"stream_interval": 10, "key": "(sensitive)"}`, []string{"canary"})},
		"openai-nvidia": {Kind: OpenAI, Placement: alone(host("1xH200"), 9000), Image: "registry.example.com/server:1.2",
			Command: commandOf("/serve", "--listen=127.0.0.1:9000")},
		"vllm-cpu": {Kind: VLLM, Placement: On(host("")), Model: r1, Image: "vllm/vllm-openai:v0.7.3"},
		"entrypoint": {Kind: VLLM, Placement: On(host("")), Model: r1, Image: "vllm/vllm-openai:v0.7.3",
			Container: ContainerSettings{Entrypoint: []string{"numactl", "--interleave=all"}, Network: "bridge", IPC: "private"}},
	}
	for name, e := range cases {
		t.Run(name, func(t *testing.T) {
			e.Name = "box"
			if errs := Check(e); len(errs) > 0 {
				t.Fatalf("Check = %v", errs)
			}
			got := strings.ReplaceAll(docker.Run(Container(e)), " --", " \\\n  --") + "\n"
			if strings.Contains(got, "canary") {
				t.Errorf("a secret is shown:\n%s", got)
			}
			golden.Check(t, name+".golden", got)
		})
	}
}

// TestGPUsOfProcesses: where no container keeps other GPUs from an engine, variables do.
func TestGPUsOfProcesses(t *testing.T) {
	of := func(gpus string, c *provision.Cluster, ids ...string) *Engine {
		h := host(gpus)
		h.Runtime, h.Cluster = provision.Process, c
		return &Engine{Kind: VLLM, Placement: alone(h, 0, ids...), Model: r1, Image: "vllm/vllm-openai:v0.11.0"}
	}
	cuda := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=4,5"}
	for name, c := range map[string]struct {
		of   *Engine
		want []string
	}{
		"process":        {of("8xH200", nil, "4", "5"), cuda},
		"pod":            {of("8xH200", new(provision.Cluster), "4", "5"), cuda},
		"process of AMD": {of("8xMI300X", nil, "4", "5"), []string{"HIP_VISIBLE_DEVICES=4,5"}},
		"all":            {of("8xH200", nil), nil},
	} {
		var got []string
		for _, v := range Container(c.of).Env {
			if strings.Contains(v.Name, "DEVICE") {
				got = append(got, v.Name+"="+v.Value.String())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// A group of processes on one host: each instance has its own.
	e := groups()["one-host"]
	seen := map[string]string{}
	for _, h := range e.Placement.Hosts() {
		h.Runtime = provision.Process
	}
	for _, m := range Members(e) {
		for _, v := range Container(m.Engine).Env {
			if v.Name == visibleCUDA {
				seen[m.Name()] = v.Value.String()
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"prefill 0": "0,1,2,3", "decode 0": "4,5,6,7"}, seen); diff != "" {
		t.Errorf("a group's GPUs (-want +got):\n%s", diff)
	}
}

// TestWithoutRDMA: where the lab says that there is none, what finds devices all the same is told so.
func TestWithoutRDMA(t *testing.T) {
	for name, want := range map[string]string{
		"sglang-wide": "NCCL_IB_DISABLE=1", "vllm-said": "NCCL_IB_DISABLE=1 UCX_TLS=^ib", "vllm-mooncake": "MC_FORCE_TCP=1 NCCL_IB_DISABLE=1",
	} {
		e := groups()[name]
		for _, h := range e.Placement.Hosts() {
			h.Fabric.RDMA = []string{}
		}
		for _, m := range Members(e) {
			var got []string
			for _, v := range m.Engine.Env {
				if v.Name == "NCCL_IB_DISABLE" || v.Name == "UCX_TLS" || v.Name == "MC_FORCE_TCP" {
					got = append(got, v.Name+"="+v.Value.String())
				}
			}
			if m.Role != Route && strings.Join(got, " ") != want {
				t.Errorf("%s, %s: %q, want %q", name, m.Name(), got, want)
			}
		}
	}
}

// TestSetupRevealsSecretsToTheShell: what is shown hides the secret, what runs
// has it, quoted.
func TestSetupRevealsSecretsToTheShell(t *testing.T) {
	key := provision.Secret("it's a key")
	ct := Container(&Engine{Kind: SGLang, Placement: On(host("")), Model: r1, Image: "lmsysorg/sglang:v0.4.3", Setup: []string{"true"}, Flags: []Flag{{Name: "api-key", Value: &key}}})
	script := ct.Command[1]
	if got := script.String(); !strings.HasSuffix(got, "'--api-key' (sensitive)") || strings.Contains(got, "a key") {
		t.Errorf("the script shows as %q", got)
	}
	if got := script.Reveal(); !strings.HasSuffix(got, `'--api-key' 'it'\''s a key'`) || !strings.HasPrefix(got, "set -e\ntrue\nexec 'python3' '-m'") {
		t.Errorf("the script is %q", got)
	}
}

// TestSecretFlags: they go into the configuration file where the engine reads one,
// and stay where it does not.
func TestSecretFlags(t *testing.T) {
	key, more := provision.Secret("canary"), provision.Secret("an\"other")
	flags := []Flag{{Name: "api-key", Value: &key}, {Name: "api-key", Value: &more}, {Name: "hf-token", Value: &key}, {Name: "tp", Value: value("8")}}
	for image, want := range map[string]string{
		"lmsysorg/sglang:v0.5.12": "--config /hcl/config.yaml --tp 8",
		"lmsysorg/sglang:v0.4.3":  "--api-key (sensitive) (sensitive) --hf-token (sensitive) --tp 8",
	} {
		e := &Engine{Kind: SGLang, Placement: On(host("")), Model: r1, Image: image, Flags: flags}
		if strings.HasSuffix(image, ".12") {
			e.Config = provision.Partly(`{"hf-token": "old", "rate": 0.0000001, "secret": "hush"}`, `{"hf-token": "old", "rate": 0.0000001, "secret": "(sensitive)"}`, []string{"hush"})
		}
		ct := Container(e)
		var words []string
		for _, w := range ct.Command {
			words = append(words, w.String())
		}
		if got := strings.Join(words, " "); !strings.HasSuffix(got, " "+want) {
			t.Errorf("with %s the command is %s, want %s at its end", image, got, want)
		}
		if e.Config.Reveal() == "" {
			if len(ct.Files) != 0 {
				t.Errorf("with %s there are files: %v", image, ct.Files)
			}
			continue
		}
		const file = `{
  "api-key": [
    "KEY",
    "OTHER"
  ],
  "hf-token": "KEY",
  "rate": 0.0000001,
  "secret": "HUSH"
}
`
		shown := strings.NewReplacer("KEY", provision.Redacted, "OTHER", provision.Redacted, "HUSH", provision.Redacted).Replace(file)
		clear := strings.NewReplacer("KEY", "canary", "OTHER", `an\"other`, "HUSH", "hush").Replace(file)
		if diff := cmp.Diff([]string{shown, clear}, []string{ct.Files[0].Text.String(), ct.Files[0].Text.Reveal()}); diff != "" {
			t.Errorf("the file (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{`an"other`, "canary", "hush"}, ct.Files[0].Text.Secrets()); diff != "" {
			t.Errorf("its secrets (-want +got):\n%s", diff)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		engine Engine
		fields string // of the errors, in order
		says   string // somewhere in their details
	}{
		"right":                 {Engine{Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.7.3"}, "", ""},
		"no image and no model": {Engine{Kind: VLLM, Placement: On(host("8xH200"))}, "image model", `image = "vllm/vllm-openai`},
		"trtllm on amd":         {Engine{Kind: TRTLLM, Placement: On(host("8xMI300X")), Model: r1, Image: "mine:1"}, "host", "NVIDIA GPUs only"},
		"nvidia image on amd":   {Engine{Kind: VLLM, Placement: On(host("8xMI300X")), Model: r1, Image: "vllm/vllm-openai:v0.7.3"}, "image", "vllm-openai-rocm"},
		"rocm image on nvidia":  {Engine{Kind: SGLang, Placement: On(host("8xH200")), Model: r1, Image: "rocm/sglang-staging:20250212"}, "image", "lmsysorg/sglang"},
		"own image on amd":      {Engine{Kind: VLLM, Placement: On(host("8xMI300X")), Model: r1, Image: "registry.example.com/vllm:1"}, "", ""},
		"too many gpus":         {Engine{Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "a:1", Flags: flagsOf("pipeline-parallel-size=2", "tensor-parallel-size=8")}, "flags", "ask for 16 GPUs"},
		"gpus of a subset":      {Engine{Kind: VLLM, Placement: alone(host("8xH200"), 0, "0", "1"), Model: r1, Image: "a:1", Flags: flagsOf("tensor-parallel-size=4")}, "flags", "gpu_ids names 2"},
		"two gpus in one":       {Engine{Kind: OpenAI, Placement: alone(host("8xH200"), 1, "0,1"), Image: "a:1", Command: commandOf("x")}, "container.gpu_ids", "is not one GPU"},
		"a range of gpus":       {Engine{Kind: OpenAI, Placement: alone(host(""), 1, "0-3"), Image: "a:1", Command: commandOf("x")}, "container.gpu_ids", "is not one GPU"},
		"gpus by uuid":          {Engine{Kind: OpenAI, Placement: alone(host("8xH200"), 1, "GPU-0a1b", "MIG-0a1b"), Image: "a:1", Command: commandOf("x")}, "", ""},
		"a container's settings of a process": {Engine{Kind: OpenAI, Placement: alone(processHost(nil), 1), Command: commandOf("x"),
			Container: ContainerSettings{ShmSize: 1, Mounts: []provision.Mount{{}}, User: "x"}}, "container.user container.shm_size container.mounts", "are processes and not containers"},
		"a container's settings of a pod": {Engine{Kind: OpenAI, Placement: alone(processHost(new(provision.Cluster)), 1), Image: "a:1", Command: commandOf("x"),
			Container: ContainerSettings{ShmSize: 1, Mounts: []provision.Mount{{}}, User: "x"}}, "container.user", "An engine in a pod"},
		"gpus said twice":        {Engine{Kind: OpenAI, Placement: alone(processHost(nil), 1, "0"), Command: commandOf("x"), Env: []provision.EnvVar{{Name: visibleCUDA}}}, "env", "Remove one of both"},
		"dp attention":           {Engine{Kind: SGLang, Placement: On(host("8xH200")), Model: r1, Image: "a:1", Flags: flagsOf("dp-size=8", "enable-dp-attention", "tp=8")}, "", ""},
		"port among the flags":   {Engine{Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "a:1", Flags: flagsOf("port=9000")}, "flags", "port = 9000"},
		"gpus of a config":       {Engine{Kind: TRTLLM, Placement: On(host("8xH200")), Model: r1, Image: "a:1", Config: provision.Plain(`{"tensor_parallel_size": 16}`)}, "config", "ask for 16 GPUs"},
		"config of an old image": {Engine{Kind: SGLang, Placement: On(host("8xH200")), Model: r1, Image: "lmsysorg/sglang:v0.4.3.post2-cu124", Config: provision.Plain(`{"a": 1}`)}, "config", "from version 0.5.3 on"},
		"config of a new image":  {Engine{Kind: SGLang, Placement: On(host("8xH200")), Model: r1, Image: "lmsysorg/sglang:v0.5.12", Config: provision.Plain(`{"tp_size": 1}`)}, "", ""},
		"relative compile cache": {Engine{Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "a:1", CompileCache: "compiled"}, "compile_cache", "is not a path on the host"},
		"no image's name":        {Engine{Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "https://docker.io/vllm/vllm-openai:v1"}, "image", "leave out https://"},
		"no name of a builder":   {Engine{Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "a:1", Build: &Build{Image: "a:1@sha256:0123", Commands: []string{"make"}, Output: "/out"}}, "build.image", "64 hexadecimal digits"},
		"openai":                 {Engine{Kind: OpenAI, Placement: On(host("8xH200")), Image: "a:1"}, "command port", "whole command"},
		"external":               {Engine{Kind: External}, "url", "url of the server"},
		"external, bad url":      {Engine{Kind: External, URL: "box:8000"}, "url", "is not the url"},
		"external, too much":     {Engine{Kind: External, URL: "http://box:8000", Image: "a:1", Placement: Placement{{Port: 1}}}, "image port", "Someone else runs"},
		"manifests":              {Engine{Kind: Operated}, "host files service", "one without GPUs"},
		"manifests on a machine": {Engine{Kind: Operated, Placement: alone(host(""), 1), URL: "http://x"}, "host files service port url", "objects are made in a cluster"},
		"sim with an image":      {Engine{Kind: Sim, Placement: On(host("")), Image: "a:1"}, "image", "part of the hcl binary"},
		"no host":                {Engine{Kind: VLLM, Model: r1, Image: "a:1"}, "host", "host = host.h200"},
		"url of a container":     {Engine{Kind: VLLM, Placement: On(host("")), Model: r1, Image: "a:1", URL: "http://x"}, "url", "started by hcl"},
	} {
		t.Run(name, func(t *testing.T) {
			var fields, details []string
			for _, e := range Check(&c.engine) {
				fields, details = append(fields, e.Field), append(details, e.Detail)
			}
			if got := strings.Join(fields, " "); got != c.fields {
				t.Errorf("fields = %q, want %q: %q", got, c.fields, details)
			}
			if got := strings.Join(details, "\n"); !strings.Contains(got, c.says) {
				t.Errorf("details = %q, want %q in them", got, c.says)
			}
		})
	}
}

// TestCompileCache: each image has a part of its own.
func TestCompileCache(t *testing.T) {
	for cache, want := range map[string]string{"/data/c": "/data/c/0123456789ab", "~/c/": "~/c/0123456789ab", "": ""} {
		e := &Engine{Kind: VLLM, Placement: On(host("8xH200")), Model: r1, Image: "a:1", CompileCache: cache}
		before := Container(e)
		c, at := CompileCache(e, before, "sha256:0123456789abcdef")
		if at != want {
			t.Errorf("of %q it is %q, want %q", cache, at, want)
		}
		if last := c.Mounts[len(c.Mounts)-1]; want != "" && (last.Source != want || last.Target != "/compile-cache") {
			t.Errorf("of %q, the last mount is %+v", cache, last)
		}
		if diff := cmp.Diff(Container(e).Mounts, before.Mounts); diff != "" {
			t.Errorf("the container that was given has changed:\n%s", diff)
		}
	}
	e := &Engine{Kind: VLLM, Placement: On(&provision.Host{Runtime: provision.Process}), Model: r1, CompileCache: "/data/c"}
	c, at := CompileCache(e, Container(e), "")
	if i := slices.IndexFunc(c.Env, func(v provision.EnvVar) bool { return v.Name == "VLLM_CACHE_ROOT" }); at != "/data/c" || i < 0 || c.Env[i].Value.Reveal() != "/data/c/vllm" {
		t.Errorf("of a process it is %q, with %v", at, c.Env)
	}
}

func TestServedModel(t *testing.T) {
	local := &Model{Repo: "/data/models/R1"}
	for _, c := range []struct {
		e    Engine
		want string
	}{
		{Engine{Kind: VLLM, Model: r1}, "deepseek-ai/DeepSeek-R1"},
		{Engine{Kind: VLLM, Model: r1, Flags: flagsOf("served-model-name=r1 other")}, "r1"},
		{Engine{Kind: SGLang, Model: local}, "/data/models/R1"},
		{Engine{Kind: TRTLLM, Model: local}, "R1"},
		{Engine{Kind: External}, ""},
		{Engine{Kind: Sim}, "sim"},
	} {
		if got := ServedModel(&c.e); got != c.want {
			t.Errorf("ServedModel(%s, %v) = %q, want %q", c.e.Kind, c.e.Model, got, c.want)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://box:8000":     "http://box:8000",
		"http://box:8000/":    "http://box:8000",
		"https://box/v1":      "https://box",
		"http://box:8000/v1/": "http://box:8000",
	} {
		if got := BaseURL(&Engine{Kind: External, URL: url}); got != want {
			t.Errorf("BaseURL(%s) = %s, want %s", url, got, want)
		}
	}
	if got, want := BaseURL(&Engine{Kind: SGLang}), "http://127.0.0.1:30000"; got != want {
		t.Errorf("BaseURL(sglang) = %s, want %s", got, want)
	}
}

func TestCacheReset(t *testing.T) {
	dev := []provision.EnvVar{{Name: "VLLM_SERVER_DEV_MODE", Value: provision.Plain("1")}}
	for _, c := range []struct {
		e    Engine
		want string // paths, what is kept, why it cannot
	}{
		{Engine{Kind: SGLang}, "/flush_cache||"},
		{Engine{Kind: SGLang, Flags: flagsOf("enable-hierarchical-cache", "hicache-storage-backend=file")}, "/flush_cache /hicache/storage-backend/clear||"},
		{Engine{Kind: SGLang, Version: "0.5.9", Flags: flagsOf("hicache-storage-backend=file")}, "/flush_cache /hicache/storage-backend/clear||"},
		{Engine{Kind: SGLang, Version: "0.5.8.post1", Flags: flagsOf("hicache-storage-backend=file")}, "/flush_cache /clear_hicache_storage_backend||"},
		{Engine{Kind: SGLang, Version: "0.5.2", Flags: flagsOf("hicache-storage-backend=file")}, "/flush_cache /clear_hicache_storage_backend||"},
		{Engine{Kind: SGLang, Version: "0.5.1.post3", Flags: flagsOf("hicache-storage-backend=file")}, "/flush_cache|HiCache keeps what it has stored, which SGLang drops from 0.5.2 on|"},
		{Engine{Kind: SGLang, Flags: flagsOf("enable-lmcache")}, "/flush_cache|LMCache keeps its own, which SGLang does not drop|"},
		{Engine{Kind: VLLM, Env: dev}, "/reset_prefix_cache||"},
		{Engine{Kind: VLLM, Env: dev, Flags: flagsOf(`kv-transfer-config={"kv_connector":"NixlConnector"}`)}, "/reset_prefix_cache||"},
		{Engine{Kind: VLLM, Env: dev, Flags: flagsOf("kv-transfer-config.kv_connector=OffloadingConnector")}, "/reset_prefix_cache?reset_external=true||"},
		{Engine{Kind: VLLM, Env: dev, Flags: flagsOf("kv-offloading-size=8")}, "/reset_prefix_cache?reset_external=true||"},
		{Engine{Kind: VLLM, Env: dev, Version: "0.12.0", Flags: flagsOf("kv-offloading-size=8")}, "/reset_prefix_cache|what it has put elsewhere stays before vLLM 0.13|"},
		{Engine{Kind: VLLM, Env: dev, Flags: flagsOf(`kv-transfer-config={"kv_connector":"LMCacheConnectorV1"}`)}, "/reset_prefix_cache|LMCache keeps its own, which vLLM does not drop|"},
		{Engine{Kind: VLLM, Env: dev, Flags: flagsOf(`kv-transfer-config={"kv_connector":"MultiConnector","kv_connector_extra_config":{"connectors":[{"kv_connector":"LMCacheConnectorV1"}]}}`)},
			"/reset_prefix_cache|LMCache keeps its own, which vLLM does not drop|"},
		{Engine{Kind: VLLM}, "||vllm offers it only with env VLLM_SERVER_DEV_MODE=1"},
		{Engine{Kind: TRTLLM}, "||trtllm has no request for it"},
	} {
		posts, kept, why := CacheReset(&c.e)
		if got := strings.Join(posts, " ") + "|" + kept + "|" + why; got != c.want {
			t.Errorf("CacheReset(%s) = %s, want %s", c.e.Kind, got, c.want)
		}
	}
}

// TestSimulated: a rehearsed engine serves what it stands for, and takes no
// secret along.
func TestSimulated(t *testing.T) {
	e := &Engine{Kind: VLLM, Name: "h200", Placement: On(host("8xH200")), Model: r1, Image: "vllm/vllm-openai:v0.7.3",
		Env: []provision.EnvVar{{Name: "HF_TOKEN", Value: provision.Secret("canary")}}, Flags: flagsOf("served-model-name=r1", "lora-modules=sql=/a", `lora-modules={"name": "chat", "path": "/b"}`, `lora_modules={"lora_name": "old", "lora_path": "/c"}`)}
	here := &provision.Host{Name: "box", Address: provision.LocalAddress}
	ct := Container(Simulated(e, func(*provision.Host) *provision.Host { return here }, 4711, 20))
	var words []string
	for _, w := range append(ct.Entrypoint, ct.Command...) {
		words = append(words, w.String())
	}
	got, want := strings.Join(words, " "), "hcl sim --model r1 --host 127.0.0.1 --port 4711 --as vllm --adapters sql,chat,old --speed 20"
	if got != want || len(ct.Env) != 0 {
		t.Errorf("Simulated runs %q with %v, want %q without environment", got, ct.Env, want)
	}
}

// TestExports: an engine that does not export is not asked.
func TestExports(t *testing.T) {
	enabled := flagsOf("enable-metrics")
	for name, c := range map[string]struct {
		e    Engine
		want string
	}{
		"vllm":              {Engine{Kind: VLLM}, "http://127.0.0.1:8000/metrics"},
		"sglang":            {Engine{Kind: SGLang}, ""},
		"sglang, told to":   {Engine{Kind: SGLang, Flags: enabled}, "http://127.0.0.1:30000/metrics"},
		"trtllm":            {Engine{Kind: TRTLLM}, "http://127.0.0.1:8000/metrics"},
		"simulated sglang":  {Engine{Kind: Sim, Placement: Placement{{Port: 1}}, Flags: flagsOf("as=sglang")}, "http://127.0.0.1:1/metrics"},
		"some other server": {Engine{Kind: OpenAI, Placement: Placement{{Port: 1}}}, ""},
	} {
		got := ""
		if x := Exports(&c.e); x != nil {
			got = x.URL
		}
		if got != c.want {
			t.Errorf("%s: Exports = %q, want %q", name, got, c.want)
		}
	}
}

func TestGPUsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		engine Engine
		want   int
	}{
		"of a host without any":  {Engine{Kind: VLLM, Placement: On(host(""))}, 0},
		"one is what vLLM takes": {Engine{Kind: VLLM, Placement: On(host("8xH200"))}, 1},
		"by its flags":           {Engine{Kind: VLLM, Placement: On(host("8xH200")), Flags: flagsOf("tensor-parallel-size=4")}, 4},
		"named":                  {Engine{Kind: VLLM, Placement: alone(host("8xH200"), 0, "0", "3")}, 2},
		"who knows":              {Engine{Kind: OpenAI, Placement: On(host("8xH200"))}, 8},
	} {
		if got := GPUsUsed(&c.engine); got != c.want {
			t.Errorf("%s: %d GPUs, want %d", name, got, c.want)
		}
	}
}
