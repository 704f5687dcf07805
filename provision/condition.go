package provision

import (
	_ "embed"
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
	RocmSMI = "rocm-smi"
	AMDSMI  = "amd-smi"
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

// Bits of nvidia-smi's clock reasons (NVML, nvmlClocksEventReasons): nothing to do; a
// clock that somebody has set; hardware slowdown, software thermal, hardware thermal, power
// brake.
const (
	idle          = 0x01
	heldBySetting = 0x02
	slowedByHeat  = 0x08 | 0x20 | 0x40 | 0x80
)
