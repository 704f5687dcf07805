package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
)

// cellChange is a figure with its cell's place in [Difference.Cells].
type cellChange struct {
	FigureDiff
	cell int
}

type cellChanges []cellChange

// changesOf are those of a cell; none of one that is suspect.
func (d *Difference) changesOf(cell int) (all cellChanges) {
	if c := &d.Cells[cell]; !c.doubtful() {
		for _, f := range c.Figures {
			if f.Needs == 0 {
				all = append(all, cellChange{f, cell})
			}
		}
	}
	return all
}

// byChance is how many of so many cells would be worse or better were nothing changed at all.
func (all cellChanges) byChance() (n float64) {
	if len(all) == 1 {
		return 0
	}
	known := map[[2]int]float64{}
	for _, c := range all {
		of := [2]int{c.A.N, c.B.N}
		if _, ok := known[of]; !ok {
			known[of] = figure.FalseAlarms(c.A.N, c.B.N)
		}
		n += known[of]
	}
	return n
}

// size is how far the two are apart, up and down alike.
func (c cellChange) size() float64 {
	if c.A.Median <= 0 || c.B.Median <= 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(c.B.Median / c.A.Median))
}

// those are the changes for the worse, or for the better: what repetitions tell apart first, and then the
// largest.
func (all cellChanges) those(verdict string) cellChanges {
	found := slices.DeleteFunc(slices.Clone(all), func(c cellChange) bool { return c.Verdict != verdict })
	slices.SortStableFunc(found, func(a, b cellChange) int {
		if a.Significant != b.Significant {
			return map[bool]int{true: -1, false: 1}[a.Significant]
		}
		return cmp.Compare(b.size(), a.size())
	})
	return found
}

// Finding says what became of some cells: in a sentence of the first metric, and in short of the others.
func (d *Difference) Finding(of []int, names *table.Sheet) (first, rest string) {
	suspect, few := 0, 0
	var all cellChanges
	for _, i := range of {
		c := &d.Cells[i]
		if c.doubtful() && len(c.Figures) > 0 {
			suspect++
			continue
		}
		all = append(all, d.changesOf(i)...)
		if slices.ContainsFunc(c.Figures, func(f FigureDiff) bool { return min(f.A.N, f.B.N) < figure.Fewest }) {
			few++
		}
	}
	var said, level []string
	for _, same := range figure.Grouped(all, func(c cellChange) string { return c.Metric }) {
		if text := cellChanges(same).say(names); text != "" {
			said = append(said, text)
		} else {
			level = append(level, say.Lower(same[0].Of.Title))
		}
	}
	if len(level) > 0 {
		said = append(said, say.Sentence(say.Listed(level))+map[bool]string{true: " is", false: " are"}[len(level) == 1]+
			" level everywhere.")
	}
	if suspect > 0 {
		said = append(said, fmt.Sprintf("Suspect, and not counted: %s.", number.Count(suspect, "cell")))
	}
	if few > 0 {
		said = append(said, fmt.Sprintf("Too few repetitions to tell changes from chance, which takes %d of each: %s.",
			figure.Fewest, number.Count(few, "cell")))
	}
	if len(all) == 0 {
		return "Nothing here can be compared.", strings.Join(said, " ")
	}
	return "B against A: " + say.Lower(said[0]), strings.Join(said[1:], " ")
}

// say says of the changes of a metric how many are worse and better, and where that is most; empty: all
// of them are level.
func (all cellChanges) say(names *table.Sheet) string {
	n := map[string]int{}
	for _, c := range all {
		n[c.Verdict]++
	}
	if n["level"] == len(all) {
		return ""
	}
	var parts []string
	told := map[string]string{"unknown": "too few runs to tell"}
	for _, word := range []string{"worse", "better", "changed", "level", "unknown"} {
		if n[word] > 0 {
			parts = append(parts, fmt.Sprintf("%s in %s", cmp.Or(told[word], word), number.Whole(n[word])))
		}
	}
	text := fmt.Sprintf("%s: %s of %s", all[0].Of.Title, strings.Join(parts, ", "), number.Count(len(all), "cell"))
	if by := all.byChance(); by >= 0.1 {
		text += fmt.Sprintf(" (%.1f would be by chance)", by)
	}
	for _, word := range [][2]string{{"worse", "worst"}, {"better", "best"}, {"changed", "most"}, {"unknown", "most"}} {
		most := all.those(word[0])
		if len(most) == 0 {
			continue
		}
		text += fmt.Sprintf("; %s at %s", word[1], names.Place(most[0].cell))
		if len(all) == 1 {
			text = all[0].Of.Title + ": " + cmp.Or(told[word[0]], word[0])
		}
		values := say.Amounts(most[0].Of, most[0].A.Median, most[0].B.Median)
		return fmt.Sprintf("%s: %s, was %s (%s).", text, values[1], values[0], most[0].Change.String())
	}
	return text + "."
}
