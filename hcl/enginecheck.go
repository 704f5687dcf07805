package hcl

import (
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"hclbench/engines"
	"hclbench/origin"
	"hclbench/provision"
)

// checkEngine holds an engine against what its kind knows.
func (l *lab) checkEngine(i *instance, e *engines.Engine) {
	for _, f := range engines.Check(e) {
		at, where := l.entry(i, f.Field, f.Key)
		if f.Key != "" && where != "" {
			continue // told where it is said
		}
		summary := "Wrong " + f.Field[strings.LastIndexByte(f.Field, '.')+1:]
		if r, ok := blockRange(i.of.body, f.Field); ok {
			at = r
		} else if _, said := i.settings[f.Field]; !said && f.Field != "build" {
			summary = "Missing argument"
			if l.broken || l.misspelt[i.of.header][f.Field] {
				continue
			}
		}
		if summary == "Missing argument" {
			l.err(at, summary, "%s", f.Detail)
		} else {
			l.errOnce(at, summary, "%s%s", f.Detail, where)
		}
	}
	l.doubt(i, e)
	l.warnOfShownSecrets(i, e)
	l.warnOfClearSecrets(i, e)
	l.warnOfFlags(i, e)
	if ref, err := origin.ParseRef(e.Image); err == nil && ref.Floats() && !l.src.Locked[e.Image] && engines.Runtime(e) == provision.Docker {
		at, where := l.where(i, "image")
		l.warn(at, "Image without a version", "%s may be another image tomorrow, and results would not be comparable. Name a version or a digest, such as %s, or let `hcl lock` write down which one it is.%s", e.Image, ref.Name()+":v1.2.3", where)
	}
}

// doubt warns of what hardly works. What is inherited is told where it is said.
func (l *lab) doubt(i *instance, e *engines.Engine) {
	for _, f := range engines.Doubts(e) {
		if at, inherited := l.entry(i, f.Field, f.Key); inherited == "" {
			l.warnOnce(at, "Doubtful "+f.Field, "%s", f.Detail)
		}
	}
}

// warnOfFlags is about flags that no version of the engine has and that look like one
// of it, or like another engine's.
func (l *lab) warnOfFlags(i *instance, e *engines.Engine) {
	if e.Command != nil {
		return
	}
	seen := map[string]bool{}
	for _, f := range e.Flags {
		if seen[f.Name] || engines.IsKnownFlag(e.Kind, f.Name) {
			continue
		}
		seen[f.Name] = true
		at, inherited := l.entry(i, "flags", f.Name)
		if inherited != "" {
			continue
		}
		if other, here := engines.FlagElsewhere(e.Kind, f.Name); other != "" {
			l.warnOnce(at, "Unknown flag", "hcl knows of no version of %q with the flag %s, which is one of %q. Here it is called %s.", e.Kind, f.Name, other, here)
		} else if hint := didYouMean(strings.TrimPrefix(f.Name, "no-"), engines.KnownFlags(e.Kind), plainly); hint != "" && len(f.Name) > shortFlag {
			l.warnOnce(at, "Unknown flag", "hcl knows of no version of %q with the flag %s.%s", e.Kind, f.Name, hint)
		}
	}
}

// shortFlag is so short that another flag is always near.
const shortFlag = 6

// warnOfShownSecrets is about secrets that an engine gets on its command line.
func (l *lab) warnOfShownSecrets(i *instance, e *engines.Engine) {
	name := ""
	if slices.ContainsFunc(e.Command, provision.Text.IsSecret) {
		name = "command"
	}
	secret := func(f engines.Flag) bool { return f.Value != nil && f.Value.IsSecret() }
	if e.Command == nil && !engines.HidesFlags(e) && slices.ContainsFunc(e.Flags, secret) {
		name = "flags"
	}
	if name == "" || e.Host == nil || e.Kind == engines.Sim {
		return
	}
	at, where := l.where(i, name)
	l.warn(at, "Secret on a command line", "A sensitive value in %s stands in the list of processes on host.%s, which everybody there can read, though not in what Docker tells and hcl keeps. Where the engine reads it from a variable, give it in env.%s", name, e.Host.Name, where)
}

var (
	// secretName is the name of something that is kept from others.
	secretName = regexp.MustCompile(`(?i)^(hf[_-]token|.*[_-](api[_-]?key|token|secret|password)|api[_-]?key|authorization|password|secret)$`)
	// secretForm is how well-known tokens begin.
	secretForm = regexp.MustCompile(`^(hf_|sk-|nvapi-|gh[pousr]_|glpat-|xox[abp]-|AKIA|Bearer )[A-Za-z0-9._-]{6,}`)
)

// secretInClear reports whether a value that is shown is one that hardly should be.
func secretInClear(name string, value provision.Text) bool {
	clear := value.Reveal()
	return !value.IsSecret() && (secretForm.MatchString(clear) || len(clear) > 7 && secretName.MatchString(name) && !strings.HasPrefix(clear, "/"))
}

// warnOfClearSecrets is about tokens and keys that are written down as any other text.
func (l *lab) warnOfClearSecrets(i *instance, e *engines.Engine) {
	for _, v := range e.Env {
		if secretInClear(v.Name, v.Value) {
			l.secretInClear(i, "env", v.Name)
		}
	}
	for _, f := range e.Flags {
		if f.Value != nil && secretInClear(f.Name, *f.Value) {
			l.secretInClear(i, "flags", f.Name)
		}
	}
}

func (l *lab) secretInClear(i *instance, argument, key string) {
	at, inherited := l.entry(i, argument, key)
	if inherited != "" {
		return
	}
	hidden := at
	if item, _ := l.item(i, argument, key); item != nil {
		at, hidden = item.KeyExpr.Range(), item.ValueExpr.Range()
	}
	l.problems.hidden = append(l.problems.hidden, hidden)
	l.warnOnce(at, "Secret in clear", "The value of %s looks like a secret, and is shown in plans and kept with the results. Mark it, as a variable with sensitive = true, or as here:\n\n    %s = sensitive(env(%q))", key, key, strings.ToUpper(strings.ReplaceAll(key, "-", "_")))
}

// where is the place of a setting, or of the block where it is not said. What is
// inherited is shown at the block that inherits it: elsewhere it is right.
func (l *lab) where(i *instance, name string) (at hcl.Range, note string) {
	x, said := i.settings[name]
	if !said {
		return i.of.header, ""
	}
	own := x.body == i.of.body
	for _, b := range i.of.body.Blocks {
		own = own || x.body == b.Body
	}
	if own {
		return x.at, ""
	}
	name = name[strings.LastIndexByte(name, '.')+1:]
	return i.of.header, "\n\nWhat it says of " + name + " is inherited from " + pos(x.at) + "."
}

// entry is where, of one key of an object and its value. Note is not empty as well where
// the object stands in this block and the key comes from what it inherits.
func (l *lab) entry(i *instance, name, key string) (at hcl.Range, note string) {
	at, note = l.where(i, name)
	if key == "" || note != "" {
		return at, note
	}
	item, found := l.item(i, name, key)
	switch {
	case !found:
		return at, ""
	case item == nil:
		return i.of.header, "\n\nWhat it says of " + key + " is inherited."
	}
	return hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range()), ""
}

// item is where a block's own object says a key; nil: it does not. False: the object is
// not written there as one.
func (l *lab) item(i *instance, name, key string) (*hclsyntax.ObjectConsItem, bool) {
	a, own := i.of.body.Attributes[name]
	if !own {
		return nil, false
	}
	object, ok := a.Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil, false
	}
	for n, item := range object.Items {
		if len(item.KeyExpr.Variables()) > 0 {
			return nil, false
		}
		if written, ok := writtenKey(item); ok && written == key {
			return &object.Items[n], true
		}
	}
	return nil, true
}

// writtenKey is the key of an object's item, where the text shows it.
func writtenKey(item hclsyntax.ObjectConsItem) (string, bool) {
	if len(item.KeyExpr.Variables()) > 0 {
		return "", false
	}
	v, diags := item.KeyExpr.Value(nil)
	if diags.HasErrors() || !v.IsKnown() {
		return "", false
	}
	return asString(v)
}
