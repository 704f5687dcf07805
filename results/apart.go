package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// extras are what a result says beside the figures and the load that are known.
type extras struct {
	texts   Axes               // what is text tells engines and loads apart, and is an axis
	numbers map[string]float64 // what is a number may be a setting or a figure
	order   []string           // of the numbers
}

func (e *extras) number(name string, v float64) {
	if e.numbers == nil {
		e.numbers = map[string]float64{}
	}
	if _, there := e.numbers[name]; !there {
		e.order = append(e.order, name)
	}
	e.numbers[name] = v
}

// extras are the members of an object that neither tool writes of itself: those of
// --metadata KEY=VALUE, whose values are all text, and those of programs that write
// such objects, too.
func (o *object) extras() (e extras) {
	for _, key := range o.keys {
		if isKnownMember(key) || !o.has(key) {
			continue
		}
		switch raw := o.values[key]; raw[0] {
		case '"':
			text := strings.TrimSpace(o.text(key))
			if text == "" || len(text) > maxMetadata || isMoment(key) {
				continue
			}
			if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) {
				e.texts = append(e.texts, Axis{key, wholeOr(v)})
				continue
			}
			e.texts = append(e.texts, Axis{key, text})
		case 't', 'f':
			e.texts = append(e.texts, Axis{key, string(raw) == "true"})
		case '{', '[':
		default:
			if v, ok := o.number(key); ok && !math.IsInf(v, 0) {
				e.number(key, v)
			}
		}
	}
	return e
}

// maxMetadata bounds a text that is an axis.
const maxMetadata = 100

// isMoment reports whether a member says when or by which name something was measured,
// which is another one each time.
func isMoment(key string) bool {
	words := strings.Split(normalName(key), "_")
	last := words[len(words)-1]
	return slices.Contains([]string{"time", "date", "timestamp", "datetime", "at", "id", "uuid", "sha", "commit", "path", "file", "filename"}, last)
}

// isKnownMember reports whether one of the two tools, today or of old, writes a member
// of itself.
func isKnownMember(key string) bool {
	for _, d := range []dialect{vllmDialect(), sglangDialect()} {
		for _, r := range slices.Concat(d.head, d.last) {
			if r.key == key {
				return true
			}
		}
	}
	if slices.Contains(detailed(), key) || slices.Contains(strings.Fields(`date endpoint_type backend model_id tokenizer_id num_prompts
		request_rate burstiness max_concurrency ramp_up_strategy ramp_up_start_rps ramp_up_end_rps rtfx generated_texts best_of use_beam_search
		total_input_vision_tokens sharegpt_output_len random_input_len random_output_len random_range_ratio server_info dataset_name
		cache_report elapsed_time num_requests requests_per_second tokens_per_second total_num_tokens avg_latency latencies percentiles
		completed failed duration total_throughput output_throughput_retokenized total_throughput_retokenized`), key) {
		return true
	}
	rest := strings.TrimSuffix(strings.TrimSuffix(key, "_ms"), "_s")
	statistic, timing, _ := strings.Cut(rest, "_")
	percentile, ok := strings.CutPrefix(statistic, "p")
	return strings.HasPrefix(key, "spec_decode_") || strings.HasPrefix(key, "max_concurrent_") ||
		slices.Contains([]string{"ttft", "tpot", "itl", "e2el", "e2e_latency"}, timing) &&
			(slices.Contains([]string{"mean", "median", "std", "min", "max"}, statistic) || ok && decimal(percentile))
}

// apart is a result of a file with others, from which it has to be told.
type apart struct {
	cell *Cell
	of   string // engine, GPUs and model
	extras
}

// tellApart makes axes of what two results differ in that would otherwise be taken for
// repetitions: the lengths that their counts give, and then every other number that is
// whole in all of them, since settings are and figures are not. It returns the names
// of the numbers that are no axis.
func tellApart(all []apart) (unused []string) {
	var candidates []string
	for _, a := range all {
		for _, name := range a.order {
			if !slices.Contains(candidates, name) {
				candidates = append(candidates, name)
			}
		}
	}
	lengths := map[string]func(*Cell) int64{
		"input_tokens":  func(c *Cell) int64 { return c.Summary.InputTokens },
		"output_tokens": func(c *Cell) int64 { return c.Summary.OutputTokens },
	}
	for _, name := range []string{"input_tokens", "output_tokens"} {
		differ(all, name, func(a apart) (float64, bool) {
			n, tokens := int64(a.cell.Summary.Completed), lengths[name](a.cell)
			return float64(tokens) / float64(max(n, 1)), n > 0 && tokens > 0 && tokens%n == 0
		})
	}
	for _, name := range candidates {
		axis := differ(all, name, func(a apart) (float64, bool) {
			v, there := a.numbers[name]
			return v, there
		})
		if !axis {
			unused = append(unused, name)
		}
	}
	return unused
}

// differ makes an axis of a number if two results that are alike in all else differ
// in it, and it is whole wherever it is.
func differ(all []apart, name string, of func(apart) (float64, bool)) bool {
	first, apartBy := map[string]string{}, false
	for _, a := range all {
		v, there := of(a)
		if _, axis := a.cell.Axes.Value(name); axis || there && v != math.Trunc(v) || isFigure(name) {
			return false
		}
		key, value := a.key(), fmt.Sprint(v, there)
		if old, seen := first[key]; seen && old != value {
			apartBy = true
		} else if !seen {
			first[key] = value
		}
	}
	if !apartBy {
		return false
	}
	for _, a := range all {
		if v, there := of(a); there {
			a.cell.Axes = append(a.cell.Axes, Axis{name, wholeOr(v)})
		}
	}
	return true
}

// key is what two results have in common that are taken for repetitions.
func (a apart) key() string {
	axes := slices.Clone(a.cell.Axes)
	slices.SortFunc(axes, func(x, y Axis) int { return cmp.Compare(x.Name, y.Name) })
	text, _ := json.Marshal(axes) // of numbers and texts
	return a.of + " " + string(text)
}

// isFigure reports whether a name is that of something that was measured, by how such
// names begin.
func isFigure(name string) bool {
	first, _, _ := strings.Cut(normalName(name), "_")
	p, percentile := strings.CutPrefix(first, "p")
	return slices.Contains([]string{"total", "mean", "median", "avg", "average", "std", "min", "max", "peak", "retokenized"}, first) || percentile && decimal(p)
}
