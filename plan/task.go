package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
)

// Task is what a cell does: a [*Load] or a [*Batch], and nothing else.
type Task interface {
	// Stored is the task as results keep it.
	Stored() results.Task
	// Takes is how long it takes by its own pace; 0 where the answers decide that.
	Takes() time.Duration
	// words say it to people; see loadWords.
	words() []string
}

// Load is requests that are sent to the deployment's server.
type Load struct {
	load.Job
	From *provision.Host // where they are sent from; nil: the host of the deployment
}

// Batch is given to the engine's own benchmark, which runs in a container or process of
// its own.
type Batch struct {
	load.Batch
	Seed  uint64
	Model string // as the engine would serve it
	Bench engines.Bench

	started string // the benchmark, or the lab's command of it
}

// Load is the cell's task when it is one; else nil.
func (c *Cell) Load() *Load {
	l, _ := c.Task.(*Load)
	return l
}

// Batch is the cell's task when it is one; else nil.
func (c *Cell) Batch() *Batch {
	b, _ := c.Task.(*Batch)
	return b
}

// From is the host that the cell's load is sent from; nil: the deployment's, or nothing
// is sent.
func (c *Cell) From() *provision.Host {
	if l := c.Load(); l != nil {
		return l.From
	}
	return nil
}

// newTask is what a cell of a lab does with an engine.
func newTask(e *engines.Engine, b hcl.Benchmark, c hcl.Cell, seed uint64) (Task, error) {
	if c.Offline {
		bench, err := c.Bench(seed)
		if err != nil {
			return nil, err
		}
		started := cmp.Or(strings.Join(e.OfflineCommand, " "), bench.Tool)
		return &Batch{batchOf(c), seed, engines.ServedModel(e), bench, started}, nil
	}
	target := load.Target{BaseURL: engines.BaseURL(e), BaseURLs: engines.MoreURLs(e), Model: engines.ServedModel(e)}
	if c.From != nil {
		url, err := engines.RemoteURL(e)
		if err != nil {
			return nil, fmt.Errorf("load from host %s on %s: %w", c.From.Name, e, err)
		}
		target.BaseURL = url
	}
	l := &Load{load.Job{Target: target, Workload: c.Workload, Seed: seed, Percentiles: b.Percentiles}, c.From}
	l.addHeaders(e.APIKey, c.Headers)
	return l, nil
}

// batchOf is what of a cell's workload its engine's own benchmark is given.
func batchOf(c hcl.Cell) load.Batch {
	w := c.Workload
	return load.Batch{Dataset: w.Dataset, Requests: w.Requests, OutputTokens: w.OutputTokens}
}

// addHeaders gives the job its headers: those that are secrets apart, so that they
// are never written down.
func (l *Load) addHeaders(key provision.Text, headers []provision.EnvVar) {
	set := func(m *map[string]string, name, value string) {
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[name] = value
	}
	if k := key.Reveal(); k != "" {
		set(&l.Secrets, load.Authorization, load.Bearer(k))
	}
	for _, h := range headers {
		if h.Value.IsSecret() {
			set(&l.Secrets, h.Name, h.Value.Reveal())
		} else {
			set(&l.Target.Headers, h.Name, h.Value.Reveal())
		}
	}
}

// Stored implements [Task].
func (l *Load) Stored() results.Task { return results.Task{Job: l.Job} }

// Takes implements [Task].
func (l *Load) Takes() time.Duration { return l.Workload.Takes() }

func (l *Load) words() []string { return loadWords(l.Workload) }

// Stored implements [Task].
func (b *Batch) Stored() results.Task {
	return results.Task{Job: load.Job{Target: load.Target{Model: b.Model}, Seed: b.Seed}, Batch: &b.Batch}
}

// Takes implements [Task].
func (b *Batch) Takes() time.Duration { return 0 }

func (b *Batch) words() []string {
	w := b.Prompts(b.Seed).Workload
	w.IgnoreEOS, w.Endpoint = true, ""
	words := loadWords(w)
	words[0] = "offline"
	return words
}
