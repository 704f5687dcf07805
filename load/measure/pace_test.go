package measure

import (
	stdcmp "cmp"
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/load/wire"
)

func TestArrivals(t *testing.T) {
	const n, rate = 20000, load.Rate(50)
	for _, c := range []struct {
		shape load.Rate
		cv    float64 // coefficient of variation of the gaps: 1/√shape
	}{
		{0, 1}, {1, 1}, {0.25, 2}, {4, 0.5}, {load.Inf, 0},
	} {
		at := arrivals(n, legs(load.Workload{Rate: rate}), c.shape, 3)
		if got, want := at[n-1], seconds(n/float64(rate)); got != want {
			t.Errorf("shape %v: the last arrival is at %v, want exactly %v", c.shape, got, want)
		}
		var squares float64
		before := time.Duration(0)
		for i, a := range at {
			if a < before {
				t.Fatalf("shape %v: arrival %d at %v, after one at %v", c.shape, i, a, before)
			}
			d := (a - before).Seconds() - 1/float64(rate)
			squares += d * d
			before = a
		}
		if cv := math.Sqrt(squares/n) * float64(rate); math.Abs(cv-c.cv) > 0.05*max(c.cv, 0.01) {
			t.Errorf("shape %v: gaps vary by %.3f of their mean, want %.3f", c.shape, cv, c.cv)
		}
	}
	one := legs(load.Workload{Rate: 1})
	if !cmp.Equal(arrivals(9, one, 1, 3), arrivals(9, one, 1, 3)) || cmp.Equal(arrivals(9, one, 1, 3), arrivals(9, one, 1, 4)) {
		t.Error("a schedule is not a function of its seed")
	}
}

// paced runs a workload in a bubble of synthetic time, with a server that takes
// service for every request.
func paced(t *testing.T, ctx context.Context, w load.Workload, service time.Duration) (load.Summary, []load.Record) {
	t.Helper()
	if w.Dataset.Kind == "" {
		w.Dataset = load.Dataset{Kind: load.Random, InputTokens: 1}
	}
	w.OutputTokens, w.Endpoint = 2, stdcmp.Or(w.Endpoint, load.Completions)
	g, err := newGenerator(load.Job{Target: load.Target{BaseURL: "http://x"}, Workload: w, Seed: 5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.client = served(service)
	g.newSleeper = func(context.Context) sleeper { return &timer{} } // of synthetic time
	r, err := g.run(ctx)
	if !errors.Is(err, ctx.Err()) {
		t.Fatalf("error %v, want %v", err, ctx.Err())
	}
	return r.Summary, r.Records
}

// stopped is a sleeper of a client that is stopped for the first 250 ms of every second.
type stopped struct{ *timer }

func (s stopped) until(ctx context.Context, t time.Time) bool {
	end := t.Truncate(time.Second).Add(250 * time.Millisecond)
	if t.Before(end) {
		t = end
	}
	return s.timer.until(ctx, t)
}

// TestStoppedClientIsLate: how late an open loop sends counts from its schedule, also where workers
// that had nothing to do take up what is late, and where a cap holds nothing up.
func TestStoppedClientIsLate(t *testing.T) {
	for _, limit := range []int{0, 500} {
		synctest.Test(t, func(t *testing.T) {
			w := load.Workload{Rate: 20, Requests: 1200, Concurrency: limit, OutputTokens: 2, Endpoint: load.Completions,
				Dataset: load.Dataset{Kind: load.Random, InputTokens: 1}}
			g, err := newGenerator(load.Job{Target: load.Target{BaseURL: "http://x"}, Workload: w, Seed: 5}, nil)
			if err != nil {
				t.Fatal(err)
			}
			g.client = served(3 * time.Second)
			g.newSleeper = func(context.Context) sleeper { return stopped{&timer{}} }
			r, err := g.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lag, queue := r.Summary.SendLag, r.Summary.Queue
			if lag.Percentiles["99"] < 200 || math.Abs(lag.Mean-queue.Mean) > 0.1*queue.Mean {
				t.Errorf("limit %d: requests left %.3g ms late (p99 %.3g), and waited for %.3g ms (p99 %.3g)", limit,
					lag.Mean, lag.Percentiles["99"], queue.Mean, queue.Percentiles["99"])
			}
			if !slices.ContainsFunc(r.Summary.Verdict.Reasons, func(r load.Reason) bool { return r.Code == sentLate.code }) {
				t.Errorf("limit %d: %v", limit, r.Summary.Verdict)
			}
		})
	}
}

// slowlyMade are sessions whose requests take 5 ms to make.
type slowlyMade struct{ prompts.Queue }

func (q slowlyMade) Next() (prompts.Session, bool) {
	s, ok := q.Queue.Next()
	return slowToMake{s}, ok
}

type slowToMake struct{ prompts.Session }

func (s slowToMake) Request() prompts.Request {
	time.Sleep(5 * time.Millisecond)
	return s.Session.Request()
}

// TestPromptsAreMadeAhead: what a prompt takes to make is in no slot's time, also where there is one slot, and what
// nobody has sent has not begun.
func TestPromptsAreMadeAhead(t *testing.T) {
	for _, limit := range []load.Duration{0, load.Duration(500 * time.Millisecond)} {
		synctest.Test(t, func(t *testing.T) {
			w := load.Workload{Requests: 20, Concurrency: 1, OutputTokens: 2, Endpoint: load.Completions,
				Dataset: load.Dataset{Kind: load.Random, InputTokens: 1}}
			if limit > 0 {
				w.Requests, w.Duration = 0, limit
			}
			g, err := newGenerator(load.Job{Target: load.Target{BaseURL: "http://x"}, Workload: w, Seed: 5}, nil)
			if err != nil {
				t.Fatal(err)
			}
			g.client = served(60 * time.Millisecond)
			total, err := g.prepare(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := g.newPhase(prompts.ForPrompt, total)
			p.queue = slowlyMade{p.queue}
			p.follow(t.Context(), t.Context(), paceOf(w, 5, nil))
			records := p.collect()
			for i := 1; i < len(records); i++ {
				if gap := records[i].Sent - records[i-1].End; gap != 0 {
					t.Errorf("request %d was sent %v after the answer before it", i, gap)
				}
			}
			if n := p.begun(); n != len(records) || n < 9 {
				t.Errorf("%d have begun, and %d were sent", n, len(records))
			}
			p.pulse.end()
		})
	}
}

// served is a client whose requests all take so long.
type served time.Duration

func (served) Open(context.Context, int) {}

func (served) ReadLag() *load.Histogram { return nil }

func (served) Close() {}

func (s served) Send(ctx context.Context, _ net.Buffers, x wire.Exchange) {
	x.Record.Sent = x.Since()
	select {
	case <-time.After(time.Duration(s)):
		now := x.Since()
		x.Record.First, x.Record.Last, x.Record.End = now, now, now
		x.Record.InputTokens, x.Record.OutputTokens, x.Record.Gaps = 1, 2, []time.Duration{0}
	case <-ctx.Done():
		x.Record.Fail(x.Since(), load.ClassCancelled, "")
	}
}

type moment struct{ Scheduled, Ready, Sent time.Duration }

func moments(records []load.Record) []moment {
	var m []moment
	for _, r := range records {
		m = append(m, moment{r.Scheduled, r.Ready, r.Sent})
	}
	return m
}

func TestPace(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name    string
		w       load.Workload
		service time.Duration
		want    []moment
	}{
		{"closed", load.Workload{Requests: 5, Concurrency: 2}, 3 * s,
			[]moment{{0, 0, 0}, {0, 0, 0}, {3 * s, 3 * s, 3 * s}, {3 * s, 3 * s, 3 * s}, {6 * s, 6 * s, 6 * s}}},
		{"closed, more workers than requests", load.Workload{Requests: 2, Concurrency: 9}, s, []moment{{0, 0, 0}, {0, 0, 0}}},
		{"closed, by time", load.Workload{Duration: load.Duration(5 * s), Concurrency: 1}, 3 * s, []moment{{0, 0, 0}, {3 * s, 3 * s, 3 * s}}},
		{"all at once", load.Workload{Requests: 3, Rate: load.Inf}, s, []moment{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}},
		{"all at once, capped", load.Workload{Requests: 3, Rate: load.Inf, Concurrency: 1}, s, []moment{{0, 0, 0}, {0, s, s}, {0, 2 * s, 2 * s}}},
		{"open", load.Workload{Requests: 3, Rate: 2, Burstiness: load.Inf}, 9 * s, []moment{{s / 2, s / 2, s / 2}, {s, s, s}, {3 * s / 2, 3 * s / 2, 3 * s / 2}}},
		{"open, capped", load.Workload{Requests: 4, Rate: 1, Burstiness: load.Inf, Concurrency: 1}, 5 * s / 2,
			[]moment{{s, s, s}, {2 * s, 7 * s / 2, 7 * s / 2}, {3 * s, 6 * s, 6 * s}, {4 * s, 17 * s / 2, 17 * s / 2}}},
		{"open, by time", load.Workload{Duration: load.Duration(5 * s / 2), Rate: 1, Burstiness: load.Inf}, s, []moment{{s, s, s}, {2 * s, 2 * s, 2 * s}}},
		{"closed, ramped", load.Workload{Requests: 6, Concurrency: 4, Ramp: load.Duration(4 * s)}, 5 * s / 2,
			[]moment{{0, 0, 0}, {s, s, s}, {2 * s, 2 * s, 2 * s}, {5 * s / 2, 5 * s / 2, 5 * s / 2}, {3 * s, 3 * s, 3 * s}, {7 * s / 2, 7 * s / 2, 7 * s / 2}}},
		// Half a t² until 2 s, and then 2 a second.
		{"open, ramped", load.Workload{Requests: 4, Rate: 2, Burstiness: load.Inf, Ramp: load.Duration(2 * s)}, s,
			[]moment{{1414213562, 1414213562, 1414213562}, {2 * s, 2 * s, 2 * s}, {5 * s / 2, 5 * s / 2, 5 * s / 2}, {3 * s, 3 * s, 3 * s}}},
		{"open, ramped, by time", load.Workload{Duration: load.Duration(3 * s), Rate: 2, Burstiness: load.Inf, Ramp: load.Duration(4 * s)}, s,
			[]moment{{2 * s, 2 * s, 2 * s}, {2828427125, 2828427125, 2828427125}}},
		{"stages of rates", load.Workload{Burstiness: load.Inf, Stages: []load.Stage{{Duration: load.Duration(2 * s), Rate: 1}, {Duration: load.Duration(s), Rate: 4}}}, 9 * s,
			[]moment{{s, s, s}, {2 * s, 2 * s, 2 * s}, {9 * s / 4, 9 * s / 4, 9 * s / 4}, {5 * s / 2, 5 * s / 2, 5 * s / 2}, {11 * s / 4, 11 * s / 4, 11 * s / 4}, {3 * s, 3 * s, 3 * s}}},
		// The worker of the second stage that the first had as well is still busy.
		{"stages of concurrencies", load.Workload{Stages: []load.Stage{{Duration: load.Duration(4 * s), Concurrency: 1}, {Duration: load.Duration(2 * s), Concurrency: 2}, {Duration: load.Duration(3 * s), Concurrency: 1}}}, 5 * s / 2,
			[]moment{{0, 0, 0}, {5 * s / 2, 5 * s / 2, 5 * s / 2}, {4 * s, 4 * s, 4 * s}, {5 * s, 5 * s, 5 * s}, {15 * s / 2, 15 * s / 2, 15 * s / 2}}},
		{"stages of both", load.Workload{Burstiness: load.Inf, Stages: []load.Stage{{Duration: load.Duration(2 * s), Concurrency: 1}, {Duration: load.Duration(s), Rate: 2}}}, 3 * s / 2,
			[]moment{{0, 0, 0}, {3 * s / 2, 3 * s / 2, 3 * s / 2}, {5 * s / 2, 5 * s / 2, 5 * s / 2}, {3 * s, 3 * s, 3 * s}}},
		{"a stage at once", load.Workload{Concurrency: 2, Stages: []load.Stage{{Duration: load.Duration(s), Rate: load.Inf}}}, 3 * s, []moment{{0, 0, 0}, {0, 0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, records := paced(t, t.Context(), c.w, c.service)
				if diff := cmp.Diff(c.want, moments(records)); diff != "" {
					t.Errorf("moments (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestTrace: requests leave at the times of the recording, stretched.
func TestTrace(t *testing.T) {
	const s = time.Second
	d := load.Dataset{Kind: load.Trace, Slowdown: 2, Path: written(t, `
{"timestamp": 3000, "input_length": 6, "output_length": 2}
{"timestamp": 1000, "input_length": 3, "output_length": 3}
{"timestamp": 1000.5, "input_length": 4, "output_length": 4}
{"timestamp": 9000, "input_length": 5, "output_length": 4}`)}
	first, later := []moment{{}, {msec, msec, msec}}, []moment{{4 * s, 4 * s, 4 * s}, {16 * s, 16 * s, 16 * s}}
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			w    load.Workload
			want []moment
		}{
			{load.Workload{}, slices.Concat(first, later)},
			{load.Workload{Requests: 2}, first},
			{load.Workload{Duration: load.Duration(4 * s)}, first},
			{load.Workload{Requests: 3, Concurrency: 1}, []moment{{}, {msec, 5 * s, 5 * s}, {4 * s, 10 * s, 10 * s}}},
		} {
			c.w.Dataset = d
			sum, records := paced(t, t.Context(), c.w, 5*s)
			if diff := cmp.Diff(c.want, moments(records)); diff != "" || sum.SendLag.Max != 0 {
				t.Errorf("%+v: send lag %v ms, moments (-want +got):\n%s", c.w, sum.SendLag.Max, diff)
			}
		}
	})
}

// TestTurnsAtOnce: of conversations that all begin at once, only the beginnings wait in the generator. A later turn is due
// when the answer before it is there and its user has thought.
func TestTurnsAtOnce(t *testing.T) {
	turn := `{"role":"user","content":"a","delay":2000},{"role":"assistant","content":"b"}`
	w := load.Workload{Rate: load.Inf, Concurrency: 1, Requests: 4, Endpoint: load.Chat,
		Dataset: load.Dataset{Kind: load.Conversation, Path: written(t, `{"messages":[`+turn+`,`+turn+`]}`)}}
	const s = time.Second
	synctest.Test(t, func(t *testing.T) {
		_, records := paced(t, t.Context(), w, s)
		want := []moment{{0, 0, 0}, {3 * s, 3 * s, 3 * s}, {0, 4 * s, 4 * s}, {7 * s, 7 * s, 7 * s}}
		if diff := cmp.Diff(want, moments(records)); diff != "" {
			t.Errorf("moments (-want +got):\n%s", diff)
		}
	})
}

// TestPoisson: in synthetic time every request leaves exactly when it is due, and none is lost.
func TestPoisson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := load.Workload{Requests: 5000, Rate: 1000}
		s, records := paced(t, t.Context(), w, 700*time.Millisecond)
		for i, at := range arrivals(5000, legs(w), 1, prompts.Seed(load.Job{Workload: w, Seed: 5})) {
			if records[i].Seq != i || records[i].Scheduled != at || records[i].Sent != at {
				t.Fatalf("request %d left at %v as %d, and was due at %v", i, records[i].Sent, records[i].Seq, at)
			}
		}
		if s.SendLag.Max != 0 || s.Queue.Max != 0 || s.Completed != 5000 {
			t.Errorf("%d completed, lag %v, queue %v, want 5000, 0, 0", s.Completed, s.SendLag.Max, s.Queue.Max)
		}
		// On average 1,000/s × 0.7 s are in flight while requests are sent.
		if s.PeakConcurrency < 700 || s.PeakConcurrency > 900 {
			t.Errorf("peak concurrency %d", s.PeakConcurrency)
		}
	})
}

// TestLongRamp: as many workers as there may be begin one after the other over days, too.
func TestLongRamp(t *testing.T) {
	const n, ramp = 1_000_000, 100 * time.Hour
	for name, all := range map[string][]hours{
		"a closed loop": crew(n, ramp, 0),
		"stages": stagedCrew(load.Workload{Ramp: load.Duration(ramp),
			Stages: []load.Stage{{Duration: load.Duration(2 * ramp), Concurrency: n}}}),
	} {
		if got, want := all[n-1][0].from, ramp-ramp/n; got != want {
			t.Errorf("%s: the last begins after %v, want %v", name, got, want)
		}
	}
}

// TestCancelled: a run that is stopped ends at once and keeps what it has.
func TestCancelled(t *testing.T) {
	for name, w := range map[string]load.Workload{
		"closed": {Requests: 100, Concurrency: 2}, "open": {Requests: 100, Rate: 1, Burstiness: load.Inf},
		"capped": {Requests: 100, Rate: 1, Burstiness: load.Inf, Concurrency: 1}, "at once": {Requests: 100, Rate: load.Inf, Concurrency: 3},
		"warming up": {Requests: 1, Concurrency: 1, Warmup: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
				defer cancel()
				began := time.Now()
				s, records := paced(t, ctx, w, 2*time.Second)
				if took := time.Since(began); took != 9500*time.Millisecond {
					t.Errorf("ended after %v, want 9.5s", took)
				}
				if len(records) != s.Requests || s.Requests != s.Completed+s.Failed || s.Errors[load.ClassCancelled] != s.Failed {
					t.Errorf("%d records, %+v", len(records), s)
				}
				if name != "warming up" && (s.Completed < 3 || s.Failed < 1) {
					t.Errorf("%d completed, %d cancelled", s.Completed, s.Failed)
				}
				if s.Verdict.Verdict == load.Valid {
					t.Error("a run that was stopped is valid")
				}
			})
		})
	}
}

// opener is a client that counts the connections that are asked for.
type opener struct {
	served
	asked *atomic.Int64
}

func (o opener) Open(_ context.Context, n int) { o.asked.Add(int64(n)) }

// TestRampConnects: a worker that begins late has its connection made shortly before,
// and not at the start, when the server would close it meanwhile.
func TestRampConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		w := load.Workload{Dataset: load.Dataset{Kind: load.Random, InputTokens: 1}, OutputTokens: 2, Endpoint: load.Completions, Requests: 20, Concurrency: 10, Ramp: load.Duration(20 * time.Second)}
		g, err := newGenerator(load.Job{Target: load.Target{BaseURL: "http://x"}, Workload: w}, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.client = opener{served(time.Second), &asked}
		go func() {
			for _, want := range []int64{1, 2, 3} { // at 0, 2, 4 s
				time.Sleep(time.Second)
				synctest.Wait()
				if got := asked.Load(); got != want {
					t.Errorf("%d connections were asked for, want %d", got, want)
				}
				time.Sleep(time.Second)
			}
		}()
		if _, err := g.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if asked.Load() != 10 {
			t.Errorf("%d connections were asked for, want 10", asked.Load())
		}
	})
}

// TestClock: a clock wakes when it should, and when it need not wait any more.
func TestClock(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := newClock(ctx)
	defer c.stop()
	for range 20 {
		at := time.Now().Add(700 * time.Microsecond)
		if !c.until(ctx, at) || time.Now().Before(at) {
			t.Fatal("woke too soon")
		}
	}
	if !c.until(ctx, time.Now()) {
		t.Error("what is now has come")
	}
	time.AfterFunc(time.Millisecond, cancel)
	if c.until(ctx, time.Now().Add(time.Hour)) || c.until(ctx, time.Now()) {
		t.Error("the context has ended")
	}
}

// TestAgents: an agent's sub-agents run beside it, each request goes as long after what it needs as it did when it
// was recorded, and another session begins only when all of one is over.
func TestAgents(t *testing.T) {
	path := written(t, `{"requests":[`+
		`{"t":0,"in":8,"out":1,"hash_ids":[1],"api_time":1},`+
		`{"t":2,"type":"subagent","requests":[{"t":2.5,"in":8,"out":1,"hash_ids":[1],"api_time":1},`+
		`{"t":4,"in":8,"out":1,"hash_ids":[1],"api_time":1,"think_time":0.25}]},`+
		`{"t":6,"in":8,"out":1,"hash_ids":[1],"api_time":2},`+
		`{"t":9,"type":"subagent","requests":[{"t":9,"in":8,"out":1,"hash_ids":[1],"api_time":90}]},`+
		`{"t":9,"in":8,"out":1,"hash_ids":[1],"api_time":1,"think_time":0.5}]}`)
	for _, w := range []load.Workload{{Concurrency: 1}, {Rate: 1000, Concurrency: 1}} {
		w.Requests, w.Dataset = 7, load.Dataset{Kind: load.Weka, Path: path}
		synctest.Test(t, func(t *testing.T) {
			s, records := paced(t, t.Context(), w, time.Second)
			var sent []float64
			for _, r := range records {
				sent = append(sent, math.Round((r.Sent-records[0].Sent).Seconds()*100)/100)
			}
			// The agent's requests are 0, 5.75 and 7.25, its sub-agents' 2.5, 3.75 and 7.75; then another begins.
			if want := []float64{0, 2.5, 3.75, 5.75, 7.25, 7.75, 8.75}; !slices.Equal(sent, want) {
				t.Errorf("sent at %v, want %v", sent, want)
			}
			if x := s.Sessions; x == nil || x.Begun != 2 || x.Ended != 1 || x.Requests != 6 || math.Abs(x.Duration.Max-8750) > 1 {
				t.Errorf("sessions %+v", s.Sessions)
			}
		})
	}
}

// TestAgentsCut: a sub-agent that would begin after the end of the run is not over by then. The agent that waits for it
// sends no more, no other session has its place, and the session has not ended; that of an agent that does not wait neither.
func TestAgentsCut(t *testing.T) {
	begins := `{"requests":[{"t":0,"in":8,"out":1,"hash_ids":[1],"api_time":1},` +
		`{"t":3600,"type":"subagent","requests":[{"t":3600,"in":8,"out":1,"hash_ids":[1],"api_time":1}]},`
	for name, c := range map[string]struct {
		then string
		sent []float64
	}{
		"it waits": {`{"t":3602,"in":8,"out":1,"hash_ids":[1],"api_time":1},{"t":3604,"in":8,"out":1,"hash_ids":[1],"api_time":1}]}`, []float64{0}},
		"it goes on": {`{"t":2,"in":8,"out":1,"hash_ids":[1],"api_time":1},{"t":4,"in":8,"out":1,"hash_ids":[1],"api_time":1}]}`,
			[]float64{0, 2, 4}},
	} {
		for _, w := range []load.Workload{{Concurrency: 1, Duration: load.Duration(20 * time.Second)},
			{Stages: []load.Stage{{Duration: load.Duration(10 * time.Second), Concurrency: 1}, {Duration: load.Duration(10 * time.Second), Concurrency: 1}}}} {
			w.Dataset = load.Dataset{Kind: load.Weka, Path: written(t, begins+c.then)}
			synctest.Test(t, func(t *testing.T) {
				s, records := paced(t, t.Context(), w, time.Second)
				var sent []float64
				for _, r := range records {
					sent = append(sent, math.Round(r.Sent.Seconds()*100)/100)
				}
				if !slices.Equal(sent, c.sent) {
					t.Errorf("%s: sent at %v, want %v", name, sent, c.sent)
				}
				if x := s.Sessions; x == nil || x.Begun != 1 || x.Ended != 0 {
					t.Errorf("%s: sessions %+v", name, x)
				}
			})
		}
	}
}

// TestAgentsWarm: the end of a run is not one of its warm-up, and nothing of a session goes early there.
func TestAgentsWarm(t *testing.T) {
	path := written(t, `{"requests":[{"t":0,"in":8,"out":1,"hash_ids":[1],"api_time":1},`+
		`{"t":30,"type":"subagent","requests":[{"t":30,"in":8,"out":1,"hash_ids":[1],"api_time":1}]},`+
		`{"t":32,"in":8,"out":1,"hash_ids":[1],"api_time":1}]}`)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		paced(t, t.Context(), load.Workload{Concurrency: 1, Duration: load.Duration(20 * time.Second), Warmup: 3,
			Dataset: load.Dataset{Kind: load.Weka, Path: path}}, time.Second)
		if got, want := time.Since(start).Round(time.Second), 53*time.Second; got != want {
			t.Errorf("%v, want %v: 33 s of a warm-up and 20 s", got, want)
		}
	})
}

// TestRecordedArrivals: sessions begin when they did, so many times slower; a request without a delay goes when it
// did, or when the answer before it is there, and no later after that than max_delay.
func TestRecordedArrivals(t *testing.T) {
	row := func(session string, more string) string {
		return `{"session_id":"` + session + `","messages":[{"role":"user","content":"a"}],"output_length":2,` + more + `}` + "\n"
	}
	path := written(t, row("late", `"timestamp":4000`)+row("early", `"timestamp":1000`)+row("early", `"timestamp":1200`)+
		row("early", `"delay":500`)+row("late", `"timestamp":9000`))
	unix := written(t, row("late", `"timestamp":1763800004000`)+row("early", `"timestamp":1763800001000`)+
		row("late", `"timestamp":1763800009000`))
	w := load.Workload{Endpoint: load.Chat, Dataset: load.Dataset{Kind: load.Conversation, Path: path, Arrivals: load.Recorded, Slowdown: 2}}
	for _, c := range []struct {
		edit func(*load.Workload)
		want []float64
	}{
		{func(*load.Workload) {}, []float64{0, 1, 2.5, 6, 16}}, // early, and late from twice 3 s on
		{func(w *load.Workload) { w.Concurrency = 1 }, []float64{0, 1, 2.5, 6, 16}},
		{func(w *load.Workload) { w.Requests = 4 }, []float64{0, 1, 2.5, 6}},
		{func(w *load.Workload) { w.Duration = load.Duration(2 * time.Second) }, []float64{0, 1}},
		{func(w *load.Workload) { w.Dataset.MaxDelay = load.Duration(time.Second) }, []float64{0, 1, 2.5, 6, 8}},
		{func(w *load.Workload) { w.Dataset.ThinkTime = load.Duration(time.Minute) }, []float64{0, 1, 2.5, 6, 16}},
		{func(w *load.Workload) { w.Dataset.Path = unix }, []float64{0, 6, 16}},
	} {
		x := w
		c.edit(&x)
		synctest.Test(t, func(t *testing.T) {
			_, records := paced(t, t.Context(), x, time.Second)
			var sent []float64
			for _, r := range records {
				sent = append(sent, math.Round(r.Sent.Seconds()*100)/100)
			}
			if !slices.Equal(sent, c.want) {
				t.Errorf("sent at %v, want %v", sent, c.want)
			}
		})
	}
}
