package look

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/reach"
	"hclbench/smi"
)

// conditionScript prints one fact per line as NAME=VALUE; what it does not find,
// it leaves out. Its arguments are fields of nvidia-smi --query-gpu, and paths.
//
//go:embed condition.sh
var conditionScript string

const conditionFields = "index,ecc.mode.current,persistence_mode,mig.mode.current,power.limit,power.default_limit," +
	"clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total"

// Condition finds out what state a host is in. paths are where images and models will be kept;
// Docker's own is looked at besides, and without any the login's home. A nil daemon is not asked.
func Condition(ctx context.Context, c *reach.Conn, d *docker.Daemon, paths []string) (provision.Condition, error) {
	var about docker.About
	if d != nil && c.Host().Runtime != provision.Process {
		var err error
		about, err = d.About(ctx)
		if provision.OutOfReach(err) {
			return provision.Condition{}, err
		}
		if about.Root != "" {
			paths = append(slices.Clone(paths), about.Root)
		}
	}
	if len(paths) == 0 {
		paths = []string{c.Home()}
	}
	before := time.Now()
	said, err := run(ctx, c, conditionScript, append([]string{conditionFields}, paths...)...)
	if err != nil {
		return provision.Condition{}, fmt.Errorf("look at the state of the host: %w", err)
	}
	now := parseCondition(said, before, time.Now())
	now.CgroupDriver, now.Toolkit = about.CgroupDriver, about.Toolkit
	now.Use, err = GPUUse(ctx, c)
	now.Problems = append(now.Problems, now.Use.Problems...)
	return now, err
}

type condition struct {
	provision.Condition
	said         lines
	powerDefault float64 // of AMD's GPUs, W; 0: not known
}

func parseCondition(said lines, before, after time.Time) provision.Condition {
	c := condition{said: said, Condition: provision.Condition{
		PCI:           map[provision.Vendor]int{},
		KFD:           device(said.Answers["kfd"]),
		DRI:           device(said.Answers["dri"]),
		NUMABalancing: said.One("numa_balancing"),
		CommandLine:   said.One("cmdline"),
		Governor:      said.One("governor"),
		HugePages:     said.One("hugepages"),
		OpenFiles:     said.number("files"),
		LockedMemory:  said.One("memlock"),
		SharedMemory:  said.number("shm_kib") << 10,
		Kernel:        said.Answers["kernel"],
		KernelUnread:  len(said.Answers["log"]) > 0,
		DiskFree:      map[string]int64{},
		Skew:          skew(said.number("time"), before, after),
	}}
	for _, line := range said.Answers["topology"] {
		c.Topology += line + "\n"
	}
	for _, line := range said.Answers["disk"] {
		if free, path, ok := strings.Cut(line, " "); ok && free != "" {
			c.DiskFree[path] = number(free) << 10
		}
	}
	for _, line := range said.Answers["partition"] {
		c.Partitions = append(c.Partitions, strings.ReplaceAll(line, " ", "/"))
	}
	for _, line := range said.Answers["mec"] {
		c.MEC = append(c.MEC, int(number(line)))
	}
	c.powerDefault = float64(said.number("power_default")) / 1e6
	c.ask()
	c.addErrors(c.bus())
	c.addViolations()
	return c.Condition
}

// device is how a kind of devices can be used: as the worst of them.
func device(said []string) string {
	switch {
	case len(said) == 0:
		return ""
	case slices.ContainsFunc(said, func(line string) bool { return line != "usable" }):
		return "there"
	}
	return "usable"
}

// skew is how far a clock is ahead that was read, in the second that follows at, at
// some moment in between.
func skew(at int64, before, after time.Time) time.Duration {
	if at <= 0 {
		return 0
	}
	early, late := time.Unix(at, 0).Sub(after), time.Unix(at+1, 0).Sub(before)
	return max(early, 0) + min(late, 0)
}

// bus counts the GPUs on the PCI bus, and returns the addresses of AMD's, sorted.
func (c *condition) bus() (addresses []string) {
	makers := map[string]provision.Vendor{"0x10de": provision.NVIDIA, "0x1002": provision.AMD}
	for _, line := range c.said.Answers["pci"] {
		id, address, _ := strings.Cut(line, " ")
		c.PCI[makers[id]]++
		if makers[id] == provision.AMD {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return addresses
}

// gpu is the GPU of that index. Those before it that have not answered are there, and
// nothing is known of them.
func (c *condition) gpu(index int) *provision.GPUCondition {
	for len(c.GPUs) <= index {
		c.GPUs = append(c.GPUs, provision.GPUCondition{Default: c.powerDefault})
	}
	return &c.GPUs[index]
}

// nvidia reads what nvidia-smi has said. Its queries tell of the same GPUs in the same order.
func (c *condition) nvidia(gpus []smi.GPU, _ smi.Object) {
	for _, said := range gpus {
		g := provision.GPUCondition{ECC: said.At("ecc.mode.current").Text(), Persistence: said.At("persistence_mode").Text(),
			MIG: said.At("mig.mode.current").Text()}
		g.PowerLimit, _ = said.At("power.limit").Number()
		g.Default, _ = said.At("power.default_limit").Number()
		g.Reasons, _ = said.At("clocks_throttle_reasons.active").Mask()
		errors, _ := said.At("ecc.errors.uncorrected.volatile.total").Number()
		g.Uncorrected = int64(errors)
		*c.gpu(said.Index) = g
	}
	pairs := func(name string, read func(g *provision.GPUCondition, first, second string)) {
		all := c.said.Answers[name]
		for i, line := range all[:min(len(all), len(gpus))] {
			first, second, _ := strings.Cut(line, ", ")
			read(c.gpu(gpus[i].Index), first, second)
		}
	}
	pairs("clocks", func(g *provision.GPUCondition, now, free string) {
		g.Clock, _ = strconv.ParseFloat(now, 64)
		g.FreeClock, _ = strconv.ParseFloat(free, 64)
	})
	pairs("remapped", func(g *provision.GPUCondition, pending, failed string) { g.Remap = remap(pending, failed) })
}

// remap is what nvidia-smi --query-remapped-rows says of one GPU: "Yes", "No", or the
// digits for them.
func remap(pending, failed string) string {
	yes := func(s string) bool { return strings.EqualFold(s, "yes") || s == "1" }
	switch {
	case yes(failed):
		return "failed"
	case yes(pending):
		return "pending"
	}
	return ""
}

// ask reads what the tools have said.
func (c *condition) ask() {
	each := func(name, lines string, read func(g *provision.GPUCondition, of smi.GPU)) tool {
		return tool{name, lines, "", func(gpus []smi.GPU, _ smi.Object) {
			c.AMDTool = name
			for _, of := range gpus {
				read(c.gpu(of.Index), of)
			}
		}}
	}
	c.Problems = append(c.Problems, c.said.ask([]tool{
		{provision.NVIDIASMI, "nvidia", conditionFields, c.nvidia},
		// rocm-smi --showmaxpower --showperflevel
		each(provision.RocmSMI, "amd", func(g *provision.GPUCondition, of smi.GPU) {
			g.Level = strings.ToLower(of.At("Performance Level").Text())
			g.PowerLimit, _ = of.At("Max Graphics Package Power (W)").Number()
		}),
		// amd-smi static --limit: under "ppt0" since ROCm 7.2, and for some GPUs "ppt1"
		each(provision.AMDSMI, "limit", func(g *provision.GPUCondition, of smi.GPU) {
			first := smi.First(of.At("limit", "ppt0", "socket_power_limit"), of.At("limit", "socket_power"))
			g.PowerLimit, _ = first.Number()
			g.SecondLimit, _ = of.At("limit", "ppt1", "socket_power_limit").Number()
		}),
		// amd-smi metric --perf-level
		each(provision.AMDSMI, "level", func(g *provision.GPUCondition, of smi.GPU) {
			g.Level = strings.ToLower(strings.TrimPrefix(of.At("perf_level").Text(), "AMDSMI_DEV_PERF_LEVEL_"))
		}),
		each(provision.AMDSMI, "fw", c.firmware),
		each(provision.AMDSMI, "links", c.links),
	})...)
}

// firmware reads amd-smi firmware.
func (c *condition) firmware(_ *provision.GPUCondition, of smi.GPU) {
	for _, fw := range of.At("fw_list").Items() {
		if version, ok := fw.At("fw_version").Number(); ok && fw.At("fw_id").Text() == "CP_MEC1" {
			c.MEC = append(c.MEC, int(version))
		}
	}
}

// links reads amd-smi topology --link-type, and draws it as rocm-smi does.
func (c *condition) links(_ *provision.GPUCondition, of smi.GPU) {
	row := fmt.Sprintf("GPU%d", of.Index)
	for _, to := range of.At("links").Items() {
		row += " " + cmp.Or(to.At("link_type").Text(), "none")
	}
	c.Topology += row + "\n"
}

// addErrors adds the kernel's counts of memory errors, "ue: 0 ce: 3", of AMD's GPUs. The tools
// count GPUs in the order of their addresses on the bus, parts of one GPU one after another. Where
// that does not come out even, nobody knows whose they are.
func (c *condition) addErrors(addresses []string) {
	counts := map[string]string{} // by address
	for _, line := range c.said.Answers["ras"] {
		address, count, _ := strings.Cut(line, " ")
		counts[address] = count
	}
	if len(addresses) == 0 || len(counts) == 0 || len(c.GPUs)%len(addresses) != 0 {
		return
	}
	for i := range c.GPUs {
		count, ok := counts[addresses[i*len(addresses)/len(c.GPUs)]]
		if !ok {
			continue
		}
		c.GPUs[i].ECC = "Enabled"
		if _, after, ok := strings.Cut(count, "ue:"); ok {
			c.GPUs[i].Uncorrected = number(strings.Fields(after + " 0")[0])
		}
	}
}

// violations are what holds clocks down, in the names of amd-smi metric --throttle. The others
// that it has are active on an idle GPU too: low utilisation, and what counts it in with these.
var violations = []string{
	"prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal",
	"gfx_clk_below_host_limit_power", "gfx_clk_below_host_limit_thermal",
}

// addViolations adds what amd-smi metric --throttle --json tells: "ACTIVE", or since
// ROCm 7 that of each part of a GPU. Not every release knows the option.
func (c *condition) addViolations() {
	gpus, _, err := smi.Parse(c.said.text("throttle"))
	if err != nil {
		return
	}
	isActive := func(v smi.Value) bool { return v.Text() == "ACTIVE" }
	for _, g := range gpus {
		if g.Index >= len(c.GPUs) {
			break
		}
		var active []string
		for _, name := range violations {
			if slices.ContainsFunc(g.At("throttle", name+"_violation_status").List(), isActive) {
				active = append(active, strings.ReplaceAll(name, "_", " "))
			}
		}
		slices.Sort(active)
		c.GPUs[g.Index].Violation = strings.Join(active, " and ")
	}
}
