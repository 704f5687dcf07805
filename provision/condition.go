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

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
)

// conditionScript prints one fact per line as NAME=VALUE; what it does not find,
// it leaves out. Its arguments are paths.
//
//go:embed condition.sh
var conditionScript string

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
	Topology      string           `json:"topology,omitempty"`   // how GPUs are connected, as the vendor's tool draws it
	SharedMemory  int64            `json:"shared_memory_bytes,omitempty"`
	Kernel        []string         `json:"kernel_log,omitempty"` // its last lines about failed GPUs and lack of memory
	KernelUnread  bool             `json:"kernel_log_unread,omitempty"`
	DiskFree      map[string]int64 `json:"disk_free_bytes,omitempty"` // by path
	Skew          time.Duration    `json:"clock_skew"`                // the host's clock ahead of ours
	CgroupDriver  string           `json:"cgroup_driver,omitempty"`   // Docker's: "systemd", "cgroupfs"
	Toolkit       string           `json:"toolkit,omitempty"`         // how Docker hands out NVIDIA GPUs: "nvidia runtime", "cdi"; "" not seen
	Use           GPUUse           `json:"gpu_use,omitzero"`
	Problems      []string         `json:"problems,omitempty"`

	powerDefault float64 // of AMD's GPUs, W; 0: not known
}

// GPUCondition is what the vendor's tool and the kernel say of one GPU. Empty or 0:
// they do not say.
type GPUCondition struct {
	ECC         string  `json:"ecc,omitempty"`         // "Enabled", "Disabled"
	Persistence string  `json:"persistence,omitempty"` // as ECC; NVIDIA
	MIG         string  `json:"mig,omitempty"`         // as ECC; NVIDIA
	PowerLimit  float64 `json:"power_limit_watts,omitempty"`
	Default     float64 `json:"default_power_limit_watts,omitempty"`
	Clock       float64 `json:"clock_mhz,omitempty"`         // that applications are given; NVIDIA
	FreeClock   float64 `json:"default_clock_mhz,omitempty"` // that they are given by default; NVIDIA
	Level       string  `json:"performance_level,omitempty"` // "auto" when nobody holds the clocks; AMD
	Reasons     uint64  `json:"clock_reasons,omitempty"`     // why clocks are held, as NVML's bits
	Violation   string  `json:"violation,omitempty"`         // which limits hold the clocks, in amd-smi's words
	Uncorrected int64   `json:"uncorrected_errors,omitempty"`
	Remap       string  `json:"row_remapping,omitempty"` // "pending", "failed" or ""
}

// Bits of nvidia-smi's clock reasons (NVML, nvmlClocksEventReasons): a clock that
// somebody has set; hardware slowdown, software thermal, hardware thermal, power
// brake.
const (
	heldBySetting = 0x02
	slowedByHeat  = 0x08 | 0x20 | 0x40 | 0x80
)

// Condition finds out what state a host is in. paths are where images and models
// will be kept; Docker's own directory is looked at besides, and where there is
// neither the login's home.
func (c *Conn) Condition(ctx context.Context, paths []string) (Condition, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, factsTimeout, fmt.Errorf("nothing came within %s: a driver may hang", factsTimeout))
	defer cancel()
	var info system.Info
	if c.host.Runtime != Process {
		var err error
		info, err = query(ctx, c, func(api *client.Client) (system.Info, error) { return api.Info(ctx) })
		if errors.Is(err, ErrUnreachable) {
			return Condition{}, err
		}
		if info.DockerRootDir != "" {
			paths = append(slices.Clone(paths), info.DockerRootDir)
		}
	}
	if len(paths) == 0 {
		paths = []string{c.home}
	}
	var words []string
	for _, p := range paths {
		words = append(words, quote(p))
	}
	before := time.Now()
	out, err := c.Run(ctx, "set -- "+strings.Join(words, " ")+"\n"+conditionScript, nil)
	if err != nil {
		return Condition{}, fmt.Errorf("look at the state of the host: %w", err)
	}
	after := time.Now()
	now := parseCondition(out, before, after)
	now.CgroupDriver = info.CgroupDriver
	for name := range info.Runtimes {
		if name == "nvidia" {
			now.Toolkit = "nvidia runtime"
		}
	}
	if now.Toolkit == "" && len(info.CDISpecDirs) > 0 {
		now.Toolkit = "cdi"
	}
	now.Use, err = c.GPUUse(ctx)
	now.Problems = append(now.Problems, now.Use.Problems...)
	return now, err
}

// parseCondition reads what the script has printed between two moments.
func parseCondition(out string, before, after time.Time) Condition {
	c := Condition{PCI: map[Vendor]int{}, DiskFree: map[string]int64{}}
	device := func(was, value string) string {
		if value != "usable" || was == "there" {
			return "there"
		}
		return "usable"
	}
	var ras, clocks []string
	texts := map[string]string{} // of the tools that speak JSON
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch name {
		case "amd", "limit", "level", "throttle":
			texts[name] += value + "\n"
		case "clocks":
			clocks = append(clocks, value)
		case "ras":
			ras = append(ras, value)
		case "power_default":
			c.powerDefault = float64(number(value)) / 1e6
		case "topology":
			c.Topology += value + "\n"
		case "memlock":
			c.LockedMemory = value
		case "pci":
			vendor, _, _ := strings.Cut(value, " ")
			c.PCI[map[string]Vendor{"0x10de": NVIDIA, "0x1002": AMD}[vendor]]++
		case "nvidia":
			if g, ok := parseGPUCondition(value); ok {
				c.GPUs = append(c.GPUs, g)
			} else {
				c.Problems = append(c.Problems, "nvidia-smi: "+value)
			}
		case "mec":
			c.MEC = append(c.MEC, int(number(value)))
		case "kfd":
			c.KFD = device(c.KFD, value)
		case "dri":
			c.DRI = device(c.DRI, value)
		case "numa_balancing":
			c.NUMABalancing = value
		case "cmdline":
			c.CommandLine = value
		case "governor":
			c.Governor = value
		case "hugepages":
			c.HugePages = value
		case "files":
			c.OpenFiles = number(value)
		case "shm_kib":
			c.SharedMemory = number(value) << 10
		case "log":
			c.KernelUnread = true
		case "kernel":
			c.Kernel = append(c.Kernel, value)
		case "disk":
			if free, path, ok := strings.Cut(value, " "); ok && free != "" {
				c.DiskFree[path] = number(free) << 10
			}
		case "time":
			// It was read in the second that follows at some moment in between.
			if at := number(value); at > 0 {
				early, late := time.Unix(at, 0).Sub(after), time.Unix(at+1, 0).Sub(before)
				if early > 0 {
					c.Skew = early
				} else if late < 0 {
					c.Skew = late
				}
			}
		}
	}
	for i, both := range clocks[:min(len(clocks), len(c.GPUs))] {
		now, free, _ := strings.Cut(both, ", ")
		c.GPUs[i].Clock, _ = strconv.ParseFloat(now, 64)
		c.GPUs[i].FreeClock, _ = strconv.ParseFloat(free, 64)
	}
	switch {
	case texts["amd"] != "":
		if err := c.parseROCm(texts["amd"]); err != nil {
			c.Problems = append(c.Problems, "rocm-smi: "+lastLines(texts["amd"], 1))
		}
	case texts["limit"] != "":
		if err := c.parseAMD(texts["limit"], texts["level"]); err != nil {
			c.Problems = append(c.Problems, "amd-smi: "+lastLines(texts["limit"], 1))
		}
	}
	c.addErrors(ras)
	c.addViolations(texts["throttle"])
	return c
}

// parseROCm reads rocm-smi --showmaxpower --showperflevel --json.
func (c *Condition) parseROCm(text string) error {
	cards, _, err := rocmCards(text)
	if err != nil {
		return err
	}
	for _, card := range cards {
		g := GPUCondition{Default: c.powerDefault, Level: strings.ToLower(card.field("Performance Level"))}
		g.PowerLimit, _ = strconv.ParseFloat(card.field("Max Graphics Package Power (W)"), 64)
		c.GPUs = append(c.GPUs, g)
	}
	return nil
}

// parseAMD reads amd-smi static --limit and amd-smi metric --perf-level with --json.
// Limits are under "ppt0" since ROCm 7.2.
func (c *Condition) parseAMD(limits, levels string) error {
	type limit struct {
		Old amdSize `json:"socket_power"`
		New amdSize `json:"socket_power_limit"`
	}
	var list []struct {
		Limit struct {
			limit
			PPT0 limit `json:"ppt0"`
		}
	}
	if err := amdList(limits, &list); err != nil {
		return err
	}
	for _, g := range list {
		watts := cmp.Or(g.Limit.PPT0.New.Value, g.Limit.Old.Value)
		power, _ := watts.Float64()
		c.GPUs = append(c.GPUs, GPUCondition{PowerLimit: power, Default: c.powerDefault})
	}
	var at []struct {
		Level string `json:"perf_level"`
	}
	if amdList(levels, &at) == nil {
		for i, g := range at[:min(len(at), len(c.GPUs))] {
			c.GPUs[i].Level = strings.ToLower(strings.TrimPrefix(g.Level, "AMDSMI_DEV_PERF_LEVEL_"))
		}
	}
	return nil
}

// addErrors adds the kernel's counts of memory errors, "ue: 0 ce: 3" for each GPU of
// AMD that counts them.
func (c *Condition) addErrors(ras []string) {
	for i, counts := range ras[:min(len(ras), len(c.GPUs))] {
		c.GPUs[i].ECC = "Enabled"
		if _, after, ok := strings.Cut(counts, "ue:"); ok {
			c.GPUs[i].Uncorrected = number(strings.Fields(after + " 0")[0])
		}
	}
}

// addViolations adds what amd-smi metric --throttle --json tells. Not every release
// knows the option.
func (c *Condition) addViolations(throttle string) {
	var violations []struct {
		Throttle map[string]any
	}
	if amdList(throttle, &violations) != nil {
		return
	}
	for i, v := range violations[:min(len(violations), len(c.GPUs))] {
		var active []string
		for name, state := range v.Throttle {
			if what, is := strings.CutSuffix(name, "_violation_status"); is && fmt.Sprint(state) == "ACTIVE" {
				active = append(active, strings.ReplaceAll(what, "_", " "))
			}
		}
		slices.Sort(active)
		c.GPUs[i].Violation = strings.Join(active, " and ")
	}
}

func parseGPUCondition(line string) (GPUCondition, bool) {
	f := strings.Split(line, ", ")
	if len(f) != 10 {
		return GPUCondition{}, false
	}
	said := func(s string) string {
		if strings.HasPrefix(s, "[") {
			return ""
		}
		return s
	}
	g := GPUCondition{ECC: said(f[1]), Persistence: said(f[2]), MIG: said(f[3]), Uncorrected: number(f[7])}
	g.PowerLimit, _ = strconv.ParseFloat(f[4], 64)
	g.Default, _ = strconv.ParseFloat(f[5], 64)
	g.Reasons, _ = strconv.ParseUint(strings.TrimPrefix(f[6], "0x"), 16, 64)
	switch {
	case strings.EqualFold(f[9], "yes"):
		g.Remap = "failed"
	case strings.EqualFold(f[8], "yes"):
		g.Remap = "pending"
	}
	return g, true
}
