package formats

import (
	"maps"
	"slices"
	"strings"

	"hclbench/plain"
)

// nameServers gives the engines of one kind names by what sets their commands apart, for one with other
// flags is another engine: "dp-attention+torch-compile". The one with none of them is "default".
func nameServers(rows []Result) {
	flags := map[string]map[string]bool{} // by command
	servers := map[string][]string{}      // commands, by kind
	for _, r := range rows {
		command := strings.Join(r.Deployment.Command, " ")
		if command == "" || flags[command] != nil {
			continue
		}
		flags[command] = flagsOf(r.Deployment.Command)
		servers[r.Deployment.Kind] = append(servers[r.Deployment.Kind], command)
	}
	for i := range rows {
		d := &rows[i].Deployment
		own, all := flags[strings.Join(d.Command, " ")], servers[d.Kind]
		if own == nil || d.Kind == "" {
			continue
		}
		var apart []string
		for _, f := range slices.Sorted(maps.Keys(own)) {
			if slices.ContainsFunc(all, func(c string) bool { return !flags[c][f] }) {
				apart = append(apart, f)
			}
		}
		switch {
		case len(apart) > 0:
			rows[i].server = plain.Cut(strings.Join(apart, "+"), longestServer)
		case slices.ContainsFunc(all, func(c string) bool { return !maps.Equal(flags[c], own) }):
			rows[i].server = "default"
		}
	}
}

// longestServer bounds the name of a server.
const longestServer = 80

// sameFlag are other spellings of flags, and those that say nothing of how an engine serves: they are empty.
var sameFlag = map[string]string{"tp-size": "tp", "tensor-parallel-size": "tp", "model-path": "", "model": "", "host": "",
	"port": "", "served-model-name": "", "api-key": "", "trust-remote-code": "", "m": ""}

// flagsOf are the flags of a command, each with its value: "tp-8", "dp-attention". Of more than two
// flags of one family, as speculative-algorithm and speculative-num-steps, there is the family alone.
func flagsOf(command []string) map[string]bool {
	all, families := map[string]bool{}, map[string]int{}
	family := func(name string) string { first, _, _ := strings.Cut(name, "-"); return first }
	for i, word := range command {
		flag, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		flag = strings.TrimPrefix(strings.ReplaceAll(flag, "_", "-"), "enable-")
		if other, known := sameFlag[flag]; known {
			flag = other
		}
		if !strings.HasPrefix(word, "-") || flag == "" {
			continue
		}
		families[family(flag)]++
		if value == "" && i+1 < len(command) && !strings.HasPrefix(command[i+1], "-") {
			value = command[i+1]
		}
		all[strings.TrimSuffix(flag+"-"+value, "-")] = true
	}
	for name := range maps.Clone(all) {
		if f := family(name); families[f] > 2 {
			delete(all, name)
			all[f] = true
		}
	}
	return all
}
