package tune

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// TestStudent: quantiles as in the tables.
func TestStudent(t *testing.T) {
	for _, x := range []struct {
		probability float64
		freedom     int
		want        float64
	}{{0.975, 1, 12.706}, {0.975, 2, 4.303}, {0.95, 3, 2.353}, {0.99, 4, 3.747}, {0.975, 5, 2.571}, {0.995, 10, 3.169}, {0.975, 120, 1.980}, {0.5, 7, 0}} {
		if got := student(x.probability, x.freedom); math.Abs(got-x.want) > 0.0006 {
			t.Errorf("student(%v, %d) = %v, want %v", x.probability, x.freedom, got, x.want)
		}
	}
}

// TestRefused: what no tuning can answer is refused before anything is started.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*Question){
		"leave at least one candidate":           func(q *Question) { q.Keep = 0 },
		"at least 2 fresh starts":                func(q *Question) { q.Finals = 1 },
		"a confidence of 1 is not":               func(q *Question) { q.Confidence = 1 },
		"a floor of NaN is not":                  func(q *Question) { q.Floor = math.NaN() },
		"a budget cannot be below 0":             func(q *Question) { q.Budget.Money = math.NaN() },
		"a budget of 8 starts is too small":      func(q *Question) { q.Budget.Starts = 8 },
		"are 9 starts of at least 10m0s":         func(q *Question) { q.Budget.Time = time.Hour },
		"are 9 starts that cost at least 5 each": func(q *Question) { q.Budget.Money = 44 },
		`stage "flag" has no options`:            func(q *Question) { q.Stages[1].Options = nil },
		`option 2 of stage "flag" has no name`:   func(q *Question) { q.Stages[1].Options[1].ID = "x" },
		"the baseline cannot be started: clash":  func(q *Question) { q.Merge = func(Candidate) (string, string) { return "", "clash" } },
	} {
		q := small()
		change(&q)
		if _, err := New(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// small is a question of two stages.
func small() Question {
	return Question{Stages: []Stage{{"engine", []Option{{"b", 1}, {"c", 1}}}, {"flag", []Option{{"x", 1}, {"y", 2}}}},
		Keep: 2, Finals: 3, Least: Cost{Time: 10 * time.Minute, Money: 5}, Confidence: 0.95, Seed: 1, FinalSeed: 2}
}

// follow answers each start, and returns what was started: "A/A", "stage engine b", "final 1 b,x".
func follow(t *testing.T, q Question, say func(s Start) Result) (*Tuning, []string) {
	t.Helper()
	tuning, err := New(q)
	if err != nil {
		t.Fatal(err)
	}
	var path []string
	for range 1000 {
		s, ok := tuning.Next()
		if !ok {
			return tuning, path
		}
		at := string(s.Phase)
		if s.Stage != "" {
			at += " " + s.Stage
		}
		if s.Round > 0 {
			at += fmt.Sprint(" ", s.Round)
		}
		path = append(path, strings.TrimSpace(at+" "+strings.Join(s.Candidate.Options, ",")+s.Candidate.Proposed))
		if err := tuning.Ended(s, say(s)); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the tuning does not end")
	return nil, nil
}

// TestPath: the baseline twice, stages on what the ones before have left, finals in turn.
func TestPath(t *testing.T) {
	worth := map[string]float64{"b": 1.5, "c": 1.3, "x": 0.9, "y": 1.2}
	tuning, path := follow(t, small(), func(s Start) Result {
		value := 100.0
		for _, o := range s.Candidate.Options {
			value *= max(1, worth[o]) * max(math.Min(1, worth[o]), boolean(o == ""))
		}
		return Result{Outcome: Measured, Score: Score{Value: value * (1 + 0.001*float64(s.Number%3))}}
	})
	want := "A/A; A/A; stage engine b; stage engine c; stage flag b,x; stage flag b,y; stage flag c,x; stage flag c,y; " +
		"final 1 b,y; final 1 c,y; final 2 b,y; final 2 c,y; final 3 b,y; final 3 c,y"
	if got := strings.Join(path, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a := tuning.Answer()
	if a.Winner == nil || a.Winner.Candidate.key() != "b\x00y" || a.Tried != 7 || a.Of != 9 || a.Starts != 14 {
		t.Errorf("%+v", a)
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
