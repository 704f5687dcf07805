package accuracy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// marked are answers to n questions, of which some are wrong.
func marked(n int, wrong func(i int) bool) []Answer {
	var all []Answer
	for i := range n {
		a := Answer{Question: fmt.Sprint(i), Mark: Right}
		if wrong(i) {
			a.Mark = Wrong
		}
		all = append(all, a)
	}
	return all
}

// compared is a verdict on a table of single answers.
func compared(n, lost, gained int, margin float64) Comparison {
	baseline := marked(n, func(i int) bool { return i >= n-gained-5 })
	candidate := marked(n, func(i int) bool { return i < lost || i >= n-5 })
	return Compare(baseline, candidate, Others{}, Rule{Margin: margin, Samples: 1})
}

// TestScoreKeepsItsSize: whatever is asked, a candidate that loses exactly the margin is said to hold in at most 5.2 % of all cases, by
// counting all tables; and in at least 4 % where the changes are enough to tell, and not all of them losses.
func TestScoreKeepsItsSize(t *testing.T) {
	for _, x := range sizes(t, []int{198, 500, 1319}, []float64{0.01, 0.02}, []float64{0.02, 0.05, 0.1}) {
		if x.size > 0.052 || (x.discordance >= 1.5*x.margin && x.size < 0.04) {
			t.Errorf("%+v", x)
		}
	}
}

// TestSlowScoreKeepsItsSize is the same over the grid of docs/accuracy.md.
func TestSlowScoreKeepsItsSize(t *testing.T) {
	for _, x := range sizes(t, []int{198, 500, 1319, 3000, 12032}, []float64{0.005, 0.01, 0.02, 0.03}, []float64{0.01, 0.02, 0.03, 0.05, 0.1, 0.2}) {
		t.Logf("%+v", x)
		if enough := x.discordance >= 1.6*x.margin && float64(x.questions)*x.discordance >= 6; x.size > 0.052 || (enough && x.size < 0.04) {
			t.Errorf("%+v", x)
		}
		if x.questions >= 1319 && x.beyond > 0.01 {
			t.Errorf("one point beyond the margin: %+v", x)
		}
	}
}

type size struct {
	questions           int
	margin, discordance float64
	size, beyond, power float64
}

func sizes(t *testing.T, questions []int, margins, discordances []float64) (all []size) {
	t.Helper()
	for _, n := range questions {
		for _, m := range margins {
			for _, d := range discordances {
				if d < m {
					continue
				}
				x := size{questions: n, margin: m, discordance: d, size: holding(n, d, m, m), power: Design{n, 1, m, d}.Power()}
				if d >= m+0.01 {
					x.beyond = holding(n, d, m+0.01, m)
				}
				all = append(all, x)
			}
		}
	}
	return all
}

// TestSimulatedPairs: of 10,000 simulated pairs of GSM8K's size, 4 to 6 % are said to hold at a loss that is the margin, at
// most 1 % one point beyond it, and as many as the plan says where nothing is lost. Of those, at most 2.5 % are called worse.
func TestSimulatedPairs(t *testing.T) { simulated(t, 0.03) }

// TestSlowSimulatedPairs is the same where fewer or more answers change.
func TestSlowSimulatedPairs(t *testing.T) { simulated(t, 0.05, 0.1) }

func simulated(t *testing.T, discordances ...float64) {
	t.Helper()
	const n, margin, rounds = 1319, 0.01, 10000
	draw := rand.New(rand.NewPCG(28, 1))
	for _, discordance := range discordances {
		seen := map[[2]int]Verdict{} // a verdict depends on the table alone
		hold := func(loss float64) (holds, worse float64) {
			for range rounds {
				lost, gained := 0, 0
				for range n {
					switch u := draw.Float64(); {
					case u < (discordance+loss)/2:
						lost++
					case u < discordance:
						gained++
					}
				}
				v, ok := seen[[2]int{lost, gained}]
				if !ok {
					v = compared(n, lost, gained, margin).Verdict
					seen[[2]int{lost, gained}] = v
				}
				switch v {
				case Holds:
					holds += 1. / rounds
				case Worse:
					worse += 1. / rounds
				}
			}
			return holds, worse
		}
		if holds, worse := hold(margin); holds < 0.04 || holds > 0.06 {
			t.Errorf("discordance %v: at the margin %.2f %% hold, %.2f %% are worse", discordance, 100*holds, 100*worse)
		}
		if holds, worse := hold(margin + 0.01); holds > 0.01 || worse < 0.5 {
			t.Errorf("discordance %v: one point beyond the margin %.2f %% hold, %.2f %% are worse", discordance, 100*holds, 100*worse)
		}
		power := Design{n, 1, margin, discordance}.Power()
		if holds, worse := hold(0); math.Abs(holds-power) > 0.02 || worse > 0.025 {
			t.Errorf("discordance %v: without a loss %.1f %% hold, where the plan says %.1f; %.2f %% are worse", discordance, 100*holds, 100*power, 100*worse)
		}
	}
}

// TestNeeded: the number of questions that a plan names gives the power that it promises.
func TestNeeded(t *testing.T) {
	for _, d := range []Design{{0, 1, 0.01, 0.03}, {0, 1, 0.01, 0.05}, {0, 1, 0.02, 0.05}, {0, 1, 0.03, 0.2}, {0, 1, 0.02, 0.01}} {
		d.Questions = d.Needed()
		if power := d.Power(); power < 0.77 || power > 0.86 {
			t.Errorf("%+v: a power of %.3f", d, power)
		}
	}
	if n := (Design{0, 1, 0.01, 0.001}).Needed(); n < 298 {
		t.Errorf("%d questions cannot show a loss below 1 %%, whatever is answered", n)
	}
	for questions, want := range map[int]float64{298: 0, 299: 1} {
		for _, samples := range []int{1, 4} {
			if got := (Design{questions, samples, 0.01, 0}).Power(); got != want {
				t.Errorf("%d questions without a change, %d samples: %v, want %v", questions, samples, got, want)
			}
		}
	}
}

// TestPowerOfSamples: of simulated deployments that draw their answers alike, as many hold as a plan says.
func TestPowerOfSamples(t *testing.T) {
	const rounds = 2000
	draw := rand.New(rand.NewPCG(28, 6))
	for _, d := range []Design{{198, 4, 0.05, 1. / 3}, {198, 16, 0.03, 1. / 3}, {500, 2, 0.04, 1. / 3}, {30, 64, 0.06, 1. / 3}} {
		holds := 0.0
		for range rounds {
			p := Pairs{Questions: d.Questions}
			squares := 0.0
			for range d.Questions {
				right, diff := draw.Float64(), 0.0 // a third of all pairs differ
				for range d.Samples {
					if draw.Float64() < right {
						diff -= 1 / float64(d.Samples)
					}
					if draw.Float64() < right {
						diff += 1 / float64(d.Samples)
					}
				}
				p.Gained += max(diff, 0)
				p.Lost += max(-diff, 0)
				squares += diff * diff
			}
			p.Weight = squares / (p.Lost + p.Gained)
			if p.chance(d.Margin) <= unsure {
				holds += 1. / rounds
			}
		}
		if power := d.Power(); math.Abs(holds-power) > 0.06 {
			t.Errorf("%+v: %.1f %% hold, and the plan says %.1f", d, 100*holds, 100*power)
		} else {
			t.Logf("%+v: %.1f %% hold, and the plan says %.1f; for 80 %%: %d", d, 100*holds, 100*power, d.Needed())
		}
	}
}

// TestVerdicts: each verdict, and what it says.
func TestVerdicts(t *testing.T) {
	for _, x := range []struct {
		n, lost, gained int
		margin          float64
		verdict         Verdict
		says            string
	}{
		{1319, 10, 12, 0.01, Holds, "holds: of 1319 questions it has lost 10 and gained 12, which is 0.2 points (−0.5 to 0.8); it loses less than the margin of 1.0"},
		{12000, 80, 40, 0.01, Holds, "it loses, but less than the margin of 1.0"},
		{1319, 60, 10, 0.01, Worse, "it loses more than the margin of 1.0"},
		{1319, 30, 12, 0.01, Worse, "it loses, and may lose more than the margin of 1.0"},
		{198, 3, 2, 0.01, NotShown, "it may lose more than the margin of 1.0; a margin of 1.0 points takes about 1695 questions"},
		{100, 0, 0, 0.01, NotShown, "a margin of 1.0 points takes about 299 questions"},
		{300, 0, 0, 0.01, Holds, "(−1.0 to 1.0)"},
	} {
		c := compared(x.n, x.lost, x.gained, x.margin)
		if c.Verdict != x.verdict || !strings.Contains(c.String(), x.says) {
			t.Errorf("%d, -%d +%d, margin %v: %s", x.n, x.lost, x.gained, x.margin, c)
		}
		if holds := c.Low > -x.margin; holds != (c.Verdict == Holds) && c.Why == nil {
			t.Errorf("the verdict and its bound do not agree: %s", c)
		}
	}
}

// TestNoVerdict: what stands in the way of a verdict is said.
func TestNoVerdict(t *testing.T) {
	right := marked(1000, func(int) bool { return false })
	some := func(mark Mark, n int) []Answer {
		all := slices.Clone(right)
		for i := range n {
			all[i].Mark = mark
		}
		return all
	}
	rule := Rule{Margin: 0.02, Samples: 1}
	for _, x := range []struct {
		name                       string
		baseline, candidate, again []Answer
		rule                       Rule
		verdict                    Verdict
		says                       string
	}{
		{"all right", right, right, right, rule, Holds, "0.0 % have changed, and 0.0 % between two starts of the baseline"},
		{"nothing", nil, right, nil, rule, Unchecked, "unchecked: no question has an answer of both"},
		{"two of each, one of them failed", append(some(Failed, 1), right...), append(some(Failed, 2), right...), nil, Rule{Margin: 0.02, Samples: 2}, Holds, ""},
		{"one of several", right, right, nil, Rule{Margin: 0.02, Samples: 2}, NotShown, "a verdict on this task takes 2 answers to each question, and each has 1"},
		{"counts of prompts", right, some(Wrong, 20), nil, Rule{Margin: 0.02}, Unchecked, ""},
		{"several, of which one has failed", right, append(some(Failed, 1), right...), nil, rule, Holds, ""},
		{"a baseline that is cut", some(Cut, 11), right, nil, rule, NotShown, "cut 1.1 % of the baseline's"},
		{"a candidate that is cut", right, some(Cut, 11), nil, Rule{Margin: 0.1, Samples: 1}, Worse, "cut 1.1 % of its"},
		{"few cut", right, some(Cut, 4), nil, rule, Holds, ""},
		{"a candidate that fails", right, some(Failed, 11), nil, rule, NotShown, "11 of 1000 questions have no answer"},
		{"a baseline that is two", right, right, some(Wrong, 20), rule, NotShown, "two starts of the baseline alone lie 2.0 points apart"},
		{"a baseline that is two, and a great loss", right, some(Wrong, 300), some(Wrong, 20), rule, Worse, "two starts of the baseline alone lie 2.0 points apart"},
		{"starts that lie a little apart", right, right, some(Wrong, 4), rule, NotShown, "; starts alone change it by 0.3 points (standard error, told by 1 more)"},
	} {
		var others Others
		if x.again != nil {
			others.Baseline = [][]Answer{x.again}
		}
		c := Compare(x.baseline, x.candidate, others, x.rule)
		if c.Verdict != x.verdict || !strings.Contains(c.String(), x.says) {
			t.Errorf("%s: %s", x.name, c)
		}
	}
}

// TestStartsBar: where further starts alone stand in the way of a verdict, that is said, and more questions would not mend it.
func TestStartsBar(t *testing.T) {
	right := marked(1000, func(int) bool { return false })
	wrong := func(n int) []Answer { return marked(1000, func(i int) bool { return i < n }) }
	for _, x := range []struct {
		name      string
		candidate []Answer
		again     int // wrong answers of the baseline's second start
		verdict   Verdict
		barred    bool
	}{
		{"a loss of twice the margin", wrong(40), 7, NotShown, true},
		{"it would hold", right, 7, NotShown, true},
		{"starts that are alike", wrong(40), 0, Worse, false},
		{"a great loss", wrong(300), 7, Worse, false},
		{"it holds nevertheless", right, 1, Holds, false},
	} {
		c := Compare(right, x.candidate, Others{Baseline: [][]Answer{wrong(x.again)}}, Rule{Margin: 0.02, Samples: 1})
		if c.Verdict != x.verdict || c.Barred() != x.barred || x.barred && !strings.Contains(c.String(), "starts lie too far apart for a verdict") {
			t.Errorf("%s: barred %v: %s", x.name, c.Barred(), c)
		}
	}
}

// TestMcNemar: the chance is that of the exact test, and with several answers to a question that of drawn signs.
func TestMcNemar(t *testing.T) {
	for _, x := range []struct {
		lost, gained int
		chance       float64
	}{{0, 0, 1}, {5, 0, 0.0625}, {6, 0, 0.03125}, {1, 8, 0.0390625}, {10, 10, 1}, {12, 5, 0.1434631}} {
		if got := compared(200, x.lost, x.gained, 0.01).Chance; math.Abs(got-x.chance) > 1e-6 {
			t.Errorf("-%d +%d: %v, want %v", x.lost, x.gained, got, x.chance)
		}
	}
	// Halves and wholes: of +1, +1/2, +1/2 the sum 2 comes once in 8, and -2 as well.
	if got := flips([]float64{1, 0.5, 0.5}); got != 0.25 {
		t.Errorf("got %v", got)
	}
	if got := flips([]float64{1. / 3, -2. / 7}); got != 1 {
		t.Errorf("got %v", got)
	}
}

// TestLow: with so many changes, counting all tables and the normal distribution agree: the limit is where the score is 1.645.
func TestLow(t *testing.T) {
	p := Pairs{Questions: 12000, Lost: 600, Gained: 500, Weight: 1}
	if z := (changes{12000, 600, 500}).score(-p.low()); math.Abs(z-1.6449) > 0.01 {
		t.Errorf("at the limit %v the score is %v", p.low(), z)
	}
}

// TestSeveralSamples: answers to one question are not so many answers of questions. Candidates that lose as much as the margin, be it of
// each question some or of some questions all, hold in no more than 5 % of all cases, as far as so many rounds tell.
func TestSeveralSamples(t *testing.T) {
	const rounds = 2000
	draw := rand.New(rand.NewPCG(28, 2))
	for _, x := range []struct {
		questions, samples int
		margin             float64
		whole              bool
	}{{30, 16, 0.05, false}, {30, 16, 0.05, true}, {198, 4, 0.03, false}, {198, 4, 0.03, true}, {198, 8, 0.02, true}} {
		holds := 0.0
		for range rounds {
			p := Pairs{Questions: x.questions}
			squares := 0.0
			for range x.questions {
				was := math.Pow(draw.Float64(), 0.7) // how often the baseline is right
				now := was
				switch {
				case !x.whole:
					now *= 1 - x.margin/0.5882
				case draw.Float64() < x.margin/0.5882:
					now = 0
				}
				d := 0.0
				for range x.samples {
					if draw.Float64() < was {
						d -= 1 / float64(x.samples)
					}
					if draw.Float64() < now {
						d += 1 / float64(x.samples)
					}
				}
				p.Gained += max(d, 0)
				p.Lost += max(-d, 0)
				squares += d * d
			}
			p.Weight = squares / (p.Lost + p.Gained)
			if p.chance(x.margin) <= unsure {
				holds += 1. / rounds
			}
		}
		t.Logf("%+v: %.2f %% hold", x, 100*holds)
		if holds > 0.06 {
			t.Errorf("%+v: %.2f %% hold at the margin", x, 100*holds)
		}
	}
}

// TestInterval: of 100 intervals of a score, about 95 hold the truth; answers to one question do not count as so many questions.
func TestInterval(t *testing.T) {
	if low, high := interval(marked(1319, func(i int) bool { return i < 66 })); math.Abs(low-0.93686) > 5e-5 || math.Abs(high-0.96047) > 5e-5 {
		t.Errorf("Wilson's interval of 1253 of 1319 is %.5f to %.5f", low, high)
	}
	if low, high := interval(marked(20, func(int) bool { return false })); math.Abs(low-0.83887) > 5e-5 || high != 1 {
		t.Errorf("of 20 right ones: %.5f to %.5f", low, high)
	}
	draw := rand.New(rand.NewPCG(28, 3))
	for _, x := range []struct{ questions, samples int }{{30, 16}, {198, 4}, {1319, 1}} {
		const rounds = 600
		held := 0.0
		for range rounds {
			var answers []Answer
			for q := range x.questions {
				right := math.Pow(draw.Float64(), 0.25) // how often it is right: 0.8 of all
				for range x.samples {
					a := Answer{Question: fmt.Sprint(q), Mark: Wrong}
					if draw.Float64() < right {
						a.Mark = Right
					}
					answers = append(answers, a)
				}
			}
			if low, high := interval(answers); low <= 0.8 && 0.8 <= high {
				held += 100. / rounds
			}
		}
		if held < 93 || held > 97 {
			t.Errorf("%+v: %.1f %% of the intervals hold the truth", x, held)
		}
	}
}

// TestStarts: starts of two deployments are better or worse as a whole, by chance. Of candidates that lose exactly the margin, no more are said
// to hold than docs/accuracy.md says: 8 % with one further start of the baseline, and 5 % with one of each of the two.
func TestStarts(t *testing.T) { starts(t, 5000, [2]int{0, 0}, [2]int{1, 0}, [2]int{1, 1}) }

// TestSlowStarts is the same with more rounds and more starts: the table of docs/accuracy.md.
func TestSlowStarts(t *testing.T) {
	starts(t, 20000, [2]int{0, 0}, [2]int{1, 0}, [2]int{1, 1}, [2]int{2, 2}, [2]int{5, 5})
}

func starts(t *testing.T, rounds int, further ...[2]int) {
	t.Helper()
	const n, margin, open = 1319, 0.01, 0.06 // the part of questions that turn out one way or the other: of two starts, 3 % differ
	draw := rand.New(rand.NewPCG(28, 7))
	type table struct{ lost, gained float64 }
	lows := map[table]float64{}
	share := func(loss, shift float64, further [2]int) (holds float64) {
		for range rounds {
			questions, lost := 0, 0.0 // those that are open, and those that the candidate has lost for good
			for range n {
				switch u := draw.Float64(); {
				case u < open:
					questions++
				case u < open+loss:
					lost++
				}
			}
			start := func() (right []bool) {
				chance := 0.5 + shift/open*draw.NormFloat64()
				for range questions {
					right = append(right, draw.Float64() < chance)
				}
				return right
			}
			pair := func(a, b []bool) Pairs {
				p := Pairs{Questions: n, Weight: 1}
				for i := range a {
					switch {
					case a[i] && !b[i]:
						p.Lost++
					case b[i] && !a[i]:
						p.Gained++
					}
				}
				return p
			}
			var s spread
			var firsts [2][]bool
			for side, more := range further {
				firsts[side] = start()
				all := [][]bool{firsts[side]}
				var pairs []Pairs
				for range more {
					is := start()
					for _, was := range all {
						pairs = append(pairs, pair(was, is))
					}
					all = append(all, is)
				}
				s.take(len(all), pairs)
			}
			p := pair(firsts[0], firsts[1])
			p.Lost += lost
			low, ok := lows[table{p.Lost, p.Gained}]
			if !ok {
				low = p.low()
				lows[table{p.Lost, p.Gained}] = low
			}
			if s.below(p.Difference(), low) > -margin {
				holds += 100 / float64(rounds)
			}
		}
		return holds
	}
	for _, further := range further {
		most := 5.0
		if further == [2]int{1, 0} {
			most = 8.0
		}
		var all []float64
		for _, shift := range []float64{0, 0.0025, 0.005, 0.01} {
			holds := share(margin, shift, further)
			if all = append(all, holds); further != [2]int{} && holds > most || further == [2]int{} && shift == 0 && (holds < 4 || holds > 6) {
				t.Errorf("%d further starts, which shift by %.2f points: %.1f %% hold at the margin", further, 100*shift, holds)
			}
		}
		t.Logf("%d further starts: %.1f %% hold at the margin; %.0f %% where nothing is lost", further, all, share(0, 0, further))
	}
}
