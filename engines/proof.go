package engines

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"hclbench/engines/setting"
)

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

// countsAt is where a member tells its counters, seen from its host, without a path.
func countsAt(m Member) string {
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
	return e.wholeNumber(16, setting.BlockSize)
}
