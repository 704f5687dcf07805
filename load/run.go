package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// progressEvery is how often a run says where it stands.
const progressEvery = 500 * time.Millisecond

// Run carries out one job: warm-up requests, then the measurement. progress may
// be nil; it is called from one goroutine, about every half second and at the
// end of each of the two.
//
// The error is nil when every request was sent and has had its answer, whatever
// the answers were: failed requests are data. When ctx ends the run ends at
// once, and Run returns ctx's error together with what was measured until then.
// The result is nil only when the job cannot be run at all.
func Run(ctx context.Context, job Job, progress func(Progress)) (*Result, error) {
	g, err := newGenerator(job, progress)
	if err != nil {
		return nil, err
	}
	defer g.client.close()
	return g.run(ctx)
}

// generator is one run.
type generator struct {
	job      Job
	template template
	client   client
	progress func(Progress)
}

func newGenerator(job Job, progress func(Progress)) (*generator, error) {
	if err := job.Workload.check(); err != nil {
		return nil, err
	}
	t, err := newTemplate(job.Target, job.Workload)
	if err != nil {
		return nil, err
	}
	server, err := newServer(job.Target, job.Workload)
	if err != nil {
		return nil, err
	}
	if err := allowFiles(job.Workload.sockets()); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	return &generator{job: job, template: t, client: newClient(server), progress: progress}, nil
}

// check reports what is wrong with a workload, all of it.
func (w Workload) check() error {
	if w.Dataset.Kind != Random && slices.Contains(DatasetKinds(), w.Dataset.Kind) {
		return fmt.Errorf("data set kind %q: this version makes prompts of kind %q only", w.Dataset.Kind, Random)
	}
	if names := w.NotCarriedOut(); len(names) > 0 && w.Dataset.Kind == Random {
		return fmt.Errorf("this version cannot carry out %s", strings.Join(names, ", "))
	}
	var errs []error
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	errs = append(errs, w.Dataset.check())
	bad(w.OutputTokens < 1, "output tokens %d: at least 1 is needed", w.OutputTokens)
	bad(w.Requests < 0 || w.Duration < 0 || w.Concurrency < 0 || w.Warmup < 0 || w.Timeout < 0 || w.Stall < 0, "a negative number")
	bad(w.Requests == 0 && w.Duration == 0, "neither requests nor duration says when to stop")
	bad(w.Rate == 0 && w.Concurrency == 0, "neither rate nor concurrency says how to send")
	bad(!(w.Rate >= 0) || !(w.Burstiness >= 0), "rate %v and burstiness %v: neither can be below zero", w.Rate, w.Burstiness)
	bad(w.Rate == Inf && w.Concurrency == 0 && w.Requests == 0, "all at once without an end: set requests or concurrency")
	for _, o := range w.SLO {
		bad(o.Metric != "ttft" && o.Metric != "tpot" && o.Metric != "e2el", "SLO metric %q: write ttft, tpot or e2el", o.Metric)
	}
	return errors.Join(errs...)
}

// sockets is how many connections a workload may need at once, as far as that
// can be known beforehand.
func (w Workload) sockets() int {
	switch {
	case w.Concurrency > 0 && w.Requests > 0:
		return min(w.Concurrency, w.Requests)
	case w.Concurrency > 0:
		return w.Concurrency
	case w.Rate == Inf:
		return w.Requests
	}
	return 0
}

// total is how many requests there will be; 0 when time alone ends the run.
func (w Workload) total() int {
	if w.Duration == 0 || w.Rate == 0 || w.Rate == Inf {
		return w.Requests
	}
	fit := max(1, int(float64(w.Rate)*time.Duration(w.Duration).Seconds()))
	if w.Requests > 0 {
		return min(w.Requests, fit)
	}
	return fit
}

func (g *generator) run(ctx context.Context) (*Result, error) {
	w := g.job.Workload
	var warm *phase
	if w.Warmup > 0 {
		c := w.Concurrency
		if c == 0 {
			c = 16 // enough for a server to capture its graphs and fill its caches
		}
		warm = g.newPhase(forWarmup, w.Warmup)
		warm.watched(func() { warm.closed(ctx, min(c, w.Warmup), 0, false) })
	}
	p := g.newPhase(forPrompt, w.total())
	before := processorTime()
	p.watched(func() { p.pace(ctx) })
	wall := time.Since(p.began)
	used := processorTime() - before

	records := p.collect()
	s := Summarize(w, g.job.Percentiles, p.zero, duration(records), records)
	if wall > 0 {
		s.CPUShare = used.Seconds() / wall.Seconds()
	}
	if warm != nil {
		s.Warmup, s.WarmupFailed = w.Warmup, int(warm.failed.Load())
	}
	s.Verdict = judge(w, s, records)
	if ctx.Err() != nil {
		return &Result{s, records}, ctx.Err()
	}
	return &Result{s, records}, nil
}

// duration is the time from the first dispatch to the last response.
func duration(records []Record) time.Duration {
	if len(records) == 0 {
		return 0
	}
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range records {
		first, last = min(first, records[i].Sent), max(last, records[i].End)
	}
	return last - first
}

// phase is the warm-up or the measurement.
type phase struct {
	g       *generator
	prompts prompts
	total   int // requests; 0: bounded by time
	began   time.Time
	zero    time.Time // from which all times of records count: its first prompts are made by then

	next, sent, done, failed, chunks atomic.Int64

	mu      sync.Mutex
	records [][]Record // one list of each worker
}

func (g *generator) newPhase(use uint64, total int) *phase {
	return &phase{g: g, prompts: newPrompts(g.job, use), total: total, began: time.Now()}
}

// watched does work while progress is told.
func (p *phase) watched(work func()) {
	stop := make(chan struct{})
	var teller sync.WaitGroup
	teller.Go(func() {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.g.progress(p.state())
			case <-stop:
				p.g.progress(p.state())
				return
			}
		}
	})
	work()
	close(stop)
	teller.Wait()
}

func (p *phase) state() Progress {
	done, sent := p.done.Load(), p.sent.Load()
	return Progress{
		Elapsed: time.Since(p.began).Seconds(),
		Sent:    int(sent), Done: int(done), Failed: int(p.failed.Load()), InFlight: int(sent - done),
		OutputTokens: p.chunks.Load(), Total: p.total, Warmup: p.prompts.use == forWarmup,
	}
}

// collect returns what all workers wrote down, in the order of dispatch.
func (p *phase) collect() []Record {
	all := slices.Concat(p.records...)
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// worker sends one request at a time.
type worker struct {
	p       *phase
	records []Record
}

func (p *phase) newWorker() *worker { return &worker{p: p} }

func (w *worker) do(ctx context.Context, t ticket, ready time.Duration) {
	p := w.p
	w.records = append(w.records, Record{
		Seq: t.seq, Scheduled: t.scheduled, Ready: ready, AskedInput: t.input, AskedOutput: t.output,
	})
	r := &w.records[len(w.records)-1]
	p.sent.Add(1)
	p.g.client.send(ctx, t.body, exchange{rec: r, zero: p.zero, chunks: &p.chunks})
	if !r.OK() {
		p.failed.Add(1)
	}
	p.done.Add(1)
}

// finish hands over what the worker has seen.
func (w *worker) finish() {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.records = append(w.p.records, w.records)
}
