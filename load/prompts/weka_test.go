package prompts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hclbench/load"
)

// session is a Weka trace of an agent that has a sub-agent search, waits for it, and leaves another behind.
const session = `{"id":"s","block_size":4,"hash_id_scope":"local","requests":[` +
	`{"t":0,"type":"n","in":10,"out":3,"hash_ids":[1,2],"api_time":1},` +
	`{"t":2,"type":"subagent","agent_id":"a","requests":[` +
	`{"t":2.5,"type":"s","in":8,"out":2,"hash_ids":[1,9],"api_time":1},` +
	`{"t":4,"type":"s","in":12,"out":2,"hash_ids":[1,9,10],"api_time":1,"think_time":0.25}]},` +
	`{"t":6,"type":"n","in":12,"out":4,"hash_ids":[1,2,3],"api_time":2,"think_time":5},` +
	`{"t":8.5,"type":"subagent","agent_id":"b","requests":[{"t":8.5,"type":"n","in":4,"out":9,"hash_ids":[1],"api_time":90}]},` +
	`{"t":9,"type":"n","in":0,"out":0,"hash_ids":[]},` +
	`{"t":38,"type":"n","in":9,"out":1,"hash_ids":[1,7],"api_time":1,"think_time":30}]}`

// step is what a request of a session asks.
type step struct {
	Turn          int
	After         time.Duration
	Input, Output int
	Joins, Forks  int
	Final         bool
}

// walk asks what a session asks, branches when they begin, and gives the prompts in that order.
func walk(t *testing.T, s Session, ok func(Request) bool) (steps []step, prompts [][]int) {
	t.Helper()
	for goes := true; goes; {
		r := s.Request()
		var body struct {
			Prompt []int `json:"prompt"`
		}
		if err := json.Unmarshal(bytes.Join(r.Body, nil), &body); err != nil || len(body.Prompt) != r.Input {
			t.Fatalf("%v: a prompt of %d tokens, said to be %d", err, len(body.Prompt), r.Input)
		}
		goes = s.Heard(ok(r), nil)
		steps = append(steps, step{r.Turn, r.After, r.Input, r.Output, len(r.Joins), len(s.Forks()), r.Final})
		prompts = append(prompts, body.Prompt)
		for _, b := range s.Forks() {
			more, others := walk(t, b, ok)
			steps, prompts = append(steps, more...), append(prompts, others...)
		}
	}
	return steps, prompts
}

func wekaSet(t *testing.T, text string, requests int, edit func(*load.Workload)) *Set {
	t.Helper()
	w := load.Workload{Requests: requests, Endpoint: load.Completions,
		Dataset: load.Dataset{Kind: load.Weka, Path: written(t, "weka.jsonl", text)}}
	if edit != nil {
		edit(&w)
	}
	set, err := Open(t.Context(), job(w), requests)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func always(Request) bool { return true }

// TestWeka: a session asks what it did when it was recorded, sub-agents beside it; a block is the same in all of the
// session and in no other, of the same file neither.
func TestWeka(t *testing.T) {
	const s = time.Second
	inner := strings.NewReplacer(`"t":2.5`, `"t":0.5`, `{"t":4,`, `{"t":2,`, `[{"t":8.5,"type":"n"`, `[{"t":0,"type":"n"`)
	for name, text := range map[string]string{"times of the session": session, "times of sub-agents": inner.Replace(session)} {
		q := wekaSet(t, text, 12, nil).Queue(ForPrompt, 12)
		first, _ := q.Next()
		steps, prompts := walk(t, first, always)
		want := []step{
			{Turn: 1, Input: 10, Output: 3, Forks: 1},
			{Turn: 2, After: 3 * s / 2, Input: 8, Output: 2},
			{Turn: 3, After: s / 4, Input: 12, Output: 2},
			{Turn: 4, After: s, Input: 12, Output: 4, Joins: 1, Forks: 1},
			{Turn: 5, After: s / 2, Input: 4, Output: 9},
			{Turn: 6, After: 30 * s, Input: 9, Output: 1, Final: true}, // the other is not over by then
		}
		if diff := gocmp.Diff(want, steps); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", name, diff)
		}
		for i, blocks := range [][2]int{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}} {
			if !slices.Equal(prompts[blocks[0]][:4], prompts[blocks[1]][:4]) {
				t.Errorf("%s: block 1 of prompt %d is another", name, i)
			}
		}
		if !slices.Equal(prompts[0][4:8], prompts[3][4:8]) || !slices.Equal(prompts[1][4:8], prompts[2][4:8]) || slices.Equal(prompts[0][4:8], prompts[1][4:8]) {
			t.Errorf("%s: blocks %v", name, prompts)
		}
		second, _ := q.Next()
		if _, again := walk(t, second, always); slices.Equal(again[0][:4], prompts[0][:4]) {
			t.Errorf("%s: another session has the blocks of the first", name)
		}
		if _, more := q.Next(); more {
			t.Errorf("%s: a session beyond the requests", name)
		}
	}
}

// TestWekaClock: whether sub-agents' times are their own is what most of them say. One that was wrong does not decide.
func TestWekaClock(t *testing.T) {
	text := func(times ...float64) string {
		all := `{"requests":[{"t":0,"in":8,"out":1,"api_time":1}`
		for i := 0; i < len(times); i += 2 {
			all += fmt.Sprintf(`,{"t":%v,"type":"subagent","requests":[{"t":%v,"in":8,"out":1,"api_time":1}]}`, times[i], times[i+1])
		}
		return all + `]}`
	}
	for name, c := range map[string]struct {
		times []float64 // of each sub-agent, and of its first request
		after []float64 // what each waits behind the agent's answer, s
	}{
		"of the session":              {[]float64{10, 10.5, 1000.5, 1000.5}, []float64{9.5, 999.5}},
		"a clock behind":              {[]float64{10, 10.5, 1000.5, 1000.4}, []float64{9.5, 999.4}},
		"only that":                   {[]float64{1000.5, 1000.4}, []float64{999.4}},
		"of sub-agents":               {[]float64{10, 0, 1000.5, 0.5}, []float64{9, 1000}},
		"of sub-agents, a late start": {[]float64{10, 50, 1000, 0, 2000, 0.5}, []float64{59, 999, 1999.5}},
	} {
		s, _ := wekaSet(t, text(c.times...), 9, nil).Queue(ForPrompt, 9).Next()
		steps, _ := walk(t, s, always)
		var after []float64
		for _, x := range steps[1:] {
			after = append(after, math.Round(x.After.Seconds()*1000)/1000)
		}
		if !slices.Equal(after, c.after) {
			t.Errorf("%s: sub-agents wait for %v, want %v", name, after, c.after)
		}
	}
}

// TestWekaCut: of a session that may not have all its requests, the first by time are sent; waits are as long as
// they may be; and what a failed request leaves is for others.
func TestWekaCut(t *testing.T) {
	set := wekaSet(t, session, 4, func(w *load.Workload) { w.Dataset.MaxDelay = load.Duration(time.Second) })
	s, _ := set.Queue(ForPrompt, 4).Next()
	steps, _ := walk(t, s, always)
	var turns []string
	for _, x := range steps {
		turns = append(turns, fmt.Sprintf("%d %v", x.Input, x.After))
	}
	if got := strings.Join(turns, ", "); got != "10 0s, 8 1s, 12 250ms, 12 1s" {
		t.Errorf("requests %s", got)
	}
	for failing := range 7 {
		q := set.Queue(ForPrompt, 6).(*talks)
		s, _ := q.Next()
		if steps, _ := walk(t, s, func(r Request) bool { return r.Turn != failing }); q.granted != len(steps) {
			t.Errorf("request %d failed: %d are granted, and %d were sent", failing, q.granted, len(steps))
		}
	}
}

// TestBadWeka: what no session is, with its place.
func TestBadWeka(t *testing.T) {
	one := func(request string) string { return `{"requests":[` + request + `]}` }
	for text, want := range map[string]string{
		`{"id":"x"}`: `line 1: no list "requests"`,
		`{"hash_id_scope":"global","requests":[]}`:             `"hash_id_scope" is "global"`,
		`{"block_size":0,"requests":[]}`:                       `"block_size" is 0`,
		one(`{"in":3,"out":1}`):                                `request 1: no number "t"`,
		one(`{"t":1e300,"in":3,"out":1}`):                      `"t" is 1e+300 s`,
		one(`{"t":1,"in":-3,"out":1}`):                         `"in" is -3`,
		one(`{"t":1,"in":3,"out":999999999}`):                  `"out" is 999999999`,
		one(`{"t":1,"in":3,"out":1,"api_time":-1}`):            `"api_time" is -1 s`,
		one(`{"t":1,"in":3,"out":1,"think_time":1e9}`):         `"think_time" is 1e+09 s`,
		one(`{"t":0,"in":0,"out":0}`):                          `has no entry that can be used`,
		one(`{"t":0,"type":"subagent","requests":[{"in":1}]}`): `request 1, sub-agent: request 1: no number "t"`,
		one(strings.Repeat(`{"t":0,"type":"subagent","requests":[`, 20) + strings.Repeat(`]}`, 20)): `sub-agents are nested`,
	} {
		w := load.Workload{Requests: 3, Endpoint: load.Completions, Dataset: load.Dataset{Kind: load.Weka, Path: written(t, "weka.jsonl", text)}}
		if err := CheckInputs(job(w)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
