package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/engines"
	"hclbench/origin"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/results"
)

// FormatVersion of the JSON form: a change of the minor number adds, one of the
// major number breaks.
const FormatVersion = "2.0"

// By says what the text of a plan is grouped by.
type By string

const (
	ByHost      By = "host" // the order in which it is carried out
	ByEngine    By = "engine"
	ByBenchmark By = "benchmark"
)

// Text writes the plan for people, by host. verbose adds the command behind each
// engine.
func (p *Plan) Text(w io.Writer, verbose bool) error { return p.TextBy(w, ByHost, verbose) }

// TextBy is [Plan.Text] in another grouping.
func (p *Plan) TextBy(w io.Writer, by By, verbose bool) error {
	b := &strings.Builder{}
	n, of := p.Count(), p.Of
	if of == nil {
		of = &n
	}
	fmt.Fprintf(b, "Lab %s: %s on %s, %s.\n", p.Lab.Name,
		part(n.Deployments, of.Deployments, "deployment"), part(n.Hosts, of.Hosts, "host"), part(n.Cells, of.Cells, "cell"))
	if p.Rehearsal {
		b.WriteString("This is a rehearsal: every engine is simulated on this machine.\n")
	}
	switch by {
	case ByEngine:
		p.byEngine(b, verbose)
	case ByBenchmark:
		p.byBenchmark(b, verbose)
	default:
		p.byHost(b, verbose)
	}
	b.WriteString("\n")
	switch {
	case n.Cells == 0:
		b.WriteString("Nothing to measure: the lab has no cells.\n")
	case n.Done == n.Cells && p.Of == nil:
		fmt.Fprintf(b, "Up to date: all %s are measured. `hcl report` shows them; --rerun measures again.\n", count(n.Cells, "cell"))
	case n.Done == n.Cells:
		fmt.Fprintf(b, "Up to date: picked %d of %s, and all that is picked is measured. `hcl report` shows it; --rerun measures again.\n", n.Cells, count(of.Cells, "cell"))
	default:
		fmt.Fprintf(b, "Plan: %d to measure", n.Measure)
		if n.Stale > 0 {
			fmt.Fprintf(b, " (%d stale)", n.Stale)
		}
		fmt.Fprintf(b, ", %d up to date; %s of an engine.\n", n.Done, count(n.Starts, "start"))
		if e := p.Estimate(); e != nil {
			fmt.Fprintf(b, "%s\n", e)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Plan) byHost(b *strings.Builder, verbose bool) {
	for _, h := range p.Hosts {
		fmt.Fprintf(b, "\n%s\n", describe(h))
		if !p.Rehearsal && p.works(h) {
			for _, step := range h.Prepare.Steps(h.GPUs) {
				fmt.Fprintf(b, "  ! %s\n", step)
			}
		}
		for _, d := range p.Deployments {
			if d.Host() == h {
				d.text(b, d.Engine.Address(), "", verbose)
			} else if slices.Contains(d.hosts(d.Cells), h) {
				fmt.Fprintf(b, "\n  sends load to %s on host %s\n", d.Engine.Address(), d.Host().Name)
			}
		}
	}
}

// works reports whether anything is measured on a host.
func (p *Plan) works(h *provision.Host) bool {
	return slices.ContainsFunc(p.Deployments, func(d *Deployment) bool {
		return len(d.ToDo()) > 0 && slices.Contains(d.Hosts(), h)
	})
}

// byEngine brings together what an engine block became: it is several
// deployments when it uses matrix.*.
func (p *Plan) byEngine(b *strings.Builder, verbose bool) {
	there := newNames()
	for _, d := range p.Deployments {
		there.add(d.Engine.Address())
	}
	for _, address := range there.list {
		fmt.Fprintf(b, "\n%s\n", address)
		for _, d := range p.Deployments {
			if d.Engine.Address() == address {
				d.text(b, "host "+d.Host().Name, "", verbose)
			}
		}
	}
}

func (p *Plan) byBenchmark(b *strings.Builder, verbose bool) {
	there := newNames()
	for _, c := range p.cells() {
		there.add(c.Benchmark)
	}
	for _, name := range there.list {
		fmt.Fprintf(b, "\nbenchmark %s\n", name)
		for _, d := range p.Deployments {
			if slices.ContainsFunc(d.Cells, func(c *Cell) bool { return c.Benchmark == name }) {
				d.text(b, d.Engine.Address()+" on host "+d.Host().Name, name, verbose)
			}
		}
	}
}

// part is "3 cells", or "3 of 12 cells" of a restricted plan.
func part(n, of int, what string) string {
	if n == of {
		return count(n, what)
	}
	return fmt.Sprintf("%d of %s", n, count(of, what))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func describe(h *provision.Host) string {
	s := fmt.Sprintf("host %s (%s", h.Name, h.Address)
	if g := h.GPUs.String(); g != "" {
		s += ", " + g
	}
	return s + ")"
}

// text writes a deployment under a title. only, when it is not empty, is the one
// benchmark whose cells are shown.
func (d *Deployment) text(b *strings.Builder, title, only string, verbose bool) {
	e := d.Engine
	fmt.Fprintf(b, "\n  %s  %s", title, d.ID)
	switch {
	case e.Image != "":
		b.WriteString("  " + shortImage(e.Image))
	case e.URL != "":
		b.WriteString("  " + e.URL)
	}
	b.WriteString("\n")
	if m := e.Model; m != nil && m.Download && engines.Real(e) {
		size := ""
		if m.Size > 0 {
			size = fmt.Sprintf(" (%.0f GB)", float64(m.Size)/1e9)
		}
		fmt.Fprintf(b, "    fetched first, unless it is there: %s%s, into %s\n", m.Repo, size, m.Cache)
	}
	if verbose {
		if build, _, ok := engines.BuildContainer(e); ok {
			fmt.Fprintf(b, "    built first, unless its output is there:\n    %s\n", docker.Run(build))
		}
		for _, in := range d.Members {
			for _, f := range in.Container.Files {
				fmt.Fprintf(b, "    %s:\n      %s\n", f.Name, strings.ReplaceAll(strings.TrimSpace(f.Text.String()), "\n", "\n      "))
			}
			fmt.Fprintf(b, "    %s\n", d.line(in.Container))
		}
	}
	if i := slices.IndexFunc(d.Cells, func(c *Cell) bool { return c.From() != nil }); i >= 0 && len(d.Members) > 0 {
		fmt.Fprintf(b, "    open to the network at %s, for the hosts that load is sent from\n", d.Cells[i].Load().Target.BaseURL)
	}
	benchmark := ""
	var shared []string
	for _, c := range d.Cells {
		if only != "" && c.Benchmark != only {
			continue
		}
		if c.Benchmark != benchmark {
			benchmark = c.Benchmark
			if only == "" {
				fmt.Fprintf(b, "    benchmark %s\n", benchmark)
			}
			shared = common(d.of(benchmark))
			fmt.Fprintf(b, "      load: %s\n", said(shared))
		}
		fmt.Fprintf(b, "      %s %s", map[Status]string{Measure: "+", Stale: "~", Done: "="}[c.Status], c.label())
		if h := c.From(); h != nil {
			fmt.Fprintf(b, " from host %s", h.Name)
		}
		switch {
		case c.Status == Done:
			b.WriteString("  up to date: " + c.Why)
		case c.Status == Stale:
			b.WriteString("  stale: " + c.Why)
		case c.Why != "":
			b.WriteString("  " + c.Why)
		}
		b.WriteString("\n")
		if own := c.differs(shared); verbose && own != "" {
			fmt.Fprintf(b, "        load: %s\n", own)
		}
		if t := c.Batch(); verbose && t != nil {
			fmt.Fprintf(b, "        %s\n", d.line(t.Bench.Container))
		}
	}
}

// of are the deployment's cells of a benchmark.
func (d *Deployment) of(benchmark string) []*Cell {
	return slices.DeleteFunc(slices.Clone(d.Cells), func(c *Cell) bool { return c.Benchmark != benchmark })
}

// shortImage is an image with the first digits of its digest: a whole one pushes
// everything else out of the line.
func shortImage(image string) string {
	const digits = len("sha256:") + 12
	ref, err := origin.ParseRef(image)
	if err != nil || !ref.Pinned() {
		return image
	}
	ref.Digest = ref.Digest[:digits]
	return ref.String()
}

// line is how a person would start the container, or the process.
func (d *Deployment) line(ct provision.Container) string {
	if engines.Runtime(d.Engine) == provision.Docker {
		return docker.Run(ct)
	}
	var out []string
	for _, w := range argv(ct) {
		out = append(out, w.String())
	}
	return strings.Join(out, " ")
}

func argv(ct provision.Container) []provision.Text {
	return append(slices.Clone(ct.Entrypoint), ct.Command...)
}

// label is the cell's coordinates without the engine, which the lines above say.
func (c *Cell) label() string {
	var parts []string
	for _, a := range c.Axes {
		if a.Name != "engine" {
			parts = append(parts, fmt.Sprintf("%s=%v", a.Name, a.Value))
		}
	}
	if c.Repetition > 1 {
		parts = append(parts, fmt.Sprintf("repetition=%d", c.Repetition))
	}
	if len(parts) == 0 {
		return "one cell"
	}
	return strings.Join(parts, " ")
}

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
	Deployments   []jsonDeployment `json:"deployments"`
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
	Command   []provision.Text     `json:"command,omitempty"`
	Container *provision.Container `json:"container,omitempty"`
	Cells     []jsonCell           `json:"cells"`
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
}

// JSON writes the plan for programs; docs/plan.md describes the members.
func (p *Plan) JSON(w io.Writer) error {
	out := jsonPlan{FormatVersion: FormatVersion, Lab: p.Lab.Name, Rehearsal: p.Rehearsal, Only: p.Only, Targets: p.Targets, Summary: p.Count(), Of: p.Of, Estimate: p.Estimate(), Deployments: []jsonDeployment{}}
	for _, h := range p.Hosts {
		if h.Prepare != nil && !p.Rehearsal && p.works(h) {
			out.Prepare = append(out.Prepare, jsonPrepare{h.Name, *h.Prepare, h.Prepare.Steps(h.GPUs)})
		}
	}
	for _, d := range p.Deployments {
		jd := jsonDeployment{ID: d.ID, Host: d.Host().Name, Engine: d.Engine.Label(), Image: d.Engine.Image, URL: d.Engine.URL, Cells: []jsonCell{}}
		for _, in := range d.Members {
			jd.Command = argv(in.Container)
			if in.Runtime == provision.Docker {
				ct := in.Container
				jd.Container = &ct
			}
		}
		for _, c := range d.Cells {
			jc := jsonCell{ID: c.ID, Benchmark: c.Benchmark, Axes: c.Axes, Repetition: c.Repetition, Status: c.Status, Why: c.Why, Load: c.Task.Stored().Work()}
			switch t := c.Task.(type) {
			case *Load:
				if t.From != nil {
					jc.From, jc.URL = t.From.Name, t.Target.BaseURL
				}
			case *Batch:
				jc.Command = argv(t.Bench.Container)
			}
			jd.Cells = append(jd.Cells, jc)
		}
		out.Deployments = append(out.Deployments, jd)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
