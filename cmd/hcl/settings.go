package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"hclbench/engines"
	"hclbench/engines/setting"
	"hclbench/plain"
)

func settingsVerb(t *console) *cobra.Command {
	var version string
	c := verb("settings", atMost(2), func(_ context.Context, args []string) error {
		return runSettings(t.stdout, args, version)
	})
	c.Flags().StringVar(&version, "version", "", "what this `version` has, such as 0.11.0; without it the newest that hcl knows")
	c.ValidArgsFunction = func(c *cobra.Command, args []string, begun string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
		switch kind := ""; len(args) {
		case 0:
			all = settingKinds()
		case 1:
			if kind = strings.ReplaceAll(args[0], "-", "_"); !slices.Contains(setting.Kinds(), kind) {
				break
			}
			for _, row := range setting.Rows(ofName(kind, begun), setting.ParseVersion(version)) {
				all = append(all, row.Name)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// settingKinds are the kinds as a person writes them.
func settingKinds() (names []string) {
	for _, kind := range setting.Kinds() {
		names = append(names, strings.ReplaceAll(kind, "_", "-"))
	}
	return names
}

// ofName is the kind in whose table a name stands: of variables, which begin with a capital letter, or of options.
func ofName(kind, name string) string {
	if variables := setting.Variables(kind); strings.IndexFunc(name, unicode.IsUpper) == 0 && setting.Has(variables) {
		return variables
	}
	return kind
}

func runSettings(w io.Writer, args []string, version string) error {
	if len(args) == 0 {
		return tellKinds(w)
	}
	kind := strings.ReplaceAll(args[0], "-", "_")
	if !slices.Contains(setting.Kinds(), kind) {
		return usage("hcl has no settings of %q. It has those of %s", args[0], plain.List(settingKinds(), "and"))
	}
	var v setting.Version
	if version != "" {
		if err := engines.CheckVersion(version); err != nil {
			return usage("--version %w", err)
		}
		v = setting.ParseVersion(strings.TrimPrefix(version, "v"))
		if setting.Read(kind) == nil {
			return usage("--version %s: of %s hcl does not know which version has what", version, args[0])
		}
	}
	name := "*"
	if len(args) > 1 {
		name = strings.TrimPrefix(args[1], "--")
	}
	kind = ofName(kind, name)
	if strings.ContainsAny(name, "*?") {
		return listSettings(w, kind, name, v)
	}
	return tellSetting(w, kind, name, v)
}

func tellKinds(w io.Writer) error {
	rows := [][]any{{"kind", "options", "variables", "versions read"}}
	for _, kind := range setting.Kinds() {
		of := [4]any{strings.ReplaceAll(kind, "_", "-"), len(setting.Rows(kind, setting.Version{})), "-", "not known"}
		if variables := setting.Variables(kind); setting.Has(variables) {
			of[2] = len(setting.Rows(variables, setting.Version{}))
		}
		if read := setting.Read(kind); read != nil {
			of[3] = fmt.Sprintf("%d, %s to %s", len(read), read[0], read[len(read)-1])
		}
		rows = append(rows, of[:])
	}
	return writeTable(w, rows)
}

// listSettings prints those whose names match a pattern.
func listSettings(w io.Writer, kind, pattern string, v setting.Version) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return usage("%q is no pattern of names: * is any letters, ? one letter", pattern)
	}
	rows := [][]any{{"name", "since", "takes", "without it"}}
	if strings.HasSuffix(kind, setting.Variables("")) {
		rows = [][]any{{"name", "since"}}
	}
	for _, row := range setting.Rows(kind, v) {
		if fits, _ := path.Match(pattern, row.Name); !fits {
			continue
		}
		d := setting.Describe(kind, row, v)
		since, without := "", d.Default
		if d.Since.Known() {
			since = d.Since.String()
		}
		switch {
		case d.Deprecated.Known() && !setting.Latest(kind, v).Before(d.Deprecated):
			without = "deprecated since " + d.Deprecated.String()
		case without == "-" || without == "?":
			without = ""
		}
		rows = append(rows, []any{d.Name, since, shortForm(d.Form), plain.Cut(without, 24)}[:len(rows[0])])
	}
	if len(rows) == 1 {
		return usage("no setting has a name like %s: * is any letters, ? one letter", pattern)
	}
	return writeTable(w, rows)
}

// tellSetting prints all that hcl knows of one, and what a version makes of its name.
func tellSetting(w io.Writer, kind, name string, v setting.Version) error {
	j := setting.Judge(kind, name, v)
	row, how := setting.Lookup(kind, name, v)
	hint := ""
	if j.Instead != "" {
		hint = " Did you mean " + j.Instead + "?"
	}
	switch {
	case j.Fault == setting.Several:
		return usage("%s is the beginning of several: %s", name, strings.Join(j.Could, ", "))
	case row == nil:
		return usage("hcl knows no %[2]s of %[1]s.%[3]s", strings.ReplaceAll(strings.TrimSuffix(kind, setting.Variables("")), "_", "-"), name, hint)
	}
	d := setting.Describe(kind, row, v)
	lines := [][]any{{d.Name}}
	say := func(what, text string) {
		if text != "" {
			lines = append(lines, []any{"  " + what, text})
		}
	}
	switch {
	case how == setting.Beginning:
		say("asked for", name+", its beginning")
	case how.Opposite():
		say("asked for", name+", its opposite")
	}
	say("other names", strings.Join(d.Others, ", "))
	if !strings.HasSuffix(kind, setting.Variables("")) {
		say("takes", takes(d))
		say("one of", strings.Join(d.Choices, ", "))
		say("without it", withoutIt(d))
	}
	if read := setting.Read(kind); read != nil {
		since := "the oldest version read, " + read[0].String()
		if d.Since.Known() {
			since = d.Since.String()
		}
		say("there since", since)
	}
	if d.Until.Known() {
		say("there until", d.Until.String())
	}
	if d.Gaps {
		say("not always", "versions between do not have it")
	}
	if d.Deprecated.Known() {
		say("deprecated", "since "+d.Deprecated.String())
	}
	say("instead", d.Instead)
	for _, b := range d.Before {
		var was []string
		if b.Form != "" {
			was = append(was, "it took "+takes(setting.Description{Name: d.Name, Form: b.Form}))
		}
		if b.Default != "" {
			was = append(was, "without it "+withoutIt(setting.Description{Default: b.Default}))
		}
		say("before "+b.Version.String(), strings.Join(was, ", "))
	}
	if d.Meaning != nil {
		say("hcl reads it as", d.Meaning.Name)
		say("the server tells", strings.Join(d.Meaning.Told(kind), ", "))
	}
	if v.Known() {
		answer := "has it"
		if read := setting.Read(kind); v.Before(read[0]) {
			answer = "is older than any version read: what the oldest has, it may not have"
		} else if newest := read[len(read)-1]; newest.Before(v) {
			answer = "is newer than any version read, and " + newest.String() + " has it"
		}
		switch j.Fault {
		case setting.Gone:
			answer = "has it no more: " + j.Version.String() + " was the last"
			if j.Could != nil {
				answer += "; it takes the name for " + j.Could[0]
			}
		case setting.NotYet:
			answer = "has it not yet: " + j.Version.String() + " is the first"
		case setting.Unknown:
			answer = "does not take the name"
		}
		say(v.String(), answer)
	}
	return writeTable(w, lines)
}

// shortForm is what follows a setting on the command line, in a word of a list.
func shortForm(form string) string {
	if strings.HasPrefix(form, setting.Switch) {
		return "nothing"
	}
	word := strings.TrimRight(form, "+*?.x23456789")
	if short := map[string]string{"int": "number", "float": "number", "str": "text", "json": "object", "boolword": "boolean"}[word]; short != "" {
		return short
	}
	return word
}

// takes is what follows a setting on the command line, in words.
func takes(d setting.Description) string {
	form, many := d.Form, ""
	switch {
	case form == setting.SwitchNo:
		return "nothing; no-" + d.Name + " turns it off"
	case strings.HasPrefix(form, setting.Switch):
		return "nothing"
	case form == "boolword":
		return "true or false"
	}
	for suffix, what := range map[string]string{"+": ", one or more", "*": ", any number", "...": ", may be repeated", "?": ", or nothing"} {
		if bare, is := strings.CutSuffix(form, suffix); is {
			form, many = bare, what
		}
	}
	words := map[string]string{"int": "a whole number", "float": "a number", "str": "a text", "json": "a JSON object"}
	if word, known := words[form]; known {
		return word + many
	}
	return form + many
}

// withoutIt is a default, in words where it is none.
func withoutIt(d setting.Description) string {
	switch d.Default {
	case "-":
		return "the engine decides"
	case "?":
		return "not known"
	}
	return plain.Line(d.Default)
}
