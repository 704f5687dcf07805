package formats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hclbench/results"
)

// numbers are what a result says in numbers beside the figures and the load that are
// known: each may be a setting or a figure.
type numbers struct {
	names  []string // in order
	values map[string]float64
}

func (n *numbers) add(name string, v float64) {
	if n.values == nil {
		n.values = map[string]float64{}
	}
	if _, there := n.values[name]; !there {
		n.names = append(n.names, name)
	}
	n.values[name] = v
}

// others are the members of an object that neither tool writes of itself: those of
// --metadata KEY=VALUE, whose values are all text, and those of programs that write
// such objects, too.
func (o *object) others() []string {
	known := knownMembers()
	return slices.DeleteFunc(slices.Clone(o.keys), func(key string) bool {
		_, latency := latencyNamed(key)
		return known[key] || latency || !o.has(key) || strings.HasPrefix(key, "spec_decode_") || strings.HasPrefix(key, "max_concurrent_")
	})
}

// knownMembers are those that one of the two tools, today or of old, writes of itself.
func knownMembers() map[string]bool {
	known := map[string]bool{}
	for _, t := range tools() {
		for _, key := range strings.Fields(t.members + " " + t.after) {
			known[key] = true
		}
		for _, r := range slices.Concat(t.head, t.last) {
			known[r.key] = true
		}
	}
	for _, key := range slices.Concat(detailed(), strings.Fields(`ramp_up_strategy ramp_up_start_rps ramp_up_end_rps
		generated_texts best_of use_beam_search elapsed_time num_requests requests_per_second tokens_per_second total_num_tokens
		avg_latency latencies percentiles output_throughput_retokenized total_throughput_retokenized`)) {
		known[key] = true
	}
	for _, key := range []string{"tag", "label"} { // which people write there
		delete(known, key)
	}
	return known
}

// maxMetadata bounds a text that is an axis.
const maxMetadata = 100

// texts are the others that hold text, or yes or no: they tell engines and loads apart.
func (o *object) texts() (axes results.Axes) {
	for _, key := range o.others() {
		switch raw := o.values[key]; raw[0] {
		case '"':
			text := strings.TrimSpace(o.text(key))
			if text == "" || len(text) > maxMetadata || isMoment(key) {
				continue
			}
			var value any = text
			if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
				value = wholeOr(v)
			}
			axes = append(axes, results.Axis{Name: key, Value: value})
		case 't', 'f':
			axes = append(axes, results.Axis{Name: key, Value: string(raw) == "true"})
		}
	}
	return axes
}

// numbers are the others that hold a number.
func (o *object) numbers() (n numbers) {
	for _, key := range o.others() {
		if v, ok := o.number(key); ok && o.values[key][0] != '"' && !math.IsInf(v, 0) {
			n.add(key, v)
		}
	}
	return n
}

// isMoment reports whether a member says when or by which name something was measured,
// which is another one each time.
func isMoment(key string) bool {
	words := strings.Split(normalName(key), "_")
	return slices.Contains(strings.Fields("time date timestamp datetime at id uuid sha commit path file filename"), words[len(words)-1])
}

// wholeOr is a number as an axis has it.
func wholeOr(v float64) any {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return int64(v)
	}
	return v
}

// tellApart makes axes of what two results differ in that would otherwise be taken for
// repetitions: the lengths that their counts give, and then every other number that is
// whole in all of them, since settings are and figures are not. It returns the names
// of the numbers that are no axis.
func tellApart(all []Result) (unused []string) {
	each := func(tokens func(*Result) int64) func(*Result) (float64, bool) {
		return func(r *Result) (float64, bool) {
			n, tokens := int64(r.Summary.Completed), tokens(r)
			return float64(tokens) / float64(max(n, 1)), n > 0 && tokens > 0 && tokens%n == 0
		}
	}
	differ(all, "input_tokens", each(func(r *Result) int64 { return r.Summary.InputTokens }))
	differ(all, "output_tokens", each(func(r *Result) int64 { return r.Summary.OutputTokens }))
	var candidates []string
	for _, r := range all {
		for _, name := range r.numbers.names {
			if !slices.Contains(candidates, name) {
				candidates = append(candidates, name)
			}
		}
	}
	return slices.DeleteFunc(candidates, func(name string) bool {
		return differ(all, name, func(r *Result) (float64, bool) {
			v, there := r.numbers.values[name]
			return v, there
		})
	})
}

// differ makes an axis of a number if two results that are alike in all else differ
// in it, and it is whole wherever it is.
func differ(all []Result, name string, of func(*Result) (float64, bool)) bool {
	first, apart := map[string]string{}, false
	for i := range all {
		v, there := of(&all[i])
		if _, axis := all[i].Axes.Value(name); axis || there && v != math.Trunc(v) || isFigure(name) {
			return false
		}
		key, value := all[i].key(), fmt.Sprint(v, there)
		if old, seen := first[key]; seen && old != value {
			apart = true
		} else if !seen {
			first[key] = value
		}
	}
	if !apart {
		return false
	}
	for i := range all {
		if v, there := of(&all[i]); there {
			all[i].Axes = append(all[i].Axes, results.Axis{Name: name, Value: wholeOr(v)})
		}
	}
	return true
}

// key is what two results have in common that are taken for repetitions.
func (r *Result) key() string {
	axes := slices.Clone(r.Axes)
	slices.SortFunc(axes, func(x, y results.Axis) int { return cmp.Compare(x.Name, y.Name) })
	text, _ := json.Marshal(axes) // of numbers and texts
	d := r.Deployment
	return fmt.Sprint(d.Kind, d.GPUs, d.Model, d.Command, " ", string(text))
}

// isFigure reports whether a name is that of something that was measured, by how such
// names begin.
func isFigure(name string) bool {
	first, _, _ := strings.Cut(normalName(name), "_")
	p, percentile := strings.CutPrefix(first, "p")
	return slices.Contains(strings.Fields("total mean median avg average std min max peak retokenized"), first) || percentile && decimal(p)
}
