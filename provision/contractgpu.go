package provision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	idleMemory = 2 << 30 // what drivers keep for themselves on a GPU that nobody uses
	oldestMEC  = 177     // from which on RCCL can reclaim scratch memory (MI300X)
)

const (
	otherMachine  = "this is another machine than its block says: correct gpus, or rent the right one"
	otherMaker    = "the PCI bus has no GPU of that maker, but %s: correct gpus, or rent the right machine"
	brokenDriver  = "the driver or its tool does not work: %s"
	installDriver = "%d are on the PCI bus, and %s shows none: install the driver"
	fallenOff     = "%d are on the PCI bus, and %s shows %d: see which have failed with " +
		"`sudo dmesg | grep -E 'Xid|amdgpu'`, and reboot"
	noGPU  = "%s found no GPU, and none is on the PCI bus"
	untold = "hcl cannot read power limits, clocks and memory errors of the GPUs, so it does not check them: " +
		"see what the tool says on the host"
	otherDriver = "install a driver that the block's require allows, and reboot"
	otherROCm   = "install a ROCm that the block's require allows; its version is read from /opt/rocm/.info/version"
	moreOnGPU   = "the block's require asks for GPUs with more memory"
	endUsers    = "they take memory and time from what is measured: ask their owner to end them"
	resetGPUs   = "an earlier process has left it allocated: sudo nvidia-smi --gpu-reset, " +
		"sudo rocm-smi --gpureset -d N, sudo amd-smi reset --gpu N --gpureset, or a reboot"
	noToolkit = "Docker has no way to give GPUs to containers: install the NVIDIA container toolkit, " +
		"sudo nvidia-ctk runtime configure --runtime=docker, sudo systemctl restart docker"
	losesGPUs = "every `systemctl daemon-reload`, such as in an update of packages, takes the GPUs from running " +
		"containers: update nvidia-container-toolkit to 1.18.1, or set \"exec-opts\": [\"native.cgroupdriver=cgroupfs\"] " +
		"in /etc/docker/daemon.json and restart Docker"
	noModule = "%s is not there: load the driver with sudo modprobe amdgpu"
	notLet   = "let the login use %s: sudo usermod -aG render,video $USER"
	parts    = "engines see parts and not whole GPUs: sudo amd-smi set --gpu all --memory-partition NPS1, " +
		"then --compute-partition SPX, and reload the driver"
	oldFirmware = "RCCL cannot reclaim scratch memory and may crash: update the firmware, or write " +
		`env = { HSA_NO_SCRATCH_RECLAIM = "1" } into the engine blocks`
	passThrough = "transfers between GPUs are slower: add iommu=pt to the kernel's command line, and reboot"
	damaged     = "the GPU's memory is damaged: reset it or reboot; if it happens again, the GPU has to be replaced"
)

func (c *contract) gpus(ours Traces) {
	c.count()
	if len(c.now.GPUs) == 0 && len(c.now.Problems) > 0 {
		problems := slices.Compact(slices.Clone(c.now.Problems))
		c.warn("gpu state", false, strings.Join(problems, "; "), "", untold)
	}
	c.driver()
	c.atLeast("gpu memory", c.require.GPUMemory > 0, c.facts.leastGPUMemory(), c.require.GPUMemory, Blocked, moreOnGPU)
	c.use(ours)
	if c.host.GPUs.Vendor == AMD {
		c.amdDriver()
		c.states()
		if line := c.now.CommandLine; line != "" {
			isPassed := slices.Contains(strings.Fields(line), "iommu=pt")
			c.warn("iommu", isPassed, cmp.Or(textIf(isPassed, "iommu=pt"), "not passed through"), "iommu=pt", passThrough)
		}
	} else if len(c.now.GPUs) > 0 {
		c.nvidiaToolkit()
		c.states()
	}
}

// count counts those of the block's model. More than asked for are no lack.
func (c *contract) count() {
	want, matching, told := c.host.GPUs, 0, 0
	others := map[string]bool{}
	for _, g := range c.facts.GPUs {
		if g.isModel(want.Model) {
			matching++
		} else {
			others[g.Name] = true
		}
		if g.Vendor == want.Vendor {
			told++
		}
	}
	have := "none"
	if matching > 0 {
		have = fmt.Sprintf("%dx%s", matching, want.Model)
	}
	if len(others) > 0 {
		have += ", but " + strings.Join(slices.Sorted(maps.Keys(others)), " and ")
	}
	c.block("gpus", matching >= want.Count, have, want.String(), c.lacking(told))
}

// lacking is what to do when GPUs are missing, of which the maker's tool has told of so many.
func (c *contract) lacking(told int) string {
	tool := "nvidia-smi"
	if c.host.GPUs.Vendor == AMD {
		tool = cmp.Or(c.now.AMDTool, RocmSMI)
	}
	switch bus := c.now.PCI[c.host.GPUs.Vendor]; {
	case len(c.facts.Problems) > 0:
		return fmt.Sprintf(brokenDriver, strings.Join(c.facts.Problems, "; "))
	case bus > told && told == 0:
		return fmt.Sprintf(installDriver, bus, tool)
	case bus > told:
		return fmt.Sprintf(fallenOff, bus, tool, told)
	case told == 0 && len(c.now.PCI) > 0:
		return fmt.Sprintf(otherMaker, makers(c.now.PCI))
	case told == 0:
		return fmt.Sprintf(noGPU, tool)
	}
	return otherMachine
}

func makers(bus map[Vendor]int) string {
	var all []string
	for _, v := range slices.Sorted(maps.Keys(bus)) {
		all = append(all, fmt.Sprintf("%d of %s", bus[v], strings.ToUpper(string(v))))
	}
	return strings.Join(all, " and ")
}

func (c *contract) driver() {
	if len(c.facts.GPUs) == 0 {
		return
	}
	hold := func(check, have string, want Versions, advice string) {
		c.block(check, len(want) == 0 || want.Allow(have), orNone(have), want.String(), advice)
	}
	hold("driver", c.facts.GPUs[0].Driver, c.require.Driver, otherDriver)
	if c.host.GPUs.Vendor == AMD && (c.facts.ROCm != "" || len(c.require.ROCm) > 0) {
		hold("rocm", c.facts.ROCm, c.require.ROCm, otherROCm)
	}
}

func (f Facts) leastGPUMemory() int64 {
	if len(f.GPUs) == 0 {
		return 0
	}
	return slices.MinFunc(f.GPUs, func(a, b GPU) int { return cmp.Compare(a.MemoryBytes, b.MemoryBytes) }).MemoryBytes
}

// use holds that nobody else uses the GPUs, and where nobody does, that nothing is left.
func (c *contract) use(ours Traces) {
	hold := c.warn
	if c.require.IdleGPUs {
		hold = c.block
	}
	var who, held []string
	for _, p := range c.now.Use.Processes {
		if !ours.Ours(p.Container, p.Mark) {
			who = append(who, p.String())
		}
	}
	hold("gpu users", len(who) == 0, cmp.Or(strings.Join(who, ", "), "idle"), "nobody else", endUsers)
	if len(c.now.Use.Processes) > 0 {
		return
	}
	for i, used := range c.now.Use.Memory {
		if used > idleMemory {
			held = append(held, fmt.Sprintf("gpu%d: %s", i, Mebibytes(used)))
		}
	}
	have := "free"
	if len(held) > 0 {
		have = strings.Join(held, ", ") + " in use by no process"
	}
	hold("free gpu memory", len(held) == 0, have, "", resetGPUs)
}

// nvidiaToolkit is how Docker hands out GPUs. NVIDIA/nvidia-container-toolkit#48: before 1.18.1
// systemd takes back what it did not give out itself.
func (c *contract) nvidiaToolkit() {
	if !c.inDocker {
		return
	}
	have, version := orNone(c.now.Toolkit), c.facts.Toolkit
	if version != "" {
		have += ", version " + version
	}
	c.warn("container toolkit", c.now.Toolkit != "", have, "", noToolkit)
	if driver := c.now.CgroupDriver; version != "" && driver != "" {
		loses := driver == "systemd" && Versions{{"<", "1.18.1"}}.Allow(version)
		c.warn("cgroup driver", !loses, driver, "", losesGPUs)
	}
}

func (c *contract) amdDriver() {
	c.device("kfd", "/dev/kfd", c.now.KFD)
	c.device("dri", "/dev/dri/renderD*", c.now.DRI)
	if split := counted(c.now.Partitions); split != "" {
		isPart := func(p string) bool { return !strings.HasPrefix(p, "SPX") }
		c.warn("gpu partitions", !slices.ContainsFunc(c.now.Partitions, isPart), split, "SPX", parts)
	}
	if len(c.now.MEC) > 0 {
		oldest := slices.Min(c.now.MEC)
		want := fmt.Sprintf("at least %d", oldestMEC)
		c.warn("mec firmware", oldest >= oldestMEC, fmt.Sprint(oldest), want, oldFirmware)
	}
}

// device holds one of AMD's. Containers get the groups that own it.
func (c *contract) device(check, name, state string) {
	have, advice := "not for this login", notLet
	switch {
	case state == "" && c.inDocker:
		have, advice = "not there", noModule
	case state == "":
		have = "not there"
	case c.inDocker:
		have = "there"
	case state == "usable":
		have = state
	}
	c.block(check, have == "there" || have == "usable", have, "", fmt.Sprintf(advice, name))
}

type stateAdvice struct{ ecc, power, clocks, throttling string }

var nvidiaAdvice = stateAdvice{
	ecc:    "GPUs with and without ECC are not the same: sudo nvidia-smi -e 1, and reboot",
	power:  "somebody has lowered it: sudo nvidia-smi -pl with the default",
	clocks: "somebody has locked them: sudo nvidia-smi -rgc, sudo nvidia-smi -rac",
	throttling: "heat or the power brake holds clocks down: look at cooling and power supplies " +
		"with nvidia-smi -q -d PERFORMANCE",
}

var amdAdvice = stateAdvice{
	ecc: "some GPUs count no memory errors: look at the driver with `sudo dmesg | grep -i ras`",
	power: "somebody has lowered it: sudo rocm-smi --resetpoweroverdrive, " +
		"or sudo amd-smi reset --gpu all --power-cap",
	clocks: "somebody has locked them: sudo rocm-smi --setperflevel auto, " +
		"or sudo amd-smi set --gpu all --perf-level AUTO",
	throttling: "a limit holds clocks down: look at cooling and power supplies with amd-smi metric --throttle",
}

// What to do about settings that only NVIDIA's GPUs have.
const (
	setPersistence = "sudo nvidia-smi -pm 1: otherwise the driver forgets clocks and limits when nobody uses a GPU"
	leaveMIG       = "engines see slices and not whole GPUs: sudo nvidia-smi -mig 0"
)

func (c *contract) states() {
	if len(c.now.GPUs) == 0 {
		return
	}
	advice := amdAdvice
	if c.host.GPUs.Vendor != AMD {
		advice = nvidiaAdvice
		c.each("persistence mode", "on", setPersistence, func(g GPUCondition) string {
			return textIf(g.Persistence == "Disabled", "off")
		})
		c.each("mig", "off", leaveMIG, func(g GPUCondition) string { return textIf(g.MIG == "Enabled", "split") })
	}
	c.ecc(advice.ecc)
	first := c.now.GPUs[0]
	if first.PowerLimit > 0 {
		c.each("power limit", watts(first.PowerLimit), advice.power, func(g GPUCondition) string {
			// Without a default, all have to have what the first has.
			most := cmp.Or(g.Default, first.PowerLimit)
			lowered := g.PowerLimit < most || g.Default == 0 && g.PowerLimit != most
			return textIf(g.PowerLimit > 0 && lowered, fmt.Sprintf("%.0f W of %.0f W", g.PowerLimit, most))
		})
	}
	if p := c.host.Prepare; first.clocks() != "" && (p == nil || p.LockClocks == 0) {
		c.each("clocks", free, advice.clocks, func(g GPUCondition) string {
			return textIf(g.clocks() != free, g.clocks())
		})
	}
	c.each("throttling", "none", advice.throttling, GPUCondition.slowed)
}

func textIf(wrong bool, text string) string {
	if wrong {
		return text
	}
	return ""
}

// each warns of the GPUs that are not as they should be: "gpu3 off". good is what all are otherwise.
func (c *contract) each(check, good, advice string, wrong func(GPUCondition) string) {
	var list []string
	for i, g := range c.now.GPUs {
		if w := wrong(g); w != "" {
			list = append(list, fmt.Sprintf("gpu%d %s", i, w))
		}
	}
	c.warn(check, len(list) == 0, cmp.Or(strings.Join(list, ", "), good), "", advice)
}

// ecc holds whether all GPUs count the errors of their memory, and whether there are any.
func (c *contract) ecc(advice string) {
	if !slices.ContainsFunc(c.now.GPUs, func(g GPUCondition) bool { return g.ECC != "" }) {
		return
	}
	modes := map[string]bool{}
	for _, g := range c.now.GPUs {
		modes[orNone(onOff(g.ECC))] = true
	}
	c.warn("ecc", len(modes) == 1, strings.Join(slices.Sorted(maps.Keys(modes)), " and "), "", advice)
	c.each("ecc errors", "none", damaged, func(g GPUCondition) string {
		if g.Uncorrected > 0 {
			return fmt.Sprintf("%d uncorrected", g.Uncorrected)
		}
		return textIf(g.Remap != "", "row remapping "+g.Remap)
	})
}

func (g GPUCondition) slowed() string {
	if g.Violation != "" {
		return "slowed down (" + g.Violation + ")"
	}
	return textIf(g.Reasons&slowedByHeat != 0, fmt.Sprintf("slowed down (reasons 0x%02x)", g.Reasons))
}
