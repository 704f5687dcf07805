package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/telemetry"
)

// watching is what is read on a host beside the job that sends a cell's load.
type watching struct {
	host *provision.Host
	plan telemetry.Plan
	end  endWatch
}

// readWhile says what is read while a cell of the deployment is measured: by the
// job that sends its load, the host that it is sent from and what the engine
// exports; and the GPUs that the engine has, by a watch of their host's where the
// load comes from another or there is none.
func readWhile(d *plan.Deployment, c *plan.Cell) (job telemetry.Plan, beside []watching) {
	from := cmp.Or(c.From(), d.Host())
	l := c.Load()
	if l != nil {
		job = telemetry.Plan{Host: true, Engine: engines.Exports(d.Engine)}
		if job.Engine != nil && l.From != nil {
			job.Engine.URL = strings.Replace(job.Engine.URL, engines.BaseURL(d.Engine), l.Target.BaseURL, 1)
		}
	}
	for _, h := range d.Serving() {
		gpus := gpusRead(d, h)
		switch {
		case c.Batch() != nil:
			beside = append(beside, watching{host: h, plan: telemetry.Plan{Host: true, GPUs: gpus}})
		case h == from:
			job.GPUs = gpus
		case gpus != nil:
			beside = append(beside, watching{host: h, plan: telemetry.Plan{GPUs: gpus}})
		}
	}
	return job, beside
}

// gpusRead are the GPUs of a host that members of a deployment have, nil for none. A simulated
// engine has none, nor has a router or an engine that somebody else runs.
func gpusRead(d *plan.Deployment, h *provision.Host) *telemetry.GPUs {
	if h.GPUs.Count == 0 {
		return nil
	}
	var only []string
	found := false
	for _, m := range d.Members {
		if m.Host != h || !engines.Real(m.Engine) || m.Engine.Router {
			continue
		}
		ids := m.Engine.Container.GPUIDs
		if len(ids) == 0 { // all
			return &telemetry.GPUs{Vendor: string(h.GPUs.Vendor), Count: h.GPUs.Count}
		}
		only, found = append(only, ids...), true
	}
	if !found {
		return nil
	}
	return &telemetry.GPUs{Vendor: string(h.GPUs.Vendor), Count: len(only), Only: only}
}

func (m *measurement) watchID() string { return m.t.row.RunID + "." + m.cell.ID }

// endWatch ends what is read, and returns what was read in a window of it.
type endWatch func(context.Context, telemetry.Window) *telemetry.Record

// watch begins to read on the host. What goes wrong is a problem of the record.
func (s *session) watch(ctx context.Context, id string, p telemetry.Plan) endWatch {
	begun := s.agent.Watch(ctx, id, p)
	return func(ctx context.Context, w telemetry.Window) *telemetry.Record {
		r, err := s.agent.EndWatch(ctx, id, w)
		if err = cmp.Or(begun, err); err != nil {
			return &telemetry.Record{Interval: telemetry.Interval.Seconds(), Problems: []string{err.Error()}}
		}
		return r
	}
}

// add ends a watch and adds what it has read to the record of the job, by the sender's clock.
func (b watching) add(ctx context.Context, to *telemetry.Record, at, from *session, sent telemetry.Window) {
	var err error
	var w telemetry.Window
	if sent.Known() { // else the sender may be out of reach
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		here, errHere := at.agent.Ahead(asking)
		there, errThere := from.agent.Ahead(asking)
		cancel()
		if err = errors.Join(errHere, errThere); err == nil {
			w = sent.By(here - there)
		}
	}
	gpus := b.end(ctx, w)
	if to == nil || gpus == nil {
		return
	}
	to.Add(gpus, b.host.Name)
	if err != nil {
		const unknown = "the GPU readings of %s cannot be matched to the load, because its clock is not known: %v"
		to.Problems = append(to.Problems, fmt.Sprintf(unknown, b.host, err))
	}
}

// maxThrottled is the share of the readings in which a GPU may be held back.
const maxThrottled = 0.05

// throttled makes a measurement suspect when a GPU was held back by heat or by the
// hardware's power brake. Clocks at the power limit are what full load does.
func throttled(s *load.Summary, r *telemetry.Record) {
	if r == nil {
		return
	}
	from, to := 0.0, s.Duration
	if s.Window != nil {
		from, to = time.Duration(s.Window.From).Seconds(), time.Duration(s.Window.To).Seconds()
	}
	var held []string
	for _, t := range r.Series {
		if t.Name != telemetry.Throttled {
			continue
		}
		n, on := 0, 0.0
		for i, at := range t.At {
			if at >= from && at <= to {
				n, on = n+1, on+t.Value[i]
			}
		}
		if n > 0 && on/float64(n) > maxThrottled {
			held = append(held, fmt.Sprintf("%s for %.0f %%", t.Source(), 100*on/float64(n)))
		}
	}
	if len(held) > 0 {
		doubt(s, "GPUs were slowed down by heat or by the power brake: "+strings.Join(held, ", ")+" of the time")
	}
}

func doubt(s *load.Summary, reasons ...string) {
	if len(reasons) > 0 && s.Verdict.Verdict == load.Valid {
		s.Verdict.Verdict = load.Suspect
	}
	s.Verdict.Reasons = append(s.Verdict.Reasons, load.Because(reasons...)...)
}
