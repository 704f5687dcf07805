package provision

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Box is what a machine gives engines beside what its [Contract] asks about: links, memory, disks, and what it reaches.
// What is not known is 0 or empty.
type Box struct {
	Boost   string         // of the processors: "1" on, "0" off
	Nodes   []NUMANode     // that have processors
	Errors  int64          // of the machine's memory that were not corrected
	Links   []PCILink      // of GPUs, as the kernel tells them
	Slots   []PCISlot      // of GPUs, as nvidia-smi tells them
	NVLinks [][]float64    // by GPU, the GB/s of each link that it has; 0: it is not up
	Nets    []Net          // network devices that are up
	Copied  float64        // bytes a second that all processors together read and write in memory
	CPUs    int            // that did
	Reads   []DiskRead     // of where models lie
	Reached []ReachedPlace // from where models and images come

	GPUSpeeds   []GPUSpeed // as an engine's programs see them
	NoGPUSpeeds string     // why they were not measured
}

// NUMANode is a part of a machine's memory.
type NUMANode struct {
	Index int
	Bytes int64
}

// PCILink is how many lanes a GPU has to the machine, of how many.
type PCILink struct {
	Address    string
	Lanes, Max int
}

// PCISlot is which generation of PCIe a GPU gets, of which it could.
type PCISlot struct{ GPU, Gen, Max int }

// Net is a network device.
type Net struct {
	Name   string
	Mbits  int // a second
	Duplex string
}

// DiskRead is how fast a file was read past the page cache.
type DiskRead struct {
	Path   string // that the lab names
	Speed  float64
	Failed string // why nothing was read
}

// ReachedPlace is a server from which things are fetched, "huggingface.co:443".
type ReachedPlace struct {
	Name   string
	Took   time.Duration // until a connection stood
	Failed string
}

// What a machine has at least that nobody would call broken. They are far below what good ones have: whoever is below
// one has a fault.
const (
	leastCopied   = 0.5e9 // bytes a second and processor
	mostCounted   = 40    // processors, beyond which memory is what bounds
	leastRead     = 500e6 // bytes a second where GPUs are: what a SATA SSD reads
	leastReadCPU  = 100e6 // elsewhere: what a hard disk reads
	leastNet      = 1000  // Mb/s
	alikeMemory   = 0.9   // of the largest node
	mostLanes     = 32    // that PCIe has; the kernel writes 255 for what it does not know
	alikeNVLink   = 0.9   // of the fastest link
	exampleWeight = 140e9 // bytes: 70 billion parameters in BF16
)

const (
	setBoost      = "processors stay at their base clock: echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost, or turn turbo on in the BIOS"
	lostMemory    = "a memory module is missing or was taken out of use by the BIOS: sudo dmidecode -t memory"
	brokenMemory  = "a memory module is failing: `sudo dmesg | grep -i edac` names it; have it replaced"
	reseat        = "the GPU or its riser sits badly, or the slot has no more: sudo lspci -vv names the link; reseat it, or ask for another machine"
	newerSlot     = "the slot or the BIOS holds the link back: look for the slot's PCIe generation in the BIOS"
	brokenNVLink  = "transfers between GPUs are slower, or fail: nvidia-smi nvlink --status, and systemctl status nvidia-fabricmanager; then a reboot"
	slowNet       = "images and models come slowly: see the cable and the port of the switch with ethtool"
	slowMemory    = "modules are missing or run at a low clock, or a neighbour takes the memory's bandwidth: sudo dmidecode -t memory"
	slowDisk      = "loading %s, as 70 billion parameters in BF16 take, takes %s: put models on a local NVMe disk (the model block's cache)"
	notReachable  = "what is not there yet cannot be fetched: see the host's DNS, routes and firewall"
	measuredByHCL = "%.1f GB/s"
)

// Findings holds the machine against what such machines have.
func (b Box) Findings(h *Host) (findings []Finding) {
	find := func(check string, good bool, have, want, advice string) {
		f := Finding{Check: check, Level: OK, Have: have, Want: want}
		if !good {
			f.Level, f.Advice = Warning, advice
		}
		findings = append(findings, f)
	}
	if state := onOff(b.Boost); state != "" {
		find("cpu boost", state == "on", state, "on", setBoost)
	}
	if len(b.Nodes) > 1 {
		most := slices.MaxFunc(b.Nodes, func(x, y NUMANode) int { return int(x.Bytes>>20 - y.Bytes>>20) }).Bytes
		alike := true
		var have []string
		for _, n := range b.Nodes {
			alike = alike && float64(n.Bytes) >= alikeMemory*float64(most)
			have = append(have, fmt.Sprintf("node%d %s", n.Index, gigabytes(n.Bytes)))
		}
		find("numa memory", alike, strings.Join(have, ", "), "as much on each", lostMemory)
	}
	find("memory errors", b.Errors == 0, fmt.Sprintf("%d uncorrected", b.Errors), "", brokenMemory)
	b.links(find)
	b.gpus(h, find)
	for _, n := range b.Nets {
		have := fmt.Sprintf("%d Mb/s", n.Mbits)
		if n.Duplex == "half" {
			have += ", half duplex"
		}
		find("network "+n.Name, n.Mbits >= leastNet && n.Duplex != "half", have, fmt.Sprintf("at least %d Mb/s", leastNet), slowNet)
	}
	if b.Copied > 0 {
		least := leastCopied * float64(min(b.CPUs, mostCounted))
		find("memory speed", b.Copied >= least, fmt.Sprintf(measuredByHCL, b.Copied/1e9), fmt.Sprintf("at least "+measuredByHCL, least/1e9), slowMemory)
	}
	least := leastReadCPU
	if h.GPUs.Count > 0 {
		least = leastRead
	}
	for _, r := range b.Reads {
		check := "disk speed at " + r.Path
		if r.Failed != "" {
			find(check, true, "not measured: "+r.Failed, "", "")
			continue
		}
		takes := time.Duration(exampleWeight / r.Speed * float64(time.Second)).Round(time.Second)
		find(check, r.Speed >= least, fmt.Sprintf(measuredByHCL, r.Speed/1e9), fmt.Sprintf("at least "+measuredByHCL, least/1e9),
			fmt.Sprintf(slowDisk, gigabytes(exampleWeight), takes))
	}
	for _, r := range b.Reached {
		if r.Failed != "" {
			find("reach "+r.Name, false, r.Failed, "", notReachable)
		} else {
			find("reach "+r.Name, true, fmt.Sprintf("in %d ms", r.Took.Milliseconds()), "", "")
		}
	}
	return findings
}

// links holds the links of GPUs against what they could have. The speed of a PCIe link says nothing: GPUs lower it when
// they have nothing to do.
func (b Box) links(find func(check string, good bool, have, want, advice string)) {
	var narrow, old, down []string
	wide := map[int]bool{}
	for _, l := range b.Links {
		if l.Lanes <= 0 || l.Max > mostLanes || l.Lanes > l.Max {
			continue // a virtual machine may not tell
		}
		wide[l.Max] = true
		if l.Lanes < l.Max {
			narrow = append(narrow, fmt.Sprintf("%s x%d of x%d", l.Address, l.Lanes, l.Max))
		}
	}
	if len(wide) > 0 {
		find("pcie lanes", narrow == nil, orAll(narrow), "", reseat)
	}
	for _, s := range b.Slots {
		if s.Gen < s.Max {
			old = append(old, fmt.Sprintf("gpu%d %d of %d", s.GPU, s.Gen, s.Max))
		}
	}
	if len(b.Slots) > 0 {
		find("pcie generation", old == nil, orAll(old), "", newerSlot)
	}
	most, fastest := 0, 0.0
	for _, links := range b.NVLinks {
		most = max(most, len(links))
		fastest = max(fastest, slices.Max(append(slices.Clone(links), 0)))
	}
	for gpu, links := range b.NVLinks {
		up := 0
		for _, speed := range links {
			if speed >= alikeNVLink*fastest {
				up++
			}
		}
		if up < most {
			down = append(down, fmt.Sprintf("gpu%d %d of %d", gpu, up, most))
		}
	}
	if fastest > 0 { // else it has links that nothing is at the other end of
		find("nvlink", down == nil, orAll(down), "", brokenNVLink)
	}
}

func orAll(wrong []string) string {
	if wrong == nil {
		return "all"
	}
	return strings.Join(wrong, ", ")
}
