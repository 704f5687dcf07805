package provision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Level says what a finding means.
type Level string

const (
	OK      Level = "ok"
	Warning Level = "warning" // numbers may be worse, or not comparable
	Blocked Level = "blocked" // nothing is started there
)

// Finding is one line of the contract, held against a host.
type Finding struct {
	Check  string `json:"check"` // "gpus", "driver", "numa balancing"
	Level  Level  `json:"level"`
	Have   string `json:"have"`
	Want   string `json:"want,omitempty"`
	Advice string `json:"advice,omitempty"` // what to do; empty when OK
}

// What a host should have, whatever its block says.
const (
	minShared    = 16 << 30        // NCCL and the engines' processes share memory there
	minFiles     = 4096            // a connection of the load generator is an open file
	maxSkew      = 2 * time.Second // between logs and events of host and caller
	idleMemory   = 2 << 30         // what drivers keep for themselves on a GPU that nobody uses
	oldestMEC    = 177             // from which on RCCL can reclaim scratch memory (MI300X)
	bytesPerGB   = 1_000_000_000   // sizes are shown as data sheets have them
	procBalance  = "/proc/sys/kernel/numa_balancing"
	noReclaim    = `env = { HSA_NO_SCRATCH_RECLAIM = "1" }`
	lackOfMemory = "Out of memory: Killed process"
)

// Contract holds a host against its block, what the block requires, and what
// makes numbers good in any case. ours are traces of what we run there: that
// uses the GPUs by right. Every check that applies has a finding.
func Contract(h *Host, f Facts, now Condition, ours Traces) []Finding {
	c := &contract{host: h, facts: f, now: now}
	if h.Require != nil {
		c.require = *h.Require
	}
	c.docker()
	c.prepare()
	if h.GPUs.Count > 0 {
		c.gpus()
		if len(now.GPUs) == 0 && len(now.Problems) > 0 {
			c.hold("gpu state", false, strings.Join(slices.Compact(slices.Clone(now.Problems)), "; "), "", Warning,
				"power limits, clocks and memory errors of the GPUs are not told, so they are not checked: see what the tool says there")
		}
		c.driver()
		c.gpuMemory()
		c.users(ours)
		if h.GPUs.Vendor == AMD {
			c.amd()
		} else {
			c.nvidia()
		}
		c.kernel()
		if c.isDocker() {
			c.atLeast("shared memory", f.MemoryBytes > 0 && now.SharedMemory > 0, now.SharedMemory, min(minShared, f.MemoryBytes/2), Warning,
				"sudo mount -o remount,size=32G /dev/shm, or shm_size in the engine's container block")
		}
	}
	c.numa()
	c.machine()
	return c.findings
}

type contract struct {
	host     *Host
	facts    Facts
	now      Condition
	require  Require
	findings []Finding
}

func (c *contract) isDocker() bool { return c.host.Runtime != Process }

// hold adds a finding: advice and level count when it is not good.
func (c *contract) hold(check string, good bool, have, want string, level Level, advice string) {
	f := Finding{Check: check, Level: OK, Have: have, Want: want}
	if !good {
		f.Level, f.Advice = level, advice
	}
	c.findings = append(c.findings, f)
}

// atLeast holds an amount against the least that is wanted, if both are known.
func (c *contract) atLeast(check string, known bool, have, want int64, level Level, advice string) {
	if known {
		c.hold(check, have >= want, gigabytes(have), "at least "+gigabytes(want), level, advice)
	}
}

func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/bytesPerGB) }

// Bytes is a size for people: "688.6 GB", "3.1 MB", "12 bytes".
func Bytes(n int64) string {
	switch {
	case n >= bytesPerGB:
		return gigabytes(n)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d bytes", n)
}

func (c *contract) docker() {
	if c.isDocker() {
		have := orNone(c.facts.Docker)
		if c.facts.DockerBy != "" {
			have += " at " + c.facts.DockerBy
		}
		c.hold("docker", c.facts.Docker != "", have, "", Blocked, c.facts.NoDocker)
	}
}

// prepare says what will be set before anything starts. The other checks take it as
// set.
func (c *contract) prepare() {
	p := c.host.Prepare
	if p == nil {
		return
	}
	changes, err := p.Changes(c.host.GPUs.Vendor, c.now)
	var will []string
	for _, change := range changes {
		will = append(will, change.String())
	}
	have := strings.Join(will, ", ")
	if have == "" {
		have = "as it should be"
	}
	advice := ""
	if err != nil {
		have, advice = "cannot be set", strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	c.hold("prepare", err == nil, have, "", Blocked, advice)

	c.now.GPUs = slices.Clone(c.now.GPUs)
	for i := range c.now.GPUs {
		g := &c.now.GPUs[i]
		if p.PersistenceMode != nil && *p.PersistenceMode {
			g.Persistence = "Enabled"
		}
		if p.PowerCap > 0 {
			g.PowerLimit, g.Default = p.PowerCap, p.PowerCap
		}
	}
	if p.NUMABalancing != nil {
		c.now.NUMABalancing = map[bool]string{true: "1", false: "0"}[*p.NUMABalancing]
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// gpus counts those of the block's model. More than asked for are not a lack.
func (c *contract) gpus() {
	h, matching := c.host, 0
	others := map[string]bool{}
	for _, g := range c.facts.GPUs {
		if g.isModel(h.GPUs.Model) {
			matching++
		} else {
			others[g.Name] = true
		}
	}
	have := fmt.Sprintf("%dx%s", matching, h.GPUs.Model)
	if matching == 0 {
		have = "none"
	}
	if len(others) > 0 {
		have += ", but " + strings.Join(slices.Sorted(maps.Keys(others)), " and ")
	}
	tool := map[Vendor]string{NVIDIA: "nvidia-smi", AMD: cmp.Or(c.now.AMDTool, RocmSMI)}[h.GPUs.Vendor]
	bus, told := c.now.PCI[h.GPUs.Vendor], 0
	for _, g := range c.facts.GPUs {
		if g.Vendor == h.GPUs.Vendor {
			told++
		}
	}
	advice := "this is another machine than its block says: correct gpus, or rent the right one"
	switch {
	case len(c.facts.Problems) > 0:
		advice = "the driver or its tool does not work: " + strings.Join(c.facts.Problems, "; ")
	case bus > told && told == 0:
		advice = fmt.Sprintf("%d are on the PCI bus, and %s tells of none: install the driver", bus, tool)
	case bus > told:
		advice = fmt.Sprintf("%d are on the PCI bus, and %s tells of %d: look for those that have fallen off with `sudo dmesg | grep -E 'Xid|amdgpu'`, and reboot", bus, tool, told)
	case told == 0 && len(c.now.PCI) > 0:
		advice = fmt.Sprintf("none of that maker is on the PCI bus, but %s: correct gpus, or rent the right machine", makers(c.now.PCI))
	case told == 0:
		advice = tool + " found no GPU, and none is on the PCI bus"
	}
	c.hold("gpus", matching >= h.GPUs.Count, have, h.GPUs.String(), Blocked, advice)
}

// makers says how many GPUs of whom are on the bus.
func makers(bus map[Vendor]int) string {
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(bus)) {
		parts = append(parts, fmt.Sprintf("%d of %s", bus[v], map[Vendor]string{NVIDIA: "NVIDIA", AMD: "AMD"}[v]))
	}
	return strings.Join(parts, " and ")
}

func (c *contract) driver() {
	if len(c.facts.GPUs) == 0 {
		return
	}
	driver := c.facts.GPUs[0].Driver
	c.hold("driver", len(c.require.Driver) == 0 || c.require.Driver.Allow(driver), orNone(driver), c.require.Driver.String(), Blocked,
		"install a driver that the block's require allows, and reboot")
	if c.host.GPUs.Vendor == AMD && (c.facts.ROCm != "" || len(c.require.ROCm) > 0) {
		c.hold("rocm", len(c.require.ROCm) == 0 || c.require.ROCm.Allow(c.facts.ROCm), orNone(c.facts.ROCm), c.require.ROCm.String(), Blocked,
			"install a ROCm that the block's require allows; its version is read from /opt/rocm/.info/version")
	}
}

func (c *contract) gpuMemory() {
	least := int64(0)
	for i, g := range c.facts.GPUs {
		if i == 0 || g.MemoryBytes < least {
			least = g.MemoryBytes
		}
	}
	if c.require.GPUMemory > 0 {
		c.atLeast("gpu memory", true, least, c.require.GPUMemory, Blocked, "the block's require asks for GPUs with more memory")
	}
}

// users are the processes of others on the GPUs, and memory that nobody holds.
func (c *contract) users(ours Traces) {
	level := Warning
	if c.require.IdleGPUs {
		level = Blocked
	}
	var who []string
	mine := false
	for _, p := range c.now.Use.Processes {
		if ours.Ours(p.Container, p.Mark) {
			mine = true
		} else {
			who = append(who, p.String())
		}
	}
	have := "idle"
	if len(who) > 0 {
		have = strings.Join(who, ", ")
	}
	c.hold("gpu users", len(who) == 0, have, "nobody else", level, "they take memory and time from what is measured: ask their owner to end them")
	if len(who) > 0 || mine {
		return
	}
	var held []string
	for i, used := range c.now.Use.Memory {
		if used > idleMemory {
			held = append(held, fmt.Sprintf("gpu%d: %s", i, Mebibytes(used)))
		}
	}
	have = "free"
	if len(held) > 0 {
		have = strings.Join(held, ", ") + " in use by no process"
	}
	c.hold("free gpu memory", len(held) == 0, have, "", level, "an earlier process has left it allocated: sudo nvidia-smi --gpu-reset, sudo rocm-smi --gpureset -d N, sudo amd-smi reset --gpu N --gpureset, or a reboot")
}

// each says which GPUs are not as they should be: "gpu3 (Disabled)".
func (c *contract) each(wrong func(GPUCondition) string) string {
	var list []string
	for i, g := range c.now.GPUs {
		if w := wrong(g); w != "" {
			list = append(list, fmt.Sprintf("gpu%d %s", i, w))
		}
	}
	return strings.Join(list, ", ")
}

// say adds a finding about GPUs: wrong says which are not as they should be, and is
// empty when all are good.
func (c *contract) say(check, wrong, good, advice string) {
	have := good
	if wrong != "" {
		have = wrong
	}
	c.hold(check, wrong == "", have, "", Warning, advice)
}

func (c *contract) nvidia() {
	if len(c.now.GPUs) == 0 {
		return
	}
	if c.isDocker() {
		have := orNone(c.now.Toolkit)
		if c.facts.Toolkit != "" {
			have += ", version " + c.facts.Toolkit
		}
		c.hold("container toolkit", c.now.Toolkit != "", have, "", Warning,
			"Docker tells of no way to hand out GPUs: install the NVIDIA container toolkit, sudo nvidia-ctk runtime configure --runtime=docker, sudo systemctl restart docker")
	}
	if c.isDocker() && c.facts.Toolkit != "" && c.now.CgroupDriver != "" {
		// NVIDIA/nvidia-container-toolkit#48: systemd takes back what it did not
		// give out itself. Since 1.18.1 containers have their GPUs from Docker.
		loses := c.now.CgroupDriver == "systemd" && Versions{{"<", "1.18.1"}}.Allow(c.facts.Toolkit)
		c.hold("cgroup driver", !loses, c.now.CgroupDriver, "", Warning,
			"any `systemctl daemon-reload`, an update of packages say, takes the GPUs from running containers: update nvidia-container-toolkit to 1.18.1, or set \"exec-opts\": [\"native.cgroupdriver=cgroupfs\"] in /etc/docker/daemon.json and restart Docker")
	}
	c.say("persistence mode", c.each(func(g GPUCondition) string {
		if g.Persistence == "Disabled" {
			return "off"
		}
		return ""
	}), "on", "sudo nvidia-smi -pm 1: otherwise the driver forgets clocks and limits when nobody uses a GPU")
	c.say("mig", c.each(func(g GPUCondition) string {
		if g.MIG == "Enabled" {
			return "split"
		}
		return ""
	}), "off", "engines see slices and not whole GPUs: sudo nvidia-smi -mig 0")
	c.state(map[string]string{
		"ecc":         "GPUs with and without ECC are not the same: sudo nvidia-smi -e 1, and reboot",
		"power limit": "somebody has lowered it: sudo nvidia-smi -pl with the default",
		"clocks":      "somebody holds them: sudo nvidia-smi -rgc, sudo nvidia-smi -rac",
		"throttling":  "heat or the power brake holds clocks down: look at cooling and power supplies with nvidia-smi -q -d PERFORMANCE",
	})
}

// state is what both vendors' tools tell of GPUs, as far as they do. advice is by
// check.
func (c *contract) state(advice map[string]string) {
	first := c.now.GPUs[0]
	if slices.ContainsFunc(c.now.GPUs, func(g GPUCondition) bool { return g.ECC != "" }) {
		ecc := map[string]bool{}
		for _, g := range c.now.GPUs {
			ecc[orNone(onOff(g.ECC))] = true
		}
		modes := strings.Join(slices.Sorted(maps.Keys(ecc)), " and ")
		c.hold("ecc", len(ecc) == 1, modes, "", Warning, advice["ecc"])
		c.say("ecc errors", c.each(func(g GPUCondition) string {
			switch {
			case g.Uncorrected > 0:
				return fmt.Sprintf("%d uncorrected", g.Uncorrected)
			case g.Remap != "":
				return "row remapping " + g.Remap
			}
			return ""
		}), "none", "the GPU's memory is damaged: reset it or reboot; when it happens again, it has to be replaced")
	}
	if first.PowerLimit > 0 {
		c.say("power limit", c.each(func(g GPUCondition) string {
			// Without a default, all have to have what the first has.
			if most := cmp.Or(g.Default, first.PowerLimit); g.PowerLimit > 0 && (g.PowerLimit < most || g.Default == 0 && g.PowerLimit != most) {
				return fmt.Sprintf("%.0f W of %.0f W", g.PowerLimit, most)
			}
			return ""
		}), watts(first.PowerLimit), advice["power limit"])
	}
	if p := c.host.Prepare; first.clocks() != "" && (p == nil || p.LockClocks == 0) {
		c.say("clocks", c.each(func(g GPUCondition) string {
			if held := g.clocks(); held != free {
				return held
			}
			return ""
		}), free, advice["clocks"])
	}
	c.say("throttling", c.each(func(g GPUCondition) string {
		switch {
		case g.Violation != "":
			return "slowed down (" + g.Violation + ")"
		case g.Reasons&slowedByHeat != 0:
			return fmt.Sprintf("slowed down (reasons 0x%02x)", g.Reasons)
		}
		return ""
	}), "none", advice["throttling"])
}

func (c *contract) amd() {
	device := func(check, name, state, groups string) {
		have := map[string]string{"": "not there", "there": "not for this login", "usable": "usable"}[state]
		if c.isDocker() { // containers get the groups that own it
			have = map[bool]string{true: "there", false: "not there"}[state != ""]
			c.hold(check, state != "", have, "", Blocked, name+" is not there: load the driver with sudo modprobe amdgpu")
			return
		}
		c.hold(check, state == "usable", have, "", Blocked, fmt.Sprintf("let the login use %s: sudo usermod -aG %s $USER", name, groups))
	}
	device("kfd", "/dev/kfd", c.now.KFD, "render,video")
	device("dri", "/dev/dri/renderD*", c.now.DRI, "render,video")
	if split := counted(c.now.Partitions); split != "" {
		whole := !slices.ContainsFunc(c.now.Partitions, func(p string) bool { return !strings.HasPrefix(p, "SPX") })
		c.hold("gpu partitions", whole, split, "SPX", Warning,
			"engines see parts and not whole GPUs: sudo amd-smi set --gpu all --memory-partition NPS1, then --compute-partition SPX, and reload the driver")
	}
	if len(c.now.MEC) > 0 {
		oldest := slices.Min(c.now.MEC)
		c.hold("mec firmware", oldest >= oldestMEC, fmt.Sprint(oldest), fmt.Sprintf("at least %d", oldestMEC), Warning,
			"RCCL cannot reclaim scratch memory and may crash: update the firmware, or write "+noReclaim+" into the engine blocks")
	}
	if len(c.now.GPUs) > 0 {
		c.state(map[string]string{
			"ecc":         "some GPUs count no memory errors: look at the driver with `sudo dmesg | grep -i ras`",
			"power limit": "somebody has lowered it: sudo rocm-smi --resetpoweroverdrive, or sudo amd-smi reset --gpu all --power-cap",
			"clocks":      "somebody holds them: sudo rocm-smi --setperflevel auto, or sudo amd-smi set --gpu all --perf-level AUTO",
			"throttling":  "a limit holds clocks down: look at cooling and power supplies with amd-smi metric --throttle",
		})
	}
	if c.now.CommandLine != "" {
		good := slices.Contains(strings.Fields(c.now.CommandLine), "iommu=pt")
		c.hold("iommu", good, map[bool]string{true: "iommu=pt", false: "not passed through"}[good], "iommu=pt", Warning,
			"transfers between GPUs are slower: add iommu=pt to the kernel's command line, and reboot")
	}
}

func (c *contract) kernel() {
	switch {
	case len(c.now.Kernel) > 0:
		what := "GPUs have failed since the machine was started: reboot it, and ask its owner when it happens again"
		if strings.Contains(c.now.Kernel[len(c.now.Kernel)-1], lackOfMemory) {
			what = "processes were killed for lack of memory since the machine was started"
		}
		c.hold("kernel log", false, c.now.Kernel[len(c.now.Kernel)-1], "", Warning, what)
	case c.now.KernelUnread:
		c.hold("kernel log", false, "not readable", "", Warning, "failed GPUs would be told there: sudo sysctl kernel.dmesg_restrict=0, or add the login to the group adm")
	default:
		c.hold("kernel log", true, "no Xid, no RAS error", "", OK, "")
	}
}

// numa holds automatic balancing against what is required, or against what AMD
// asks for: GPUs may hang until a balancing round has ended.
func (c *contract) numa() {
	state := map[string]string{"0": "off", "1": "on"}[c.now.NUMABalancing]
	if state == "" {
		if c.require.NUMABalancing == nil {
			return
		}
		state = "not in this kernel"
	}
	set := func(on bool) string {
		return fmt.Sprintf("echo %d | sudo tee %s", map[bool]int{true: 1}[on], procBalance)
	}
	switch want := c.require.NUMABalancing; {
	case want != nil:
		c.hold("numa balancing", (state == "on") == *want, state, map[bool]string{true: "on", false: "off"}[*want], Blocked, set(*want))
	case c.host.GPUs.Vendor == AMD:
		c.hold("numa balancing", state != "on", state, "off", Warning, "GPUs may stall while memory is moved: "+set(false))
	}
}

func (c *contract) machine() {
	h := c.host
	if c.require.Memory > 0 {
		c.atLeast("memory", true, c.facts.MemoryBytes, c.require.Memory, Blocked, "the block's require asks for a machine with more")
	}
	for _, path := range slices.Sorted(maps.Keys(c.now.DiskFree)) {
		free := c.now.DiskFree[path]
		if c.require.DiskFree > 0 {
			c.atLeast("disk free at "+path, true, free, c.require.DiskFree, Blocked, "make room: docker system prune, or remove models that are not needed")
		} else {
			c.hold("disk free at "+path, true, gigabytes(free), "", OK, "")
		}
	}
	if c.now.OpenFiles > 0 {
		c.hold("open files", c.now.OpenFiles >= minFiles, fmt.Sprint(c.now.OpenFiles), fmt.Sprintf("at least %d", minFiles), Warning,
			"each request in flight is an open file: raise nofile in /etc/security/limits.conf")
	}
	if locked := c.now.lockedMemory(); locked != "" && h.GPUs.Count > 0 && !c.isDocker() { // containers have limits of their own
		c.hold("locked memory", locked == "unlimited", locked, "unlimited", Warning,
			"transfers to GPUs need memory that stays in place: raise memlock in /etc/security/limits.conf")
	}
	if pages := c.now.HugePages; pages != "" && h.GPUs.Count > 0 {
		c.hold("huge pages", pages != "never", pages, "madvise or always", Warning,
			"memory of the host is mapped in small pages: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled")
	}
	if c.now.Governor != "" {
		c.hold("cpu governor", c.now.Governor == "performance", c.now.Governor, "performance", Warning,
			"clocks follow the load, and so do latencies: sudo cpupower frequency-set -g performance")
	}
	c.hold("clock", c.now.Skew.Abs() <= maxSkew, skew(c.now.Skew), "", Warning, "times of host and caller cannot be laid side by side: sudo timedatectl set-ntp true")
}

func skew(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d > 0:
		return fmt.Sprintf("%s ahead", d)
	case d < 0:
		return fmt.Sprintf("%s behind", -d)
	}
	return "as ours"
}

// Worst is the worst level of the findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level == Blocked || f.Level == Warning && worst == OK {
			worst = f.Level
		}
	}
	return worst
}
