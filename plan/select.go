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

// Selection picks cells of a plan by the arguments of --only and --target. A cell is
// picked when one of the only and one of the targets pick it; none at all of a sort
// picks every cell.
type Selection struct {
	Only    []string // conditions of package where, about what docs/plan.md says
	Targets []string
}

// Empty reports whether nothing was said, so that every cell is picked.
func (s Selection) Empty() bool { return len(s.Only)+len(s.Targets) == 0 }

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

// Select is the part of the plan with the picked cells, and the deployments and hosts
// that they need. Identities stay what they are in the whole plan, so that what
// a part measured is up to date in the whole. Of then says what the lab has. A
// [SelectionError] when a part of the selection cannot be read or picks nothing.
func (p *Plan) Select(s Selection) (*Plan, error) {
	if s.Empty() {
		return p, nil
	}
	only, err := p.conditions(s.Only)
	if err != nil {
		return nil, err
	}
	targets, err := p.targets(s.Targets)
	if err != nil {
		return nil, err
	}
	of := p.Count()
	var kept []*Deployment
	for _, d := range p.Deployments {
		part := *d
		part.Cells = slices.DeleteFunc(slices.Clone(d.Cells), func(c *Cell) bool {
			return !isPicked(d, c, only) || !isPicked(d, c, targets)
		})
		if len(part.Cells) > 0 {
			kept = append(kept, &part)
		}
	}
	if len(kept) == 0 {
		last := s.Targets[len(s.Targets)-1]
		return nil, &SelectionError{"--target", last, 1, "No cell that --only picks is of this target."}
	}
	picked := *p
	picked.Tunes = nil // all cells of their own, which nobody can name
	picked.MadeUp = slices.DeleteFunc(slices.Clone(p.MadeUp), func(m MadeUp) bool {
		return !slices.ContainsFunc(kept, func(d *Deployment) bool {
			return slices.ContainsFunc(d.Cells, func(c *Cell) bool { return slices.Contains(m.Benchmarks, c.Benchmark) })
		})
	})
	picked.Deployments, picked.Of, picked.Only, picked.Targets = kept, &of, s.Only, s.Targets
	picked.Hosts = slices.DeleteFunc(slices.Clone(p.Hosts), func(h *provision.Host) bool {
		return !slices.ContainsFunc(kept, func(d *Deployment) bool { return slices.Contains(d.needs(d.Cells), h) })
	})
	return &picked, nil
}

// pick reports whether a condition or a target picks a cell.
type pick func(*Deployment, *Cell) bool

func isPicked(d *Deployment, c *Cell, by []pick) bool {
	return len(by) == 0 || slices.ContainsFunc(by, func(p pick) bool { return p(d, c) })
}

func (p *Plan) any(by pick) bool {
	for d, c := range p.cells() {
		if by(d, c) {
			return true
		}
	}
	return false
}

// target is one --target: everything of an engine, a group, a host or a benchmark.
type target struct {
	sort, name string // name is a glob; of an engine "KIND.NAME", or `KIND.NAME["KEY"]`
}

func parseTarget(text string) (target, error) {
	fail := func(at int, format string, args ...any) (target, error) {
		return target{}, &SelectionError{"--target", text, at + 1, fmt.Sprintf(format, args...)}
	}
	const example = "Write host.NAME, engine.KIND.NAME, group.NAME or benchmark.NAME; * stands for any characters."
	sort, name, dot := strings.Cut(text, ".")
	switch known := slices.Contains([]string{"host", "benchmark", "engine", engines.GroupKind}, sort); {
	case !known && slices.Contains(engines.Kinds(), sort) && dot:
		return fail(0, "%q is not a sort of target. %s Perhaps engine.%s is meant?", sort, example, text)
	case !known:
		return fail(0, "%q is not a sort of target. %s", sort, example)
	case name == "":
		return fail(utf8.RuneCountInString(text), "Which %s? %s", sort, example)
	}
	if sort == engines.GroupKind { // an engine's address begins with its block, a group's kind is its block
		sort, name = "engine", text
	}
	if i := strings.IndexAny(name, "[]"); i >= 0 && sort != "engine" {
		const whole = "A target is whole; --only picks cells: --only 'benchmark = \"%s\" and concurrency <= 64'"
		return fail(utf8.RuneCountInString(text[:len(sort)+1+i]), whole, name[:i])
	}
	if sort == "engine" && !strings.ContainsAny(name, ".*") {
		name += ".*" // all of a kind
	}
	return target{sort, name}, nil
}

// names are what a cell has that targets of the sort name.
func (t target) names(d *Deployment, c *Cell) []string {
	switch t.sort {
	case "host":
		return hostNames(d.Hosts)
	case "engine":
		block, _, _ := strings.Cut(d.Engine.Label(), "[") // of an instance of for_each: the whole block
		return []string{d.Engine.Label(), block}
	}
	return []string{c.Benchmark}
}

func (t target) picks(d *Deployment, c *Cell) bool {
	return slices.ContainsFunc(t.names(d, c), func(name string) bool { return where.Match(t.name, name) })
}

// targets reads the arguments of --target. Each must pick something.
func (p *Plan) targets(texts []string) (all []pick, err error) {
	for _, text := range texts {
		t, err := parseTarget(text)
		if err != nil {
			return nil, err
		}
		if !p.any(t.picks) {
			var there names
			for d, c := range p.cells() {
				if t.sort == "engine" {
					there.add(d.Engine.Address())
				} else {
					there.add(t.sort + "." + t.names(d, c)[0])
				}
			}
			return nil, &SelectionError{"--target", text, 1, there.say("Nothing that is measured is of this target.", text)}
		}
		all = append(all, t.picks)
	}
	return all, nil
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
			switch v := v.(type) {
			case int64:
				return float64(v), true
			case float64:
				return v, true
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
			return hostNames(d.Hosts), true
		case nameRepetition:
			return float64(c.Repetition), true
		}
		return nil, false
	}
}

func meets(holds where.Condition) pick {
	return func(d *Deployment, c *Cell) bool { return holds(values(d, c)) }
}

// conditions reads the arguments of --only. Each must pick something.
func (p *Plan) conditions(texts []string) (all []pick, err error) {
	known := names{nameBenchmark, nameEngine, nameHost, nameRepetition}
	var benchmarks names
	for _, c := range p.cells() {
		benchmarks.add(c.Benchmark)
		for _, a := range c.Axes {
			known.add(a.Name)
		}
	}
	for _, text := range texts {
		holds, comparisons, err := where.Read(text, known)
		if err != nil {
			return nil, notRead(err, benchmarks)
		}
		if !p.any(meets(holds)) {
			return nil, p.explainOnly(text, comparisons)
		}
		all = append(all, meets(holds))
	}
	return all, nil
}

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

// explainOnly says which comparison no cell meets, or that none meets them together.
func (p *Plan) explainOnly(text string, comparisons []where.Comparison) error {
	var used names
	for _, c := range comparisons {
		used.add(c.Name)
		if c.Negated || p.any(meets(c.Holds)) {
			continue
		}
		var there names
		for d, cell := range p.cells() {
			v, ok := values(d, cell)(c.Name)
			if all, several := v.([]string); several {
				v = all[0]
			}
			if ok {
				there.add(fmt.Sprint(v))
			}
		}
		at := 1 + utf8.RuneCountInString(text[:c.At])
		none := fmt.Sprintf("No cell has %s %s %s.", c.Name, c.Op, c.Value)
		return &SelectionError{"--only", text, at, there.say(none, c.Value)}
	}
	const none = "No cell meets this condition on %s, although its parts are met one by one."
	return &SelectionError{"--only", text, 1, fmt.Sprintf(none, strings.Join(used, ", "))}
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

func hostNames(hosts []*provision.Host) (list []string) {
	for _, h := range hosts {
		list = append(list, h.Name)
	}
	return list
}

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
