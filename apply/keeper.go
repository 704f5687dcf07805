package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/accuracy"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/rent"
	"hclbench/results"
)

// Engines, their tools and servers repeat what they were given, with the secrets in
// it: in a log, in the answer to a request, in the line with which they die. All that
// a run tells or keeps goes through [run.told] and a [keeper], and there the secrets of
// all its engines are taken out of it, with whatever else is not fit for a terminal.

// secretsOf are the secrets that the engines of a plan are given, and the hub's token.
func secretsOf(p *plan.Plan, token string) plain.Secrets {
	words := []string{token}
	all := slices.Clone(p.Deployments)
	for _, t := range p.Tunes {
		all = append(all, t.Hold)
		for _, stage := range t.Stages {
			for _, o := range stage.Options {
				for _, f := range o.Override.Flags {
					if f.Value != nil && f.Value.IsSecret() {
						words = append(words, f.Value.Reveal())
					}
				}
				for _, v := range o.Override.Env {
					if v.Value.IsSecret() {
						words = append(words, v.Value.Reveal())
					}
				}
			}
		}
	}
	for _, d := range all {
		words = append(words, engines.Secrets(d.Engine)...)
		var texts []*provision.Text
		for _, in := range d.Members {
			texts = append(texts, in.Container.Texts()...)
		}
		for _, c := range d.Cells {
			if b := c.Batch(); b != nil {
				texts = append(texts, b.Bench.Container.Texts()...)
			}
			if l := c.Load(); l != nil {
				for _, header := range l.Secrets { // a key is repeated without the word before it, too
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

// keeper puts what a run finds out into the store. An interruption does not end that:
// it has cost what it has cost. What cannot be kept is the failure of the whole run,
// since what follows could not be kept either, and costs money.
type keeper struct {
	store   *results.Store
	run     string
	secrets plain.Secrets
}

// storePatience is how long after an interruption a store may take for what has cost
// money to find out.
const storePatience = 30 * time.Second

func (k *keeper) clean(texts ...*string) {
	for _, t := range texts {
		*t = k.secrets.Text(*t)
	}
}

// hide takes secrets out of an answer that is not marked yet, and changes nothing else of it.
func (k *keeper) hide(r *accuracy.Reply) {
	texts := []*string{&r.Text, &r.Reasoning}
	for i := range r.Calls {
		texts = append(texts, &r.Calls[i].Name, &r.Calls[i].Arguments)
	}
	for _, t := range texts {
		*t = k.secrets.Hide(*t)
	}
}

func (k *keeper) cell(ctx context.Context, out *results.Cell, records []load.Record) error {
	k.clean(&out.Error, &out.CacheReset)
	if s := out.Summary; s != nil {
		parts := s.Parts()
		for i := range s.Clients {
			parts = append(parts, &s.Clients[i].Part)
		}
		for _, p := range parts {
			for i := range p.ErrorSamples {
				k.clean(&p.ErrorSamples[i])
			}
			for i := range p.Verdict.Reasons {
				k.clean(&p.Verdict.Reasons[i].Text)
			}
		}
	}
	if t := out.Telemetry; t != nil {
		for i := range t.Problems {
			k.clean(&t.Problems[i])
		}
		for i := range t.Counts {
			k.clean(&t.Counts[i].Label)
		}
	}
	for i := range records {
		k.clean(&records[i].Error, &records[i].Finish)
		records[i].Said = nil // which an answer has, if any
	}
	if out.Accuracy != nil {
		for i := range out.Accuracy.Answers {
			a := &out.Accuracy.Answers[i]
			k.clean(&a.Error, &a.Finish, &a.Extracted, &a.Text, &a.Reasoning)
			for j := range a.Calls {
				k.clean(&a.Calls[j].Name, &a.Calls[j].Arguments)
			}
		}
	}
	ctx, done := flow.Beyond(ctx, storePatience)
	defer done()
	if err := k.store.PutCell(ctx, *out, records); err != nil {
		return failed(ofRun, nil, fmt.Errorf("keep cell %s of benchmark %s: %w", out.ID, out.Benchmark, err))
	}
	return nil
}

func (k *keeper) capacity(ctx context.Context, c results.Capacity) error {
	k.clean(&c.Outcome.Flaw)
	for i := range c.Outcome.Loads {
		k.clean(&c.Outcome.Loads[i].Doubt)
	}
	ctx, done := flow.Beyond(ctx, storePatience)
	defer done()
	return failed(ofRun, nil, k.store.PutCapacity(ctx, c))
}

func (k *keeper) deployment(ctx context.Context, row results.Deployment) error {
	k.clean(&row.Model)
	ctx, done := flow.Beyond(ctx, storePatience)
	defer done()
	return failed(ofRun, nil, k.store.PutDeployment(ctx, row))
}

// stays keeps what the lab's runs have had of rented boxes.
func (k *keeper) stays(ctx context.Context, rentals *rent.Journal) error {
	ctx, done := flow.Beyond(ctx, storePatience)
	defer done()
	return failed(ofRun, nil, KeepStays(ctx, k.store, rentals))
}

// KeepStays keeps with the runs of a store what they have had of rented boxes, as the lab's journal knows it by now: a box that
// one run has left is taken, or given back, by another. rentals may be nil.
func KeepStays(ctx context.Context, store *results.Store, rentals *rent.Journal) error {
	if rentals == nil {
		return nil
	}
	all, err := rentals.Rentals()
	if err != nil || len(all) == 0 {
		return err
	}
	known, err := store.Stays(ctx, "")
	runs, wrong := store.Runs(ctx)
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	now := time.Now()
	for _, t := range all {
		if t.Box.ID == "" { // nobody has seen one
			continue
		}
		for i, share := range t.Account(now) {
			at := func(t time.Time) time.Time { return t.UTC().Round(0) } // as it is stored
			stay := results.Stay{
				RunID: share.Run, Request: t.Request, Host: t.Host, Plugin: t.Plugin, Box: t.Box.ID, Price: share.Price, Began: at(share.From),
				Up: at(share.Up), Ready: at(share.Ready), Ended: at(share.Until), Closed: i+1 < len(t.Shares) || !t.Open(), Cost: share.Cost, Told: share.Told,
			}
			if slices.ContainsFunc(runs, func(r results.Run) bool { return r.ID == share.Run }) && !slices.Contains(known, stay) {
				err = errors.Join(err, store.PutStay(ctx, stay))
			}
		}
	}
	return err
}

func (k *keeper) log(ctx context.Context, engine string, text []byte) error {
	name := fmt.Sprintf("logs/%s-%s.log", engine, time.Now().UTC().Format("20060102-150405.000"))
	return k.store.PutInputs(ctx, k.run, map[string][]byte{name: []byte(k.secrets.Text(string(text)))})
}
