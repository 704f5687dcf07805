package fabric

import (
	"fmt"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

// Rail is what was measured from an RDMA device of one host to the like of another.
type Rail struct {
	From, To string // hosts
	Device   string // of From
	Rate     float64
	Gbits    float64 // written, a second; 0: not measured
	Micros   float64 // there and back; 0: not measured
	Failed   string  // what the tools said instead
	Missing  string  // a tool that the image lacks
}

func (r Rail) String() string { return fmt.Sprintf("%s of %s to %s", r.Device, r.From, r.To) }

// Reduction is an all-reduce over GPUs that was measured.
type Reduction struct {
	Hosts   []string
	GPUs    int
	Model   string // of the GPUs of the first host
	Bytes   int64
	Seconds float64
	Network string // that it took between hosts, in NCCL's words; "" for one host
	Failed  string
}

// Bus is how fast it was as if each GPU had one link that carries all, in GB/s: what does not
// depend on their number (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
func (r Reduction) Bus() float64 {
	n := float64(r.GPUs)
	return float64(r.Bytes) / r.Seconds * 2 * (n - 1) / n / 1e9
}

// What others expect of such hardware. Hosts are held against each other first: published floors
// have been wrong by a factor of two.
const (
	likeOthers = 0.9 // of the median, or of the best host
	nicFloor   = 0.9 // of a device's rate, from host memory (Azure/azurehpc-health-checks: 360 of 400 Gb/s)
	wideFloor  = 46  // GB/s that an all-reduce gets of each device of 400 Gb/s (NVIDIA/nccl-tests#290)
)

// busFloors are for all 8 GPUs of one host, in GB/s (Azure/azurehpc-health-checks, conf/nd96isr_h200_v5.conf;
// ROCm/cvs, mi300x_rccl_single_node_config.json).
var busFloors = map[string]float64{"H200": 431, "MI300X": 304}

const (
	lookAtRail = "look at its cable, its switch port and, with RoCE, at flow control (PFC, ECN) on the way: " +
		"`rdma statistic show` counts what was sent again"
	noRail = "engines would hang there, or take TCP: look at fabric { gid_index } of both, " +
		"and whether these networks are routed to each other"
	otherImage = "SGLang's images have the tools; or install perftest and ibverbs-utils into an image of your own"
	lookAtGPUs = "look at the links between GPUs, of which one that is down slows all, and at ACS: " +
		"`nvidia-smi topo -m`, `nvidia-smi nvlink --status`, `rocm-smi --showtopo`"
	lookAtWide = "look at which devices NCCL takes (NCCL_DEBUG=INFO), and at what was measured between single devices"
	notRDMA    = "it went over TCP: see that the container has /dev/infiniband, and what NCCL says with NCCL_DEBUG=INFO"
	noReduce   = "engines would fail alike: look at what it says, and at NCCL_DEBUG=INFO"
)

// judgeRails says what is wrong with what was measured between devices, each against the median of
// its rate first.
func judgeRails(rails []Rail) (findings []provision.Finding) {
	find := func(level provision.Level, have, advice string) {
		findings = append(findings, provision.Finding{Check: "rdma", Level: level, Have: have, Advice: advice})
	}
	var speeds, times []float64
	missing := map[string]bool{}
	for _, r := range rails {
		if r.Missing != "" && !missing[r.Missing] {
			missing[r.Missing] = true
			find(provision.Warning, "not all is measured: the image has no "+r.Missing, otherImage)
		}
		if r.Gbits > 0 {
			speeds = append(speeds, r.Gbits)
		}
		if r.Micros > 0 {
			times = append(times, r.Micros)
		}
	}
	slices.Sort(speeds)
	slices.Sort(times)
	median := medians(rails)
	var parts []string
	if len(speeds) > 0 {
		parts = append(parts, between(speeds, "%.0f")+" Gb/s")
	}
	if len(times) > 0 {
		parts = append(parts, between(times, "%.1f")+" µs there and back")
	}
	if len(parts) > 0 {
		ways := plain.Count(max(len(speeds), len(times)), "way")
		have := fmt.Sprintf("%s between devices: %s", ways, strings.Join(parts, ", "))
		findings = slices.Insert(findings, 0, provision.Finding{Check: "rdma", Level: provision.OK, Have: have})
	}
	for _, r := range rails {
		slow := fmt.Sprintf("%s writes %.0f Gb/s", r, r.Gbits)
		switch {
		case r.Failed != "":
			find(provision.Blocked, fmt.Sprintf("%s: %s", r, r.Failed), noRail)
		case r.Gbits == 0:
		case r.Gbits < likeOthers*median[r.Rate]:
			find(provision.Warning, fmt.Sprintf("%s, where the median of its like is %.0f", slow, median[r.Rate]), lookAtRail)
		case r.Gbits < nicFloor*r.Rate:
			find(provision.Warning, fmt.Sprintf("%s, where %.0f of %.0f are expected", slow, nicFloor*r.Rate, r.Rate), lookAtRail)
		}
	}
	return findings
}

// medians are of what devices of each rate write.
func medians(rails []Rail) map[float64]float64 {
	median, speeds := map[float64]float64{}, map[float64][]float64{}
	for _, r := range rails {
		if r.Gbits > 0 {
			speeds[r.Rate] = append(speeds[r.Rate], r.Gbits)
		}
	}
	for rate, of := range speeds {
		slices.Sort(of)
		median[rate] = of[len(of)/2]
	}
	return median
}

// between is the least and the most of what is sorted.
func between(sorted []float64, format string) string {
	least, most := fmt.Sprintf(format, sorted[0]), fmt.Sprintf(format, sorted[len(sorted)-1])
	if least == most {
		return least
	}
	return least + " to " + most
}

// judgeReductions says what is wrong with all-reduces: those of single hosts, against the best with
// as many such GPUs first, and that over all hosts. rails is how many devices of 400 Gb/s each host uses.
func judgeReductions(all []Reduction, rails int) (findings []provision.Finding) {
	type gpus struct {
		model string
		count int
	}
	best := map[gpus]float64{}
	for _, r := range all {
		if like := (gpus{r.Model, r.GPUs}); r.Failed == "" && len(r.Hosts) == 1 {
			best[like] = max(best[like], r.Bus())
		}
	}
	for _, r := range all {
		wide := len(r.Hosts) > 1
		f := provision.Finding{Check: "all-reduce", Level: provision.OK}
		over := fmt.Sprintf("over %s of %s", plain.Count(r.GPUs, "GPU"), strings.Join(r.Hosts, ", "))
		if r.Failed != "" {
			f.Level, f.Have, f.Advice = provision.Blocked, over+": "+r.Failed, noReduce
			findings = append(findings, f)
			continue
		}
		f.Have = fmt.Sprintf("%.0f GB/s %s, %s in %.1f ms", r.Bus(), over, plain.Bytes(r.Bytes), r.Seconds*1e3)
		if wide && r.Network != "" {
			f.Have += ", by " + r.Network
		}
		floor := 0.0
		switch {
		case wide:
			floor = float64(wideFloor * rails)
		case r.GPUs == 8:
			floor = busFloors[r.Model]
		}
		switch {
		case wide && rails > 0 && r.Network == "Socket":
			f.Level, f.Advice = provision.Warning, notRDMA
		case !wide && r.Bus() < likeOthers*best[gpus{r.Model, r.GPUs}]:
			f.Level, f.Advice = provision.Warning, lookAtGPUs
			f.Want = fmt.Sprintf("%.0f GB/s, as another", best[gpus{r.Model, r.GPUs}])
		case r.Bus() < floor:
			f.Level, f.Want = provision.Warning, fmt.Sprintf("%.0f GB/s", floor)
			f.Advice = map[bool]string{true: lookAtWide, false: lookAtGPUs}[wide]
		}
		findings = append(findings, f)
	}
	return findings
}
