package accuracy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"hclbench/load"
	"hclbench/plain"
)

// Choice is a token that a model could have said next, and the natural logarithm of its probability.
type Choice struct {
	Token   int
	Logprob float64
}

// topChoices are told of each position, the likeliest.
const topChoices = 10

// forcing has a server say how likely each token of a text was to it, without saying anything itself: the text is given, so two servers are
// asked about the same positions, however they would go on.
func forcing(endpoint string) map[string]json.RawMessage {
	top := json.RawMessage(strconv.Itoa(topChoices))
	if endpoint == load.Generate { // SGLang's
		return map[string]json.RawMessage{"return_logprob": json.RawMessage("true"), "logprob_start_len": json.RawMessage("0"), "top_logprobs_num": top}
	}
	return map[string]json.RawMessage{"prompt_logprobs": top} // vLLM's
}

// markForced makes of what a server has told of a text the answer that is stored: its text is a list of positions, each a list of choices, each a token
// and the natural logarithm of its probability. Positions for which there is no room are left out at the end.
func markForced(a Answer, r Reply) Answer {
	r.Text = "" // the one token that was generated
	if r.Error != "" {
		a.Mark = Failed
		return stored(a, r)
	}
	positions, err := readForced(r.Forced, topChoices)
	if err == nil && r.InputTokens > 0 && r.InputTokens != len(positions)+1 {
		err = fmt.Errorf("the server counts %d tokens of the text, and tells of %d", r.InputTokens, len(positions)+1)
	}
	if err != nil {
		a.Mark, a.Extracted = Invalid, err.Error()
		return stored(a, r)
	}
	kept := ""
	for _, choices := range positions {
		one := ""
		for _, c := range choices {
			one += fmt.Sprintf(",[%d,%.7g]", c.Token, c.Logprob)
		}
		if one = ",[" + one[1:] + "]"; len(kept)+len(one) >= MaxText {
			a.Short = true
			break
		}
		kept += one
	}
	a.Mark, r.Text, r.InputTokens = Right, "["+kept[1:]+"]", len(positions)+1
	return stored(a, r)
}

// readForced reads what [forcing] has a server tell: of each position but the first its top choices, the likeliest first.
func readForced(told string, top int) ([][]Choice, error) {
	var list []json.RawMessage
	if json.Unmarshal([]byte(told), &list) != nil || len(list) == 0 {
		return nil, errNoLogprobs
	}
	if len(list) == 1 {
		return nil, errors.New("the text is one token, which has no next one")
	}
	positions, err := readVLLM(list[1:])
	if err != nil {
		positions, err = readSGLang(list[1:])
	}
	if err != nil {
		return nil, err
	}
	return positions, sound(positions, top)
}

// sound puts choices in order, the likeliest first, and leaves the top ones. What no server can tell is an error.
func sound(positions [][]Choice, top int) error {
	for i, choices := range positions {
		slices.SortFunc(choices, func(a, b Choice) int { return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.Token, b.Token)) })
		if len(choices) < top {
			return fmt.Errorf("position %d has %d choices, where %d were asked for", i+1, len(choices), top)
		}
		positions[i] = choices[:top] // vLLM also tells that of the text, wherever it stands
		sum, seen := 0.0, map[int]bool{}
		for _, c := range positions[i] {
			if c.Token < 0 || seen[c.Token] {
				return fmt.Errorf("position %d has token %d twice, or there is none", i+1, c.Token)
			}
			sum, seen[c.Token] = sum+math.Exp(c.Logprob), true
		}
		if !(sum > 0 && sum < 1.01) {
			return fmt.Errorf("the choices of position %d have a probability of %v in all", i+1, sum)
		}
	}
	return nil
}

var errNoLogprobs = errors.New("the server tells no probabilities of the prompt's tokens")

func readVLLM(list []json.RawMessage) (all [][]Choice, err error) {
	for _, text := range list {
		var told map[string]struct {
			Logprob *float64 `json:"logprob"`
		}
		if json.Unmarshal(text, &told) != nil {
			return nil, errNoLogprobs
		}
		var choices []Choice
		for id, x := range told {
			token, err := strconv.Atoi(id)
			if err != nil || x.Logprob == nil {
				return nil, errNoLogprobs
			}
			choices = append(choices, Choice{token, *x.Logprob})
		}
		all = append(all, choices)
	}
	return all, nil
}

func readSGLang(list []json.RawMessage) (all [][]Choice, err error) {
	for _, text := range list {
		var told [][]json.RawMessage
		if json.Unmarshal(text, &told) != nil {
			return nil, errNoLogprobs
		}
		var choices []Choice
		for _, x := range told {
			var c Choice
			if len(x) < 2 || string(x[0]) == "null" || json.Unmarshal(x[0], &c.Logprob) != nil || json.Unmarshal(x[1], &c.Token) != nil {
				return nil, errNoLogprobs
			}
			choices = append(choices, c)
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
	if sum < 1e-12 { // no logarithm is told as exactly
		return 0
	}
	return sum
}

// Divergence is how far the next token of a candidate lies from that of its baseline, over texts that are given.
type Divergence struct {
	Texts     int `json:"texts"`
	Positions int `json:"positions"`
	Alone     int `json:"alone,omitempty"` // texts of which only one of the two has told
	// Mean is at least so many nats of Kullback-Leibler divergence, of a position. Low and High are the ends of its 95 % interval, by
	// drawing texts again and again: positions of one text are not independent.
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Same float64 `json:"same"` // the part of positions at which both hold the same token to be the likeliest
}

// diverge holds what a candidate has said of texts against what its baseline has said of the same. Of each text as many positions count as both
// have. It says nothing of decoding: one pass over a text uses neither speculation nor the graphs that generate.
func diverge(baseline, candidate [][][]Choice) (Divergence, error) {
	type text struct{ sum, positions float64 }
	var texts []text
	d, same := Divergence{}, 0
	for i, was := range baseline {
		t := text{}
		for k := range min(len(was), len(candidate[i])) {
			is := candidate[i][k]
			t.sum += atLeast(was[k], is)
			t.positions++
			if was[k][0].Token == is[0].Token {
				same++
			}
		}
		if t.positions > 0 {
			texts = append(texts, t)
			d.Positions += int(t.positions)
		}
	}
	if d.Texts = len(texts); d.Texts == 0 {
		return d, errors.New("there is no text of which both have told")
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

// divergeAnswers holds what two deployments have told of the same texts against each other, from the second token of each text on.
func divergeAnswers(baseline, candidate []Answer) (*Divergence, error) {
	was, err := toldOf(baseline)
	if err != nil {
		return nil, fmt.Errorf("of the baseline: %w", err)
	}
	is, err := toldOf(candidate)
	if err != nil {
		return nil, err
	}
	var a, b [][][]Choice
	alone := len(is)
	for _, id := range slices.Sorted(maps.Keys(was)) {
		x, ok := is[id]
		if !ok {
			alone++
			continue
		}
		if x.tokens != was[id].tokens {
			return nil, fmt.Errorf("text %s has %d tokens, and %d of the baseline's: only the same tokens can be held against each other", id, x.tokens, was[id].tokens)
		}
		alone--
		a, b = append(a, was[id].positions), append(b, x.positions)
	}
	d, err := diverge(a, b)
	d.Alone = alone
	return &d, err
}

// forced is what was told of a text.
type forced struct {
	tokens    int        // of the text
	positions [][]Choice // of long texts not all
}

// toldOf are the texts of which a deployment has told, by their questions. Answers may have been given elsewhere, so they are looked at anew.
func toldOf(answers []Answer) (map[string]forced, error) {
	all := map[string]forced{}
	for _, a := range answers {
		if a.Mark != Right || a.Sample > 0 {
			continue
		}
		x := forced{tokens: a.InputTokens}
		var list [][][2]float64
		err := json.Unmarshal([]byte(a.Text), &list)
		for _, position := range list {
			var choices []Choice
			for _, c := range position {
				choices = append(choices, Choice{int(c[0]), c[1]})
			}
			x.positions = append(x.positions, choices)
		}
		if err = cmp.Or(err, sound(x.positions, topChoices)); err != nil {
			return nil, fmt.Errorf("what was told of text %s is damaged: %w", a.Question, err)
		}
		all[a.Question] = x
	}
	if len(all) == 0 && len(answers) > 0 {
		return nil, fmt.Errorf("nothing was told of %s: %s", plain.Count(len(answers), "text"), cmp.Or(answers[0].Extracted, answers[0].Error, "there are no answers"))
	}
	return all, nil
}

// String is "at least 0.0031 nats (0.0020 to 0.0044), and the likeliest token is the same at 99.2 % of 480 positions of 24 texts".
func (d Divergence) String() string {
	interval := ""
	if d.Texts > 1 {
		interval = fmt.Sprintf(" (%.2g to %.2g)", d.Low, d.High)
	}
	alone := ""
	if d.Alone > 0 {
		alone = fmt.Sprintf("; of %s only one of the two has told", plain.Count(d.Alone, "text"))
	}
	return fmt.Sprintf("at least %.2g nats%s, and the likeliest token is the same at %.1f %% of %s of %s%s", d.Mean, interval, 100*d.Same,
		plain.Count(d.Positions, "position"), plain.Count(d.Texts, "text"), alone)
}
