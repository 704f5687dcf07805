package provision

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hclbench/testhost"
)

func TestFacts(t *testing.T) {
	h := testhost.New(t, testhost.Options{Name: "h200-a", GPU: "8xH200"})
	host := block(h)
	host.Runtime = Process
	c := mustDial(t, host, strict(h))
	f, err := c.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var gpus []GPU
	for range 8 {
		gpus = append(gpus, GPU{NVIDIA, "NVIDIA H200", 143771 << 20, "550.144.03"})
	}
	if diff := cmp.Diff(gpus, f.GPUs); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if f.Hostname != "h200-a" || f.OS == "" || f.Kernel == "" || f.Arch == "" || f.CPUs < 1 || f.MemoryBytes < 1<<28 || f.Problems != nil {
		t.Errorf("Facts = %+v", f)
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Facts
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, back); diff != "" {
		t.Errorf("Facts through JSON (-want +got):\n%s", diff)
	}

	if err := h.Install("nvidia-smi", "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"); err != nil {
		t.Fatal(err)
	}
	if f, err = c.Facts(t.Context()); err != nil {
		t.Fatal(err)
	}
	host.GPUs = GPUs{8, "H200", NVIDIA}
	got := finding(Contract(host, f, Condition{}, Traces{}), "gpus")
	if got.Level != Blocked || got.Have != "none" || !strings.Contains(got.Advice, "Driver/library version mismatch") {
		t.Errorf("with a broken driver: %+v", got)
	}
}

func TestLocalFacts(t *testing.T) {
	c := mustDial(t, &Host{Name: "here", Address: LocalAddress, Runtime: Process}, SSH{})
	f, err := c.Facts(t.Context())
	if err != nil || f.Hostname == "" || f.CPUs < 1 {
		t.Errorf("Facts = %+v, %v", f, err)
	}
}

func TestParseFacts(t *testing.T) {
	got := parseFacts(strings.Join([]string{
		"hostname=spark", "cpus=20", "memory_kib=1024", "cpu=Cortex-X925",
		"nvidia=NVIDIA GB10, [N/A], 580.95.05",
		"rocm=WARNING: AMD GPU device(s) is/are in a low-power state",
		`rocm={"card0": {"Card Series": "N/A", "Device Name": "AMD Instinct MI300X", "VRAM Total Memory (B)": "206141652992"},`,
		`rocm= "system": {"Driver version": "6.10.5"}}`,
		"",
	}, "\n"))
	want := Facts{
		Hostname: "spark", CPUModel: "Cortex-X925", CPUs: 20, MemoryBytes: 1 << 20,
		GPUs: []GPU{{NVIDIA, "NVIDIA GB10", 0, "580.95.05"}, {AMD, "AMD Instinct MI300X", 206141652992, "6.10.5"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseFacts (-want +got):\n%s", diff)
	}
	if got := parseFacts("rocm=ERROR: no driver\n"); len(got.Problems) != 1 || got.Problems[0] != "rocm-smi: ERROR: no driver" {
		t.Errorf("parseFacts of a broken rocm-smi = %+v", got)
	}
}
