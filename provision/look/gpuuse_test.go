package look

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/testhost"
)

func TestParseGPUUse(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		out  string
		want provision.GPUUse
	}{
		"nothing": {"", provision.GPUUse{}},
		"nvidia": {
			"nvidia=0, GPU-a, 1\nnvidia=1, GPU-b, 1025\napp=GPU-a, 77, 512, /usr/bin/python3\napp=GPU-b, 77, 512, /usr/bin/python3\napp=MIG-c, 78, [N/A], [Not Found]\npid=77|" + id + "||VLLM::Worker\npid=77|" + id + "||VLLM::Worker\npid=78|||\n",
			provision.GPUUse{Memory: []int64{1 << 20, 1025 << 20}, Processes: []provision.GPUProcess{
				{PID: 77, Name: "VLLM::Worker", Memory: 1024 << 20, Container: id, GPUs: map[int]int64{0: 512 << 20, 1: 512 << 20}}, {PID: 78, Name: "[Not Found]"},
			}},
		},
		"nvidia without a driver": {"nvidia=No devices were found\n",
			provision.GPUUse{Problems: []string{"nvidia-smi: No devices were found"}}},
		"rocm-smi": {
			`rocm=WARNING: AMD GPU device(s) is/are in a low-power state.` + "\n" +
				`rocm={"card0": {"VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "297795584"}, "card1": {"VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "1297795584"}, "system": {"PID4711": "sglang::, sched, 2, 1000000000, 0, unknown"}}` + "\n" +
				"rocmgpus=4711 0 1 \npid=4711||/root/.cache/hcl/agents/a/x|sglang::sched\n",
			provision.GPUUse{Memory: []int64{297795584, 1297795584},
				Processes: []provision.GPUProcess{{PID: 4711, Name: "sglang::sched", Memory: 1000000000,
					Mark: "/root/.cache/hcl/agents/a/x", GPUs: map[int]int64{0: 1000000000, 1: 1000000000}}}},
		},
		"amd-smi": {
			`amdmem=[{"gpu": 0, "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}}}]` + "\n" +
				`amdapp=[{"gpu": 0, "process_list": [{"process_info": {"name": "python3", "pid": 9, "memory_usage": {"vram_mem": {"value": 1024, "unit": "KB"}}}}]}]` + "\npid=9|||python3\n",
			provision.GPUUse{Memory: []int64{283 << 20}, Processes: []provision.GPUProcess{{PID: 9, Name: "python3", Memory: 1 << 20, GPUs: map[int]int64{0: 1 << 20}}}},
		},
		"amd-smi of a newer release, idle": {
			`amdmem={"gpu_data": [{"gpu": 0, "mem_usage": {"used_vram": {"value": 283, "unit": "MB"}}}]}` + "\n" +
				`amdapp={"gpu_data": [{"gpu": 0, "process_list": [{"process_info": "No running processes detected"}]}]}` + "\n",
			provision.GPUUse{Memory: []int64{283 << 20}},
		},
		"rocm-smi without a driver": {"rocm=ERROR:root:Driver not initialized (amdgpu not found in modules)\n",
			provision.GPUUse{Problems: []string{"rocm-smi: ERROR:root:Driver not initialized (amdgpu not found in modules)"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parseGPUUse(read(c.out))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProveGone: on hosts of both vendors, memory that comes back late is waited
// for, what never comes back is told, and what somebody else uses is not ours.
func TestProveGone(t *testing.T) {
	for _, gpu := range []string{"8xH200", "8xMI300X"} {
		t.Run(gpu, func(t *testing.T) {
			t.Parallel()
			h := testhost.New(t, testhost.Options{Name: "box", GPU: gpu, Namespace: true})
			c := process(t, h, gpu)
			before, err := GPUUse(t.Context(), c)
			if err != nil || len(before.Memory) != 8 || len(before.Processes) != 0 || before.Problems != nil {
				t.Fatalf("idle: %+v, %v", before, err)
			}
			use := func(uses ...testhost.GPUUse) { testhost.OK(t, h.UseGPUs(uses...)) }
			l, err := h.Listen("127.0.0.1:8000")
			testhost.OK(t, err)
			defer l.Close()
			use(testhost.GPUUse{GPU: 3, MiB: 70_000})
			traces := provision.Traces{Before: before, Ports: []int{8000}}
			_, err = ProveGone(t.Context(), c, traces, time.Second)
			unclean := new(provision.UncleanError)
			if !errors.As(err, &unclean) {
				t.Fatalf("leaked: %v, want an UncleanError", err)
			}
			if diff := cmp.Diff([]string{
				"something still listens on port 8000: see `sudo ss -ltnp 'sport = :8000'` there",
				"GPU 3 has 70000 MiB more in use than before, held by no process",
			}, unclean.Left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}

			// It is given back while somebody waits.
			proved := make(chan error, 1)
			go func() {
				_, err := ProveGone(t.Context(), c, traces, time.Minute)
				proved <- err
			}()
			l.Close()
			use()
			if err := <-proved; err != nil {
				t.Errorf("given back: %v", err)
			}

			// Somebody else's process, with a name of its own and our mark.
			traces.Marks = []string{"/agents/ours/"}
			stranger := h.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", provision.ProcessMark+"=/agents/ours/e",
				"sh", "-c", `printf '\nnvidia=3, x, 9' >/proc/$$/comm; echo $$; read x`)
			in, err := stranger.StdinPipe()
			testhost.OK(t, err)
			defer in.Close()
			out, err := stranger.StdoutPipe()
			testhost.OK(t, err)
			testhost.OK(t, stranger.Start())
			defer func() { stranger.Process.Kill(); stranger.Wait() }()
			line := make([]byte, 16)
			n, err := out.Read(line)
			testhost.OK(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
			testhost.OK(t, err)
			use(testhost.GPUUse{GPU: 0, PID: pid, MiB: 1000, Name: "python3"},
				testhost.GPUUse{GPU: 1, PID: pid, MiB: 2000, Name: "python3"})
			others, err := ProveGone(t.Context(), c, traces, time.Second)
			if err != nil || len(others) != 1 || others[0].PID != pid || others[0].Memory != 3000<<20 || others[0].GPUs[1] < 2000<<20 {
				t.Errorf("somebody else: %+v, %v", others, err)
			}
			// What has leaked is no less ours.
			use(testhost.GPUUse{GPU: 0, PID: pid, MiB: 80_000, Name: "python3"}, testhost.GPUUse{GPU: 5, MiB: 70_000})
			if _, err := ProveGone(t.Context(), c, traces, 0); !errors.As(err, &unclean) || len(unclean.Left) != 1 || !strings.HasPrefix(unclean.Left[0], "GPU 5 has 70000 MiB more") {
				t.Errorf("leaked beside somebody else: %v", err)
			}
		})
	}
}

// TestStillListens: what of ours is open on another address than the engine's is
// found, and what is not ours is not in the way.
func TestStillListens(t *testing.T) {
	t.Parallel()
	h := testhost.New(t, testhost.Options{Name: "box", Namespace: true})
	c := process(t, h, "")
	c.UseHCL(testhost.HCL(t))
	open, err := os.MkdirTemp("", "hcl") // to all users
	testhost.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(open) })
	testhost.OK(t, os.Chmod(open, 0o755))
	hcl := filepath.Join(open, "hcl")
	if out, err := exec.Command("install", "-m", "755", testhost.HCL(t), hcl).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start := func(port int, as ...string) (end func()) {
		words := append(as, "sh", "-c", fmt.Sprintf("%s=/agents/ours/e %s sim --host %s --port %d & read end; kill $!", provision.ProcessMark, hcl, h.IP, port))
		server := h.Command(words[0], words[1:]...)
		in, err := server.StdinPipe()
		testhost.OK(t, err)
		said, err := server.StderrPipe()
		testhost.OK(t, err)
		testhost.OK(t, server.Start())
		for lines := bufio.NewScanner(said); lines.Scan() && !strings.Contains(lines.Text(), "startup complete"); {
		}
		return func() {
			in.Close()
			if err := server.Wait(); err != nil {
				t.Log(err) // killed
			}
		}
	}
	end := start(8000)
	defer start(8001, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")()
	if _, err := ProveGone(t.Context(), c, provision.Traces{Marks: []string{"/agents/ours/"}, Ports: []int{8001}}, 0); err != nil {
		t.Errorf("another user's, with our mark: %v", err)
	}
	if _, err := ProveGone(t.Context(), c, provision.Traces{Marks: []string{"/agents/theirs/"}, Ports: []int{8000}}, 0); err != nil {
		t.Errorf("somebody else's: %v", err)
	}
	unclean := new(provision.UncleanError)
	_, err = ProveGone(t.Context(), c, provision.Traces{Marks: []string{"/agents/ours/"}, Ports: []int{8000}}, 0)
	if !errors.As(err, &unclean) || len(unclean.Left) != 1 || !strings.Contains(unclean.Left[0], "hcl sim) still listens on "+h.IP+":8000") {
		t.Errorf("ours: %v", err)
	}
	end()
	if _, err := ProveGone(t.Context(), c, provision.Traces{Marks: []string{"/agents/ours/"}, Ports: []int{8000}}, time.Minute); err != nil {
		t.Errorf("ended: %v", err)
	}
}
