package plan

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"

	"hclbench/provision"
)

// Selection picks cells of a plan. The zero value picks all of them.
type Selection struct {
	only    []only
	targets []target
}

// Empty reports whether nothing was said, so that every cell is picked.
func (s Selection) Empty() bool { return len(s.only)+len(s.targets) == 0 }

// ParseSelection reads the arguments of --only and --target. A cell is picked
// when one of the only and one of the targets pick it; none at all of a sort
// picks every cell. docs/plan.md has the grammar. The errors show the text and
// point at the column.
func ParseSelection(onlyTexts, targetTexts []string) (Selection, error) {
	var s Selection
	for _, text := range onlyTexts {
		o, err := parseOnly(text)
		if err != nil {
			return Selection{}, err
		}
		s.only = append(s.only, o)
	}
	for _, text := range targetTexts {
		t, err := parseTarget(text)
		if err != nil {
			return Selection{}, err
		}
		s.targets = append(s.targets, t)
	}
	return s, nil
}

// SelectionError is a --only or --target that cannot be read or that picks
// nothing.
type SelectionError struct {
	Flag   string // "--only"
	Text   string // as given
	Column int    // in characters from 1; where Text is wrong
	Detail string // full sentences
}

// Error shows the text with a mark below the column.
func (e *SelectionError) Error() string {
	return fmt.Sprintf("%s is wrong:\n\n    %s\n    %s^\n\n%s", e.Flag, e.Text, strings.Repeat(" ", e.Column-1), e.Detail)
}

// target is one --target: everything of an engine, a host or a benchmark.
type target struct {
	text, sort, name string // name is a glob; of an engine "KIND.NAME", or `KIND.NAME["KEY"]`
}

func parseTarget(text string) (target, error) {
	fail := func(at int, format string, args ...any) (target, error) {
		return target{}, &SelectionError{"--target", text, at + 1, fmt.Sprintf(format, args...)}
	}
	const example = "Write host.NAME, engine.KIND.NAME or benchmark.NAME; * stands for any characters."
	sort, name, dot := strings.Cut(text, ".")
	switch sort {
	case "host", "benchmark", "engine":
	default:
		if len(strings.Split(text, ".")) == 2 && !strings.ContainsAny(text, "[]") {
			return fail(0, "%q is not a sort of target. %s Perhaps engine.%s is meant?", sort, example, text)
		}
		return fail(0, "%q is not a sort of target. %s", sort, example)
	}
	if !dot || name == "" {
		return fail(utf8.RuneCountInString(text), "Which %s? %s", sort, example)
	}
	if i := strings.IndexAny(name, "[]"); i >= 0 && sort != "engine" {
		return fail(utf8.RuneCountInString(text[:len(sort)+1+i]), "A target is whole; --only picks cells of a benchmark.")
	}
	if sort == "engine" && !strings.Contains(name, ".") && !strings.Contains(name, "*") {
		name += ".*" // all of a kind
	}
	return target{text, sort, name}, nil
}

func (t target) picks(d *Deployment, c *Cell) bool {
	switch t.sort {
	case "host":
		return glob(t.name, d.Host().Name)
	case "engine":
		label := strings.TrimPrefix(d.Engine.Address(), "engine.")
		all, _, _ := strings.Cut(label, "[") // of an instance of for_each: the whole block
		return glob(t.name, label) || glob(t.name, all)
	}
	return glob(t.name, c.Benchmark)
}

// Select leaves only the picked cells in the plan, and the deployments and hosts
// that they need. Identities stay what they are in the whole plan, so that what
// a part measured is up to date in the whole. Of then says what the lab has. A
// [SelectionError] when a part of the selection picks nothing; the plan is then
// unchanged.
func (p *Plan) Select(s Selection) error {
	if s.Empty() {
		return nil
	}
	if err := p.explain(s); err != nil {
		return err
	}
	of := p.Count()
	var kept []*Deployment
	for _, d := range p.Deployments {
		part := *d
		part.Cells = nil
		for _, c := range d.Cells {
			only := len(s.only) == 0 || slices.ContainsFunc(s.only, func(o only) bool { return o.picks(d, c) })
			targeted := len(s.targets) == 0 || slices.ContainsFunc(s.targets, func(t target) bool { return t.picks(d, c) })
			if only && targeted {
				part.Cells = append(part.Cells, c)
			}
		}
		if len(part.Cells) > 0 {
			kept = append(kept, &part)
		}
	}
	if len(kept) == 0 {
		last := s.targets[len(s.targets)-1]
		return &SelectionError{"--target", last.text, 1, "No cell that --only picks is of this target."}
	}
	p.Deployments, p.Of = kept, &of
	for _, o := range s.only {
		p.Only = append(p.Only, o.text)
	}
	for _, t := range s.targets {
		p.Targets = append(p.Targets, t.text)
	}
	p.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), func(h *provision.Host) bool {
		return !slices.ContainsFunc(kept, func(d *Deployment) bool { return d.uses(h) })
	})
	return nil
}

// explain finds the first part of a selection that picks nothing, and says what
// there is.
func (p *Plan) explain(s Selection) error {
	for _, o := range s.only {
		if err := p.explainOnly(o); err != nil {
			return err
		}
	}
	for _, t := range s.targets {
		picks := false
		there := newNames()
		for d, c := range p.cells() {
			picks = picks || t.picks(d, c)
			switch t.sort {
			case "host":
				there.add("host." + d.Host().Name)
			case "engine":
				there.add(d.Engine.Address())
			case "benchmark":
				there.add("benchmark." + c.Benchmark)
			}
		}
		if !picks {
			return &SelectionError{"--target", t.text, 1, there.say("Nothing that is measured is of this target.", t.text)}
		}
	}
	return nil
}

func (p *Plan) explainOnly(o only) error {
	fail := func(at int, detail string) error {
		return &SelectionError{"--only", o.text, at + 1, detail}
	}
	benchmarks, axes := newNames(), newNames()
	values := make([]*names, len(o.conditions)) // what each condition was held against
	numeric := make([]bool, len(o.conditions))  // one of them was a number
	met := make([]int, len(o.conditions))       // cells that met it and those before it
	inName := 0
	for d, c := range p.cells() {
		benchmarks.add(c.Benchmark)
		if !glob(o.benchmark, c.Benchmark) {
			continue
		}
		inName++
		at := coordinates(d, c)
		for _, a := range c.Axes {
			axes.add(a.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(at)) {
			axes.add(name)
		}
		for i, cond := range o.conditions {
			v, ok := at[cond.axis]
			if !ok {
				break
			}
			if values[i] == nil {
				values[i] = newNames()
			}
			values[i].add(fmt.Sprint(v))
			if _, ok := asNumber(v); ok {
				numeric[i] = true
			}
			if !cond.holds(v) {
				break
			}
			met[i]++
		}
	}
	if inName == 0 {
		return fail(o.nameAt, benchmarks.say(fmt.Sprintf("There is no benchmark %q.", o.benchmark), o.benchmark))
	}
	for i, cond := range o.conditions {
		switch {
		case !axes.has(cond.axis):
			return fail(cond.axisAt, axes.say(fmt.Sprintf("There is no axis %q.", cond.axis), cond.axis))
		case values[i] == nil:
			return fail(cond.axisAt, fmt.Sprintf("No cell that the conditions before this pick has the axis %q.", cond.axis))
		case !numeric[i] && cond.op != "=" && cond.op != "!=":
			return fail(cond.valueAt, values[i].say(fmt.Sprintf("%s compares numbers, and the axis %q has none.", cond.op, cond.axis), ""))
		case met[i] == 0:
			return fail(cond.valueAt, values[i].say(fmt.Sprintf("No cell has %s %s %s.", cond.axis, cond.op, cond.value), cond.value))
		}
	}
	return nil
}

// cells goes over all cells with their deployments.
func (p *Plan) cells() iter.Seq2[*Deployment, *Cell] {
	return func(yield func(*Deployment, *Cell) bool) {
		for _, d := range p.Deployments {
			for _, c := range d.Cells {
				if !yield(d, c) {
					return
				}
			}
		}
	}
}

// names are different texts in the order in which they came.
type names struct {
	list []string
	seen map[string]bool
}

func newNames() *names { return &names{seen: map[string]bool{}} }

func (n *names) add(name string) {
	if !n.seen[name] {
		n.seen[name] = true
		n.list = append(n.list, name)
	}
}

func (n *names) has(name string) bool { return n.seen[name] }

// say appends to a sentence what is meant perhaps, and what there is.
func (n *names) say(sentence, wrong string) string {
	best, bestDistance := "", 3
	for _, name := range n.list {
		if d := levenshtein.Distance(wrong, name, nil); wrong != "" && d < bestDistance && 2*d <= max(len(wrong), len(name)) {
			best, bestDistance = name, d
		}
	}
	if best != "" {
		sentence += fmt.Sprintf(" Did you mean %q?", best)
	}
	const most = 20
	list := n.list
	more := ""
	if len(list) > most {
		list, more = list[:most], fmt.Sprintf(" and %d more", len(list)-most)
	}
	return sentence + " There are: " + strings.Join(list, ", ") + more + "."
}
