package table

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/results"
)

// deploymentFacts are what is known of an engine that served; what is not is empty.
func deploymentFacts(d *results.Deployment) []Fact {
	var ready []string
	if d.Ready > 0 {
		ready = append(ready, number.Text(d.Ready)+" s after its start")
	}
	for _, p := range d.Phases {
		ready = append(ready, number.Text(p.Seconds)+" s for "+p.Name)
	}
	var own results.Member // of several each has its own
	if len(d.Members) == 0 {
		own = results.Member{Image: d.Image, Digest: d.Digest, Versions: d.Versions, Listener: d.Listener}
	}
	facts := []Fact{
		{"Model", d.Model}, {"Image", imageOf(own)}, {"Ready", strings.Join(ready, "\n")},
		{"Compile cache", d.CompileCache}, {"Versions", strings.Join(inOrder(own.Versions, " "), "\n")},
		{"Server", serverOf(own)},
	}
	if n := d.StreamInterval(); n > 1 {
		facts = append(facts, Fact{"Streams", number.Count(n, "token") + " at a time: ITL is between chunks of so many"})
	}
	if tokens, by := d.ForcedAcceptance(); by != "" {
		said := "drafted tokens are accepted whatever they are, by " + by
		if tokens > 0 {
			said = number.Text(tokens) + " tokens a step: " + said
		}
		facts = append(facts, Fact{"Forced acceptance", said})
	}
	if d.PricePerHour > 0 {
		facts = append(facts, Fact{"Price", number.Text(d.PricePerHour) + " USD per hour, all GPUs of its hosts"})
	}
	for _, m := range d.Members {
		place := m.Name() + " on " + m.Host
		if m.Role != "router" && m.GPUs != "" {
			place += ", " + gpusUsed(m.GPUs, m.GPUCount)
		}
		lines := []string{place, imageOf(m), strings.Join(inOrder(m.Versions, " "), ", "), serverOf(m)}
		facts = append(facts, Fact{"Member", strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")})
	}
	return facts
}

// inOrder are the names of a map with their values, "torch 2.7.0".
func inOrder(m map[string]string, separator string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, name+separator+m[name])
	}
	return all
}

// gpusUsed are the GPUs of hosts, and how many of them are used: "8×H200, 4 of them used".
func gpusUsed(gpus string, used int) string {
	if used > 0 && used < results.CountGPUs(gpus) {
		return fmt.Sprintf("%s, %d of them used", figure.GPUName(gpus), used)
	}
	return figure.GPUName(gpus)
}

func imageOf(m results.Member) string { return strings.TrimSpace(m.Image + " " + m.Digest) }

// serverOf says whether a member's own server answered, where that is known.
func serverOf(m results.Member) string {
	if m.Listener == nil {
		return ""
	}
	return m.Listener.String()
}

// ofMember says which of several members of a deployment is meant: " of decode 0 rank 1".
func ofMember(d *results.Deployment, m results.Member) string {
	if len(d.Members) == 0 {
		return ""
	}
	return " of " + m.Name()
}

// Engine is what is known of an engine that served.
type Engine struct {
	Name   string
	Facts  []Fact
	Blocks []Fact
}

// Engines are the deployments on which the cells were measured, each once.
func Engines(rows []results.Row) (all []Engine) {
	for _, of := range figure.Grouped(rows, func(r results.Row) string {
		d := &r.Deployment
		return d.ID + d.Digest + d.Engine + d.GPUs + string(d.Served)
	}) {
		all = append(all, newEngine(&of[0].Deployment))
	}
	return all
}

func newEngine(d *results.Deployment) Engine {
	e := Engine{Name: cmp.Or(d.Engine, d.ID), Facts: slices.Concat(
		[]Fact{{"Kind", figure.KindName(d.Kind)}, {"Host", d.Host}, {"GPUs", gpusUsed(d.GPUs, d.GPUCount)}}, deploymentFacts(d))}
	for _, m := range d.All() {
		e.Blocks = append(e.Blocks, Fact{commandFact + ofMember(d, m), commandText(m.Command, 0)})
	}
	e.Blocks = append(e.Blocks, Fact{"Identity", strings.Join(inOrder(d.Identity, " = "), "\n")})
	for _, m := range figure.HostsOf(d) {
		var served bytes.Buffer
		if said := d.ServedBy(m); len(said) > 0 && json.Indent(&served, said, "", "  ") == nil {
			e.Blocks = append(e.Blocks, Fact{"Served configuration" + ofMember(d, m), served.String()})
		}
	}
	empty := func(f Fact) bool { return f.Value == "" }
	e.Facts, e.Blocks = slices.DeleteFunc(e.Facts, empty), slices.DeleteFunc(e.Blocks, empty)
	return e
}

// HostSheet has a line for each host, as it was found.
func HostSheet(rows []results.Row) *Sheet {
	columns := []Column{{Name: "Host", Left: true}, {Name: "GPUs", Left: true}, {Name: "Driver", Left: true},
		{Name: "Processors", Left: true}, {Name: "Memory, GiB"},
		{Name: "System", Left: true}, {Name: "Docker", Left: true}, {Name: "Settings", Left: true}}
	var hosts [][]string
	for i := range rows {
		for _, m := range figure.HostsOf(&rows[i].Deployment) {
			host, ok := hostLine(m)
			if ok && !slices.ContainsFunc(hosts, func(known []string) bool { return slices.Equal(known, host) }) {
				hosts = append(hosts, host)
			}
		}
	}
	return Tabulate(columns, hosts)
}

// hostLine is a host in the columns of [HostSheet].
func hostLine(d results.Member) ([]string, bool) {
	var f figure.HostFacts
	if len(d.Facts) == 0 || json.Unmarshal(d.Facts, &f) != nil {
		return nil, false // whoever stored them had something else in mind
	}
	cpu, memory, gpus, docker := f.CPUModel, "", figure.GPUName(d.GPUs), f.Docker
	if f.CPUs > 0 {
		cpu = fmt.Sprintf("%d × %s", f.CPUs, cmp.Or(f.CPUModel, "?"))
	}
	if f.MemoryBytes > 0 {
		memory = number.Text(float64(f.MemoryBytes) / (1 << 30))
	}
	var models, drivers []string
	for _, g := range f.GPUs {
		name := g.Name
		if g.MemoryBytes > 0 {
			name += fmt.Sprintf(" %s GiB", number.Text(float64(g.MemoryBytes)/(1<<30)))
		}
		models, drivers = figure.Once(models, name), figure.Once(drivers, g.Driver)
	}
	if len(models) > 0 {
		gpus = fmt.Sprintf("%d × %s", len(f.GPUs), strings.Join(models, ", "))
	}
	if f.ROCm != "" {
		drivers = append(drivers, "ROCm "+f.ROCm)
	}
	if f.Toolkit != "" {
		docker += ", container toolkit " + f.Toolkit
	}
	return []string{d.Host, gpus, strings.Join(drivers, ", "), cpu, memory, strings.Trim(f.OS+", "+f.Kernel, ", "), docker,
		strings.Join(inOrder(f.Settings, " "), ", ")}, true
}

// commandFact is the name of the fact that is a command, and its beginning where there are several.
const commandFact = "Command"

// commandText is a command as a shell takes it, in lines of at most width columns; 0 is no limit.
func commandText(argv []string, width int) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = plain.Quote(w)
	}
	return strings.Join(plain.Wrap(words, " ", width), " \\\n")
}
