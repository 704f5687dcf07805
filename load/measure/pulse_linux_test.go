package measure

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/sim"
)

// processed runs a load in a process of its own against an engine, which tells the process of each answer.
func processed(t *testing.T, w load.Workload, answered func(n int64, p *os.Process)) load.Summary {
	t.Helper()
	engine, asked := sim.New(sim.Config{TTFT: 5 * time.Millisecond, ITL: time.Millisecond}), atomic.Int64{}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		engine.ServeHTTP(w, r)
		answered(asked.Add(1), cmd.Process)
	}))
	defer h.Close()
	if w.Dataset.Kind == "" {
		w.Dataset = load.Dataset{Kind: load.Random, InputTokens: 5}
	}
	w.OutputTokens, w.IgnoreEOS, w.Endpoint = 3, true, cmp.Or(w.Endpoint, load.Completions)
	job, err := json.Marshal(load.Job{Target: load.Target{BaseURL: h.URL, Model: sim.DefaultModel}, Workload: w})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env, cmd.Stdin, cmd.Stderr = append(os.Environ(), roleVariable+"="+roleLoad), strings.NewReader(string(job)), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got effort
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got.Summary
}

// freeze stops a process for a while.
func freeze(p *os.Process, d time.Duration) {
	p.Signal(syscall.SIGSTOP)
	time.AfterFunc(d, func() { p.Signal(syscall.SIGCONT) })
}

// TestStoodStill: a generator whose process is stopped in the middle of its load, and goes on, has measured nothing.
// Its own clocks all start after the thaw. What was cut off before that, or was its warm-up, does not count.
func TestStoodStill(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		w            load.Workload
		at           int64 // the answer at which it stops
		whole, still bool  // all of the run, and the part that counts
	}{
		"in the middle": {load.Workload{Requests: 40, Concurrency: 2}, 10, true, true},
		"while it warmed up": {load.Workload{Rate: 20, Burstiness: load.Inf, Duration: load.Duration(5 * time.Second),
			CutBeginning: load.Duration(3 * time.Second)}, 5, true, false},
		"in the window": {load.Workload{Rate: 20, Burstiness: load.Inf, Duration: load.Duration(5 * time.Second),
			CutBeginning: load.Duration(time.Second)}, 40, true, true},
		"before": {load.Workload{Requests: 400, Concurrency: 2, Warmup: 40}, 10, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := processed(t, x.w, func(n int64, p *os.Process) {
				if n == x.at {
					freeze(p, 2*time.Second)
				}
			})
			whole := s.Part
			if s.Untrimmed != nil {
				whole = *s.Untrimmed
			}
			for which, c := range map[string]struct {
				load.Part
				still bool
			}{"all of it": {whole, x.whole}, "what counts": {s.Part, x.still}} {
				void := c.Verdict.Verdict == load.Void && c.Verdict.Reasons[0].Code == stoodStill.code
				if void != c.still || c.still && c.Stopped < 1000 {
					t.Errorf("%s stood still for %v ms: %v", which, c.Stopped, c.Verdict)
				}
			}
		})
	}
}

// TestStoppedAgainAndAgain: a client that is stopped for 250 ms of every second sends late by as much as its requests wait
// in it, in an open loop and in a closed one whose users think.
func TestStoppedAgainAndAgain(t *testing.T) {
	t.Parallel()
	turn := `{"role":"user","content":"a","delay":100},{"role":"assistant","content":"b"}`
	talks := load.Dataset{Kind: load.Conversation, Path: written(t, `{"messages":[`+strings.Repeat(turn+",", 19)+turn+`]}`)}
	for name, w := range map[string]load.Workload{
		"open":          {Rate: 50},
		"capped":        {Rate: 50, Concurrency: 500},
		"conversations": {Concurrency: 8, Dataset: talks, Endpoint: load.Chat},
		"both":          {Rate: 5, Dataset: talks, Endpoint: load.Chat},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.Duration = load.Duration(6 * time.Second)
			stop := make(chan *os.Process, 1)
			var stopper sync.WaitGroup
			stopper.Go(func() {
				p := <-stop
				for every := time.NewTicker(time.Second); ; <-every.C {
					select {
					case <-stop:
						return
					default:
						freeze(p, 250*time.Millisecond)
					}
				}
			})
			s := processed(t, w, func(n int64, p *os.Process) {
				if n == 1 {
					stop <- p
				}
			})
			close(stop)
			stopper.Wait()
			if s.SendLag.Percentiles["99"] < 150 || math.Abs(s.SendLag.Mean-s.Queue.Mean) > 0.1*s.Queue.Mean {
				t.Errorf("requests left %.3g ms late (p99 %.3g), and waited for %.3g ms (p99 %.3g)", s.SendLag.Mean,
					s.SendLag.Percentiles["99"], s.Queue.Mean, s.Queue.Percentiles["99"])
			}
		})
	}
}

// waiting are the looks of beats at threads, each of which has waited for so long.
type waiting struct {
	beats
	now   time.Time
	waits map[string]time.Duration
}

func newWaiting() *waiting {
	now := time.Now()
	return &waiting{beats{zero: now, last: now, looked: now}, now, map[string]time.Duration{}}
}

// late is a beat that comes late, by when its look at the threads, which takes a while, finds that they have waited for
// so much more.
func (w *waiting) late(by, looking time.Duration, waits ...time.Duration) {
	w.now = w.now.Add(pulseEvery + by)
	w.beat(func() time.Time { return w.now }, func() map[string]time.Duration {
		for i, wait := range waits {
			w.waits[strconv.Itoa(i)] += wait
		}
		seen := maps.Clone(w.waits)
		w.now = w.now.Add(looking)
		return seen
	})
}

// still is for how long it was stopped, and for how long it had no processor.
func (w *waiting) still() (stopped, starved time.Duration) {
	for _, l := range w.beats.late {
		stopped += always.overlap(l.stopped())
		starved += always.overlap(l.starved())
	}
	return stopped, starved
}

// TestBeats: what a process stood still for is what it came too late by, less the longest that one of its threads has
// waited for a processor. A busy host hides no stop, after which all threads wait at once, and is none.
func TestBeats(t *testing.T) {
	each := func(n int, wait time.Duration) []time.Duration { return slices.Repeat([]time.Duration{wait}, n) }
	for name, x := range map[string]struct {
		late             time.Duration   // the beat
		waits            []time.Duration // of each thread, meanwhile and in the time before it since they were looked at
		stopped, starved time.Duration
	}{
		"in time":                        {0, nil, 0, 0},
		"a little late":                  {99 * msec, nil, 0, 0},
		"stopped":                        {100 * msec, nil, 100 * msec, 0},
		"stopped for long":               {time.Minute, nil, time.Minute, 0},
		"stopped on a busy host":         {900 * msec, each(10, 100*msec), 800 * msec, 100 * msec},
		"waited for a processor":         {900 * msec, each(1, 880*msec), 0, 900 * msec},
		"all waited for a processor":     {900 * msec, each(10, 850*msec), 0, 900 * msec},
		"stopped, and waited for longer": {900 * msec, append(each(10, 90*msec), 300*msec), 600 * msec, 300 * msec},
	} {
		w := newWaiting()
		w.late(x.late, 0, x.waits...)
		if stopped, starved := w.still(); stopped != x.stopped || starved != x.starved {
			t.Errorf("%s: stopped for %v, starved for %v, want %v and %v", name, stopped, starved, x.stopped, x.starved)
		}
	}
}

// TestBeatsAreStarved: a wait is found that the look itself had in its middle, and one of another thread that had the timer,
// and that is not over at the beat.
func TestBeatsAreStarved(t *testing.T) {
	for name, beats := range map[string]func(w *waiting){
		"in a look": func(w *waiting) {
			w.late(80*msec, 900*msec, 960*msec)
			w.late(80*msec, 0)
		},
		"after a look": func(w *waiting) {
			w.late(800*msec, 0, 0, 10*msec)
			for range 3 {
				w.late(80*msec, 0)
			}
			w.late(80*msec, 0, 1200*msec)
		},
	} {
		w := newWaiting()
		beats(w)
		if stopped, starved := w.still(); stopped != 0 || starved < 800*msec {
			t.Errorf("%s: stopped for %v, starved for %v", name, stopped, starved)
		}
	}
}

// TestBeatsLookOften: what threads have waited for long before a stop is not taken off it, and neither is what they
// wait after it.
func TestBeatsLookOften(t *testing.T) {
	w := newWaiting()
	busy := func() {
		for range 100 { // a thread that wants a processor all the time, and has it a tenth of it
			w.waits["0"] += pulseEvery * 9 / 10
			w.late(0, 0)
		}
	}
	busy()
	w.late(time.Second, 0)
	busy()
	if got, _ := w.still(); got < time.Second-lookEvery {
		t.Errorf("stood still for %v of a second", got)
	}
}

// TestWaited: what a thread waits for a processor is the second number that Linux tells of it.
func TestWaited(t *testing.T) {
	dir := t.TempDir()
	for thread, text := range map[string]string{"7": "1000 2000000 3\n", "8": "5 3000000 9\n", "9": ""} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, thread), 0o755), os.WriteFile(filepath.Join(dir, thread, "schedstat"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	got := slices.Sorted(maps.Values(waited(dir)))
	if !slices.Equal(got, []time.Duration{2 * msec, 3 * msec}) {
		t.Errorf("waited %v", got)
	}
	if len(waited(ownThreads)) == 0 || len(waited(t.TempDir())) > 0 {
		t.Error("this process has no threads, or one without any has some")
	}
}
