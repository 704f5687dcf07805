package results

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/accuracy"
	"hclbench/load"
)

// Scored is a cell that has asked questions, and what its answers prove beside those of its baseline.
type Scored struct {
	Row
	// Baseline is whose answers they are held against; nil: there are none, or the cell is the baseline itself.
	Baseline *Row                `json:"-"`
	Held     accuracy.Comparison `json:"held"` // [accuracy.Unchecked] without a baseline, and why, where the lab names one
}

// IsBaseline reports whether others are held against the cell, be it with answers or without.
func (s *Scored) IsBaseline() bool {
	return s.Accuracy.Baseline != "" && (s.Accuracy.Baseline == s.Deployment.Engine || s.Accuracy.Baseline == s.RunID)
}

// IsOf reports whether the cell's answers are those of a deployment, be it the one that has given them or one that was asked on a start of its own.
func (s *Scored) IsOf(deployment string) bool {
	return s.DeploymentID == deployment || s.Accuracy.Own != nil && s.Accuracy.Own.For == deployment
}

// IsBase is what the cell is in [Scored.Standing] where others are held against it.
const IsBase = "baseline"

// Standing is a verdict of package accuracy, or [IsBase]. A baseline without answers is unchecked.
func (s *Scored) Standing() string {
	if s.IsBaseline() && s.Held.Why == nil {
		return IsBase
	}
	return string(s.Held.Verdict)
}

// Scored returns the cells that q selects and that have asked questions, each held against its baseline: an engine that was asked
// at the same concurrency, by the answers of the same run or else the newest of the lab, or a run that is stored; or the very start that it names. now are the cells
// that the lab asks with, by their ids: others count for nothing, and what is held against what is as the lab has it now; nil: it is not known.
// Of one run, the newest of the lab is that of the runs which had begun by then: what came later changes nothing that it has shown.
func (s *Store) Scored(ctx context.Context, q Query, now map[string]Cell) (all []Scored, err error) {
	asked := func(q Query, stale bool) (rows []Row, err error) {
		q.Asked = true
		all, err := s.Rows(ctx, q)
		for _, r := range all {
			if is, known := now[r.ID]; known {
				r.Benchmark, r.Axes = is.Benchmark, is.Axes
				r.Accuracy.Baseline, r.Accuracy.Margin, r.Accuracy.Own = is.Accuracy.Baseline, is.Accuracy.Margin, is.Accuracy.Own
			} else if now != nil && !stale {
				continue
			}
			rows = append(rows, r)
		}
		return rows, err
	}
	rows, err := asked(q, false)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		x := Scored{Row: rows[i], Held: accuracy.Comparison{Verdict: accuracy.Unchecked}}
		a := x.Accuracy
		if a.Baseline != "" && x.Verdict().Verdict == load.Void {
			x.Held.Why = []string{"it has no answers: " + x.Verdict().Texts()[0]}
		}
		if a.Baseline == "" || x.IsBaseline() || x.Held.Why != nil {
			all = append(all, x)
			continue
		}
		among := []Query{{Run: x.RunID}, {Lab: x.Run.Lab, Rehearsed: x.Run.Command == "rehearse", Latest: q.Run == ""}}
		if x.Run.Bundled { // what this machine has answered is none of theirs
			among = among[:1]
		}
		switch {
		case a.Against != nil:
			among = []Query{{Run: a.Against[0].Run, Cell: a.Against[0].Cell}}
		case IsRunID(a.Baseline):
			among = []Query{{Run: a.Baseline}}
		}
		x.Held.Why = []string{fmt.Sprintf("there are no answers of %s to it", a.Baseline)}
		for _, of := range among {
			others, err := asked(of, IsRunID(a.Baseline) || a.Against != nil)
			if err != nil {
				return nil, err
			}
			if q.Run != "" && !IsRunID(a.Baseline) {
				others = slices.DeleteFunc(others, func(b Row) bool { return b.Run.Started.After(x.Run.Started) })
			}
			if b := baselineOf(&x.Row, others); b != nil {
				x.Baseline = b
				if x.Held, err = s.Pair(ctx, b, &x.Row); err != nil {
					return nil, err
				}
				break
			}
		}
		all = append(all, x)
	}
	return all, nil
}

// baselineOf is the row whose answers those of another are held against: of its block, of the engine that it names, at its
// concurrency. Of a run that has no such engine, of the only one that it has.
func baselineOf(x *Row, others []Row) (best *Row) {
	alone := len(enginesAsked(x, others)) == 1
	for i := range others {
		b := &others[i]
		if !sameQuestions(x, b) {
			continue
		}
		of := b.Deployment.Engine
		fits := of == x.Accuracy.Baseline || IsRunID(x.Accuracy.Baseline) && (of == x.Deployment.Engine || alone)
		if fits && (best == nil || best.Finished.Before(b.Finished)) {
			best = b
		}
	}
	return best
}

// enginesAsked are the engines of rows that were asked what x was.
func enginesAsked(x *Row, rows []Row) map[string]bool {
	all := map[string]bool{}
	for i := range rows {
		if sameQuestions(x, &rows[i]) {
			all[rows[i].Deployment.Engine] = true
		}
	}
	return all
}

// sameQuestions reports whether a row is of the same block as another, at the same point but for the engine. At which point others have asked,
// whose answers were imported, they do not say.
func sameQuestions(x, b *Row) bool {
	at := func(r *Row) string {
		return fmt.Sprint(slices.DeleteFunc(slices.Clone(r.Axes), func(a Axis) bool { return a.Name == "engine" }))
	}
	same := b.Repetition == x.Repetition && at(b) == at(x) || b.Run.Command == "import"
	return b.Accuracy != nil && b.Verdict().Verdict != load.Void && b.Benchmark == x.Benchmark && same
}

// Pair holds the answers of one cell against those of another, question by question, by the margin of the first. Cells that have asked
// something else are refused, with what differs.
func (s *Store) Pair(ctx context.Context, baseline, candidate *Row) (accuracy.Comparison, error) {
	out := accuracy.Comparison{Verdict: accuracy.Unchecked, Margin: candidate.Accuracy.Margin}
	if differs := baseline.Accuracy.differs(candidate.Accuracy, baseline.Run.Command == "import"); differs != nil {
		out.Why = []string{"its baseline was asked something else: " + strings.Join(differs, ", ")}
		return out, nil
	}
	answers, err := s.Answers(ctx, candidate.RunID, candidate.ID)
	if err != nil {
		return out, err
	}
	before, err := s.Answers(ctx, baseline.RunID, baseline.ID)
	if err != nil {
		return out, err
	}
	var others accuracy.Others
	if others.Baseline, err = s.otherStarts(ctx, baseline, candidate); err != nil {
		return out, err
	}
	if candidate.ID != baseline.ID { // else they are those
		if others.Candidate, err = s.otherStarts(ctx, candidate, baseline); err != nil {
			return out, err
		}
	}
	if candidate.Accuracy.Spec.Task == accuracy.NextToken {
		return accuracy.CompareForced(before, answers, others), nil
	}
	rule := accuracy.Rule{Margin: candidate.Accuracy.Margin, Samples: candidate.Accuracy.Spec.Decides(), Invariant: baseline.Deployment.BatchInvariant() && candidate.Deployment.BatchInvariant()}
	lacking := 0
	if baseline.Run.Command == "import" { // how many questions were to be asked, its file does not say
		asked := map[string]bool{}
		for _, a := range answers {
			asked[a.Question] = true
		}
		all := len(before)
		before = slices.DeleteFunc(before, func(a accuracy.Answer) bool { return !asked[a.Question] })
		lacking = all - len(before)
	}
	out = accuracy.Compare(before, answers, others, rule)
	out.Unasked = lacking
	return out, nil
}

// otherStarts are the answers that the same engine has given to the same questions on other starts, the newest first.
// The start that is held against it is none: what has changed there is the question, and not the noise. Nor is one that began after both.
func (s *Store) otherStarts(ctx context.Context, of, held *Row) (all [][]accuracy.Answer, err error) {
	if pinned := held.Accuracy.Against; len(pinned) > 1 {
		answers, err := s.Answers(ctx, pinned[1].Run, pinned[1].Cell)
		return [][]accuracy.Answer{answers}, err
	}
	if of.Run.Bundled {
		return nil, nil
	}
	rows, err := s.Rows(ctx, Query{Cell: of.ID, Asked: true, Rehearsed: of.Run.Command == "rehearse"})
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(rows) {
		same := r.ID == of.ID && r.RunID != of.RunID && (of.ID != held.ID || r.RunID != held.RunID)
		later := r.Run.Started.After(of.Run.Started) && r.Run.Started.After(held.Run.Started)
		if len(all) == accuracy.MostStarts || !same || later || r.Verdict().Verdict == load.Void || r.Accuracy.differs(of.Accuracy, false) != nil {
			continue
		}
		answers, err := s.Answers(ctx, r.RunID, r.ID)
		if err != nil {
			return nil, err
		}
		all = append(all, answers)
	}
	return all, nil
}

// differs is what two cells were asked otherwise: "protocol lm-eval 0.4.12 and vllm". Where both know what their files are, it does not
// matter how those are called. Of answers that were imported it is known only what the file says.
func (a *Accuracy) differs(b *Accuracy, imported bool) (all []string) {
	x, y := MembersOf(a.Spec), MembersOf(b.Spec)
	names := maps.Clone(x)
	maps.Copy(names, y)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch {
		case x[name] == y[name], imported && x[name] == "":
		case name == "endpoint" && a.Spec.Task == accuracy.NextToken: // what is told of a text is the same
		case name == "path" && x["sha256"] != "" && y["sha256"] != "", name == "shots_path" && x["shots_sha256"] != "" && y["shots_sha256"] != "":
		default:
			all = append(all, fmt.Sprintf("%s %s and %s", name, cmp.Or(x[name], "none"), cmp.Or(y[name], "none")))
		}
	}
	return all
}

// MembersOf are what a spec says, by its names in JSON.
func MembersOf(s accuracy.Spec) map[string]string {
	text, err := json.Marshal(s)
	members, all := map[string]any{}, map[string]string{}
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err != nil {
		panic(fmt.Sprintf("marshal a spec: %v. This is a bug in hcl.", err))
	}
	for name, value := range members {
		all[name] = fmt.Sprint(value)
	}
	return all
}
