package formats

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"hclbench/results"
)

// setup is one role of an engine as the formats of others tell it: so many instances, each
// over so many GPUs, and how the model is divided among them.
type setup struct {
	role      string // "serve", "prefill", "decode", "router"
	instances int
	hosts     int
	gpus      int // of one instance; 0: not known
	settings  map[string]string

	tp, pp, dp, ep, dcp, pcp int  // 1: not divided
	attention                bool // is divided by requests
}

// setups are the roles of a deployment, in order. An engine that somebody else runs is one
// role with the GPUs that are known of it.
func setups(d *results.Deployment) (all []*setup) {
	hosts := map[string]bool{}
	members := d.All()
	for _, m := range members {
		i := 0
		for i < len(all) && all[i].role != m.Role {
			i++
		}
		if i == len(all) {
			all = append(all, &setup{role: m.Role, settings: settingsOf(d, m)})
		}
		s := all[i]
		s.instances = max(s.instances, m.Instance+1)
		s.gpus += m.GPUCount
		if at := m.Role + " " + m.Host; !hosts[at] {
			hosts[at] = true
			s.hosts++
		}
	}
	if len(members) == 0 {
		all = []*setup{{role: "serve", instances: 1, settings: settingsOf(d, results.Member{})}}
	}
	for _, s := range all {
		s.gpus /= max(s.instances, 1)
		if len(all) == 1 {
			s.gpus = d.GPUsUsed() / max(s.instances, 1)
		}
		s.divide()
	}
	return all
}

// settingsOf are the flags of a member and the members of its configuration, by their
// names without dashes at their beginning, the others in place of underscores.
func settingsOf(d *results.Deployment, m results.Member) map[string]string {
	all := map[string]string{}
	set := func(name, value string) {
		all[strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")] = strings.Trim(value, `'" `)
	}
	words := m.Command
	if words == nil {
		words = d.Command
	}
	for i, word := range words {
		if !strings.HasPrefix(word, "-") {
			continue
		}
		name, value, assigned := strings.Cut(word, "=")
		if !assigned && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			value = words[i+1]
		}
		set(name, value)
	}
	for name, value := range d.Identity { // with what stands in files beside the command
		name = strings.TrimPrefix(name, m.Role+".") // of a group
		if rest, ok := strings.CutPrefix(name, "config."); ok || strings.HasPrefix(name, "--") {
			set(rest, value)
		}
	}
	return all
}

// divide reads how the model is divided from the settings of vLLM, SGLang and TensorRT-LLM.
func (s *setup) divide() {
	number := func(names ...string) int {
		for _, name := range names {
			if n, err := strconv.Atoi(s.settings[name]); err == nil && n > 0 {
				return n
			}
		}
		return 1
	}
	s.tp = number("tensor-parallel-size", "tp-size", "tp")
	s.pp = number("pipeline-parallel-size", "pp-size", "pp")
	s.dp = number("data-parallel-size", "dp-size", "dp")
	s.ep = number("expert-parallel-size", "moe-expert-parallel-size", "ep-size", "ep")
	s.dcp = number("decode-context-parallel-size", "dcp-size")
	s.pcp = number("prefill-context-parallel-size", "pcp-size")
	on := func(name string) bool {
		v, there := s.settings[name]
		return there && v != "false"
	}
	if on("enable-expert-parallel") {
		s.ep = cmp.Or(s.gpus, s.tp*s.dp)
	}
	s.attention = on("enable-dp-attention") || on("enable-attention-dp") || s.dp > 1 && on("enable-expert-parallel")
}

// speculation is how tokens are drafted, in the words that are used for it; "none": not.
func (s *setup) speculation() string {
	said := ""
	for name, value := range s.settings {
		if strings.HasPrefix(name, "speculative") {
			said += " " + strings.ToLower(name+" "+value)
		}
	}
	for _, word := range []string{"mtp", "nextn", "eagle3", "eagle", "ngram", "medusa", "draft"} {
		if strings.Contains(said, word) {
			return strings.Replace(word, "nextn", "mtp", 1)
		}
	}
	if said != "" {
		return "speculative"
	}
	return "none"
}

// precisionNames are how a quantisation is called, and what it comes to.
var precisionNames = regexp.MustCompile(`(nvfp4|mxfp4|fp4)|(fp8)|(int4|awq|gptq|w4a16)|(int8|w8a8)|(bf16|bfloat16)`)

// precision is that of the weights as far as a name says it; empty: none says it.
func precision(names ...string) string {
	for _, name := range names {
		if m := precisionNames.FindStringSubmatch(strings.ToLower(name)); m != nil {
			for i, word := range []string{"fp4", "fp8", "int4", "int8", "bf16"} {
				if m[i+1] != "" {
					return word
				}
			}
		}
	}
	return ""
}
