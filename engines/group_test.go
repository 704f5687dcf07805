package engines

import (
	"bufio"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"hclbench/provision"
	"hclbench/telemetry"
	"hclbench/testhost/golden"
)

// nodes are hosts of one fabric, 10.0.0.1 and so on.
func nodes(gpus string, n int) []*provision.Host {
	var list []*provision.Host
	for i := range n {
		h := *host(gpus)
		gid := 3
		h.Name, h.Address = fmt.Sprintf("n%d", i), fmt.Sprintf("203.0.113.%d", i+1)
		h.Fabric = provision.Fabric{Address: fmt.Sprintf("10.0.0.%d", i+1), Interface: "eno1", RDMA: []string{"mlx5_0", "mlx5_1"}, GIDIndex: &gid}
		list = append(list, &h)
	}
	return list
}

// on is instances of span hosts each.
func on(span int, hosts ...*provision.Host) Placement {
	var list Placement
	for part := range slices.Chunk(hosts, span) {
		list = append(list, Instance{Hosts: part})
	}
	return list
}

// in is a recipe in instances that take a role.
func in(role string, recipe *Engine, on Placement) Placement {
	for i := range on {
		on[i].Role, on[i].Engine = role, recipe
	}
	return on
}

// group is roles, as of prefill and decode of one kind, behind a router, if there is one.
func group(router *Engine, transfer string, roles ...Placement) *Engine {
	if router != nil {
		roles = append(roles, in(Route, router, router.Placement))
	}
	return &Engine{Kind: GroupKind, Name: "pd", Transfer: transfer, Placement: slices.Concat(roles...)}
}

// groups are by name what members are made of.
func groups() map[string]*Engine {
	amd, h200, v6 := nodes("8xMI355X", 3), nodes("8xH200", 4), nodes("8xH200", 2)
	for i, h := range v6 {
		h.Fabric.Address = fmt.Sprintf("fd00::%d", i+1)
	}
	engine := func(kind, image string, flags ...string) *Engine {
		return &Engine{Kind: kind, Name: "e", Model: &Model{Name: "r1", Repo: "deepseek-ai/DeepSeek-R1"}, Image: image, Flags: flagsOf(flags...)}
	}
	router := func(kind string, h *provision.Host, flags ...string) *Engine {
		return &Engine{Kind: kind, Name: "router", Placement: On(h), Router: true, Image: "registry.example.com/router:1", Flags: flagsOf(flags...)}
	}
	wide := func(hosts []*provision.Host, e *Engine) *Engine { e.Placement = On(hosts...); return e }
	const mori = "rocm/sgl-dev:sglang-0.5.9-rocm720-mi35x-mori-0227-2"
	recipeA := []string{"attention-backend=aiter", "decode-log-interval=1000", "deepep-mode=normal", "dp-size=8", "enable-dp-attention", "enable-dp-lm-head",
		"ep-dispatch-algorithm=fake", "ep-size=8", "kv-cache-dtype=fp8_e4m3", "load-balance-method=round_robin", "log-level=warning", "max-running-requests=2048", "moe-a2a-backend=mori",
		"moe-dense-tp-size=1", "tp-size=8", "trust-remote-code", "watchdog-timeout=3600"}
	sorted := func(flags ...string) []string { return slices.Sorted(slices.Values(flags)) }
	graphs := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("cuda-graph-bs=%d", i+1))
		}
		return list
	}
	const b = "lmsysorg/sglang:v0.5.8.post1-cu130"
	const nixl = "registry.example.com/vllm:moreh"
	recipeC := []string{"data-parallel-size=8", "disable-uvicorn-access-log", "no-enable-log-requests", "served-model-name=deepseek-ai/DeepSeek-R1", "trust-remote-code", "enable-expert-parallel", "enforce-eager", "gpu-memory-utilization=0.92", "kv-cache-dtype=fp8_e4m3", "max-model-len=8192",
		"max-num-seqs=2048", "no-enable-chunked-prefill", "no-enable-prefix-caching", "quantization=ds_fp8_per_token", "tensor-parallel-size=1", "block-size=16"}
	recipeB := []string{"served-model-name=deepseek-ai/DeepSeek-R1", "skip-tokenizer-init", "trust-remote-code"}
	prefillB := []string{"attention-backend=flashinfer", "chunked-prefill-size=163840", "disable-radix-cache", "load-balance-method=round_robin",
		"max-prefill-tokens=163840", "max-running-requests=16", "mem-fraction-static=0.75"}
	decodeB := []string{"attention-backend=flashinfer", "cuda-graph-max-bs=256", "disable-radix-cache", "enable-dp-attention", "max-running-requests=256", "mem-fraction-static=0.88", "stream-interval=10"}
	split := h200[0]
	half := func(ids ...string) Placement { return alone(split, 0, ids...) }
	const eplb = `{"window_size":"1000","step_interval":"3000","num_redundant_experts":"32","log_balancedness":"False"}`
	const graphed = `{"pass_config":{"fuse_norm_quant":true,"eliminate_noops":true},"cudagraph_mode":"FULL_DECODE_ONLY"}`
	dep := func(flags ...string) *Engine {
		return engine(VLLM, "vllm/vllm-openai:v0.14.0", sorted(append(flags, "async-scheduling", "eplb-config="+eplb, "max-model-len=16384", "served-model-name=deepseek-ai/DeepSeek-R1", "data-parallel-hybrid-lb", "data-parallel-size=16", "dbo-decode-token-threshold=32",
			"enable-dbo", "enable-eplb", "enable-expert-parallel", "max-num-seqs=512", "tensor-parallel-size=1")...)...)
	}
	return map[string]*Engine{
		"recipe-a": group(router(SGLangRouter, amd[0], "cb-timeout-duration-secs=15", "decode-policy=random", "policy=random", "prefill-policy=random", "retry-max-retries=3"), "mori",
			in(Prefill, engine(SGLang, mori, slices.Concat(sorted(append(slices.Clone(recipeA), "chunked-prefill-size=65536", "disable-radix-cache", "mem-fraction-static=0.8")...), graphs(3))...), on(1, amd[0], amd[1])),
			in(Decode, engine(SGLang, mori, slices.Concat(sorted(append(slices.Clone(recipeA), "mem-fraction-static=0.85", "prefill-round-robin-balance")...), graphs(160))...), on(1, amd[2]))),
		"recipe-b": group(router(SGLangRouter, h200[0]), "nixl",
			in(Prefill, engine(SGLang, b, sorted(slices.Concat(recipeB, prefillB, []string{"dp-size=1", "ep-size=1", "tp-size=8"})...)...), on(1, h200[0])),
			in(Decode, engine(SGLang, b, sorted(slices.Concat(recipeB, decodeB, []string{"dp-size=8", "ep-size=8", "tp-size=8"})...)...), on(1, h200[1]))),
		"one-host": group(router(SGLangRouter, split), "nixl",
			in(Prefill, engine(SGLang, b, append(prefillB, "tp-size=4")...), half("0", "1", "2", "3")),
			in(Decode, engine(SGLang, b, append(decodeB, "tp-size=4")...), half("4", "5", "6", "7"))),
		"recipe-c": group(router(VLLMRouter, amd[0]), "nixl",
			in(Prefill, engine(VLLM, nixl, sorted(append(slices.Clone(recipeC), "max-num-batched-tokens=64000")...)...), on(1, amd[:2]...)),
			in(Decode, engine(VLLM, nixl, sorted(append(slices.Clone(recipeC), "max-num-batched-tokens=16384")...)...), on(1, amd[2]))),
		"recipe-d": group(router(VLLMRouter, h200[0]), "nixl",
			in(Prefill, dep("all2all-backend=deepep_high_throughput"), on(2, h200[:2]...)),
			in(Decode, dep("all2all-backend=deepep_low_latency", "compilation_config="+graphed), on(2, h200[2:]...))),
		"sglang-wide":  wide(nodes("8xMI300X", 2), engine(SGLang, mori, "dp-size=16", "enable-dp-attention", "tp-size=16")),
		"vllm-wide":    wide(nodes("8xH200", 2), engine(VLLM, "vllm/vllm-openai:v0.14.0", "pipeline-parallel-size=2", "tensor-parallel-size=8")),
		"own-replicas": group(nil, "", in(Serve, &Engine{Kind: OpenAI, Name: "e", Image: "registry.example.com/server:1", Command: commandOf("server")}, on(1, h200[:2]...))),
		"own-wide": {Kind: OpenAI, Name: "e", Image: "registry.example.com/server:1", Command: commandOf("server", "--all"),
			Placement: Placement{{Hosts: nodes("8xH200", 2), Port: 8000}}},
		"vllm-dp":     wide(nodes("8xH200", 2), engine(VLLM, "vllm/vllm-openai:v0.14.0", "data-parallel-size=16", "enable-expert-parallel")),
		"vllm-hybrid": wide(nodes("8xH200", 2), dep("all2all-backend=deepep_low_latency")),
		"vllm-mori": group(router(VLLMRouter, amd[0]), "mori",
			in(Prefill, engine(VLLM, "rocm/vllm:nightly", "tensor-parallel-size=8"), on(1, amd[0])),
			in(Decode, engine(VLLM, "rocm/vllm:nightly", "tensor-parallel-size=8"), on(1, amd[1]))),
		"vllm-p2p": group(router(VLLMRouter, amd[0]), "p2p_nccl",
			in(Prefill, engine(VLLM, "rocm/vllm:nightly"), on(1, amd[0])),
			in(Decode, engine(VLLM, "rocm/vllm:nightly", "kv-transfer-config.kv_buffer_size=2e9",
				"kv-transfer-config.kv_connector_extra_config.send_type=GET", "kv-transfer-config.kv_connector_extra_config.http_port=9000"), on(1, amd[1]))),
		"ipv6": group(router(VLLMRouter, v6[0]), "mori",
			in(Prefill, engine(VLLM, "vllm/vllm-openai:v0.14.0", "tensor-parallel-size=8"), on(1, v6[0])),
			in(Decode, engine(VLLM, "vllm/vllm-openai:v0.14.0", "tensor-parallel-size=8"), on(1, v6[1]))),
		"vllm-mooncake": group(router(VLLMRouter, h200[0]), "mooncake",
			in(Prefill, engine(VLLM, "vllm/vllm-openai:v0.14.0", "tensor-parallel-size=8"), on(1, h200[0])),
			in(Decode, engine(VLLM, "vllm/vllm-openai:v0.14.0", "tensor-parallel-size=8"), on(1, h200[1]))),
		"vllm-nixl-roles": group(router(VLLMRouter, h200[0]), "nixl",
			in(Prefill, engine(VLLM, "vllm/vllm-openai:v0.32.0", "tensor-parallel-size=8"), on(1, h200[0])),
			in(Decode, engine(VLLM, "vllm/vllm-openai:v0.32.0", "tensor-parallel-size=8"), on(1, h200[1]))),
		"vllm-said": group(router(VLLMRouter, amd[0]), "nixl",
			in(Prefill, engine(VLLM, nixl, `kv-transfer-config={"kv_load_failure_policy":"fail"}`, "tensor-parallel-size=8"), on(1, amd[0])),
			in(Decode, engine(VLLM, nixl, "tensor-parallel-size=8"), on(1, amd[1]))),
		"trtllm": group(router(TRTLLMRouter, h200[0]), "ucx",
			in(Prefill, engine(TRTLLM, "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "tp_size=8"), on(1, h200[0])),
			in(Decode, engine(TRTLLM, "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "tp_size=8"), on(1, h200[1]))),
		"replicas": group(router(SGLangRouter, h200[0]), "",
			in(Serve, engine(SGLang, b, "tp-size=8"), on(1, h200...))),
		"own-router": group(&Engine{Kind: OpenAI, Name: "router", Placement: alone(h200[0], 8192), Router: true, Image: "registry.example.com/proxy:1",
			Command: commandOf("sh", "-c", "exec proxy --prefill $HCL_PREFILL_URLS --decode $HCL_DECODE_URLS")}, "nixl",
			in(Prefill, engine(VLLM, nixl, "tensor-parallel-size=8"), on(1, h200[0])),
			in(Decode, engine(VLLM, nixl, "tensor-parallel-size=8"), on(1, h200[1]))),
	}
}

// TestMembers shows what each member of a group is run as, and what makes the group's identity.
func TestMembers(t *testing.T) {
	all := groups()
	places := map[*provision.Host]*provision.Host{}
	here := func(h *provision.Host) *provision.Host {
		if places[h] == nil {
			places[h] = &provision.Host{Name: "local", Address: provision.LocalAddress, Runtime: provision.Process}
			if h != nil {
				places[h].Name, places[h].GPUs = h.Name, h.GPUs
			}
		}
		return places[h]
	}
	for _, name := range []string{"recipe-a", "recipe-d", "vllm-wide", "sglang-wide", "trtllm", "replicas", "own-router"} {
		all["rehearsal-"+name] = Simulated(all[name], here, 25001, 20)
	}
	for name, e := range all {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, m := range Members(e) {
				c := Container(m.Engine)
				fmt.Fprintf(&b, "%s %d rank %d on %s", m.Role, m.Instance, m.Rank, m.Engine.Host().Name)
				if m.Answers {
					b.WriteString(", answers")
				}
				for _, p := range m.Ports {
					fmt.Fprintf(&b, ", %s %d", p.Name, p.Number)
					if p.Open {
						b.WriteString(" open")
					}
				}
				b.WriteString("\n")
				for _, v := range c.Env {
					fmt.Fprintf(&b, "  %s=%s\n", v.Name, v.Value)
				}
				fmt.Fprintf(&b, "  devices %v, capabilities %v, ulimits %v, GPUs %d %v\n", c.Devices, c.CapAdd, c.Ulimits, c.GPUs, c.GPUIDs)
				fmt.Fprintf(&b, "  %s\n", strings.Join(wordsOf(c), " "))
				for _, f := range c.Files {
					fmt.Fprintf(&b, "  %s: %s\n", f.Name, f.Text)
				}
			}
			fmt.Fprintf(&b, "requests go to %s %v\n", BaseURL(e), MoreURLs(e))
			pairs := Fingerprint(e)
			for _, name := range slices.Sorted(maps.Keys(pairs)) {
				fmt.Fprintf(&b, "  %s = %q\n", name, pairs[name])
			}
			golden.Check(t, "members-"+name+".golden", b.String())
		})
	}
}

func wordsOf(c provision.Container) []string {
	var words []string
	for _, w := range slices.Concat(c.Entrypoint, c.Command) {
		words = append(words, w.String())
	}
	return words
}

//go:embed testdata/recipes
var recipes embed.FS

// TestRecipes holds the commands of members against the published ones, flag by flag. What
// stands only in ours names ranks, addresses and ports, or turns something off that would
// hide a failure; what stands only in theirs hides what members do.
func TestRecipes(t *testing.T) {
	ours := strings.Fields(`--host --port --disaggregation-bootstrap-port --disaggregation-ib-device --nccl-port --prometheus-host --prometheus-port
		--prefill --decode --data-parallel-size-local --data-parallel-address --data-parallel-rpc-port --data-parallel-start-rank`)
	for _, recipe := range []string{"recipe-a", "recipe-b", "recipe-c", "recipe-d"} {
		text, err := recipes.ReadFile("testdata/recipes/" + recipe + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		published := map[string]string{}
		for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
			role, command, _ := strings.Cut(lines.Text(), ": ")
			published[role] = command
		}
		tested := 0
		for _, m := range Members(groups()[recipe]) {
			want, said := published[m.Role]
			if !said {
				continue
			}
			tested++
			got := flagSet(wordsOf(Container(m.Engine)))
			for _, f := range flagSet(strings.Fields(want)) {
				name, _, _ := strings.Cut(f, " ")
				if !slices.Contains(got, f) && !slices.Contains(ours, name) && name != "--disable-log-stats" {
					t.Errorf("%s: %s %d rank %d does not have %s", recipe, m.Role, m.Instance, m.Rank, f)
				}
			}
			for _, f := range got {
				name, _, _ := strings.Cut(f, " ")
				if !slices.Contains(flagSet(strings.Fields(want)), f) && !slices.Contains(ours, name) {
					t.Errorf("%s: %s %d rank %d has %s, which is not published", recipe, m.Role, m.Instance, m.Rank, f)
				}
			}
		}
		if tested < 2 {
			t.Errorf("%s: %d members were held against the recipe", recipe, tested)
		}
	}
}

// flagSet are the flags of a command with their values; what comes before the first is one.
func flagSet(words []string) []string {
	set := []string{""}
	for _, w := range words {
		if strings.HasPrefix(w, "--") {
			set = append(set, w)
		} else {
			set[len(set)-1] = strings.TrimSpace(set[len(set)-1] + " " + w)
		}
	}
	return set
}

// TestGroupFingerprint says of each change of a group whether it makes another engine.
func TestGroupFingerprint(t *testing.T) {
	of := func(change func(e *Engine)) map[string]string {
		e := groups()["recipe-a"]
		change(e)
		return Fingerprint(e)
	}
	before := of(func(*Engine) {})
	move := func(h *provision.Host) *provision.Host {
		c := *h
		c.Address, c.Name = "198.51.100.9", "other"
		return &c
	}
	for name, c := range map[string]struct {
		counts bool
		change func(e *Engine)
	}{
		"transfer":    {true, func(e *Engine) { e.Transfer = "nixl" }},
		"an instance": {true, func(e *Engine) { e.Placement = slices.Delete(e.Placement, 1, 2) }},
		"span": {true, func(e *Engine) {
			e.Placement[1].Hosts = slices.Concat(e.Placement[0].Hosts, e.Placement[1].Hosts)
			e.Placement = e.Placement[1:]
		}},
		"a flag":          {true, func(e *Engine) { e.recipe(Decode).Flags[0].Value = value("triton") }},
		"router's policy": {true, func(e *Engine) { e.recipe(Route).Flags[2].Value = value("cache_aware") }},
		"router's image":  {true, func(e *Engine) { e.recipe(Route).Image = "registry.example.com/router:2" }},
		"router's host":   {true, func(e *Engine) { e.Placement[3].Hosts = e.Placement[2].Hosts }},
		"no router":       {true, func(e *Engine) { e.Placement = e.Placement[:3] }},
		"gpu_ids":         {true, func(e *Engine) { e.Placement[2].GPUIDs = []string{"0"} }},
		"GPUs of a role":  {true, func(e *Engine) { e.Placement[2].Hosts[0].GPUs.Model = "MI300X" }},
		"where a host is": {false, func(e *Engine) { e.Placement[2].Hosts[0] = move(e.Placement[2].Hosts[0]) }},
		"router's port":   {false, func(e *Engine) { e.Placement[3].Port = 31000 }},
		"no RDMA":         {true, func(e *Engine) { e.Placement[0].Hosts[0].Fabric.RDMA = []string{} }},
		"RDMA not said":   {true, func(e *Engine) { e.Placement[0].Hosts[0].Fabric.RDMA = nil }},
		"a rail":          {true, func(e *Engine) { e.Placement[0].Hosts[0].Fabric.RDMA = []string{"mlx5_0"} }},
		"order of rails":  {false, func(e *Engine) { e.Placement[0].Hosts[0].Fabric.RDMA = []string{"mlx5_1", "mlx5_0"} }},
	} {
		if got := !maps.Equal(before, of(c.change)); got != c.counts {
			t.Errorf("%s: another group: %v, want %v", name, got, c.counts)
		}
	}
}

// TestCheckGroup makes one mistake at a time.
func TestCheckGroup(t *testing.T) {
	for name, e := range groups() {
		for _, f := range Check(e) {
			t.Errorf("%s, which is right: %s", name, foundIn(f))
		}
	}
	of := func(name string, change func(e *Engine)) *Engine {
		e := groups()[name]
		change(e)
		return e
	}
	for what, e := range map[string]*Engine{
		"prefill of TensorRT-LLM is shorter": of("trtllm", func(e *Engine) {
			e.roles()[0].engine.Flags = append(e.roles()[0].engine.Flags, flagsOf("max_seq_len=4096")...)
			e.roles()[1].engine.Flags = append(e.roles()[1].engine.Flags, flagsOf("max_seq_len=8192")...)
		}),
		"GPUs in small letters": of("recipe-a", func(e *Engine) { e.roles()[0].instances[1].Hosts[0].GPUs.Model = "mi355x" }),
	} {
		for _, f := range Check(e) {
			t.Errorf("%s, which is right: %s", what, foundIn(f))
		}
		if n, _, said := MaxPrompt(e); said != (e.roles()[0].engine.Kind == TRTLLM) || said && n != 4096 {
			t.Errorf("%s: prompts of %d tokens, %v", what, n, said)
		}
	}
	flags := func(role int, words ...string) func(e *Engine) {
		return func(e *Engine) {
			e.roles()[role].engine.Flags = append(e.roles()[role].engine.Flags, flagsOf(words...)...)
		}
	}
	for want, e := range map[string]*Engine{
		`prefill: A group with the role prefill needs`: of("recipe-a", func(e *Engine) { e.Placement = slices.Delete(e.Placement, 2, 3) }),
		`serve: The role serve does all`: of("recipe-a", func(e *Engine) {
			e.Placement = slices.Insert(e.Placement, 3, in(Serve, e.Placement[0].Engine, on(1, nodes("", 1)...))...)
		}),
		`transfer: Nothing is handed over`:                                                                                of("replicas", func(e *Engine) { e.Transfer = "nixl" }),
		`decode engine: Prefill is of kind "sglang" and decode of kind`:                                                   of("recipe-a", func(e *Engine) { e.roles()[1].engine.Kind = VLLM }),
		`transfer: An engine of kind "sglang" cannot hand over its KV cache by "p2p_nccl". It knows mooncake, nixl, mori`: of("recipe-a", func(e *Engine) { e.Transfer = "p2p_nccl" }),
		`router: Prefill and decode need a router`:                                                                        of("recipe-a", func(e *Engine) { e.Placement = e.Placement[:3] }),
		`router: A router of kind "vllm" cannot split`:                                                                    of("recipe-a", func(e *Engine) { e.recipe(Route).Kind = VLLMRouter }),
		`router: With vllm-discovery-address`: of("recipe-d", func(e *Engine) {
			e.recipe(Route).Kind, e.recipe(Route).Flags = VLLMRouter, flagsOf("vllm-discovery-address=0.0.0.0:30001")
		}),
		`decode on: host n0 (lab.hcl:3) is used twice at once, by prefill 0 and decode 0`:                                  of("recipe-a", func(e *Engine) { e.Placement[2].Hosts = e.Placement[0].Hosts }),
		`decode on: host n0 (lab.hcl:3) is used twice at once`:                                                             of("one-host", func(e *Engine) { e.Placement[1].GPUIDs = []string{"3", "4", "5", "6"} }),
		`serve on: host n0 (lab.hcl:3) has two ranks of serve 0`:                                                           of("sglang-wide", func(e *Engine) { e.Placement = On(e.Host(), e.Host()) }),
		`router port: Port 20000 of host n0 (lab.hcl:3) is the server port of prefill 0 and the server port of the router`: of("recipe-a", func(e *Engine) { e.Placement[3].Port = 20000 }),
		`port: Port 20002 of host n0 (lab.hcl:3) is the server port of serve 0 and the dist port of serve 0`:               of("sglang-wide", func(e *Engine) { e.Placement[0].Port = 20002 }),
		`prefill on: The hosts of a role must have the same GPUs`:                                                          of("recipe-a", func(e *Engine) { e.roles()[0].instances[1].Hosts[0].GPUs.Count = 4 }),
		`host: host n0 (lab.hcl:3) is this machine`:                                                                        of("recipe-d", func(e *Engine) { h := e.roles()[0].instances[0].Hosts[0]; h.Address, h.Fabric.Address = "local", "" }),
		`host: host n0 (lab.hcl:3) and host n1 (lab.hcl:3) have one address, so that they are one machine`: of("sglang-wide", func(e *Engine) {
			e.Placement[0].Hosts[1].Address = e.Placement[0].Hosts[0].Address + ":22"
		}),
		`host: host n0 (lab.hcl:3) and host n1 (lab.hcl:3) do not reach each other`: of("sglang-wide", func(e *Engine) {
			e.Placement[0].Hosts[1].Cluster, e.Placement[0].Hosts[1].Address = &provision.Cluster{Name: "moai"}, ""
		}),
		`host: host n0 (lab.hcl:3) and host n2 (lab.hcl:3) do not reach each other`: of("recipe-a", func(e *Engine) {
			for i, h := range e.Placement.Hosts() {
				h.Cluster, h.Address = &provision.Cluster{Name: "moai", Context: fmt.Sprint(i / 2)}, ""
			}
		}),
		`prefill container.network: Members find each other on the network`: of("one-host", func(e *Engine) { e.roles()[0].engine.Container.Network = "bridge" }),
		`decode flags: Prefill and decode have to agree on the context length: prefill has 8192, decode 4096`: of("trtllm", func(e *Engine) {
			e.roles()[0].engine.Flags = append(e.roles()[0].engine.Flags, flagsOf("max_seq_len=8192")...)
			e.roles()[1].engine.Flags = append(e.roles()[1].engine.Flags, flagsOf("max_seq_len=4096")...)
		}),
		`prefill on: hcl does not start TensorRT-LLM over several`:                        of("trtllm", func(e *Engine) { e.Placement[0].Hosts = nodes("8xH200", 2) }),
		`prefill container.network: Members find each other`:                              of("recipe-d", func(e *Engine) { e.roles()[0].engine.Container.Network = "bridge" }),
		`serve flags: The flags ask for 8 GPUs`:                                           of("sglang-wide", func(e *Engine) { e.Flags = flagsOf("tp-size=8") }),
		`prefill flags distributed-executor-backend: hcl starts the ranks of vLLM itself`: of("recipe-d", flags(0, "distributed-executor-backend=ray")),
		`host: host n0 (lab.hcl:3) and host n1 (lab.hcl:3) have the same address, 203.0.113.9`: of("recipe-d", func(e *Engine) {
			for i, h := range e.roles()[0].instances[0].Hosts {
				h.Fabric.Address, h.Address = "", fmt.Sprintf("203.0.113.9:%d", 2201+i)
			}
		}),
		`host: host n2 (lab.hcl:3) and host n3 (lab.hcl:3) have the same address, 192.168.0.7`: of("recipe-d", func(e *Engine) {
			for i, h := range e.roles()[1].instances[0].Hosts { // each behind a gateway of its own
				h.Fabric.Address, h.Address, h.Jump = "", "192.168.0.7", e.roles()[0].instances[0].Hosts[i]
			}
		}),
		`prefill flags data-parallel-rank: hcl starts the ranks of vLLM itself`:                                           of("recipe-c", flags(0, "data-parallel-rank=3")),
		`decode flags data-parallel-external-lb: hcl starts the ranks of vLLM itself`:                                     of("recipe-d", flags(1, "data-parallel-external-lb")),
		`prefill flags kv-transfer-config: vLLM takes a JSON object, such as {"kv_load_failure_policy"`:                   of("recipe-d", flags(0, "kv-transfer-config=NixlConnector")),
		`decode flags: Prefill and decode have to agree on tensor-parallel-size with the transfer p2p_nccl: p`:            of("vllm-p2p", flags(1, "tensor-parallel-size=8")),
		`prefill flags: data-parallel-size is 15`:                                                                         of("recipe-d", func(e *Engine) { flagNamed(e.roles()[0].engine, "data-parallel-size", "15") }),
		`decode flags: Prefill and decode have to agree on the context length: prefill has the engine's own, decode 8192`: of("recipe-a", flags(1, "context-length=8192")),
		`decode flags: Prefill and decode have to agree on the name of the model`:                                         of("recipe-a", flags(1, "served-model-name=r1")),
		`prefill flags host: It listens on 127.0.0.1`:                                                                     of("recipe-a", flags(0, "host=127.0.0.1")),
		`prefill flags nccl-port: hcl gives --nccl-port`:                                                                  of("one-host", flags(0, "nccl-port=5000")),
		`transfer: vLLM has no P2pNcclConnector from 0.24.0 on, and this is version 0.30.0`:                               of("vllm-p2p", func(e *Engine) { e.roles()[0].engine.Image = "vllm/vllm-openai:v0.30.0" }),
		`serve image: hcl gives each member --master-addr, which is there since 0.11.1, and this is version 0.11.0`:       of("vllm-wide", func(e *Engine) { e.Image = "vllm/vllm-openai:v0.11.0" }),
		`prefill image: hcl gives each member MoRIIOConnector, which is there since 0.14.0, and this is version 0.13.0`:   of("vllm-mori", func(e *Engine) { e.roles()[0].engine.Image = "vllm/vllm-openai:v0.13.0" }),
		`prefill image: hcl gives each member the backend MOONCAKE, which is there since 1.2.0, and this is version 1.1.0`: of("trtllm", func(e *Engine) {
			e.Transfer, e.roles()[0].engine.Image = mooncake, "nvcr.io/nvidia/tensorrt-llm/release:1.1.0"
		}),
		`router image: hcl gives each member --kv-connector, which is there since 0.1.14`:                         of("recipe-d", func(e *Engine) { e.recipe(Route).Kind, e.recipe(Route).Image = VLLMRouter, "vllm/vllm-router:v0.1.12" }),
		`serve flags: SGLang runs data parallel over several hosts only with attention`:                           of("sglang-wide", func(e *Engine) { e.Flags = flagsOf("tp-size=8", "dp-size=2") }),
		`serve flags nccl-init-addr: hcl gives --nccl-init-addr`:                                                  of("sglang-wide", func(e *Engine) { e.Flags = append(e.Flags, flagsOf("nccl-init-addr=x")...) }),
		`serve flags data-parallel-backend: hcl starts the ranks`:                                                 of("vllm-wide", func(e *Engine) { e.Flags = append(e.Flags, flagsOf("data-parallel-backend=ray")...) }),
		`router flags: hcl tells the router of its servers itself. Remove --worker-urls`:                          of("replicas", func(e *Engine) { e.recipe(Route).Flags = flagsOf("worker-urls=http://x") }),
		`transfer: An engine of kind "trtllm" cannot hand over its KV cache by "mpi"`:                             of("trtllm", func(e *Engine) { e.Transfer = "mpi" }),
		`decode flags: Prefill and decode have to agree on the size of a block`:                                   of("recipe-a", flags(1, "page-size=64")),
		`decode model: Prefill serves deepseek-ai/DeepSeek-R1 and decode other`:                                   of("recipe-a", func(e *Engine) { e.roles()[1].engine.Model = &Model{Repo: "other"} }),
		`serve flags node-rank: hcl gives --node-rank to each member itself (here 0, 1). Remove it.`:              of("sglang-wide", func(e *Engine) { e.Flags = append(e.Flags, flagsOf("node-rank=0")...) }),
		`prefill flags disaggregation-mode: hcl gives --disaggregation-mode to each member itself (here prefill)`: of("recipe-a", flags(0, "disaggregation-mode=prefill")),
		`decode env VLLM_HOST_IP: hcl sets VLLM_HOST_IP for each member itself (here 10.0.0.3, 10.0.0.4)`: of("recipe-d", func(e *Engine) {
			e.roles()[1].engine.Env = []provision.EnvVar{{Name: "VLLM_HOST_IP", Value: provision.Plain("1.2.3.4")}}
		}),
		`router: trtllm-serve disaggregated gives`: of("replicas", func(e *Engine) { e.recipe(Route).Kind = TRTLLMRouter }),
		`prefill on: TensorRT-LLM runs on NVIDIA GPUs only`: of("trtllm", func(e *Engine) {
			e.roles()[0].instances[0].Hosts[0].GPUs = provision.GPUs{Count: 8, Model: "MI300X", Vendor: provision.AMD}
		}),
		`prefill flags: The flags ask for 8 GPUs (tensor × pipeline × data parallel), but gpu_ids names 4`: of("recipe-b", func(e *Engine) {
			e.Placement[0].GPUIDs = []string{"0", "1", "2", "3"}
		}),
		`prefill gpu_ids: There is no GPU 8`: of("one-host", func(e *Engine) { e.roles()[0].instances[0].GPUIDs[0] = "8" }),
	} {
		var said []string
		for _, f := range Check(e) {
			said = append(said, foundIn(f))
		}
		if !slices.ContainsFunc(said, func(s string) bool {
			return strings.HasPrefix(s, want)
		}) {
			t.Errorf("want %q, got:\n%s", want, strings.Join(said, "\n"))
		}
	}
}

// foundIn is a mistake with its place: role, argument and key.
func foundIn(f FieldError) string {
	return strings.Join(strings.Fields(f.Role+" "+f.Field+" "+f.Key), " ") + ": " + f.Detail
}

func flagNamed(e *Engine, name, to string) {
	for i := range e.Flags {
		if e.Flags[i].Name == name {
			e.Flags[i].Value = value(to)
		}
	}
}

// TestTokenizeURL: a router has no tokenizer, so a worker is asked, where the sender reaches it.
func TestTokenizeURL(t *testing.T) {
	all, other := groups(), nodes("", 9)[8]
	for _, c := range []struct {
		name string
		from *provision.Host
		want string
	}{
		{"recipe-a", nil, "http://10.0.0.3:20128"},
		{"recipe-a", all["recipe-a"].Placement[0].Hosts[0], "http://10.0.0.3:20128"},
		{"recipe-a", other, "http://203.0.113.3:20128"},
		{"one-host", nil, "http://127.0.0.1:20064"},
		{"one-host", other, ""}, // its workers listen for their host alone
		{"own-replicas", nil, ""},
		{"vllm-wide", nil, ""},
	} {
		if got := TokenizeURL(all[c.name], c.from); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestProof: each member of a split engine counts what proves the split, as far as it tells.
func TestProof(t *testing.T) {
	all := groups()
	all["silent"] = groups()["vllm-mori"]
	for _, r := range all["silent"].workers() {
		r.engine.Flags = append(flagsOf("disable-log-stats"), r.engine.Flags...)
	}
	for name, want := range map[string]string{
		"recipe-c": "prefill vllm:generation_tokens_total, prefill vllm:generation_tokens_total, decode vllm:generation_tokens_total, router vllm_router_retries_total",
		"recipe-a": "prefill nothing, prefill nothing, decode nothing, router vllm_router_retries_total", // without enable-metrics
		"trtllm":   "prefill nothing, decode nothing, router nothing",
		"silent":   "prefill nothing, decode nothing, router vllm_router_retries_total",
	} {
		var got []string
		for _, m := range Members(all[name]) {
			first := "nothing"
			if counts := Counts(m); counts != nil {
				i := slices.IndexFunc(counts.Quantities, func(q telemetry.Quantity) bool { return q.Name == telemetry.Generated || q.Name == telemetry.Retried })
				first = counts.Quantities[i].Under[0]
			}
			got = append(got, m.Role+" "+first)
		}
		if said := strings.Join(got, ", "); said != want {
			t.Errorf("%s: %s, want %s", name, said, want)
		}
	}
	const unproved = "prefill flags: Nothing proves what each member does, so that every cell will be suspect: with --disable-log-stats it exports no counters."
	for name, want := range map[string]string{"recipe-c": "", "silent": unproved, "trtllm": ""} {
		got := ""
		if found := GroupDoubts(all[name]); len(found) > 0 {
			got = foundIn(found[0])
		}
		if got != want {
			t.Errorf("%s: doubts %q, want %q", name, got, want)
		}
	}
	router := Members(all["recipe-a"])[3]
	if at := countsAt(router); at != "http://127.0.0.1:20203" || Workers(router.Engine) != "/workers" {
		t.Errorf("SGLang's router tells its counters at %s and its workers at %q", at, Workers(router.Engine))
	}
	discovers := Members(all["vllm-mori"])[2].Engine
	if at := Workers(discovers); at != "" {
		t.Errorf("a router that workers tell of themselves lists workers at %q", at)
	}
	own := Members(all["own-router"])[2].Engine
	for r, want := range map[*Engine]string{router.Engine: "", discovers: "", own: "/v1/models"} {
		if got := ReadinessOf(r).Models; got != want {
			t.Errorf("a router of kind %s is asked for its models at %q, want %q", r.Kind, got, want)
		}
	}
}
