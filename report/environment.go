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
	return []results.Member{{Host: d.Host, GPUs: d.GPUs, GPUCount: d.GPUCount, Price: d.PricePerHour, Facts: d.Facts}}
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
	gpus := gpuName(d.GPUs)
	if n := hostGPUs(d.GPUs); d.GPUCount > 0 && d.GPUCount < n {
		gpus += fmt.Sprintf(", %d of them used", d.GPUCount)
	}
	e := pageEngine{Name: cmp.Or(d.Engine, d.ID),
		Facts: slices.Concat([]fact{{"Kind", kindName(d.Kind)}, {"Host", d.Host}, {"GPUs", gpus}}, deploymentFacts(d))}
	for _, m := range d.All() {
		e.Blocks = append(e.Blocks, fact{"Command" + ofMember(d, m), commandText(m.Command)})
	}
	e.Blocks = append(e.Blocks, fact{"Identity", strings.Join(inOrder(d.Identity, " = "), "\n")})
	var served bytes.Buffer
	if len(d.Served) > 0 && json.Indent(&served, d.Served, "", "  ") == nil {
		e.Blocks = append(e.Blocks, fact{"Served configuration", served.String()})
	}
	empty := func(f fact) bool { return f.Value == "" }
	e.Facts, e.Blocks = slices.DeleteFunc(e.Facts, empty), slices.DeleteFunc(e.Blocks, empty)
	return e
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
	facts := []fact{
		{"Model", d.Model}, {"Image", strings.TrimSpace(d.Image + " " + d.Digest)}, {"Ready", ready},
		{"of it", strings.Join(phases, "\n")},
		{"Compile cache", d.CompileCache}, {"Versions", strings.Join(inOrder(d.Versions, " "), "\n")},
	}
	if d.Listener != nil {
		facts = append(facts, fact{"Server", d.Listener.String()})
	}
	if d.PricePerHour > 0 {
		facts = append(facts, fact{"Price", number.Text(d.PricePerHour) + " USD per hour, all GPUs of its hosts"})
	}
	for _, m := range d.Members {
		of := strings.Join(slices.DeleteFunc([]string{"on " + m.Host, m.GPUs, m.Image, m.Digest},
			func(s string) bool { return s == "" }), ", ")
		facts = append(facts, fact{"Member", strings.TrimPrefix(ofMember(d, m), " of ") + " " + of})
	}
	return facts
}

// ofMember says which of several members of a deployment is meant: " of prefill 0, rank 1".
func ofMember(d *results.Deployment, m results.Member) string {
	if len(d.Members) < 2 {
		return ""
	}
	return fmt.Sprintf(" of %s %d, rank %d", cmp.Or(m.Role, "member"), m.Instance, m.Rank)
}
