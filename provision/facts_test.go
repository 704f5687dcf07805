package provision

import "testing"

func TestModels(t *testing.T) {
	for _, c := range []struct {
		model, name string
		want        bool
	}{
		{"H200", "NVIDIA H200", true},
		{"H200", "NVIDIA H20", false},
		{"H20", "NVIDIA H200", false},
		{"H200", "NVIDIA GH200 480GB", false},
		{"RTX4090", "NVIDIA GeForce RTX 4090", true},
		{"A100-80GB", "NVIDIA A100-SXM4-80GB", true},
		{"A100-40GB", "NVIDIA A100-SXM4-80GB", false},
		{"mi300x", "AMD Instinct MI300X OAM", true},
		{"MI300X", "Aqua Vanjaram [Instinct MI300X]", true}, // where the card has no name of its own
	} {
		if got := (GPU{Name: c.name}).isModel(c.model); got != c.want {
			t.Errorf("%q is a %s: %v, want %v", c.name, c.model, got, c.want)
		}
	}
}

// TestLinks are matrices of the tools: nvidia-smi's has network cards too.
func TestLinks(t *testing.T) {
	for topology, want := range map[string]string{
		"\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\nGPU0\t X \tNV18\tPIX\t0-47,96-143\t0\t\tN/A\nGPU1\tNV18\t X \tNODE\t0-47,96-143\t0\t\tN/A\nNIC0\tPIX\tNODE\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n":                                                                                                                                                         "NV18 × 1",
		"============================ ROCm System Management Interface ============================\n=============================== Link Type between two GPUs ===============================\n       GPU0         GPU1         GPU2         \nGPU0   0            XGMI         PCIE         \nGPU1   XGMI         0            XGMI         \nGPU2   PCIE         XGMI         0            \n================================== End of ROCm SMI Log ===================================\n": "XGMI × 2, PCIE × 1",
		"\tGPU0\tCPU Affinity\nGPU0\t X \t0-23\n": "",
	} {
		if got := links(topology); got != want {
			t.Errorf("%q: %q, want %q", topology, got, want)
		}
	}
}
