package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
	"hclbench/telemetry"
)

// Counted says what engines and routers have counted of a cell, beside what our own clock says of the same;
// of an engine in roles a line for each.
func Counted(r *results.Row) (facts []Fact) {
	if r.Telemetry == nil {
		return nil
	}
	roles := figure.Grouped(r.Telemetry.Counts, func(c telemetry.Count) string { return c.Of })
	for _, group := range figure.Grouped(figure.Counts, func(c figure.Counted) string { return c.Group }) {
		name := group[0].Group
		for _, counts := range roles {
			text := countedText(r, group, counts)
			if text == "" {
				continue
			}
			if role := counts[0].Of; role != "" {
				text = role + ": " + text
			}
			facts = append(facts, Fact{name, text})
		}
	}
	return facts
}

// countedText is a group of what a role has counted; empty: nothing of it.
func countedText(r *results.Row, group []figure.Counted, counts []telemetry.Count) string {
	var parts []string
	var least, most, all float64 // of how many the means are; the sum of the group
	for _, q := range group {
		for _, c := range counts {
			if c.Name == q.Name {
				all += c.Sum
			}
		}
	}
	for _, c := range counts {
		if group[0].Share && c.Name == telemetry.PromptTokens {
			all = max(all, c.Sum) // an engine may not tell all sources
		}
	}
	of := ""
	for _, q := range group {
		for _, c := range counts {
			if c.Name != q.Name {
				continue
			}
			v := c.Sum * q.Scale
			if q.Of != "" {
				if c.Times < 0.5 || v == 0 { // prefill decodes nothing
					continue
				}
				if v, of = v/c.Times, q.Of; least == 0 || c.Times < least {
					least = c.Times
				}
				most = max(most, c.Times)
			}
			text := amountOf(v, q)
			if ours, ok := figure.Named("mean_" + q.Name + "_ms"); ok && len(r.Deployment.Members) == 0 {
				if own, known := ours.Value(r); known {
					text += " (ours " + amountOf(own, q) + ")"
				}
			}
			text = fmt.Sprintf(q.Form, text)
			if q.Share {
				text += fmt.Sprintf(" (%s %%)", number.Text(100*c.Sum/all))
			}
			if c.Label != "" {
				text += " (" + c.Label + ")"
			}
			parts = append(parts, text)
		}
	}
	said := strings.Join(parts, ", ")
	if of == "" || said == "" {
		return said
	}
	n := number.Count(int(math.Round(most)), of)
	if low := int(math.Round(least)); low < int(math.Round(most)) {
		n = number.Whole(low) + " to " + n
	}
	return n + ": " + said
}

func amountOf(v float64, q figure.Counted) string {
	switch q.Unit {
	case "":
		return number.Whole(int(math.Round(v)))
	case "B":
		return plain.Bytes(int64(v))
	}
	return number.Amount(v, q.Unit)
}

// tellsSources reports whether an engine has told where the tokens of prompts came from.
func tellsSources(t *telemetry.Record) bool {
	return slices.ContainsFunc(t.Counts, func(c telemetry.Count) bool {
		return slices.ContainsFunc(figure.Counts, func(q figure.Counted) bool { return q.Share && q.Name == c.Name })
	})
}
