package provision

import "strings"

// gpuModel is a GPU of data centres or workstations that inference runs on, and how much memory the largest one of
// its name has, in GiB; 0: not known.
type gpuModel struct {
	name   string
	memory int64
}

// gpuModels are as the makers' data sheets have them. Of two names that are as near to a slip, the first is suggested.
var gpuModels = []gpuModel{
	{"H200", 141}, {"H100", 96}, {"H800", 80}, {"H20", 141}, {"GH200", 144},
	{"B200", 192}, {"B100", 192}, {"B300", 288}, {"GB200", 192}, {"GB300", 288},
	{"A100", 80}, {"A800", 80}, {"A40", 48}, {"A30", 24}, {"A10G", 24}, {"A10", 24}, {"A16", 64}, {"A2", 16},
	{"L40S", 48}, {"L40", 48}, {"L20", 48}, {"L4", 24}, {"L2", 24}, {"T4", 16},
	{"V100", 32}, {"V100S", 32}, {"P100", 16}, {"P40", 24},
	{name: "A6000"}, {name: "A5000"}, {name: "A4000"}, {name: "RTX6000"}, {name: "RTX5000"}, {name: "RTX4000"},
	{name: "RTX5090"}, {name: "RTX5080"}, {name: "RTX4090"}, {name: "RTX4080"}, {name: "RTX3090"}, {name: "RTX3080"},
	{name: "RTXPRO6000"}, {name: "RTX-PRO-6000"}, {name: "GB10"},
	{"MI300X", 192}, {"MI300A", 128}, {"MI308X", 192}, {"MI325X", 256}, {"MI350X", 288}, {"MI355X", 288},
	{"MI250X", 128}, {"MI250", 128}, {"MI210", 64}, {"MI100", 32}, {"MI50", 32}, {"MI60", 32},
	{name: "W7900"}, {name: "W7800"}, {name: "R9700"},
}

// GPUModels are the names of the GPUs that hcl knows.
func GPUModels() []string {
	names := make([]string, len(gpuModels))
	for i, m := range gpuModels {
		names[i] = m.name
	}
	return names
}

// find is what is known of the GPU; nil: nothing. An "A100-SXM4-80GB" is an A100.
func (g GPUs) find() *gpuModel {
	family, _, _ := strings.Cut(g.Model, "-")
	for i, m := range gpuModels {
		if strings.EqualFold(m.name, g.Model) || strings.EqualFold(m.name, family) {
			return &gpuModels[i]
		}
	}
	return nil
}

// IsKnown reports whether hcl knows the model.
func (g GPUs) IsKnown() bool { return g.find() != nil }

// Memory is the most that one GPU of the model has, in bytes; 0: not known.
func (g GPUs) Memory() int64 {
	if m := g.find(); m != nil {
		return m.memory << 30
	}
	return 0
}
