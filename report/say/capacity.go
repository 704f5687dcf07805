package say

import (
	"fmt"
	"strings"
	"time"

	"hclbench/capacity"
	"hclbench/report/number"
)

// LoadUnit is what the loads of a search are numbers of: "concurrent", "requests/s".
func LoadUnit(of string) string {
	if of == capacity.Rate {
		return "requests/s"
	}
	return "concurrent"
}

// Bounds are the two bounds of a capacity in words, with how sure they are: "holds 83, breaks by 113 concurrent (95 %)".
func Bounds(o *capacity.Outcome) string {
	sure := fmt.Sprintf(" %s (%s %%)", LoadUnit(o.Of), number.Exact(100*o.Confidence))
	switch {
	case o.Flaw != "":
		return "no answer: " + o.Flaw
	case o.Holds == nil && o.Breaks == nil:
		return "nothing is certain"
	case o.Holds == nil && *o.Breaks == o.Least:
		return "no load meets the SLO: breaks by " + number.Exact(*o.Breaks) + sure + ", the least of the range"
	case o.Holds == nil:
		return "breaks by " + number.Exact(*o.Breaks) + sure + "; no load is certain to hold"
	case o.Breaks == nil && o.AtLeast:
		return "holds at least " + number.Exact(*o.Holds) + sure + ", the most of the range"
	case o.Breaks == nil:
		return "holds " + number.Exact(*o.Holds) + sure + "; no load is certain to break"
	}
	return fmt.Sprintf("holds %s, breaks by %s%s", number.Exact(*o.Holds), number.Exact(*o.Breaks), sure)
}

// Capacity is the answer of a search in a line: its bounds, the loop that they are for, what binds, and what it took.
func Capacity(o *capacity.Outcome) string {
	parts := []string{Bounds(o), "closed loop"}
	if o.Of == capacity.Rate {
		parts[1] = "open loop"
	}
	if o.BoundBy != "" {
		parts = append(parts, "bound by "+o.BoundBy)
	}
	if at := o.At(o.Holds); at != nil && at.Again != capacity.Pass {
		parts = append(parts, "not tried again at the end")
	}
	took := time.Duration(o.Took * float64(time.Second)).Round(time.Second)
	return strings.Join(append(parts, fmt.Sprintf("%s, %s, %s", number.Count(len(o.Loads), "load"), took,
		number.Count(o.Requests, "request"))), "; ")
}

// LoadVerdict is what is certain of a load in words: "PASS, again PASS", "UNRESOLVED, the generator was busy".
func LoadVerdict(l *capacity.Load) string {
	text := string(l.Verdict)
	if l.Again != "" {
		text += ", again " + string(l.Again)
	}
	if l.Doubt != "" {
		text += ", " + l.Doubt
	}
	return text
}
