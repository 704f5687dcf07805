package figure

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/results"
)

// cached reports whether a cell could find prefixes in the engine's cache, as far as its lab tells:
// by an axis with prefix in its name, else by a data set of shared prefixes.
func cached(r *results.Row) bool {
	for _, a := range r.Axes {
		if !strings.Contains(a.Name, "prefix") {
			continue
		}
		switch v := a.Value.(type) {
		case bool:
			return v
		case string:
			return v == "on" || v == "true" || v == "yes"
		}
	}
	kind := strings.ReplaceAll(r.Job.Prompts().Dataset.Kind, "_", "-")
	return kind == load.SharedPrefix || strings.Contains(kind, "shared-prefix") ||
		strings.Contains(dataset(r), "shared-prefix")
}

// prefixless is all that a cell was measured with but what concerns prefixes, and the exact length
// of the prompts: the same for two of which one had shared prefixes and the other had not.
type prefixless struct{ gpus, kind, model, image, identity, at, others, endpoint string }

func prefixlessOf(s *Sample) prefixless {
	r := s.Rows[0]
	d := &r.Deployment
	identity := map[string]string{}
	for name, value := range d.Identity {
		if !strings.Contains(name, "prefix") && !strings.Contains(name, "radix") && r.Run.Command != "import" {
			identity[name] = value
		}
	}
	at := maps.Clone(s.At)
	delete(at, "input_tokens")
	var others []string
	for _, a := range r.Axes {
		if !strings.Contains(a.Name, "prefix") && !slices.Contains([]string{"dataset", "engine", "input_tokens"}, a.Name) {
			others = append(others, a.Name+"="+AxisText(a.Value))
		}
	}
	slices.Sort(others)
	return prefixless{s.Series.GPUs, s.Series.Kind, d.Model, d.Image, fmt.Sprint(identity), fmt.Sprint(at),
		strings.Join(others, ", "), fmt.Sprint(r.Job.Workload.Endpoint)}
}

// promptTokens is how long the prompts of a cell were on average; 0: not known.
func promptTokens(s *Sample) float64 {
	if x := s.Rows[0].Summary; x.InputTokens > 0 && x.Completed > 0 {
		return float64(x.InputTokens) / float64(x.Completed)
	}
	return s.At["input_tokens"]
}

// alike is how far the lengths of prompts may lie apart, as a share, that are the same
// load with shared prefixes and without.
const alike = 0.05

// PrefixPair are two cells of which one had shared prefixes.
type PrefixPair struct{ Without, With *Sample }

// PrefixPairs are the cells with shared prefixes beside those without, where all else
// that is known is the same. Where several fit, there is no pair.
func PrefixPairs(cells []*Sample) (pairs []PrefixPair) {
	key := map[*Sample]prefixless{}
	like := map[prefixless][]*Sample{}
	for _, s := range cells {
		key[s] = prefixlessOf(s)
		like[key[s]] = append(like[key[s]], s)
	}
	fits := func(s *Sample) (found []*Sample) {
		for _, o := range like[key[s]] {
			x, y := promptTokens(s), promptTokens(o)
			if cached(o.Rows[0]) != cached(s.Rows[0]) && x > 0 && math.Abs(x-y) <= alike*x {
				found = append(found, o)
			}
		}
		return found
	}
	for _, s := range cells {
		if cached(s.Rows[0]) {
			if others := fits(s); len(others) == 1 && len(fits(others[0])) == 1 {
				pairs = append(pairs, PrefixPair{Without: others[0], With: s})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b PrefixPair) int {
		return cmp.Or(cmp.Compare(a.Without.At["concurrency"], b.Without.At["concurrency"]),
			cmp.Compare(a.Without.Series.Index, b.Without.Series.Index))
	})
	return pairs
}
