package hcl

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/provision"
)

var flagName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// asFlags are the flags of an engine, sorted by name; of a list, one for each of its values.
func asFlags(v cty.Value) ([]engines.Flag, error) {
	var all []engines.Flag
	err := entries(v, func(name string, e cty.Value) error {
		values, err := asFlag(name, e)
		if plain, _ := e.Unmark(); err == nil && !plain.IsNull() && plain.Type() == cty.Bool && plain.False() {
			all = append(all, engines.Flag{Name: name, Off: true})
		}
		for _, value := range values {
			all = append(all, engines.Flag{Name: name, Value: value})
		}
		return err
	})
	return all, err
}

// asFlag are the values of one flag: nil stands for a flag that has none.
func asFlag(name string, v cty.Value) ([]*provision.Text, error) {
	plain, _ := v.Unmark()
	bare := strings.TrimLeft(name, "-")
	switch isBool := !plain.IsNull() && plain.Type() == cty.Bool; {
	case !flagName.MatchString(bare):
		return nil, wrong("%q is not the name of a flag.", name)
	case bare != name:
		return nil, wrong("Write the name without dashes: %s instead of %q.", bare, name)
	case isBool && v.IsMarked():
		return nil, wrong("The flag %s is on or off, which the command line shows, so it cannot be sensitive.", name)
	case isBool && plain.True():
		return []*provision.Text{nil}, nil
	case isBool || plain.IsNull():
		return nil, nil
	case isList(plain):
		return elements(v, func(e cty.Value) (*provision.Text, error) {
			if clear, _ := e.Unmark(); isObject(clear) { // as vLLM's own lora-modules has it
				return asObjectFlag(e)
			}
			value, err := asText(e)
			return &value, err
		})
	case isObject(plain):
		value, err := asObjectFlag(v)
		return []*provision.Text{value}, err
	}
	value, err := asText(v)
	return []*provision.Text{&value}, err
}

// asObjectFlag is an object as a flag takes it.
func asObjectFlag(v cty.Value) (*provision.Text, error) {
	s, err := asJSON(v)
	value := provision.Plain(s)
	if v.ContainsMarked() {
		value = provision.Secret(s)
	}
	return &value, err
}

type envVar = provision.EnvVar

func asEnvironment(v cty.Value) ([]envVar, error) {
	return asVariables(v, func(_ []envVar, x envVar) error {
		if x.Name == "" || strings.ContainsAny(x.Name, "= \x00") {
			return wrong("%q is not a name that an environment variable can have.", x.Name)
		}
		return nil
	})
}

func asHeaders(v cty.Value) ([]envVar, error) {
	return asVariables(v, func(before []envVar, x envVar) error {
		if err := load.CheckHeader(x.Name, x.Value.Reveal()); err != nil {
			return wrong("%s.", title(err.Error()))
		}
		if slices.ContainsFunc(before, func(h envVar) bool { return strings.EqualFold(h.Name, x.Name) }) {
			return wrong("The header %s is there twice: capitals mean nothing in its name.", x.Name)
		}
		return nil
	})
}

// asVariables are named texts, sorted by name. What is null is as if it were not there.
func asVariables(v cty.Value, check func(before []envVar, x envVar) error) ([]envVar, error) {
	list := []envVar{}
	err := entries(v, func(name string, e cty.Value) error {
		if e.IsNull() {
			return nil
		}
		value, err := asText(e)
		x := envVar{Name: name, Value: value}
		if err == nil {
			err = check(list, x)
		}
		list = append(list, x)
		return err
	})
	return list, err
}

func asUlimits(v cty.Value) ([]engines.Ulimit, error) {
	var out []engines.Ulimit
	err := entries(v, func(name string, e cty.Value) error {
		limit := engines.Ulimit{Name: name}
		if !e.IsNull() {
			n, err := whole[int64](-1, math.MaxInt64).as(e)
			if err != nil {
				return noFit
			}
			limit.Value = &n
		}
		out = append(out, limit)
		return nil
	})
	return out, err
}

func asAdapters(v cty.Value) (list []load.Adapter, err error) {
	err = entries(v, func(name string, e cty.Value) error {
		share, ok := asFloat(e)
		if !ok {
			return noFit
		}
		list = append(list, load.Adapter{Name: name, Share: share})
		return nil
	})
	return list, err
}

func asImageSizes(v cty.Value) (list []load.ImageSize, err error) {
	err = entries(v, func(name string, e cty.Value) error {
		share, ok := asFloat(e)
		if !ok {
			return noFit
		}
		size, err := load.ParseImageSize(name)
		if err != nil {
			return wrong("%s.", title(err.Error()))
		}
		size.Share = share
		list = append(list, size)
		return nil
	})
	load.SortImageSizes(list)
	return list, err
}

func asMount(v cty.Value) (provision.Mount, error) {
	s, _ := asString(v)
	parts := strings.Split(s, ":")
	m := provision.Mount{}
	switch {
	case len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw"):
		m.ReadOnly = parts[2] == "ro"
	case len(parts) != 2:
		return m, noFit
	}
	m.Source, m.Target = parts[0], parts[1]
	if !onHost(m.Source) || !strings.HasPrefix(m.Target, "/") {
		return m, wrong("Both paths of %q must begin with a slash: the one on the host, then the one in the container.", s)
	}
	return m, nil
}

// asGPUIDs are the GPUs of each of several instances, or of the only one.
func asGPUIDs(v cty.Value) ([][]string, error) {
	ids := func(e cty.Value) ([]string, error) { return elements(e, asPlainText) }
	if lists, err := elements(v, ids); err == nil && len(lists) > 0 {
		return lists, nil
	}
	only, err := ids(v)
	return [][]string{only}, err
}

// someForEach: without any, an instance would have all GPUs of its host.
func someForEach(lists [][]string) error {
	for i, ids := range lists {
		if len(ids) == 0 {
			return wrong("List %d is empty.%s", i+1, orNull)
		}
	}
	return nil
}

// onHost reports whether a path names the same file from wherever it is used on a host.
func onHost(path string) bool { return strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~/") }

// stage is what one stage of a load says.
func stage() *blockType {
	return &blockType{args: []argument{
		arg("duration", span, func(s *load.Stage, d load.Duration) { s.Duration = d }),
		arg("rate", rate, func(s *load.Stage, r load.Rate) { s.Rate = r }),
		arg("concurrency", whole(1, 1_000_000), func(s *load.Stage, n int) { s.Concurrency = n }),
	}}
}

func asStage(v cty.Value) (load.Stage, error) {
	var s load.Stage
	t := stage()
	err := entries(v, func(name string, e cty.Value) error {
		a, ok := t.argument(name)
		if !ok {
			return wrong("A stage has a duration, and a rate or a concurrency, and no %q.", name)
		}
		if e.IsNull() {
			return nil
		}
		x, err := a.kind.convert(e)
		if err != nil {
			return wrong("The %s of a stage is %s, not %s.", name, a.kind.want, describe(e))
		}
		a.set(&s, name, x)
		return nil
	})
	switch {
	case err != nil:
		return s, err
	case s.Duration == 0:
		return s, wrong("Each stage needs a duration.")
	case (s.Rate != 0) == (s.Concurrency != 0):
		return s, wrong("Each stage has either a rate or a concurrency.")
	}
	return s, nil
}

var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// asRow reads a row of published numbers. A text that is a number counts as one,
// because CSV knows only texts; what is empty is left out.
func asRow(v cty.Value) (map[string]any, error) {
	row := map[string]any{}
	return row, entries(v, func(name string, e cty.Value) error {
		if e.IsNull() {
			return nil
		}
		switch e.Type() {
		case cty.Bool, cty.Number:
			row[name] = axisValue(e)
		case cty.String:
			if x := asColumn(strings.TrimSpace(e.AsString())); x != "" {
				row[name] = x
			}
		default:
			return wrong("The column %q has %s, and a cell of a table is a number, a text, true or false.", name, describe(e))
		}
		return nil
	})
}

func asColumn(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && numberForm.MatchString(s) {
		return i
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && numberForm.MatchString(s) {
		return f
	}
	return s
}
