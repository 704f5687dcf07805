package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
)

// Status says what apply does with a cell.
type Status string

const (
	Measure Status = "measure" // there is no measurement of it
	Done    Status = "done"    // there is one, with the same identity
	Stale   Status = "stale"   // there is one, of something else: Why tells the difference
)

// Cell is one measurement.
type Cell struct {
	ID         string // of the measurement; of one that is done the id in the store
	Group      string // the id of all the repetitions of the cell together
	Benchmark  string
	Axes       results.Axes
	Repetition int // from 1
	Task       Task
	Status     Status
	Why        string // of the status, for people: "measured 2026-11-20, suspect: …", "--tp 8 → 4"
	Run        string // that has measured it, of one that is done
	// Of a cell that is done, as far as they are known: the images that it was measured with,
	// by role, and what its hosts were then.
	Digests map[string]string
	Facts   map[*provision.Host]*provision.Facts
	// HostChanged says, of a cell that is done, in what its hosts are not as they were then, as
	// far as they were seen since.
	HostChanged []string

	deployment *Deployment
	load       loadIdentity
	occurrence int           // from 1: of equal loads on the same deployment
	takes      time.Duration // estimated; 0: not known
	measured   string        // when it last was, as Why says it; empty: never
}

func cell(d *Deployment, b hcl.Benchmark, c hcl.Cell, out *Cell) *Cell {
	out.Benchmark, out.deployment = b.Name, d
	var err error
	if out.Task, err = newTask(d.Engine, b, c, out.seed()); err != nil {
		panic(fmt.Sprintf("plan a cell of benchmark %s: %v. The text was checked: this is a bug in hcl.", b.Name, err))
	}
	for _, a := range c.Axes {
		out.Axes = append(out.Axes, results.Axis(a))
	}
	return out
}

// text is the form in which the store gives a cell's axes.
func text(a results.Axes) string {
	b, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("marshal axes: %v. This is a bug in hcl.", err))
	}
	return string(b)
}

// Task is what a cell does: a [*Load], a [*Batch], a [*Search] or an [*Eval], and nothing else.
type Task interface {
	// Stored is the task as results keep it.
	Stored() results.Task
	// words say it to people: as many in the same order for every task, of which empty ones say nothing.
	words() []string
}

// Load is requests that are sent to the deployment's server.
type Load struct {
	load.Job
	From []*provision.Host // where they are sent from, by all together; nil: the host of the deployment
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

// Load is what the cell sends, of a search without what that says itself, and of an eval without the questions; nil: nothing.
func (c *Cell) Load() *Load {
	switch t := c.Task.(type) {
	case *Load:
		return t
	case *Search:
		return &t.Load
	case *Eval:
		return &t.Load
	}
	return nil
}

// Batch is the cell's task when it is one; else nil.
func (c *Cell) Batch() *Batch {
	b, _ := c.Task.(*Batch)
	return b
}

// From are the hosts that the cell's load is sent from; nil: the deployment's, or nothing
// is sent.
func (c *Cell) From() []*provision.Host {
	if l := c.Load(); l != nil {
		return l.From
	}
	return nil
}

// clients are the names of the hosts that the load is sent from, where it says them.
func (c *Cell) clients() []string { return hostNames(c.From()) }

// sentFrom is " from host client", " from hosts c0, c1", or nothing.
func (c *Cell) sentFrom() string {
	switch there := c.clients(); len(there) {
	case 0:
		return ""
	case 1:
		return " from host " + there[0]
	default:
		return " from hosts " + strings.Join(there, ", ")
	}
}

func newTask(e *engines.Engine, b hcl.Benchmark, c hcl.Cell, seed uint64) (Task, error) {
	if c.Offline {
		bench, err := c.Bench(seed)
		if err != nil {
			return nil, err
		}
		started := cmp.Or(strings.Join(e.OfflineCommand, " "), bench.Tool)
		return &Batch{batchOf(c), seed, engines.ServedModel(e), bench, started}, nil
	}
	target, err := targetOf(e, c.From)
	if err != nil {
		return nil, err
	}
	job := load.Job{Target: target, Workload: c.Workload, Seed: seed, Percentiles: b.Percentiles}
	job.Target.Headers, job.Secrets = headers(e.APIKey, c.Headers)
	if c.Asks != nil {
		return newEval(Load{job, c.From}, *c.Asks, c.Engine), nil
	}
	if c.Capacity != nil {
		return newSearch(Load{job, c.From}, *c.Capacity)
	}
	return &Load{job, c.From}, nil
}

// targetOf is where load on an engine goes: from hosts, or, of none, from its own.
func targetOf(e *engines.Engine, hosts []*provision.Host) (load.Target, error) {
	target := load.Target{BaseURL: engines.BaseURL(e), BaseURLs: engines.MoreURLs(e), Model: engines.ServedModel(e)}
	var from *provision.Host // of several, none is a host of the engine: what one reaches all do
	if len(hosts) > 0 {
		from = hosts[0]
		urls, err := engines.RemoteURLs(e, from)
		if err != nil {
			return target, fmt.Errorf("load from host %s on %s: %w", from.Name, e, err)
		}
		target.BaseURL, target.BaseURLs = urls[0], urls[1:]
	}
	target.TokenizeURL = engines.TokenizeURL(e, from)
	return target, nil
}

func batchOf(c hcl.Cell) load.Batch {
	w := c.Workload
	return load.Batch{Dataset: w.Dataset, Requests: w.Requests, OutputTokens: w.OutputTokens}
}

// sentTo is the cell whose load goes to its engine where that is by now, and whose hosts have places.
func (c *Cell) sentTo(e *engines.Engine, place func(*provision.Host) *provision.Host) *Cell {
	l := c.Load()
	if l == nil {
		return c
	}
	var from []*provision.Host
	for _, h := range l.From {
		from = append(from, place(h))
	}
	to, err := targetOf(e, from)
	if err != nil {
		panic(fmt.Sprintf("%v, which was planned. This is a bug in hcl.", err))
	}
	out := *c
	to.Headers = l.Target.Headers
	switch t := c.Task.(type) {
	case *Load:
		sent := *t
		sent.Target, out.Task = to, &sent
	case *Search:
		sent := *t
		sent.Target, out.Task = to, &sent
	case *Eval:
		sent := *t
		sent.Target, out.Task = to, &sent
	}
	return &out
}

// headers splits what the load is sent with into what may be written down and the
// secrets, which never are.
func headers(key provision.Text, all []provision.EnvVar) (plain, secrets map[string]string) {
	plain, secrets = map[string]string{}, map[string]string{}
	if k := key.Reveal(); k != "" {
		secrets[load.Authorization] = load.Bearer(k)
	}
	for _, h := range all {
		if h.Value.IsSecret() {
			secrets[h.Name] = h.Value.Reveal()
		} else {
			plain[h.Name] = h.Value.Reveal()
		}
	}
	return plain, secrets
}

// Stored implements [Task].
func (l *Load) Stored() results.Task { return results.Task{Job: l.Job} }

func (l *Load) words() []string { return append([]string{""}, l.Workload.Told()...) }

// Stored implements [Task].
func (b *Batch) Stored() results.Task {
	return results.Task{Job: load.Job{Target: load.Target{Model: b.Model}, Seed: b.Seed}, Batch: &b.Batch}
}

func (b *Batch) words() []string {
	w := b.Prompts(b.Seed).Workload
	w.IgnoreEOS, w.Endpoint = true, ""
	return append([]string{"offline"}, w.Told()...)
}
