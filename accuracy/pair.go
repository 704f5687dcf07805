package accuracy

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pairs is what two deployments have made of the same questions.
type Pairs struct {
	Questions int `json:"questions"` // that both have answered
	// Lost are those that the baseline alone has answered right, Gained those of the candidate alone. Of a question with several
	// answers, the difference of the shares that are right counts.
	Lost   float64 `json:"lost"`
	Gained float64 `json:"gained"`
	// Weight is how much of a question one of them is, from above 0 to 1: 1 where each has one answer. It is the sum of the squares of all
	// differences as a part of their sum, as Rao and Scott weigh clustered counts (Biometrics 48, 1992).
	Weight float64 `json:"weight"`
	// Chance is the probability of so large a difference, in either direction, if each change were as likely the other way
	// round. With one answer to each question that is McNemar's exact test.
	Chance float64 `json:"chance"`

	Samples      float64 `json:"samples"`      // answers to a question on average, of the one that has fewer; failed ones do not count
	Unpaired     int     `json:"unpaired"`     // questions that one of them has not answered
	CutBaseline  float64 `json:"cut_baseline"` // the part of its answers that its budget has ended
	CutCandidate float64 `json:"cut_candidate"`
}

// Pair pairs answers by their questions.
func Pair(baseline, candidate []Answer) Pairs {
	type count struct{ right, answered int }
	var names []string
	counts := map[string]*[2]count{}
	var cut [2]float64
	for side, answers := range [2][]Answer{baseline, candidate} {
		for _, a := range answers {
			q := counts[a.Question]
			if q == nil {
				q = new([2]count)
				counts[a.Question] = q
				names = append(names, a.Question)
			}
			if a.Mark == Failed {
				continue
			}
			q[side].answered++
			if a.Mark == Right {
				q[side].right++
			}
			if a.Mark == Cut {
				cut[side] += 1 / float64(len(answers))
			}
		}
	}
	p := Pairs{Weight: 1, CutBaseline: cut[0], CutCandidate: cut[1]}
	var differences []float64
	squares, all := 0.0, [2]int{}
	for _, name := range names {
		b, c := counts[name][0], counts[name][1]
		if b.answered == 0 || c.answered == 0 {
			p.Unpaired++
			continue
		}
		p.Questions++
		all[0], all[1] = all[0]+b.answered, all[1]+c.answered
		d := float64(c.right)/float64(c.answered) - float64(b.right)/float64(b.answered)
		p.Gained += max(d, 0)
		p.Lost += max(-d, 0)
		squares += d * d
		if d != 0 {
			differences = append(differences, d)
		}
	}
	if len(differences) > 0 {
		p.Weight = squares / (p.Lost + p.Gained)
	}
	p.Chance, p.Samples = flips(differences), float64(min(all[0], all[1]))/float64(max(1, p.Questions))
	return p
}

// Discordance is the part of all questions whose answers differ in being right.
func (p Pairs) Discordance() float64 { return (p.Lost + p.Gained) / float64(max(1, p.Questions)) }

// Difference is by what part of all answers the candidate is better; below 0, it is worse.
func (p Pairs) Difference() float64 { return (p.Gained - p.Lost) / float64(max(1, p.Questions)) }

// chance is that of [changes]. What counts less than a question makes tables of more questions.
func (p Pairs) chance(loss float64) float64 {
	t, w := p.table(loss)
	return changes{t.questions / w, t.lost / w, t.gained / w}.chance(loss)
}

// table are the changes, and how much of a question one of them counts under a loss. A loss that has not been seen counts as one of
// whole questions: only so is a verdict right too where a few questions are lost for good.
func (p Pairs) table(loss float64) (t changes, weight float64) {
	t = changes{float64(p.Questions), p.Lost, p.Gained}
	lost, gained := t.under(loss)
	seen, all := min(lost, t.lost/t.questions), lost+gained-loss*loss
	if p.Weight >= 1 || all <= 0 {
		return t, 1
	}
	return t, min(1, max((p.Weight*(seen+gained)+lost-seen-loss*loss)/all, p.Weight))
}

// low is what the difference is above, with 95 % confidence.
func (p Pairs) low() float64 {
	low, high := -1.0, p.Difference()
	for range 30 {
		if mid := (low + high) / 2; p.chance(-mid) <= unsure {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// flips is the probability that differences come to at least as much, in either direction, if the sign of each were drawn.
func flips(differences []float64) float64 {
	const most = 1000 // parts of a question
	unit := 1.0
	for u := 1.0; u <= most; u++ {
		if unit = u; !slices.ContainsFunc(differences, func(d float64) bool { return math.Abs(d*u-math.Round(d*u)) > 1e-6 }) {
			break
		}
	}
	sum, reach := 0, 0
	var steps []int
	for _, d := range differences {
		step := int(math.Round(d * unit))
		sum += step
		steps = append(steps, max(step, -step))
		reach += max(step, -step)
	}
	// All sums lie from -reach to reach, in steps of 2.
	at, next := make([]float64, reach+1), make([]float64, reach+1)
	at[0] = 1
	top := 0
	for _, s := range steps {
		clear(next[:top+s+1])
		for i, p := range at[:top+1] {
			next[i] += p / 2
			next[i+s] += p / 2
		}
		top += s
		at, next = next, at
	}
	chance := 0.0
	for i, p := range at {
		if d := 2*i - reach; max(d, -d) >= max(sum, -sum) {
			chance += p
		}
	}
	return min(chance, 1)
}

// Rule is how a verdict is reached.
type Rule struct {
	Margin  float64 // the loss that is not accepted, as a part of all answers: 0.01 is one point
	Samples int     // answers to each question that a verdict takes: more than one where they are drawn by chance; 0: there is none, and how they read is all that is said
	// Invariant says that both engines were told to answer alike whatever else they answer meanwhile: then no answer changes by chance.
	Invariant bool
}

// Comparison is a candidate held against its baseline, question by question.
type Comparison struct {
	Pairs
	Verdict Verdict `json:"verdict"`
	Margin  float64 `json:"margin"`
	// Low and High are what the candidate is better than the baseline by: no less than Low, and no more than High, each with
	// 95 % confidence, as a part of all answers, whatever starts of the two were asked as far as Starts tell. It holds if Low is above -Margin.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Loss says that a loss is shown, be it within the margin or not: by [Pairs.Chance], below 5 %.
	Loss bool `json:"loss,omitempty"`
	// Starts is how many further starts of the two have told what starts alone change, and Apart the standard error of the
	// difference that comes of it, as a part of all answers.
	Starts int     `json:"starts,omitempty"`
	Apart  float64 `json:"apart,omitempty"`
	// Again is the baseline's own second start held against its first; nil: there was none. What changes there is noise.
	Again *Pairs `json:"again,omitempty"`
	// Unasked are answers of a baseline that was imported to questions that the candidate was not asked: they count for nothing.
	Unasked int `json:"unasked,omitempty"`
	// Readings is how the answers read beside the baseline's; nil: there are none of one of them.
	Readings *Readings `json:"readings,omitempty"`
	// Needs is about how many questions the margin takes with these changes; 0: there were enough, or it is something else that lacks.
	Needs int `json:"needs,omitempty"`
	// Divergence is of the task [NextToken], which has no other verdict than [Unchecked]; Floor is that of two starts of the baseline.
	Divergence *Divergence `json:"divergence,omitempty"`
	Floor      *Divergence `json:"floor,omitempty"`
	// Why is what stands in the way of a verdict, or of [Holds]; each is the end of a sentence that begins "not shown: ".
	Why []string `json:"why,omitempty"`
}

// What stands in the way of a verdict.
const (
	mostLacking = 0.01 // the part of questions without a pair, or of answers that were cut or have failed
	startsApart = 0.01 // the chance below which two starts of the baseline are not the same
)

// CompareForced says how far the next token of a candidate lies from that of its baseline, both asked by [NextToken]: no verdict, since it says
// nothing of decoding.
func CompareForced(baseline, candidate []Answer, others Others) Comparison {
	c := Comparison{Verdict: Unchecked}
	d, err := divergeAnswers(baseline, candidate)
	if err != nil {
		c.Why = append(c.Why, err.Error())
		return c
	}
	c.Divergence = d
	if len(others.Baseline) > 0 {
		c.Floor, _ = divergeAnswers(baseline, others.Baseline[0]) // what has told nothing is no floor
	}
	return c
}

// Others are the answers of further starts of the two that are held against each other, each list the newest first.
type Others struct {
	Baseline, Candidate [][]Answer
}

// Compare says what the answers of a candidate prove beside those of its baseline. Of others the first [MostStarts] of each count.
func Compare(baseline, candidate []Answer, others Others, rule Rule) Comparison {
	var again []Answer
	var own *Pairs
	if len(others.Baseline) > 0 {
		again = others.Baseline[0]
		p := Pair(baseline, again)
		own = &p
	}
	var s spread
	s.add(baseline, others.Baseline)
	s.add(candidate, others.Candidate)
	c := Pair(baseline, candidate).judge(own, s, rule)
	if c.Questions > 0 {
		r := ReadAgainst(baseline, candidate, again, rule.Samples > 1, rule.Invariant)
		c.Readings = &r
	}
	return c
}

// MostStarts are the further starts that count, of each of the two.
const MostStarts = 5

// spread is how far starts of the same lie apart, of all that were asked.
type spread struct {
	more   int     // starts beyond the first of each: the degrees of freedom
	beyond float64 // sum of the squares of their scores about their mean, less what chance alone makes of it
}

// add takes the starts of one deployment: answers are those that are held against the other.
func (s *spread) add(answers []Answer, others [][]Answer) {
	all := append([][]Answer{answers}, others[:min(len(others), MostStarts)]...)
	var pairs []Pairs
	for i, a := range all {
		for _, b := range all[:i] {
			pairs = append(pairs, Pair(b, a))
		}
	}
	s.take(len(all), pairs)
}

// take takes so many starts of one deployment, by what each two of them have made of the questions.
func (s *spread) take(starts int, pairs []Pairs) {
	s.more += starts - 1
	for _, p := range pairs {
		chance := (p.Lost + p.Gained) * p.Weight / float64(max(1, p.Questions)*max(1, p.Questions))
		s.beyond += (p.Difference()*p.Difference() - chance) / float64(starts)
	}
}

// error is the standard error that starts add to the difference of one of each.
func (s spread) error() float64 { return math.Sqrt(2 * max(0, s.beyond) / float64(max(1, s.more))) }

// below is the limit that a difference is above with 95 % confidence, whatever starts were measured, where low is that limit for these starts:
// errors of the two kinds add as squares, each as far as it is known (Zou and Donner, Statistics in Medicine 27, 2008).
func (s spread) below(difference, low float64) float64 {
	// of Student's distribution, by its degrees of freedom: what is exceeded in 5 % of all cases
	student := [2*MostStarts + 1]float64{0, 6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125}
	return max(-1, difference-math.Hypot(difference-low, student[s.more]*s.error()))
}

// judge gives the verdict: it holds if the loss is less than the margin for certain, and is worse if it loses for certain and
// does not hold.
func (p Pairs) judge(again *Pairs, starts spread, rule Rule) Comparison {
	c := Comparison{Pairs: p, Verdict: Unchecked, Margin: rule.Margin, Again: again}
	if p.Questions == 0 {
		c.Why = append(c.Why, "no question has an answer of both")
		return c
	}
	if rule.Samples == 0 {
		return c
	}
	mirror := p
	mirror.Lost, mirror.Gained = p.Gained, p.Lost
	c.Starts, c.Apart = starts.more, starts.error()
	c.Low, c.High = starts.below(p.Difference(), p.low()), -starts.below(-p.Difference(), mirror.low())
	c.Loss = p.Lost > p.Gained && p.Chance < unsure && (c.Apart == 0 || c.High < 0)
	c.Verdict = NotShown
	if p.Samples < (1-mostLacking)*float64(rule.Samples) {
		c.Why = append(c.Why, fmt.Sprintf("a verdict on this task takes %d answers to each question, and each has %.3g", rule.Samples, p.Samples))
	}
	if p.CutBaseline > mostLacking {
		c.Why = append(c.Why, fmt.Sprintf("the budget of tokens has cut %.1f %% of the baseline's answers", 100*p.CutBaseline))
	}
	if c.Why != nil {
		return c
	}
	if again != nil && again.Chance < startsApart {
		c.Why = append(c.Why, fmt.Sprintf("two starts of the baseline alone lie %s points apart, which is more than chance: measure more starts",
			points(math.Abs(again.Difference()))))
	}
	if p.CutCandidate > mostLacking {
		c.Why = append(c.Why, fmt.Sprintf("the budget of tokens has cut %.1f %% of its answers", 100*p.CutCandidate))
	}
	if all := p.Questions + p.Unpaired; float64(p.Unpaired) > mostLacking*float64(all) {
		c.Why = append(c.Why, fmt.Sprintf("%d of %d questions have no answer of one of the two", p.Unpaired, all))
	}
	switch {
	case p.chance(rule.Margin) > unsure:
		single := Design{Samples: 1, Margin: rule.Margin, Discordance: p.Discordance() * p.Weight}
		if n := single.Needed(); !c.Loss && n > p.Questions {
			c.Needs = n
			c.Why = append(c.Why, fmt.Sprintf("a margin of %s points takes about %d questions where so many answers change", points(rule.Margin), n))
		}
	case c.Why == nil && (c.Apart == 0 || c.Low > -rule.Margin):
		c.Verdict = Holds
		return c
	}
	switch table := p.chance(rule.Margin) <= unsure || p.Lost > p.Gained && p.Chance < unsure; {
	case c.Loss:
		c.Verdict = Worse
	case table && c.Apart > 0:
		c.Why = append(c.Why, "starts lie too far apart for a verdict: measure more of them")
	}
	return c
}

// String says the verdict in one line, with what it rests on.
func (c Comparison) String() string {
	if c.Divergence != nil {
		return c.Reason()
	}
	return string(c.Verdict) + ": " + c.Reason()
}

// Barred reports whether something other than too few questions stands in the way of a verdict: more questions would not mend it.
func (c Comparison) Barred() bool {
	return (c.Verdict == NotShown || c.Verdict == Unchecked) && len(c.Why) > min(c.Needs, 1)
}

// Reason is what the verdict rests on, in one line.
func (c Comparison) Reason() string {
	if c.Divergence != nil {
		s := "KL divergence of its next token from the baseline's: " + c.Divergence.String()
		if c.Floor == nil {
			return s + "; no other start of the baseline tells what is noise"
		}
		return s + "; of another start of the baseline: " + c.Floor.String()
	}
	odd := c.Why
	if c.Readings != nil {
		odd = slices.Concat(odd, c.Readings.Odd)
	}
	if c.Verdict == Unchecked {
		return strings.Join(odd, "; ")
	}
	s := fmt.Sprintf("of %d questions it has lost %s and gained %s, which is %s points (%s to %s)", c.Questions,
		parts(c.Lost), parts(c.Gained), points(c.Difference()), points(c.Low), points(c.High))
	switch {
	case c.Verdict == Holds && c.Loss:
		s += fmt.Sprintf("; it loses, but less than the margin of %s", points(c.Margin))
	case c.Verdict == Holds:
		s += fmt.Sprintf("; it loses less than the margin of %s", points(c.Margin))
	case c.Verdict == Worse && c.High < -c.Margin:
		s += fmt.Sprintf("; it loses more than the margin of %s", points(c.Margin))
	case c.Verdict == Worse:
		s += fmt.Sprintf("; it loses, and may lose more than the margin of %s", points(c.Margin))
	case c.Low <= -c.Margin:
		s += fmt.Sprintf("; it may lose more than the margin of %s", points(c.Margin))
	}
	if c.Again != nil {
		s += fmt.Sprintf("; %.1f %% have changed, and %.1f %% between two starts of the baseline", 100*c.Discordance(), 100*c.Again.Discordance())
	}
	switch {
	case c.Unasked == 1:
		s += "; 1 answer of the baseline is to a question that was not asked, and does not count"
	case c.Unasked > 1:
		s += fmt.Sprintf("; %d answers of the baseline are to questions that were not asked, and do not count", c.Unasked)
	}
	if c.Apart > 0 {
		s += fmt.Sprintf("; starts alone change it by %s points (standard error, told by %d more), which is allowed for: more starts tell it better", points(c.Apart), c.Starts)
	}
	for _, what := range odd {
		s += "; " + what
	}
	return s
}

// Points are a share of all answers, of 1, in hundredths: "1 point", "0.5 points".
func Points(share float64) string {
	if s := fmt.Sprintf("%.3g", 100*share); s != "1" {
		return s + " points"
	}
	return "1 point"
}

// points are parts of all answers in hundredths: "−0.4".
func points(part float64) string {
	s := fmt.Sprintf("%.1f", 100*part)
	if s == "-0.0" {
		return "0.0"
	}
	return strings.Replace(s, "-", "−", 1)
}

// parts is a count of answers: "12", and of several samples "12.5".
func parts(n float64) string {
	if n == math.Trunc(n) {
		return fmt.Sprint(int(n))
	}
	return fmt.Sprintf("%.1f", n)
}
