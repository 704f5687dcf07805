package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/load"
)

// cutIn deals the records of a run out to clients, by chance.
func cutIn(k int, w load.Workload, records []load.Record, seed uint64) []Shared {
	rng := rand.New(rand.NewPCG(seed, uint64(k)))
	parts, home := make([][]load.Record, k), map[int]int{}
	for _, r := range records {
		i, known := home[r.Session]
		if !known || r.Session == 0 {
			i = rng.IntN(k)
			home[r.Session] = i // conversations stay whole
		}
		parts[i] = append(parts[i], r)
	}
	var all []Shared
	for i, own := range parts {
		part := load.Job{Workload: w, Share: load.Share{Client: i, Clients: k}}.Slice().Workload(w)
		s := Summarize(part, nil, time.Time{}, duration(own), own)
		all = append(all, Shared{Host: fmt.Sprint("c", i), Result: &load.Result{Summary: s, Records: own}})
	}
	return all
}

// talking makes a toy's requests turns of conversations of three, and chat the adapter of every third of these.
func (e named) talking() named {
	e.name += " talks"
	e.Dataset = load.Dataset{Kind: load.RandomConversation, Turns: 3, ThinkTime: load.Duration(time.Second)}
	e.Adapters = []load.Adapter{{Name: "chat", Share: 1. / 3}}
	return e
}

// dress is what [named.talking] makes of records.
func (e named) dress(records []load.Record) []load.Record {
	for i := range records {
		if r := &records[i]; e.Dataset.Talks() {
			r.Session, r.Turn, r.Final = 1+r.Seq/3, 1+r.Seq%3, r.Seq%3 == 2
			r.ToCall, r.Calls = r.Seq%5 == 0, r.Seq%2
			r.Adapter = []string{"chat", "", ""}[r.Session%3]
		}
	}
	return records
}

// TestMergedIsWhole: a run whose records are cut in any way and merged has, byte for byte, the
// figures of the whole.
func TestMergedIsWhole(t *testing.T) {
	figures := func(s load.Summary) string {
		s.Clients, s.Source = nil, nil
		for _, x := range s.Parts() {
			x.Judgement.Verdict, x.Generator = load.Verdict{}, load.Generator{}
		}
		b, err := json.MarshalIndent(s, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for i, e := range slices.Concat(toys, []named{overloaded, toys[1].talking(), toys[3].talking()}) {
		for seed := range uint64(2) {
			e.Requests, e.SLO = 300, []load.Objective{{Metric: "ttft", Max: load.Duration(40 * msec)}, {Metric: "itl", Percentile: 99, Max: load.Duration(20 * msec)}}
			if seed%2 == 1 {
				e.CutBeginning, e.CutEnd = load.Duration(2*time.Second), load.Duration(time.Second)
			}
			records, _ := e.run(seed)
			records = e.dress(records)
			want := figures(Summarize(e.Workload, nil, time.Time{}, duration(records), records))
			for k := 2; k <= 4; k++ {
				got := Merge(load.Job{Workload: e.Workload}, cutIn(k, e.Workload, records, seed+uint64(i)))
				if diff := cmp.Diff(want, figures(got.Summary)); diff != "" {
					t.Fatalf("%s in %d: whole (-), merged (+):\n%s", e.name, k, diff)
				}
				if diff := cmp.Diff(records, got.Records, cmpopts.IgnoreFields(load.Record{}, "Client")); diff != "" {
					t.Fatalf("%s in %d: records (-want +got):\n%s", e.name, k, diff)
				}
			}
		}
	}
}

// TestMergedGaps: of clients that could not keep all gaps, all are told together, as they are
// handed over.
func TestMergedGaps(t *testing.T) {
	e := toys[0].toy
	e.Requests = 400
	records, _ := e.run(3)
	want := Summarize(e.Workload, nil, time.Time{}, duration(records), records)
	parts := cutIn(3, e.Workload, slices.Clone(records), 1)
	for i, p := range parts[:2] {
		own := tally{limit: 400}
		for j := range p.Records {
			p.Records[j].Seq = j
			own.settle(&p.Records[j])
		}
		own.giveBack(p.Records)
		text, err := json.Marshal(own.dropped())
		if err != nil || len(text) > 64<<10 {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		if err := json.Unmarshal(text, &parts[i].Gaps); err != nil {
			t.Fatal(err)
		}
	}
	got := Merge(load.Job{Workload: e.Workload}, parts).Summary
	if got.ITLFrom != load.FromHistogram || got.ITL.Count != want.ITL.Count || got.ITL.Min != want.ITL.Min || got.ITL.Max != want.ITL.Max ||
		!near(got.ITL.Mean, want.ITL.Mean, 1e-9) || !near(got.ITL.Std, want.ITL.Std, 1e-6) || !near(got.ITL.Percentiles["99"], want.ITL.Percentiles["99"], 1e-3) {
		t.Errorf("ITL from %q: %+v, exactly %+v", got.ITLFrom, got.ITL, want.ITL)
	}
}

// TestSharedPace: clients that begin together send what one client would, at the same moments.
func TestSharedPace(t *testing.T) {
	for name, w := range map[string]load.Workload{
		"closed":    {Requests: 40, Concurrency: 7},
		"ramp":      {Requests: 60, Concurrency: 8, Ramp: load.Duration(4 * time.Second)},
		"timed":     {Concurrency: 5, Duration: load.Duration(9 * time.Second)},
		"open":      {Requests: 50, Rate: 5},
		"burst":     {Rate: 5, Burstiness: 0.3, Duration: load.Duration(8 * time.Second)},
		"at once":   {Requests: 20, Rate: load.Inf},
		"in stages": {Stages: []load.Stage{{Duration: load.Duration(5 * time.Second), Concurrency: 3}, {Duration: load.Duration(5 * time.Second), Concurrency: 6}}},
		"rates":     {Stages: []load.Stage{{Duration: load.Duration(5 * time.Second), Rate: 3}, {Duration: load.Duration(5 * time.Second), Rate: 6}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, alone := paced(t, t.Context(), w, time.Second)
				got := sharedPace(t, w, 3)
				if diff := cmp.Diff(moments(alone), moments(got.Records)); diff != "" {
					t.Errorf("one client (-), three (+):\n%s", diff)
				}
				numbers := func(records []load.Record) (all []int) {
					for _, r := range records {
						all = append(all, r.Seq)
					}
					slices.Sort(all)
					return all
				}
				if diff := cmp.Diff(numbers(alone), numbers(got.Records)); diff != "" && w.Duration == 0 && len(w.Stages) == 0 {
					t.Errorf("prompts of one client (-), of three (+):\n%s", diff)
				}
				for i, c := range got.Summary.Clients {
					if c.Requests == 0 || c.Late != 0 || c.Verdict.Verdict == load.Void {
						t.Errorf("client %d: %+v", i, c)
					}
				}
			})
		})
	}
}

// sharedPace has clients send a load that begin together, each after it is ready.
func sharedPace(t *testing.T, w load.Workload, clients int) *load.Result {
	t.Helper()
	w.Dataset = load.Dataset{Kind: load.Random, InputTokens: 1}
	w.OutputTokens, w.Endpoint = 2, load.Completions
	job := load.Job{Target: load.Target{BaseURL: "http://x"}, Workload: w, Seed: 5}
	var ready, all sync.WaitGroup
	ready.Add(clients)
	at := time.Now().Add(10 * time.Second)
	parts := make([]Shared, clients)
	for i := range clients {
		own := job
		own.Share = load.Share{Client: i, Clients: clients}
		g, err := newGenerator(own, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.client = served(time.Second)
		g.newSleeper = func(context.Context) sleeper { return &timer{} }
		g.others.Begin = func(context.Context) (time.Time, error) {
			ready.Done()
			ready.Wait()
			return at, nil
		}
		all.Go(func() {
			r, err := g.run(t.Context())
			if err != nil {
				t.Error(err)
			}
			parts[i] = Shared{Host: fmt.Sprint("c", i), Result: r}
		})
	}
	all.Wait()
	return Merge(job, parts)
}

// TestClientsAreJudged: what is wrong with a client is said with its name, and what makes its share
// no share makes all of it void.
func TestClientsAreJudged(t *testing.T) {
	e := toys[0].toy
	e.Requests = 900
	records, _ := e.run(5)
	merged := func(change func(parts []Shared)) load.Verdict {
		parts := cutIn(3, e.Workload, records, 9)
		for i := range parts { // by chance they do not fill their slots evenly
			parts[i].Summary.Verdict = load.Verdict{Verdict: load.Valid}
			parts[i].Records = slices.Clone(parts[i].Records)
		}
		change(parts)
		return Merge(load.Job{Workload: e.Workload}, parts).Summary.Verdict
	}
	says := func(of int, d doubt, parts []Shared, args ...any) {
		parts[of].Summary.Verdict = load.Verdict{Verdict: load.Suspect, Reasons: []load.Reason{d.reason(1, 2, args...)}}
	}
	for name, tt := range map[string]struct {
		change  func(parts []Shared)
		verdict string
		reasons []string
	}{
		"well":        {func([]Shared) {}, load.Valid, nil},
		"saturated":   {func(p []Shared) { says(1, busy, p, 93.0, 2.0) }, load.Void, []string{"c1: the generator used 93 % of the 2 cores"}},
		"behind":      {func(p []Shared) { says(2, fellBehind, p, 3.1, 5) }, load.Void, []string{"c2: 3.10 requests were in flight"}},
		"reads late":  {func(p []Shared) { says(0, readLate, p, 7.0, 5.0) }, load.Suspect, []string{"c0: what had come was read up to 7.0 ms late"}},
		"not its own": {func(p []Shared) { says(0, requestsFailed, p, 1, 2, 3.0, "") }, load.Valid, nil},
		"late": {func(p []Shared) {
			p[1].Records[0].Ready -= 3 * time.Second
		}, load.Void, []string{"c1 sent its first request 3000 ms after it was due (the limit is"}},
		"clock":     {func(p []Shared) { p[2].Clock = load.Clock{Ahead: 60_000, Within: 700, Gained: -800} }, load.Void, []string{"when c2 began and ended is known to 1500 ms only"}},
		"far clock": {func(p []Shared) { p[2].Clock = load.Clock{Ahead: 60_000, Within: 1, Gained: -2} }, load.Valid, nil},
		"uneven": {func(p []Shared) { p[0].Records = p[0].Records[:len(p[0].Records)/2] }, load.Suspect,
			[]string{"c0 had sent its share"}},
		"cut off": {func(p []Shared) {
			for i := range p[1].Records {
				if r := &p[1].Records[i]; i > 20 {
					r.Class, r.Error = load.ClassConnect, "no route to host"
				}
			}
			p[1].Summary = Summarize(e.Workload, nil, time.Time{}, duration(p[1].Records), p[1].Records)
		}, load.Void, []string{"c1 did not reach the engine with 308 of its 329 requests (308 × connect)"}},
		"stopped": {func(p []Shared) { says(1, stoodStill, p, 800.0, 9.0) }, load.Void, []string{"c1: the generator stood still for 800 ms of 9 s"}},
		"starved": {func(p []Shared) { says(1, starved, p, 800.0, 9.0) }, load.Suspect, []string{"c1: the generator waited 800 ms of 9 s"}},
		"slower": {func(p []Shared) {
			for i := range p[1].Records {
				p[1].Records[i].First += 30 * msec
			}
		}, load.Suspect, []string{"ms at c1 and"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := merged(tt.change)
			if v.Verdict != tt.verdict || len(v.Reasons) != len(tt.reasons) {
				t.Fatalf("%s", v)
			}
			for i, want := range tt.reasons {
				if !strings.Contains(v.Reasons[i].Text, want) {
					t.Errorf("%q lacks %q", v.Reasons[i].Text, want)
				}
			}
		})
	}
	lost := cutIn(2, e.Workload, records, 9)
	lost[1].Records, lost[1].Summary = nil, Summarize(e.Workload, nil, time.Time{}, 0, nil)
	if v := Merge(load.Job{Workload: e.Workload}, lost).Summary.Verdict; v.Verdict != load.Void || v.Reasons[0].Text != "c1 has sent nothing of its share" {
		t.Errorf("a client that is lost: %s", v)
	}
}

// TestClientsByPart: what a client has found in a part of the run is no reason in another.
func TestClientsByPart(t *testing.T) {
	e := toys[0].toy
	e.Requests, e.CutBeginning = 300, load.Duration(2*time.Second)
	records, _ := e.run(5)
	parts := cutIn(3, e.Workload, records, 9)
	parts[1].Summary.Untrimmed.Verdict = void(stoodStill, 800.0, 9.0)
	s := Merge(load.Job{Workload: e.Workload}, parts).Summary
	if s.Verdict.Verdict == load.Void || s.Untrimmed.Verdict.Verdict != load.Void {
		t.Errorf("a client that stood still while it warmed up: %s; all of it: %s", s.Verdict, s.Untrimmed.Verdict)
	}
}

// TestClientsOfRecorded: of conversations at recorded times a run sends as many as there are, and lacks none.
func TestClientsOfRecorded(t *testing.T) {
	e := toys[0].toy
	e.Requests = 300
	records, _ := e.run(5)
	w := e.Workload
	w.Dataset, w.Requests = load.Dataset{Kind: load.Conversation, Arrivals: load.Recorded}, 1000
	for _, failed := range []bool{false, true} {
		if failed {
			records[7].Class = load.ClassStatus
		}
		if v := Merge(load.Job{Workload: w}, cutIn(3, e.Workload, records, 9)).Summary.Verdict; slices.Contains(codes(v), notAllSent.code) {
			t.Errorf("one failed: %v: %s", failed, v)
		}
	}
}

// TestClientsUnder: another SLO judges what each client has sent, too.
func TestClientsUnder(t *testing.T) {
	e := toys[0].toy
	e.Requests = 300
	records, _ := e.run(5)
	r := Merge(load.Job{Workload: e.Workload}, cutIn(3, e.Workload, records, 9))
	s, sum := r.Summary.Under([]load.Objective{{Metric: "e2el", Max: load.Duration(time.Hour)}}, r.Records), 0
	for i, c := range s.Clients {
		if c.Goodput == nil || len(c.Objectives) != 1 || c.Objectives[0].Count == 0 {
			t.Fatalf("client %d: goodput %v, %+v", i, c.Goodput, c.Objectives)
		}
		sum += c.Objectives[0].Count
	}
	if sum != 300 || r.Summary.Clients[0].Goodput != nil {
		t.Errorf("%d requests of clients are judged, and the summary's own clients are %v", sum, r.Summary.Clients[0].Goodput)
	}
}

// TestClientsAlike: clients of one engine are hardly ever accused, whatever it does meanwhile.
func TestClientsAlike(t *testing.T) {
	accused, runs := 0, 0
	for _, e := range toys {
		e.Requests = 900
		for seed := range uint64(10) {
			records, _ := e.run(seed)
			runs++
			for _, r := range Merge(load.Job{Workload: e.Workload}, cutIn(3, e.Workload, records, seed)).Summary.Verdict.Reasons {
				if r.Code == unlikeStart.code {
					accused++
				}
			}
		}
	}
	if accused > int(math.Ceil(0.02*float64(runs))) {
		t.Errorf("in %d of %d runs", accused, runs)
	}
}
