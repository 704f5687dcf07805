package engines

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded are the lines of a log that a real engine has written, as a terminal shows
// them: of a line that was written over, its last state. See testdata/logs/README.md.
func recorded(t *testing.T, name string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/logs", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		lines = append(lines, line[strings.LastIndexByte(line, '\r')+1:])
	}
	return lines
}

// cause is what lines say of why the engine fails, once it has ended, and whether they say it before.
func cause(lines ...string) (f Fatal, fatal bool) {
	var c Cause
	for _, line := range lines {
		c.Read(line)
	}
	_, fatal = c.Fatal()
	f, _ = c.Last()
	return f, fatal
}

// TestRecordedCauses: every start that failed, and every engine that died under load, is given its cause.
func TestRecordedCauses(t *testing.T) {
	for name, want := range map[string]string{
		"sglang-crash":                       "IndexError: index out of range in self",
		"sglang-fail-bad-model":              "the model is not there, and cannot be fetched: huggingface_hub.errors.HFValidationError: Repo id must be…",
		"sglang-fail-bad-model-hub":          "the model is not there, and cannot be fetched: huggingface_hub.errors.LocalEntryNotFoundError: Cannot fin…",
		"sglang-fail-dp-attn":                "AssertionError: assert cfg.tp_size % cfg.attn_dp_size == 0",
		"sglang-fail-low-mem":                "no room for the KV cache: ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fra…",
		"sglang-fail-parse-choice":           "the engine does not take the value of an argument: sglang serve: error: argument --attention-backend: in…",
		"sglang-fail-parse-int":              "the engine does not take the value of an argument: sglang serve: error: argument --tp-size/--tensor-para…",
		"sglang-fail-parse-noarg":            "the engine does not take the value of an argument: sglang serve: error: argument --tp-size/--tensor-para…",
		"sglang-fail-parse-pp":               "the engine does not know an argument: sglang serve: error: ambiguous option: --pp could match --pp-size,…",
		"sglang-fail-parse-unknown":          "the engine does not know an argument: sglang serve: error: ambiguous option: --cuda-graph-max-bs could m…",
		"sglang-fail-port-taken":             "the port is taken: ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 18300): …",
		"setup-no-such-version":              "Error: vLLM 9.9.9 cannot be made of PyPI's packages: say another version (https://pypi.org/project/vllm…",
		"sglang-start":                       "",
		"vllm-enginecore-killed":             "the engine's core failed: vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. Se…",
		"vllm-fail-bad-int":                  "the engine does not take the value of an argument: vllm serve: error: argument --max-num-seqs: invalid i…",
		"vllm-fail-batched-tokens-too-small": "the engine refuses its settings: Value error, max_num_batched_tokens (16) must be greater than or equal …",
		"vllm-fail-dtype-invalid":            "the engine does not take the value of an argument: vllm serve: error: argument --dtype: invalid choice: …",
		"vllm-fail-kv-cache-too-small":       "no room for the KV cache: ValueError: To serve at least one request with the model's max seq len (4096),…",
		"vllm-fail-max-model-len-too-large":  "max-model-len is beyond the model's own context: Value error, User-specified max_model_len (100000) is g…",
		"vllm-fail-model-path-missing":       "the model is not there, and cannot be fetched: huggingface_hub.errors.HFValidationError: Repo id must be…",
		"vllm-fail-model-without-tokenizer":  "the model has no tokenizer: ValueError: Couldn't instantiate the backend tokenizer from one of:",
		"vllm-fail-port-taken":               "the port is taken: OSError: [Errno 98] Address already in use",
		"vllm-fail-ucx-interface-gone":       "NIXL cannot open the network: [host:18185:0]      ucp_worker.c:1498 UCX  ERROR uct_iface_open(tcp/hclt4b…",
		"vllm-router-fail-no-workers":        `RuntimeError: Timeout 60s waiting for hosts ["http://127.0.0.1:18292", "http://127.0.0.1:18291"] to beco…`,
		"vllm-start":                         "",
	} {
		f, fatal := cause(recorded(t, name+".txt")...)
		begins, cut := strings.CutSuffix(want, "…")
		if got := f.String(); got != want && !(cut && strings.HasPrefix(got, begins)) {
			t.Errorf("%s: the cause is\n%s, want\n%s", name, got, want)
		}
		if known := f.Means != "" || name == "sglang-crash"; fatal != known {
			t.Errorf("%s: that it will never serve is said: %t, want %t", name, fatal, known)
		}
	}
}

// TestCauses: lines as engines print them, from the issues that report them.
func TestCauses(t *testing.T) {
	for line, want := range map[string]string{
		"ValueError: Free memory on device (13.2/139.8 GiB) on startup is less than desired GPU memory utilization (0.9, 125.8 GiB).":                 "memory is not free",
		"[2025-02-12 10:00:00 TP3] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.":                                           "out of GPU memory",
		"RuntimeError: Engine core initialization failed. See root cause above.":                                                                      "core failed",
		"api_server.py: error: unrecognized arguments: --tensor-paralel-size 8":                                                                       "does not know an argument",
		"RuntimeError: No HIP GPUs are available":                                                                                                     "there is no GPU, or other device",
		"Failed to initialize NVML: Unknown Error":                                                                                                    "there is no GPU, or other device",
		"RuntimeError: Failed to infer device type, please set the environment variable VLLM_LOGGING":                                                 "there is no GPU, or other device",
		"Received sigquit from a child process. It usually means the child failed.":                                                                   "core failed",
		"ValueError: Not enough memory. Please try to increase --mem-fraction-static.":                                                                "no room for the KV cache",
		"TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight loading":                             "VLLM_ENGINE_READY_TIMEOUT_S",
		"RuntimeError: The NVIDIA driver on your system is too old (found version 12040).":                                                            "driver is too old",
		"RuntimeError: CUDA error: no kernel image is available for execution on the device":                                                          "no kernels for this GPU",
		"HIP error: invalid device function":                                                                                                          "no kernels for this GPU",
		"torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error":                                                 "cannot talk to each other",
		"torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500 EADDRINUSE":             "port is taken",
		"torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.1, 29500).":            "a rank does not find the others",
		"The checkpoint you are trying to load has model type `x` but Transformers does not recognize this architecture.":                             "does not know the model",
		"ValueError: Model architectures ['XForCausalLM'] are not supported for now.":                                                                 "does not know the model",
		"RuntimeError: Insufficient space in /dev/shm: 160 MiB required, 64 MiB free":                                                                 "/dev/shm has no room",
		"(EngineCore pid=7) ERROR 11-23 13:41:40 [core.py:1510] RuntimeError: Worker failed with error 'NIXL is not available', please check the log": "NIXL is missing",
	} {
		f, fatal := cause(line)
		if !fatal || !strings.Contains(f.Means, want) || f.Follows != (want == "core failed") {
			t.Errorf("of %q the cause is %+v, %t, want %q", line, f, fatal, want)
		}
	}
	for line, want := range map[string]string{
		"[2025-02-12 10:00:00 DP1 TP3] torch.OutOfMemoryError: CUDA out of memory.":           "3",
		"(VllmWorker rank=5 pid=412) ERROR torch.OutOfMemoryError: CUDA out of memory.":       "5",
		"(Worker_TP12 pid=412) ERROR torch.OutOfMemoryError: CUDA out of memory.":             "12",
		"[rank2]: torch.OutOfMemoryError: CUDA out of memory.":                                "2",
		"[TRT-LLM] [RANK 7] [E] torch.OutOfMemoryError: CUDA out of memory.":                  "7",
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a": "",
	} {
		if f, fatal := cause(line); !fatal || f.Rank != want {
			t.Errorf("of %q the cause is %+v, %t, want rank %q", line, f, fatal, want)
		}
	}
	for _, line := range []string{
		"INFO 02-12 10:00:00 worker.py:266] the current vLLM instance can use total_gpu_memory (139.72GiB) x gpu_memory_utilization (0.90)",
		"WARNING: no CUDA graphs will be captured",
		"INFO:     Application startup complete.",
	} {
		if f, _ := cause(line); f != (Fatal{}) {
			t.Errorf("of %q the cause is %+v, want none", line, f)
		}
	}
}

// TestChain: of errors that follow from each other, the first counts, and one before them that was got over does not.
func TestChain(t *testing.T) {
	const over, root, after = "ImportError: no such kernel", "KeyError: 'layers.7'", "RuntimeError: Engine core initialization failed. See root cause above."
	for name, lines := range map[string][]string{
		"the last before the cascade":  {over, root, after, "ValueError: later"},
		"the first after what opens":   {over, "Scheduler hit an exception: Traceback (most recent call last):", root, "Received sigquit from a child process."},
		"coloured, and behind a name":  {"\x1b[0;36m(EngineCore pid=7)\x1b[0;0m ERROR 11-23 13:41:40 [core.py:1510] " + root, after},
		"no cascade: the last of them": {over, root},
	} {
		if f, fatal := cause(lines...); f.String() != root || fatal != (len(lines) > 2 || lines[1] == after) {
			t.Errorf("%s: %q, %t", name, f, fatal)
		}
	}
}

// TestRecordedAccess: lines of requests are known, and no others.
func TestRecordedAccess(t *testing.T) {
	for name, want := range map[string]int{"vllm-start.txt": 57, "sglang-start.txt": 3, "vllm-enginecore-killed.txt": 19} {
		lines := recorded(t, name)
		left := slices.DeleteFunc(slices.Clone(lines), AccessLine)
		if got := len(lines) - len(left); got != want {
			t.Errorf("%s: %d lines of requests, want %d", name, got, want)
		}
		for _, line := range left {
			if strings.Contains(line, "HTTP/1.1") || strings.Contains(line, "Route: ") {
				t.Errorf("%s: left is %q", name, line)
			}
		}
	}
}

func TestProgressOf(t *testing.T) {
	for line, want := range map[string]Progress{
		"Loading safetensors checkpoint shards:  56% Completed | 91/163 [02:11<01:44]":                       {"loading weights", 91, 163},
		"Multi-thread loading shards:  25% Completed | 1/4 [00:10<00:30]":                                    {"loading weights", 1, 4},
		"INFO 02-12 10:00:00 model_runner.py:1110] Starting to load model deepseek-ai/DeepSeek-R1...":        {Phase: "loading weights"},
		"[2025-02-12 10:00:00 TP3] Load weight begin. avail mem=138.91 GB":                                   {Phase: "loading weights"},
		"Loading weights concurrently:  50%|█████     | 60/120":                                              {"loading weights", 60, 120},
		"Fetching 163 files:   3%|▎         | 5/163 [00:11<05:44,  2.18s/it]":                                {"downloading the model", 5, 163},
		"INFO 02-12 10:00:00 backends.py:459] torch.compile takes 41.2 s in total":                           {Phase: "compiling"},
		"DeepGEMM warmup:  10%|█         | 100/1000":                                                         {"compiling", 100, 1000},
		"Capturing CUDA graph shapes:  60%|██████    | 21/35":                                                {"capturing graphs", 21, 35},
		"Capturing batches (bs=128 avail_mem=11.98 GB):   4%|▍         | 1/23":                               {"capturing graphs", 1, 23},
		"[2025-02-12 10:00:00 TP0] Capture cuda graph begin. This can take up to several minutes.":           {Phase: "capturing graphs"},
		"[2025-02-12 10:00:00 TP0] Capture draft decode CUDA graph begin.":                                   {Phase: "capturing graphs"},
		"INFO:     Waiting for application startup.":                                                         {Phase: "starting the server"},
		"INFO 02-12 10:00:00 worker.py:266] the current vLLM instance can use total_gpu_memory (139.72GiB)":  {},
		"\x1b[1;36m(Worker pid=9)\x1b[0;0m INFO 11-23 12:50:02 [x.py:501] Loading weights took 0.32 seconds": {Phase: "warming up"},
		"WARNING 11-23 12:50:31 [vllm.py:1703] Enforce eager set, disabling torch.compile, CUDAGraphs, and":  {},
	} {
		if got, _ := ProgressOf(line); got != want {
			t.Errorf("ProgressOf(%q) = %+v, want %+v", line, got, want)
		}
	}
}

// TestRecordedPhases: a start tells its phases, each once and in their order.
func TestRecordedPhases(t *testing.T) {
	for name, want := range map[string][]string{
		"vllm-start":                   {"starting the engine", "loading weights", "warming up", "starting the server"},
		"vllm-fail-ucx-interface-gone": {"starting the engine", "loading weights", "warming up"},
		"sglang-start":                 {"starting the engine", "loading weights", "warming up", "starting the server"},
		"sglang-fail-parse-int":        nil,
		"vllm-fail-bad-int":            nil,
	} {
		var got []string
		for _, line := range recorded(t, name+".txt") {
			if p, ok := ProgressOf(line); ok {
				got = append(got, p.Phase)
			}
		}
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
