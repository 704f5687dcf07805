package provision

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Condition is the state that a host is in at one moment: what changes from one
// hour to the next, or can be changed, and decides whether its numbers are good.
type Condition struct {
	PCI           map[Vendor]int   `json:"pci,omitempty"` // GPUs on the bus, by their vendor
	GPUs          []GPUCondition   `json:"gpus,omitempty"`
	MEC           []int            `json:"mec,omitempty"`  // firmware of AMD GPUs' compute engine, one for each GPU
	KFD           string           `json:"kfd,omitempty"`  // "" no such device; "there"; "usable" by the login
	DRI           string           `json:"dri,omitempty"`  // as KFD, the worst of all render devices
	NUMABalancing string           `json:"numa_balancing"` // "0", "1"; "" where the kernel has none
	CommandLine   string           `json:"command_line,omitempty"`
	Governor      string           `json:"governor,omitempty"`   // of all processors, each once
	HugePages     string           `json:"hugepages,omitempty"`  // transparent ones: "always", "madvise", "never"
	OpenFiles     int64            `json:"open_files,omitempty"` // of a login; 0: unlimited or not known
	LockedMemory  string           `json:"memlock,omitempty"`    // of a login: KiB, or "unlimited"
	Topology      string           `json:"topology,omitempty"`   // how GPUs are connected, as their tool draws it
	Partitions    []string         `json:"partitions,omitempty"` // how AMD's are split: "SPX/NPS1" is whole
	SharedMemory  int64            `json:"shared_memory_bytes,omitempty"`
	Kernel        []string         `json:"kernel_log,omitempty"` // its last lines about failed GPUs and lack of memory
	KernelUnread  bool             `json:"kernel_log_unread,omitempty"`
	DiskFree      map[string]int64 `json:"disk_free_bytes,omitempty"` // by path
	Skew          time.Duration    `json:"clock_skew"`                // the host's clock ahead of ours
	CgroupDriver  string           `json:"cgroup_driver,omitempty"`   // Docker's: "systemd", "cgroupfs"
	Toolkit       string           `json:"toolkit,omitempty"`         // Docker's for NVIDIA: "nvidia runtime", "cdi", ""
	Use           GPUUse           `json:"gpu_use,omitzero"`
	Problems      []string         `json:"problems,omitempty"`

	AMDTool string `json:"-"` // that has told of AMD's GPUs: [RocmSMI], [AMDSMI]
}

// AMD's tools: the older is there up to ROCm 7, the newer from 5.7 on. Where both are,
// the older is asked.
const (
	NVIDIASMI = "nvidia-smi"
	RocmSMI   = "rocm-smi"
	AMDSMI    = "amd-smi"
)

// GPUCondition is what the vendor's tool and the kernel say of one GPU, by its index.
// Empty or 0: they do not say.
type GPUCondition struct {
	ECC         string  `json:"ecc,omitempty"`         // "Enabled", "Disabled"
	Persistence string  `json:"persistence,omitempty"` // as ECC; NVIDIA
	MIG         string  `json:"mig,omitempty"`         // as ECC; NVIDIA
	PowerLimit  float64 `json:"power_limit_watts,omitempty"`
	Default     float64 `json:"default_power_limit_watts,omitempty"`
	SecondLimit float64 `json:"second_power_limit_watts,omitempty"` // of AMD's that have two
	Clock       float64 `json:"clock_mhz,omitempty"`                // that applications are given; NVIDIA
	FreeClock   float64 `json:"default_clock_mhz,omitempty"`        // that they are given by default; NVIDIA
	Level       string  `json:"performance_level,omitempty"`        // "auto" when nobody holds the clocks; AMD
	Reasons     uint64  `json:"clock_reasons,omitempty"`            // why clocks are held, as NVML's bits
	Violation   string  `json:"violation,omitempty"`                // which limits hold the clocks, in amd-smi's words
	Uncorrected int64   `json:"uncorrected_errors,omitempty"`
	Remap       string  `json:"row_remapping,omitempty"` // "pending", "failed" or ""
}

// Bits of nvidia-smi's clock reasons (NVML, nvmlClocksEventReasons): nothing to do; a clock that
// somebody has set; hardware slowdown, software thermal, hardware thermal, power brake.
const (
	idle          = 0x01
	heldBySetting = 0x02
	slowedByHeat  = 0x08 | 0x20 | 0x40 | 0x80
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

// Settings are what somebody may have set otherwise, and changes numbers, in words for people. What
// is not known is not there. Where GPUs differ, it says how many have what.
func (c Condition) Settings() map[string]string {
	all := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			all[name] = value
		}
	}
	for name := range gpuSettings {
		set(name, counted(c.each(name)))
	}
	set("mec firmware", counted(strings.Fields(strings.Trim(fmt.Sprint(c.MEC), "[]"))))
	set("gpu partitions", counted(c.Partitions))
	set("gpu links", links(c.Topology))
	set("numa balancing", onOff(c.NUMABalancing))
	for word := range strings.FieldsSeq(c.CommandLine) {
		if value, ok := strings.CutPrefix(word, "iommu="); ok {
			set("iommu", value)
		}
	}
	set("cpu governor", c.Governor)
	set("huge pages", c.HugePages)
	set("locked memory", c.lockedMemory())
	return all
}

// gpuSettings are what may be set on a GPU, in words for people; "" where it is not known.
var gpuSettings = map[string]func(GPUCondition) string{
	"ecc":       func(g GPUCondition) string { return onOff(g.ECC) },
	"mig":       func(g GPUCondition) string { return onOff(g.MIG) },
	persistence: func(g GPUCondition) string { return onOff(g.Persistence) },
	powerLimit:  func(g GPUCondition) string { return watts(g.PowerLimit) },
	lockedClock: GPUCondition.clocks,
}

// each is what one of the [gpuSettings] is on each GPU.
func (c Condition) each(setting string) (values []string) {
	for _, g := range c.GPUs {
		values = append(values, gpuSettings[setting](g))
	}
	return values
}

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
	var kinds []string
	count := map[string]int{}
	for _, v := range values {
		if count[v]++; v != "" && count[v] == 1 {
			kinds = append(kinds, v)
		}
	}
	if len(kinds) == 1 && count[""] == 0 {
		return kinds[0]
	}
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%s × %d", k, count[k])
	}
	return strings.Join(kinds, ", ")
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
