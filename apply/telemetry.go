package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/apply/place"
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
// exports; and the engine's host and the GPUs that it has there, by a watch where the
// load comes from another or there is none. Of several members each host reads its
// own, and what its part of the network has transferred. What others have of a host's
// processors nobody can tell from an engine that hcl has not started.
func readWhile(d *plan.Deployment, c *plan.Cell, more ...telemetry.Exports) (job telemetry.Plan, beside []watching) {
	own := !engines.ByOthers(d.Engine)
	senders := d.Senders(c)
	from := senders[0]
	for _, h := range senders[1:] {
		if own && slices.Contains(d.Hosts, h) {
			continue // it is read as the engine's
		}
		beside = append(beside, watching{host: h, plan: telemetry.Plan{Host: true, Others: own}})
	}
	if l := c.Load(); l != nil {
		job = telemetry.Plan{Host: true, Others: own, Engines: more}
		if e := engines.Exports(d.Engine); e != nil && !d.Grouped() {
			if l.From != nil {
				for _, url := range []*string{&e.URL, &e.Loads} {
					*url = strings.Replace(*url, engines.BaseURL(d.Engine), l.Target.BaseURL, 1)
				}
			}
			job.Engines = append(job.Engines, *e)
		}
	}
	for _, h := range d.Hosts {
		p := telemetry.Plan{GPUs: gpusRead(d, h), Host: own, Others: own}
		if d.Grouped() {
			p.Engines, p.Network = exportsOn(d, h), networkOf(d, h)
		}
		switch {
		case h == from && c.Load() != nil:
			job.GPUs, job.Network, job.Engines = p.GPUs, p.Network, append(job.Engines, p.Engines...)
		case p.Host || p.GPUs != nil:
			beside = append(beside, watching{host: h, plan: p})
		}
	}
	return job, beside
}

// exportsOn is what members of a deployment of several export on a host, each asked at its own
// server.
func exportsOn(d *plan.Deployment, h *provision.Host) (all []telemetry.Exports) {
	for _, m := range d.Members {
		e := engines.Exports(m.Engine)
		if m.Engine.Router {
			e = engines.Counts(m.Member)
		}
		if m.Host != h || e == nil || !m.Answers {
			continue
		}
		e.Of = m.Name()
		engines.OfRole(e, m.Role)
		all = append(all, *e)
	}
	return all
}

// networkOf are the devices by which a host's members reach those on others; none where all are on one.
func networkOf(d *plan.Deployment, h *provision.Host) []string {
	var f provision.Fabric
	for _, m := range d.Members {
		if m.Host == h {
			f = m.Fabric
		}
	}
	if f.Interface == "" {
		return f.RDMA
	}
	return append(slices.Clone(f.RDMA), f.Interface)
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
		ids := m.Engine.GPUIDs()
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

// endWatch ends what is read, and returns what was read in a window of it.
type endWatch func(context.Context, telemetry.Window) *telemetry.Record

// watch begins to read on the host. What goes wrong is a problem of the record.
func watch(ctx context.Context, s *place.Session, id string, p telemetry.Plan) endWatch {
	begun := s.Agent.Watch(ctx, id, p)
	return func(ctx context.Context, w telemetry.Window) *telemetry.Record {
		r, err := s.Agent.EndWatch(ctx, id, w)
		if err = cmp.Or(begun, err); err != nil {
			return &telemetry.Record{Interval: telemetry.Interval.Seconds(), Problems: []string{err.Error()}}
		}
		return r
	}
}

// read ends a watch and returns what it has read; nil: nothing was asked for.
func (b watching) read(ctx context.Context, at, from *place.Session, sent telemetry.Window) *telemetry.Record {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(at.Held, end)() // of a host that is lost nothing comes any more
	var err error
	var w telemetry.Window
	if sent.Known() { // else the sender may be out of reach
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		here, errHere := at.Agent.Ahead(asking)
		there, errThere := from.Agent.Ahead(asking)
		cancel()
		if err = errors.Join(errHere, errThere); err == nil {
			w = sent.By(here - there)
		}
	}
	r := b.end(ctx, w)
	if r == nil {
		return nil
	}
	if err != nil {
		const unknown = "the readings of %s cannot be matched to the load, because its clock is not known: %v"
		r.Problems = append(r.Problems, fmt.Sprintf(unknown, b.host, err))
	}
	if g := b.plan.GPUs; g != nil && r.Expected == 0 { // all that were due are missing
		r.Expected = g.Count * max(1, int(sent.To.Sub(sent.From)/telemetry.Interval))
		r.Missing = r.Expected
	}
	return r
}

// maxThrottled is the share of the readings in which a GPU may be held back.
const maxThrottled = 0.05

// throttled makes a measurement suspect when a GPU was held back by heat or by the
// hardware's power brake. Clocks at the power limit are what full load does.
func throttled(s *load.Summary, r *telemetry.Record) {
	if r == nil {
		return
	}
	var held []string
	for _, t := range r.Series {
		if on, n := meanOf(t, s); t.Name == telemetry.Throttled && n > 0 && on > maxThrottled {
			held = append(held, fmt.Sprintf("%s for %.0f %%", t.Source(), 100*on))
		}
	}
	if len(held) > 0 {
		doubt(s, load.Because(load.CodeThrottled, "GPUs were slowed down by heat or by the power brake: "+strings.Join(held, ", ")+" of the time")...)
	}
}

// meanOf is the mean of a series over the part of the run that counts, and of how many readings.
func meanOf(t telemetry.Series, s *load.Summary) (mean float64, n int) {
	from, to := 0.0, s.Duration
	if s.Window != nil {
		from, to = time.Duration(s.Window.From).Seconds(), time.Duration(s.Window.To).Seconds()
	}
	sum := 0.0
	for i, at := range t.At {
		if at >= from && at <= to {
			n, sum = n+1, sum+t.Value[i]
		}
	}
	return sum / float64(max(n, 1)), n
}

// What a host's processors may be short of, in percent; docs/method.md gives the reasons.
const (
	maxSteal     = 5 // and others' share, where all processors are busy
	maxOthers    = 10
	maxBusy      = 95 // of the processors, while
	maxPressure  = 90 // of the time something waits for one
	leastReading = 10 // readings
)

// crowded makes a measurement suspect on whose host others than the engine and hcl had processors. What an engine alone
// keeps busy is no reason, where it is known which part that is. Of an engine simulated at a speed, 0 being as it is,
// all this says nothing, as with all that the generator is short of.
func crowded(s *load.Summary, r *telemetry.Record, speed float64) {
	if r == nil || speed != 0 {
		return
	}
	hosts := map[string]map[string]float64{} // means, by host and series
	for _, t := range r.Series {
		mean, n := meanOf(t, s)
		if t.Of != telemetry.Host || n < leastReading {
			continue
		}
		name := cmp.Or(t.Host, "the host that sends the load")
		if hosts[name] == nil {
			hosts[name] = map[string]float64{}
		}
		hosts[name][t.Name] = mean
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		h := hosts[name]
		busy, pressure := h[telemetry.CPU], h[telemetry.Pressure]
		full := ""
		if busy > maxBusy && pressure > maxPressure {
			full = fmt.Sprintf("the processors of %s were all busy (%.0f %%), and for %.0f %% of the time something waited for them", name, busy, pressure)
		}
		if steal := h[telemetry.Steal]; steal > maxSteal {
			doubt(s, load.Because(load.CodeSteal, fmt.Sprintf("other machines had %.0f %% of the processors of %s meanwhile (steal)", steal, name))...)
		}
		switch others, known := h[telemetry.Others]; {
		case !known && full != "":
			doubt(s, load.Because(load.CodeBusy, full+": see what else runs there")...)
		case others > maxSteal && full != "":
			doubt(s, load.Because(load.CodeBusy, fmt.Sprintf("%s: %.0f %% of them worked for neither the engine nor hcl; see what else runs there", full, others))...)
		case others > maxOthers:
			doubt(s, load.Because(load.CodeBusy, fmt.Sprintf("%.0f %% of the processors of %s worked for neither the engine nor hcl: see what else runs there", others, name))...)
		}
	}
}

// doubt makes a measurement suspect for reasons that were found beside its load.
func doubt(s *load.Summary, reasons ...load.Reason) {
	if len(reasons) > 0 && s.Verdict.Verdict == load.Valid {
		s.Verdict.Verdict = load.Suspect
	}
	s.Verdict.Reasons = append(s.Verdict.Reasons, reasons...)
}
