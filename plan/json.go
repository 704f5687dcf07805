package plan

import (
	"encoding/json"
	"io"
	"strings"

	"hclbench/provision"
	"hclbench/results"
)

// FormatVersion of the JSON form: a change of the minor number adds, one of the
// major number breaks.
const FormatVersion = "2.6"

type jsonPlan struct {
	FormatVersion string           `json:"format_version"`
	Lab           string           `json:"lab"`
	Rehearsal     bool             `json:"rehearsal,omitempty"`
	Only          []string         `json:"only,omitempty"`
	Targets       []string         `json:"targets,omitempty"`
	Summary       Counts           `json:"summary"`
	Of            *Counts          `json:"of,omitempty"`
	Estimate      *Estimate        `json:"estimate,omitempty"`
	Prepare       []jsonPrepare    `json:"prepare,omitempty"`
	Rented        *Rented          `json:"rented,omitempty"`
	Clusters      []Cluster        `json:"clusters,omitempty"`
	Deployments   []jsonDeployment `json:"deployments"`
	Tunes         []jsonTune       `json:"tunes,omitempty"`
}

// jsonTune is a tuning. What it starts after the first is known only as it goes on.
type jsonTune struct {
	Name        string      `json:"name"`
	Objective   string      `json:"objective"` // the benchmark
	Figure      string      `json:"figure"`
	Start       string      `json:"start"`
	Stages      []jsonStage `json:"stages"`
	Loads       int         `json:"loads"`               // in each start
	Accuracy    string      `json:"accuracy,omitempty"`  // the block whose questions guard it
	Questions   int         `json:"questions,omitempty"` // of those, in a start that its loads leave in; 0: not known
	LeastStarts int         `json:"least_starts"`
	MostStarts  int         `json:"most_starts"`
	MostSeconds float64     `json:"most_seconds,omitempty"`
	MostCost    float64     `json:"most_cost_usd,omitempty"`
	Starts      int         `json:"starts"`         // so far
	Next        string      `json:"next,omitempty"` // what is started next; empty: nothing
}

type jsonStage struct {
	Name    string       `json:"name"`
	Options []jsonOption `json:"options"`
}

type jsonOption struct {
	Settings string `json:"settings"`
	Note     string `json:"note,omitempty"` // why it is not started by itself
}

// jsonPrepare is what is set on a host while it is at work.
type jsonPrepare struct {
	Host string `json:"host"`
	provision.Prepare
	Steps []string `json:"steps"`
}

type jsonDeployment struct {
	ID        string               `json:"id"`
	Host      string               `json:"host"`
	Engine    string               `json:"engine"`
	Image     string               `json:"image,omitempty"`
	URL       string               `json:"url,omitempty"`
	Without   string               `json:"without,omitempty"` // of a start for questions alone: the setting that forces acceptance
	Command   []provision.Text     `json:"command,omitempty"`
	Container *provision.Container `json:"container,omitempty"`
	Members   []jsonMember         `json:"members,omitempty"`
	Cells     []jsonCell           `json:"cells"`
}

// jsonMember is one container or process of a deployment.
type jsonMember struct {
	Role      string               `json:"role"`
	Instance  int                  `json:"instance"`
	Rank      int                  `json:"rank"`
	Host      string               `json:"host"`
	GPUIDs    []string             `json:"gpu_ids,omitempty"`
	Ports     []jsonPort           `json:"ports"`
	Command   []provision.Text     `json:"command"`
	Env       []provision.EnvVar   `json:"env,omitempty"`
	Container *provision.Container `json:"container,omitempty"`
}

type jsonPort struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	Open   bool   `json:"open,omitempty"` // to other hosts
}

type jsonCell struct {
	ID         string           `json:"id"`
	Benchmark  string           `json:"benchmark"`
	Axes       results.Axes     `json:"axes"`
	Repetition int              `json:"repetition"`
	Status     Status           `json:"status"`
	Why        string           `json:"why,omitempty"`
	From       string           `json:"from,omitempty"`
	URL        string           `json:"url,omitempty"`
	Command    []provision.Text `json:"command,omitempty"`
	Load       any              `json:"load"`
	Search     *jsonSearch      `json:"search,omitempty"`

	Accuracy  *results.Accuracy `json:"accuracy,omitempty"` // of a cell that asks questions: which, and what is held against what
	Questions int               `json:"questions,omitempty"`
}

// jsonSearch is how the load is looked for that a deployment holds.
type jsonSearch struct {
	Of            string  `json:"of"`
	Least         float64 `json:"least"` // of the range
	Most          float64 `json:"most"`
	Confidence    float64 `json:"confidence"`
	Precision     float64 `json:"precision"`
	Seconds       float64 `json:"budget_s,omitempty"`        // of measuring, at most
	Requests      float64 `json:"budget_requests,omitempty"` // or so many
	First         float64 `json:"first"`                     // load that is tried
	MostLoads     int     `json:"most_loads"`
	LeastRequests int     `json:"least_requests"` // where all is clear
	Tried         int     `json:"tried"`          // measurements of it that are there
}

func (s *Search) json() *jsonSearch {
	q := s.Question
	out := &jsonSearch{Of: q.Of(), Least: q.Least, Most: q.Most, Confidence: q.Confidence, Precision: q.Precision, Requests: q.Budget,
		First: s.first, MostLoads: s.loads, LeastRequests: s.least, Tried: len(s.Tries)}
	if q.Timed {
		out.Seconds, out.Requests = q.Budget, 0
	}
	return out
}

// JSON writes the plan for programs; docs/plan.md describes the members.
func (p *Plan) JSON(w io.Writer) error {
	out := jsonPlan{
		FormatVersion: FormatVersion, Lab: p.Lab.Name, Rehearsal: p.Rehearsal, Only: p.Only, Targets: p.Targets,
		Summary: p.Count(), Of: p.Of, Estimate: p.Estimate(), Rented: p.Rented, Clusters: p.Clusters, Deployments: []jsonDeployment{},
	}
	for _, h := range p.Hosts {
		if h.Prepare != nil && p.works(h) {
			out.Prepare = append(out.Prepare, jsonPrepare{h.Name, *h.Prepare, h.Prepare.Steps(h.GPUs)})
		}
	}
	for _, d := range p.Deployments {
		out.Deployments = append(out.Deployments, d.json())
	}
	for _, t := range p.Tunes {
		x, err := t.json()
		if err != nil {
			return err
		}
		out.Tunes = append(out.Tunes, x)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, p.Hide(b.String()))
	return err
}

func (d *Deployment) json() jsonDeployment {
	e := d.Engine
	out := jsonDeployment{ID: d.ID, Host: d.Host.Name, Engine: e.Label(), Image: e.Image, URL: e.URL, Without: e.Without, Cells: []jsonCell{}}
	for _, m := range d.Members {
		out.Members = append(out.Members, m.json())
	}
	if len(d.Members) == 1 { // it is the deployment
		out.Command, out.Container = out.Members[0].Command, out.Members[0].Container
		out.Members[0].Container = nil
	}
	for _, c := range d.Cells {
		jc := jsonCell{
			ID: c.ID, Benchmark: c.Benchmark, Axes: c.Axes, Repetition: c.Repetition,
			Status: c.Status, Why: c.Why, Load: c.Task.Stored().Work(),
		}
		if l := c.Load(); l != nil && l.From != nil {
			jc.From, jc.URL = strings.Join(c.clients(), ", "), l.Target.BaseURL
		}
		switch t := c.Task.(type) {
		case *Search:
			jc.Search = t.json()
		case *Eval:
			jc.Accuracy, jc.Questions = t.Accuracy(), t.Questions
		case *Batch:
			jc.Command = argv(t.Bench.Container)
		}
		out.Cells = append(out.Cells, jc)
	}
	return out
}

func (m Member) json() jsonMember {
	out := jsonMember{
		Role: m.Role, Instance: m.Instance, Rank: m.Rank, Host: m.Host.Name, GPUIDs: m.Engine.GPUIDs(),
		Ports: []jsonPort{}, Command: argv(m.Container), Env: m.Container.Env,
	}
	for _, p := range m.Ports {
		out.Ports = append(out.Ports, jsonPort(p))
	}
	if m.Runtime == provision.Docker {
		out.Container = &m.Container
	}
	return out
}
