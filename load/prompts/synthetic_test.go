package prompts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
)

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		n          int
		ratio      *float64
		convention string
		want       load.Span
	}{
		{3200, nil, "", load.Span{Low: 3200, High: 3200}},
		{3200, new(1.0), "", load.Span{Low: 3200, High: 3200}},
		{3200, new(0.8), load.ConventionSGLang, load.Span{Low: 2560, High: 3200}},
		{1000, new(0.0), load.ConventionSGLang, load.Span{Low: 1, High: 1000}},
		{5, new(0.5), load.ConventionSGLang, load.Span{Low: 2, High: 5}},
		{3200, new(0.0), load.ConventionVLLM, load.Span{Low: 3200, High: 3200}},
		{1000, new(0.8), load.ConventionVLLM, load.Span{Low: 199, High: 1800}}, // 1−0.8 is a little less than 0.2, in Python too
		{5, new(0.5), load.ConventionVLLM, load.Span{Low: 2, High: 8}},
		{1, new(0.9), load.ConventionVLLM, load.Span{Low: 1, High: 2}},
	} {
		if got := load.Lengths(c.n, c.ratio, c.convention); got != c.want {
			t.Errorf("lengths(%d, %v, %q) = %v, want %v", c.n, c.ratio, c.convention, got, c.want)
		}
	}
}

func job(w load.Workload) load.Job {
	return load.Job{Target: load.Target{Model: "m"}, Workload: w, Seed: 7}
}

func TestPromptIDs(t *testing.T) {
	p := newRandomPrompts(job(load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 3200}, OutputTokens: 800, Endpoint: load.Completions}), ForPrompt)
	var sum, n float64
	seen := map[string]bool{}
	for i := range 20 {
		b, a := p.append(nil, i)
		var ids []int
		if err := json.Unmarshal(b, &ids); err != nil {
			t.Fatal(err)
		}
		if len(ids) != 3200 || a.input != 3200 || a.output != 800 {
			t.Errorf("prompt %d has %d ids, and says %d and %d, want 3200, 3200 and 800", i, len(ids), a.input, a.output)
		}
		if lo, hi := slices.Min(ids), slices.Max(ids); lo < minID || hi >= maxID {
			t.Errorf("prompt %d has ids from %d to %d", i, lo, hi)
		}
		for _, id := range ids {
			sum += float64(id)
			n++
		}
		if seen[string(b)] {
			t.Errorf("prompt %d came before", i)
		}
		seen[string(b)] = true
	}
	// The standard error of the mean of 64,000 uniform ids is 33.
	if mean := sum / n; mean < 15500-200 || mean > 15500+200 {
		t.Errorf("mean id %v, want 15500 ± 200", mean)
	}
}

// TestPromptIsItsOwn: request i is the same whatever was made before it, and
// another with another seed, data set seed or use.
func TestPromptIsItsOwn(t *testing.T) {
	w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 50, RangeRatio: new(0.1)}, OutputTokens: 9, Endpoint: load.Completions}
	make1 := func(j load.Job, use uint64, i int) string {
		b, _ := newRandomPrompts(j, use).append(nil, i)
		return string(b)
	}
	base := make1(job(w), ForPrompt, 5)
	p := newRandomPrompts(job(w), ForPrompt)
	for i := range 5 {
		p.append(nil, i)
	}
	again, _ := p.append(nil, 5)
	if string(again) != base {
		t.Error("prompt 5 is another after prompts 0 to 4")
	}
	seeded := w
	seeded.Dataset.Seed = 1
	for name, other := range map[string]string{
		"index": make1(job(w), ForPrompt, 6), "seed": make1(load.Job{Workload: w, Seed: 8}, ForPrompt, 5),
		"data set seed": make1(job(seeded), ForPrompt, 5), "use": make1(job(w), ForWarmup, 5),
	} {
		if other == base {
			t.Errorf("another %s makes the same prompt", name)
		}
	}
}

// TestRanges: all lengths of a range are drawn, and none beside it.
func TestRanges(t *testing.T) {
	p := newRandomPrompts(job(load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 6, RangeRatio: new(0.5), Convention: load.ConventionVLLM}, OutputTokens: 4, Endpoint: load.Chat}), ForPrompt)
	in, out := map[int]int{}, map[int]int{}
	for i := range 500 {
		b, a := p.append(nil, i)
		if n := len(strings.Fields(string(b))); n != a.input {
			t.Fatalf("%d words of %d", n, a.input)
		}
		in[a.input]++
		out[a.output]++
	}
	for n := 3; n <= 9; n++ {
		if in[n] < 30 {
			t.Errorf("input length %d drawn %d times of 500", n, in[n])
		}
	}
	for n := 2; n <= 6; n++ {
		if out[n] < 50 {
			t.Errorf("output length %d drawn %d times of 500", n, out[n])
		}
	}
	if len(in) != 7 || len(out) != 5 {
		t.Errorf("%d input and %d output lengths, want 7 and 5", len(in), len(out))
	}
}

func TestBody(t *testing.T) {
	d := load.Dataset{Kind: load.Random, InputTokens: 2}
	for _, c := range []struct {
		w    load.Workload
		want string
	}{
		{load.Workload{Dataset: d, OutputTokens: 9, Endpoint: load.Completions, IgnoreEOS: true},
			`{"ignore_eos":true,"max_tokens":9,"model":"m","prompt":PROMPT,"stream":true,"stream_options":{"include_usage":true},"temperature":0}`},
		{load.Workload{Dataset: d, OutputTokens: 9, Endpoint: load.Chat, Temperature: 0.5, ExtraBody: `{"top_p":0.9,"a":{"b":12345678901234567890}}`},
			`{"a":{"b":12345678901234567890},"max_tokens":9,"messages":[{"content":PROMPT,"role":"user"}],"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9}`},
		{load.Workload{Dataset: d, OutputTokens: 9, Endpoint: load.Generate, IgnoreEOS: true, ExtraBody: `{"sampling_params":{"top_k":5,"temperature":1}}`},
			`{"input_ids":PROMPT,"sampling_params":{"ignore_eos":true,"max_new_tokens":9,"temperature":1,"top_k":5},"stream":true}`},
	} {
		tmpl, err := load.NewTemplate(load.Target{Model: "m"}, c.w, load.IDs, "")
		if err != nil {
			t.Fatal(err)
		}
		p := newRandomPrompts(job(c.w), ForPrompt)
		b := bytes.Join((&rows{maker: p, set: &Set{templates: map[string]load.Template{"": tmpl}}}).Request().Body, nil)
		prompt, _ := p.append(nil, 0)
		if diff := cmp.Diff(c.want, strings.Replace(string(b), string(prompt), "PROMPT", 1)); diff != "" {
			t.Errorf("%s body (-want +got):\n%s", c.w.Endpoint, diff)
		}
	}
	for _, extra := range []string{`{"prompt":1}`, `{"stream":false}`, `[]`, `x`, `{"sampling_params":{"max_new_tokens":3}}`, `{"sampling_params":3}`} {
		if _, err := load.NewTemplate(load.Target{}, load.Workload{Endpoint: load.Generate, ExtraBody: extra}, load.IDs, ""); err == nil {
			t.Errorf("extra body %s: no error", extra)
		}
	}
}

func BenchmarkBody(b *testing.B) {
	for _, n := range []int{32, 3200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: n}, OutputTokens: 9, Endpoint: load.Completions}
			tmpl, err := load.NewTemplate(load.Target{Model: "m"}, w, load.IDs, "")
			if err != nil {
				b.Fatal(err)
			}
			q := &rows{maker: newRandomPrompts(job(w), ForPrompt), set: &Set{templates: map[string]load.Template{"": tmpl}}}
			for b.Loop() {
				q.Request()
			}
		})
	}
}
