package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
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
	t.printf("Lab %s: %s on %s, %s.\n", p.Lab.Name,
		part(n.Deployments, of.Deployments, "deployment"), part(n.Hosts, of.Hosts, "host"), part(n.Cells, of.Cells, "cell"))
	if p.Rehearsal {
		t.printf("This is a rehearsal: every engine is simulated on this machine.\n")
	}
	switch by {
	case ByEngine:
		t.byEngine(p)
	case ByBenchmark:
		t.byBenchmark(p)
	default:
		t.byHost(p)
	}
	for _, x := range p.Tunes {
		t.tuning(x)
	}
	for _, c := range p.Clusters {
		t.cluster(c)
	}
	if verbose {
		t.yaml(p.Clusters)
	}
	t.printf("\n%s\n", p.outcome(n, of))
	if p.Rented != nil {
		t.rented(p.Rented)
	}
	_, err := io.WriteString(w, p.Hide(t.String()))
	return err
}

// tuning are the names of the tunings that have more to start.
func (p *Plan) tuning() (names []string) {
	for _, x := range p.Tunes {
		if x.ToDo() {
			names = append(names, x.Name)
		}
	}
	return names
}

// whatStarts is how many starts tunings make, which nobody knows before.
func whatStarts(tunes []string) string { return "what tune " + plain.List(tunes, "and") + " starts" }

func (p *Plan) outcome(n Counts, of *Counts) string {
	tunes := p.tuning()
	switch {
	case n.Cells == 0 && len(tunes) == 0:
		return "Nothing to measure: the lab has no cells."
	case len(tunes) > 0:
	case n.Done == n.Cells && n.Cells == 1 && p.Of == nil:
		return "Up to date: its one cell is measured. `hcl report` shows it; --rerun measures again."
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
	s += fmt.Sprintf(", %d up to date; %s of an engine", n.Done, plain.Count(n.Starts, "start"))
	if len(tunes) > 0 {
		s += ", and " + whatStarts(tunes)
	}
	s += "."
	if e := p.Estimate(); e != nil {
		s += "\n" + e.String()
	}
	return s
}

type printer struct {
	strings.Builder
	verbose bool
}

func (t *printer) printf(format string, args ...any) { fmt.Fprintf(t, format, args...) }

func (t *printer) byHost(p *Plan) {
	for _, h := range p.Hosts {
		t.printf("\n%s\n", describe(h))
		if p.works(h) {
			for _, step := range h.Prepare.Steps(h.GPUs) {
				t.printf("  ! %s\n", step)
			}
		}
		for all := range t.runs(p.Deployments) {
			d := all[0]
			if d.Host == h {
				t.deployments(all, d.Engine.Address(), "")
			} else if names := d.membersOn(h); names != "" {
				t.printf("\n  runs %s of %s, see host %s\n", names, d.Engine.Address(), d.Host.Name)
			} else if slices.Contains(d.needs(d.Cells), h) {
				t.printf("\n  sends load to %s on host %s\n", d.Engine.Address(), d.Host.Name)
			}
		}
	}
}

// works reports whether anything is measured on a host.
func (p *Plan) works(h *provision.Host) bool {
	return !p.Rehearsal && slices.ContainsFunc(p.Deployments, func(d *Deployment) bool {
		return len(d.ToDo()) > 0 && slices.Contains(d.Needs(), h)
	})
}

// byEngine brings together what an engine block became by matrix.*.
func (t *printer) byEngine(p *Plan) {
	var there names
	for _, d := range p.Deployments {
		there.add(d.Engine.Address())
	}
	for _, address := range there {
		t.printf("\n%s\n", address)
		for all := range t.runs(p.Deployments) {
			if d := all[0]; d.Engine.Address() == address {
				t.deployments(all, "host "+d.Host.Name, "")
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
		t.printf("\nbenchmark %s\n", name)
		for all := range t.runs(p.Deployments) {
			if d := all[0]; len(d.cellsOf(name)) > 0 {
				t.deployments(all, d.Engine.Address()+" on host "+d.Host.Name, name)
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
	at := h.Address
	switch {
	case h.Cluster != nil:
		at = "a pod of cluster " + h.Cluster.Name
	case h.Rent != nil:
		at = fmt.Sprintf("rented of %s for %s at most, at $%.2f an hour at most", h.Rent.Plugin, Rough(h.Rent.TTL), h.Rent.MaxPrice)
	}
	s := fmt.Sprintf("host %s (%s", h.Name, at)
	if g := h.GPUs.String(); g != "" {
		s += ", " + g
	}
	return s + ")"
}

// deployments writes a run of them under a title; only: with the cells of one benchmark.
func (t *printer) deployments(all []*Deployment, title, only string) {
	d := all[0]
	id := d.ID
	if len(all) > 1 {
		id = plain.Count(len(all), "deployment")
	}
	t.printf("\n  %s  %s", title, id)
	if what := cmp.Or(shortImage(d.Engine.Image), d.Engine.URL); what != "" {
		t.printf("  %s", what)
	}
	t.printf("\n")
	if without := d.Engine.Without; without != "" {
		t.printf("    a start of its own, for questions alone: without %s\n", without)
	}
	t.fetched(d.Engine)
	t.objects(d)
	if d.hasTopology() {
		t.topology(d)
	}
	if t.verbose {
		t.commands(d)
	}
	if i := slices.IndexFunc(d.Cells, sentFrom); i >= 0 && len(d.Members) > 0 {
		to := "network"
		if c := d.Host.Cluster; c != nil {
			to = "pods of cluster " + c.Name
		}
		t.printf("    open to the %s at %s, for the hosts that load is sent from\n", to, d.Cells[i].Load().Target.BaseURL)
	}
	for _, benchmark := range d.benchmarks() {
		if only != "" && benchmark != only {
			continue
		}
		if only == "" {
			t.printf("    %s %s\n", d.cellsOf(benchmark)[0].Block(), benchmark)
		}
		t.benchmark(all, benchmark)
	}
}

// benchmark writes what a run of deployments measures for it.
func (t *printer) benchmark(all []*Deployment, name string) {
	var cells []*Cell
	for _, d := range all {
		cells = append(cells, d.cellsOf(name)...)
	}
	shared := common(cells)
	t.named("      ", "load: ", commaList(shared))
	var searches names
	for _, c := range cells {
		if s := c.Search(); s != nil {
			searches.add(s.String())
		}
	}
	for _, s := range searches {
		t.named("      ", "search: ", s)
	}
	if e := cells[0].Eval(); e != nil {
		t.named("      ", "asks: ", e.String())
	}
	if t.verbose {
		for _, c := range cells {
			t.cell(c, shared)
		}
		return
	}
	for _, d := range all {
		for _, l := range fold(d.cellsOf(name)) {
			if len(all) > 1 {
				l.id = d.ID
			}
			t.printf("      %s\n", l)
		}
	}
}

// pageWidth is how long lines of words may be: what else there is has a line for itself.
const pageWidth = 80

// named writes a text behind a name, in lines below each other.
func (t *printer) named(indent, name, text string) {
	lines := plain.Wrap(plain.Words(text), " ", pageWidth-len(indent)-len(name))
	t.printf("%s%s%s\n", indent, name, strings.Join(lines, "\n"+indent+strings.Repeat(" ", len(name))))
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
		t.printf("    fetched first, unless it is there: %s%s, into %s\n", m.Repo, size, m.Cache)
	}
}

// hasTopology reports whether there is more to say of members than that there is one.
func (d *Deployment) hasTopology() bool { return d.Grouped() || d.Engine.Kind == engines.GroupKind }

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
		t.printf("    %s\n", d.role(role))
		for _, m := range d.Members {
			if m.Role == role {
				t.printf("      %s\n", m.line())
			}
		}
		if total += gpus[role]; gpus[role] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", gpus[role], role))
		}
	}
	if total > 0 {
		t.printf("    %s in all: %s\n", plain.Count(total, "GPU"), strings.Join(parts, ", "))
	}
	if open := d.open(); open != "" {
		t.printf("    open to the network: %s\n", open)
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
	switch ids := m.Engine.GPUIDs(); len(ids) {
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
		t.printf("    built first, unless its output is there:\n    %s\n", docker.Run(build))
	}
	for _, m := range d.Members {
		for _, f := range m.Container.Files {
			text := strings.TrimSpace(f.Text.String())
			t.printf("    %s:\n      %s\n", f.Name, strings.ReplaceAll(text, "\n", "\n      "))
		}
		if d.Grouped() {
			t.printf("    %s:\n  ", m.Name())
		}
		t.printf("    %s\n", commandLine(m.Runtime, m.Container))
	}
}

// cell writes a cell with all that is known of it. Its load shares so many words with others.
func (t *printer) cell(c *Cell, shared []string) {
	l := newLine(c)
	l.id = c.ID
	t.printf("      %s\n", l)
	if own := c.differs(shared); own != "" {
		t.named("        ", "load: ", own)
	}
	if b := c.Batch(); b != nil {
		t.printf("        %s\n", commandLine(c.deployment.Members[0].Runtime, b.Bench.Container))
	}
}

func (d *Deployment) cellsOf(benchmark string) []*Cell {
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
