package look

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestBoxes are 40 simulated boxes: what is wrong with one is named, and nothing else is accused.
func TestBoxes(t *testing.T) {
	const gpu3 = "nvidia=3, Enabled, Enabled, Disabled, 700.00, 700.00, 0x0000000000000001, 0"
	gpu := func(old, new string) string { return strings.Replace(gpu3, old, new, 1) }
	measured := func(change func(*provision.Box)) func(*box, *provision.Box) {
		return func(_ *box, p *provision.Box) { change(p) }
	}
	const nvidia, amd = "8xH200", "8xMI300X"
	boxes := []simulated{
		{"as it should be", nvidia, "", "", nil, ""},
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
	if len(boxes) != 40 || faults != 20 {
		t.Errorf("there are %d boxes, %d of them with a fault; want 40 and 20", len(boxes), faults)
	}
	if others > 1 {
		t.Errorf("%d are accused that are in order; want at most 1", others)
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
