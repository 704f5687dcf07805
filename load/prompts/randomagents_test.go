package prompts

import (
	"bytes"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// drawnAgents are sessions of two turns, each with a tool and two sub-agents: 14 requests.
func drawnAgents(requests int) load.Workload {
	return load.Workload{Requests: requests, Concurrency: 2, OutputTokens: 4, Endpoint: load.Completions, Dataset: load.Dataset{Kind: load.RandomAgents,
		Turns: 2, ToolCalls: 1, SubAgents: 2, PrefixTokens: 5, QuestionTokens: 3, ResultTokens: 2}}
}

func readied(t *testing.T, j load.Job) *Set {
	t.Helper()
	if err := j.Workload.Check(); err != nil {
		t.Fatal(err)
	}
	set, err := Open(t.Context(), j, j.Workload.Requests)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestRandomAgents: a session is what its numbers say. Each prompt has all that its agent asked and was told before,
// the answers of sub-agents as they were told to these, and a beginning that all have.
func TestRandomAgents(t *testing.T) {
	w := drawnAgents(28)
	q := readied(t, job(w)).Queue(ForPrompt, w.Requests)
	first, _ := q.Next()
	steps, prompts := walk(t, first, always)
	var want []step
	for turn, first := range []int{8, 33} { // 8, 14, 26 and 33, 39, 51 of the agent
		sub := []step{{Turn: 7*turn + 2, Input: 8, Output: 4}, {Turn: 7*turn + 3, Input: 14, Output: 4}}
		want = append(want, step{Turn: 7*turn + 1, Input: first, Output: 4, Forks: 2})
		want = append(want, sub...)
		want = append(want, step{Turn: 7*turn + 4, Input: 8, Output: 4}, step{Turn: 7*turn + 5, Input: 14, Output: 4},
			step{Turn: 7*turn + 6, Input: first + 6, Output: 4},
			step{Turn: 7*turn + 7, Input: first + 18, Output: 4, Joins: 2, Final: turn == 1})
	}
	if diff := gocmp.Diff(want, steps); diff != "" {
		t.Fatalf("requests (-want +got):\n%s", diff)
	}
	if input, output := w.Longest(); input != 51 || output != 4 {
		t.Errorf("the longest prompt and answer are said to be %d and %d", input, output)
	}
	for _, pair := range [][2]int{{0, 5}, {5, 6}, {6, 7}, {7, 12}, {12, 13}, {1, 2}, {3, 4}, {8, 9}, {10, 11}} {
		if before, after := prompts[pair[0]], prompts[pair[1]]; !slices.Equal(before, after[:len(before)]) {
			t.Errorf("request %d does not go on from request %d", pair[1]+1, pair[0]+1)
		}
	}
	second, _ := q.Next()
	_, others := walk(t, second, always)
	for _, p := range append(slices.Clone(prompts), others...) {
		if !slices.Equal(p[:5], prompts[0][:5]) {
			t.Error("a prompt begins otherwise")
		}
	}
	own := map[int]bool{} // the questions of the agent and its sub-agents, by their first id
	for _, p := range [][]int{prompts[0], prompts[1], prompts[3], prompts[8], prompts[10], others[0], others[1], others[3]} {
		own[p[5]<<16|p[6]] = true
	}
	if len(own) != 8 {
		t.Errorf("8 agents and turns have %d questions", len(own))
	}
	if _, more := q.Next(); more {
		t.Error("a session beyond the requests")
	}
	warm, _ := readied(t, job(w)).Queue(ForWarmup, 14).Next()
	if _, warmed := walk(t, warm, always); slices.Equal(warmed[0][:5], prompts[0][:5]) {
		t.Error("the warm-up has the beginning of what is measured")
	}
}

// TestRandomAgentsKnobs: how many requests a session has, and where.
func TestRandomAgentsKnobs(t *testing.T) {
	for _, c := range []struct {
		tools, subs, requests, last int
	}{
		{0, 0, 3, 5 + 3*3 + 2*4}, {2, 0, 9, 5 + 3*(3+2*2) + 8*4}, {0, 1, 9, 5 + 3*3 + 5*4 + 3*4}, {3, 2, 39, 5 + 3*(3+3*2) + 14*4 + 6*4},
	} {
		w := drawnAgents(1000)
		d := &w.Dataset
		if d.Turns, d.ToolCalls, d.SubAgents = 3, c.tools, c.subs; c.tools == 0 {
			d.ResultTokens = 0
		}
		s, _ := readied(t, job(w)).Queue(ForPrompt, w.Requests).Next()
		steps, _ := walk(t, s, always)
		if last := steps[len(steps)-1]; len(steps) != c.requests || !last.Final || last.Input != c.last {
			t.Errorf("%d tools, %d sub-agents: %d requests, and the last is %+v; want %d and %d tokens", c.tools, c.subs, len(steps), last, c.requests, c.last)
		}
		if input, _ := w.Longest(); input != c.last {
			t.Errorf("%d tools, %d sub-agents: the longest prompt is said to be %d, not %d", c.tools, c.subs, input, c.last)
		}
	}
}

// TestRandomAgentsCut: a session that may not have all its requests has those of the first steps, and what a failed
// one leaves is for others.
func TestRandomAgentsCut(t *testing.T) {
	for n := 1; n <= 14; n++ {
		w := drawnAgents(n)
		s, _ := readied(t, job(w)).Queue(ForPrompt, n).Next()
		if steps, _ := walk(t, s, always); len(steps) != n || steps[n-1].Final != (n == 14) {
			t.Errorf("of %d requests %d are asked", n, len(steps))
		}
	}
	for failing := range 15 {
		q := readied(t, job(drawnAgents(14))).Queue(ForPrompt, 14).(*talks)
		s, _ := q.Next()
		if steps, _ := walk(t, s, func(r Request) bool { return r.Turn != failing }); q.granted != len(steps) {
			t.Errorf("request %d failed: %d are granted, and %d were sent", failing, q.granted, len(steps))
		}
	}
}

// TestRandomAgentsShared: two clients send together what one does, in lengths that are drawn, and with the waits that
// are drawn.
func TestRandomAgentsShared(t *testing.T) {
	w := drawnAgents(120)
	w.Dataset.Turns, w.Dataset.QuestionTokens, w.Dataset.RangeRatio = 3, 10, new(0.3)
	w.Dataset.ToolDelay, w.Dataset.ThinkTime = load.Duration(time.Second), load.Duration(time.Minute)
	w.Rate = load.Rate(1) // sessions in turn
	all := func(share load.Share) map[string]time.Duration {
		bodies := map[string]time.Duration{}
		j := job(w)
		j.Share = share
		q := readied(t, j).Queue(ForPrompt, w.Requests)
		for s, ok := q.Next(); ok; s, ok = q.Next() {
			walk(t, s, func(r Request) bool {
				bodies[string(bytes.Join(r.Body, nil))] = r.After
				return true
			})
		}
		return bodies
	}
	whole := all(load.Share{})
	first, second := all(load.Share{Client: 0, Clients: 2}), all(load.Share{Client: 1, Clients: 2})
	if len(first)+len(second) != 120 || min(len(first), len(second)) < 40 {
		t.Errorf("two clients send %d and %d requests", len(first), len(second))
	}
	for body, after := range second {
		first[body] = after
	}
	if diff := gocmp.Diff(whole, first); diff != "" {
		t.Errorf("two clients send (-one +two):\n%s", diff)
	}
	lasted, turns := map[time.Duration]bool{}, 0
	for _, after := range whole {
		lasted[after] = true
		if after > 10*time.Second { // no tool takes so long
			turns++
		}
	}
	if len(lasted) < 50 || turns < 4 {
		t.Errorf("%d different waits, and %d of them those of people", len(lasted), turns)
	}
}
