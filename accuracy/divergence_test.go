package accuracy

import (
	"encoding/json"
	"fmt"
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
	read := func(engine, name string) [][]Choice {
		t.Helper()
		positions, err := ReadForced(engine, []byte(recording.Text(t, "by-hand/"+name)), 10)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(positions) != 31 {
			t.Fatalf("%s: %d positions of 32 tokens", name, len(positions))
		}
		return positions
	}
	baseline := read("vllm", "vllm-0.32.0/forced-bfloat16.json")
	means := map[string]float64{}
	for _, x := range [][2]string{{"vllm", "vllm-0.32.0/forced-bfloat16.json"}, {"vllm", "vllm-0.32.0/forced-float32.json"}, {"sglang", "sglang-0.5.23/forced-bfloat16.json"}, {"vllm", "vllm-0.32.0/forced-noisy.json"}} {
		d, err := Diverge([][][]Choice{baseline}, [][][]Choice{read(x[0], x[1])}, []int{11})
		if err != nil || d.Positions != 20 {
			t.Fatalf("%s: %+v, %v", x[1], d, err)
		}
		t.Logf("%s: %+v", x[1], d)
		means[x[1]] = d.Mean
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
		from := make([]int, 60)
		for range from { // each text is like its baseline all through, or not at all
			a, b := slices.Repeat([][]Choice{sure}, 40), slices.Repeat([][]Choice{sure}, 40)
			if draw.IntN(2) == 0 {
				b = slices.Repeat([][]Choice{unsure}, 40)
			}
			was, is = append(was, a), append(is, b)
		}
		d, err := Diverge(was, is, from)
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
	one := [][][]Choice{{sure, sure}}
	for _, x := range []struct {
		candidate [][][]Choice
		from      []int
		says      string
	}{
		{nil, nil, "the baseline has 1 texts, and the candidate 0"},
		{[][][]Choice{{sure}}, []int{0}, "text 1 has 2 positions of the baseline, and 1"},
		{[][][]Choice{{sure, nil}}, []int{0}, "text 1 has no choices at position 2"},
		{one, []int{2}, "no text has a position"},
	} {
		if _, err := Diverge(one, x.candidate, x.from); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("got %v, want %q", err, x.says)
		}
	}
}

// TestReadForced: answers that cannot be what was asked for are refused.
func TestReadForced(t *testing.T) {
	for _, x := range []struct{ engine, answer, says string }{
		{"vllm", `{`, "unexpected end"},
		{"vllm", `{"choices":[{"text":"a"}]}`, "tells no probabilities"},
		{"vllm", `{"choices":[{"prompt_logprobs":[null,{"7":{}}]}]}`, `"7" is no token with one`},
		{"vllm", `{"choices":[{"prompt_logprobs":[null,{"7":{"logprob":-1}}]}]}`, "position 1 has 1 choices, where 2 were asked for"},
		{"vllm", `{"choices":[{"prompt_logprobs":[null,{"7":{"logprob":-0.1},"8":{"logprob":-0.1}}]}]}`, "a probability of 1.8"},
		{"sglang", `{"text":"a","meta_info":{}}`, "tells no probabilities"},
		{"sglang", `{"meta_info":{"input_top_logprobs":[null,[[-1]]]}}`, "tells no probabilities"},
		{"sglang", `{"meta_info":{"input_top_logprobs":[null,[["-1",2,null],[-1,3,null]]]}}`, "tells no probabilities"},
	} {
		if _, err := ReadForced(x.engine, []byte(x.answer), 2); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s %s: got %v, want %q", x.engine, x.answer, err, x.says)
		}
	}
	for _, engine := range []string{"vllm", "sglang"} {
		path, body := Forced(engine, "tiny", []int{1, 2}, 10)
		text, err := json.Marshal(body)
		if err != nil || !strings.Contains(string(text), "[1,2]") || !strings.HasPrefix(path, "/") {
			t.Errorf("%s: %s %s, %v", engine, path, fmt.Sprint(string(text)), err)
		}
	}
}
