package provision

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/smi"
)

// factsScript prints one fact per line as NAME=VALUE; what it does not find, it
// leaves out.
//
//go:embed facts.sh
var factsScript string

// factsTimeout bounds a driver that hangs, which broken GPUs make it do.
const factsTimeout = time.Minute

// Facts are what a host is made of: what has to be known of it to compare two
// results. What may change from one hour to the next is not among them.
type Facts struct {
	Hostname    string   `json:"hostname"`
	OS          string   `json:"os"` // "Ubuntu 22.04.5 LTS"
	Kernel      string   `json:"kernel"`
	Arch        string   `json:"arch"` // as the kernel says it: "x86_64"
	CPUModel    string   `json:"cpu_model,omitempty"`
	CPUs        int      `json:"cpus"` // logical, as many as the login may use
	MemoryBytes int64    `json:"memory_bytes"`
	GPUs        []GPU    `json:"gpus,omitempty"`
	ROCm        string   `json:"rocm,omitempty"`              // its version
	Toolkit     string   `json:"container_toolkit,omitempty"` // NVIDIA's, its version
	Docker      string   `json:"docker,omitempty"`            // "" where Docker is not there or not used
	DockerBy    string   `json:"docker_access,omitempty"`     // how it is reached: its socket, or the command that stands between
	NoDocker    string   `json:"no_docker,omitempty"`         // why it cannot be used, where it should be
	Problems    []string `json:"problems,omitempty"`          // what the GPUs' tools said instead

	// Settings are what somebody may have set otherwise, and changes numbers: "ecc":
	// "on", "power limit": "700 W". Condition is all that was seen at one moment. Both
	// are there when the host was held against its contract.
	Settings  map[string]string `json:"settings,omitempty"`
	Condition *Condition        `json:"condition,omitempty"`
}

// GPU is one GPU as its vendor's tool describes it.
type GPU struct {
	Vendor      Vendor `json:"vendor"`
	Name        string `json:"name"`         // "NVIDIA H200"
	MemoryBytes int64  `json:"memory_bytes"` // 0: the tool does not say
	Driver      string `json:"driver"`
}

// Facts finds out what the host is. A tool that is not there or fails is no
// error; it is told in Facts.Problems where something was expected of it.
func (c *Conn) Facts(ctx context.Context) (Facts, error) {
	looking, cancel := context.WithTimeoutCause(ctx, factsTimeout, fmt.Errorf("nothing came within %s: a driver may hang", factsTimeout))
	defer cancel()
	out, err := c.Run(looking, factsScript, nil)
	if err != nil {
		return Facts{}, fmt.Errorf("gather facts: %w", err)
	}
	f := parseFacts(plain.Text(out))
	if c.host.Runtime == Docker || c.host.Runtime == "" {
		f.Docker, err = c.DockerVersion(ctx)
		if errors.Is(err, ErrUnreachable) {
			return Facts{}, fmt.Errorf("gather facts: %w", err)
		}
		if err == nil {
			f.DockerBy, _, err = c.DockerAccess(ctx)
		}
		if err != nil {
			f.NoDocker = err.Error()
		}
	}
	return f, nil
}

func parseFacts(out string) Facts {
	var f Facts
	var rocm, amd strings.Builder
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch name {
		case "hostname":
			f.Hostname = value
		case "os":
			f.OS = value
		case "kernel":
			f.Kernel = value
		case "arch":
			f.Arch = value
		case "cpu":
			f.CPUModel = strings.TrimSpace(value)
		case "cpus":
			f.CPUs = int(number(value))
		case "memory_kib":
			f.MemoryBytes = number(value) << 10
		case "rocm_version":
			f.ROCm = value
		case "toolkit":
			f.Toolkit = value
		case "nvidia":
			if gpu, ok := parseNVIDIA(value); ok {
				f.GPUs = append(f.GPUs, gpu)
			} else if value != "" {
				f.Problems = append(f.Problems, "nvidia-smi: "+value)
			}
		case "amd":
			amd.WriteString(value + "\n")
		case "rocm":
			rocm.WriteString(value + "\n")
		}
	}
	for _, tool := range []struct{ name, said string }{{"rocm-smi", rocm.String()}, {"amd-smi", amd.String()}} {
		if tool.said == "" {
			continue
		}
		gpus, err := parseAMD(tool.said)
		if err != nil {
			f.Problems = append(f.Problems, tool.name+": "+err.Error())
		}
		f.GPUs = append(f.GPUs, gpus...)
	}
	return f
}

// parseAMD reads rocm-smi --showproductname --showmeminfo vram --showdriverversion
// --json or amd-smi static --asic --vram --driver --json.
func parseAMD(text string) ([]GPU, error) {
	all, system, err := smi.Parse(text)
	var gpus []GPU
	for _, g := range all {
		memory, ok := g.At("VRAM Total Memory (B)").Bytes("B")
		if !ok {
			memory, _ = g.At("vram", "size").Bytes("") // it comes with its unit
		}
		gpus = append(gpus, GPU{
			Vendor:      AMD,
			Name:        cmp.Or(g.At("Card Series").Text(), g.At("Device Name").Text(), g.At("Card Model").Text(), g.At("asic", "market_name").Text()),
			MemoryBytes: memory,
			Driver:      cmp.Or(system.At("Driver version").Text(), g.At("driver", "version").Text()),
		})
	}
	return gpus, err
}

// number reads a whole number; what is not one, such as nvidia-smi's "[N/A]",
// is 0.
func number(s string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n
}

// parseNVIDIA reads a line of nvidia-smi: name, memory in MiB, driver.
func parseNVIDIA(line string) (GPU, bool) {
	fields := strings.Split(line, ", ")
	if len(fields) != 3 {
		return GPU{}, false
	}
	return GPU{
		Vendor:      NVIDIA,
		Name:        strings.TrimSpace(fields[0]),
		MemoryBytes: number(fields[1]) << 20,
		Driver:      strings.TrimSpace(fields[2]),
	}, true
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
	all := true
	for _, w := range want {
		all = all && slices.Contains(name, w)
	}
	if all {
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
