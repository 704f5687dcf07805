package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/telemetry"
)

// readWhile says what is read while a cell of the deployment is measured: by the
// job that sends its load, the host that it is sent from and what the engine
// exports; and the GPUs that the engine has, by a watch of their host's where the
// load comes from another or there is none.
func readWhile(d *plan.Deployment, c *plan.Cell) (job, watch telemetry.Plan) {
	gpus := gpusRead(d)
	if c.Batch() != nil {
		return job, telemetry.Plan{Host: true, GPUs: gpus}
	}
	job = telemetry.Plan{Host: true, Engine: engines.Exports(d.Engine)}
	if c.From() == nil {
		job.GPUs = gpus
		return job, watch
	}
	if job.Engine != nil {
		job.Engine.URL = strings.Replace(job.Engine.URL, engines.BaseURL(d.Engine), c.Load().Target.BaseURL, 1)
	}
	watch.GPUs = gpus
	return job, watch
}

// gpusRead are the GPUs that a deployment's engine has, nil for none. A simulated
// engine has none, nor has one that somebody else runs.
func gpusRead(d *plan.Deployment) *telemetry.GPUs {
	gpus := d.Host().GPUs
	if len(d.Members) == 0 || gpus.Count == 0 || d.Engine.Kind == engines.Sim {
		return nil
	}
	if only := d.Engine.Container.GPUIDs; len(only) > 0 {
		return &telemetry.GPUs{Vendor: string(gpus.Vendor), Count: len(only), Only: only}
	}
	return &telemetry.GPUs{Vendor: string(gpus.Vendor), Count: gpus.Count}
}

// watch begins to read on the host what a plan says, and returns how that is ended.
// What goes wrong is a problem of the record and never of the measurement. The
// record is nil when the plan asks for nothing.
func (s *site) watch(ctx context.Context, id string, p telemetry.Plan) (end func(context.Context, telemetry.Window) *telemetry.Record) {
	if p == (telemetry.Plan{}) {
		return func(context.Context, telemetry.Window) *telemetry.Record { return nil }
	}
	begun := s.agent.Watch(ctx, id, p)
	return func(ctx context.Context, w telemetry.Window) *telemetry.Record {
		r, err := s.agent.EndWatch(ctx, id, w)
		if begun != nil {
			err = begun
		}
		if err != nil {
			return &telemetry.Record{Interval: telemetry.Interval.Seconds(), Problems: []string{err.Error()}}
		}
		return r
	}
}

// addWatch ends a watch of this host and adds what it has read to the record of the
// job that has sent the load from another, whose clock says when that was.
func (s *site) addWatch(ctx context.Context, to *telemetry.Record, end func(context.Context, telemetry.Window) *telemetry.Record, from *site, sent telemetry.Window) {
	var err error
	w := telemetry.Window{}
	if sent.Known() { // else the sender may be out of reach
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		here, errHere := s.agent.Ahead(asking)
		there, errThere := from.agent.Ahead(asking)
		cancel()
		if err = errors.Join(errHere, errThere); err == nil {
			w = sent.By(here - there)
		}
	}
	gpus := end(ctx, w)
	if to == nil || gpus == nil {
		return
	}
	to.Add(gpus)
	if err != nil {
		to.Problems = append(to.Problems, fmt.Sprintf("what the GPUs of %s did cannot be set beside the load: its clock is not known: %v", s.host, err))
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
			held = append(held, fmt.Sprintf("%s for %.0f %%", t.Of, 100*on/float64(n)))
		}
	}
	if len(held) > 0 {
		doubt(s, "GPUs were slowed down by heat or by the power brake: "+strings.Join(held, ", ")+" of the time")
	}
}

// doubt makes a measurement suspect for the reasons given.
func doubt(s *load.Summary, reasons ...string) {
	if len(reasons) > 0 && s.Verdict.Verdict == load.Valid {
		s.Verdict.Verdict = load.Suspect
	}
	s.Verdict.Reasons = append(s.Verdict.Reasons, load.Because(reasons...)...)
}
