package provision

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Facts are what a host is made of: what has to be known of it to compare two
// results. What may change from one hour to the next is not among them.
type Facts struct {
	Hostname    string   `json:"hostname"`      // of a pod, its node's name
	Box         string   `json:"box,omitempty"` // tells this machine from every other, however it is called: [BoxOf]
	OS          string   `json:"os"`            // "Ubuntu 22.04.5 LTS"
	Kernel      string   `json:"kernel"`
	Arch        string   `json:"arch"` // as the kernel says it: "x86_64"
	CPUModel    string   `json:"cpu_model,omitempty"`
	CPUs        int      `json:"cpus"` // logical, as many as the login may use
	MemoryBytes int64    `json:"memory_bytes"`
	GPUs        []GPU    `json:"gpus,omitempty"`
	ROCm        string   `json:"rocm,omitempty"`              // its version
	Toolkit     string   `json:"container_toolkit,omitempty"` // NVIDIA's, its version
	Docker      string   `json:"docker,omitempty"`            // "" where Docker is not there or not used
	DockerBy    string   `json:"docker_access,omitempty"`     // its socket, or the command that stands between
	NoDocker    string   `json:"no_docker,omitempty"`         // why it cannot be used, where it should be
	Problems    []string `json:"problems,omitempty"`          // what the GPUs' tools said instead

	// Settings are what somebody may have set otherwise, and changes numbers: "ecc":
	// "on", "power limit": "700 W". Condition is all that was seen at one moment. Both
	// are there when the host was held against its contract.
	Settings  map[string]string `json:"settings,omitempty"`
	Fabric    map[string]string `json:"fabric,omitempty"` // as [FabricFacts.Traits] has it, where several hosts ran an engine
	Condition *Condition        `json:"condition,omitempty"`
}

// BoxOf names a machine by what the makers have numbered its GPUs with, or by the id of its system where it has none;
// empty: neither is known. Nobody can tell from the name what it was made of.
func BoxOf(machineID string, gpus []string) string {
	of := machineID
	if len(gpus) > 0 {
		of = strings.Join(slices.Sorted(slices.Values(gpus)), " ")
	}
	if of == "" {
		return ""
	}
	sum := hmac.New(sha256.New, []byte(of)) // as machine-id(5) asks for
	sum.Write([]byte("hcl box"))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// GPU is one GPU as its vendor's tool describes it.
type GPU struct {
	Vendor      Vendor `json:"vendor"`
	Name        string `json:"name"`         // "NVIDIA H200"
	MemoryBytes int64  `json:"memory_bytes"` // 0: the tool does not say
	Driver      string `json:"driver"`
}

// isModel reports whether a GPU is of the model that a user wrote: its words,
// or some of them that follow one another. "H20" is not an H200, "RTX4090" is a
// "NVIDIA GeForce RTX 4090", and "A100-80GB" an "NVIDIA A100-SXM4-80GB".
func (g GPU) isModel(model string) bool {
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToUpper(s), func(r rune) bool {
			return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
		})
	}
	name, want := words(g.Name), words(model)
	if !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(name, w) }) {
		return true
	}
	for i := range name {
		for j := i + 1; j <= len(name); j++ {
			if strings.Join(name[i:j], "") == strings.Join(want, "") {
				return true
			}
		}
	}
	return false
}

// Differences says in what a host is not as it was, as far as both tell and a number can depend on
// it: "driver 550.54.15 → 570.86.15". What one side lacks, as another release of hcl may, is no
// difference.
func (f Facts) Differences(was Facts) []string {
	var out []string
	differ := func(name, before, now string) {
		if before != "" && now != "" && before != now {
			out = append(out, fmt.Sprintf("%s %s → %s", name, before, now))
		}
	}
	differ("machine", was.Hostname, f.Hostname)
	differ("GPUs", gpuNames(was.GPUs), gpuNames(f.GPUs))
	differ("driver", drivers(was.GPUs), drivers(f.GPUs))
	differ("ROCm", was.ROCm, f.ROCm)
	differ("container toolkit", was.Toolkit, f.Toolkit)
	differ("CPU", was.CPUModel, f.CPUModel)
	if was.CPUs > 0 && f.CPUs > 0 {
		differ("CPUs", fmt.Sprint(was.CPUs), fmt.Sprint(f.CPUs))
	}
	differ("architecture", was.Arch, f.Arch)
	differ("kernel", was.Kernel, f.Kernel)
	for _, of := range [][2]map[string]string{{was.Settings, f.Settings}, {was.Fabric, f.Fabric}} {
		for _, name := range slices.Sorted(maps.Keys(of[1])) {
			differ(name, of[0][name], of[1][name])
		}
	}
	return out
}

// gpuNames is "8 × NVIDIA H200".
func gpuNames(gpus []GPU) string {
	if len(gpus) == 0 {
		return ""
	}
	return fmt.Sprintf("%d × %s", len(gpus), each(gpus, func(g GPU) string { return g.Name }))
}

func drivers(gpus []GPU) string { return each(gpus, func(g GPU) string { return g.Driver }) }

// each is what the GPUs say of themselves, every answer once.
func each(gpus []GPU, of func(GPU) string) string {
	said := map[string]bool{}
	for _, g := range gpus {
		said[of(g)] = true
	}
	delete(said, "")
	return strings.Join(slices.Sorted(maps.Keys(said)), ", ")
}
