package apply

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"hclbench/accuracy"
	"hclbench/agent"
	"hclbench/apply/place"
	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/plain"
	"hclbench/plan"
)

// Questions reads the questions of an eval, whose files lie where local says. A file that has another checksum than the plan knows is an error:
// it was changed meanwhile, or was never what the lab says.
func Questions(e *plan.Eval, local func(string) string) (_ *accuracy.Set, err error) {
	open := func(path, sum string) (io.Reader, func(), error) {
		if path == "" {
			return nil, func() {}, nil
		}
		f, err := os.Open(local(path))
		if err != nil {
			return nil, nil, err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		if got := fmt.Sprintf("%x", h.Sum(nil)); err == nil && sum != "" && got != sum {
			err = fmt.Errorf("%s is another file than is planned: its sha256 is %s, and not %s", plain.Line(path), got, sum)
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err != nil {
			f.Close()
			return nil, nil, err
		}
		return f, func() { f.Close() }, nil
	}
	questions, done, err := open(e.Spec.Path, e.Spec.SHA256)
	if err != nil {
		return nil, err
	}
	defer done()
	shots, done, err := open(e.Spec.ShotsPath, e.Spec.ShotsSHA256)
	if err != nil {
		return nil, err
	}
	defer done()
	return accuracy.New(e.Spec, questions, shots)
}

// asking is the questions of a cell, brought to those who send them.
type asking struct {
	set *accuracy.Set
	at  map[*place.Session]string // the file of what is asked
}

// giveQuestions brings the questions of an eval to those who send them, as what is asked; nil where the cell asks nothing.
func (m *measurement) giveQuestions(ctx context.Context, from []*place.Session) (*asking, error) {
	e := m.cell.Eval()
	if e == nil {
		return nil, nil
	}
	set, err := Questions(e, m.t.run.plan.Local)
	if err != nil {
		return nil, err
	}
	if most := set.Spec.MaxTokens; m.t.context > 0 && most >= m.t.context {
		return nil, fmt.Errorf("an answer may have %d tokens, and the engine serves %d with its question (max_model_len): raise it, or ask for less", most, m.t.context)
	}
	if takes := set.Takes(); m.t.context > 0 && takes > m.t.context {
		m.tell.say(Warning, "the longest question takes %d tokens with its answer, or more, and the engine serves %d (max_model_len): it refuses it, or cuts the answer",
			takes, m.t.context)
	}
	file, err := questionsFile(set)
	if file != "" {
		defer os.Remove(file)
	}
	if err != nil {
		return nil, fmt.Errorf("write the questions: %w", err)
	}
	a := &asking{set, map[*place.Session]string{}}
	for _, s := range from {
		if a.at[s], err = agent.Place(ctx, s.Conn, file); err != nil {
			return nil, m.t.blame(s, err)
		}
	}
	w := &m.out.Job.Workload
	w.Requests, w.Endpoint = set.Len(), set.Ask(0).Endpoint
	m.out.Accuracy.Spec, m.out.Accuracy.Notes = set.Spec, set.Notes
	return a, nil
}

// questionsFile writes all that is asked into a file, one request a line.
func questionsFile(set *accuracy.Set) (name string, err error) {
	f, err := os.CreateTemp("", "hcl-questions-*.jsonl")
	if err != nil {
		return "", err
	}
	out := bufio.NewWriter(f)
	enc := json.NewEncoder(out)
	for i := range set.Len() {
		if err = enc.Encode(prompts.Question(set.Ask(i))); err != nil {
			break
		}
	}
	return f.Name(), errors.Join(err, out.Flush(), f.Close())
}

// from is the job as a sender gets it: what is asked is a file of its own.
func (a *asking) from(job load.Job, s *place.Session) load.Job {
	d := &job.Workload.Dataset
	*d = load.Dataset{Kind: d.Kind, Questions: true, Path: d.Path}
	job.Files = map[string]string{d.Path: a.at[s]}
	return job
}

// mark marks what was answered, and makes of it what is kept. Nothing of the answers stays in the records.
func (a *asking) mark(m *measurement, records []load.Record) (doubts []load.Reason) {
	answers := make([]accuracy.Answer, a.set.Len())
	asked := make([]bool, len(answers))
	short := 0
	for i := range records {
		r := &records[i]
		if r.Seq >= len(answers) {
			continue
		}
		reply := accuracy.Reply{Finish: r.Finish, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, Error: r.Error,
			Refused: r.Status == 400 || r.Status == 422}
		if reply.Error == "" && !r.OK() {
			reply.Error = r.Class
		}
		if said := r.Said; said != nil {
			reply.Text, reply.Reasoning, reply.Forced = said.Text, said.Reasoning, said.Forced
			for _, c := range said.Calls {
				reply.Calls = append(reply.Calls, accuracy.Call(c))
			}
			if said.Cut && reply.Error == "" {
				reply.Error = endless
			}
		}
		m.t.run.keep.hide(&reply) // before it is cut: a half of a secret is not found
		x := a.set.Mark(r.Seq, reply)
		x.At = m.cell.Load().Workload.Concurrency
		if x.Short {
			short++
		}
		answers[r.Seq], asked[r.Seq], r.Said = x, true, nil
	}
	if i := slices.Index(asked, false); i >= 0 {
		answers = slices.DeleteFunc(answers, func(x accuracy.Answer) bool { return x.Mark == "" })
		doubts = load.Because(load.CodeFailed, fmt.Sprintf("%d of %d questions were not asked", len(asked)-len(answers), len(asked)))
	}
	ofAnswers(&m.out.Summary.Verdict)
	m.out.Accuracy.Answers, m.out.Accuracy.Score = answers, accuracy.Sum(answers)
	score := &m.out.Accuracy.Score
	score.Texts = a.set.Spec.Task == accuracy.NextToken
	if cut := float64(score.Cut) / float64(max(score.Asked, 1)); cut > mostCut {
		doubts = append(doubts, load.Because(load.CodeCutShort, fmt.Sprintf("%d of %d answers (%.1f %%) were cut at their length, %d tokens, before they were right: "+
			"raise max_tokens", score.Cut, score.Asked, 100*cut, a.set.Spec.MaxTokens))...)
	}
	if a.set.Spec.Task == accuracy.PromptCounts {
		doubts = append(doubts, load.Because(load.CodePrompts, otherPrompts(answers)...)...)
	}
	if short > 0 {
		m.tell.say(Warning, "%d of %d answers are too long to be kept whole; they were marked by all that came", short, len(answers))
	}
	return doubts
}

// otherPrompts tells of prompts of which the server counts other tokens than the model's own files make.
func otherPrompts(answers []accuracy.Answer) (doubts []string) {
	other := slices.DeleteFunc(slices.Clone(answers), func(a accuracy.Answer) bool { return a.Mark == accuracy.Right || a.Mark == accuracy.Failed })
	if len(other) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d prompts are not counted as the model's chat template and tokenizer have them (%q: %s): it has others, or somebody adds to prompts",
		len(other), len(answers), other[0].Question, other[0].Extracted)}
}

// ofAnswers leaves of a verdict what says something of the answers: not when requests went and tokens came.
func ofAnswers(v *load.Verdict) {
	pace := []string{"starved", "client-cpu", "send-lag", "fell-behind", "littles-law", "not-full", "too-few", "drifting"}
	v.Reasons = slices.DeleteFunc(v.Reasons, func(r load.Reason) bool { return r.Metrics != nil || slices.Contains(pace, r.Code) })
	if len(v.Reasons) == 0 {
		v.Verdict = load.Valid
	}
}

// endless is why an answer has failed that nobody can mark, as its end is not known.
const endless = "more came than is kept of an answer (4 MiB, and 256 calls of tools) or of all answers (512 MiB)"

// mostCut is the share of answers that may be cut at their length before their score is in doubt.
const mostCut = 0.01
