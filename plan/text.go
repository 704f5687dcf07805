package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/engines"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/docker"
)

// By says what the text of a plan is grouped by.
type By string

const (
	ByHost      By = "host" // the order in which it is carried out
	ByEngine    By = "engine"
	ByBenchmark By = "benchmark"
)

// Text writes the plan for people. verbose adds the command behind each engine.
func (p *Plan) Text(w io.Writer, by By, verbose bool) error {
	t := &printer{verbose: verbose}
	n := p.Count()
	of := cmp.Or(p.Of, &n)
	t.f("Lab %s: %s on %s, %s.\n", p.Lab.Name,
		part(n.Deployments, of.Deployments, "deployment"), part(n.Hosts, of.Hosts, "host"), part(n.Cells, of.Cells, "cell"))
	if p.Rehearsal {
		t.f("This is a rehearsal: every engine is simulated on this machine.\n")
	}
	switch by {
	case ByEngine:
		t.byEngine(p)
	case ByBenchmark:
		t.byBenchmark(p)
	default:
		t.byHost(p)
	}
	t.f("\n%s\n", p.outcome(n, of))
	_, err := io.WriteString(w, t.String())
	return err
}

// outcome is what comes of the plan, in a sentence or two.
func (p *Plan) outcome(n Counts, of *Counts) string {
	switch {
	case n.Cells == 0:
		return "Nothing to measure: the lab has no cells."
	case n.Done == n.Cells && p.Of == nil:
		return fmt.Sprintf("Up to date: all %s are measured. `hcl report` shows them; --rerun measures again.", plain.Count(n.Cells, "cell"))
	case n.Done == n.Cells:
		return fmt.Sprintf("Up to date: picked %d of %s, and all that is picked is measured. "+
			"`hcl report` shows it; --rerun measures again.", n.Cells, plain.Count(of.Cells, "cell"))
	}
	s := fmt.Sprintf("Plan: %d to measure", n.Measure)
	if n.Stale > 0 {
		s += fmt.Sprintf(" (%d stale)", n.Stale)
	}
	s += fmt.Sprintf(", %d up to date; %s of an engine.", n.Done, plain.Count(n.Starts, "start"))
	if e := p.Estimate(); e != nil {
		s += "\n" + e.String()
	}
	return s
}

// printer writes a plan for people.
type printer struct {
	strings.Builder
	verbose bool
}

func (t *printer) f(format string, args ...any) { fmt.Fprintf(t, format, args...) }

func (t *printer) byHost(p *Plan) {
	for _, h := range p.Hosts {
		t.f("\n%s\n", describe(h))
		if p.works(h) {
			for _, step := range h.Prepare.Steps(h.GPUs) {
				t.f("  ! %s\n", step)
			}
		}
		for _, d := range p.Deployments {
			if d.Host() == h {
				t.deployment(d, d.Engine.Address(), "")
			} else if slices.Contains(d.hosts(d.Cells), h) {
				t.f("\n  sends load to %s on host %s\n", d.Engine.Address(), d.Host().Name)
			}
		}
	}
}

// works reports whether anything is measured on a host, and so what is to be set there
// is set.
func (p *Plan) works(h *provision.Host) bool {
	return !p.Rehearsal && slices.ContainsFunc(p.Deployments, func(d *Deployment) bool {
		return len(d.ToDo()) > 0 && slices.Contains(d.Hosts(), h)
	})
}

// byEngine brings together what an engine block became: it is several
// deployments when it uses matrix.*.
func (t *printer) byEngine(p *Plan) {
	var there names
	for _, d := range p.Deployments {
		there.add(d.Engine.Address())
	}
	for _, address := range there {
		t.f("\n%s\n", address)
		for _, d := range p.Deployments {
			if d.Engine.Address() == address {
				t.deployment(d, "host "+d.Host().Name, "")
			}
		}
	}
}

func (t *printer) byBenchmark(p *Plan) {
	var there names
	for _, c := range p.cells() {
		there.add(c.Benchmark)
	}
	for _, name := range there {
		t.f("\nbenchmark %s\n", name)
		for _, d := range p.Deployments {
			if len(d.of(name)) > 0 {
				t.deployment(d, d.Engine.Address()+" on host "+d.Host().Name, name)
			}
		}
	}
}

// part is "3 cells", or "3 of 12 cells" of a restricted plan.
func part(n, of int, what string) string {
	if n == of {
		return plain.Count(n, what)
	}
	return fmt.Sprintf("%d of %s", n, plain.Count(of, what))
}

func describe(h *provision.Host) string {
	s := fmt.Sprintf("host %s (%s", h.Name, h.Address)
	if g := h.GPUs.String(); g != "" {
		s += ", " + g
	}
	return s + ")"
}

// deployment writes a deployment under a title. only, when it is not empty, is the one
// benchmark whose cells are shown.
func (t *printer) deployment(d *Deployment, title, only string) {
	e := d.Engine
	t.f("\n  %s  %s", title, d.ID)
	if what := cmp.Or(shortImage(e.Image), e.URL); what != "" {
		t.f("  %s", what)
	}
	t.f("\n")
	if m := e.Model; m != nil && m.Download && engines.Real(e) {
		size := ""
		if m.Size > 0 {
			size = fmt.Sprintf(" (%.0f GB)", float64(m.Size)/1e9)
		}
		t.f("    fetched first, unless it is there: %s%s, into %s\n", m.Repo, size, m.Cache)
	}
	if t.verbose {
		t.commands(d)
	}
	open := func(c *Cell) bool { return c.From() != nil }
	if i := slices.IndexFunc(d.Cells, open); i >= 0 && len(d.Members) > 0 {
		t.f("    open to the network at %s, for the hosts that load is sent from\n", d.Cells[i].Load().Target.BaseURL)
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
				t.f("    benchmark %s\n", benchmark)
			}
			shared = common(d.of(benchmark))
			t.f("      load: %s\n", said(shared))
		}
		t.cell(c, shared)
	}
}

// commands are what is run behind a deployment.
func (t *printer) commands(d *Deployment) {
	if build, _, ok := engines.BuildContainer(d.Engine); ok {
		t.f("    built first, unless its output is there:\n    %s\n", docker.Run(build))
	}
	for _, m := range d.Members {
		for _, f := range m.Container.Files {
			text := strings.TrimSpace(f.Text.String())
			t.f("    %s:\n      %s\n", f.Name, strings.ReplaceAll(text, "\n", "\n      "))
		}
		t.f("    %s\n", d.line(m.Container))
	}
}

// cell writes a cell, of which shared says what its load has in common with others.
func (t *printer) cell(c *Cell, shared []string) {
	marks := map[Status][2]string{Measure: {"+", ""}, Stale: {"~", "stale: "}, Done: {"=", "up to date: "}}
	t.f("      %s %s", marks[c.Status][0], c.label())
	if h := c.From(); h != nil {
		t.f(" from host %s", h.Name)
	}
	if why := marks[c.Status][1] + c.Why; why != "" {
		t.f("  %s", why)
	}
	t.f("\n")
	if !t.verbose {
		return
	}
	if own := c.differs(shared); own != "" {
		t.f("        load: %s\n", own)
	}
	if b := c.Batch(); b != nil {
		t.f("        %s\n", c.deployment.line(b.Bench.Container))
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
