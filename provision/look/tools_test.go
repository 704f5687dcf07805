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
	"hclbench/provision/reach"
	"hclbench/testhost"
)

// read reads what a script has printed.
func read(out string) lines { return lines{reach.ReadAnswers(out)} }

// as puts a script's name for a tool before each line that it has printed.
func as(name, printed string) string {
	return name + "=" + strings.ReplaceAll(strings.TrimSuffix(printed, "\n"), "\n", "\n"+name+"=") + "\n"
}

// TestFactsOfReleases are what the tools of releases print of GPUs. The values are of nobody's GPU.
func TestFactsOfReleases(t *testing.T) {
	for _, c := range []struct {
		name, out string
		want      []provision.GPU
		problem   string
	}{
		{"nvidia-smi 550, MIG or not", as("nvidia", "NVIDIA H200, 143771, 550.144.03, GPU-5f0c1a7e-2b3d-4c5e-9f60-000000000000\n"+
			"NVIDIA H100 80GB HBM3, 81559, 550.144.03, GPU-5f0c1a7e-2b3d-4c5e-9f60-000000000001\n"),
			[]provision.GPU{nvidia("NVIDIA H200", 143771<<20, "550.144.03"),
				nvidia("NVIDIA H100 80GB HBM3", 81559<<20, "550.144.03")}, ""},
		{"nvidia-smi 570, one GPU is lost",
			as("nvidia", "Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error\nNVIDIA H200, 143771, 570.86.15, GPU-5f0c1a7e-2b3d-4c5e-9f60-000000000001\n"),
			[]provision.GPU{nvidia("NVIDIA H200", 143771<<20, "570.86.15")},
			"nvidia-smi: Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error"},
		{"nvidia-smi without a driver",
			as("nvidia", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n"),
			nil, "nvidia-smi: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."},
		{"rocm-smi of ROCm 5.7", as("rocm",
			`{"card0": {"VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "10977280", "Card series": "AMD Instinct MI250X", "Card model": "0x0b0c", "Card vendor": "Advanced Micro Devices, Inc. [AMD/ATI]", "Card SKU": "D65209"}, "system": {"Driver version": "6.2.4"}}`),
			[]provision.GPU{amd("AMD Instinct MI250X", 68702699520, "6.2.4")}, ""},
		{"rocm-smi of ROCm 6 and 7", as("rocm",
			`{"card0": {"VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "297795584", "Card Series": "AMD Instinct MI300X", "Card Model": "0x74a1", "Card Vendor": "Advanced Micro Devices Inc. [AMD/ATI]", "Card SKU": "M3000100", "Subsystem ID": "0x74a1", "Device Rev": "0x00", "Node ID": "2", "GUID": "28851", "GFX Version": "gfx942"}, "card10": {"Card Series": "N/A", "Card Model": "0x74a1"}, "card2": {"Card Series": "AMD Instinct MI300X"}, "system": {"Driver version": "6.10.5"}}`),
			[]provision.GPU{amd("AMD Instinct MI300X", 206141652992, "6.10.5"),
				amd("AMD Instinct MI300X", 0, "6.10.5"), amd("0x74a1", 0, "6.10.5")}, ""},
		{"rocm-smi without a GPU", as("rocm", "WARNING:root:No JSON data to report\n"), nil,
			"rocm-smi: WARNING:root:No JSON data to report"},
		{"amd-smi of ROCm 6.1 to 6.4", as("amd",
			`[{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002", "num_compute_units": 304, "target_graphics_version": "gfx942"}, "driver": {"name": "amdgpu", "version": "6.8.5"}, "vram": {"type": "HBM", "vendor": "N/A", "size": {"value": 196592, "unit": "MB"}}}]`),
			[]provision.GPU{amd("AMD Instinct MI300X", 196592<<20, "6.8.5")}, ""},
		{"amd-smi of ROCm 7, and a guest that is told little",
			as("amd", `{"gpu_data": [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "oam_id": 2}, "driver": {"name": "amdgpu", "version": "6.14.14", "os_kernel_version": "6.8.0-60-generic"}, "vram": {"type": "HBM3", "size": {"value": 196592, "unit": "MB"}, "bit_width": 8192}}, {"gpu": 1, "asic": {"market_name": "AMD Instinct MI300X VF"}, "driver": "N/A", "vram": {"size": "N/A"}}]}`),
			[]provision.GPU{amd("AMD Instinct MI300X", 196592<<20, "6.14.14"), amd("AMD Instinct MI300X VF", 0, "")}, ""},
		{"amd-smi of ROCm 6.0, which writes no units",
			as("amd", `{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}, "driver": {"driver_name": "amdgpu", "driver_version": "6.3.6"}, "vram": {"vram_type": "HBM", "vram_size_mb": 196592}}`),
			[]provision.GPU{amd("AMD Instinct MI300X", 0, "")}, ""},
		{"amd-smi of ROCm 6 without a driver",
			as("amd", `{"error": "AMDSMI has returned error '-1034' - 'NOT_INIT - Device not initialized'", "code": -1034}`),
			nil, "amd-smi: AMDSMI has returned error '-1034' - 'NOT_INIT - Device not initialized'"},
	} {
		f := parseFacts(read(c.out))
		if diff := cmp.Diff(c.want, f.GPUs); diff != "" || strings.Join(f.Problems, "; ") != c.problem {
			t.Errorf("%s: GPUs (-want +got):\n%s\nproblems %q, want %q", c.name, diff, f.Problems, c.problem)
		}
	}
}

// TestUseOfReleases are what the tools of releases print of memory and processes.
func TestUseOfReleases(t *testing.T) {
	for _, c := range []struct {
		name, out string
		want      provision.GPUUse
	}{
		{"nvidia-smi, one GPU is lost, another has no memory of its own",
			as("nvidia", "0, GPU-a, 1\nUnable to determine the device handle for GPU1: 0000:43:00.0: Unknown Error\n2, GPU-c, [N/A]\n3, GPU-d, 133210\n"),
			provision.GPUUse{Memory: []int64{1 << 20, provision.NotTold, provision.NotTold, 133210 << 20},
				Problems: []string{"nvidia-smi: Unable to determine the device handle for GPU1: 0000:43:00.0: Unknown Error"}}},
		{"rocm-smi, cards of which little is known",
			as("rocm", `{"card0": {"VRAM Total Memory (B)": "206141652992"}, "card2": {"VRAM Total Used Memory (B)": "297795584"}, "system": {"PID4711": "unknown, 1, unknown, unknown, unknown"}}`) + "pid=4711|||\n",
			provision.GPUUse{Memory: []int64{provision.NotTold, provision.NotTold, 297795584},
				Processes: []provision.GPUProcess{{PID: 4711, Name: "unknown"}}}},
		{"amd-smi of ROCm 6.2, a process on two GPUs",
			as("amdmem", `[{"gpu": 0, "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}}}, {"gpu": 1, "mem_usage": "N/A"}]`) +
				as("amdapp", `[{"gpu": 0, "process_list": [{"process_info": {"name": "python3", "pid": 9, "memory_usage": {"gtt_mem": {"value": 0, "unit": "B"}, "cpu_mem": {"value": 0, "unit": "B"}, "vram_mem": {"value": 4096, "unit": "B"}}, "mem_usage": {"value": 4096, "unit": "B"}, "usage": {"gfx": {"value": 0, "unit": "ns"}}}}]}, {"gpu": 1, "process_list": [{"process_info": {"name": "N/A", "pid": 9, "memory_usage": {"vram_mem": {"value": 4096, "unit": "B"}}}}, {"process_info": {"name": "N/A", "pid": "N/A"}}]}]`) + "pid=9|||python3\n",
			provision.GPUUse{Memory: []int64{283 << 20, provision.NotTold},
				Processes: []provision.GPUProcess{{PID: 9, Name: "python3", Memory: 8192, GPUs: map[int]int64{0: 4096, 1: 4096}}}}},
		{"amd-smi of ROCm 7 by a login that may not",
			as("amdmem", "amdsmi_cli_exceptions.AmdSmiPermissionDeniedException: Command 'metric' requires elevation. Error code: -10\n"),
			provision.GPUUse{Problems: []string{"amd-smi: amdsmi_cli_exceptions.AmdSmiPermissionDeniedException: Command 'metric' requires elevation. Error code: -10"}}},
	} {
		if diff := cmp.Diff(c.want, parseGPUUse(read(c.out))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	lost, before := provision.GPUUse{Memory: []int64{1 << 20, provision.NotTold}}, provision.GPUUse{Memory: []int64{1 << 20, 1 << 20}}
	if left, _ := (provision.Traces{Before: before}).Held(lost); len(left) != 1 || !strings.HasPrefix(left[0], "2 GPUs answered before, now 1") {
		t.Errorf("a GPU that was lost: %q", left)
	}
	if left, _ := (provision.Traces{Before: lost}).Held(before); len(left) != 0 {
		t.Errorf("a GPU that has come back: %q", left)
	}
}

// see runs condition.sh with these programs in the place of what is here, and reads
// what it has printed.
func see(t *testing.T, programs map[string]string) provision.Condition {
	t.Helper()
	dir := t.TempDir()
	if programs["nvidia-smi"] == "" {
		programs["nvidia-smi"] = "exit 9" // not that of the machine on which this runs
	}
	for name, script := range programs {
		testhost.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", conditionScript, "sh", conditionFields)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	testhost.OK(t, err)
	return parseCondition(read(string(out)), time.Now(), time.Now())
}

// TestConditionOfDrivers: nvidia-smi refuses a whole query for one name that it does
// not know, and tells of the other GPUs when one is lost.
func TestConditionOfDrivers(t *testing.T) {
	const gpus = `case $* in
*query-gpu=index*)
	echo 'Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error' >&2
	echo '1, Enabled, Enabled, Disabled, 700.00, 700.00, 0x0000000000000001, 0'
	echo '2, [N/A], Disabled, [N/A], [N/A], [Unknown Error], [Not Supported], [N/A]' ;;
*query-remapped-rows*) echo 'No, No'; echo 'Yes, No' ;;
*clocks.applications*) echo '1980, 1980'; echo '[Requested functionality has been deprecated], [Requested functionality has been deprecated]' ;;
*) exit 2 ;;
esac`
	want := []provision.GPUCondition{
		{},
		{ECC: "Enabled", Persistence: "Enabled", MIG: "Disabled", PowerLimit: 700, Default: 700, Clock: 1980, FreeClock: 1980, Reasons: 1},
		{Persistence: "Disabled", Remap: "pending"},
	}
	for name, refused := range map[string]string{"driver 525": "clocks_event_reasons", "one that knows the new name only": "clocks_throttle_reasons"} {
		now := see(t, map[string]string{"nvidia-smi": `case $* in *` + refused + `*) echo 'Field "` + refused + `.active" is not a valid field to query.'; echo; exit 2 ;; esac` + "\n" + gpus})
		if diff := cmp.Diff(want, now.GPUs); diff != "" {
			t.Errorf("%s: GPUs (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]string{"nvidia-smi: Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error"}, now.Problems); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", name, diff)
		}
	}
}

// TestConditionOfAMDSMI is a host with amd-smi alone.
func TestConditionOfAMDSMI(t *testing.T) {
	now := see(t, map[string]string{"amd-smi": `case $* in
"static --limit --json") echo '{"gpu_data": [{"gpu": 0, "limit": {"ppt0": {"max_power_limit": {"value": 1000, "unit": "W"}, "socket_power_limit": {"value": 1000, "unit": "W"}}, "ppt1": {"socket_power_limit": {"value": 1200, "unit": "W"}}, "ptl_state": "N/A"}}, {"gpu": 1, "limit": {"ppt0": {"socket_power_limit": "N/A"}, "ppt1": {"socket_power_limit": "N/A"}}}]}' ;;
"metric --perf-level --json") echo '{"gpu_data": [{"gpu": 0, "perf_level": "AMDSMI_DEV_PERF_LEVEL_DETERMINISM"}, {"gpu": 1, "perf_level": "N/A"}]}' ;;
"firmware --json") echo '{"gpu_data": [{"gpu": 0, "fw_list": [{"fw_id": "CP_MEC1", "fw_version": "177"}, {"fw_id": "CP_MEC2", "fw_version": "17"}]}, {"gpu": 1, "fw_list": "N/A"}]}' ;;
"topology --link-type --json") echo '[{"gpu": 0, "bdf": "0000:05:00.0", "links": [{"gpu": 0, "bdf": "0000:05:00.0", "link_type": "SELF"}, {"gpu": 1, "bdf": "0000:26:00.0", "link_type": "XGMI"}]}, {"gpu": 1, "bdf": "0000:26:00.0", "links": [{"gpu": 0, "link_type": "XGMI"}, {"gpu": 1, "link_type": "SELF"}]}]' ;;
"metric --throttle --json") echo '{"gpu_data": [{"gpu": 0, "throttle": {"ppt_violation_status": "N/A", "hbm_thermal_violation_status": "ACTIVE"}}, {"gpu": 1, "throttle": "N/A"}]}' ;;
*) exit 2 ;;
esac`})
	want := []provision.GPUCondition{{PowerLimit: 1000, SecondLimit: 1200, Level: "determinism", Violation: "hbm thermal"}, {}}
	if diff := cmp.Diff(want, now.GPUs); diff != "" || len(now.MEC) != 1 || now.MEC[0] != 177 || now.Problems != nil {
		t.Errorf("MEC %v, problems %q, GPUs (-want +got):\n%s", now.MEC, now.Problems, diff)
	}
	if got := now.Settings()["gpu links"]; got != "XGMI × 1" {
		t.Errorf("links: %q", got)
	}
}

// TestKernelLog: lines of the drivers, of which some tell of a GPU that has failed.
func TestKernelLog(t *testing.T) {
	failed := []string{
		"[1234.5] NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
		"[1234.6] NVRM: Xid (PCI:0000:1b:00): 48, pid=4711, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 6, subpartition 1.",
		"[1234.7] amdgpu 0000:c6:00.0: amdgpu: {3} socket: 2, die: 0, 1 new uncorrectable hardware errors detected in umc block",
		"[1234.8] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=12, emitted seq=14",
		"[1234.9] amdgpu 0000:c6:00.0: amdgpu: GPU reset begin!",
	}
	well := []string{
		"[1.1] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
		"[2.1] NVRM: GPU at PCI:0000:1b:00: GPU-5f0c1a7e-2b3d-4c5e-9f60-000000000000",
		"[2.2] NVRM: Xid (PCI:0000:1b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f2e_1c000000.",
		"[2.3] NVRM: Xid (PCI:0000:1b:00): 43, pid=4711, name=VLLM::Worker, Ch 00000010",
		"[2.4] NVRM: Xid (PCI:0000:1b:00): 45, pid=4711, name=VLLM::Worker, Ch 00000011",
		"[3.1] amdgpu 0000:05:00.0: amdgpu: RAS INFO: ras initialized successfully, hardware ability[7ff7f] ras_mask[7ff7f]",
		"[3.2] amdgpu 0000:05:00.0: amdgpu: RAS: optional ras ta ucode is not available",
		"[3.3] amdgpu 0000:05:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
		"[3.4] amdgpu 0000:05:00.0: amdgpu: 3 correctable hardware errors detected in umc block",
		"[3.5] RAS: Correctable Errors collector initialized.",
	}
	const killed = "[5.1] Out of memory: Killed process 4711 (python3)"
	log := slices.Concat(well, failed, slices.Repeat([]string{killed}, 6))
	now := see(t, map[string]string{"dmesg": "cat <<'EOF'\n" + strings.Join(log, "\n") + "\nEOF"})
	if diff := cmp.Diff(append(failed, killed), now.Kernel); diff != "" || now.KernelUnread {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
