package look

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/testhost"
)

// finding returns that of a check, or none.
func finding(findings []provision.Finding, check string) provision.Finding {
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	return provision.Finding{}
}

// box is a host, and what was seen of it.
type box struct {
	h   *provision.Host
	f   provision.Facts
	now provision.Condition
}

// recorded is a box as it should be: what testdata/condition says, with edits ("old", "new").
func recorded(t *testing.T, name string, edits ...string) *box {
	t.Helper()
	text, err := os.ReadFile("testdata/condition/" + name + ".txt")
	testhost.OK(t, err)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(string(text), edits[i]) {
			t.Fatalf("%s does not say %q", name, edits[i])
		}
		text = []byte(strings.Replace(string(text), edits[i], edits[i+1], 1))
	}
	at := time.Unix(1740830400, 5e8)
	now := parseCondition(read(string(text)), at, at)
	now.Toolkit, now.CgroupDriver = "nvidia runtime", "systemd"
	gpus, err := provision.ParseGPUs(name)
	testhost.OK(t, err)
	f := provision.Facts{Docker: "28.5.2", CPUs: 192, MemoryBytes: 2 << 40}
	gpu := nvidia("NVIDIA H200", 143771<<20, "550.144.03")
	if f.Toolkit = "1.18.1"; gpus.Vendor == provision.AMD {
		gpu, f.ROCm, f.Toolkit = amd("AMD Instinct MI300X", 206141652992, "6.10.5"), "6.3.1-48", ""
	}
	f.GPUs, now.Use.Memory = slices.Repeat([]provision.GPU{gpu}, 8), slices.Repeat([]int64{1 << 20}, 8)
	return &box{&provision.Host{Name: "box", GPUs: gpus, Require: &provision.Require{}}, f, now}
}

func TestContractOfGoodBoxes(t *testing.T) {
	for name, want := range map[string][]string{
		"8xH200": {"docker", "gpus", "driver", "gpu users", "free gpu memory", "container toolkit", "cgroup driver",
			"persistence mode", "mig", "ecc", "ecc errors", "power limit", "clocks", "throttling",
			"kernel log", "shared memory", "disk free at /data/huggingface", "disk free at /var/lib/docker", "open files", "huge pages", "cpu governor", "clock"},
		"8xMI300X": {"docker", "gpus", "driver", "rocm", "gpu users", "free gpu memory", "kfd", "dri", "gpu partitions",
			"mec firmware", "ecc", "ecc errors", "power limit", "clocks", "throttling", "iommu",
			"kernel log", "shared memory", "numa balancing", "disk free at /data/huggingface", "disk free at /var/lib/docker", "open files", "huge pages", "cpu governor", "clock"},
	} {
		b := recorded(t, name)
		findings := provision.Contract(b.h, b.f, b.now, provision.Traces{})
		var got []string
		for _, x := range findings {
			if x.Level != provision.OK || x.Advice != "" {
				t.Errorf("%s: %+v", name, x)
			}
			got = append(got, x.Check)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: checks (-want +got):\n%s", name, diff)
		}
		if provision.Worst(findings) != provision.OK {
			t.Errorf("%s: %s", name, provision.Worst(findings))
		}
	}
}

// TestContractFindsWhatIsWrong: one thing is wrong in each, and one finding says so.
func TestContractFindsWhatIsWrong(t *testing.T) {
	const warning, blocked = provision.Warning, provision.Blocked
	on := true
	wrong := map[string]bool{}
	const gpu3 = "nvidia=3, Enabled, Enabled, Disabled, 700.00, 700.00, 0x0000000000000001, 0"
	foreign := func(b *box) {
		b.now.Use.Processes = []provision.GPUProcess{{PID: 4711, Name: "python3", Memory: 20 << 30},
			{PID: 4712, Name: "vllm", Container: "ours"}}
		b.now.Use.Memory[0] = 20 << 30
	}
	for _, c := range []struct {
		name, box string
		edits     []string
		change    func(*box)
		check     string
		level     provision.Level
		says      string // in what is there, or what to do
	}{
		{"seven GPUs", "8xH200", nil, func(b *box) { b.f.GPUs = b.f.GPUs[:7] }, "gpus", blocked,
			"8 are on the PCI bus, and nvidia-smi shows 7"},
		{"no driver", "8xMI300X", nil, func(b *box) { b.f.GPUs = nil }, "gpus", blocked, "install the driver"},
		{"another model", "8xH200", nil, func(b *box) {
			b.f.GPUs = slices.Repeat([]provision.GPU{{Vendor: provision.NVIDIA, Name: "NVIDIA H20",
				MemoryBytes: 97871 << 20, Driver: "550.144.03"}}, 8)
		}, "gpus", blocked, "none, but NVIDIA H20"},
		{"no GPU at all", "8xMI300X", slices.Concat(pciEdits), func(b *box) { b.f.GPUs = nil }, "gpus", blocked, "rocm-smi found no GPU"},
		{"no Docker", "8xH200", nil, func(b *box) { b.f.Docker, b.f.NoDocker = "", "usermod" }, "docker", blocked, "usermod"},
		{"an old driver", "8xH200", nil, func(b *box) {
			b.h.Require.Driver = provision.Versions{{Op: ">=", Version: "560"}}
		}, "driver", blocked, "550.144.03"},
		{"an old ROCm", "8xMI300X", nil, func(b *box) {
			b.h.Require.ROCm = provision.Versions{{Op: ">=", Version: "6.4"}}
		}, "rocm", blocked, "6.3.1-48"},
		{"too little GPU memory", "8xH200", nil, func(b *box) { b.h.Require.GPUMemory = 180e9 }, "gpu memory", blocked, "150.8 GB"},
		{"too little memory", "8xH200", nil, func(b *box) { b.h.Require.Memory = 4 << 40 }, "memory", blocked, "2199.0 GB"},
		{"a full disk", "8xH200", nil, func(b *box) { b.h.Require.DiskFree = 1e12 }, "disk free at /var/lib/docker", blocked, "966.4 GB"},
		{"a foreign process", "8xH200", nil, foreign, "gpu users", warning, "python3 (process 4711, 20480 MiB)"},
		{"a foreign process where idle GPUs are required", "8xH200", nil, func(b *box) {
			foreign(b)
			b.h.Require.IdleGPUs = true
		}, "gpu users", blocked, "python3"},
		{"memory that nobody holds", "8xMI300X", nil, func(b *box) { b.now.Use.Memory[5] = 30 << 30 },
			"free gpu memory", warning, "gpu5: 30720 MiB"},
		{"no container toolkit", "8xH200", nil, func(b *box) { b.now.Toolkit = "" }, "container toolkit", warning, "nvidia-ctk"},
		{"a toolkit whose containers lose their GPUs", "8xH200", nil, func(b *box) {
			b.f.Toolkit, b.now.CgroupDriver = "1.17.8", "systemd"
		}, "cgroup driver", warning, "daemon-reload"},
		{"persistence mode off", "8xH200",
			[]string{gpu3, strings.Replace(gpu3, "Enabled, Enabled", "Enabled, Disabled", 1)}, nil, "persistence mode", warning, "gpu3 off"},
		{"MIG", "8xH200", []string{gpu3, strings.Replace(gpu3, "Disabled", "Enabled", 1)}, nil, "mig", warning, "gpu3 split"},
		{"ECC on some", "8xH200", []string{gpu3, strings.Replace(gpu3, "Enabled", "Disabled", 1)}, nil, "ecc", warning, "off and on"},
		{"damaged memory", "8xH200", []string{gpu3, gpu3[:len(gpu3)-1] + "2"}, nil, "ecc errors", warning, "gpu3 2 uncorrected"},
		{"rows that wait for a reset", "8xH200",
			[]string{strings.Repeat("remapped=No, No\n", 4), strings.Repeat("remapped=No, No\n", 3) + "remapped=Yes, No\n"}, nil, "ecc errors", warning, "gpu3 row remapping pending"},
		{"rows that cannot be remapped any more", "8xH200", []string{"remapped=No, No", "remapped=0, 1"}, nil,
			"ecc errors", warning, "gpu0 row remapping failed"},
		{"split GPUs", "8xMI300X", []string{"partition=SPX NPS1", "partition=CPX NPS4"}, nil, "gpu partitions", warning,
			"CPX/NPS4 × 1, SPX/NPS1 × 7"},
		{"an idle GPU whose clocks are low", "8xMI300X",
			[]string{`"gpu": 0, "throttle": {`,
				`"gpu": 0, "throttle": {"low_utilization_violation_status": {"xcp_0": ["ACTIVE", "ACTIVE"]}, "total_gfx_clk_below_host_limit_violation_status": {"xcp_0": ["ACTIVE"]}, "gfx_clk_below_host_limit_thermal_violation_status": {"xcp_0": ["NOT ACTIVE", "ACTIVE", "N/A"]}, `}, nil, "throttling", warning, "gpu0 slowed down (gfx clk below host limit thermal)"},
		{"a lower power limit", "8xH200", []string{gpu3, strings.Replace(gpu3, "700.00", "500.00", 1)}, nil,
			"power limit", warning, "gpu3 500 W of 700 W"},
		{"throttled", "8xH200", []string{gpu3, strings.Replace(gpu3, "0x0000000000000001", "0x0000000000000060", 1)},
			nil, "throttling", warning, "gpu3 slowed down (reasons 0x60)"},
		{"application clocks", "8xH200", []string{"clocks=1980, 1980", "clocks=1500, 1980"}, nil, "clocks", warning, "gpu0 1500 MHz"},
		{"locked clocks", "8xH200", []string{gpu3,
			strings.Replace(gpu3, "0x0000000000000001", "0x0000000000000002", 1)}, nil, "clocks", warning, "gpu3 held by a setting"},
		{"a GPU of AMD that counts no errors", "8xMI300X", []string{"ras=0000:05:00.0 ue: 0 ce: 0 de: 0\n", ""}, nil,
			"ecc", warning, "none and on"},
		{"damaged memory of AMD", "8xMI300X", []string{"ras=0000:46:00.0 ue: 0 ce: 0", "ras=0000:46:00.0 ue: 4 ce: 11"},
			nil, "ecc errors", warning, "gpu2 4 uncorrected"},
		{"a lower power limit on AMD", "8xMI300X", []string{`"750.0"}, "card1"`, `"550.0"}, "card1"`}, nil,
			"power limit", warning, "gpu0 550 W of 750 W"},
		{"a performance level on AMD", "8xMI300X", []string{`"auto"`, `"perf_determinism"`}, nil, "clocks", warning,
			"gpu0 perf determinism"},
		{"throttled on AMD", "8xMI300X",
			[]string{`"ppt_violation_status": "NOT ACTIVE"`, `"ppt_violation_status": "ACTIVE"`}, nil, "throttling", warning, "gpu0 slowed down (ppt)"},
		{"little locked memory", "8xH200", []string{"memlock=unlimited", "memlock=65536"},
			func(b *box) { b.h.Runtime = provision.Process }, "locked memory", warning, "64 MiB"},
		{"small pages", "8xH200", []string{"hugepages=madvise", "hugepages=never"}, nil, "huge pages", warning, "madvise"},
		{"the other maker's GPUs", "8xMI300X", nil, func(b *box) {
			b.h.GPUs, b.f.GPUs = provision.GPUs{Count: 8, Model: "H200", Vendor: provision.NVIDIA}, nil
			b.now.GPUs = nil
		}, "gpus", blocked, "8 of AMD"},
		{"a clock that cannot be put back", "8xH200", nil, func(b *box) {
			b.h.Prepare = &provision.Prepare{LockClocks: 1500}
			b.now.GPUs[2].Clock = 1400
		}, "prepare", blocked, "clocks of GPU 2 are held already (1400 MHz)"},
		{"Xid", "8xH200", []string{"numa",
			"kernel=[  812.5] NVRM: Xid (PCI:0000:61:00): 79, pid=1234, GPU has fallen off the bus.\nnuma"}, nil, "kernel log", warning, "Xid (PCI:0000:61:00): 79"},
		{"Xid before a lack of memory", "8xH200", []string{"numa", "kernel=NVRM: Xid (PCI:0000:61:00): 79, GPU has " +
			"fallen off the bus.\nkernel=Out of memory: Killed process 812 (python3)\nnuma"}, nil, "kernel log", warning, "reboot"},
		{"RAS", "8xMI300X", []string{"numa",
			"kernel=[  99.1] amdgpu 0000:c6:00.0: amdgpu: 3 uncorrectable hardware errors detected in umc block\nnuma"}, nil, "kernel log", warning, "reboot"},
		{"lack of memory", "8xMI300X", []string{"numa", "kernel=Out of memory: Killed process 812 (python3)\nnuma"},
			nil, "kernel log", warning, "killed for lack of memory"},
		{"the log is closed to us", "8xH200", []string{"numa", "log=unreadable\nnuma"}, nil, "kernel log", warning, "dmesg_restrict"},
		{"NUMA balancing on AMD", "8xMI300X", []string{"balancing=0", "balancing=1"}, nil, "numa balancing", warning, "echo 0 | sudo tee"},
		{"NUMA balancing, required", "8xH200", nil, func(b *box) { b.h.Require.NUMABalancing = &on }, "numa balancing",
			blocked, "echo 1 | sudo tee"},
		{"old firmware", "8xMI300X", []string{"mec=177", "mec=168"}, nil, "mec firmware", warning, "HSA_NO_SCRATCH_RECLAIM"},
		{"no IOMMU passthrough", "8xMI300X", []string{" iommu=pt", ""}, nil, "iommu", warning, "iommu=pt"},
		{"no kfd", "8xMI300X", []string{"kfd=\n", ""}, nil, "kfd", blocked, "modprobe"},
		{"kfd is not for the login", "8xMI300X", nil, func(b *box) { b.h.Runtime = provision.Process }, "kfd", blocked,
			"usermod -aG render,video"},
		{"one render device is not for the login", "8xMI300X", []string{"dri=\n", "dri=usable\n"}, func(b *box) {
			b.h.Runtime, b.now.KFD = provision.Process, "usable"
		}, "dri", blocked, "not for this login"},
		{"little shared memory", "8xH200", []string{"shm_kib=1056559104", "shm_kib=65536"}, nil, "shared memory", warning, "0.1 GB"},
		{"few open files", "8xH200", []string{"files=1048576", "files=1024"}, nil, "open files", warning, "nofile"},
		{"clocks that follow the load", "8xH200", []string{"governor=performance", "governor=performance powersave"},
			nil, "cpu governor", warning, "powersave"},
		{"a tool that refuses", "8xH200", nil, func(b *box) {
			b.now.GPUs, b.now.Problems = nil, []string{`nvidia-smi: Field "x" is not a valid field to query.`}
		}, "gpu state", warning, `Field "x" is not a valid field`},
		{"a fast clock", "8xH200", []string{"time=1740830400", "time=1740830460"}, nil, "clock", warning, "1m0s ahead"},
		{"a slow clock", "8xH200", []string{"time=1740830400", "time=1740830000"}, nil, "clock", warning, "behind"},
	} {
		wrong[c.box+" "+c.check] = true
		t.Run(c.name, func(t *testing.T) {
			b := recorded(t, c.box, c.edits...)
			if c.change != nil {
				c.change(b)
			}
			findings := provision.Contract(b.h, b.f, b.now, provision.Traces{Containers: []string{"ours"}})
			got := finding(findings, c.check)
			if got.Level != c.level || !strings.Contains(got.Have+" "+got.Advice, c.says) || got.Advice == "" {
				t.Errorf("%s = %+v, want %s and %q", c.check, got, c.level, c.says)
			}
			for _, x := range findings {
				if x.Check != c.check && x.Level != provision.OK && x.Check != "dri" && !strings.HasPrefix(x.Check, "disk") {
					t.Errorf("%s is not good either: %+v", x.Check, x)
				}
			}
		})
	}
	// Every line has a case, of each vendor where they are read in different ways.
	for _, name := range []string{"8xH200", "8xMI300X"} {
		b := recorded(t, name)
		for _, x := range provision.Contract(b.h, b.f, b.now, provision.Traces{}) {
			check := strings.Replace(x.Check, "/data/huggingface", "/var/lib/docker", 1)
			either := wrong["8xH200 "+check] || wrong["8xMI300X "+check]
			if !wrong[name+" "+check] && (!either || slices.Contains([]string{"ecc", "ecc errors", "power limit", "clocks", "throttling", "gpus"}, check)) {
				t.Errorf("%s: no case makes %q wrong", name, check)
			}
		}
	}
}

// pciEdits take the AMD GPUs off the bus.
var pciEdits = func() (edits []string) {
	for _, bus := range []string{"05", "26", "46", "65", "85", "a6", "c6", "e5"} {
		edits = append(edits, "pci=0x1002 0000:"+bus+":00.0\n", "")
	}
	return edits
}()

// TestCondition looks at hosts with the tools that such boxes have.
func TestCondition(t *testing.T) {
	h := testhost.New(t, testhost.Options{Name: "h200-c", GPU: "8xH200"})
	testhost.OK(t, h.SayGPUs(testhost.GPUField{GPU: 6, Field: "clocks_throttle_reasons.active", Value: "0x0000000000000008"}))
	c := process(t, h, "8xH200")
	now, err := Condition(t.Context(), c, docker.New(c, nil), []string{"/no such/folder yet"})
	testhost.OK(t, err)
	if len(now.GPUs) != 8 || now.Problems != nil || now.Skew.Abs() > time.Second || now.DiskFree["/no such/folder yet"] == 0 || now.OpenFiles == 0 {
		t.Errorf("Condition = %+v", now)
	}
	f, err := Facts(t.Context(), c, docker.New(c, nil))
	testhost.OK(t, err)
	f.See(now)
	if f.Settings["gpu links"] != "NV18 × 28" || f.Settings["power limit"] != "700 W" || f.Settings["ecc"] != "on" || f.Settings["clocks"] != "free" {
		t.Errorf("Settings = %v", f.Settings)
	}
	findings := provision.Contract(c.Host(), f, now, provision.Traces{})
	if got := finding(findings, "throttling"); got.Level != provision.Warning || got.Have != "gpu6 slowed down (reasons 0x08)" {
		t.Errorf("throttling: %+v", got)
	}
	if provision.Worst(findings) == provision.Blocked {
		t.Errorf("blocked: %+v", findings)
	}

	h = testhost.New(t, testhost.Options{Name: "mi300x-c", GPU: "8xMI300X"})
	now, err = Condition(t.Context(), process(t, h, "8xMI300X"), nil, nil)
	testhost.OK(t, err)
	want := map[string]string{"power limit": "750 W", "clocks": "free", "mec firmware": "177", "gpu links": "XGMI × 28"}
	got := now.Settings()
	maps.DeleteFunc(got, func(name, _ string) bool { return want[name] == "" })
	if diff := cmp.Diff(want, got); diff != "" || now.Problems != nil {
		t.Errorf("settings (-want +got):\n%s%v", diff, now.Problems)
	}
}

// TestAMDSMI is a host with amd-smi alone, as ROCm 7.2 and 6.3 print.
func TestAMDSMI(t *testing.T) {
	const facts = `amd=[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "device_id": "0x74a1"}, "driver": {"name": "amdgpu", "version": "6.10.5"}, "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}}}]`
	want := []provision.GPU{{Vendor: provision.AMD, Name: "AMD Instinct MI300X", MemoryBytes: 196592 << 20, Driver: "6.10.5"}}
	if diff := cmp.Diff(want, parseFacts(read(facts)).GPUs); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	for _, limit := range []string{
		`{"gpu_data": [{"gpu": 0, "limit": {"ppt0": {"max_power_limit": {"value": 750, "unit": "W"}, "socket_power_limit": {"value": 600, "unit": "W"}}, "ppt1": {"socket_power_limit": "N/A"}}}, {"gpu": 1, "limit": {"ppt0": {"socket_power_limit": "N/A"}}}]}`,
		`[{"gpu": 0, "limit": {"max_power": {"value": 750, "unit": "W"}, "socket_power": {"value": 600, "unit": "W"}}}, {"gpu": 1, "limit": {}}]`,
	} {
		now := parseCondition(read("limit="+limit+"\nlevel="+`{"gpu_data": [{"gpu": 0, "perf_level": "AMDSMI_DEV_PERF_LEVEL_AUTO"}]}`+"\npower_default=750000000\nras=0000:05:00.0 ue: 0 ce: 0\npci=0x1002 0000:26:00.0\npci=0x1002 0000:05:00.0\n"), time.Time{}, time.Time{})
		want := []provision.GPUCondition{{ECC: "Enabled", PowerLimit: 600, Default: 750, Level: "auto"}, {Default: 750}}
		if diff := cmp.Diff(want, now.GPUs); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", limit, diff)
		}
	}
}

// TestSettings are those of boxes on which GPUs differ.
func TestSettings(t *testing.T) {
	now := recorded(t, "8xMI300X", `"auto"`, `"manual"`, "ras=0000:05:00.0 ue: 0 ce: 0 de: 0\n", "", "iommu=pt", "iommu=soft").now
	want := map[string]string{"clocks": "manual × 1, free × 7", "cpu governor": "performance", "ecc": "on × 7",
		"gpu links": "XGMI × 28", "gpu partitions": "SPX/NPS1", "huge pages": "madvise",
		"iommu": "soft", "locked memory": "unlimited", "mec firmware": "177", "numa balancing": "off", "power limit": "750 W"}
	if diff := cmp.Diff(want, now.Settings()); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
