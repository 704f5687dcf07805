package provision

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// See adds the state that a host is in to what it is. changed is what was set there
// meanwhile, of which the tools do not tell all.
func (f *Facts) See(c Condition, changed ...Change) {
	f.Settings, f.Condition = c.Settings(), &c
	for _, change := range changed {
		if change.Setting == lockedClock {
			f.Settings[lockedClock] = change.Now
		}
	}
}

// Settings are what of a host's state somebody may have set otherwise, and changes
// numbers, by names for people. What is not known is not there. Where GPUs differ, it
// says how many have what.
func (c Condition) Settings() map[string]string {
	all := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			all[name] = value
		}
	}
	each := func(name string, of func(GPUCondition) string) {
		var values []string
		for _, g := range c.GPUs {
			values = append(values, of(g))
		}
		set(name, counted(values))
	}
	each("ecc", func(g GPUCondition) string { return onOff(g.ECC) })
	each("persistence mode", func(g GPUCondition) string { return onOff(g.Persistence) })
	each("mig", func(g GPUCondition) string { return onOff(g.MIG) })
	each("power limit", func(g GPUCondition) string { return watts(g.PowerLimit) })
	each("clocks", func(g GPUCondition) string { return g.clocks() })
	var firmware []string
	for _, v := range c.MEC {
		firmware = append(firmware, fmt.Sprint(v))
	}
	set("mec firmware", counted(firmware))
	set("gpu partitions", counted(c.Partitions))
	set("gpu links", links(c.Topology))
	set("numa balancing", onOff(c.NUMABalancing))
	for _, word := range strings.Fields(c.CommandLine) {
		if value, ok := strings.CutPrefix(word, "iommu="); ok {
			set("iommu", value)
		}
	}
	set("cpu governor", c.Governor)
	set("huge pages", c.HugePages)
	set("locked memory", c.lockedMemory())
	return all
}

// lockedMemory is how much memory a login may lock, for people.
func (c Condition) lockedMemory() string {
	if kib, _ := strconv.ParseInt(c.LockedMemory, 10, 64); kib > 0 {
		return Mebibytes(kib << 10)
	}
	return c.LockedMemory
}

// onOff is what tools and the kernel say of a setting, for people; "" where they do not.
func onOff(s string) string {
	return map[string]string{"Enabled": "on", "1": "on", "Disabled": "off", "0": "off"}[s]
}

func switched(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// digit is a switch as the kernel and the tools take it.
func digit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

func watts(w float64) string {
	if w == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f W", w)
}

// free are clocks that nobody holds.
const free = "free"

// clocks says who holds the clocks, or [free]; "" when it is not known.
func (g GPUCondition) clocks() string {
	switch {
	case g.Clock > 0 && g.Clock != g.FreeClock:
		return fmt.Sprintf("%.0f MHz", g.Clock)
	case g.Reasons&heldBySetting != 0:
		return "held by a setting"
	case g.Clock > 0 || g.Reasons != 0 || g.Level == "auto":
		return free
	}
	return strings.ReplaceAll(g.Level, "_", " ")
}

// counted is the value that all have, or who many have which: "on × 7, off × 1".
func counted(values []string) string {
	var kinds, parts []string
	for _, v := range values {
		if v != "" && !slices.Contains(kinds, v) {
			kinds = append(kinds, v)
		}
	}
	if len(kinds) == 1 && !slices.Contains(values, "") {
		return kinds[0]
	}
	for _, k := range kinds {
		n := 0
		for _, v := range values {
			if v == k {
				n++
			}
		}
		parts = append(parts, fmt.Sprintf("%s × %d", k, n))
	}
	return strings.Join(parts, ", ")
}

// links counts how each two GPUs are connected, from a matrix of nvidia-smi topo -m
// or rocm-smi --showtopotype: "NV18 × 28".
func links(topology string) string {
	var rows [][]string
	for line := range strings.Lines(topology) {
		next := fmt.Sprintf("GPU%d", len(rows))
		if f := strings.Fields(line); len(f) > 1 && f[0] == next && !strings.HasPrefix(f[1], "GPU") {
			rows = append(rows, f[1:])
		}
	}
	var pairs []string
	for i, row := range rows {
		for j := i + 1; j < len(rows) && j < len(row); j++ {
			pairs = append(pairs, row[j])
		}
	}
	if len(pairs) == 0 {
		return ""
	}
	if same := counted(pairs); !strings.Contains(same, "×") {
		return fmt.Sprintf("%s × %d", same, len(pairs))
	}
	return counted(pairs)
}
