package look

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/testhost"
)

// simulated is a box as testdata has it, with one edit ("old", "new") of what its tools say, or one of what was seen of it.
type simulated struct {
	name, gpus string
	old, new   string
	change     func(*box, *provision.Box)
	fault      string // the check that names it; empty: it is as good as the others
}

// accused are the checks by which anything is wrong with the box.
func (s simulated) accused(t *testing.T) (checks []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/box/" + s.gpus + ".txt")
	testhost.OK(t, err)
	var edits []string
	said := string(text)
	if strings.Contains(said, s.old) && s.old != "" {
		said = strings.Replace(said, s.old, s.new, 1)
	} else if s.old != "" {
		edits = []string{s.old, s.new}
	}
	b := recorded(t, s.gpus, edits...)
	p := parseBox(read(said))
	// What hcl measures on such a box.
	p.CPUs, p.Copied = 192, 310e9
	p.Reads = []provision.DiskRead{{Path: "/data/huggingface", Speed: 5.8e9}}
	p.Reached = []provision.ReachedPlace{{Name: "huggingface.co:443", Took: 31 * time.Millisecond}}
	p.GPUSpeeds = measuredGPUs[s.gpus]()
	if s.change != nil {
		s.change(b, &p)
	}
	for _, f := range append(provision.Contract(b.h, b.f, b.now, provision.Traces{}), p.Findings(b.h)...) {
		if f.Level != provision.OK {
			if f.Advice == "" || f.Have == "" {
				t.Errorf("%s: %+v", s.name, f)
			}
			checks = append(checks, f.Check)
		}
	}
	return checks
}

// gpusOf are eight GPUs of a kind, as alike as such are: a part in a hundred lies between them, and the processor that is far from
// half of them costs their links to the host a tenth.
func gpusOf(name string, memory, host, link float64) func() []provision.GPUSpeed {
	return func() (gpus []provision.GPUSpeed) {
		for i := range 8 {
			g := provision.GPUSpeed{Name: name, Memory: memory * (1 - 0.001*float64(i)), To: host, From: 0.97 * host, Peers: make([]float64, 8)}
			if i > 3 {
				g.To, g.From = 0.9*g.To, 0.9*g.From
			}
			for j := range g.Peers {
				if j != i {
					g.Peers[j] = link * (1 - 0.01*float64((i+j)%2))
				}
			}
			gpus = append(gpus, g)
		}
		return gpus
	}
}

// measuredGPUs have figures that others have published (docs/prove.md).
var measuredGPUs = map[string]func() []provision.GPUSpeed{
	"8xH200":   gpusOf("NVIDIA H200", 4.01e12, 52e9, 378e9),
	"8xMI300X": gpusOf("AMD Instinct MI300X", 4.11e12, 54e9, 46e9),
}

// TestBoxes are 50 simulated boxes: what is wrong with one is named, and nothing else is accused.
func TestBoxes(t *testing.T) {
	const gpu3 = "nvidia=3, Enabled, Enabled, Disabled, 700.00, 700.00, 0x0000000000000001, 0"
	gpu := func(old, new string) string { return strings.Replace(gpu3, old, new, 1) }
	measured := func(change func(*provision.Box)) func(*box, *provision.Box) {
		return func(_ *box, p *provision.Box) { change(p) }
	}
	const nvidia, amd = "8xH200", "8xMI300X"
	boxes := []simulated{
		{"as it should be", nvidia, "", "", nil, ""},
		{"an image without PyTorch", nvidia, "", "", measured(func(p *provision.Box) {
			p.GPUSpeeds, p.NoGPUSpeeds = nil, "ModuleNotFoundError: No module named 'torch'"
		}), ""},
		{"GPUs that are partitions", amd, "", "", measured(func(p *provision.Box) {
			for i := range p.GPUSpeeds {
				p.GPUSpeeds[i].Memory /= 8
			}
			p.GPUSpeeds = append(p.GPUSpeeds, p.GPUSpeeds...)
			for i := range p.GPUSpeeds {
				p.GPUSpeeds[i].Peers = slices.Repeat([]float64{40e9}, len(p.GPUSpeeds))
				p.GPUSpeeds[i].Peers[i] = 0
			}
		}), ""},
		{"one GPU", nvidia, "", "", func(b *box, p *provision.Box) {
			p.GPUSpeeds = p.GPUSpeeds[:1]
			p.GPUSpeeds[0].Peers = []float64{0}
		}, ""},
		{"GPUs without links, on two processors", nvidia, "", "", measured(func(p *provision.Box) {
			for i := range p.GPUSpeeds {
				p.GPUSpeeds[i].Name = "NVIDIA H200 NVL"
				for j := range p.GPUSpeeds[i].Peers {
					if i != j {
						p.GPUSpeeds[i].Peers[j] = map[bool]float64{true: 45e9, false: 21e9}[i/4 == j/4]
					}
				}
			}
		}), ""},
		{"a virtual machine, without governors", nvidia, "governor=performance", "governor=", nil, ""},
		{"a virtual machine that does not know its links", nvidia, "link=0000:1b:00.0 16 16", "link=0000:1b:00.0 0 255", nil, ""},
		{"one node", nvidia, "node=1 1056965632\n", "", nil, ""},
		{"a driver before 525", nvidia, "gen=0, 5, 5\ngen=1, 5, 5\ngen=2, 5, 5\ngen=3, 5, 5\ngen=4, 5, 5\ngen=5, 5, 5\ngen=6, 5, 5\ngen=7, 5, 5\n", "", nil, ""},
		{"a network device that tells no speed", nvidia, "net=eno1 10000 full", "net=ens3 -1 unknown", nil, ""},
		{"a GPU at its power limit", nvidia, gpu3, gpu("0x0000000000000001", "0x0000000000000004"), nil, ""},
		{"no EDAC", nvidia, strings.Repeat("ue=0\n", 8), "", nil, ""},
		{"no boost to be switched", nvidia, "no_turbo=0\n", "", nil, ""},
		{"models of which none is large", nvidia, "", "", measured(func(p *provision.Box) {
			p.Reads[0] = provision.DiskRead{Path: "/data/huggingface", Failed: "no file of 64 MB or more is there"}
		}), ""},
		{"no processor tells its NVLinks", nvidia, "", "", measured(func(p *provision.Box) { p.NVLinks = nil }), ""},
		{"links that nothing is at the end of", nvidia, "", "", measured(func(p *provision.Box) {
			p.NVLinks = slices.Repeat([][]float64{make([]float64, 18)}, 8)
		}), ""},
		{"MI300X as it should be", amd, "", "", nil, ""},
		{"an older kernel, without boost", amd, "boost=1\n", "boost=\n", nil, ""},
		{"a busy disk", amd, "", "", measured(func(p *provision.Box) { p.Reads[0].Speed = 0.9e9 }), ""},
		{"a far hub", amd, "", "", measured(func(p *provision.Box) { p.Reached[0].Took = 900 * time.Millisecond }), ""},
		{"memory that firmware keeps some of", amd, "node=0 1188921344", "node=0 1120000000", nil, ""},
		{"memory that others use too", amd, "", "", measured(func(p *provision.Box) { p.Copied = 90e9 }), ""},
		{"corrected errors", amd, "ras=0000:46:00.0 ue: 0 ce: 0", "ras=0000:46:00.0 ue: 0 ce: 2", nil, ""},
		{"a clock that is a second off", amd, "time=1740830400", "time=1740830401", nil, ""},

		{"a slow link", nvidia, "link=0000:61:00.0 16 16", "link=0000:61:00.0 8 16", nil, "pcie lanes"},
		{"an old slot", nvidia, "gen=5, 5, 5", "gen=5, 3, 5", nil, "pcie generation"},
		{"an NVLink that is down", nvidia, "nvlink=\t Link 7: 26.562 GB/s", "nvlink=\t Link 7: <inactive>", nil, "nvlink"},
		{"a hot GPU", nvidia, gpu3, gpu("0x0000000000000001", "0x0000000000000048"), nil, "throttling"},
		{"a lowered power limit", nvidia, gpu3, gpu("700.00", "450.00"), nil, "power limit"},
		{"locked clocks", nvidia, "clocks=1980, 1980", "clocks=1200, 1980", nil, "clocks"},
		{"failing GPU memory", nvidia, gpu3, gpu3[:len(gpu3)-1] + "3", nil, "ecc errors"},
		{"failing memory", nvidia, "ue=0", "ue=2", nil, "memory errors"},
		{"a lost memory module", nvidia, "node=1 1056965632", "node=1 792723456", nil, "numa memory"},
		{"powersave", nvidia, "governor=performance", "governor=powersave", nil, "cpu governor"},
		{"no turbo", nvidia, "no_turbo=0", "no_turbo=1", nil, "cpu boost"},
		{"a slow disk", nvidia, "", "", measured(func(p *provision.Box) { p.Reads[0].Speed = 0.21e9 }), "disk speed at /data/huggingface"},
		{"a noisy neighbour on the GPUs", nvidia, "", "", func(b *box, _ *provision.Box) {
			b.now.Use.Processes = []provision.GPUProcess{{PID: 4711, Name: "python3", Memory: 20 << 30}}
		}, "gpu users"},
		{"a GPU that fell off the bus once", nvidia, "numa", "kernel=[  812.5] NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus.\nnuma", nil, "kernel log"},
		{"a slow network", nvidia, "net=eno1 10000 full", "net=eno1 100 full", nil, "network eno1"},
		{"no way to the hub", amd, "", "", measured(func(p *provision.Box) {
			p.Reached[0].Failed = "dial tcp: lookup huggingface.co: no such host"
		}), "reach huggingface.co:443"},
		{"slow memory", amd, "", "", measured(func(p *provision.Box) { p.Copied = 14e9 }), "memory speed"},
		{"no boost", amd, "boost=1", "boost=0", nil, "cpu boost"},
		{"a GPU with slow memory", nvidia, "", "", measured(func(p *provision.Box) { p.GPUSpeeds[5].Memory = 3.2e12 }), "gpu memory speed"},
		{"memory of all GPUs at a low clock", amd, "", "", measured(func(p *provision.Box) {
			for i := range p.GPUSpeeds {
				p.GPUSpeeds[i].Memory = 2.9e12
			}
		}), "gpu memory speed"},
		{"a GPU at x4 behind a bridge", nvidia, "", "", measured(func(p *provision.Box) { p.GPUSpeeds[2].To, p.GPUSpeeds[2].From = 13e9, 13e9 }), "gpu host link"},
		{"an MI300X at x8, which tells no generation", amd, "", "", measured(func(p *provision.Box) { p.GPUSpeeds[7].From = 26e9 }), "gpu host link"},
		{"a slow link between two GPUs", amd, "", "", measured(func(p *provision.Box) { p.GPUSpeeds[1].Peers[6], p.GPUSpeeds[6].Peers[1] = 12e9, 12e9 }), "gpu links"},
		{"GPUs that copy by way of the host", nvidia, "", "", measured(func(p *provision.Box) {
			for i := range p.GPUSpeeds {
				for j := range p.GPUSpeeds[i].Peers {
					p.GPUSpeeds[i].Peers[j] /= 16
				}
			}
		}), "gpu links"},
		{"a throttled MI300X", amd, `"ppt_violation_status": "NOT ACTIVE"`, `"ppt_violation_status": "ACTIVE"`, nil, "throttling"},
		{"NUMA balancing", amd, "balancing=0", "balancing=1", nil, "numa balancing"},
	}
	faults, others := 0, 0
	for _, s := range boxes {
		accused := s.accused(t)
		if s.fault != "" {
			faults++
			if !slices.Contains(accused, s.fault) {
				t.Errorf("%s: %q is not named, but %q", s.name, s.fault, accused)
			}
		}
		for _, check := range accused {
			if check != s.fault {
				others++
				t.Logf("%s: %s is accused, too", s.name, check)
			}
		}
	}
	if len(boxes) != 50 || faults != 26 {
		t.Errorf("there are %d boxes, %d of them with a fault; want 50 and 26", len(boxes), faults)
	}
	if others > 1 {
		t.Errorf("%d are accused that are in order; want at most 1", others)
	}
}

// TestSlowGPUIsNamed: of eight GPUs the slow one is named with its speed, or the pair whose link is slow.
func TestSlowGPUIsNamed(t *testing.T) {
	h := &provision.Host{GPUs: provision.GPUs{Count: 8, Model: "MI300X"}}
	b := provision.Box{GPUSpeeds: measuredGPUs["8xMI300X"]()}
	b.GPUSpeeds[5].Memory, b.GPUSpeeds[2].To = 2.1e12, 13e9
	b.GPUSpeeds[1].Peers[6] = 12e9
	for j := range b.GPUSpeeds {
		if j != 3 {
			b.GPUSpeeds[3].Peers[j] = 20e9
		}
	}
	for check, want := range map[string]string{
		"gpu memory speed": "gpu5 2.10 TB/s", "gpu host link": "gpu2 13.0 GB/s",
		"gpu links": "gpu3 20.0 GB/s to or from all others, gpu1 to gpu6 12.0 GB/s",
	} {
		for _, f := range b.Findings(h) {
			if f.Check == check && (f.Have != want || f.Level != provision.Warning || f.Advice == "") {
				t.Errorf("%s: %+v, want %q", check, f, want)
			}
		}
	}
}

// TestLanesBehindSwitch: of an AMD GPU with a switch on its board, the lanes are those of the slot. The inner link has all.
func TestLanesBehindSwitch(t *testing.T) {
	dir := t.TempDir()
	device := func(path, vendor, class, now, most string) {
		for name, text := range map[string]string{"vendor": vendor, "class": class, "current_link_width": now, "max_link_width": most} {
			at := filepath.Join(dir, "pci0000:00", path, name)
			testhost.OK(t, os.MkdirAll(filepath.Dir(at), 0o755))
			testhost.OK(t, os.WriteFile(at, []byte(text+"\n"), 0o644))
		}
		testhost.OK(t, os.MkdirAll(filepath.Join(dir, "devices"), 0o755))
		testhost.OK(t, os.Symlink(filepath.Join(dir, "pci0000:00", path), filepath.Join(dir, "devices", filepath.Base(path))))
	}
	device("0000:00:01.1", "0x1022", "0x060400", "8", "16")
	device("0000:00:01.1/0000:01:00.0", "0x1002", "0x060400", "8", "16")
	device("0000:00:01.1/0000:01:00.0/0000:02:00.0", "0x1002", "0x060400", "16", "16")
	device("0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0", "0x1002", "0x030000", "16", "16")
	device("0000:00:03.1", "0x1022", "0x060400", "16", "16")
	device("0000:00:03.1/0000:05:00.0", "0x1002", "0x120000", "16", "16")
	const show = `mount --bind "$0" /sys/bus/pci/devices && exec sh -c "$1" sh ""`
	said, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", show, filepath.Join(dir, "devices"), boxScript).CombinedOutput()
	testhost.OK(t, err)
	want := []provision.PCILink{{Address: "0000:03:00.0", Lanes: 8, Max: 16}, {Address: "0000:05:00.0", Lanes: 16, Max: 16}}
	if diff := cmp.Diff(want, parseBox(read(string(said))).Links); diff != "" {
		t.Errorf("links (-want +got):\n%s\n%s", diff, said)
	}
}

// TestReadGPUSpeeds: what a program of the engine's says is read wholly, or not at all.
func TestReadGPUSpeeds(t *testing.T) {
	const good = `{"gpus": [{"name": "NVIDIA H200", "memory": 4.01e12, "to": 5.2e10, "from": 5.1e10, "peers": [0, 3.8e11]}, ` +
		`{"name": "NVIDIA H200", "memory": 4e12, "to": 5.2e10, "from": 5.1e10, "peers": [3.8e11, 0]}]}`
	got, err := ReadGPUSpeeds("a warning of PyTorch\n\n" + good + "\n")
	if err != nil || len(got) != 2 || got[0].Memory != 4.01e12 || got[1].Peers[0] != 3.8e11 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"", "Killed", `{"gpus": []}`, good[:100], strings.Replace(good, "4e12", "NaN", 1), strings.Replace(good, "4e12", "0", 1),
		strings.Replace(good, "[0, 3.8e11]", "[0]", 1), strings.Replace(good, "[0, 3.8e11]", "[0, -1]", 1), strings.Replace(good, "to", "too", 1),
	} {
		if got, err := ReadGPUSpeeds(bad); err == nil {
			t.Errorf("%.60q is read as %+v", bad, got)
		}
	}
}

// TestMeasureSpeeds: memory and a file are measured on this machine, and what has no large file is told.
func TestMeasureSpeeds(t *testing.T) {
	// Where the tests are built, and not where they keep files: those may be in memory.
	dir, err := os.MkdirTemp(".", "speeds")
	testhost.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	testhost.OK(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), make([]byte, leastFile), 0o644))
	s := MeasureSpeeds(t.Context(), []string{dir, t.TempDir(), "/no/such/folder"})
	if s.Copied <= 0 || s.CPUs < 1 || len(s.Disks) != 3 {
		t.Fatalf("MeasureSpeeds = %+v", s)
	}
	if d := s.Disks[0]; (d.Speed > 0) == (d.Failed != "") {
		t.Errorf("a file of 64 MiB: %+v", d)
	}
	for _, d := range s.Disks[1:] {
		if d.Speed != 0 || !strings.Contains(d.Failed, "no file of") {
			t.Errorf("nothing: %+v", d)
		}
	}
}
