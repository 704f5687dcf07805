// Package measure carries out a job: it sends requests at the asked pace, computes
// the figures from their records, and judges whether these can be trusted.
package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/load/wire"
	"hclbench/plain"

	"golang.org/x/sys/unix"
)

// Run carries out one job: warm-up requests, then the measurement. progress may be nil; it is
// called from one goroutine, about every half second and at the end of each of the two.
//
// The error is nil when every request was sent and has had its answer, whatever the answers were:
// failed requests are data. When ctx ends the run ends at once, and Run returns ctx's error
// together with what was measured until then. The result is nil only when the job cannot be run at
// all.
func Run(ctx context.Context, job load.Job, progress func(load.Progress)) (*load.Result, error) {
	return RunWith(ctx, job, progress, Others{})
}

// RunUntil is [Run] of a load that ends before all is sent when enough is known: enough is called with each request of
// the measurement that is over, one at a time, and no more are sent once it says so.
func RunUntil(
	ctx context.Context, job load.Job, progress func(load.Progress), enough func(*load.Record) bool,
) (*load.Result, error) {
	known, end := context.WithCancel(context.Background())
	defer end()
	return RunWith(ctx, job, progress, Others{Enough: known.Done(), Over: func(r *load.Record) {
		if enough(r) {
			end()
		}
	}})
}

// Others are the other clients of a load, of which this one sends a share, and whoever watches it. Its zero value is none.
type Others struct {
	// Begin says when the measurement begins of a client that is ready for it. It may wait for them.
	Begin func(ctx context.Context) (time.Time, error)
	// Enough is closed when no more is to be sent, as one of them has seen that the engine is overloaded, or knows enough.
	Enough <-chan struct{}
	// Over is told of each request of the measurement that is over, one at a time.
	Over func(*load.Record)
}

// RunWith is [Run] of a client that sends a share of a load, which it begins with the others.
func RunWith(ctx context.Context, job load.Job, progress func(load.Progress), others Others) (*load.Result, error) {
	g, err := newGenerator(job, progress)
	if err != nil {
		return nil, err
	}
	defer g.client.Close()
	if g.others = others; others.Over != nil {
		var one sync.Mutex
		g.others.Over = func(r *load.Record) {
			one.Lock()
			defer one.Unlock()
			others.Over(r)
		}
	}
	return g.run(ctx)
}

type generator struct {
	job      load.Job
	own      load.Workload // the job's, or its share of it
	whole    bool          // answers come whole. A workload that is copied for each request takes stack of every worker
	set      *prompts.Set
	client   wire.Client
	progress func(load.Progress)
	others   Others

	newSleeper func(context.Context) sleeper // of the schedule of arrivals
	watched    time.Duration                 // of an open loop, at least, before it is said to pile up
}

func newGenerator(job load.Job, progress func(load.Progress)) (*generator, error) {
	if err := job.Workload.Check(); err != nil {
		return nil, err
	}
	own := job.Slice().Workload(job.Workload)
	if err := wire.AllowFiles(sockets(own)); err != nil {
		return nil, err
	}
	c, err := wire.New(job)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(load.Progress) {}
	}
	return &generator{job: job, own: own, whole: !own.Streams(), client: c, progress: progress, newSleeper: newClock,
		watched: shortest}, nil
}

// sockets is how many connections a workload may need at once, as far as that
// can be known beforehand.
func sockets(w load.Workload) int {
	most := w.Concurrency
	for _, s := range w.Stages {
		most = max(most, s.Concurrency)
	}
	if most == 0 && w.Rate == load.Inf {
		most = w.Requests
	}
	return min(most, cmp.Or(w.Requests, most))
}

// requests is how many requests there will be; 0 when time alone ends the run.
func requests(w load.Workload) int {
	staged := len(w.Stages) > 0
	switch {
	case w.Dataset.Timed():
		return w.Requests // at most
	case staged && slices.ContainsFunc(w.Stages, func(s load.Stage) bool { return s.Rate == 0 || s.Rate == load.Inf }),
		w.Dataset.Talks() && (staged || w.Duration > 0): // only their beginnings have a rate
		return 0
	case staged:
		return fit(legs(w), w.End())
	case timed(w):
		return arriving(w)
	}
	return w.Requests
}

func (g *generator) run(ctx context.Context) (*load.Result, error) {
	w := g.job.Workload
	total, err := g.prepare(ctx)
	if err != nil {
		return nil, err
	}
	var warm *phase
	if w.Warmup > 0 {
		c := cmp.Or(w.Concurrency, 16) // enough for a server to capture its graphs and fill its caches
		warm = g.newPhase(prompts.ForWarmup, w.Warmup)
		warm.watched(ctx, func(sending context.Context) {
			warm.follow(ctx, sending, pace{crew: crew(min(c, w.Warmup), 0, 0)}.share(g.job.Share))
			warm.pulse.end()
		})
	}
	p := g.newPhase(prompts.ForPrompt, total)
	g.client.ReadLag() // of the warm-up
	var took load.Generator
	var late []late
	p.watched(ctx, func(sending context.Context) {
		p.follow(ctx, sending, paceOf(w, prompts.Seed(g.job), g.set.Due).share(g.job.Share))
		took = p.before.since() // what comes now is ours to compute, and measures nothing
		late = p.pulse.end()
		runtime.GC() // there is room for it in the stacks of the workers that have gone
	})

	records := withoutSecrets(g.job, p.collect())
	for i, slice := 0, g.job.Slice(); i < len(records); i++ {
		records[i].Seq = slice.Nth(records[i].Seq)
	}
	if w = g.own; total > 0 && w.Dataset.Talks() {
		w.Requests = g.set.Share(prompts.ForPrompt, total)
	}
	s := summarize(w, g.job.Percentiles, p.zero, duration(records), records)
	complete(&s, p.tally.dropped())
	s = s.Under(w.SLO, records) // by all gaps
	took.ReadLag, took.Calibrated = g.client.ReadLag().Describe([]float64{50, 99, 99.9}), g.job.Calibrated
	warmed := 0
	if warm != nil {
		warmed = warm.begun()
		took.Warmup, took.WarmupFailed = w.Warmup, int(warm.failed.Load())
	}
	s.Source = g.set.Drawn(p.begun(), warmed)
	source := s.Source
	for _, part := range s.Parts() {
		part.Generator = took
		for _, l := range late {
			part.Stopped += load.Ms(spanOf(part.Window, records).overlap(l.stopped()))
			part.Starved += load.Ms(spanOf(part.Window, records).overlap(l.starved()))
		}
		part.Verdict = evidence{workload: w, records: records}.verdict(*part, source)
		source = nil // what the warm-up has sent before is said once
	}
	return &load.Result{Summary: s, Records: records, Gaps: p.tally.dropped()}, ctx.Err()
}

// prepare makes the data set ready, and says how many requests there will be.
func (g *generator) prepare(ctx context.Context) (total int, err error) {
	w := g.job.Workload
	total = requests(w)
	if g.set, err = prompts.Open(ctx, g.job, total); err != nil {
		return 0, fmt.Errorf("prepare data set %s: %w", w.Dataset.Kind, hide(g.job, err))
	}
	if g.set.Due != nil {
		total = g.set.Total
	}
	if total > 0 && g.set.Share(prompts.ForPrompt, total) == 0 {
		return 0, g.job.Slice().NothingToSend(total)
	}
	return total, nil
}

func duration(records []load.Record) time.Duration {
	last := time.Duration(0)
	for i := range records {
		last = max(last, records[i].End)
	}
	return max(0, last-load.FirstDispatch(records))
}

// phase is the warm-up or the measurement: what is shared by those who send.
type phase struct {
	g      *generator
	queue  prompts.Queue
	warmup bool
	total  int   // requests; 0: bounded by time
	before spent // when it started
	pulse  pulse
	zero   time.Time // from which all times of records count: its first prompts are made by then

	sent, done, failed, chunks atomic.Int64

	kept atomic.Int64 // bytes of answers

	unsent atomic.Int64 // sessions that were made ready for nobody

	arriving atomic.Int64 // workers that have a connection made for their first request

	tally tally

	mu      sync.Mutex
	records [][]load.Record // one list of each worker
}

func (g *generator) newPhase(use uint64, total int) *phase {
	return &phase{g: g, queue: g.set.Queue(use, total), warmup: use == prompts.ForWarmup, total: g.job.Slice().Count(total),
		tally: tally{limit: maxGaps}}
}

// begun is how many sessions have begun.
func (p *phase) begun() int { return p.queue.Begun() - int(p.unsent.Load()) }

// collect returns what all workers wrote down, in the order of dispatch.
func (p *phase) collect() []load.Record {
	n := 0
	for _, r := range p.records {
		n += len(r)
	}
	all := make([]load.Record, 0, n)
	for i, r := range p.records {
		all = append(all, r...)
		p.records[i] = nil // there may be millions
	}
	slices.SortFunc(all, func(a, b load.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	p.tally.giveBack(all)
	// Prompts are made in this order, but need not leave in it.
	slices.SortStableFunc(all, func(a, b load.Record) int { return cmp.Compare(a.Sent, b.Sent) })
	return all
}

// secrets are the job's, as servers may repeat them: a key is repeated without the
// word before it, too.
func secretsOf(j load.Job) plain.Secrets {
	var words []string
	for _, value := range j.Secrets {
		words = append(words, value, strings.TrimPrefix(value, load.Bearer("")))
	}
	return plain.NewSecrets(words...)
}

// withoutSecrets takes the job's secrets out of what servers have answered: some
// repeat the key that they refuse.
func withoutSecrets(j load.Job, records []load.Record) []load.Record {
	if len(j.Secrets) == 0 {
		return records
	}
	secrets := secretsOf(j)
	for i := range records {
		r := &records[i]
		if r.Said != nil {
			r.Said.Text, r.Said.Reasoning = secrets.Hide(r.Said.Text), secrets.Hide(r.Said.Reasoning)
			for j := range r.Said.Calls {
				c := &r.Said.Calls[j]
				c.Name, c.Arguments = secrets.Hide(c.Name), secrets.Hide(c.Arguments)
			}
		}
		if r.Error != "" || r.Finish != "" && r.Finish != "length" && r.Finish != "stop" {
			r.Error, r.Finish = secrets.Hide(r.Error), secrets.Hide(r.Finish)
		}
	}
	return records
}

func hide(j load.Job, err error) error {
	if text := secretsOf(j).Hide(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

type spent struct {
	wall   time.Time
	cpu    time.Duration
	pauses int64         // of garbage collection
	paused time.Duration // in all of them
}

func spentNow() spent {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	return spent{wall: time.Now(), cpu: processorTime(), pauses: g.NumGC, paused: g.PauseTotal}
}

// since is what has been used from before until now.
func (before spent) since() load.Generator {
	var g debug.GCStats
	debug.ReadGCStats(&g)
	pauses := int(g.NumGC - before.pauses)
	used := load.Generator{GCPauses: pauses, GCPauseMs: load.Ms(g.PauseTotal - before.paused),
		Cores: runtime.GOMAXPROCS(0)}
	for _, d := range g.Pause[:min(pauses, len(g.Pause))] {
		used.GCLongest = max(used.GCLongest, load.Ms(d))
	}
	if took := time.Since(before.wall); took > 0 {
		used.CPUShare = (processorTime() - before.cpu).Seconds() / took.Seconds()
	}
	return used
}

// processorTime is what this process has used so far, user and system.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
