package engines

import (
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// serverCommand is the argv of the server, wrapped in a shell when commands of
// the lab run before it.
func serverCommand(e *Engine) []provision.Text {
	argv := e.Command
	if argv == nil {
		argv = launch(e)
	}
	if len(e.Setup) == 0 {
		return argv
	}
	// exec, so that the stop signal reaches the server and not a shell.
	script := []provision.Text{provision.Plain("set -e\n" + strings.Join(e.Setup, "\n") + "\nexec")}
	for _, a := range argv {
		script = append(script, provision.Plain(" "), quoteText(a))
	}
	return []provision.Text{provision.Plain("/bin/sh"), provision.Plain("-c"), provision.Concat(script...)}
}

// launch is what the kind starts with, the model's revision, where to listen, by which
// flag the server finds its configuration file, then the lab's own flags in their fixed
// order.
func launch(e *Engine) []provision.Text {
	k := kinds[e.Kind]
	argv := k.program(e)
	add := func(flag, value string) {
		if _, set := e.Flag(flag); !set {
			argv = append(argv, "--"+flag, value)
		}
	}
	if k.revisionFlag && e.Model.Revision != "" && e.Build == nil {
		add("revision", e.Model.Revision)
	}
	// Unless the lab says otherwise the load runs on the same host, so nothing need
	// listen to the network of a rented box: flags = { host = "0.0.0.0" } opens it.
	if !k.inConfig {
		add("host", listens(e))
		add("port", strconv.Itoa(Port(e)))
	}
	if e.Config.Reveal() != "" {
		add(k.configFlag, ConfigFile(e))
	}
	return append(plainWords(argv), e.flagWords()...)
}

// flagWords are the lab's flags as a command line has them, but for those that the engine
// finds in its file. One with several values
// stands once before all of them, as argparse keeps only the last of a repeated one;
// click wants it repeated.
func (e *Engine) flagWords() []provision.Text {
	var out []provision.Text
	d := e.dialect()
	for i, f := range e.Flags {
		if kinds[e.Kind].inConfig && d.means(f.Name).Is(setting.Listening) {
			continue
		}
		if i == 0 || e.Flags[i-1].Name != f.Name || kinds[e.Kind].click {
			out = append(out, provision.Plain("--"+f.Name))
		}
		if f.Value != nil {
			out = append(out, *f.Value)
		}
	}
	return out
}

func plainWords(words []string) []provision.Text {
	var out []provision.Text
	for _, w := range words {
		out = append(out, provision.Plain(w))
	}
	return out
}

// quote makes one word of a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// quoteText is quote for what may be secret.
func quoteText(word provision.Text) provision.Text {
	if !word.IsSecret() {
		return provision.Plain(quote(word.Reveal()))
	}
	return provision.Partly(quote(word.Reveal()), word.String(), word.Secrets())
}

// GPUs is how many GPUs the engine's flags ask for, as far as they tell: what counts
// them, multiplied. SGLang's data parallel attention divides the tensor-parallel GPUs
// and multiplies nothing.
func GPUs(e *Engine) int {
	n, _ := countedGPUs(e)
	return n
}

// countedGPUs is [GPUs], and whether a flag says it.
func countedGPUs(e *Engine) (n int, said bool) {
	n = 1
	kind := e.dialect().kind
	for _, m := range setting.All() {
		if m.Multiplies(kind) && (m.Name != setting.DataParallel || !e.isOn(setting.DPAttention)) {
			n *= e.wholeNumber(1, m.Name)
			_, says := e.says(m.Name)
			said = said || says
		}
	}
	return n, said
}

// GPUsUsed is how many of its host's GPUs an engine uses: those that the lab gives
// it, or that its flags ask for; all where flags do not tell, as beside a command of the lab's.
func GPUsUsed(e *Engine) int {
	need, said := countedGPUs(e)
	switch {
	case e.Host() == nil || e.Host().GPUs.Count == 0 || e.Router:
		return 0
	case len(e.GPUIDs()) > 0:
		return len(e.GPUIDs())
	case kinds[e.Kind].needsModel && e.Command == nil && (said || e.Build == nil): // a build may have it in its output
		return min(need, e.Host().GPUs.Count)
	}
	return e.Host().GPUs.Count
}

// MaxContext is how many tokens a prompt and its answer may have together, as far
// as the engine's flags say, and the flag that says it.
func MaxContext(e *Engine) (tokens int, flag string, ok bool) { return maxContext(e.generates()) }

// MaxPrompt is [MaxContext] for prompts alone, where others read them than generate.
func MaxPrompt(e *Engine) (tokens int, flag string, ok bool) {
	prefill := e.recipe(Prefill)
	if prefill == nil {
		return 0, "", false
	}
	return maxContext(prefill)
}

func maxContext(e *Engine) (tokens int, flag string, ok bool) {
	f, _, _ := e.meant(setting.ContextLength)
	n, isNumber := number(f.text().Reveal())
	return int(n), f.Name, isNumber && n >= 1
}

// hasEnv reports whether the engine's environment holds "NAME=value".
func (e *Engine) hasEnv(pair string) bool {
	name, value, _ := strings.Cut(pair, "=")
	return slices.ContainsFunc(e.Env, func(v provision.EnvVar) bool {
		return v.Name == name && v.Value.Reveal() == value
	})
}
