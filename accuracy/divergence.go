package accuracy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Choice is a token that a model could have said next, and the natural logarithm of its probability.
type Choice struct {
	Token   int
	Logprob float64
}

// Forced is the request that has a server say how likely each token of a text was to it, without saying anything itself: the
// text is given, so two servers are asked about the same positions, however they would go on. Of SGLang it goes to /generate,
// of vLLM to /v1/completions. top is how many choices of each position it tells, the likeliest.
func Forced(engine, model string, tokens []int, top int) (path string, body any) {
	if engine == "sglang" {
		return "/generate", map[string]any{
			"input_ids": tokens, "return_logprob": true, "logprob_start_len": 0, "top_logprobs_num": top,
			"sampling_params": map[string]any{"max_new_tokens": 1, "temperature": 0},
		}
	}
	return "/v1/completions", map[string]any{
		"model": model, "prompt": tokens, "prompt_logprobs": top, "max_tokens": 1, "temperature": 0,
	}
}

// ReadForced reads the answer to [Forced]: of each position but the first its top choices, the likeliest first.
func ReadForced(engine string, answer []byte, top int) ([][]Choice, error) {
	read := readVLLM
	if engine == "sglang" {
		read = readSGLang
	}
	positions, err := read(answer)
	if err != nil {
		return nil, err
	}
	for i, choices := range positions {
		slices.SortFunc(choices, func(a, b Choice) int { return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.Token, b.Token)) })
		if len(choices) < top {
			return nil, fmt.Errorf("position %d has %d choices, where %d were asked for", i+1, len(choices), top)
		}
		positions[i] = choices[:top] // vLLM also tells that of the text, wherever it stands
		sum := 0.0
		for _, c := range positions[i] {
			sum += math.Exp(c.Logprob)
		}
		if !(sum > 0 && sum < 1.01) {
			return nil, fmt.Errorf("the choices of position %d have a probability of %v in all", i+1, sum)
		}
	}
	return positions, nil
}

var errNoLogprobs = errors.New("the server tells no probabilities of the prompt's tokens")

func readVLLM(answer []byte) ([][]Choice, error) {
	var a struct {
		Choices []struct {
			Logprobs []map[string]struct {
				Logprob *float64 `json:"logprob"`
			} `json:"prompt_logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, err
	}
	if len(a.Choices) == 0 || len(a.Choices[0].Logprobs) < 2 {
		return nil, errNoLogprobs
	}
	var all [][]Choice
	for _, position := range a.Choices[0].Logprobs[1:] {
		var choices []Choice
		for id, x := range position {
			token, err := strconv.Atoi(id)
			if err != nil || x.Logprob == nil {
				return nil, fmt.Errorf("%w: %q is no token with one", errNoLogprobs, id)
			}
			choices = append(choices, Choice{token, *x.Logprob})
		}
		all = append(all, choices)
	}
	return all, nil
}

func readSGLang(answer []byte) ([][]Choice, error) {
	var a struct {
		Meta struct {
			Top [][][]any `json:"input_top_logprobs"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, err
	}
	if len(a.Meta.Top) < 2 {
		return nil, errNoLogprobs
	}
	var all [][]Choice
	for _, position := range a.Meta.Top[1:] {
		var choices []Choice
		for _, x := range position {
			if len(x) < 2 {
				return nil, errNoLogprobs
			}
			logprob, is := x[0].(float64)
			token, too := x[1].(float64)
			if !is || !too {
				return nil, errNoLogprobs
			}
			choices = append(choices, Choice{int(token), logprob})
		}
		all = append(all, choices)
	}
	return all, nil
}

// atLeast is no more than the Kullback-Leibler divergence of a candidate from a baseline at one position, in nats, of which only
// the top choices of both are known. Tokens are put together: each that both tell of by itself, those that only the baseline
// tells of, and all others; to put tokens together never makes it more (the log-sum inequality). How likely those of the
// baseline alone are to the candidate is not known, but no more than its least choice each, and than all that it has left: of
// what is possible the least counts. The bound is that of Quantdiff's methodology.
func atLeast(baseline, candidate []Choice) float64 {
	q := map[int]float64{}
	told, least := 0.0, 1.0
	for _, c := range candidate {
		p := math.Exp(c.Logprob)
		q[c.Token] = p
		told, least = told+p, min(least, p)
	}
	sum, restP, restQ, alone, count := 0.0, 1.0, 1.0, 0.0, 0.0
	for _, c := range baseline {
		p := math.Exp(c.Logprob)
		restP -= p
		if x, ok := q[c.Token]; ok {
			sum += p * (c.Logprob - math.Log(max(x, 1e-300)))
			restQ -= x
			continue
		}
		alone += p
		count++
	}
	const rounding = 1e-6 // of probabilities, that servers tell in 32 bits
	restP, restQ = max(restP, 0), max(restQ, rounding)
	if alone > 0 {
		x := min(restQ*alone/(alone+restP), max(min(count*least, 1-told), rounding))
		sum += alone * math.Log(alone/x)
		restQ = max(restQ-x, rounding)
	}
	if restP > 0 {
		sum += restP * math.Log(restP/restQ)
	}
	return max(0, sum)
}

// Divergence is how far the next token of a candidate lies from that of its baseline, over texts that are given.
type Divergence struct {
	Texts     int `json:"texts"`
	Positions int `json:"positions"`
	// Mean is at least so many nats of Kullback-Leibler divergence, of a position. Low and High are the ends of its 95 % interval, by
	// drawing texts again and again: positions of one text are not independent.
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Same float64 `json:"same"` // the part of positions at which both hold the same token to be the likeliest
}

// Diverge holds what a candidate has said of texts against what its baseline has said of the same, each as [ReadForced] reads it. from is the
// position of each text from which on it counts: where its prompt ends. It says nothing of decoding: one pass over a text uses neither
// speculation nor the graphs that generate.
func Diverge(baseline, candidate [][][]Choice, from []int) (Divergence, error) {
	if len(baseline) != len(candidate) || len(from) != len(baseline) {
		return Divergence{}, fmt.Errorf("the baseline has %d texts, and the candidate %d", len(baseline), len(candidate))
	}
	type text struct{ sum, positions float64 }
	var texts []text
	d, same := Divergence{}, 0
	for i, was := range baseline {
		is := candidate[i]
		if len(was) != len(is) {
			return Divergence{}, fmt.Errorf("text %d has %d positions of the baseline, and %d of the candidate", i+1, len(was), len(is))
		}
		t := text{}
		for k := min(max(0, from[i]), len(was)); k < len(was); k++ {
			if len(was[k]) == 0 || len(is[k]) == 0 {
				return Divergence{}, fmt.Errorf("text %d has no choices at position %d", i+1, k+1)
			}
			t.sum += atLeast(was[k], is[k])
			t.positions++
			if was[k][0].Token == is[k][0].Token {
				same++
			}
		}
		if t.positions > 0 {
			texts = append(texts, t)
			d.Positions += int(t.positions)
		}
	}
	if d.Texts = len(texts); d.Texts == 0 {
		return d, errors.New("no text has a position that counts")
	}
	mean := func(pick func(int) int) float64 {
		all := text{}
		for i := range texts {
			t := texts[pick(i)]
			all.sum, all.positions = all.sum+t.sum, all.positions+t.positions
		}
		return all.sum / all.positions
	}
	d.Mean, d.Same = mean(func(i int) int { return i }), float64(same)/float64(d.Positions)
	const rounds = 2000
	draw, means := rand.New(rand.NewPCG(1, uint64(d.Positions))), make([]float64, rounds)
	for i := range means {
		means[i] = mean(func(int) int { return draw.IntN(len(texts)) })
	}
	slices.Sort(means)
	d.Low, d.High = means[rounds/40], means[rounds-1-rounds/40]
	return d, nil
}
