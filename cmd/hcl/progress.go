package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/log"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

// progress shows a run while it goes on: one JSON object a line, lines for
// people and their logs, or a live view on a terminal.
type progress struct {
	event   func(apply.Event) // called from one goroutine at a time
	close   func()
	outcome func(run string, o apply.Outcome, err error) error // with --json: the last line
}

func (a *app) progress(p *plan.Plan, asJSON bool) progress {
	show := progress{close: func() {}}
	switch {
	case asJSON:
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		show.event = func(e apply.Event) { enc.Encode(e) }
		show.outcome = func(run string, o apply.Outcome, err error) error {
			last := struct {
				Time    time.Time `json:"time"`
				Type    string    `json:"type"`
				Run     string    `json:"run"`
				Planned int       `json:"planned"`
				Valid   int       `json:"valid"`
				Suspect int       `json:"suspect"`
				Void    int       `json:"void"`
				Error   string    `json:"error,omitempty"`
			}{time.Now(), "outcome", run, o.Planned, o.Valid, o.Suspect, o.Void, ""}
			if err != nil {
				last.Error = err.Error()
			}
			return enc.Encode(last)
		}
	case terminal(a.stderr):
		live := newLive(a.stderr, p)
		show.event, show.close = live.event, live.close
	default:
		lines := &lines{log: a.logger(), w: a.stderr, last: map[string]time.Time{}}
		show.event = lines.event
	}
	return show
}

// Between two lines about the same thing there is at least this long.
const linePause = 10 * time.Second

// lines writes events as log lines.
type lines struct {
	log  *log.Logger
	w    io.Writer            // the same as the log's, for what is no log line
	last map[string]time.Time // of a repeating line, by what it is about
}

// due limits lines that repeat.
func (l *lines) due(e apply.Event, about string) bool {
	key := about + " " + e.Host + " " + e.Engine
	if e.Time.Sub(l.last[key]) < linePause {
		return false
	}
	l.last[key] = e.Time
	return true
}

func (l *lines) event(e apply.Event) {
	where := []any{"host", e.Host}
	if e.Engine != "" {
		where = append(where, "engine", e.Engine)
	}
	switch e.Type {
	case apply.Step, apply.Ready, apply.Down:
		l.log.Info(e.Message, where...)
	case apply.Waiting:
		if l.due(e, e.Message) {
			l.log.Info(e.Message, where...)
		}
	case apply.Pull:
		if l.due(e, "pull") {
			l.log.Info("pulling", append(where, "at", pulled(*e.Pull))...)
		}
	case apply.Begin:
		l.last["progress "+e.Host+" "+e.Engine] = e.Time // the first line after a while
		l.log.Info(numbered(e), append(where, "cell", coordinates(e))...)
	case apply.Progress:
		if l.due(e, "progress") {
			l.log.Info(numbered(e), append(where, "at", advanced(*e.Progress))...)
		}
	case apply.End:
		if e.Summary == nil {
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

func numbered(e apply.Event) string { return fmt.Sprintf("cell %d of %d", e.Number, e.Of) }

// coordinates of a cell, as in "online: concurrency=4 output_tokens=800".
func coordinates(e apply.Event) string { return e.Benchmark + ": " + axes(e.Axes) }

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
		s += fmt.Sprintf(", %s of %s", size(p.Bytes), size(p.Total))
	}
	return s
}

func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	default:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
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
	if p.Elapsed > 0 {
		s += fmt.Sprintf(", %.0f tok/s", float64(p.OutputTokens)/p.Elapsed)
	}
	return s
}

// figures are what a person wants to see of a finished cell.
func figures(s *load.Summary) []any {
	out := []any{
		"output_tok_s", fmt.Sprintf("%.1f", s.OutputThroughput),
		"ttft_ms", fmt.Sprintf("%.1f", s.TTFT.Mean),
		"tpot_ms", fmt.Sprintf("%.2f", s.TPOT.Mean),
	}
	if s.Failed > 0 {
		out = append(out, "failed", s.Failed)
	}
	if s.Verdict.Verdict != load.Valid {
		out = append(out, "verdict", s.Verdict.Verdict, "why", strings.Join(s.Verdict.Reasons, "; "))
	}
	return out
}

// left estimates how long a host still takes: what a cell costs is taken to be
// its tokens by its concurrency, and measured on the cells that are done.
type left struct {
	weight map[string]float64 // by cell
	total  float64
	done   float64
	spent  time.Duration // on cells that are done
}

// newLeft returns the estimates by host.
func newLeft(p *plan.Plan) map[string]*left {
	all := map[string]*left{}
	for _, d := range p.Deployments {
		l := all[d.Host().Name]
		if l == nil {
			l = &left{weight: map[string]float64{}}
			all[d.Host().Name] = l
		}
		for _, c := range d.ToDo() {
			w := c.Job.Workload
			l.weight[c.ID] = float64(max(w.Requests, 1)) / float64(max(w.Concurrency, 1)) * float64(max(w.OutputTokens, 1))
			l.total += l.weight[c.ID]
		}
	}
	return all
}

func (l *left) ended(cell string, took time.Duration) {
	l.done += l.weight[cell]
	l.spent += took
}

// of the host's work, given the part of a cell that is under way; 0 when nothing
// can be said yet.
func (l *left) of(cell string, part float64, elapsed time.Duration) time.Duration {
	done, spent := l.done+l.weight[cell]*part, l.spent+elapsed
	if done == 0 {
		return 0
	}
	return time.Duration(float64(spent) * (l.total - done) / done).Round(time.Second)
}
