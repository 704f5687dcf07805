package engines

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"hclbench/engines/setting"
)

// The kinds of routers: router "sglang" and so on. One of kind [OpenAI] has a command of
// the lab's, which finds HCL_PREFILL_URLS, HCL_DECODE_URLS and HCL_SERVE_URLS in its
// environment.
const (
	SGLangRouter = "sglang_router"
	VLLMRouter   = "vllm_router"
	TRTLLMRouter = "trtllm_router"
)

// RouterKinds are the kinds by the names that labs have for them.
func RouterKinds() map[string]string {
	return map[string]string{SGLang: SGLangRouter, VLLM: VLLMRouter, TRTLLM: TRTLLMRouter, OpenAI: OpenAI, Sim: Sim}
}

// title is an engine in a message.
func (e *Engine) title() string {
	for name, kind := range RouterKinds() {
		if e.Router && kind == e.Kind {
			return fmt.Sprintf("A router of kind %q", name)
		}
	}
	return fmt.Sprintf("An engine of kind %q", e.Kind)
}

// How routers are started.
var (
	sglangRouterProgram = []string{"python3", "-m", "sglang_router.launch_router"}
	vllmRouterProgram   = "vllm-router"
)

// The routers' rows of kinds. They answer as the servers behind them do.
var (
	sglangRouter = kind{
		program: func(e *Engine) []string {
			return append(slices.Clone(sglangRouterProgram), e.Words...)
		},
		port:    30000,
		image:   "lmsysorg/sgl-model-gateway:v0.3.2",
		modelID: servedName,
		health:  "/readiness",
		workers: "/workers",
		routes:  sglangRoutes,
	}
	vllmRouter = kind{
		program: func(e *Engine) []string { return append([]string{vllmRouterProgram}, e.Words...) },
		port:    30000,
		image:   "vllm/vllm-router:nightly",
		modelID: servedName,
		health:  "/health",
		workers: "/workers",
		routes:  vllmRoutes,
	}
	trtllmRouter = kind{
		program:    func(*Engine) []string { return []string{"trtllm-serve", "disaggregated"} },
		port:       8000,
		click:      true,
		configFlag: "config_file",
		inConfig:   true,
		image:      "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
		modelID:    servedName,
		health:     "/health",
		routes:     trtllmRoutes,
	}
)

// sglangRoutes tells SGLang's router of its workers (sgl-router/src/main.rs). What hides
// a failure from a measurement is off unless the lab says something of it.
func sglangRoutes(e *Engine, r routing) {
	e.Words = r.words("--pd-disaggregation", true)
	turnOffHiding(e)
	tellCounts(e, r.ports)
}

// vllmRoutes tells vLLM's router, which was made of SGLang's, of its workers. With MoRI and
// P2pNccl they tell it of themselves, and it takes no others: where it listens for them it
// drops what --prefill and --decode say (src/routers/http/vllm_pd_router.rs).
func vllmRoutes(e *Engine, r routing) {
	const split = "--vllm-pd-disaggregation"
	if e.Kind == VLLMRouter && tellThemselves(r.transfer) {
		e.Words = []string{split}
		e.say("vllm-discovery-address", net.JoinHostPort(everywhere(e.Host()), r.ports.use("discovery", discoveryPort)))
	} else {
		e.Words = r.words(split, r.transfer == mooncake)
	}
	if r.transfer != "" && r.transfer != "p2p_nccl" { // which it has no name for
		e.say("kv-connector", cmp.Or(map[string]string{"mori": "moriio"}[r.transfer], r.transfer))
	}
	turnOffHiding(e)
	tellCounts(e, r.ports)
}

// tellThemselves reports whether vLLM's workers tell its router of themselves.
func tellThemselves(transfer string) bool { return transfer == "mori" || transfer == "p2p_nccl" }

const metricsName = "metrics" // of a router's port for its counters

// tellCounts has a router tell its counters, to its own host alone: SGLang's would to all.
func tellCounts(e *Engine, p *ports) {
	e.say("prometheus-host", loopback) // which the lab may say
	e.say("prometheus-port", p.use(metricsName, metricsPort))
	told := &p.used[len(p.used)-1]
	at, _ := e.says(setting.CountersHost)
	told.Open = told.Open && open(at)
	told.Number = e.wholeNumber(told.Number, setting.CountersPort)
}

// routing is what a router is told of those that it gives requests to.
type routing struct {
	as       string // the kind of the workers; of simulated ones, as which they speak
	byRole   map[string][]worker
	transfer string
	ports    *ports // the router's own
}

// worker is a server that takes requests from a router.
type worker struct {
	url   string
	ports []NamedPort
}

// urls are where the servers of a role are.
func (r routing) urls(role string) []string {
	var urls []string
	for _, w := range r.byRole[role] {
		urls = append(urls, w.url)
	}
	return urls
}

// words are a router's arguments for prefill, each with its bootstrap port where the
// transfer has one, and decode, or for servers that do both.
func (r routing) words(split string, bootstraps bool) []string {
	if urls := r.urls(Serve); len(urls) > 0 {
		return append([]string{"--worker-urls"}, urls...)
	}
	words := []string{split}
	for _, w := range r.byRole[Prefill] {
		words = append(words, "--"+Prefill, w.url)
		if bootstraps {
			words = append(words, w.port("bootstrap"))
		}
	}
	for _, url := range r.urls(Decode) {
		words = append(words, "--"+Decode, url)
	}
	return words
}

// strict turns off what answers in place of a worker that failed, each unless the lab says
// how it is to be done.
func turnOffHiding(e *Engine) {
	for off, prefix := range map[string]string{"disable-retries": "retry-", "disable-circuit-breaker": "cb-"} {
		said := func(f Flag) bool { return strings.HasPrefix(f.Name, prefix) }
		if !slices.ContainsFunc(e.Flags, said) {
			e.say(off)
		}
	}
}

// trtllmRoutes writes the file of trtllm-serve disaggregated.
func trtllmRoutes(e *Engine, r routing) {
	servers := func(role string) map[string]any {
		var at []string
		for _, url := range r.urls(role) {
			at = append(at, strings.TrimPrefix(url, "http://"))
		}
		return map[string]any{"num_instances": len(at), "urls": at}
	}
	e.Config = filled(e.Config, map[string]any{
		"hostname": listens(e), "port": e.port(), "backend": "pytorch", "max_retries": 0,
		"context_servers": servers(Prefill), "generation_servers": servers(Decode),
	})
	// Its own are 180 s, in which no large model is up and no long answer done.
	e.say("request_timeout", strconv.Itoa(hours))
	e.say("server_start_timeout", strconv.Itoa(hours))
}

// hours is, in seconds, what no request and no start takes.
const hours = 14400

// port is a port of the worker's as text.
func (w worker) port(name string) string {
	i := slices.IndexFunc(w.ports, func(p NamedPort) bool { return p.Name == name })
	return strconv.Itoa(w.ports[i].Number)
}

// Workers is the path at which a router says which servers it gives requests to, and
// whether each is well; empty: it does not.
func Workers(e *Engine) string {
	if e.discovers() {
		return ""
	}
	return kinds[e.Kind].workers
}

// discovers reports whether a router's workers tell it of themselves. Those it lists nowhere,
// and neither their models.
func (e *Engine) discovers() bool {
	_, listens := e.says(setting.Discovery)
	return e.Kind == VLLMRouter && listens
}
