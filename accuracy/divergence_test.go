package accuracy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hclbench/testhost/recording"
)

// TestAtLeast: the bound is never above the divergence itself, and near to it where the top choices hold nearly all of the probability.
func TestAtLeast(t *testing.T) {
	draw := rand.New(rand.NewPCG(28, 4))
	const tokens = 200
	for round := range 3000 {
		sharp, apart := math.Exp(draw.Float64()*3), min(5, math.Exp(draw.NormFloat64()*2)/4)
		logits := func(of []float64, noise float64) (out []float64) {
			sum := 0.0
			for i := range tokens {
				x := noise * draw.NormFloat64()
				if of != nil {
					x += of[i]
				} else {
					x += sharp * draw.NormFloat64()
				}
				out = append(out, x)
				sum += math.Exp(x)
			}
			for i := range out {
				out[i] -= math.Log(sum)
			}
			return out
		}
		p := logits(nil, 0)
		q := logits(p, apart)
		top := func(of []float64, k int) (all []Choice) {
			for i, x := range of {
				all = append(all, Choice{i, x})
			}
			slices.SortFunc(all, func(a, b Choice) int {
				if a.Logprob > b.Logprob {
					return -1
				}
				return 1
			})
			return all[:k]
		}
		truth := 0.0
		for i := range p {
			truth += math.Exp(p[i]) * (p[i] - q[i])
		}
		k := 5 + round%40
		bound, all := atLeast(top(p, k), top(q, k)), atLeast(top(p, tokens), top(q, tokens))
		if bound > truth+1e-9 {
			t.Fatalf("the bound is %v, and the divergence %v (top %d)", bound, truth, k)
		}
		if math.Abs(all-truth) > 1e-5 {
			t.Fatalf("of all tokens the bound is %v, and the divergence %v", all, truth)
		}
	}
	one := []Choice{{1, math.Log(0.9)}, {2, math.Log(0.09)}}
	other := []Choice{{1, math.Log(0.5)}, {3, math.Log(0.4)}}
	// 0.9 ln(0.9/0.5), and of the rest: token 2 has at most 0.1 of the candidate's, and all others 0.01 against the rest of 0.5.
	want := 0.9*math.Log(0.9/0.5) + 0.09*math.Log(0.09/0.1) + 0.01*math.Log(0.01/0.4)
	if got := atLeast(one, other); math.Abs(got-want) > 1e-5 {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDivergeReal: what real engines have said of one text. Another precision and another engine change little, and
// weights with noise much.
func TestDivergeReal(t *testing.T) {
	read := func(name string) [][]Choice {
		t.Helper()
		positions, err := readForced(forcedOf(t, recording.Text(t, "by-hand/"+name)), 10)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(positions) != 31 {
			t.Fatalf("%s: %d positions of 32 tokens", name, len(positions))
		}
		return positions[11:] // where the prompt ends
	}
	baseline := read("vllm-0.32.0/forced-bfloat16.json")
	means := map[string]float64{}
	for _, x := range []string{"vllm-0.32.0/forced-bfloat16.json", "vllm-0.32.0/forced-float32.json", "sglang-0.5.23/forced-bfloat16.json", "vllm-0.32.0/forced-noisy.json"} {
		d, err := diverge([][][]Choice{baseline}, [][][]Choice{read(x)})
		if err != nil || d.Positions != 20 {
			t.Fatalf("%s: %+v, %v", x, d, err)
		}
		t.Logf("%s: %+v", x, d)
		means[x] = d.Mean
	}
	if means["vllm-0.32.0/forced-bfloat16.json"] > 1e-9 {
		t.Errorf("a text differs from itself: %v", means)
	}
	for _, near := range []string{"vllm-0.32.0/forced-float32.json", "sglang-0.5.23/forced-bfloat16.json"} {
		if means[near]*5 > means["vllm-0.32.0/forced-noisy.json"] || means[near] == 0 {
			t.Errorf("noise in the weights is not told from another precision or another engine: %v", means)
		}
	}
}

// TestDiverge: the interval is of texts, not of positions, and what cannot be held against each other is refused.
func TestDiverge(t *testing.T) {
	draw := rand.New(rand.NewPCG(28, 5))
	sure, unsure := []Choice{{1, math.Log(0.9)}, {2, math.Log(0.1)}}, []Choice{{1, math.Log(0.6)}, {2, math.Log(0.4)}}
	held := 0.0
	truth := atLeast(sure, unsure) / 2
	for range 300 {
		var was, is [][][]Choice
		for range 60 { // each text is like its baseline all through, or not at all
			a, b := slices.Repeat([][]Choice{sure}, 40), slices.Repeat([][]Choice{sure}, 40)
			if draw.IntN(2) == 0 {
				b = slices.Repeat([][]Choice{unsure}, 40)
			}
			was, is = append(was, a), append(is, b)
		}
		d, err := diverge(was, is)
		if err != nil || d.Texts != 60 || d.Positions != 2400 || d.Same != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		if d.Low <= truth && truth <= d.High {
			held += 100. / 300
		}
	}
	if held < 90 || held > 98 {
		t.Errorf("%.0f %% of the intervals hold the truth", held)
	}
	if d, err := diverge([][][]Choice{{sure, sure}}, [][][]Choice{{unsure}}); err != nil || d.Positions != 1 || strings.Contains(d.String(), " to ") {
		t.Errorf("of a text of which one has less it says %s, %v", d, err)
	}
	if _, err := diverge([][][]Choice{{sure}}, [][][]Choice{nil}); err == nil {
		t.Error("texts of which nobody has told lie so and so far apart")
	}
}

// forcedOf is what of a recorded answer the generator hands on.
func forcedOf(t *testing.T, text string) string {
	t.Helper()
	var a struct {
		Choices []struct {
			Logprobs json.RawMessage `json:"prompt_logprobs"`
		}
		Meta struct {
			Top json.RawMessage `json:"input_top_logprobs"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Choices) > 0 {
		return string(a.Choices[0].Logprobs)
	}
	return string(a.Meta.Top)
}

// TestReadForced: answers that cannot be what was asked for are refused.
func TestReadForced(t *testing.T) {
	for _, x := range []struct{ told, says string }{
		{"", "tells no probabilities"},
		{"[", "tells no probabilities"},
		{"[]", "tells no probabilities"},
		{"[null]", "the text is one token"},
		{`[null,null]`, "position 1 has 0 choices"},
		{`[null,{"7":{}}]`, "tells no probabilities"},
		{`[null,{"seven":{"logprob":-1},"eight":{"logprob":-1}}]`, "tells no probabilities"},
		{`[null,{"7":{"logprob":-1}}]`, "position 1 has 1 choices, where 2 were asked for"},
		{`[null,{"7":{"logprob":-0.1},"8":{"logprob":-0.1}}]`, "a probability of 1.8"},
		{`[null,{"7":{"logprob":-0.1},"8":{"logprob":1e300}}]`, "a probability of +Inf"},
		{`[null,{"7":{"logprob":-9999},"8":{"logprob":-9999}}]`, "a probability of 0"},
		{`[null,{"7":{"logprob":-1},"-8":{"logprob":-1}}]`, "has token -8 twice, or there is none"},
		{`[null,[[-1]]]`, "tells no probabilities"},
		{`[null,[["-1",2,null],[-1,3,null]]]`, "tells no probabilities"},
		{`[null,[[null,2,null],[-1,3,null]]]`, "tells no probabilities"},
		{`[null,[[-1,2.5,null],[-1,3,null]]]`, "tells no probabilities"},
		{`[null,[[-1,3,null],[-1,3,null]]]`, "has token 3 twice"},
	} {
		if _, err := readForced(x.told, 2); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: got %v, want %q", x.told, err, x.says)
		}
	}
}

// TestNextToken: the task asks for probabilities in either engine's words, and holds what came against the baseline and against a second
// start of it; a server that tells none, or other tokens, is told as that.
func TestNextToken(t *testing.T) {
	set := func(endpoint string) *Set {
		s, err := New(Spec{Task: NextToken, Path: "t.jsonl", Endpoint: endpoint}, strings.NewReader(`{"text":"The moon"}`+"\n"+`{"question":"How many?","answer":"7"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ask := set("").Ask(1)
	if ask.Prompt != "How many?\n7" || !ask.Whole || string(ask.Extra["prompt_logprobs"]) != "10" || ask.MaxTokens != 1 {
		t.Errorf("vLLM is asked %+v", ask)
	}
	if extra := set("generate").Ask(0).Extra; string(extra["return_logprob"]) != "true" || string(extra["top_logprobs_num"]) != "10" {
		t.Errorf("SGLang is asked %v", extra)
	}
	answers := func(name string, tokens int) (all []Answer) {
		told := ""
		if name != "" {
			told = forcedOf(t, recording.Text(t, "by-hand/"+name+".json"))
		}
		for i := range 2 {
			all = append(all, set("").Mark(i, Reply{Text: "support", Forced: told, InputTokens: tokens}))
		}
		return all
	}
	baseline := answers("vllm-0.32.0/forced-bfloat16", 32)
	if a := baseline[0]; a.Mark != Right || a.Short || !strings.HasPrefix(a.Text, "[[[14094,-9.12") {
		t.Errorf("it keeps %s %v %.40s", a.Mark, a.Short, a.Text)
	}
	noisy := answers("vllm-0.32.0/forced-noisy", 32)
	c := CompareForced(baseline, noisy, Others{Baseline: [][]Answer{answers("vllm-0.32.0/forced-float32", 0)}})
	if c.Verdict != Unchecked || c.Divergence.Positions != 62 || c.Divergence.Mean < 5*c.Floor.Mean || c.Barred() || !strings.Contains(c.String(), "of 62 positions of 2 texts; of another start") {
		t.Errorf("%+v: %s", c, c)
	}
	noisy[1] = set("").Mark(1, Reply{Error: "status 500"})
	if c := CompareForced(baseline, noisy, Others{}); c.Divergence == nil || c.Divergence.Positions != 31 || !strings.Contains(c.String(), "of 1 text only one of the two has told") {
		t.Errorf("with one that has failed: %s", c)
	}
	damaged := slices.Clone(baseline)
	damaged[1].Text = strings.Replace(damaged[1].Text, "-9.", "1e300,-9.", 1)
	shorter := slices.Clone(baseline)
	shorter[0].InputTokens = 31
	for says, candidate := range map[string][]Answer{
		"nothing was told of 2 texts: the server tells no probabilities":                answers("", 32),
		"nothing was told of 2 texts: the server counts 31 tokens of the text, and tel": answers("sglang-0.5.23/forced-bfloat16", 31),
		"text 1 has 31 tokens, and 32 of the baseline's":                                shorter,
		"what was told of text 2 is damaged: the choices of position":                   damaged,
	} {
		if c := CompareForced(baseline, candidate, Others{}); !c.Barred() || !strings.Contains(c.String(), says) {
			t.Errorf("%s, want %q", c, says)
		}
	}
	for _, s := range []Spec{{Task: NextToken, Samples: 2}, {Task: NextToken, MaxTokens: 64}} {
		if _, err := s.Check(); err == nil || !strings.Contains(err.Error(), "asks for each text once") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	told := forcedOf(t, recording.Text(t, "by-hand/vllm-0.32.0/forced-bfloat16.json"))
	long := set("").Mark(0, Reply{Forced: told[:len(told)-1] + strings.Repeat(strings.TrimPrefix(told[:len(told)-1], "[null"), 9) + "]"})
	if d, err := divergeAnswers([]Answer{long}, baseline[:1]); long.Mark != Right || !long.Short || len(long.Text) > MaxText || err == nil || long.InputTokens != 311 {
		t.Errorf("of a long text it keeps %d bytes, %s, %d tokens: %v, %v", len(long.Text), long.Mark, long.InputTokens, d, err)
	}
}
