package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// kind is what is known of a kind of data set before anything of it is read.
type kind struct {
	name string
	// needs are the members of a [Dataset], by their names in JSON, without which there
	// are no prompts, and may those that mean something beside them. All have a kind and
	// a seed, and no others.
	needs, may []string
	ownOutputs bool // it says itself how long answers are
	cut        bool // its text is cut to input_tokens, where they are said
	noBatch    bool // its requests have times, or wait for answers
}

// recorded are the members of kinds that are read from files and counted.
var recorded = []string{"sha256", "tokenizer", "tokenizer_sha256"}

// kinds are all of them, in the order in which help names them.
var kinds = []kind{
	{name: Random, needs: []string{"input_tokens"}, may: []string{"range_ratio", "convention"}},
	{name: SharedPrefix, needs: []string{"groups", "prompts_per_group", "prefix_tokens", "question_tokens"},
		may: []string{"range_ratio"}},
	{name: ShareGPT, needs: []string{"path"},
		may: append([]string{"filter", "input_tokens", "output_tokens"}, recorded...), ownOutputs: true, cut: true},
	{name: Text, needs: []string{"path", "input_tokens"}, may: recorded, cut: true},
	{name: JSONL, needs: []string{"path"}, may: recorded, ownOutputs: true},
	{name: Conversation, needs: []string{"path"}, may: recorded, ownOutputs: true, noBatch: true},
	{name: Trace, needs: []string{"path"}, may: []string{"sha256", "slowdown"}, ownOutputs: true, noBatch: true},
}

// DatasetKinds lists the data set kinds in the order in which help names them.
func DatasetKinds() []string { return KindsWith("kind") }

// KindsWith are the kinds of data sets of which a member means something: "groups".
func KindsWith(member string) []string {
	var names []string
	for _, k := range kinds {
		if k.has(member) {
			names = append(names, k.name)
		}
	}
	return names
}

// kind is the data set's, or one that has nothing, nor a name, when it is not known.
func (d Dataset) kind() kind {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == d.Kind }); i >= 0 {
		return kinds[i]
	}
	return kind{}
}

func (k kind) has(member string) bool {
	return member == "kind" || member == "seed" || slices.Contains(k.needs, member) || slices.Contains(k.may, member)
}

// members are those of the data set that say something, by their names in JSON.
func (d Dataset) members() map[string]any {
	text, err := json.Marshal(d)
	members := map[string]any{}
	if err != nil || json.Unmarshal(text, &members) != nil {
		return nil // a number that JSON has not is told of by itself
	}
	return members
}

// OwnOutputs reports whether the data set itself says how long answers are, so
// that a workload need not.
func (d Dataset) OwnOutputs() bool {
	return d.kind().ownOutputs
}

// WithoutServer says why prompts of the data set cannot be made where no server is.
func (d Dataset) WithoutServer() error {
	switch k := d.kind(); {
	case k.noBatch:
		return fmt.Errorf("a data set of kind %q is no batch of prompts", d.Kind)
	case k.has("tokenizer") && d.Tokenizer == "":
		return fmt.Errorf("no server is there to count the tokens of a data set of kind %q: "+
			"name the model's tokenizer in it, tokenizer = \"tokenizer.json\"", d.Kind)
	}
	return nil
}

func (d Dataset) problems(p *problems) {
	k := d.kind()
	known := k.name != ""
	p.add(!known, "dataset.kind", "data set kind %q is not known: write one of %s", d.Kind, inWords(DatasetKinds()))
	d.numbers(p, k)
	for _, member := range slices.Sorted(maps.Keys(d.members())) {
		p.add(known && !k.has(member), "dataset."+member, "a data set of kind %q has none: it is for %s",
			d.Kind, inWords(KindsWith(member)))
	}
	p.add(slices.Contains(k.needs, "path") && d.Path == "", "dataset.path",
		"a data set of kind %q: a path is needed, it is read from a file", d.Kind)
	for _, c := range []struct{ name, value string }{{"convention", d.Convention}, {"filter", d.Filter}} {
		p.add(k.has(c.name) && c.value != "" && c.value != ConventionSGLang && c.value != ConventionVLLM,
			"dataset."+c.name,
			"%s %q: write %q or %q", c.name, c.value, ConventionSGLang, ConventionVLLM)
	}
}

func (d Dataset) numbers(p *problems, k kind) {
	for _, n := range []struct {
		member string
		value  int
	}{
		{"input_tokens", d.InputTokens}, {"output_tokens", d.OutputTokens}, {"groups", d.Groups},
		{"prompts_per_group", d.PromptsPerGroup}, {"prefix_tokens", d.PrefixTokens},
		{"question_tokens", d.QuestionTokens},
	} {
		if slices.Contains(k.needs, n.member) {
			p.add(n.value < 1, "dataset."+n.member, "%s %d: at least 1 is needed", spaced(n.member), n.value)
		} else {
			p.add(n.value < 0, "dataset."+n.member, "%d: it cannot be a negative number", n.value)
		}
	}
	p.add(d.Groups > 0 && d.PromptsPerGroup > maxPrompts/d.Groups, "dataset.groups",
		"%d groups of %d prompts are more than %d", d.Groups, d.PromptsPerGroup, maxPrompts)
	p.add(!(d.Slowdown >= 0) || math.IsInf(d.Slowdown, 0), "dataset.slowdown", "%v: it is a factor above zero",
		d.Slowdown)
	if r := d.RangeRatio; r != nil {
		p.add(!(*r >= 0 && *r <= 1), "dataset.range_ratio", "range ratio %v: it lies between 0 and 1", *r)
	}
}

func spaced(member string) string { return strings.ReplaceAll(member, "_", " ") }

func inWords(names []string) string { return strings.Join(names, ", ") }
