package apply

import (
	"context"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/results"
)

// Engines, their tools and servers repeat what they were given, with the secrets in
// it: in a log, in the answer to a request, in the line with which they die. All that
// a run tells or keeps goes through [run.event], [run.keepCell] and
// [run.keepDeployment], and there the secrets of all its engines are taken out of it,
// with whatever else is not fit for a terminal.

// secretsOf are the secrets that the engines of a plan are given, and the hub's token.
func secretsOf(p *plan.Plan, token string) plain.Secrets {
	words := []string{token}
	for _, d := range p.Deployments {
		words = append(words, engines.Secrets(d.Engine)...)
		var texts []provision.Text
		for _, in := range d.Members {
			texts = append(texts, in.Container.Texts()...)
		}
		for _, c := range d.Cells {
			switch t := c.Task.(type) {
			case *plan.Batch:
				texts = append(texts, t.Bench.Container.Texts()...)
			case *plan.Load:
				for _, header := range t.Secrets { // a key is repeated without the word before it, too
					words = append(words, header, strings.TrimPrefix(header, load.Bearer("")))
				}
			}
		}
		for _, t := range texts {
			words = append(words, t.Secrets()...)
		}
	}
	return plain.NewSecrets(words...)
}

// clean makes each of the texts fit to be told and kept.
func (r *run) clean(texts ...*string) {
	for _, t := range texts {
		*t = r.secrets.Text(*t)
	}
}

func (r *run) cleanAll(texts []string) {
	for i := range texts {
		r.clean(&texts[i])
	}
}

func (r *run) cleanListener(l *results.Listener) *results.Listener {
	if l == nil {
		return nil
	}
	c := *l
	r.clean(&c.By)
	return &c
}

// storePatience is how long after an interruption a store may take for what has cost
// money to find out.
const storePatience = 30 * time.Second

// keepCell stores a cell, and the records of its requests.
func (r *run) keepCell(ctx context.Context, out *results.Cell, records []load.Record) error {
	r.clean(&out.Error, &out.CacheReset)
	if s := out.Summary; s != nil {
		r.cleanAll(s.ErrorSamples)
		for i := range s.Verdict.Reasons {
			r.clean(&s.Verdict.Reasons[i].Text)
		}
	}
	if t := out.Telemetry; t != nil {
		r.cleanAll(t.Problems)
	}
	for i := range records {
		r.clean(&records[i].Error, &records[i].Finish)
	}
	return r.store.PutCell(ctx, *out, records)
}

// keepDeployment stores a deployment as far as it is known.
func (r *run) keepDeployment(ctx context.Context, row results.Deployment) error {
	r.clean(&row.Model)
	row.Listener = r.cleanListener(row.Listener)
	if row.Versions != nil {
		versions := make(map[string]string, len(row.Versions))
		for name, version := range row.Versions {
			versions[r.secrets.Line(name)] = r.secrets.Line(version)
		}
		row.Versions = versions
	}
	return r.store.PutDeployment(ctx, row)
}

// note tells, to whoever debugs, what could not be found out of an engine.
func (r *run) debug(what, engine string, err error) {
	r.opt.Log.Debug(what, "engine", engine, "err", r.secrets.Text(err.Error()))
}
