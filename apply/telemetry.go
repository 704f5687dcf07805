package apply

import (
	"fmt"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/telemetry"
)

// readWhile says what is read, where its load is sent from, while a cell of the
// deployment is measured: the host, what the engine exports, and the GPUs that it
// has. A simulated engine has none; those of another host are not read.
func readWhile(d *plan.Deployment, c *plan.Cell) telemetry.Plan {
	p := telemetry.Plan{Host: true, Engine: engines.Exports(d.Engine)}
	gpus := d.Host().GPUs
	if c.From != nil {
		if p.Engine != nil {
			p.Engine.URL = strings.Replace(p.Engine.URL, engines.BaseURL(d.Engine), c.Job.Target.BaseURL, 1)
		}
		return p
	}
	if len(d.Instances) == 0 || gpus.Count == 0 || d.Engine.Kind == engines.Sim {
		return p
	}
	p.GPUs = &telemetry.GPUs{Vendor: string(gpus.Vendor), Count: gpus.Count}
	if only := d.Engine.Container.GPUIDs; len(only) > 0 {
		p.GPUs.Only, p.GPUs.Count = only, len(only)
	}
	return p
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
	s.Verdict.Reasons = append(s.Verdict.Reasons, reasons...)
}
