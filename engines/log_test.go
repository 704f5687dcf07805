package engines

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hclbench/testhost/recording"
)

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

// logs are recorded logs, by what a test says of each.
func logs[T any](t *testing.T, says map[string]T, patterns ...string) iter.Seq2[string, T] {
	t.Helper()
	names := recording.Names(t, patterns...)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(says)), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("what is recorded, and what is said of it (-recorded +said):\n%s", diff)
	}
	return func(yield func(string, T) bool) {
		for _, name := range names {
			if of, said := says[name]; said && !yield(name, of) {
				return
			}
		}
	}
}

// TestRecordedCauses: every start that failed, and every engine that died under load, is given its cause.
func TestRecordedCauses(t *testing.T) {
	for name, want := range logs(t, map[string]string{
		"by-hand/vllm-0.32.0/log-worker-killed.txt":                 "one of its processes has ended: Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting d…",
		"vllm-0.32.0/log-fail-bad-int.txt":                          "the engine does not take the value of an argument: vllm serve: error: argument --max-num-seqs: invalid i…",
		"vllm-0.32.0/log-fail-dtype-invalid.txt":                    "the engine does not take the value of an argument: vllm serve: error: argument --dtype: invalid choice: …",
		"vllm-0.32.0/log-fail-kv-cache-too-small.txt":               "no room for the KV cache: ValueError: To serve at least one request with the model's max seq len (4096),…",
		"vllm-0.32.0/log-fail-max-model-len-too-large.txt":          "max-model-len is beyond the model's own context: Value error, User-specified max_model_len (100000) is g…",
		"vllm-0.32.0/log-fail-port-taken.txt":                       "the port is taken: OSError: [Errno 98] Address already in use",
		"vllm-0.32.0/log-fail-unknown-flag.txt":                     "the engine does not know an argument: vllm: error: unrecognized arguments: --no-such-flag",
		"sglang-0.5.23/log-fail-low-mem.txt":                        "no room for the KV cache: ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fra…",
		"sglang-0.5.23/log-fail-parse-ambiguous.txt":                "the engine does not know an argument: sglang serve: error: ambiguous option: --pp could match --pp-size,…",
		"sglang-0.5.23/log-fail-parse-int.txt":                      "the engine does not take the value of an argument: sglang serve: error: argument --tp-size/--tensor-para…",
		"sglang-0.5.23/log-fail-parse-unknown.txt":                  "the engine does not know an argument: sglang serve: error: unrecognized arguments: --no-such-flag",
		"by-hand/sglang-0.5.23/log-crash.txt":                       "IndexError: index out of range in self",
		"by-hand/sglang-0.5.23/log-fail-bad-model.txt":              "the model is not there, and cannot be fetched: huggingface_hub.errors.HFValidationError: Repo id must be…",
		"by-hand/sglang-0.5.23/log-fail-bad-model-hub.txt":          "the model is not there, and cannot be fetched: huggingface_hub.errors.LocalEntryNotFoundError: Cannot fin…",
		"by-hand/sglang-0.5.23/log-fail-dp-attn.txt":                "AssertionError: assert cfg.tp_size % cfg.attn_dp_size == 0",
		"by-hand/sglang-0.5.23/log-fail-parse-choice.txt":           "the engine does not take the value of an argument: sglang serve: error: argument --attention-backend: in…",
		"by-hand/sglang-0.5.23/log-fail-parse-noarg.txt":            "the engine does not take the value of an argument: sglang serve: error: argument --tp-size/--tensor-para…",
		"by-hand/sglang-0.5.23/log-fail-port-taken.txt":             "the port is taken: ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 18300): …",
		"by-hand/uv-0.13.9/log-fail-no-such-version.txt":            "Error: vLLM 9.9.9 cannot be made of PyPI's packages: say another version (https://pypi.org/project/vllm…",
		"by-hand/vllm-0.32.0/log-enginecore-killed.txt":             "the engine's core failed: vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. Se…",
		"by-hand/vllm-0.32.0/log-fail-batched-tokens-too-small.txt": "the engine refuses its settings: Value error, max_num_batched_tokens (16) must be greater than or equal …",
		"by-hand/vllm-0.32.0/log-fail-model-path-missing.txt":       "the model is not there, and cannot be fetched: huggingface_hub.errors.HFValidationError: Repo id must be…",
		"by-hand/vllm-0.32.0/log-fail-model-without-tokenizer.txt":  "the model has no tokenizer: ValueError: Couldn't instantiate the backend tokenizer from one of:",
		"by-hand/vllm-0.32.0/log-fail-ucx-interface-gone.txt":       "NIXL cannot open the network: [host:18185:0]      ucp_worker.c:1498 UCX  ERROR uct_iface_open(tcp/hclt4b…",
		"by-hand/vllm-router-0.1.17/log-fail-no-workers.txt":        `RuntimeError: Timeout 60s waiting for hosts ["http://127.0.0.1:18292", "http://127.0.0.1:18291"] to beco…`,
	}, "*/log-fail-*", "by-hand/*/log-fail-*", "by-hand/*/log-crash.txt", "by-hand/*/log-*-killed.txt") {
		f, fatal := cause(recording.Lines(t, name)...)
		begins, cut := strings.CutSuffix(want, "…")
		if got := f.String(); got != want && !(cut && strings.HasPrefix(got, begins)) {
			t.Errorf("%s: the cause is\n%s, want\n%s", name, got, want)
		}
		if known := f.Means != "" || strings.HasSuffix(name, "log-crash.txt"); fatal != known {
			t.Errorf("%s: that it will never serve is said: %t, want %t", name, fatal, known)
		}
	}
	for _, name := range recording.Names(t, "*/log.txt") { // good ones
		if f, fatal := cause(recording.Lines(t, name)...); fatal || f != (Fatal{}) {
			t.Errorf("%s: the cause is %+v", name, f)
		}
	}
}

// TestReported: lines that need GPUs, as people have reported them.
func TestReported(t *testing.T) {
	for line := range strings.Lines(recording.Text(t, "by-hand/reported.tsv")) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		says, means, line := row[0], row[1], row[3]
		switch says {
		case "cause":
			f, fatal := cause(line)
			if !fatal || !strings.Contains(f.Means, means) || f.Follows != (means == "core failed") {
				t.Errorf("of %q the cause is %+v, %t, want %q", line, f, fatal, means)
			}
		case "phase":
			p, ok := ProgressOf(line)
			got := p.Phase
			if p.Of > 0 {
				got = fmt.Sprintf("%s %d of %d", p.Phase, p.N, p.Of)
			}
			if !ok || got != means {
				t.Errorf("by %q it is %q, want %q", line, got, means)
			}
		}
	}
}

// TestRanks: the rank whose process says why the engine fails, in the names that recordings and reports have for it.
func TestRanks(t *testing.T) {
	const why = "torch.OutOfMemoryError: CUDA out of memory."
	for line, want := range map[string]string{
		"[2026-05-07 13:39:13 DP3 TP2 EP3] " + why: "2",
		"(VllmWorker rank=1 pid=1763878) " + why:   "1",
		"(Worker_TP12 pid=34322) " + why:           "12",
		"[rank0]: " + why:                          "0",
		"[TRT-LLM] [RANK 7] [E] " + why:            "7",
		why + " GPU 0 has a total capacity":        "",
	} {
		if f, fatal := cause(line); !fatal || f.Rank != want {
			t.Errorf("of %q the cause is %+v, %t, want rank %q", line, f, fatal, want)
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
		"a request that was refused":   {root, "(APIServer pid=11) ERROR 11-24 08:09:44 [validation.py:151] fastapi.exceptions.RequestValidationError: 1 validation error:", after},
	} {
		if f, fatal := cause(lines...); f.String() != root || fatal != (len(lines) > 2 || lines[1] == after) {
			t.Errorf("%s: %q, %t", name, f, fatal)
		}
	}
}

// TestKilledSubprocess: what SGLang 0.5.23 says when its detokenizer is killed names that, and an exception before it is the cause.
func TestKilledSubprocess(t *testing.T) {
	lines := []string{
		"[2026-11-24 10:45:31] Subprocess detokenizer (pid=395) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
		"[2026-11-24 10:45:31] Received sigquit from a child process. It usually means the child failed.",
		"[2026-11-24 10:45:31] kill_process_tree called: parent_pid=385, include_parent=True, pid=385",
	}
	const want = "one of its processes has ended: Subprocess detokenizer (pid=395) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
	if f, fatal := cause(lines...); f.String() != want || !fatal {
		t.Errorf("%q, %t", f, fatal)
	}
	const root = "KeyError: 'layers.7'"
	if f, fatal := cause(append([]string{"Scheduler hit an exception: Traceback (most recent call last):", root}, lines...)...); f.String() != root || !fatal {
		t.Errorf("%q, %t", f, fatal)
	}
}

// TestRecordedAccess: lines of requests are known, and no others.
func TestRecordedAccess(t *testing.T) {
	for _, name := range recording.Names(t, "*/log.txt", "by-hand/*/log-crash.txt", "by-hand/*/log-*-killed.txt") {
		found := 0
		for _, line := range recording.Lines(t, name) {
			of := strings.Contains(line, `HTTP/1.1" `) || strings.Contains(line, "Route: /") || strings.Contains(line, "Available routes are:") ||
				strings.Contains(line, "processing request") || strings.Contains(line, "request failed with")
			if got := AccessLine(line); got != of {
				t.Errorf("%s: that it is of a request: %t, %q", name, got, line)
			} else if of {
				found++
			}
		}
		if router := strings.HasPrefix(name, "vllm-router"); (found == 0) != router { // which tells nothing of them
			t.Errorf("%s: %d requests", name, found)
		}
	}
}

// TestRecordedPhases: a start tells its phases, each once and in their order.
func TestRecordedPhases(t *testing.T) {
	good := []string{"starting the engine", "loading weights", "warming up", "starting the server"}
	for name, want := range logs(t, map[string][]string{
		"vllm-0.32.0/log.txt":                                 good,
		"sglang-0.5.23/log.txt":                               good,
		"vllm-router-0.1.17/log.txt":                          nil,
		"sglang-router-0.3.2/log.txt":                         nil,
		"by-hand/vllm-0.32.0/log-tp2-rank0.txt":               good,
		"by-hand/vllm-0.32.0/log-fail-ucx-interface-gone.txt": good[:3],
		"sglang-0.5.23/log-fail-parse-int.txt":                nil,
		"vllm-0.32.0/log-fail-bad-int.txt":                    nil,
	}, "*/log.txt", "by-hand/*/log-tp2-rank0.txt", "by-hand/*/log-fail-ucx-*", "*/log-fail-*-int.txt") {
		var got []string
		for _, line := range recording.Lines(t, name) {
			if p, ok := ProgressOf(line); ok {
				got = append(got, p.Phase)
			}
		}
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
