package provision

import (
	"strings"
	"testing"
)

// TestFiguresOf: a GPU is held against its own data sheet alone. Names that begin alike are those of others.
func TestFiguresOf(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB": "A100", "NVIDIA H200": "H200", "NVIDIA H20": "H20", "NVIDIA L40S": "L40S",
		"NVIDIA L4": "L4", "NVIDIA A10G": "A10G", "NVIDIA GH200 480GB": "GH200", "AMD Instinct MI300X": "MI300X", "AMD Instinct MI250X / MI250": "MI250",
		"NVIDIA RTX A4000": "", "NVIDIA RTX A1000 Laptop GPU": "", "NVIDIA A2": "", "AMD Instinct MI308X": "",
	} {
		if got := figuresOf(name).name; got != want {
			t.Errorf("%s is taken for %q, want %q", name, got, want)
		}
	}
}

// TestGPUParts: parts of GPUs are held against their like, also where the block counts them; who is slow is named by its address.
func TestGPUParts(t *testing.T) {
	b, h := Box{}, &Host{GPUs: GPUs{Count: 16, Model: "MI300X", Vendor: AMD}}
	for i := range h.GPUs.Count {
		peers := make([]float64, h.GPUs.Count)
		for j := range peers {
			if i != j {
				peers[j] = 30e9
			}
		}
		b.GPUSpeeds = append(b.GPUSpeeds, GPUSpeed{Name: "AMD Instinct MI300X", At: "0000:c1:00.0", Part: true, Memory: 5.2e11, To: 50e9, From: 50e9, Peers: peers})
	}
	warned := func() (all []string) {
		for _, f := range b.Findings(h) {
			if f.Level == Warning {
				all = append(all, f.Check+": "+f.Have)
			}
		}
		return all
	}
	if got := warned(); got != nil {
		t.Errorf("of good parts: %q", got)
	}
	b.GPUSpeeds[3].Memory /= 2
	if got := warned(); len(got) != 1 || !strings.HasPrefix(got[0], "gpu memory speed: gpu3 (0000:c1:00.0) ") {
		t.Errorf("of one that is slow: %q", got)
	}
}
