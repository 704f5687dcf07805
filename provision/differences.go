package provision

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Differences says in what a host is not as it was, as far as both tell and as a
// number can depend on it: "driver 550.54.15 → 570.86.15". Empty: nothing is known to
// differ. What is written here with another release of hcl may lack facts; a fact that
// one side lacks is no difference.
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
	for _, name := range slices.Sorted(maps.Keys(f.Settings)) {
		differ(name, was.Settings[name], f.Settings[name])
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
	var said []string
	for _, g := range gpus {
		if s := of(g); s != "" && !slices.Contains(said, s) {
			said = append(said, s)
		}
	}
	slices.Sort(said)
	return strings.Join(said, ", ")
}
