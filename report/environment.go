package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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

type pageHost struct{ Name, GPUs, Driver, CPU, Memory, System, Docker, Settings string }

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
	Facts  []named
	Blocks []pageBlock
}

type pageBlock struct{ Name, Text string }

// environment is what the cells were measured on: each host, and each deployment
// once.
func environment(rows []results.Row) ([]pageHost, []pageEngine) {
	var hosts []pageHost
	var engines []pageEngine
	seen := map[string]bool{}
	for i := range rows {
		d := &rows[i].Deployment
		if host, ok := newHost(d); ok && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
		if key := d.ID + d.Digest + d.Engine + d.GPUs + string(d.Served); !seen["engine"+key] {
			seen["engine"+key] = true
			engines = append(engines, newEngine(d))
		}
	}
	return hosts, engines
}

func newHost(d *results.Deployment) (pageHost, bool) {
	var f hostFacts
	if len(d.Facts) == 0 || json.Unmarshal(d.Facts, &f) != nil {
		return pageHost{}, false // whoever stored them had something else in mind
	}
	h := pageHost{Name: d.Host, GPUs: gpuName(d.GPUs), System: strings.Trim(f.OS+", "+f.Kernel, ", "), Docker: f.Docker, CPU: f.CPUModel}
	if f.CPUs > 0 {
		h.CPU = strings.TrimSpace(fmt.Sprintf("%d × %s", f.CPUs, cmp.Or(f.CPUModel, "?")))
	}
	if f.MemoryBytes > 0 {
		h.Memory = number(float64(f.MemoryBytes) / (1 << 30))
	}
	var models, drivers []string
	for _, g := range f.GPUs {
		name := g.Name
		if g.MemoryBytes > 0 {
			name += fmt.Sprintf(" %s GiB", number(float64(g.MemoryBytes)/(1<<30)))
		}
		if !slices.Contains(models, name) {
			models = append(models, name)
		}
		if !slices.Contains(drivers, g.Driver) {
			drivers = append(drivers, g.Driver)
		}
	}
	if len(models) > 0 {
		h.GPUs = fmt.Sprintf("%d × %s", len(f.GPUs), strings.Join(models, ", "))
	}
	if f.ROCm != "" {
		drivers = append(drivers, "ROCm "+f.ROCm)
	}
	h.Driver = strings.Join(drivers, ", ")
	if f.Toolkit != "" {
		h.Docker += ", container toolkit " + f.Toolkit
	}
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(f.Settings)) {
		settings = append(settings, name+" "+f.Settings[name])
	}
	h.Settings = strings.Join(settings, ", ")
	return h, true
}

func newEngine(d *results.Deployment) pageEngine {
	e := pageEngine{Name: cmp.Or(d.Engine, d.ID)}
	add := func(name, value string) {
		if value != "" {
			e.Facts = append(e.Facts, named{name, value})
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
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(d.Versions)) {
		versions = append(versions, name+" "+d.Versions[name])
	}
	add("Versions", strings.Join(versions, ", "))
	if d.Ready > 0 {
		add("Ready in", number(d.Ready)+" s")
	}
	var phases []string
	for _, p := range d.Phases {
		phases = append(phases, fmt.Sprintf("%s %s s", p.Name, number(p.Seconds)))
	}
	add("of it", strings.Join(phases, ", "))
	add("Compile cache", d.CompileCache)
	if d.Listener != nil {
		add("Server", d.Listener.String())
	}
	if d.PricePerHour > 0 {
		add("Price", number(d.PricePerHour)+" USD per hour, the whole host")
	}
	block := func(name, text string) {
		if text != "" {
			e.Blocks = append(e.Blocks, pageBlock{name, text})
		}
	}
	block("Command", commandText(d.Command))
	var identity []string
	for _, name := range slices.Sorted(maps.Keys(d.Identity)) {
		identity = append(identity, name+" = "+d.Identity[name])
	}
	block("Identity", strings.Join(identity, "\n"))
	var served bytes.Buffer
	if len(d.Served) > 0 && json.Indent(&served, d.Served, "", "  ") == nil {
		block("Served configuration", served.String())
	}
	return e
}
