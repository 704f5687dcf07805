package formats

import (
	"slices"
	"strings"

	"hclbench/engines/setting"
	"hclbench/plain"
)

// nameServers gives the engines of one kind names by what sets their commands apart, for one with other
// flags is another engine: "dp-attention+torch-compile". The one with none of them is "default".
func nameServers(rows []Result) {
	flags := map[string]map[string]string{} // by command
	servers := map[string][]string{}        // commands, by kind
	for _, r := range rows {
		command := strings.Join(r.Deployment.Command, " ")
		if command == "" || flags[command] != nil {
			continue
		}
		flags[command] = flagsOf(r.Deployment.Kind, r.Deployment.Command)
		servers[r.Deployment.Kind] = append(servers[r.Deployment.Kind], command)
	}
	for i := range rows {
		d := &rows[i].Deployment
		own, all := flags[strings.Join(d.Command, " ")], servers[d.Kind]
		if own == nil || d.Kind == "" {
			continue
		}
		var apart []string
		for f := range own {
			if slices.ContainsFunc(all, func(c string) bool { return flags[c][f] == "" }) {
				apart = append(apart, own[f])
			}
		}
		slices.Sort(apart)
		switch {
		case len(apart) > 0:
			rows[i].server = plain.Cut(strings.Join(apart, "+"), longestServer)
		case slices.ContainsFunc(all, func(c string) bool { return len(flags[c]) > len(own) }):
			rows[i].server = "default"
		}
	}
}

// longestServer bounds the name of a server.
const longestServer = 80

// flag is a word of a command that sets something, with its value.
type flag struct {
	name  string // the one name for all by which servers of the kind understand the same
	shown string // as it was written, with its value: "tp-8"
	value string // "false" of a switch that is turned off
	means string // as engines/setting calls it; empty: nothing is known of it
	mute  bool   // it says nothing of how an engine serves: a port, a key, the model
}

// flagsIn are those of a command of a kind of engine.
func flagsIn(kind string, words []string) (all []flag) {
	for i, word := range words {
		if !strings.HasPrefix(word, "-") || word == "-m" { // of python
			continue
		}
		name, value, assigned := strings.Cut(word, "=")
		if !assigned && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			value = words[i+1]
		}
		all = append(all, newFlag(kind, name, strings.Trim(value, `'" `)))
	}
	return all
}

func newFlag(kind, name, value string) flag {
	name = strings.TrimPrefix(name, "--")
	row, how := setting.Lookup(kind, name, setting.Version{})
	if row == nil {
		row, how = setting.Lookup(kind, setting.Respelled(kind, name, setting.Version{}), setting.Version{})
	}
	f := flag{name: strings.ReplaceAll(setting.OneName(kind, name, row), "_", "-"), value: value}
	f.shown = strings.TrimPrefix(strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-"), "enable-")
	f.shown = strings.TrimSuffix(f.shown+"-"+value, "-")
	if how.Opposite() && value == "" {
		f.value = "false"
	}
	if m := setting.Means(row); m != nil {
		f.means, f.mute = m.Name, m.Is(setting.Listening) || m.Is(setting.Secret) || m.Name == setting.Model
	}
	return f
}

// flagsOf are the flags of a command by which servers differ, each as it is shown: "tp-8", "dp-attention".
// Of more than two flags of one family, as speculative-algorithm and speculative-num-steps, there is
// the family alone.
func flagsOf(kind string, command []string) map[string]string {
	all, families := map[string]string{}, map[string]int{}
	family := func(name string) string { first, _, _ := strings.Cut(name, "-"); return first }
	flags := slices.DeleteFunc(flagsIn(kind, command), func(f flag) bool { return f.mute })
	for _, f := range flags {
		families[family(f.name)]++
	}
	for _, f := range flags {
		if name := family(f.name); families[name] > 2 {
			all[name] = name
		} else {
			all[f.name+" "+f.value] = f.shown
		}
	}
	return all
}
