package plan

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"hclbench/engines"
	"hclbench/provision"
	"hclbench/where"
)

// Selection picks cells of a plan. The zero value picks all of them.
type Selection struct {
	only    []string // conditions
	targets []target
}

// Empty reports whether nothing was said, so that every cell is picked.
func (s Selection) Empty() bool { return len(s.only)+len(s.targets) == 0 }

// ParseSelection reads the arguments of --only and --target. A cell is picked
// when one of the only and one of the targets pick it; none at all of a sort
// picks every cell. An only is a condition of package where, about what
// docs/plan.md says; it is read by [Plan.Select], which knows the names.
func ParseSelection(only, targetTexts []string) (Selection, error) {
	s := Selection{only: only}
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
		if slices.Contains(engines.Kinds(), sort) && dot {
			return fail(0, "%q is not a sort of target. %s Perhaps engine.%s is meant?", sort, example, text)
		}
		return fail(0, "%q is not a sort of target. %s", sort, example)
	}
	if !dot || name == "" {
		return fail(utf8.RuneCountInString(text), "Which %s? %s", sort, example)
	}
	if i := strings.IndexAny(name, "[]"); i >= 0 && sort != "engine" {
		const whole = "A target is whole; --only picks cells: --only 'benchmark = \"%s\" and concurrency <= 64'"
		return fail(utf8.RuneCountInString(text[:len(sort)+1+i]), whole, name[:i])
	}
	if sort == "engine" && !strings.Contains(name, ".") && !strings.Contains(name, "*") {
		name += ".*" // all of a kind
	}
	return target{text, sort, name}, nil
}

func (t target) picks(d *Deployment, c *Cell) bool {
	switch t.sort {
	case "host":
		return where.Match(t.name, d.Host().Name)
	case "engine":
		label := strings.TrimPrefix(d.Engine.Address(), "engine.")
		all, _, _ := strings.Cut(label, "[") // of an instance of for_each: the whole block
		return where.Match(t.name, label) || where.Match(t.name, all)
	}
	return where.Match(t.name, c.Benchmark)
}

// Select leaves only the picked cells in the plan, and the deployments and hosts
// that they need. Identities stay what they are in the whole plan, so that what
// a part measured is up to date in the whole. Of then says what the lab has. A
// [SelectionError] when a part of the selection cannot be read or picks nothing; the
// plan is then unchanged.
func (p *Plan) Select(s Selection) error {
	if s.Empty() {
		return nil
	}
	only, err := p.conditions(s.only)
	if err != nil {
		return err
	}
	if err := p.explainTargets(s.targets); err != nil {
		return err
	}
	of := p.Count()
	var kept []*Deployment
	for _, d := range p.Deployments {
		part := *d
		part.Cells = slices.DeleteFunc(slices.Clone(d.Cells), func(c *Cell) bool {
			wanted := func(holds where.Condition) bool { return holds(values(d, c)) }
			targeted := func(t target) bool { return t.picks(d, c) }
			return len(only) > 0 && !slices.ContainsFunc(only, wanted) ||
				len(s.targets) > 0 && !slices.ContainsFunc(s.targets, targeted)
		})
		if len(part.Cells) > 0 {
			kept = append(kept, &part)
		}
	}
	if len(kept) == 0 {
		last := s.targets[len(s.targets)-1]
		return &SelectionError{"--target", last.text, 1, "No cell that --only picks is of this target."}
	}
	p.Deployments, p.Of = kept, &of
	p.Only = append(p.Only, s.only...)
	for _, t := range s.targets {
		p.Targets = append(p.Targets, t.text)
	}
	p.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), func(h *provision.Host) bool {
		return !slices.ContainsFunc(kept, func(d *Deployment) bool { return slices.Contains(d.hosts(d.Cells), h) })
	})
	return nil
}

// explainTargets finds the first target that picks nothing, and says what there is.
func (p *Plan) explainTargets(targets []target) error {
	for _, t := range targets {
		picks := false
		var there names
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

// The names that conditions can use beside the axes of the benchmarks.
const (
	nameBenchmark  = "benchmark"
	nameEngine     = "engine" // KIND.NAME, or the kind
	nameHost       = "host"
	nameRepetition = "repetition"
)

// values are what a cell has under the names of conditions.
func values(d *Deployment, c *Cell) where.Values {
	return func(name string) (any, bool) {
		if v, ok := c.Axes.Value(name); ok && name != nameEngine {
			if n, ok := asNumber(v); ok {
				return n, true
			}
			return fmt.Sprint(v), true
		}
		switch name {
		case nameBenchmark:
			return c.Benchmark, true
		case nameEngine:
			kind := cmp.Or(d.Engine.Declared, d.Engine.Kind)
			block, _, _ := strings.Cut(d.Engine.Label(), "[") // of an instance of for_each
			return []string{d.Engine.Label(), d.Engine.Address(), block, kind}, true
		case nameHost:
			return d.Host().Name, true
		case nameRepetition:
			return float64(c.Repetition), true
		}
		return nil, false
	}
}

func asNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// conditions reads the arguments of --only. Each must pick something.
func (p *Plan) conditions(texts []string) ([]where.Condition, error) {
	known := names{nameBenchmark, nameEngine, nameHost, nameRepetition}
	var benchmarks names
	for _, c := range p.cells() {
		benchmarks.add(c.Benchmark)
		for _, a := range c.Axes {
			known.add(a.Name)
		}
	}
	var all []where.Condition
	for _, text := range texts {
		holds, comparisons, err := where.Read(text, known)
		if err != nil {
			return nil, notRead(err, benchmarks)
		}
		if !p.any(holds) {
			return nil, p.explainOnly(text, comparisons)
		}
		all = append(all, holds)
	}
	return all, nil
}

// any reports whether a condition holds for a cell of the plan.
func (p *Plan) any(holds where.Condition) bool {
	for d, c := range p.cells() {
		if holds(values(d, c)) {
			return true
		}
	}
	return false
}

// notRead is the error of an --only that is no condition.
func notRead(err error, benchmarks names) error {
	var mistake *where.Error
	if !errors.As(err, &mistake) {
		return err
	}
	detail := strings.ToUpper(mistake.Detail[:1]) + strings.TrimSuffix(mistake.Detail[1:], ".") + "."
	if name := strings.TrimPrefix(mistake.Name, "benchmark."); slices.Contains(benchmarks, name) {
		detail = fmt.Sprintf("There is no %q to compare. Perhaps benchmark = %q is meant?", mistake.Name, name)
	} else {
		example := append(benchmarks, "online")[0]
		detail += fmt.Sprintf("\nAn example: benchmark = %q and engine = \"vllm.*\" and concurrency <= 64", example)
	}
	return &SelectionError{"--only", mistake.Text, 1 + utf8.RuneCountInString(mistake.Text[:mistake.At]), detail}
}

// explainOnly says why a condition picks nothing: because of the first comparison
// that no cell meets, or because no cell meets all that have to be met.
func (p *Plan) explainOnly(text string, comparisons []where.Comparison) error {
	var used names
	for _, c := range comparisons {
		used.add(c.Name)
		if c.Negated || p.any(c.Holds) {
			continue
		}
		var there names
		for d, cell := range p.cells() {
			switch v, ok := values(d, cell)(c.Name); v := v.(type) {
			case []string:
				there.add(v[0])
			default:
				if ok {
					there.add(fmt.Sprint(v))
				}
			}
		}
		at := 1 + utf8.RuneCountInString(text[:c.At])
		none := fmt.Sprintf("No cell has %s %s %s.", c.Name, c.Op, c.Value)
		return &SelectionError{"--only", text, at, there.say(none, c.Value)}
	}
	none := fmt.Sprintf("No cell meets this condition on %s, although its parts are met one by one.", strings.Join(used, ", "))
	return &SelectionError{"--only", text, 1, none}
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
type names []string

func (n *names) add(name string) {
	if !slices.Contains(*n, name) {
		*n = append(*n, name)
	}
}

// say appends to a sentence what is meant perhaps, and what there is.
func (n names) say(sentence, wrong string) string {
	if near := where.Nearest(wrong, n); near != "" {
		sentence += fmt.Sprintf(" Did you mean %q?", near)
	}
	const most = 20
	more := ""
	if len(n) > most {
		n, more = n[:most], fmt.Sprintf(" and %d more", len(n)-most)
	}
	return sentence + " There are: " + strings.Join(n, ", ") + more + "."
}
