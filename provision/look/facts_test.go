package look

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/reach"
	"hclbench/provision/reach/reachtest"
	"hclbench/testhost"
)

// process dials a test host whose engines are processes.
func process(t *testing.T, h *testhost.Host, gpus string) *reach.Conn {
	t.Helper()
	var err error
	b := reachtest.Block(h)
	b.Runtime = provision.Process
	b.GPUs, err = provision.ParseGPUs(gpus)
	testhost.OK(t, err)
	return reachtest.Dial(t, b, reachtest.Strict(h))
}

func nvidia(name string, bytes int64, driver string) provision.GPU {
	return provision.GPU{Vendor: provision.NVIDIA, Name: name, MemoryBytes: bytes, Driver: driver}
}

func amd(name string, bytes int64, driver string) provision.GPU {
	return provision.GPU{Vendor: provision.AMD, Name: name, MemoryBytes: bytes, Driver: driver}
}

func TestFacts(t *testing.T) {
	h := testhost.New(t, testhost.Options{Name: "h200-a", GPU: "8xH200"})
	c := process(t, h, "8xH200")
	f, err := Facts(t.Context(), c, docker.New(c, nil))
	testhost.OK(t, err)
	if diff := cmp.Diff(slices.Repeat([]provision.GPU{nvidia("NVIDIA H200", 143771<<20, "550.144.03")}, 8), f.GPUs); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if f.Hostname != "h200-a" || f.Box == "" || f.OS == "" || f.Kernel == "" || f.Arch == "" || f.CPUs < 1 || f.MemoryBytes < 1<<28 || f.Problems != nil {
		t.Errorf("Facts = %+v", f)
	}
	text, err := json.Marshal(f)
	testhost.OK(t, err)
	var back provision.Facts
	testhost.OK(t, json.Unmarshal(text, &back))
	if diff := cmp.Diff(f, back); diff != "" {
		t.Errorf("Facts through JSON (-want +got):\n%s", diff)
	}

	testhost.OK(t, h.Install("nvidia-smi", "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"))
	f, err = Facts(t.Context(), c, docker.New(c, nil))
	testhost.OK(t, err)
	got := finding(provision.Contract(c.Host(), f, provision.Condition{}, provision.Traces{}), "gpus")
	if got.Level != provision.Blocked || got.Have != "none" || !strings.Contains(got.Advice, "Driver/library version mismatch") {
		t.Errorf("with a broken driver: %+v", got)
	}
}

// TestFactsOfAMD is a host with AMD's GPUs whose Docker is not there, and whose login
// has a shell of its own kind.
func TestFactsOfAMD(t *testing.T) {
	h := testhost.New(t, testhost.Options{GPU: "8xMI300X", SSHD: []string{`ForceCommand exec tcsh -c "$SSH_ORIGINAL_COMMAND"`}})
	c := reachtest.Connect(t, h)
	f, err := Facts(t.Context(), c, docker.New(c, nil))
	if err != nil || f.Docker != "" || f.NoDocker == "" || f.Problems != nil {
		t.Errorf("Facts = %+v, %v", f, err)
	}
	if f.Box == "" || len(f.GPUs) != 8 || f.GPUs[0].Vendor != provision.AMD || f.GPUs[0].MemoryBytes < 100<<30 || f.GPUs[0].Driver == "" {
		t.Errorf("GPUs = %+v, want eight MI300X", f.GPUs)
	}
	want := reachtest.Block(h)
	want.GPUs = provision.GPUs{Count: 8, Model: "MI300X", Vendor: provision.AMD}
	if got := finding(provision.Contract(want, f, provision.Condition{}, provision.Traces{}), "gpus"); got.Level != provision.OK {
		t.Errorf("gpus: %+v", got)
	}
}

func TestLocalFacts(t *testing.T) {
	c := reachtest.Local(t)
	f, err := Facts(t.Context(), c, docker.New(c, nil))
	if err != nil || f.Hostname == "" || f.CPUs < 1 {
		t.Errorf("Facts = %+v, %v", f, err)
	}
}

func TestParseFacts(t *testing.T) {
	got := parseFacts(read(strings.Join([]string{
		"hostname=spark", "cpus=20", "memory_kib=1024", "cpu=Cortex-X925",
		"nvidia=NVIDIA GB10, [N/A], 580.95.05, GPU-5f0c1a7e-2b3d-4c5e-9f60-000000000000",
		"rocm=WARNING: AMD GPU device(s) is/are in a low-power state",
		`rocm={"card0": {"Card Series": "N/A", "Device Name": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992"},`,
		`rocm= "system": {"Driver version": "6.10.5"}}`,
		"",
	}, "\n")))
	want := provision.Facts{
		Hostname: "spark", Box: provision.BoxOf("", []string{"GPU-5f0c1a7e-2b3d-4c5e-9f60-000000000000"}), CPUModel: "Cortex-X925", CPUs: 20, MemoryBytes: 1 << 20,
		GPUs: []provision.GPU{nvidia("NVIDIA GB10", 0, "580.95.05"), amd("AMD Instinct MI300X", 206141652992, "6.10.5")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseFacts (-want +got):\n%s", diff)
	}
	if got := parseFacts(read("rocm=ERROR: no driver\n")); len(got.Problems) != 1 || got.Problems[0] != "rocm-smi: ERROR: no driver" {
		t.Errorf("parseFacts of a broken rocm-smi = %+v", got)
	}
}

func TestMain(m *testing.M) { os.Exit(testhost.Main(m)) }
