package accuracy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Published is a score that others expect of a model by a protocol: something to read a score beside, and no verdict.
type Published struct {
	Task, Protocol string
	Model          string // a repository, "deepseek-ai/DeepSeek-R1"
	// Variant is the model that was asked, where it has the name of Model but for its owner and the format of its weights, and need not score the same. Empty: it is Model.
	Variant  string
	Expected float64 // share of right answers that is expected, of 1; 0: nobody says it
	Passes   float64 // share from which the test of others passes, of 1
	Source   string
}

// published are those that are known. vLLM's test passes from 8 points below what it expects.
var published = func() (all []Published) {
	for model, share := range map[string]float64{"deepseek-ai/DeepSeek-R1": 0.95, "deepseek-ai/DeepSeek-V3.2": 0.95, "nvidia/Llama-3.3-70B-Instruct-NVFP4": 0.91,
		"nm-testing/Meta-Llama-3-8B-Instruct-nonuniform-test": 0.74, "Qwen/Qwen3-0.6B-FP8": 0.375} {
		all = append(all, Published{GSM8K, VLLM, model, "", share, share - 0.08, "vllm-project/vllm, tests/evals/gsm8k/configs"})
	}
	for model, share := range map[string]float64{"deepseek-ai/DeepSeek-R1-0528": 0.91, "deepseek-ai/DeepSeek-V4-Pro": 0.91, "zai-org/GLM-5": 0.94, "zai-org/GLM-5.1": 0.93,
		"openai/gpt-oss-120b": 0.91, "moonshotai/Kimi-K2.5": 0.90, "MiniMaxAI/MiniMax-M2.5": 0.92, "Qwen/Qwen3.5-397B-A17B": 0.94} {
		all = append(all, Published{GSM8K, InferenceX, model, "", 0, share, "SemiAnalysisAI/InferenceX, utils/evals/thresholds.yaml"})
	}
	return all
}()

// Beside are the published scores of a model that was asked so: by the same protocol, with as many examples, and with the same extraction.
func (s Spec) Beside(model string) (all []Published) {
	usual, err := Spec{Task: s.Task, Protocol: s.Protocol}.Check()
	if err != nil || s.Shots == nil || *s.Shots != *usual.Shots || s.Extract != usual.Extract {
		return nil
	}
	for _, p := range published {
		same := strings.EqualFold(model, p.Model)
		if !same {
			p.Variant = model
		}
		if p.Task == s.Task && p.Protocol == s.Protocol && (same || weights(model) == weights(p.Model)) {
			all = append(all, p)
		}
	}
	return all
}

// formats are what names of models end in that say how their weights are written: "-FP8", "-FP8-dynamic", "-NVFP4", "-AWQ".
var formats = regexp.MustCompile(`(-(bf16|fp8|fp8-dynamic|fp8-block|fp4|nvfp4|mxfp4|int4|int8|awq|gptq|w4a16|w8a8|gptq-int4|gptq-int8))+$`)

// weights is the name of a model without its owner and without the format of its weights.
func weights(model string) string {
	return formats.ReplaceAllString(strings.ToLower(path.Base(model)), "")
}

// String is "95.0 % is expected of deepseek-ai/DeepSeek-R1, and 87.0 % passes (…)".
func (p Published) String() string {
	passes := fmt.Sprintf("%.1f %% of %s passes", 100*p.Passes, p.Model)
	if p.Expected > 0 {
		passes = fmt.Sprintf("%.1f %% of %s is expected, and %.1f %% passes", 100*p.Expected, p.Model, 100*p.Passes)
	}
	if p.Variant != "" {
		passes += ", of which " + p.Variant + " is a variant by its name"
	}
	return passes + " (" + p.Source + ")"
}
