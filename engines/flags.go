package engines

import (
	"embed"
	"slices"
	"strings"
)

// flagLists are, by kind, the flags that versions of the engines' servers have, or had,
// with dashes: vLLM from 0.6 to 0.11 (its engine arguments and those of its server), SGLang
// from 0.4 to 0.5 (server_args.py), TensorRT-LLM from 0.17 to 1.2 (trtllm-serve). They
// tell a slip from a flag; one that is not there may be newer than these lists.
//
//go:embed flags
var flagLists embed.FS

// KnownFlags are the flags that some version of an engine kind has, with dashes; nil: hcl
// knows none of them.
func KnownFlags(kind string) []string {
	if !kinds[kind].needsModel {
		return nil
	}
	text, err := flagLists.ReadFile("flags/" + kind + ".txt")
	if err != nil {
		panic("no list of flags of " + kind + ". This is a bug in hcl.")
	}
	return strings.Fields(string(text))
}

// synonyms are flags that mean the same to several engines, each by its own name.
var synonyms = []map[string]string{
	{VLLM: "tensor-parallel-size", SGLang: "tp", TRTLLM: "tp_size"},
	{VLLM: "pipeline-parallel-size", SGLang: "pp", TRTLLM: "pp_size"},
	{VLLM: "data-parallel-size", SGLang: "dp"},
	{VLLM: "enable-expert-parallel", SGLang: "ep", TRTLLM: "ep_size"},
	{VLLM: "max-model-len", SGLang: "context-length", TRTLLM: "max_seq_len"},
	{VLLM: "max-num-seqs", SGLang: "max-running-requests", TRTLLM: "max_batch_size"},
	{VLLM: "max-num-batched-tokens", SGLang: "chunked-prefill-size", TRTLLM: "max_num_tokens"},
	{VLLM: "gpu-memory-utilization", SGLang: "mem-fraction-static", TRTLLM: "kv_cache_free_gpu_memory_fraction"},
	{VLLM: "no-enable-prefix-caching", SGLang: "disable-radix-cache"},
	{VLLM: "enforce-eager", SGLang: "disable-cuda-graph"},
	{VLLM: "seed", SGLang: "random-seed"},
}

// dashed is a flag as the lists have it: vLLM's may say a member after a dot.
func dashed(name string) string {
	name, _, _ = strings.Cut(strings.ReplaceAll(strings.ToLower(name), "_", "-"), ".")
	return name
}

// IsKnownFlag reports whether some version of an engine kind may have a flag. argparse
// takes what begins only one flag for that one, and "no-" before a flag turns it off.
func IsKnownFlag(kind, name string) bool {
	name = dashed(name)
	known := KnownFlags(kind)
	if len(known) == 0 || slices.Contains(known, name) || slices.Contains(known, strings.TrimPrefix(name, "no-")) {
		return true
	}
	begins := func(flag string) bool { return strings.HasPrefix(flag, name) }
	return !kinds[kind].click && len(name) > 3 && slices.ContainsFunc(known, begins)
}

// FlagElsewhere says whose a flag is that an engine kind does not have, and what this
// kind calls it; empty: nobody's that hcl knows, or without a name here.
func FlagElsewhere(kind, name string) (other, here string) {
	name = dashed(name)
	for _, other := range inferenceKinds {
		for _, meaning := range synonyms {
			same := dashed(meaning[other]) == name || other != VLLM && len(name) > 1 && dashed(meaning[other]) == name+"-size"
			if other != kind && same && meaning[kind] != "" {
				return other, meaning[kind]
			}
		}
	}
	return "", ""
}

// imageOf is the kind that an engine's image is of by its name, where that is another
// than the engine's.
func imageOf(e *Engine) string {
	image := strings.ToLower(e.Image)
	named := func(kind string) bool {
		return slices.ContainsFunc(kinds[kind].families, func(word string) bool { return strings.Contains(image, word) })
	}
	if kinds[e.Kind].families == nil || named(e.Kind) {
		return ""
	}
	for _, kind := range inferenceKinds {
		if named(kind) {
			return kind
		}
	}
	return ""
}
