package accuracy

import (
	"fmt"
	"math"
	"slices"
	"unicode"
	"unicode/utf8"

	"hclbench/plain"
)

// Reading is how answers read, whatever they are worth: what is broken shows here before it shows in a score.
type Reading struct {
	Answers int     `json:"answers"`  // that did not fail
	Tokens  float64 `json:"tokens"`   // of one on average, as the server has counted
	Stopped float64 `json:"stopped"`  // the part of them that the model has ended, or a stop word; 1 where no server said why
	Looping float64 `json:"looping"`  // the part of them of which more than half repeats what they have said before
	NonText float64 `json:"non_text"` // the part of all letters that are none: control characters, and bytes that are no character
}

// Read is how answers read.
func Read(answers []Answer) Reading {
	var r Reading
	letters, none := 0, 0
	for _, a := range answers {
		if a.Mark == Failed {
			continue
		}
		r.Answers++
		r.Tokens += float64(a.OutputTokens)
		if a.Finish != "length" {
			r.Stopped++
		}
		if max(repeated(a.Reasoning), repeated(a.Text)) > 0.5 {
			r.Looping++
		}
		for _, text := range []string{a.Reasoning, a.Text} {
			for _, x := range text {
				letters++
				if x == utf8.RuneError || !unicode.IsGraphic(x) && !unicode.IsSpace(x) {
					none++
				}
			}
		}
	}
	n := float64(max(1, r.Answers))
	return Reading{r.Answers, r.Tokens / n, r.Stopped / n, r.Looping / n, float64(none) / float64(max(1, letters))}
}

// repeated is the part of a text's windows of 32 bytes that it has had before; 0 of one of less than a few hundred bytes, in which a
// table repeats as much. Windows are told apart by a rolling hash.
func repeated(text string) float64 {
	const window, least, base = 32, 256, 0x9e3779b97f4a7c15
	if len(text) < least {
		return 0
	}
	oldest, hash := uint64(1), uint64(0) // what the byte that leaves the window counts
	for range window {
		oldest *= base
	}
	before, again := make(map[uint64]struct{}, len(text)), 0
	for i := range len(text) {
		hash = hash*base + uint64(text[i])
		if i >= window {
			hash -= oldest * uint64(text[i-window])
		}
		if i < window-1 {
			continue
		}
		if _, ok := before[hash]; ok {
			again++
		}
		before[hash] = struct{}{}
	}
	return float64(again) / float64(len(text)-window+1)
}

// Wording is how far two deployments have answered the same, letter by letter.
type Wording struct {
	Answers int `json:"answers"` // to the same question and of the same number, of both
	Same    int `json:"same"`
	// Parts is the letter at which the others part, from 1: the median.
	Parts int `json:"parts,omitempty"`
}

// slot is one answer of a list: which question, and which of its answers.
type slot struct {
	question string
	sample   int
}

// word holds answers against each other, letter by letter; same says of each pair whether it is the same.
func word(baseline, candidate []Answer) (w Wording, same map[slot]bool) {
	before := map[slot]string{}
	for _, a := range baseline {
		if a.Mark != Failed {
			before[slot{a.Question, a.Sample}] = a.Reasoning + "\x00" + a.Text
		}
	}
	same = map[slot]bool{}
	var parts []int
	for _, a := range candidate {
		at := slot{a.Question, a.Sample}
		was, ok := before[at]
		if !ok || a.Mark == Failed {
			continue
		}
		is := a.Reasoning + "\x00" + a.Text
		w.Answers++
		if same[at] = is == was; same[at] {
			w.Same++
			continue
		}
		i := 0
		for i < len(is) && i < len(was) && is[i] == was[i] {
			i++
		}
		parts = append(parts, utf8.RuneCountInString(is[:i]))
	}
	if slices.Sort(parts); parts != nil {
		w.Parts = parts[len(parts)/2]
	}
	return w, same
}

// Readings are how the answers of a candidate read beside those of its baseline.
type Readings struct {
	Baseline  Reading  `json:"baseline"`
	Candidate Reading  `json:"candidate"`
	Wording   Wording  `json:"wording"`         // of the two
	Again     *Wording `json:"again,omitempty"` // of two starts of the baseline: the floor; nil: there was no second
	// Chance is the probability of so many more other answers than between two starts of the baseline, if nothing but the start had
	// changed; 1: there was no second.
	Chance  float64       `json:"chance"`
	Prompts *PromptTokens `json:"prompts,omitempty"` // nil: no server has counted
	Calls   *Calling      `json:"calls,omitempty"`   // nil: nobody has called a tool
	// Odd is what a reader should look at, each as a sentence about the candidate.
	Odd []string `json:"odd,omitempty"`
}

// What is odd. A change must also be more than chance, three standard errors.
const (
	oddLength = 0.1  // of the mean number of tokens: MLPerf's band
	oddShare  = 0.02 // of answers that stop, or go round
	oddText   = 1e-3 // of letters that are none
)

// ReadAgainst is how the answers of a candidate read beside those of its baseline. Drawn says that answers are drawn by chance: then their words need not be
// the same. Invariant is as of [Rule]. Again are those of the baseline's second start; nil: there was none.
func ReadAgainst(baseline, candidate, again []Answer, drawn, invariant bool) Readings {
	b := Readings{Baseline: Read(baseline), Candidate: Read(candidate), Chance: 1}
	if b.Baseline.Answers == 0 || b.Candidate.Answers == 0 {
		return b
	}
	was, is := b.Baseline, b.Candidate
	odd := func(format string, args ...any) { b.Odd = append(b.Odd, fmt.Sprintf(format, args...)) }
	if was.Tokens > 0 && is.Tokens > 0 {
		if ratio := is.Tokens / was.Tokens; math.Abs(ratio-1) > oddLength && math.Abs(is.Tokens-was.Tokens) > 3*math.Hypot(lengthError(baseline), lengthError(candidate)) {
			odd("its answers have %.0f tokens on average, and the baseline's %.0f", is.Tokens, was.Tokens)
		}
	}
	share := func(is, was, least float64, what string) {
		n, m := float64(b.Candidate.Answers), float64(b.Baseline.Answers)
		both := (is*n + was*m) / (n + m)
		if math.Abs(is-was) > max(least, 3*math.Sqrt(both*(1-both)*(1/n+1/m))) {
			odd("%.1f %% of its answers %s, and %.1f %% of the baseline's", 100*is, what, 100*was)
		}
	}
	share(is.Stopped, was.Stopped, oddShare, "end before their budget does")
	share(is.Looping, was.Looping, oddShare, "repeat themselves for more than half")
	if is.NonText > was.NonText+oddText {
		odd("%.1f %% of its letters are no text, and %.1f %% of the baseline's", 100*is.NonText, 100*was.NonText)
	}
	if p := ComparePrompts(baseline, candidate); p.Same+p.Other > 0 {
		if b.Prompts = &p; p.Other > 0 {
			odd("the prompts of %d of %d questions have another number of tokens than the baseline's (%s): its chat template or its tokenizer is another, or somebody adds to them",
				p.Other, p.Same+p.Other, p.First)
		}
	}
	if c := compareCalls(baseline, candidate, again); c.Baseline.Called+c.Candidate.Called > 0 {
		b.Calls = &c
		if is, ok := c.Candidate.Accuracy(); ok && c.Baseline.Called > 0 {
			was, _ := c.Baseline.Accuracy()
			n, m := float64(c.Candidate.Called), float64(c.Baseline.Called)
			both := (is*n + was*m) / (n + m)
			if was-is > max(oddShare, 3*math.Sqrt(both*(1-both)*(1/n+1/m))) {
				odd("%.1f %% of its answers that call a tool call one that was offered, with valid arguments, and %.1f %% of the baseline's", 100*is, 100*was)
			}
		}
		if c.Chance < startsApart {
			odd("it calls tools where the baseline does not, or the other way round, in %d of %d answers (F1 %.2f), and two starts of the baseline in %d of %d",
				c.Trigger.others(), c.Trigger.pairs(), c.F1, c.Again.others(), c.Again.pairs())
		}
	}
	if drawn {
		return b
	}
	exact := func(w Wording, whose string) {
		if others := w.Answers - w.Same; invariant && others > 0 {
			odd("%d of %s are not %s, letter by letter, and part at letter %d (the median): both engines were told to be batch invariant, so that it is no chance",
				others, plain.Count(w.Answers, "answer"), whose, w.Parts)
		}
	}
	var same map[slot]bool
	b.Wording, same = word(baseline, candidate)
	exact(b.Wording, "the baseline's")
	if again == nil {
		return b
	}
	own, ownSame := word(baseline, again)
	b.Again = &own
	exact(own, "its own on another start of the baseline")
	more, fewer := 0, 0
	for at, is := range same {
		switch was, ok := ownSame[at]; {
		case ok && was && !is:
			more++
		case ok && !was && is:
			fewer++
		}
	}
	differences := append(slices.Repeat([]float64{1}, more), slices.Repeat([]float64{-1}, fewer)...)
	if b.Chance = flips(differences); b.Chance < startsApart && more > fewer {
		odd("%s of its answers are the same as the baseline's, letter by letter, and %s between two starts of the baseline", b.Wording.share(), own.share())
	}
	return b
}

func (w Wording) share() string {
	return fmt.Sprintf("%.0f %%", 100*float64(w.Same)/float64(max(1, w.Answers)))
}

// lengthError is the standard error of the mean number of tokens.
func lengthError(answers []Answer) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, a := range answers {
		if a.Mark != Failed {
			x := float64(a.OutputTokens)
			n, sum, squares = n+1, sum+x, squares+x*x
		}
	}
	if n < 2 {
		return math.Inf(1)
	}
	return math.Sqrt(max(0, squares-sum*sum/n) / (n - 1) / n)
}
