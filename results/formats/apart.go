package formats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/results"
)

// others are the members of an object that are not known: those of --metadata KEY=VALUE,
// whose values are all text, and those of programs that write such objects, too.
func (o *object) others(known map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(o.keys), func(key string) bool {
		_, _, latency := latencyNamed(key)
		_, number := o.number(key)
		return known[key] || latency && number || !o.has(key) || strings.HasPrefix(key, "spec_decode_") || strings.HasPrefix(key, "max_concurrent_")
	})
}

// knownMembers are those that one of the two tools, today or of old, writes of itself,
// but for "tag" and "label", where people write something.
var knownMembers = sync.OnceValue(func() map[string]bool {
	all := strings.Fields(`ramp_up_strategy ramp_up_start_rps ramp_up_end_rps generated_texts best_of use_beam_search
		elapsed_time num_requests requests_per_second tokens_per_second total_num_tokens avg_latency latencies percentiles
		output_throughput_retokenized total_throughput_retokenized`)
	for _, t := range tools() {
		all = append(all, strings.Fields(t.members+" "+t.after)...)
		for _, r := range slices.Concat(t.head, t.last) {
			all = append(all, r.key)
		}
	}
	known := map[string]bool{}
	for _, key := range append(all, detailed()...) {
		known[key] = key != "tag" && key != "label"
	}
	return known
})

// maxMetadata bounds a text that is an axis.
const maxMetadata = 100

// readTexts takes in the others that hold text, or yes or no: what is not said of the
// engine or the load by name tells them apart.
func (r *Result) readTexts(o *object, known map[string]bool) {
	for _, key := range o.others(known) {
		switch raw := o.values[key]; raw[0] {
		case '"':
			text := strings.TrimSpace(o.text(key))
			meant := meanings()[normalName(key)].text
			switch v, err := strconv.ParseFloat(text, 64); {
			case text == "" || len(text) > maxMetadata:
			case meant != nil:
				meant(r, text)
			case isMoment(key):
			case err == nil && !math.IsInf(v, 0) && !math.IsNaN(v):
				r.Axes = append(r.Axes, results.Axis{Name: key, Value: wholeOr(v)})
			case measured.MatchString(text):
				r.rest = append(r.rest, results.Axis{Name: key, Value: text})
			default:
				r.Axes = append(r.Axes, results.Axis{Name: key, Value: text})
			}
		case 't', 'f':
			r.Axes = append(r.Axes, results.Axis{Name: key, Value: string(raw) == "true"})
		}
	}
}

// measured is a number with a unit in which nobody sets anything.
var measured = regexp.MustCompile(`(?i)^[-+]?[\d.,]+ *(%|ms|us|s|sec|seconds|w|j|tok/s|tokens/s|req/s)$`)

// numbers are the others that hold a number; unread are those that hold a list or an object.
func (o *object) numbers(known map[string]bool) (all results.Axes, unread []string) {
	for _, key := range o.others(known) {
		raw := o.values[key]
		if raw[0] == '[' || raw[0] == '{' {
			unread = append(unread, plain.Line(key))
		}
		if v, ok := o.number(key); ok && raw[0] != '"' && !math.IsInf(v, 0) {
			all = append(all, results.Axis{Name: key, Value: v})
		}
	}
	return all, unread
}

// isMoment reports whether a member says when or under which name something was measured,
// which is another one each time.
func isMoment(key string) bool {
	words := strings.Split(normalName(key), "_")
	return slices.Contains(strings.Fields("time date timestamp datetime at id uuid path file filename"), words[len(words)-1])
}

// wholeOr is a number as an axis has it.
func wholeOr(v float64) any {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return int64(v)
	}
	return v
}

// tellApart makes axes of what two results differ in that would otherwise be taken for
// repetitions: the lengths that their counts give, and then the rest: whole numbers and texts
// before fractions, since settings are mostly whole. It returns what is not used: numbers that
// are no axis, and what cannot be read.
func tellApart(all []Result) (unused []string) {
	each := func(tokens func(*load.Summary) int64) func(*Result) any {
		return func(r *Result) any {
			if n, ok := length(r.Summary, tokens(r.Summary)); ok {
				return float64(n)
			}
			return nil
		}
	}
	differ(all, "input_tokens", each(func(s *load.Summary) int64 { return s.InputTokens }))
	differ(all, "output_tokens", each(func(s *load.Summary) int64 { return s.OutputTokens }))
	var whole, broken, unread []string
	add := func(names *[]string, name string) {
		if !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
	for _, r := range all {
		for _, x := range r.rest {
			if v, number := x.Value.(float64); number && v != math.Trunc(v) {
				add(&broken, x.Name)
			} else {
				add(&whole, x.Name)
			}
		}
		for _, name := range r.unread {
			add(&unread, name)
		}
	}
	whole = slices.DeleteFunc(whole, func(name string) bool { return slices.Contains(broken, name) })
	for _, name := range slices.Concat(whole, broken) {
		of := func(r *Result) any { v, _ := r.rest.Value(name); return v }
		if !differ(all, name, of) && slices.ContainsFunc(all, func(r Result) bool { return isQuantity(of(&r)) }) {
			add(&unused, name)
		}
	}
	return append(unused, unread...)
}

func isQuantity(v any) bool {
	text, _ := v.(string)
	_, number := v.(float64)
	return number || measured.MatchString(text)
}

// differ makes an axis of a value, which is nil where there is none, if two results that
// are alike in all else differ in it.
func differ(all []Result, name string, of func(*Result) any) bool {
	first, apart := map[string]any{}, false
	for i := range all {
		r := &all[i]
		if _, axis := r.Axes.Value(name); axis || figureName.MatchString(normalName(name)) {
			return false
		}
		key, v := r.key(), of(r)
		old, seen := first[key]
		if apart = apart || seen && old != v; !seen {
			first[key] = v
		}
	}
	for i := range all {
		switch v := of(&all[i]).(type) {
		case float64:
			if apart {
				addAxis(&all[i].Cell, name, v)
			}
		case string, int64:
			if apart {
				all[i].Axes = append(all[i].Axes, results.Axis{Name: name, Value: v})
			}
		}
	}
	return apart
}

// key is what two results have in common that are taken for repetitions.
func (r *Result) key() string {
	axes := slices.Clone(r.Axes)
	slices.SortFunc(axes, func(x, y results.Axis) int { return cmp.Compare(x.Name, y.Name) })
	text, _ := json.Marshal(axes) // of numbers and texts
	d := r.Deployment
	return fmt.Sprint(r.Benchmark, r.Repetition, d.Kind, d.Engine, d.GPUs, d.Model, d.Command, " ", string(text))
}

// figureName is a name of something that was measured, by how such names begin.
var figureName = regexp.MustCompile(`^(total|mean|median|avg|average|std|min|max|peak|retokenized|p\d+(\.\d+)?)(_|$)`)
