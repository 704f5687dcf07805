package engines

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"hclbench/engines/setting"
)

// Counter is a counter that an engine exports in Prometheus' form.
type Counter struct {
	Name  string
	Label string // `source="local_compute"`: of those with this label alone; empty: of all
}

// Proof says which counters tell what a member of a group has done: that prompts were read
// by prefill and answers written by decode shows in nothing else, since an engine that falls
// back to doing both answers as if it had not. Of each list the sum counts; nil: the member
// does not count that.
type Proof struct {
	Read      []Counter // tokens of prompts that it has read itself
	Fetched   []Counter // tokens of prompts that others have read for it
	Handed    []Counter // requests whose KV cache it has handed over, where the tokens that others fetch are not counted
	Generated []Counter // tokens
	Failures  []Counter // none may grow while a cell is measured
	ShowsZero bool      // it shows a counter that has not counted yet: one that is not there is none of its version's
}

// vllmProof are the names of vllm/v1/metrics/loggers.py and of its connectors. Of MoRI and
// Mooncake newer versions count failures, of P2pNccl none does.
var vllmProof = Proof{
	Read:      []Counter{{"vllm:prompt_tokens_by_source_total", `source="local_compute"`}},
	Fetched:   []Counter{{"vllm:prompt_tokens_by_source_total", `source="external_kv_transfer"`}},
	Generated: []Counter{{Name: "vllm:generation_tokens_total"}},
	Failures: []Counter{{Name: "vllm:nixl_num_failed_transfers_total"}, {Name: "vllm:nixl_num_failed_notifications_total"},
		{Name: "vllm:nixl_num_kv_expired_reqs_total"}, {Name: "vllm:moriio_num_failed_transfers_total"},
		{Name: "vllm:moriio_num_failed_notifications_total"}, {Name: "vllm:moriio_num_kv_expired_reqs_total"},
		{Name: "vllm:mooncake_num_failed_transfers_total"}, {Name: "vllm:mooncake_num_failed_recvs_total"},
		{Name: "vllm:mooncake_num_kv_expired_reqs_total"}},
	ShowsZero: true,
}

// sglangProof are the names of srt/metrics/collector.py.
var sglangProof = Proof{
	Read:      []Counter{{Name: "sglang:prompt_tokens_total"}},
	Handed:    []Counter{{Name: "sglang:kv_transfer_total_mb_count"}}, // a histogram of prefill's
	Generated: []Counter{{Name: "sglang:generation_tokens_total"}},
	Failures: []Counter{{Name: "sglang:num_transfer_failed_reqs_total"}, {Name: "sglang:num_bootstrap_failed_reqs_total"},
		{Name: "sglang:num_prefill_retries_total"}},
}

// routerProof are the names of the routers' src/metrics.rs. They appear when they count.
var routerProof = Proof{
	Failures: []Counter{{Name: "smg_worker_retries_total"}, {Name: "vllm_router_retries_total"}},
}

// ProofOf returns what a member counts; nil: nothing that proves anything.
func ProofOf(m Member) *Proof {
	e := m.Engine
	if e.Router {
		if !slices.ContainsFunc(m.Ports, func(p NamedPort) bool { return p.Name == metricsName }) {
			return nil
		}
		return &routerProof
	}
	if Uncounted(e) != "" {
		return nil
	}
	if e.speaksAs() == VLLM {
		return &vllmProof
	}
	return &sglangProof
}

// Uncounted is why an engine tells nothing of what it has done, and what to do about it;
// empty: it does.
func Uncounted(e *Engine) string {
	silent := e.isOn(setting.NoCounters)
	switch as := e.speaksAs(); {
	case as == VLLM && silent:
		return "with --disable-log-stats it exports no counters"
	case as == SGLang && e.Kind != Sim && Exports(e) == nil:
		return "it exports counters only with flags = { enable-metrics = true }"
	case as != VLLM && as != SGLang:
		return fmt.Sprintf("hcl knows no counters of an engine of kind %q", as)
	}
	return ""
}

// CountsAt is where a member tells its counters, seen from its host, without a path.
func CountsAt(m Member) string {
	i := slices.IndexFunc(m.Ports, func(p NamedPort) bool { return p.Name == metricsName })
	if i < 0 {
		return BaseURL(m.Engine)
	}
	at, _ := m.Engine.says(setting.CountersHost)
	if open(at) {
		at = loopbackOf(at)
	}
	return "http://" + net.JoinHostPort(at, strconv.Itoa(m.Ports[i].Number))
}

// Registered is where a prefill server of SGLang answers 200 once all its ranks are known to
// those that fetch from it (srt/disaggregation/common/conn.py); the path is empty for others.
func Registered(m Member) (path string, port int) {
	if m.Role != Prefill || m.Engine.speaksAs() != SGLang {
		return "", 0
	}
	i := slices.IndexFunc(m.Ports, func(p NamedPort) bool { return p.Name == "bootstrap" })
	if i < 0 {
		return "", 0
	}
	const all = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
	return all, m.Ports[i].Number
}

// BlockSize is how many tokens a block of the engine's KV cache has, as its flags say; a prompt
// is handed over in whole blocks, and decode reads what is left.
func BlockSize(e *Engine) int {
	return e.whole(16, setting.BlockSize)
}
