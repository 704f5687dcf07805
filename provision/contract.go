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

// Sentence says it to people.
func (f Finding) Sentence() string {
	s := f.Check + ": " + f.Have
	if f.Want != "" {
		s += ", where " + f.Want + " is wanted"
	}
	return s + ": " + f.Advice
}

// What a host should have, whatever its block says.
const (
	minShared    = 16 << 30        // NCCL and the engines' processes share memory there
	minFiles     = 4096            // a connection of the load generator is an open file
	maxSkew      = 2 * time.Second // between logs and events of host and caller
	lackOfMemory = "Out of memory: Killed process"
)

const (
	setBalancing = "echo %s | sudo tee /proc/sys/kernel/numa_balancing"
	moreShared   = "sudo mount -o remount,size=32G /dev/shm, or shm_size in the engine's container block"
	moreMemory   = "the block's require asks for a machine with more"
	moreDisk     = "make room: docker system prune, or remove models that are not needed"
	moreFiles    = "each request in flight is an open file: raise nofile in /etc/security/limits.conf"
	podFiles     = "each request in flight is an open file, and pods have the limits of their node's container runtime: " +
		"LimitNOFILE in its service there"
	podLocked = "transfers to GPUs need memory that stays in place, and pods have the limits of their node's container " +
		"runtime: LimitMEMLOCK=infinity in its service there"
	moreLocked  = "transfers to GPUs need memory that stays in place: raise memlock in /etc/security/limits.conf"
	largerPages = "memory of the host is mapped in small pages: " +
		"echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
	fixedGovernor = "clocks follow the load, and so do latencies: sudo cpupower frequency-set -g performance"
	setClock      = "the clocks differ, so times of host and caller cannot be compared: sudo timedatectl set-ntp true"
	failedGPUs    = "GPUs have failed since the machine was started: reboot it; if it happens again, ask its owner"
	killed        = "processes were killed for lack of memory since the machine was started"
	unreadLog     = "this log names failed GPUs; to make it readable: sudo sysctl kernel.dmesg_restrict=0, " +
		"or add the login to the group adm"
)

// Contract holds a host against its block, what that requires, and what makes numbers good in any
// case. What has left the traces ours uses the GPUs by right. Every check that applies has a
// finding.
func Contract(h *Host, f Facts, now Condition, ours Traces) []Finding {
	c := &contract{host: h, facts: f, now: now, inDocker: h.Runtime != Process}
	if h.Require != nil {
		c.require = *h.Require
	}
	if c.inDocker {
		c.docker()
	}
	c.prepare()
	if h.GPUs.Count > 0 {
		c.gpus(ours)
		c.kernel()
		if c.inDocker {
			known := f.MemoryBytes > 0 && now.SharedMemory > 0
			c.atLeast("shared memory", known, now.SharedMemory, min(minShared, f.MemoryBytes/2), Warning, moreShared)
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
	inDocker bool
	findings []Finding
}

func (c *contract) hold(good bool, f Finding) {
	if good {
		f.Level, f.Advice = OK, ""
	}
	c.findings = append(c.findings, f)
}

func (c *contract) warn(check string, good bool, have, want, advice string) {
	c.hold(good, Finding{Check: check, Level: Warning, Have: have, Want: want, Advice: advice})
}

func (c *contract) block(check string, good bool, have, want, advice string) {
	c.hold(good, Finding{Check: check, Level: Blocked, Have: have, Want: want, Advice: advice})
}

func (c *contract) atLeast(check string, known bool, have, want int64, level Level, advice string) {
	if known {
		c.hold(have >= want, Finding{
			Check: check, Level: level, Have: gigabytes(have), Want: "at least " + gigabytes(want), Advice: advice,
		})
	}
}

// gigabytes are as data sheets have them.
func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

func orNone(s string) string { return cmp.Or(s, "none") }

func (c *contract) docker() {
	have := orNone(c.facts.Docker)
	if c.facts.DockerBy != "" {
		have += " at " + c.facts.DockerBy
	}
	c.block("docker", c.facts.Docker != "", have, "", c.facts.NoDocker)
}

// prepare says what will be set before anything starts; the other checks take it as set.
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
	have, advice := cmp.Or(strings.Join(will, ", "), "as it should be"), ""
	if err != nil {
		have, advice = "cannot be set", strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	c.block("prepare", err == nil, have, "", advice)

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
		c.now.NUMABalancing = digit(*p.NUMABalancing)
	}
}

func (c *contract) kernel() {
	have, advice := "no Xid, no RAS error", ""
	isKill := func(line string) bool { return strings.Contains(line, lackOfMemory) }
	failed := slices.DeleteFunc(slices.Clone(c.now.Kernel), isKill)
	switch n := len(c.now.Kernel); {
	case len(failed) > 0:
		have, advice = failed[len(failed)-1], failedGPUs
	case n > 0:
		have, advice = c.now.Kernel[n-1], killed
	case c.now.KernelUnread && c.host.Cluster != nil: // no pod may, and nobody of the cluster can change it for one
		return
	case c.now.KernelUnread:
		have, advice = "not readable", unreadLog
	}
	c.warn("kernel log", advice == "", have, "", advice)
}

// numa holds automatic balancing against what is required, or against what AMD
// asks for: GPUs may hang until a balancing round has ended.
func (c *contract) numa() {
	state, want := onOff(c.now.NUMABalancing), c.require.NUMABalancing
	switch {
	case want != nil:
		advice := fmt.Sprintf(setBalancing, digit(*want))
		have := cmp.Or(state, "not in this kernel")
		c.block("numa balancing", (state == "on") == *want, have, switched(*want), advice)
	case state != "" && c.host.GPUs.Vendor == AMD:
		advice := "GPUs may stall while memory is moved: " + fmt.Sprintf(setBalancing, digit(false))
		c.warn("numa balancing", state != "on", state, "off", advice)
	}
}

func (c *contract) machine() {
	now, gpus := c.now, c.host.GPUs.Count > 0
	files, locking := moreFiles, moreLocked
	if c.host.Cluster != nil {
		files, locking = podFiles, podLocked
	}
	c.atLeast("memory", c.require.Memory > 0, c.facts.MemoryBytes, c.require.Memory, Blocked, moreMemory)
	for _, path := range slices.Sorted(maps.Keys(now.DiskFree)) {
		check, free := "disk free at "+path, now.DiskFree[path]
		if c.require.DiskFree > 0 {
			c.atLeast(check, true, free, c.require.DiskFree, Blocked, moreDisk)
		} else {
			c.hold(true, Finding{Check: check, Have: gigabytes(free)})
		}
	}
	if now.OpenFiles > 0 {
		want := fmt.Sprintf("at least %d", minFiles)
		c.warn("open files", now.OpenFiles >= minFiles, fmt.Sprint(now.OpenFiles), want, files)
	}
	if locked := now.lockedMemory(); locked != "" && gpus && !c.inDocker { // containers have limits of their own
		c.warn("locked memory", locked == "unlimited", locked, "unlimited", locking)
	}
	if now.HugePages != "" && gpus {
		c.warn("huge pages", now.HugePages != "never", now.HugePages, "madvise or always", largerPages)
	}
	if now.Governor != "" {
		c.warn("cpu governor", now.Governor == "performance", now.Governor, "performance", fixedGovernor)
	}
	c.warn("clock", now.Skew.Abs() <= maxSkew, skew(now.Skew), "", setClock)
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
