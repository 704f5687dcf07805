package engines

import (
	"slices"
	"strings"
	"testing"

	"hclbench/provision"
)

// TestFlagMistakes: a mistake is a name that the engine's server does not take, a value of a
// switch, or none where one belongs.
func TestFlagMistakes(t *testing.T) {
	for _, tt := range []struct {
		kind, image string
		flags       []string
		want        string // what is said, and of which flag; empty: nothing
	}{
		{VLLM, "a:1", []string{"max-num-seqs=64", "max_num_seqs=256"}, ""}, // see TestTwoNames
		{VLLM, "a:1", []string{"lora-modules=a=/a", "lora-modules=b=/b"}, ""},
		{VLLM, "a:1", []string{"compilation-config.level=3", "compilation-config.backend=x"}, ""},
		{SGLang, "a:1", []string{"tp_size=8"}, "tp_size: An engine of kind \"sglang\" reads names of flags exactly as they are, and has no tp_size. Write tp-size."},
		{TRTLLM, "a:1", []string{"tp-size=8"}, "has no tp-size. Write tp_size."},
		{VLLM, "a:1", []string{"enable-expert-parallel=true"}, "enable-expert-parallel: The flag enable-expert-parallel is a switch"},
		{VLLM, "a:1", []string{"trust-remote-code=yes"}, "is a switch"},
		{VLLM, "a:1", []string{"tensor-parallel-size"}, "The flag tensor-parallel-size takes a value"},
		{VLLM, "vllm/vllm-openai:v0.6.4", []string{"enable-chunked-prefill=false"}, ""}, // it took a word then
		{VLLM, "a:1", []string{"enable-chunked-prefill=false"}, ""},                     // and may be as old
		{VLLM, "vllm/vllm-openai:v0.11.0", []string{"enable-chunked-prefill=false"}, "is a switch"},
		{VLLM, "a:1", []string{"new-flag=1", "another"}, ""},
		{VLLM, "a:1", []string{"prefill-context-parallel-size=0"}, "counts GPUs"},
		{SGLang, "a:1", []string{"dp=3", "enable-dp-attention", "tp=8"}, "dp: With attention in data parallel the 3 ranks share the GPUs of tensor parallel, and 8"},
		{SGLang, "a:1", []string{"dp=4", "enable-dp-attention", "tp=8"}, ""},
		{SGLangRouter, "a:1", []string{"worker_startup_timeout_secs=600"}, "Write worker-startup-timeout-secs"},
	} {
		e := &Engine{Kind: tt.kind, Image: tt.image, Placement: On(host("8xH200")), Model: r1, Flags: flagsOf(tt.flags...), Router: tt.kind == SGLangRouter}
		var said []string
		for _, f := range Check(e) {
			said = append(said, f.Key+": "+f.Detail)
		}
		got := strings.Join(said, "\n")
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) || len(said) > 1 {
			t.Errorf("%s %v: %q, want %q", tt.kind, tt.flags, got, tt.want)
		}
	}
}

// TestTwoNames: of a flag that is said by two names the last holds, as on a command line, and that is told.
func TestTwoNames(t *testing.T) {
	for _, tt := range []struct {
		kind  string
		flags []string
		want  string
		gpus  int
	}{
		{VLLM, []string{"max-num-seqs=64", "max_num_seqs=256"}, "max_num_seqs: max-num-seqs and max_num_seqs are two names of one flag, and the engine takes the last", 1},
		{SGLang, []string{"tensor-parallel-size=4", "tp=8"}, "tp: tensor-parallel-size and tp are two names of one flag, and the engine takes the last on its command line, where they stand by name: tp. Remove one.", 8},
		{VLLM, []string{"enable-prefix-caching", "no-enable-prefix-caching"}, "no-enable-prefix-caching: enable-prefix-caching and no-", 1},
		{VLLM, []string{"served-model-name=a", "served-model-name=b"}, "", 1},
		{VLLM, []string{"lora-modules=a=/a", "lora-modules=b=/b"}, "", 1},
		{VLLM, []string{"compilation-config.level=3", "compilation-config.backend=x"}, "", 1},
		{Sim, []string{"ttft=1", "TTFT=2"}, "", 1},
	} {
		e := &Engine{Kind: tt.kind, Placement: On(&provision.Host{Name: "h"}), Model: r1, Flags: flagsOf(tt.flags...)}
		got := ""
		for _, f := range Doubts(e) {
			got += f.Key + ": " + f.Detail
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || tt.kind != Sim && GPUs(e) != tt.gpus {
			t.Errorf("%s %v: %q with %d GPUs, want %q with %d", tt.kind, tt.flags, got, GPUs(e), tt.want, tt.gpus)
		}
	}
	if got := ServedModel(&Engine{Kind: VLLM, Flags: flagsOf("served-model-name=a", "served-model-name=b")}); got != "a" {
		t.Errorf("it is served as %q, want a", got)
	}
}

// TestGPUsCounted: all that multiplies GPUs counts, by whichever name; beside a command or a build nothing tells.
func TestGPUsCounted(t *testing.T) {
	for _, tt := range []struct {
		kind   string
		flags  []string
		change func(e *Engine)
		asked  int
		used   int
	}{
		{VLLM, []string{"tensor-parallel-size=4", "prefill-context-parallel-size=2"}, nil, 8, 8},
		{VLLM, []string{"tensor-parallel-size=4", "decode-context-parallel-size=2"}, nil, 4, 4},
		{TRTLLM, []string{"tp_size=2", "cp_size=2"}, nil, 4, 4},
		{TRTLLM, []string{"tensor_parallel_size=2", "context_parallel_size=2"}, nil, 4, 4},
		{SGLang, []string{"tp=4", "attn-cp-size=2"}, nil, 4, 4},
		{SGLang, []string{"tp=4", "data-parallel-size=2"}, nil, 8, 8},
		{SGLang, []string{"tp=4", "dp=2", "enable-dp-attention"}, nil, 4, 4},
		{SGLang, []string{"tp=4", "attn-dp-size=2"}, nil, 4, 4},
		{VLLM, nil, func(e *Engine) { e.Command = commandOf("vllm", "serve", "--tensor-parallel-size", "8") }, 1, 8},
		{VLLM, nil, func(e *Engine) { e.Command, e.Placement[0].GPUIDs = commandOf("vllm"), []string{"0", "1"} }, 1, 2},
		{TRTLLM, nil, func(e *Engine) { e.Build = &Build{Output: "/x"} }, 1, 8},
		{VLLM, nil, nil, 1, 1},
	} {
		e := &Engine{Kind: tt.kind, Placement: On(host("8xH200")), Model: r1, Flags: flagsOf(tt.flags...)}
		if tt.change != nil {
			tt.change(e)
		}
		if asked, used := GPUs(e), GPUsUsed(e); asked != tt.asked || used != tt.used {
			t.Errorf("%s %v: asks for %d and uses %d, want %d and %d", tt.kind, tt.flags, asked, used, tt.asked, tt.used)
		}
	}
}

// TestOfflineNames: trtllm-bench is given what the server is given, by whichever of its names.
func TestOfflineNames(t *testing.T) {
	e := &Engine{Kind: TRTLLM, Image: "a:1", Placement: On(host("8xH200")), Model: r1,
		Flags: flagsOf("free_gpu_memory_fraction=0.8", "moe_expert_parallel_size=8", "tensor_parallel_size=8")}
	b, err := Offline(e, Batch{Requests: 1, Kind: Random, InputTokens: 1, OutputTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(wordsOf(b.Container), " ")
	for _, want := range []string{"--tp 8", "--ep 8", "--kv_cache_free_gpu_mem_fraction 0.8"} {
		if !strings.Contains(words, want) {
			t.Errorf("%s is not in %s", want, words)
		}
	}
	e.Flags = flagsOf("host=0.0.0.0", "kv_cache_dtype=fp8", "tokenizer=/x")
	if b, err = Offline(e, b.Batch); err != nil || !slices.Equal(b.Dropped, []string{"kv_cache_dtype"}) {
		t.Errorf("it drops %v, %v", b.Dropped, err)
	}
	e.Flags = flagsOf("cp_size=2", "tp_size=4")
	if _, err = Offline(e, b.Batch); err == nil || !strings.Contains(err.Error(), "no prefill context parallel: remove the flag cp_size") {
		t.Errorf("with cp_size: %v", err)
	}
	e = &Engine{Kind: VLLM, Image: "vllm/vllm-openai:v0.20.0", Placement: On(host("8xH200")), Model: r1,
		Flags: flagsOf("enable-log-outputs", "log-error-stack", "tool-server=demo", "uds=/x", "max-num-seqs=4")}
	if b, err = Offline(e, b.Batch); err != nil {
		t.Fatal(err)
	}
	if words = strings.Join(wordsOf(b.Container), " "); !strings.HasSuffix(words, "--max-num-seqs 4") || strings.Contains(words, "tool-server") {
		t.Errorf("the benchmark of vLLM is run as %s", words)
	}
}

// TestRouterListens: TensorRT-LLM's router has no flags for where it listens, its file has.
func TestRouterListens(t *testing.T) {
	e := groups()["trtllm"]
	e.recipe(Route).Flags = flagsOf("host=0.0.0.0")
	members := Members(e)
	r := members[len(members)-1].Engine
	c := Container(r)
	if words := strings.Join(wordsOf(c), " "); strings.Contains(words, "--host") {
		t.Errorf("it is run as %s", words)
	}
	if file := c.Files[0].Text.Reveal(); !strings.Contains(file, `"hostname":"0.0.0.0"`) {
		t.Errorf("its file says %s", file)
	}
	e = groups()["trtllm"]
	e.recipe(Route).Config = provision.Plain(`{"hostname": "0.0.0.0"}`)
	from := &provision.Host{Name: "client", Address: "10.9.9.9"}
	if urls, err := RemoteURLs(e, from); err != nil {
		t.Errorf("RemoteURLs of one that listens by its file: %v, %v", urls, err)
	}
}

// TestServedName: the name under which TensorRT-LLM lists its model is that of its flags.
func TestServedName(t *testing.T) {
	e := &Engine{Kind: TRTLLM, Model: r1, Flags: flagsOf("served_model_name=r1")}
	if got := ServedModel(e); got != "r1" {
		t.Errorf("ServedModel = %q, want r1", got)
	}
}

// TestNoConfig: only a kind that reads a file is given one.
func TestNoConfig(t *testing.T) {
	for kind, reads := range map[string]bool{SGLangRouter: false, VLLMRouter: false, TRTLLMRouter: true, Sim: false, VLLM: true} {
		e := &Engine{Kind: kind, Image: "a:1", Placement: On(host("8xH200")), Model: r1, Config: provision.Plain(`{"x": 1}`), Router: strings.HasSuffix(kind, "router")}
		refused := slices.ContainsFunc(Check(e), func(f FieldError) bool { return f.Field == "config" })
		if refused == reads {
			t.Errorf("config of %s is refused: %v", kind, refused)
		}
	}
}

// TestSettle: false turns off what the engine does without being told, where it can be.
func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		kind, image, name string
		want              string // "": left out; "?": a doubt
	}{
		{VLLM, "vllm/vllm-openai:v0.11.0", "enable-prefix-caching", "no-enable-prefix-caching"},
		{VLLM, "vllm/vllm-openai:v0.11.0", "enable_chunked_prefill", "no-enable-chunked-prefill"},
		{VLLM, "a:1", "enable-chunked-prefill", "no-enable-chunked-prefill"},
		{VLLM, "vllm/vllm-openai:v0.6.4", "enable-chunked-prefill", "enable-chunked-prefill=false"},
		{VLLM, "vllm/vllm-openai:v0.6.0", "enable-prefix-caching", ""}, // off by itself then
		{VLLM, "vllm/vllm-openai:v0.11.0", "trust-remote-code", ""},
		{VLLM, "a:1", "enable-prefix-caching", "no-enable-prefix-caching"},
		{VLLM, "a:1", "no-enable-prefix-caching", ""},
		{VLLM, "a:1", "max-num-seqs", ""}, // the value of an axis that leaves it out
		{VLLM, "a:1", "new-flag", ""},
		{VLLM, "vllm/vllm-openai:v0.7.3", "use-v2-block-manager", "?"},
		{SGLang, "a:1", "enable-metrics", ""},
		{SGLang, "a:1", "enable-lora", "?"},
		{Sim, "", "enable-prefix-caching", ""},
	} {
		e := &Engine{Kind: tt.kind, Image: tt.image, Flags: []Flag{{Name: tt.name, Off: true}}}
		doubts := Settle(e)
		got := ""
		if len(e.Flags) > 0 {
			if got = e.Flags[0].Name; e.Flags[0].Value != nil {
				got += "=" + e.Flags[0].Value.Reveal()
			}
		}
		if doubts != nil {
			got = "?"
		}
		if got != tt.want {
			t.Errorf("%s %s: %s = false becomes %q, want %q", tt.kind, tt.image, tt.name, got, tt.want)
		}
	}
}

// TestHiddenGPUs: GPUs that a variable keeps from the engine are told of.
func TestHiddenGPUs(t *testing.T) {
	e := &Engine{Kind: VLLM, Image: "a:1", Placement: On(host("8xH200")), Model: r1, Flags: flagsOf("tensor-parallel-size=8"),
		Env: []provision.EnvVar{{Name: "CUDA_VISIBLE_DEVICES", Value: provision.Plain("0,1")}}}
	if found := Doubts(e); len(found) != 1 || found[0].Field != "env" || !strings.Contains(found[0].Detail, "gpu_ids") {
		t.Errorf("Doubts = %v", found)
	}
}

// TestRouterFlags: what a router's makers do not know is told as of an engine.
func TestRouterFlags(t *testing.T) {
	e := &Engine{Kind: SGLangRouter, Image: "lmsysorg/sgl-model-gateway:v0.3.2", Placement: On(host("8xH200")), Router: true,
		Flags: flagsOf("policy=least_loaded", "prefill-policy=bucket")}
	if found := Doubts(e); len(found) != 1 || !strings.Contains(found[0].Detail, "There are: random, round_robin, cache_aware, power_of_two, manual.") {
		t.Errorf("Doubts = %v", found)
	}
}
