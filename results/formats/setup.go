package formats

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/results"
)

// setup is one role of an engine as the formats of others tell it: so many instances, each
// over so many GPUs, and how the model is divided among them.
type setup struct {
	role      string // "serve", "prefill", "decode", "router"
	instances int
	hosts     int
	gpus      int // of one instance; 0: not known
	flags     []flag

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
			all = append(all, &setup{role: m.Role, flags: settingsOf(d, m)})
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
		all = []*setup{{role: "serve", instances: 1, flags: settingsOf(d, results.Member{})}}
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

// settingsOf are the flags of a member, and what stands in files beside its command.
func settingsOf(d *results.Deployment, m results.Member) []flag {
	words := m.Command
	if words == nil {
		words = d.Command
	}
	all := flagsIn(d.Kind, words)
	for name, value := range d.Identity {
		name = strings.TrimPrefix(name, m.Role+".") // of a group
		if rest, ok := strings.CutPrefix(name, "config."); ok || strings.HasPrefix(name, "--") {
			all = append(all, newFlag(d.Kind, rest, strings.Trim(value, `'" `)))
		}
	}
	return all
}

// valueOf is what the role was told of a setting by its meaning.
func (s *setup) valueOf(meaning string) (value string, there bool) {
	for _, f := range s.flags {
		if f.means == meaning {
			return f.value, f.value != "false"
		}
	}
	return "", false
}

// divide reads how the model is divided.
func (s *setup) divide() {
	count := func(meaning string) int {
		value, _ := s.valueOf(meaning)
		n, _ := strconv.Atoi(value)
		return max(n, 1)
	}
	s.tp, s.pp, s.dp = count(setting.TensorParallel), count("pipeline parallel"), count(setting.DataParallel)
	s.ep, s.dcp, s.pcp = count("expert parallel"), count("decode context parallel"), count("prefill context parallel")
	value, experts := s.valueOf("expert parallel")
	if experts = experts && (value == "" || value == "true"); experts { // a switch: over all that there are
		s.ep = cmp.Or(s.gpus, s.tp*s.dp)
	}
	_, apart := s.valueOf(setting.DPAttention)
	s.attention = apart || s.dp > 1 && experts
}

// speculation is how tokens are drafted, in the words that are used for it; "none": not.
func (s *setup) speculation() string {
	said := ""
	for _, f := range s.flags {
		if strings.HasPrefix(f.name, "speculative") {
			said += " " + strings.ToLower(f.name+" "+f.value)
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
