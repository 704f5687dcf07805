package accuracy

import "math"

// What is held to be certain, and what a plan asks for.
const (
	// unsure is how often a deployment that loses as much as the margin is said to hold.
	unsure = 0.05
	// EnoughPower is how often a deployment that loses nothing should be said to hold, for a plan to be good.
	EnoughPower = 0.8
	// GuessedDiscordance is the part of all answers that is expected to be right of one deployment and wrong of the other,
	// before anything was measured. It is a guess: an earlier run tells better.
	GuessedDiscordance = 0.05
	// GuessedDrawn is the same where answers are drawn by chance: of a question that is right half of the time, a half.
	GuessedDrawn = 0.3
)

// interval is where the share of right answers lies with 95 % confidence: Wilson's score interval (Journal of the American Statistical
// Association 22, 1927), as Brown, Cai and DasGupta recommend (Statistical Science 16, 2001). Several answers to one question count as
// the number of independent ones that would vary as much, and as no fewer than one.
func interval(answers []Answer) (low, high float64) {
	type count struct{ right, all int }
	counts := map[string]count{}
	for _, a := range answers {
		c := counts[a.Question]
		c.all++
		if a.Mark == Right {
			c.right++
		}
		counts[a.Question] = c
	}
	var right, rights, both, alls int // sums: of right answers, of their squares, of products, of the squares of all
	for _, c := range counts {
		right, rights, both, alls = right+c.right, rights+c.right*c.right, both+c.right*c.all, alls+c.all*c.all
	}
	n, questions := float64(len(answers)), float64(len(counts))
	share, z := float64(right)/n, 1.959964
	if n > questions {
		own := questions
		if squares := float64(rights) - 2*share*float64(both) + share*share*float64(alls); squares > 0 && questions > 1 {
			own = share * (1 - share) * n * n / squares * (questions - 1) / questions
			z += (z*z*z + z) / 4 / (questions - 1) // Student's distribution: how much they vary was estimated
		}
		n = min(n, max(questions, own))
	}
	middle, half := share+z*z/(2*n), z*math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return max(0, (middle-half)/(1+z*z/n)), min(1, (middle+half)/(1+z*z/n))
}

// changes is a table of paired answers: of so many questions, lost ones only the baseline has right, and gained ones only the
// candidate. Answers to several samples make parts of one.
type changes struct {
	questions, lost, gained float64
}

// under is the most likely pair of probabilities of losing and of gaining an answer, were the loss what it says: Tango's restricted estimate
// (Statistics in Medicine 17, 1998).
func (t changes) under(loss float64) (lost, gained float64) {
	n := t.questions
	k := t.lost + t.gained + (t.lost-t.gained)*loss - 2*n*loss
	gained = (k + math.Sqrt(max(0, k*k+8*n*t.gained*loss*(1-loss)))) / (4 * n)
	gained = max(gained, 0, -loss)
	return gained + loss, gained
}

// score is how many standard errors the candidate is better than one of that loss: Tango's statistic, whose error is that under the loss.
func (t changes) score(loss float64) float64 {
	lost, gained := t.under(loss)
	variance := t.questions * (lost + gained - loss*loss)
	if variance <= 0 {
		return 0
	}
	return (t.gained - t.lost + t.questions*loss) / math.Sqrt(variance)
}

// chance is the probability that a candidate of that loss does as well as this or better: exact for all tables of so many questions, of
// those probabilities that are most likely under the loss.
func (t changes) chance(loss float64) float64 {
	n := max(1, int(math.Round(t.questions)))
	least := t.score(loss) - 1e-9
	lost, gained := t.under(loss)
	return likelihood(n, lost, gained, func(b, c int) bool {
		return changes{float64(n), float64(b), float64(c)}.score(loss) >= least
	})
}

// likelihood is the probability that a table of n questions is among some, where each answer is lost and gained with those
// probabilities. Whoever is among them must still be so with an answer less lost or one more gained.
func likelihood(n int, lost, gained float64, among func(lost, gained int) bool) float64 {
	reach := 9 * math.Sqrt(float64(n)*gained*(1-gained))
	first := max(0, int(float64(n)*gained-reach)-3)
	last := min(n, int(float64(n)*gained+reach)+6)
	each := min(1, lost/max(1-gained, 1e-300)) // of those that are not gained
	most, below, sum := -1, 0.0, 0.0           // below: the probability that at most so many are lost, of the rest
	for c := first; c <= last; c++ {
		rest := n - c
		if c > first {
			below += each * binomial(most, rest, each) // from one more of the rest
		}
		for most < rest && among(most+1, c) {
			most++
			below += binomial(most, rest, each)
		}
		sum += binomial(c, n, gained) * min(below, 1)
	}
	return min(sum, 1)
}

// binomial is the probability that k of n happen, where each happens with p.
func binomial(k, n int, p float64) float64 {
	switch {
	case k < 0 || k > n:
		return 0
	case p <= 0:
		return float64(1 - min(k, 1))
	case p >= 1:
		return float64(1 - min(n-k, 1))
	}
	choices := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return math.Exp(choices(n) - choices(k) - choices(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// Design is what is to be asked, before anything is.
type Design struct {
	Questions int
	Samples   int     // answers to each of a deployment; at least 1
	Margin    float64 // the loss that is not accepted, as a part of all answers
	// Discordance is the part of all pairs of answers of which one is right and the other wrong, where nothing is lost; of
	// several samples, of a pair of single ones.
	Discordance float64
}

// Guessed is the design with a guess of its discordance, for when nothing was measured: [GuessedDiscordance], and of answers that are drawn
// [GuessedDrawn].
func (d Design) Guessed() Design {
	if d.Discordance = GuessedDiscordance; d.Samples > 1 {
		d.Discordance = GuessedDrawn
	}
	return d
}

// Power is how often a deployment that loses nothing is said to hold. With one answer to each question it is exact; with several it is that
// of the normal distribution, where all changes are drawn and no question is lost or gained for good.
func (d Design) Power() float64 {
	if d.Samples <= 1 {
		return holding(d.Questions, d.Discordance, 0, d.Margin)
	}
	under, without := d.errors()
	if d.Questions < 1 || d.Margin <= 0 {
		return 0
	}
	if without == 0 {
		return holding(d.Questions, 0, 0, d.Margin)
	}
	return 0.5 * math.Erfc(-(d.Margin*math.Sqrt(float64(d.Questions))-certain*under)/without/math.Sqrt2)
}

// Needed is about how many questions give [EnoughPower].
func (d Design) Needed() int {
	if d.Margin <= 0 {
		return math.MaxInt
	}
	under, without := d.errors()
	root := (certain*under + enough*without) / d.Margin
	return int(math.Ceil(max(root*root, math.Log(unsure)/math.Log1p(-d.Margin)))) // with fewer, nothing lost at all would not do
}

// What the normal distribution stays below with the probabilities 0.95 and [EnoughPower].
const certain, enough = 1.6448536, 0.8416212

// errors are the standard errors of a difference of one question, if the loss were the margin and if there were none.
func (d Design) errors() (under, without float64) {
	k := max(1, d.Samples)
	p := Pairs{Questions: 1, Weight: 1}
	mean, square := 0.0, 0.0 // of the difference of a question's shares, of its size and of its square
	for c := range k + 1 {
		for b := range k + 1 - c {
			// of k pairs of answers c are gained, and of the others b are lost
			chance := binomial(c, k, d.Discordance/2) * binomial(b, k-c, d.Discordance/2/(1-d.Discordance/2))
			size := math.Abs(float64(c-b)) / float64(k)
			mean, square = mean+chance*size, square+chance*size*size
		}
	}
	p.Lost, p.Gained = mean/2, mean/2
	if mean > 0 {
		p.Weight = square / mean
	}
	t, w := p.table(d.Margin)
	lost, gained := t.under(d.Margin)
	return math.Sqrt(w * (lost + gained - d.Margin*d.Margin)), math.Sqrt(square)
}

// holding is how often a deployment is said to hold that loses that part of all answers, net. It is exact.
func holding(questions int, discordance, loss, margin float64) float64 {
	if questions < 1 || margin <= 0 {
		return 0
	}
	return likelihood(questions, (discordance+loss)/2, (discordance-loss)/2, func(lost, gained int) bool {
		return changes{float64(questions), float64(lost), float64(gained)}.chance(margin) <= unsure
	})
}
