package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hclbench/report/number"
	"hclbench/results"
)

// hostFacts are the facts of a host that a table shows, as they are stored.
type hostFacts struct {
	OS          string `json:"os"`
	Kernel      string `json:"kernel"`
	CPUModel    string `json:"cpu_model"`
	CPUs        int    `json:"cpus"`
	MemoryBytes int64  `json:"memory_bytes"`
	Docker      string `json:"docker"`
	ROCm        string `json:"rocm"`
	Toolkit     string `json:"container_toolkit"`

	Settings map[string]string `json:"settings"`

	GPUs []struct {
		Name        string `json:"name"`
		MemoryBytes int64  `json:"memory_bytes"`
		Driver      string `json:"driver"`
	} `json:"gpus"`
}

// made is what a host's facts say of what it is, without the moment at which it was
// looked at: free disks and temperatures explain nothing that was measured.
func made(facts json.RawMessage) map[string]any {
	var all map[string]any
	if json.Unmarshal(facts, &all) != nil {
		return nil // whoever stored them had something else in mind
	}
	delete(all, "condition")
	return all
}

type pageEngine struct {
	Name   string
	Facts  []fact
	Blocks []fact
}

func hostSheet(rows []results.Row) *sheet {
	columns := []column{{name: "Host", left: true}, {name: "GPUs", left: true}, {name: "Driver", left: true},
		{name: "Processors", left: true}, {name: "Memory, GiB"},
		{name: "System", left: true}, {name: "Docker", left: true}, {name: "Settings", left: true}}
	var hosts [][]string
	for i := range rows {
		for _, m := range hostsOf(&rows[i].Deployment) {
			host, ok := hostLine(m)
			if ok && !slices.ContainsFunc(hosts, func(known []string) bool { return slices.Equal(known, host) }) {
				hosts = append(hosts, host)
			}
		}
	}
	return tabulate(columns, hosts)
}

// hostsOf are the members of a deployment, whose hosts are known; of an engine that
// somebody else runs, what is known of its host.
func hostsOf(d *results.Deployment) []results.Member {
	if all := d.All(); len(all) > 0 {
		return all
	}
	return []results.Member{{
		Host: d.Host, GPUs: d.GPUs, GPUCount: d.GPUCount, Price: d.PricePerHour, Facts: d.Facts, Digest: d.Digest, Versions: d.Versions,
	}}
}

// hostLine is a host in the columns of [hostSheet].
func hostLine(d results.Member) ([]string, bool) {
	var f hostFacts
	if len(d.Facts) == 0 || json.Unmarshal(d.Facts, &f) != nil {
		return nil, false // whoever stored them had something else in mind
	}
	cpu, memory, gpus, docker := f.CPUModel, "", gpuName(d.GPUs), f.Docker
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
		models, drivers = once(models, name), once(drivers, g.Driver)
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

// inOrder are the names of a map with their values, "torch 2.7.0".
func inOrder(m map[string]string, separator string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, name+separator+m[name])
	}
	return all
}

// engines are the deployments on which the cells were measured, each once.
func engines(rows []results.Row) (all []pageEngine) {
	for _, of := range grouped(rows, func(r results.Row) string {
		d := &r.Deployment
		return d.ID + d.Digest + d.Engine + d.GPUs + string(d.Served)
	}) {
		all = append(all, newEngine(&of[0].Deployment))
	}
	return all
}

func newEngine(d *results.Deployment) pageEngine {
	e := pageEngine{Name: cmp.Or(d.Engine, d.ID), Facts: slices.Concat(
		[]fact{{"Kind", kindName(d.Kind)}, {"Host", d.Host}, {"GPUs", gpusUsed(d.GPUs, d.GPUCount)}}, deploymentFacts(d))}
	for _, m := range d.All() {
		e.Blocks = append(e.Blocks, fact{"Command" + ofMember(d, m), commandText(m.Command)})
	}
	e.Blocks = append(e.Blocks, fact{"Identity", strings.Join(inOrder(d.Identity, " = "), "\n")})
	for _, m := range hostsOf(d) {
		var served bytes.Buffer
		if said := d.ServedBy(m); len(said) > 0 && json.Indent(&served, said, "", "  ") == nil {
			e.Blocks = append(e.Blocks, fact{"Served configuration" + ofMember(d, m), served.String()})
		}
	}
	empty := func(f fact) bool { return f.Value == "" }
	e.Facts, e.Blocks = slices.DeleteFunc(e.Facts, empty), slices.DeleteFunc(e.Blocks, empty)
	return e
}

// gpusUsed are the GPUs of hosts, and how many of them are used: "8×H200, 4 of them used".
func gpusUsed(gpus string, used int) string {
	if used > 0 && used < results.CountGPUs(gpus) {
		return fmt.Sprintf("%s, %d of them used", gpuName(gpus), used)
	}
	return gpuName(gpus)
}

// deploymentFacts are what is known of an engine that served; what is not is empty.
func deploymentFacts(d *results.Deployment) []fact {
	var ready string
	if d.Ready > 0 {
		ready = number.Text(d.Ready) + " s after its start"
	}
	var phases []string
	for _, p := range d.Phases {
		phases = append(phases, number.Text(p.Seconds)+" s "+p.Name)
	}
	var own results.Member // of several each has its own
	if len(d.Members) == 0 {
		own = results.Member{Image: d.Image, Digest: d.Digest, Versions: d.Versions, Listener: d.Listener}
	}
	facts := []fact{
		{"Model", d.Model}, {"Image", imageOf(own)}, {"Ready", ready}, {"of it", strings.Join(phases, "\n")},
		{"Compile cache", d.CompileCache}, {"Versions", strings.Join(inOrder(own.Versions, " "), "\n")},
		{"Server", serverOf(own)},
	}
	if n := d.StreamInterval(); n > 1 {
		facts = append(facts, fact{"Streams", number.Count(n, "token") + " at a time: ITL is between chunks of so many"})
	}
	if tokens, by := d.ForcedAcceptance(); by != "" {
		said := "drafted tokens are accepted whatever they are, by " + by
		if tokens > 0 {
			said = number.Text(tokens) + " tokens a step: " + said
		}
		facts = append(facts, fact{"Forced acceptance", said})
	}
	if d.PricePerHour > 0 {
		facts = append(facts, fact{"Price", number.Text(d.PricePerHour) + " USD per hour, all GPUs of its hosts"})
	}
	for _, m := range d.Members {
		place := m.Name() + " on " + m.Host
		if m.Role != "router" && m.GPUs != "" {
			place += ", " + gpusUsed(m.GPUs, m.GPUCount)
		}
		lines := []string{place, imageOf(m), strings.Join(inOrder(m.Versions, " "), ", "), serverOf(m)}
		facts = append(facts, fact{"Member", strings.Join(slices.DeleteFunc(lines, func(s string) bool { return s == "" }), "\n")})
	}
	return facts
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
