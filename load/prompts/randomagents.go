package prompts

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"hclbench/load"
)

// randomAgents are sessions of agents made from a few numbers. The n-th of a seed is the same whoever sends it.
func randomAgents(_ context.Context, job load.Job, _ int) (*Set, error) {
	d, seed, words := job.Workload.Dataset, Seed(job), job.Workload.SendsText()
	turns := load.Lengths(d.Turns, d.RangeRatio, load.ConventionSGLang)
	_, each := d.TurnRequests()
	return &Set{talk: func(use uint64, n int) (int, func(grant) Session) {
		has := length(turns, Random(seed, use, uint64(n)))
		return has * each, func(g grant) Session {
			own := seed ^ scramble(use)
			s := newSketch(job.Workload, Random(own, forTurn, uint64(n)), Random(own, forThinking, uint64(n)))
			return s.session(has).begin(g, words)
		}
	}}, nil
}

// sketch is a session that is being made. Its blocks are what was said: questions, answers, and results of tools.
type sketch struct {
	plot
	load.Dataset
	question, result, output load.Span
	lengths, delays          *rand.Rand
}

func newSketch(w load.Workload, lengths, delays *rand.Rand) *sketch {
	d := w.Dataset
	span := func(n int) load.Span { return load.Lengths(n, d.RangeRatio, load.ConventionSGLang) }
	return &sketch{plot: plot{prefix: d.PrefixTokens}, Dataset: d, question: span(d.QuestionTokens), result: span(d.ResultTokens),
		output: span(w.OutputTokens), lengths: lengths, delays: delays}
}

// session has so many turns. In each the agent is asked, starts its sub-agents, calls its tools, and asks again with
// what the sub-agents have answered.
func (s *sketch) session(turns int) plot {
	root := s.begins()
	for turn := range turns {
		// Nobody knows when a request is sent: steps stand for the time, by which a session is cut off.
		step, after := float64(turn*(s.ToolCalls+3)), time.Duration(0)
		if turn > 0 {
			after = pause(s.delays, s.ThinkTime)
		}
		root.ask(step, after, s.newBlock(s.question))
		first := len(root.asks) - 1
		var joins []int
		var answers []int64
		for range s.SubAgents {
			sub := s.begins()
			sub.ask(step+1, 0, s.newBlock(s.question))
			sub.calls(step + 1)
			joins = append(joins, len(root.subs))
			root.subs = append(root.subs, sub.agent)
			answers = append(answers, sub.answer...)
		}
		root.asks[first].forks = joins
		root.calls(step)
		if s.SubAgents > 0 {
			root.ask(step+float64(s.ToolCalls+2), 0, answers...)
			root.asks[len(root.asks)-1].joins = joins
		}
	}
	s.root = root.agent
	s.rank()
	return s.plot
}

// newBlock is a block that is new, of a length drawn from a span.
func (s *sketch) newBlock(of load.Span) int64 {
	s.sizes = append(s.sizes, length(of, s.lengths))
	return int64(len(s.sizes) - 1)
}

// sketched is an agent that is being made.
type sketched struct {
	*sketch
	*agent
	blocks int     // of its prompt so far
	tokens int     // and how many these are, with the prefix
	answer []int64 // to its request before
}

func (s *sketch) begins() *sketched {
	return &sketched{sketch: s, agent: &agent{}, tokens: s.prefix}
}

// ask adds a request: all before, the answer to the request before, and what is new.
func (a *sketched) ask(at float64, after time.Duration, says ...int64) {
	fresh := slices.Concat(a.answer, says)
	for _, id := range fresh {
		a.tokens += a.sizes[id]
	}
	answer := a.newBlock(a.output)
	a.asks = append(a.asks, errand{at: at, after: after, input: a.tokens, output: a.sizes[answer], kept: a.blocks, fresh: fresh})
	a.blocks += len(fresh)
	a.answer = []int64{answer}
}

// calls has a request with the result of each tool, one after the other.
func (a *sketched) calls(from float64) {
	for i := range a.ToolCalls {
		a.ask(from+float64(i+1), pause(a.delays, a.ToolDelay), a.newBlock(a.result))
	}
}
