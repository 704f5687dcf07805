package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/number"
	"hclbench/results"
)

// origin says which labs and runs the cells come from.
func origin(rows []results.Row) []string {
	var parts []string
	if labs := wordsOf(rows, "lab"); len(labs) > 0 {
		parts = append(parts, "lab "+strings.Join(labs, ", "))
	}
	switch runs := wordsOf(rows, "run"); len(runs) {
	case 0:
	case 1:
		run := "run " + runs[0]
		if len(those(rows, func(r *results.Row) bool { return r.Run.Bundled })) > 0 {
			run += " from a bundle" // nobody here has measured it
		}
		parts = append(parts, run)
	default:
		parts = append(parts, fmt.Sprintf("%d runs from %s to %s", len(runs), slices.Min(runs), slices.Max(runs)))
	}
	return parts
}

// mark says of a cell that is not a measurement of ours what it is.
func mark(r *results.Row) string {
	kind := kindOfRun(r)
	switch kind {
	case "":
		return ""
	case "rehearsal":
		if s := r.Job.Workload.Speed; s != 0 {
			kind += " at ×" + number.Short(s)
		}
		return kind + ": simulated engines, not a measurement"
	}
	return kind + ": measured by others"
}

// kindOfRun is "rehearsal", "imported", "published", or empty of a measurement of ours.
func kindOfRun(r *results.Row) string {
	return map[string]string{"rehearse": "rehearsal", "import": "imported", "published": "published"}[r.Run.Command]
}

// isFast reports whether a row was rehearsed at another speed than its own: its figures say nothing of an engine.
func isFast(r *results.Row) bool { return r.Job.Workload.Speed != 0 && kindOfRun(r) == "rehearsal" }

// fastText says what rows are that were rehearsed so; empty: none was.
func fastText(rows []results.Row) string {
	fast := those(rows, isFast)
	if len(fast) == 0 {
		return ""
	}
	at, _, _ := strings.Cut(sentence(mark(fast[0])), ":")
	text := at + ": " + number.Count(len(fast), "cell")
	for _, verdict := range []string{load.Suspect, load.Void} {
		if n := len(those(rows, func(r *results.Row) bool { return isFast(r) && r.Verdict().Verdict == verdict })); n > 0 {
			text += fmt.Sprintf(", %s %s", number.Whole(n), verdict)
		}
	}
	return text + ". Such figures say nothing about an engine."
}

// forcedMark is the mark of a cell whose engine was told to accept drafted tokens whatever they are.
const forcedMark = "forced acceptance"

// forced is that mark with how many tokens a step brings so: "forced acceptance 3.12"; empty: the
// engine was not told so.
func forced(r *results.Row) string {
	tokens, by := r.Deployment.ForcedAcceptance()
	switch {
	case by == "":
		return ""
	case tokens == 0:
		return forcedMark
	}
	return forcedMark + " " + number.Text(tokens)
}

// forcedText explains the mark, where any of the rows has it.
func forcedText(rows []results.Row) (sentences []string) {
	var by []string
	for i := range rows {
		if _, setting := rows[i].Deployment.ForcedAcceptance(); setting != "" {
			by = once(by, setting)
		}
	}
	if by == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s: the engine was told to accept drafted tokens whatever they are (%s), "+
		"so many tokens a step. Such figures are of that setting, and not of what the model would accept.",
		sentence(forcedMark), listed(by))}
}

// noted is a verdict with what else is said of the row, in brackets.
func noted(verdict string, words ...string) string {
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" || word == verdict })
	if len(words) == 0 {
		return verdict
	}
	return verdict + " (" + strings.Join(words, ", ") + ")"
}

// mixed reports whether measurements stand beside something else.
func mixed(rows []results.Row) bool {
	return slices.ContainsFunc(rows, func(r results.Row) bool { return mark(&r) != mark(&rows[0]) })
}

// commonMark is the [mark] of all rows; empty where they are of several kinds.
func commonMark(rows []results.Row) string {
	if mixed(rows) {
		return ""
	}
	return mark(&rows[0])
}

// axes are the names of all axes, each benchmark's in its own order.
func axes(rows []results.Row) []string {
	return axisNames(len(rows), func(i int) results.Axes { return rows[i].Axes })
}

// axisNames are the names of the axes of n things, each once.
func axisNames(n int, of func(i int) results.Axes) (names []string) {
	for i := range n {
		for _, a := range of(i) {
			names = once(names, a.Name)
		}
	}
	return names
}

func axisValues(name string, n int, of func(i int) results.Axes) (values []string) {
	for i := range n {
		if v, ok := of(i).Value(name); ok {
			values = once(values, axisText(v))
		}
	}
	return values
}

// axisOf is the value of an axis as text; empty where there is no such axis.
func axisOf(axes results.Axes, name string) string {
	if v, ok := axes.Value(name); ok {
		return axisText(v)
	}
	return ""
}

// axisText is the value as the lab's text has it: 6400, not 6,400.
func axisText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return plain.Line(fmt.Sprint(v))
}

// axisWords are those of the axes that are to be kept, in words: "output tokens 800".
func axisWords(axes results.Axes, keep func(name string) bool) (words []string) {
	for _, a := range axes {
		if keep(a.Name) {
			words = append(words, strings.ReplaceAll(a.Name, "_", " ")+" "+axisText(a.Value))
		}
	}
	return words
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}
