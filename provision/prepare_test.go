package provision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSteps(t *testing.T) {
	on := true
	p := &Prepare{PersistenceMode: &on, PowerCap: 600, LockClocks: 1500, ECC: &on}
	want := []string{
		"persistence mode on: `nvidia-smi -i 0,1 -pm 1`, then back to what it was",
		"power limit 600 W: `nvidia-smi -i 0,1 -pl 600`, then back to what it was",
		"clocks 1500 MHz: `nvidia-smi -i 0,1 -lgc 1500,1500`, then `nvidia-smi -i 0,1 -rgc`",
		"ecc on: checked, as setting it takes a reset",
	}
	if diff := cmp.Diff(want, p.Steps(GPUs{2, "H200", NVIDIA})); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	want = []string{
		"power limit 600 W: `rocm-smi -d 0 1 --setpoweroverdrive 600 --autorespond y` (where that is not there `amd-smi set --gpu 0 1 --power-cap 600`), then back to what it was",
		"clocks 1500 MHz: `rocm-smi -d 0 1 --setperfdeterminism 1500` (where that is not there `amd-smi set --gpu 0 1 --perf-determinism 1500`), then `rocm-smi -d 0 1 --resetperfdeterminism`",
	}
	if diff := cmp.Diff(want, (&Prepare{PowerCap: 600, LockClocks: 1500}).Steps(GPUs{2, "MI300X", AMD})); diff != "" {
		t.Errorf("steps on AMD (-want +got):\n%s", diff)
	}
}
