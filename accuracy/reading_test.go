package accuracy

import (
	"fmt"
	"strings"
	"testing"
)

// told are n answers, each as told.
func told(n int, tell func(i int) Answer) []Answer {
	var all []Answer
	for i := range n {
		a := tell(i)
		a.Question, a.Mark = fmt.Sprint(i), Right
		all = append(all, a)
	}
	return all
}

// TestReadAgainst: what is odd about answers is found whatever they score, and what two starts of the same do is not.
func TestReadAgainst(t *testing.T) {
	sentence := func(i int) string {
		s := ""
		for k := range 40 {
			s += fmt.Sprintf("Step %d is %d. ", k, i*k*k+7*k)
		}
		return s
	}
	plain := told(200, func(i int) Answer { return Answer{Text: sentence(i), Finish: "stop", OutputTokens: 100 + i%50} })
	departs := func(every, from int) []Answer {
		return told(200, func(i int) Answer {
			a := plain[i]
			if i%every == from {
				a.Text = a.Text[:100] + "Or not? " + a.Text[100:]
			}
			return a
		})
	}
	for _, x := range []struct {
		name             string
		candidate, again []Answer
		odd              string
	}{
		{"itself", plain, plain, ""},
		{"another start", departs(10, 1), departs(9, 2), ""},
		{"other words", departs(2, 0), departs(10, 1), "50 % of its answers are the same as the baseline's, letter by letter, and 90 % between two starts"},
		{"short", told(200, func(i int) Answer { return Answer{Text: sentence(i)[:200], Finish: "stop", OutputTokens: 60} }), nil,
			"its answers have 60 tokens on average, and the baseline's 124"},
		{"endless", told(200, func(i int) Answer {
			return Answer{Text: sentence(i) + strings.Repeat("and so on, ", i%2*300), Finish: []string{"stop", "length"}[i%2], OutputTokens: 100 + i%50}
		}), nil, "50.0 % of its answers end before their budget does, and 100.0 % of the baseline's; " +
			"50.0 % of its answers repeat themselves for more than half, and 0.0 % of the baseline's"},
		{"broken", told(200, func(i int) Answer {
			return Answer{Text: sentence(i) + strings.Repeat("\ufffd", 20), Finish: "stop", OutputTokens: 100 + i%50}
		}), nil, "of its letters are no text, and 0.0 % of the baseline's"},
	} {
		b := ReadAgainst(plain, x.candidate, x.again, false, false)
		if got := strings.Join(b.Odd, "; "); x.odd == "" && got != "" || !strings.Contains(got, x.odd) {
			t.Errorf("%s: %q, want %q", x.name, got, x.odd)
		}
	}
	b := ReadAgainst(plain, departs(4, 0), nil, false, false)
	if want := (Wording{Answers: 200, Same: 150, Parts: 101}); b.Wording != want {
		t.Errorf("got %+v, want %+v", b.Wording, want)
	}
	if b := ReadAgainst(plain, departs(1, 0), nil, true, false); b.Wording.Answers != 0 {
		t.Errorf("drawn answers were held against each other: %+v", b.Wording)
	}
}

// TestBatchInvariant: where both engines say that batches change nothing, one other answer is told, be it of the candidate or of another start of the baseline.
func TestBatchInvariant(t *testing.T) {
	first := told(200, func(i int) Answer { return Answer{Text: fmt.Sprint("It is ", i), Finish: "stop", OutputTokens: 9} })
	once := told(200, func(i int) Answer {
		return Answer{Text: fmt.Sprint("It is ", i+i/199), Finish: "stop", OutputTokens: 9}
	})
	compare := func(candidate, again []Answer, rule Rule) string {
		rule.Margin, rule.Samples = 0.01, max(1, rule.Samples)
		return Compare(first, candidate, Others{Baseline: [][]Answer{again}}, rule).String()
	}
	for _, x := range []struct{ name, said, want string }{
		{"candidate", compare(once, first, Rule{Invariant: true}), "1 of 200 answers are not the baseline's, letter by letter, and part at letter 7 (the median)"},
		{"another start", compare(first, once, Rule{Invariant: true}), "1 of 200 answers are not its own on another start of the baseline, letter by letter"},
		{"alike", compare(first, first, Rule{Invariant: true}), ""},
		{"not said", compare(once, once, Rule{}), ""},
		{"drawn", compare(once, once, Rule{Invariant: true, Samples: 4}), ""},
	} {
		if x.want == "" && strings.Contains(x.said, "letter") || !strings.Contains(x.said, x.want) {
			t.Errorf("%s: %s", x.name, x.said)
		}
	}
}

// TestRepeated: what goes round in circles is told from what does not.
func TestRepeated(t *testing.T) {
	fresh := ""
	for i := range 100 {
		fresh += fmt.Sprintf("%x ", i*i*7919)
	}
	for _, x := range []struct {
		text string
		want float64
	}{{"", 0}, {strings.Repeat("ab", 100), 0}, {fresh, 0}, {fresh + fresh, 0.49}, {strings.Repeat("and so on, ", 100), 0.98}} {
		if got := repeated(x.text); got < x.want-0.03 || got > x.want+0.03 {
			t.Errorf("%.20q…: %v, want %v", x.text, got, x.want)
		}
	}
}
