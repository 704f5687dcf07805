package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/log"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
)

// audience is told what happens in a run, from one goroutine at a time: what has begun,
// each [apply.Event], what has ended.
type audience func(what any)

// begun is the first thing that is told of a run: what is going to happen.
type begun struct {
	Time    time.Time   `json:"time"`
	Type    string      `json:"type"` // "run"
	Run     string      `json:"run"`
	Lab     string      `json:"lab"`
	Command string      `json:"command"`
	Version string      `json:"version"`
	Hosts   []begunHost `json:"hosts"`
	Cells   []begunCell `json:"cells"` // those to be measured
}

type begunHost struct {
	Name         string  `json:"name"`
	GPUs         string  `json:"gpus,omitempty"`
	PricePerHour float64 `json:"price_per_hour,omitempty"` // USD
}

type begunCell struct {
	Cell       string       `json:"cell"`
	Host       string       `json:"host"`
	Engine     string       `json:"engine"`
	Benchmark  string       `json:"benchmark"`
	Axes       results.Axes `json:"axes"`
	Repetition int          `json:"repetition"`
	Work       float64      `json:"work"` // seconds that it is expected to take, good to weigh it against the others
}

// ended is the last thing that is told.
type ended struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"` // "outcome"
	Run     string    `json:"run"`
	Planned int       `json:"planned"`
	Valid   int       `json:"valid"`
	Suspect int       `json:"suspect"`
	Void    int       `json:"void"`
	Error   string    `json:"error,omitempty"`
}

// String says how a run ended.
func (e ended) String() string {
	s := fmt.Sprintf("Run %s is over: %d valid", e.Run, e.Valid)
	for _, n := range []struct {
		count int
		what  string
	}{{e.Suspect, "suspect"}, {e.Void, "void"}, {e.Planned - e.Valid - e.Suspect - e.Void, "not measured"}} {
		if n.count > 0 {
			s += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	if e.Error != "" {
		s += ". " + e.Error
	}
	return s
}

// forecasts are how long hosts still take, by their names, as it is heard.
type forecasts map[string]*plan.Forecast

func (all forecasts) forHost(host string) *plan.Forecast {
	if all[host] == nil {
		all[host] = new(plan.Forecast)
	}
	return all[host]
}

func (all forecasts) hear(what any) {
	switch what := what.(type) {
	case begun:
		for _, c := range what.Cells {
			all.forHost(c.Host).Add(c.Cell, c.Engine, c.Work)
		}
	case apply.Event:
		f := all.forHost(what.Host)
		f.Heard(what.Engine, what.Time)
		switch what.Type {
		case apply.Begin:
			f.Begin(what.Cell, what.Time)
		case apply.Progress:
			f.Progress(what.Cell, what.Progress)
		case apply.End:
			f.End(what.Cell, what.Time)
		}
	}
}

// left is how long the run still takes: hosts work side by side; 0: nothing can be said yet.
func (all forecasts) left(now time.Time) (longest time.Duration) {
	for _, f := range all {
		longest = max(longest, f.Left(now))
	}
	return longest
}

func beginning(p *plan.Plan, run results.Run) begun {
	b := begun{Time: time.Now(), Type: "run", Run: run.ID, Lab: run.Lab, Command: run.Command, Version: run.Version}
	for _, h := range p.Hosts {
		b.Hosts = append(b.Hosts, begunHost{Name: h.Name, GPUs: h.GPUs.String(), PricePerHour: h.PricePerHour})
	}
	for _, d := range p.Deployments {
		for _, c := range d.ToDo() {
			b.Cells = append(b.Cells, begunCell{
				Cell: c.ID, Host: d.Host.Name, Engine: d.Engine.Label(), Benchmark: c.Benchmark,
				Axes: c.Axes, Repetition: c.Repetition, Work: c.Work(),
			})
		}
	}
	return b
}

func ending(run string, o apply.Outcome, err error) ended {
	e := ended{Time: time.Now(), Type: "outcome", Run: run, Planned: o.Planned, Valid: o.Valid, Suspect: o.Suspect, Void: o.Void}
	if err != nil {
		e.Error = err.Error()
	}
	return e
}

// recorder writes everything as JSON. The first error silences it: a reader who
// has left, or a full disk, must not end a measurement.
func recorder(write func(any) error) audience {
	var err error
	return func(what any) {
		if err == nil {
			err = write(what)
		}
	}
}

// Between two lines about the same thing there is at least this long.
const linePause = 10 * time.Second

type lines struct {
	log  *log.Logger
	w    io.Writer            // the same as the log's, for what is no log line
	last map[string]time.Time // of a repeating line, by what it is about
	at   time.Time            // of the event that is being told
}

// repeat writes a line that comes again and again, now and then.
func (l *lines) repeat(e apply.Event, about, line string, more ...any) {
	key := about + " " + e.Host + " " + e.Engine
	if e.Time.Sub(l.last[key]) >= linePause {
		l.last[key] = e.Time
		l.log.Info(line, more...)
	}
}

func (l *lines) tell(what any) {
	e, ok := what.(apply.Event)
	if !ok {
		return
	}
	l.at = e.Time
	where := []any{"host", e.Host}
	if e.Engine != "" {
		where = append(where, "engine", e.Engine)
	}
	if e.Role != "" {
		where = append(where, "member", results.Member{Role: e.Role, Instance: e.Instance, Rank: e.Rank}.Name())
	}
	switch e.Type {
	case apply.Step, apply.Ready, apply.Down:
		l.log.Info(e.Message, where...)
	case apply.Waiting:
		l.repeat(e, e.Message, e.Message, where...)
	case apply.Pull:
		l.repeat(e, "pull", "pulling", append(where, "at", pulled(*e.Pull))...)
	case apply.Download:
		at := downloaded(*e.Download)
		l.repeat(e, "download "+e.Download.Phase, "downloading", append(where, "model", e.Download.Repo, "at", at)...)
	case apply.Begin:
		l.last["progress "+e.Host+" "+e.Engine] = e.Time // the first line after a while
		l.log.Info(numbered(e), append(where, "cell", coordinates(e))...)
	case apply.Try:
		l.last["progress "+e.Host+" "+e.Engine] = e.Time
		l.log.Info(numbered(e), append(where, "cell", coordinates(e))...)
	case apply.Tried:
		l.log.Info(say.Tried(e.Capacity, loadOf(e.Axes)), append(where, "cell", coordinates(e))...)
	case apply.Progress:
		l.repeat(e, "progress", numbered(e), append(where, "at", advanced(*e.Progress))...)
	case apply.End:
		if e.Number == 0 { // why has been told of its engine
			break
		}
		if e.Capacity != nil {
			l.log.Info(numbered(e)+" done: "+say.Capacity(e.Capacity), append(where, "cell", coordinates(e))...)
		} else if e.Score != nil {
			l.log.Info(numbered(e)+" done: "+e.Score.String(), append(where, "cell", coordinates(e), "verdict", e.Summary.Verdict.Verdict)...)
		} else if e.Summary == nil {
			l.log.Error(numbered(e)+" failed", append(where, "cell", coordinates(e), "why", e.Message)...)
		} else {
			l.log.Info(numbered(e)+" done", append(where, figures(e.Summary)...)...)
		}
	case apply.Warning:
		l.log.Warn(e.Message, where...)
	case apply.Failed:
		// The reason may be a page long, with the engine's last log lines.
		what, page, _ := strings.Cut(e.Message, "\n")
		l.log.Error(what, where...)
		if page != "" {
			fmt.Fprintln(l.w, page)
		}
	}
}

// numbered is which cell it is: "cell 3 of 12"; within a search which load, and which try of it: "load 32, try 2".
func numbered(e apply.Event) string {
	if e.Try > 0 {
		return say.Try(loadOf(e.Axes), e.Try)
	}
	return fmt.Sprintf("cell %d of %d", e.Number, e.Of)
}

// coordinates of a cell, as in "online: concurrency=4 output_tokens=800".
func coordinates(e apply.Event) string { return e.Benchmark + ": " + axes(e.Axes) }

// loadOf is the load of a search's try, by its coordinates.
func loadOf(all results.Axes) float64 {
	switch v := all[len(all)-1].Value.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

func axes(all results.Axes) string {
	var parts []string
	for _, x := range all {
		if x.Name != "engine" {
			parts = append(parts, fmt.Sprintf("%s=%v", x.Name, x.Value))
		}
	}
	if len(parts) == 0 {
		return "one cell"
	}
	return strings.Join(parts, " ")
}

func pulled(p provision.PullProgress) string {
	s := fmt.Sprintf("%d of %d layers", p.Done, p.Layers)
	if p.Total > 0 {
		s += fmt.Sprintf(", %s of %s", plain.Bytes(p.Bytes), plain.Bytes(p.Total))
	}
	return s
}

// downloaded says how far a model is: "120.1 GB of 688.6 GB, 34 of 163 files, 1.2 GB/s, 7m54s left".
func downloaded(f apply.Fetched) string {
	s := fmt.Sprintf("%s of %s, %d of %d files", plain.Bytes(f.Bytes), plain.Bytes(f.Total), f.Done, f.Files)
	if f.Phase == agent.WaitingFor {
		return s + ", waiting for " + f.For + ", who fetches it too"
	}
	if left := f.Left(); left > 0 {
		s += fmt.Sprintf(", %s/s, %s left", plain.Bytes(int64(f.Rate)), left.Round(time.Second))
	}
	return s
}

func advanced(p load.Progress) string {
	if p.Warmup {
		return "warming up"
	}
	s := fmt.Sprintf("%d requests", p.Done)
	if p.Total > 0 {
		s = fmt.Sprintf("%d of %d requests", p.Done, p.Total)
	}
	if p.Failed > 0 {
		s += fmt.Sprintf(", %d failed", p.Failed)
	}
	if p.Elapsed > 0 && p.OutputTokens > 0 {
		s += fmt.Sprintf(", %s tok/s", number.Text(float64(p.OutputTokens)/p.Elapsed))
	}
	if p.Overloaded {
		s += fmt.Sprintf(", %s in flight: the engine cannot keep up with the rate", number.Whole(p.InFlight))
	}
	return s
}

func figures(s *load.Summary) []any {
	out := []any{"output_tok_s", fmt.Sprintf("%.1f", s.OutputThroughput)}
	if s.Silent() {
		out = []any{"req_s", fmt.Sprintf("%.1f", s.RequestThroughput), "e2el_p50_ms", fmt.Sprintf("%.1f", s.E2EL.Median)}
	}
	if s.TTFT.Count > 0 { // no offline benchmark knows it
		out = append(out, "ttft_p50_ms", fmt.Sprintf("%.1f", s.TTFT.Median))
	}
	if s.TPOT.Count > 0 {
		out = append(out, "tpot_p50_ms", fmt.Sprintf("%.2f", s.TPOT.Median))
	}
	if s.Failed > 0 {
		out = append(out, "failed", s.Failed)
	}
	if s.Verdict.Verdict != load.Valid {
		out = append(out, "verdict", s.Verdict.Verdict, "why", strings.Join(s.Verdict.Texts(), "; "))
	}
	return out
}

// outlet is an audience that may be slow or stand still: it is told beside the run,
// which does not wait for it, nor do the other audiences.
type outlet struct {
	*flow.Queue[any]
	patience time.Duration // how long after an interruption it may take for what it has not heard yet
}

func newOutlet(to audience, patience time.Duration) outlet {
	spare := func(what any) bool {
		e, ok := what.(apply.Event)
		return ok && e.Spare()
	}
	return outlet{flow.NewQueue(to, spare), patience}
}

type outlets []outlet

func (all outlets) tell(what any) {
	for _, o := range all {
		o.Put(what)
	}
}

// end tells of the end, and returns when everybody knows, or after an interruption when their patience is over.
func (all outlets) end(ctx context.Context, e ended) error {
	all.tell(e)
	var problems []error
	for _, o := range all {
		ctx, cancel := flow.Beyond(ctx, o.patience)
		if lost := o.Close(ctx); lost > 0 {
			problems = append(problems, fmt.Errorf("not read in time and left out: %s", plain.Count(lost, "event")))
		}
		cancel()
	}
	return errors.Join(problems...)
}
