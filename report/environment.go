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
	Blocks []pageBlock
}

type pageBlock struct{ Name, Text string }

// hostSheet is what is known of each host.
func hostSheet(rows []results.Row) *sheet {
	columns := []column{{name: "Host", left: true}, {name: "GPUs", left: true}, {name: "Driver", left: true}, {name: "Processors", left: true}, {name: "Memory, GiB"},
		{name: "System", left: true}, {name: "Docker", left: true}, {name: "Settings", left: true}}
	var hosts [][]string
	for i := range rows {
		host, ok := hostLine(&rows[i].Deployment)
		if ok && !slices.ContainsFunc(hosts, func(known []string) bool { return slices.Equal(known, host) }) {
			hosts = append(hosts, host)
		}
	}
	return tabulate(columns, hosts)
}

// hostLine is a host in the columns of [hostSheet].
func hostLine(d *results.Deployment) ([]string, bool) {
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
		if !slices.Contains(models, name) {
			models = append(models, name)
		}
		if !slices.Contains(drivers, g.Driver) {
			drivers = append(drivers, g.Driver)
		}
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
	seen := map[string]bool{}
	for i := range rows {
		d := &rows[i].Deployment
		if key := d.ID + d.Digest + d.Engine + d.GPUs + string(d.Served); !seen[key] {
			seen[key] = true
			all = append(all, newEngine(d))
		}
	}
	return all
}

func newEngine(d *results.Deployment) pageEngine {
	e := pageEngine{Name: cmp.Or(d.Engine, d.ID)}
	add := func(name, value string) {
		if value != "" {
			e.Facts = append(e.Facts, fact{name, value})
		}
	}
	add("Kind", kindName(d.Kind))
	add("Host", d.Host)
	gpus := gpuName(d.GPUs)
	if n := hostGPUs(d.GPUs); d.GPUCount > 0 && d.GPUCount < n {
		gpus += fmt.Sprintf(", %d of them used", d.GPUCount)
	}
	add("GPUs", gpus)
	add("Model", d.Model)
	add("Image", d.Image)
	add("Digest", d.Digest)
	add("Versions", strings.Join(inOrder(d.Versions, " "), ", "))
	if d.Ready > 0 {
		add("Ready in", number.Text(d.Ready)+" s")
	}
	var phases []string
	for _, p := range d.Phases {
		phases = append(phases, fmt.Sprintf("%s %s s", p.Name, number.Text(p.Seconds)))
	}
	add("of it", strings.Join(phases, ", "))
	add("Compile cache", d.CompileCache)
	if d.Listener != nil {
		add("Server", d.Listener.String())
	}
	if d.PricePerHour > 0 {
		add("Price", number.Text(d.PricePerHour)+" USD per hour, the whole host")
	}
	block := func(name, text string) {
		if text != "" {
			e.Blocks = append(e.Blocks, pageBlock{name, text})
		}
	}
	block("Command", commandText(d.Command))
	block("Identity", strings.Join(inOrder(d.Identity, " = "), "\n"))
	var served bytes.Buffer
	if len(d.Served) > 0 && json.Indent(&served, d.Served, "", "  ") == nil {
		block("Served configuration", served.String())
	}
	return e
}
