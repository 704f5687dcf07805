package engines

import (
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

// dialect is the table by which an engine's flags are read.
type dialect struct {
	kind    string
	version setting.Version
	own     bool // of its kind; else only whole names count, since it has shorter ones of its own
}

// dialect of a server that the table does not have is that of most.
func (e *Engine) dialect() dialect {
	d := dialect{e.Kind, e.version(), true}
	if setting.Has(e.Kind) {
		return d
	}
	d.own, d.kind = false, VLLM
	if e.Router {
		d.kind = VLLMRouter
	} else if i := slices.IndexFunc(e.Flags, func(f Flag) bool { return f.Name == "as" }); i >= 0 && e.Kind == Sim {
		d.kind = e.Flags[i].text().Reveal()
	}
	return d
}

// option is what the server understands by a flag; nil: nothing that the table has.
func (d dialect) option(name string) (*setting.Row, setting.How) {
	row, how := setting.Lookup(d.kind, name, d.version)
	if !d.own && (how == setting.Beginning || how == setting.Ambiguous) {
		return nil, setting.None
	}
	return row, how
}

// means is what hcl understands of a flag; nil: nothing.
func (d dialect) means(name string) *setting.Meaning {
	row, _ := d.option(name)
	return setting.Means(row)
}

// meaning tells the flags of a meaning from others, by their names.
func (d dialect) meaning(meaning string) func(name string) bool {
	return func(name string) bool { m := d.means(name); return m != nil && m.Name == meaning }
}

// key is the one name of all by which the server understands the same.
func (d dialect) key(name string) string {
	row, _ := d.option(name)
	return setting.OneName(d.kind, name, row)
}

// value is a flag's value in clear; of a switch that is turned off "false".
func (d dialect) value(f Flag) string {
	if _, how := d.option(f.Name); f.Value == nil && how.Opposite() {
		return "false"
	}
	return f.text().Reveal()
}

// FlagKey is one name for all by which servers of a kind understand the same flag, so that
// what one block says takes the place of what it inherits.
func FlagKey(kind, name string) string {
	row, _ := setting.Lookup(kind, name, setting.Version{})
	return setting.OneName(kind, name, row)
}

// Flag returns the value of a flag, by whichever of its names the lab says it, in clear; ""
// and true for a bare one, "false" for one that is turned off. One that stands in the
// configuration file counts, where the command line does not have it.
func (e *Engine) Flag(name string) (value string, said bool) {
	d := e.dialect()
	key := d.key(name)
	f, _, said := e.find(func(name string) bool { return d.key(name) == key })
	return d.value(f), said
}

// meant is the flag of a meaning, and whether it stands in the configuration file.
func (e *Engine) meant(meaning string) (f Flag, inConfig, said bool) {
	return e.find(e.dialect().meaning(meaning))
}

// find is the flag whose name is the one: of several names the last counts, as on a command line, and of its values the first.
func (e *Engine) find(is func(name string) bool) (found Flag, inConfig, said bool) {
	for _, flags := range [][]Flag{e.Flags, configFlags(e)} {
		for _, f := range flags {
			if is(f.Name) && f.Name != found.Name {
				found, said = f, true
			}
		}
		if said {
			return found, inConfig, true
		}
		inConfig = true
	}
	return Flag{}, false, false
}

// says is [Engine.Flag] by what the flag means.
func (e *Engine) says(meaning string) (value string, said bool) {
	d := e.dialect()
	f, _, said := e.find(d.meaning(meaning))
	return d.value(f), said
}

// isOn reports whether the engine is told of a switch, and to turn it on.
func (e *Engine) isOn(meaning string) bool {
	value, said := e.says(meaning)
	return said && value != "false"
}

// wholeNumber is a meaning's whole number; otherwise when unset or not one.
func (e *Engine) wholeNumber(otherwise int, meaning string) int {
	if s, said := e.says(meaning); said {
		if n, err := strconv.Atoi(s); err == nil {
			return n
		}
	}
	return otherwise
}

// offAlone is a switch that cannot be turned off.
const offAlone = "false leaves %s out, and then it is not off: what the engine does without it is %s. Remove it, or give the engine what does turn it off."

// Settle makes of flags that are false what turns them off: the flag's opposite where the version has one, unless the
// engine does without it anyway, and else nothing. What cannot be turned off so is a doubt.
func Settle(e *Engine) []FieldError {
	var doubts findings
	var flags []Flag
	d := e.dialect()
	for _, f := range e.Flags {
		row, how := d.option(f.Name)
		switch {
		case !f.Off:
			flags = append(flags, f)
		case row == nil || !d.own || how.Opposite() || how == setting.Ambiguous: // of what does not stand there
		case row.Form(d.version) == "bool?": // of versions that read a word
			text := provision.Plain("false")
			flags = append(flags, Flag{Name: f.Name, Value: &text})
		case !strings.HasPrefix(row.Form(d.version), setting.Switch) || row.Default(d.version) == "false":
		case row.Form(d.version) == setting.SwitchNo:
			flags = append(flags, Flag{Name: "no-" + row.Name})
		case e.Command == nil:
			standard := "on"
			if row.Default(d.version) != "true" {
				standard = "for it to decide"
			}
			doubts.addKey("flags", f.Name, offAlone, f.Name, standard)
		}
	}
	slices.SortStableFunc(flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	e.Flags = flags
	return doubts
}

// IsSecret reports whether a flag's value is one that is kept from others.
func IsSecret(e *Engine, flag string) bool { return e.dialect().means(flag).Is(setting.Secret) }

// elsewhere says whose a flag is that a version of a kind does not have, and what it is called here; empty:
// nobody's that hcl knows, or without a name here.
func elsewhere(kind, name string, v setting.Version) (other, here string) {
	for _, other := range inferenceKinds {
		if right := setting.Respelled(other, name, setting.Version{}); right != "" {
			name = right
		}
		row, how := setting.Lookup(other, name, setting.Version{})
		if row == nil || other == kind || how == setting.Ambiguous || how == setting.Beginning && row.Name != name+"-size" {
			continue
		}
		m := setting.Means(row)
		if here := m.HintOf(kind); here != "" && setting.Judge(kind, here, v).Fault == setting.Right {
			return other, here
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
