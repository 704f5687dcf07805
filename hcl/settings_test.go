package hcl

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hclbench/engines/setting/published"
	"hclbench/hcl/lang"
)

// release is a kind's options as published.
type release struct {
	versions []string
	taken    []map[string]published.Option
	all      []string // names of any version
}

// could are the options that a version may take a name for: one, where it is right.
func (r release) could(at int, name string, whole bool) (could []published.Option) {
	if o, is := r.taken[at][name]; is || whole {
		return slices.Repeat([]published.Option{o}, map[bool]int{true: 1}[is])
	}
	for other, o := range r.taken[at] {
		if strings.HasPrefix(other, name) && !strings.HasPrefix(other, "-") && !slices.Contains(could, o) {
			could = append(could, o)
		}
	}
	return could
}

// What is said of a setting, and how it is told.
var saidOfSettings = map[string]*regexp.Regexp{
	"error: gone":        regexp.MustCompile(`has no \w+ \S+ any more: \S+ was the last`),
	"error: not yet":     regexp.MustCompile(`has no \w+ \S+ yet: it is there since`),
	"error: several":     regexp.MustCompile(`refuses the \w+ \S+, which is the beginning of several`),
	"error: spelling":    regexp.MustCompile(`reads names of flags exactly as they are`),
	"error: no word":     regexp.MustCompile(`The flag \S+ takes a value`),
	"error: word":        regexp.MustCompile(`The flag \S+ is a switch`),
	"warning: old":       regexp.MustCompile(`calls it deprecated since`),
	"warning: perhaps":   regexp.MustCompile(`^No \S+ after \S+ has the`),
	"warning: no option": regexp.MustCompile(`hcl knows of no version of`),
}

// settingCase is an engine or a router of a lab with one flag or variable, and what is to be said of it.
type settingCase struct {
	kind, known, version, name string
	release                    release
	at                         int
	text, want                 string
	line                       int // where its block begins
}

// expect says what an independent reading of the tables has to say of a name.
func (c *settingCase) expect(name, form string) string {
	r := c.release
	could := r.could(c.at, name, strings.HasSuffix(c.kind, "_env"))
	was := func(in map[string]published.Option) bool { _, is := in[name]; return is }
	ended := !was(r.taken[c.at]) && slices.ContainsFunc(r.taken[:c.at], was) // and is the beginning of another, perhaps
	sure, fork := c.known == "tag" || c.known == "said", c.known == "fork"
	severity := map[bool]string{true: "error: ", false: "warning: "}
	switch {
	case len(could) == 1:
		forms := []string{could[0].Form}
		if c.known == "unknown" { // any of its versions
			for i := range r.taken {
				if o, is := r.taken[i][could[0].Name]; is {
					forms = append(forms, o.Form)
				}
			}
		}
		isSwitch := func(form string) bool { return strings.HasPrefix(form, "switch") }
		mayBeBare := func(form string) bool { return isSwitch(form) || strings.ContainsAny(form, "?*") }
		isWord := func(form string) bool { return !isSwitch(form) }
		switch {
		case form == "word" && !slices.ContainsFunc(forms, isWord):
			return "error: word"
		case form == "bare" && !slices.ContainsFunc(forms, mayBeBare):
			return "error: no word"
		case ended && sure:
			return "warning: gone"
		case ended && !fork:
			return "warning: perhaps"
		case could[0].Deprecated && sure:
			return "warning: old"
		}
		return ""
	case fork:
		return ""
	}
	whole := slices.ContainsFunc(r.taken, was)
	had, comes := false, false
	for i := range r.taken {
		if n := len(r.could(i, name, whole)); n == 1 {
			had, comes = had || i < c.at, comes || i > c.at
		}
	}
	switch {
	case len(could) > 1 && !had || len(could) > 1 && !whole:
		return severity[sure] + "several"
	case had && sure:
		return severity[!strings.HasSuffix(c.kind, "_env")] + "gone"
	case had:
		return "warning: perhaps"
	case comes:
		return severity[!strings.HasSuffix(c.kind, "_env")] + "not yet"
	}
	return "unknown"
}

// TestSettingsOfLabs: of 2,000 flags and variables in versions at random, many of them gone or not there yet, shortened, in
// other spellings, with and without a word, the plan is told what is right, as an error where it is sure, and what is written in
// their place is there.
func TestSettingsOfLabs(t *testing.T) {
	r := rand.New(rand.NewPCG(26, 25))
	releases := map[string]release{}
	for _, kind := range []string{"vllm", "sglang", "vllm_router", "sglang_router", "vllm_env"} {
		versions, taken := published.Read(t, "../engines/setting", kind)
		all := map[string]bool{}
		for _, in := range taken {
			for name := range in {
				all[name] = !strings.HasPrefix(name, "-") && (kind != "vllm_env" || strings.HasPrefix(name, "VLLM_"))
			}
		}
		maps.DeleteFunc(all, func(_ string, long bool) bool { return !long })
		releases[kind] = release{versions, taken, slices.Sorted(maps.Keys(all))}
	}
	images := map[string]string{"vllm": "vllm/vllm-openai", "sglang": "lmsysorg/sglang", "vllm_router": "vllm/vllm-router", "sglang_router": "lmsysorg/sgl-model-gateway", "vllm_env": "vllm/vllm-openai"}
	text := common + "host \"amd\" {\n address = \"203.0.113.8\"\n gpus = \"8xMI300X\"\n}\nengine \"vllm\" \"base\" {\n model = model.m\n image = \"vllm/vllm-openai:v0.33.0\"\n}\n"
	var cases []*settingCase
	for n := range 2000 {
		kind := []string{"vllm", "vllm", "sglang", "sglang", "vllm_env", "vllm_router", "sglang_router"}[r.IntN(7)]
		c := &settingCase{kind: kind, release: releases[kind], known: []string{"tag", "tag", "tag", "said", "unknown", "fork"}[r.IntN(6)]}
		newest := len(c.release.versions) - 1
		pick := func() { c.at, c.name = r.IntN(newest+1), c.release.all[r.IntN(len(c.release.all))] }
		pick()
		if n%8 == 0 { // one that is deprecated
			for try := 0; try < 1000 && !c.release.taken[c.at][c.name].Deprecated; try++ {
				pick()
			}
		}
		for try := 0; try < 3 && n%8 != 0 && len(c.release.could(c.at, c.name, true)) > 0; try++ { // more of those that are not there
			pick()
		}
		engine, isRouter := strings.CutSuffix(kind, "_router")
		engine, isEnv := strings.CutSuffix(engine, "_env")
		host := "h"
		version := c.release.versions[c.at]
		c.version = version
		image, says := images[kind]+":v"+version, ""
		switch c.known {
		case "said":
			image = "team/own:7"
			if says = fmt.Sprintf("version = %q\n", version); isRouter {
				image, says, c.known = images[kind]+":v"+version, "", "tag"
			}
		case "unknown":
			image, c.at, c.version = "team/own:7", newest, "unknown"
		case "fork":
			host, image = "amd", "rocm/"+engine+":rocm7_"+engine+"_"+version
			if isRouter {
				host, image, c.known, c.at = "h", "team/own:7", "unknown", newest
			}
		}
		written, form := c.name, "right"
		if !isEnv {
			switch r.IntN(6) {
			case 0:
				written = c.name[:1+r.IntN(len(c.name))]
				written = strings.TrimRight(written, "-_")
			case 1:
				written = strings.ReplaceAll(c.name, "-", "_")
			case 2:
				form = "word"
			case 3:
				form = "bare"
			}
		}
		c.name = written
		judged := written
		if kind == "vllm" {
			judged = strings.ReplaceAll(judged, "_", "-")
		}
		c.want = c.expect(judged, form)
		if dashed := strings.ReplaceAll(judged, "_", "-"); dashed != judged && !isEnv {
			if c.want = c.expect(dashed, form); c.want != "error: gone" && c.want != "error: not yet" {
				c.want = "error: spelling"
			}
		}
		value := `"1"`
		if could := c.release.could(c.at, judged, false); form == "bare" || form == "right" && len(could) > 0 && strings.HasPrefix(could[0].Form, "switch") {
			value = "true"
		}
		flags := fmt.Sprintf("flags = { %q = %s }\n", written, value)
		if isEnv {
			flags = fmt.Sprintf("env = { %q = \"1\" }\n", written)
		}
		c.text = fmt.Sprintf("engine %q \"e%d\" {\nhost = host.%s\nmodel = model.m\nimage = %q\n%s%s}\n", engine, n, host, image, says, flags)
		if isRouter {
			c.text = fmt.Sprintf("group \"g%d\" {\nrole \"serve\" {\nengine = engine.%s.base\non = [host.h]\n}\nrouter %q {\nhost = host.h\nimage = %q\n%s}\n}\n", n, "vllm", engine, image, flags)
		}
		c.line = strings.Count(text, "\n") + 1
		text += c.text
		cases = append(cases, c)
	}
	_, p := loadText(t, text, lang.Vars{})
	said := map[*settingCase][]lang.Problem{}
	for _, problem := range p.List() {
		i, _ := slices.BinarySearchFunc(cases, problem.Start.Line, func(c *settingCase, line int) int { return c.line - line - 1 })
		if i = min(i, len(cases)) - 1; i >= 0 {
			said[cases[i]] = append(said[cases[i]], problem)
		}
	}
	told, hidden := map[string]int{}, 0
	for _, c := range cases {
		var got []string
		other := ""
		for _, problem := range said[c] {
			class := ""
			for what, form := range saidOfSettings {
				if _, what, _ := strings.Cut(what, ": "); form.MatchString(problem.Detail) {
					class = problem.Severity + ": " + what
				}
			}
			if class == "" && problem.Severity == "error" {
				other = problem.Detail
			}
			if strings.Contains(class, ": word") || strings.Contains(class, ": several") || class == "error: spelling" && (c.known == "unknown" || c.known == "fork") {
				problem.Detail = "" // which says to write it otherwise
			}
			if class != "" && !slices.Contains(got, class) {
				got = append(got, class)
			}
			if m := regexp.MustCompile(`(?:\. Write|Did you mean|Here it is called) ([\w-]+)[ .?]`).FindStringSubmatch(problem.Detail); m != nil && class != "" {
				if could := c.release.could(c.at, m[1], false); len(could) == 0 {
					t.Errorf("%s %s (%s) %s: %s\nwhich is not there", c.kind, c.version, c.known, c.name, problem.Detail)
				}
			}
		}
		if other != "" && !slices.Contains(got, c.want) { // another mistake keeps doubts from being told
			hidden++
			continue
		}
		switch told[c.want]++; {
		case c.want == "unknown" && (len(got) == 0 || slices.Equal(got, []string{"warning: no option"})):
		case c.want == "" && len(got) == 0:
		case !slices.Equal(got, []string{c.want}):
			t.Errorf("%s %s (%s) %s: %q, want %q: %+v", c.kind, c.version, c.known, c.name, got, c.want, said[c])
		}
	}
	for what, least := range map[string]int{"": 300, "error: gone": 50, "error: not yet": 400, "error: several": 20, "error: spelling": 50,
		"error: word": 15, "error: no word": 30, "warning: old": 40, "warning: gone": 20, "warning: perhaps": 30} {
		if told[what] < least {
			t.Errorf("%q was to be said of %d, of at least %d wanted", what, told[what], least)
		}
	}
	if hidden > 60 {
		t.Errorf("of %d a mistake of another kind hides what is said", hidden)
	}
}
