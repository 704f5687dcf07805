package provision

import (
	"fmt"
	"slices"
	"strings"
)

// GPUSpeed is what was measured of a GPU, in bytes a second.
type GPUSpeed struct {
	Name   string    `json:"name"`   // that the driver gives it
	At     string    `json:"at"`     // its PCI address; empty: nobody tells
	Part   bool      `json:"part"`   // it is a part of a GPU
	Memory float64   `json:"memory"` // read and written in its memory
	To     float64   `json:"to"`     // copied to it from the host's memory
	From   float64   `json:"from"`   // and back
	Peers  []float64 `json:"peers"`  // copied to each other GPU; 0 to itself
}

// called is what a GPU is called, by its place among those that programs see, and by its address: tools may count in another order.
func (g GPUSpeed) called(i int) string {
	if g.At == "" {
		return fmt.Sprintf("gpu%d", i)
	}
	return fmt.Sprintf("gpu%d (%s)", i, g.At)
}

// gpuFigures are what a maker's data sheet has of a GPU.
type gpuFigures struct {
	name   string  // a part of the driver's name
	memory float64 // GB/s
	link   float64 // GB/s to another GPU of the host, in one direction; 0: it may have none but PCIe
	pcie   int     // generation of the 16 lanes to the host; 0: it has others
}

// figures are by NVIDIA's and AMD's data sheets. Who is found first counts. NVLink is a switch, so that all of it goes to any
// other; of AMD's links each goes to one other. MI250 is two GPUs to its driver.
var figures = []gpuFigures{
	{"GB300", 8000, 900, 0}, {"GB200", 8000, 900, 0}, {"GH200", 4000, 0, 0},
	{"B300", 8000, 900, 5}, {"B200", 7700, 900, 5},
	{"H200 NVL", 4800, 0, 5}, {"H200", 4800, 450, 5}, {"H20", 4000, 450, 5},
	{"H100 PCIe", 2000, 0, 5}, {"H100 NVL", 3900, 0, 5}, {"H100", 3350, 450, 5}, {"H800", 2000, 0, 5},
	{"A100-SXM4-80GB", 2039, 300, 4}, {"A100-SXM", 1555, 300, 4}, {"A100", 1555, 0, 4}, {"A800", 1555, 0, 4},
	{"L40S", 864, 0, 4}, {"L40", 864, 0, 4}, {"L20", 864, 0, 4}, {"L4", 300, 0, 4}, {"A10G", 600, 0, 4}, {"A10", 600, 0, 4}, {"A40", 696, 0, 4},
	{"MI355X", 8000, 76, 5}, {"MI350X", 8000, 76, 5}, {"MI325X", 6000, 64, 5}, {"MI300X", 5300, 64, 5},
	{"MI250", 1638, 0, 4}, {"MI210", 1638, 0, 4},
}

// lanes16 are GB/s of 16 lanes in one direction, by the generation of PCIe.
var lanes16 = map[int]float64{3: 15.75, 4: 31.5, 5: 63}

// What is expected. Of a data sheet, less than of any machine of which figures are published (docs/prove.md); of other GPUs
// of the machine, less than what good ones of a kind differ by. A link with half its lanes has half the speed.
const (
	memoryOfSheet = 0.7
	linkOfSheet   = 0.6
	memoryOfOther = 0.9
	linkOfOther   = 0.6
)

const (
	slowGPUMemory = "its memory throttles or has faults, or another program uses the GPU: nvidia-smi -q -d PERFORMANCE,ECC,ROW_REMAPPER, or amd-smi metric and " +
		"bad-pages; have it reset or replaced"
	slowHostLink = "loading weights and KV cache in the host's memory are slower: see pcie lanes, NUMA and IOMMU (iommu=pt); reseat the GPU, or ask for another machine"
	slowGPULinks = "tensor parallelism waits for the slowest: nvidia-smi topo -m and nvlink --status, systemctl status nvidia-fabricmanager; " +
		"rocm-smi --showtopo and --showxgmierr; then a reboot"
)

// figuresOf are what is known of a GPU by its driver's name, or else by the name that the lab has for it.
func figuresOf(names ...string) gpuFigures {
	for _, name := range names {
		for _, f := range figures {
			_, after, found := strings.Cut(strings.ToUpper(name), strings.ToUpper(f.name))
			if found && strings.TrimLeft(after, "0123456789") == after { // an RTX A4000 is no A40
				return f
			}
		}
	}
	return gpuFigures{}
}

// gpus holds GPUs against each other, and against their data sheet where the host has them whole.
func (b Box) gpus(h *Host, find func(check string, good bool, have, want, advice string)) {
	const memory, host, links = "gpu memory speed", "gpu host link", "gpu links"
	if b.NoGPUSpeeds != "" {
		find(memory, true, "not measured: "+b.NoGPUSpeeds, "", "")
	}
	if len(b.GPUSpeeds) == 0 {
		return
	}
	sheet := gpuFigures{}
	if len(b.GPUSpeeds) == h.GPUs.Count && !slices.ContainsFunc(b.GPUSpeeds, func(g GPUSpeed) bool { return g.Part }) {
		sheet = figuresOf(b.GPUSpeeds[0].Name, h.GPUs.Model)
	}
	var memories, hosts, peers []float64
	for _, g := range b.GPUSpeeds {
		memories = append(memories, g.Memory)
		hosts = append(hosts, min(g.To, g.From))
		for _, p := range g.Peers {
			if p > 0 {
				peers = append(peers, p)
			}
		}
	}
	held := func(check string, speeds []float64, least float64, advice string) {
		var slow []string
		for i, s := range speeds {
			if s < least {
				slow = append(slow, fmt.Sprintf("%s %s", b.GPUSpeeds[i].called(i), perSecond(s)))
			}
		}
		find(check, slow == nil, orSpan(slow, speeds), "at least "+perSecond(least), advice)
	}
	held(memory, memories, max(memoryOfSheet*1e9*sheet.memory, memoryOfOther*median(memories)), slowGPUMemory)
	held(host, hosts, max(linkOfSheet*1e9*lanes16[sheet.pcie], linkOfOther*median(hosts)), slowHostLink)
	if len(peers) > 0 {
		least := max(linkOfSheet*1e9*sheet.link, linkOfOther*median(peers))
		slow := slowPeers(b.GPUSpeeds, least)
		find(links, slow == nil, orSpan(slow, peers), "at least "+perSecond(least), slowGPULinks)
	}
}

// slowPeers names a GPU that copies too slowly to all others, or from all; of others the pair.
func slowPeers(gpus []GPUSpeed, least float64) (slow []string) {
	whole := make([]bool, len(gpus))
	for i := range gpus {
		var to, from []float64
		for j := range gpus {
			if j != i {
				to, from = append(to, gpus[i].Peers[j]), append(from, gpus[j].Peers[i])
			}
		}
		worse := to
		if slices.Max(from) < slices.Max(to) {
			worse = from
		}
		if whole[i] = slices.Max(worse) < least; whole[i] {
			slow = append(slow, fmt.Sprintf("%s %s to or from all others", gpus[i].called(i), span(worse)))
		}
	}
	for i, g := range gpus {
		for j, s := range g.Peers {
			if i != j && s < least && !whole[i] && !whole[j] {
				slow = append(slow, fmt.Sprintf("%s to %s %s", g.called(i), gpus[j].called(j), perSecond(s)))
			}
		}
	}
	return slow
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

func perSecond(bytes float64) string {
	if bytes >= 1e12 {
		return fmt.Sprintf("%.2f TB/s", bytes/1e12)
	}
	return fmt.Sprintf(measuredByHCL, bytes/1e9)
}

// span is the least and the most of speeds.
func span(of []float64) string {
	least, most := perSecond(slices.Min(of)), perSecond(slices.Max(of))
	if least == most {
		return least
	}
	return least + " to " + most
}

// orSpan is what is slow, else all of them; who is not alone among eight is as good as all.
func orSpan(slow []string, all []float64) string {
	const most = 4
	switch {
	case slow == nil:
		return span(all)
	case len(slow) > most:
		return fmt.Sprintf("%s and %d more, of %s", strings.Join(slow[:most], ", "), len(slow)-most, span(all))
	}
	return strings.Join(slow, ", ")
}
