package plan

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/load"
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
			} else if names := d.membersOn(h); names != "" {
				t.f("\n  runs %s of %s, see host %s\n", names, d.Engine.Address(), d.Host().Name)
			} else if slices.Contains(d.hosts(d.Cells), h) {
				t.f("\n  sends load to %s on host %s\n", d.Engine.Address(), d.Host().Name)
			}
		}
	}
}

// works reports whether anything is measured on a host.
func (p *Plan) works(h *provision.Host) bool {
	return !p.Rehearsal && slices.ContainsFunc(p.Deployments, func(d *Deployment) bool {
		return len(d.ToDo()) > 0 && slices.Contains(d.Hosts(), h)
	})
}

// byEngine brings together what an engine block became by matrix.*.
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

// deployment writes a deployment under a title; only: with the cells of one benchmark.
func (t *printer) deployment(d *Deployment, title, only string) {
	e := d.Engine
	t.f("\n  %s  %s", title, d.ID)
	if what := cmp.Or(shortImage(e.Image), e.URL); what != "" {
		t.f("  %s", what)
	}
	t.f("\n")
	t.fetched(e)
	if d.Grouped() {
		t.topology(d)
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

// fetched says which models are brought to the hosts of an engine first.
func (t *printer) fetched(whole *engines.Engine) {
	var told []*engines.Model
	for _, e := range whole.Engines() {
		m := e.Model
		if m == nil || !m.Download || !engines.Real(e) || slices.Contains(told, m) {
			continue
		}
		told = append(told, m)
		size := ""
		if m.Size > 0 {
			size = fmt.Sprintf(" (%.0f GB)", float64(m.Size)/1e9)
		}
		t.f("    fetched first, unless it is there: %s%s, into %s\n", m.Repo, size, m.Cache)
	}
}

// topology says what a deployment of several members is: its roles, which host runs what,
// the GPUs of each role, and what is open to the network.
func (t *printer) topology(d *Deployment) {
	gpus := map[string]int{}
	var roles names
	for _, m := range d.Members {
		roles.add(m.Role)
		gpus[m.Role] += engines.GPUsUsed(m.Engine)
	}
	total, parts := 0, []string{}
	for _, role := range roles {
		t.f("    %s\n", d.role(role))
		for _, m := range d.Members {
			if m.Role == role {
				t.f("      %s\n", m.line())
			}
		}
		if total += gpus[role]; gpus[role] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", gpus[role], role))
		}
	}
	if total > 0 {
		t.f("    %s in all: %s\n", plain.Count(total, "GPU"), strings.Join(parts, ", "))
	}
	if open := d.open(); open != "" {
		t.f("    open to the network: %s\n", open)
	}
}

// role is "prefill: 2 instances of 1 host, rocm/sgl-dev:…".
func (d *Deployment) role(role string) string {
	instances, ranks, image := 0, 0, ""
	for _, m := range d.Members {
		if m.Role == role {
			instances, ranks, image = max(instances, m.Instance+1), max(ranks, m.Rank+1), shortImage(m.Engine.Image)
		}
	}
	s := role
	if role != engines.Route {
		s += fmt.Sprintf(": %s of %s", plain.Count(instances, "instance"), plain.Count(ranks, "host"))
	}
	if image != "" {
		s += "  " + image
	}
	return s
}

// line is "decode 0 rank 1 on n3  server 20192, nixl 20208".
func (m Member) line() string {
	s := m.Name() + " on " + m.Host.Name
	switch ids := m.Engine.Container.GPUIDs; len(ids) {
	case 0:
	case 1:
		s += " GPU " + ids[0]
	default:
		s += " GPUs " + strings.Join(ids, ",")
	}
	var ports []string
	for _, p := range m.Ports {
		ports = append(ports, fmt.Sprintf("%s %d", p.Name, p.Number))
	}
	return strings.TrimSpace(s + "  " + strings.Join(ports, ", "))
}

// open are the ports of each host that other hosts can reach, "n0 20000 20001; n1 20064".
func (d *Deployment) open() string {
	byHost := map[string]string{}
	var hosts names
	for _, m := range d.Members {
		for _, p := range m.Ports {
			if p.Open {
				hosts.add(m.Host.Name)
				byHost[m.Host.Name] += " " + strconv.Itoa(p.Number)
			}
		}
	}
	for i, h := range hosts {
		hosts[i] = h + byHost[h]
	}
	return strings.Join(hosts, "; ")
}

// membersOn are the names of the members that a host has, "prefill 1, decode 0".
func (d *Deployment) membersOn(h *provision.Host) string {
	var list []string
	for _, m := range d.Members {
		if m.Host == h {
			list = append(list, m.Name())
		}
	}
	return strings.Join(list, ", ")
}

func (t *printer) commands(d *Deployment) {
	if build, _, ok := engines.BuildContainer(d.Engine); ok {
		t.f("    built first, unless its output is there:\n    %s\n", docker.Run(build))
	}
	for _, m := range d.Members {
		for _, f := range m.Container.Files {
			text := strings.TrimSpace(f.Text.String())
			t.f("    %s:\n      %s\n", f.Name, strings.ReplaceAll(text, "\n", "\n      "))
		}
		if d.Grouped() {
			t.f("    %s:\n  ", m.Name())
		}
		t.f("    %s\n", commandLine(m.Runtime, m.Container))
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
		t.f("        %s\n", commandLine(c.deployment.Members[0].Runtime, b.Bench.Container))
	}
}

func (d *Deployment) of(benchmark string) []*Cell {
	return slices.DeleteFunc(slices.Clone(d.Cells), func(c *Cell) bool { return c.Benchmark != benchmark })
}

// shortImage is an image with the first digits of its digest, which would fill the line.
func shortImage(image string) string {
	const digits = len("sha256:") + 12
	ref, err := origin.ParseRef(image)
	if err != nil || !ref.Pinned() {
		return image
	}
	ref.Digest = ref.Digest[:digits]
	return ref.String()
}

// commandLine is how a person would start the container, or the process.
func commandLine(runtime provision.Runtime, ct provision.Container) string {
	if runtime == provision.Docker {
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

// loadWords are as many words in the same order for every load; empty ones say nothing.
func loadWords(w load.Workload) []string {
	some := func(is bool, format string, args ...any) string {
		if !is {
			return ""
		}
		return fmt.Sprintf(format, args...)
	}
	span := func(d load.Duration) string { return time.Duration(d).String() }
	pace := ""
	switch {
	case len(w.Stages) > 0:
		var stages []string
		for _, s := range w.Stages {
			stages = append(stages, fmt.Sprintf("%v/s for %s", s.Rate, span(s.Duration)))
		}
		pace = strings.Join(stages, ", then ")
	case w.Rate == load.Inf:
		pace = "all at once"
	case w.Rate > 0:
		pace = fmt.Sprintf("%v requests/s", w.Rate)
	}
	var slo []string
	for _, o := range w.SLO {
		slo = append(slo, fmt.Sprintf("%s ≤ %s", o.Name(), span(o.Max)))
	}
	return []string{
		"", // what task it is, if not a load
		some(w.Requests > 0, "%s", plain.Count(w.Requests, "request")),
		some(w.Duration > 0, "for %s", span(w.Duration)),
		pace,
		some(w.Burstiness != 0 && w.Burstiness != 1, "burstiness %v", w.Burstiness),
		some(w.Concurrency > 0, "concurrency %d", w.Concurrency),
		some(w.Ramp > 0, "ramp %s", span(w.Ramp)),
		prompts(w.Dataset),
		some(w.OutputTokens > 0, "%s out", plain.Count(w.OutputTokens, "token")),
		some(w.OutputTokens > 0 && !w.IgnoreEOS, "or fewer"),
		some(w.Endpoint != "", "%s", w.Endpoint),
		some(w.NoStream, "not streamed"),
		some(w.Temperature != 0, "temperature %v", w.Temperature),
		some(w.ExtraBody != "", "extra_body %s", w.ExtraBody),
		some(w.Warmup > 0, "%d to warm up", w.Warmup),
		some(w.CutBeginning > 0, "without the first %s", span(w.CutBeginning)),
		some(w.CutEnd > 0, "without the last %s", span(w.CutEnd)),
		strings.Join(slo, ", "),
	}
}

func prompts(d load.Dataset) string {
	words := []string{d.Kind}
	if d.Path != "" {
		words = append(words, filepath.Base(d.Path))
	}
	switch {
	case d.Kind == load.SharedPrefix:
		asks := plain.Count(d.QuestionTokens, "token")
		words = append(words, fmt.Sprintf("%d × %d, %d + %s in", d.Groups, d.PromptsPerGroup, d.PrefixTokens, asks))
	case d.InputTokens > 0:
		words = append(words, plain.Count(d.InputTokens, "token")+" in")
	}
	if d.Ranged() {
		words = append(words, fmt.Sprintf("range_ratio %v (%s)", *d.RangeRatio, cmp.Or(d.Convention, load.ConventionSGLang)))
	}
	if d.Kind == load.Trace && d.Slowdown > 0 && d.Slowdown != 1 {
		words = append(words, fmt.Sprintf("slowed down by %v", d.Slowdown))
	}
	return strings.Join(words, " ")
}

// common are the words that all these cells share, and in the place of every other an
// empty one.
func common(cells []*Cell) []string {
	all := cells[0].Task.words()
	for _, c := range cells[1:] {
		for i, word := range c.Task.words() {
			if word != all[i] {
				all[i] = ""
			}
		}
	}
	return all
}

// differs is what of a cell's load the others do not share.
func (c *Cell) differs(shared []string) string {
	words := c.Task.words()
	for i, word := range shared {
		if words[i] == word {
			words[i] = ""
		}
	}
	return said(words)
}

func said(words []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" }), ", ")
}
