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

	"hclbench/plain"
	"hclbench/smi"
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
	Partitions    []string         `json:"partitions,omitempty"` // into how many each of AMD's is split, its processors and its memory: "SPX/NPS1" is whole
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
	amdTool      string  // that has told of them: rocmSMI, amdSMI
}

// AMD's tools: the older is there up to ROCm 7, the newer from 5.7 on. Where both are,
// the older is asked.
const (
	rocmSMI = "rocm-smi"
	amdSMI  = "amd-smi"
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

// Condition finds out what state a host is in. paths are where images and models
// will be kept; Docker's own directory is looked at besides, and where there is
// neither the login's home.
func (c *Conn) Condition(ctx context.Context, paths []string) (Condition, error) {
	var info system.Info
	if c.host.Runtime != Process {
		var err error
		info, err = query(ctx, c, func(ctx context.Context, api *client.Client) (system.Info, error) { return api.Info(ctx) })
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
		words = append(words, plain.Quote(p))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, factsTimeout, fmt.Errorf("nothing came within %s: a driver may hang", factsTimeout))
	defer cancel()
	before := time.Now()
	out, err := c.Run(ctx, "set -- "+strings.Join(words, " ")+"\n"+conditionScript, nil)
	if err != nil {
		return Condition{}, fmt.Errorf("look at the state of the host: %w", err)
	}
	after := time.Now()
	now := parseCondition(plain.Text(out), before, after)
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
	var clocks, remapped []string
	var answered []int           // NVIDIA's GPUs, in the order of the tool
	var addresses []string       // AMD's GPUs on the bus
	ras := map[string]string{}   // counts of errors by address
	texts := map[string]string{} // of the tools that speak JSON
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch name {
		case "amd", "limit", "level", "throttle", "fw", "links":
			texts[name] += value + "\n"
		case "clocks":
			clocks = append(clocks, value)
		case "remapped":
			remapped = append(remapped, value)
		case "ras":
			address, counts, _ := strings.Cut(value, " ")
			ras[address] = counts
		case "partition":
			c.Partitions = append(c.Partitions, strings.ReplaceAll(value, " ", "/"))
		case "power_default":
			c.powerDefault = float64(number(value)) / 1e6
		case "topology":
			c.Topology += value + "\n"
		case "memlock":
			c.LockedMemory = value
		case "pci":
			id, address, _ := strings.Cut(value, " ")
			vendor := map[string]Vendor{"0x10de": NVIDIA, "0x1002": AMD}[id]
			c.PCI[vendor]++
			if vendor == AMD {
				addresses = append(addresses, address)
			}
		case "nvidia":
			if index, g, ok := parseGPUCondition(value); ok {
				*c.gpu(index) = g
				answered = append(answered, index)
			} else if value != "" {
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
	for i, both := range clocks[:min(len(clocks), len(answered))] {
		g := c.gpu(answered[i])
		now, free, _ := strings.Cut(both, ", ")
		g.Clock, _ = strconv.ParseFloat(now, 64)
		g.FreeClock, _ = strconv.ParseFloat(free, 64)
	}
	for i, both := range remapped[:min(len(remapped), len(answered))] {
		pending, failure, _ := strings.Cut(both, ", ")
		c.gpu(answered[i]).Remap = remap(pending, failure)
	}
	for _, tool := range []struct {
		name, kind string
		read       func(text string) error
	}{
		{rocmSMI, "amd", c.readROCm}, {amdSMI, "limit", c.readLimits}, {amdSMI, "level", c.readLevels}, {amdSMI, "fw", c.readFirmware}, {amdSMI, "links", c.readLinks},
	} {
		if text := texts[tool.kind]; strings.TrimSpace(text) != "" {
			c.amdTool = tool.name
			if err := tool.read(text); err != nil {
				c.Problems = append(c.Problems, tool.name+": "+err.Error())
			}
		}
	}
	c.addErrors(addresses, ras)
	c.addViolations(texts["throttle"])
	return c
}

// gpu is the GPU of that index. Those before it that have not answered are there, and
// nothing is known of them.
func (c *Condition) gpu(index int) *GPUCondition {
	for len(c.GPUs) <= index {
		c.GPUs = append(c.GPUs, GPUCondition{Default: c.powerDefault})
	}
	return &c.GPUs[index]
}

// readROCm reads rocm-smi --showmaxpower --showperflevel --json.
func (c *Condition) readROCm(text string) error {
	cards, _, err := smi.Parse(text)
	for _, card := range cards {
		g := c.gpu(card.Index)
		g.Level = strings.ToLower(card.At("Performance Level").Text())
		g.PowerLimit, _ = card.At("Max Graphics Package Power (W)").Number()
	}
	return err
}

// readLimits reads amd-smi static --limit --json. The limits are under "ppt0" since
// ROCm 7.2, and some GPUs have a second under "ppt1".
func (c *Condition) readLimits(text string) error {
	gpus, _, err := smi.Parse(text)
	for _, of := range gpus {
		g := c.gpu(of.Index)
		g.PowerLimit, _ = smi.First(of.At("limit", "ppt0", "socket_power_limit"), of.At("limit", "socket_power")).Number()
		g.SecondLimit, _ = of.At("limit", "ppt1", "socket_power_limit").Number()
	}
	return err
}

// readLevels reads amd-smi metric --perf-level --json.
func (c *Condition) readLevels(text string) error {
	gpus, _, err := smi.Parse(text)
	for _, of := range gpus {
		c.gpu(of.Index).Level = strings.ToLower(strings.TrimPrefix(of.At("perf_level").Text(), "AMDSMI_DEV_PERF_LEVEL_"))
	}
	return err
}

// readFirmware reads amd-smi firmware --json.
func (c *Condition) readFirmware(text string) error {
	gpus, _, err := smi.Parse(text)
	for _, of := range gpus {
		for _, fw := range of.At("fw_list").Items() {
			if version, ok := fw.At("fw_version").Number(); ok && fw.At("fw_id").Text() == "CP_MEC1" {
				c.MEC = append(c.MEC, int(version))
			}
		}
	}
	return err
}

// readLinks reads amd-smi topology --link-type --json, and draws it as rocm-smi does.
func (c *Condition) readLinks(text string) error {
	gpus, _, err := smi.Parse(text)
	for _, of := range gpus {
		row := fmt.Sprintf("GPU%d", of.Index)
		for _, to := range of.At("links").Items() {
			row += " " + cmp.Or(to.At("link_type").Text(), "none")
		}
		c.Topology += row + "\n"
	}
	return err
}

// addErrors adds the kernel's counts of memory errors, "ue: 0 ce: 3", of AMD's GPUs
// that count them. The tools count GPUs in the order of their addresses on the bus, and
// parts of one GPU one after another. Where that does not come out even, it is not
// known whose the counts are.
func (c *Condition) addErrors(addresses []string, ras map[string]string) {
	if len(addresses) == 0 || len(ras) == 0 || len(c.GPUs) == 0 || len(c.GPUs)%len(addresses) != 0 {
		return
	}
	slices.Sort(addresses)
	for i := range c.GPUs {
		counts, ok := ras[addresses[i*len(addresses)/len(c.GPUs)]]
		if !ok {
			continue
		}
		c.GPUs[i].ECC = "Enabled"
		if _, after, ok := strings.Cut(counts, "ue:"); ok {
			c.GPUs[i].Uncorrected = number(strings.Fields(after + " 0")[0])
		}
	}
}

// violations are what holds clocks down, in the names of amd-smi metric --throttle. The
// others that it has are active on an idle GPU too: low utilisation, and what counts it
// in with these.
var violations = []string{"prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal", "gfx_clk_below_host_limit_power", "gfx_clk_below_host_limit_thermal"}

// addViolations adds what amd-smi metric --throttle --json tells: "ACTIVE", or since
// ROCm 7 that of each part of a GPU. Not every release knows the option.
func (c *Condition) addViolations(throttle string) {
	gpus, _, err := smi.Parse(throttle)
	if err != nil {
		return
	}
	for _, g := range gpus {
		if g.Index >= len(c.GPUs) {
			break
		}
		var active []string
		for _, name := range violations {
			if slices.ContainsFunc(g.At("throttle", name+"_violation_status").List(), func(v smi.Value) bool { return v.Text() == "ACTIVE" }) {
				active = append(active, strings.ReplaceAll(name, "_", " "))
			}
		}
		slices.Sort(active)
		c.GPUs[g.Index].Violation = strings.Join(active, " and ")
	}
}

// parseGPUCondition reads a line of nvidia-smi. What a GPU does not tell, it says in
// brackets: "[N/A]".
func parseGPUCondition(line string) (index int, g GPUCondition, ok bool) {
	f := strings.Split(line, ", ")
	n, err := strconv.ParseUint(f[0], 10, 10)
	if err != nil || len(f) != 8 {
		return 0, GPUCondition{}, false
	}
	said := func(s string) string {
		if strings.HasPrefix(s, "[") {
			return ""
		}
		return s
	}
	g = GPUCondition{ECC: said(f[1]), Persistence: said(f[2]), MIG: said(f[3]), Uncorrected: number(f[7])}
	g.PowerLimit, _ = strconv.ParseFloat(f[4], 64)
	g.Default, _ = strconv.ParseFloat(f[5], 64)
	g.Reasons, _ = strconv.ParseUint(strings.TrimPrefix(f[6], "0x"), 16, 64)
	return int(n), g, true
}

// remap is what nvidia-smi --query-remapped-rows says of one GPU: "Yes", "No", or the
// digits for them.
func remap(pending, failure string) string {
	yes := func(s string) bool { return strings.EqualFold(s, "yes") || s == "1" }
	switch {
	case yes(failure):
		return "failed"
	case yes(pending):
		return "pending"
	}
	return ""
}
