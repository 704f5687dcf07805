package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Routes are the servers that a simulated router gives requests to, in turn. Those of Serve
// answer alone; of the others each request goes to one of Prefill and one of Decode.
type Routes struct {
	Serve, Prefill, Decode []Worker
	// CountDead has the router say that every worker is well, as routers do between two
	// of their health checks; BreakAfter has it open its circuit breaker after so many requests.
	CountDead  bool
	BreakAfter int
	// MindCache has it give a request not to the next of Serve, but to the first of those with the fewest in
	// flight, as SGLang's router does of its own (0.3.2) with prompts that it has not seen.
	MindCache bool
}

// Worker is a server behind a router.
type Worker struct {
	URL       string
	Bootstrap int // port where decode finds the prefill server; 0: the request says
}

// routerCommand reads the command line of SGLang's router, vLLM's or TensorRT-LLM's; ok is
// false for another.
func routerCommand(args []string) (as string, rest []string, ok bool) {
	switch {
	case isPython(args) && starts(args[1:], "-m", "sglang_router.launch_router"):
		return SGLang, args[3:], true
	case starts(args, "smg", "launch"):
		return SGLang, args[2:], true
	case starts(args, "vllm-router"):
		return VLLM, args[1:], true
	case starts(args, "trtllm-serve", "disaggregated"):
		return TRTLLM, args[2:], true
	}
	return "", nil, false
}

// routes takes the workers out of a router's command line, and returns what is left of it.
func routes(as string, args []string) (r *Routes, rest []string, err error) {
	r = &Routes{}
	if as == TRTLLM {
		return r, args, nil // they are in its file, see readRoutes
	}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		n := slices.IndexFunc(args, func(w string) bool { return strings.HasPrefix(w, "--") })
		if n < 0 {
			n = len(args)
		}
		values := args[:n]
		switch word {
		case "--worker-urls":
			for _, url := range values {
				r.Serve = append(r.Serve, Worker{URL: url})
			}
		case "--prefill", "--decode":
			if len(values) == 0 {
				return nil, nil, fmt.Errorf("%s needs a url", word)
			}
			w := Worker{URL: values[0]}
			if len(values) > 1 && values[1] != "none" {
				if w.Bootstrap, err = strconv.Atoi(values[1]); err != nil {
					return nil, nil, fmt.Errorf("%s %s: %q is not a port", word, w.URL, values[1])
				}
			}
			if word == "--prefill" {
				r.Prefill = append(r.Prefill, w)
			} else {
				r.Decode = append(r.Decode, w)
			}
		default:
			rest = append(rest, word)
			continue
		}
		args = args[n:]
	}
	return r, rest, nil
}

// readRoutes reads the file of trtllm-serve disaggregated, in JSON, and where it listens.
func readRoutes(name string) (r *Routes, host, port string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, "", "", err
	}
	type servers struct{ URLs []string }
	var in struct {
		Host       string  `json:"hostname"`
		Port       int     `json:"port"`
		Context    servers `json:"context_servers"`
		Generation servers `json:"generation_servers"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, "", "", fmt.Errorf("%s: %w", name, err)
	}
	r = &Routes{}
	for _, at := range in.Context.URLs {
		r.Prefill = append(r.Prefill, Worker{URL: "http://" + at})
	}
	for _, at := range in.Generation.URLs {
		r.Decode = append(r.Decode, Worker{URL: "http://" + at})
	}
	return r, in.Host, strconv.Itoa(in.Port), nil
}

// router is a simulated router: an [http.Handler].
type router struct {
	as       string
	to       Routes
	client   *http.Client
	mux      *http.ServeMux
	slots    chan struct{} // of the requests that are with workers; others wait
	requests atomic.Int64

	mu   sync.Mutex
	busy []int // requests in flight of each of Serve
}

func newRouter(as string, to Routes) *router {
	r := &router{as: as, to: to, busy: make([]int, len(to.Serve)), mux: http.NewServeMux(), slots: make(chan struct{}, openFiles()/5),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}}
	for path := range plans {
		r.mux.HandleFunc("POST "+path, r.generate)
	}
	r.mux.HandleFunc("GET /liveness", r.well)
	r.mux.HandleFunc("GET /health", r.health)
	r.mux.HandleFunc("GET /readiness", r.readiness)
	r.mux.HandleFunc("GET /workers", r.workers)
	r.mux.HandleFunc("GET /metrics", r.metrics)
	r.mux.HandleFunc("GET /v1/models", r.pass)
	r.mux.HandleFunc("GET /version", r.pass)
	return r
}

// openFiles is how many files this process may open. A request that a router has taken is one; with
// its workers it is two more.
func openFiles() uint64 {
	limit := unix.Rlimit{Cur: 1 << 10}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // nobody is refused his own
	return min(limit.Cur, 1<<20)
}

func (r *router) well(http.ResponseWriter, *http.Request) {}

// health is of SGLang's router that it lives, and of the others that they can work.
func (r *router) health(w http.ResponseWriter, q *http.Request) {
	if r.as != SGLang {
		r.readiness(w, q)
	}
}

func (r *router) readiness(w http.ResponseWriter, q *http.Request) {
	alive := func(list []Worker) bool {
		return slices.ContainsFunc(list, func(to Worker) bool { return r.alive(q.Context(), to) })
	}
	if alive(r.to.Serve) || alive(r.to.Prefill) && alive(r.to.Decode) {
		return
	}
	refuse(w, VLLM, http.StatusServiceUnavailable, "ServiceUnavailableError", "no healthy workers")
}

func (r *router) alive(ctx context.Context, to Worker) bool {
	if r.to.CountDead {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, to.URL+"/health", nil)
	if err != nil {
		return false
	}
	res, err := r.client.Do(ask)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// workers lists the servers and how many of each role are well.
func (r *router) workers(w http.ResponseWriter, q *http.Request) {
	type worker struct {
		URL     string `json:"url"`
		Type    string `json:"worker_type"`
		Healthy bool   `json:"is_healthy"`
	}
	list, counts := []worker{}, map[string]int{}
	for role, of := range map[string][]Worker{"regular": r.to.Serve, Prefill: r.to.Prefill, Decode: r.to.Decode} {
		counts[role+"_count"] = 0
		for _, to := range of {
			well := r.alive(q.Context(), to)
			if well {
				counts[role+"_count"]++
			}
			list = append(list, worker{to.URL, role, well})
		}
	}
	answer(w, map[string]any{"workers": list, "total": len(list), "stats": counts})
}

func (r *router) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprintln(w, map[string]string{SGLang: "smg_worker_retries_total 0", VLLM: "vllm_router_retries_total 0"}[r.as])
}

// generate gives a request to workers.
func (r *router) generate(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	if err != nil {
		refuse(w, VLLM, http.StatusBadRequest, "BadRequestError", "request body: "+err.Error())
		return
	}
	if r.as == SGLang && q.URL.Path == "/v1/completions" && !isText(body) {
		http.Error(w, "Failed to deserialize the JSON body into the target type: prompt: data did not match any variant of "+
			"untagged enum StringOrArray", http.StatusUnprocessableEntity)
		return
	}
	n := int(r.requests.Add(1))
	if after := r.to.BreakAfter; after > 0 && n > after {
		refuse(w, VLLM, http.StatusServiceUnavailable, "server_selection_failed",
			"No available prefill workers (all circuits open or unhealthy)")
		return
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-q.Context().Done():
		return
	}
	if len(r.to.Serve) > 0 {
		i := n % len(r.to.Serve)
		r.mu.Lock()
		if r.to.MindCache {
			i = slices.Index(r.busy, slices.Min(r.busy))
		}
		r.busy[i]++
		r.mu.Unlock()
		r.forward(w, q, r.to.Serve[i], body)
		r.mu.Lock()
		r.busy[i]--
		r.mu.Unlock()
		return
	}
	if len(r.to.Prefill) == 0 || len(r.to.Decode) == 0 {
		refuse(w, VLLM, http.StatusServiceUnavailable, "server_selection_failed", "No available prefill workers")
		return
	}
	prefill, decode := r.to.Prefill[n%len(r.to.Prefill)], r.to.Decode[n%len(r.to.Decode)]
	if r.as == SGLang {
		r.both(w, q, prefill, decode, body)
		return
	}
	r.oneAfterTheOther(w, q, prefill, decode, body)
}

// isText reports whether the prompt of a request is a text or a list of texts: SGLang's router (0.3.2) reads no others.
func isText(body []byte) bool {
	var one struct {
		Prompt string `json:"prompt"`
	}
	var several struct {
		Prompt []string `json:"prompt"`
	}
	return json.Unmarshal(body, &one) == nil || json.Unmarshal(body, &several) == nil
}

// both sends the same request to prefill and decode, as SGLang's router does.
func (r *router) both(w http.ResponseWriter, q *http.Request, prefill, decode Worker, body []byte) {
	at, err := hostOf(prefill.URL)
	if err != nil {
		refuse(w, VLLM, http.StatusInternalServerError, "InternalServerError", err.Error())
		return
	}
	body = withMembers(body, map[string]any{
		"bootstrap_host": at, "bootstrap_port": prefill.Bootstrap, "bootstrap_room": rand.Int64(),
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := r.send(q.Context(), q.URL.Path, prefill, body); err == nil {
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}()
	defer func() { <-done }()
	r.forward(w, q, decode, body)
}

// oneAfterTheOther has the prompt prefilled first, and gives decode what prefill answered
// of it, as the routers of vLLM and TensorRT-LLM do.
func (r *router) oneAfterTheOther(w http.ResponseWriter, q *http.Request, prefill, decode Worker, body []byte) {
	first := map[string]any{"max_tokens": 1, "max_completion_tokens": 1, "stream": false}
	first["stream_options"] = nil
	if r.as == VLLM {
		first["kv_transfer_params"] = kv{DecodeElsewhere: true}
	} else {
		first["disaggregated_params"] = map[string]string{"request_type": "context_only"}
	}
	res, err := r.send(q.Context(), q.URL.Path, prefill, withMembers(body, first))
	var said struct {
		KV            json.RawMessage `json:"kv_transfer_params"`
		Disaggregated json.RawMessage `json:"disaggregated_params"`
	}
	if err == nil {
		err = json.NewDecoder(res.Body).Decode(&said)
		res.Body.Close()
	}
	if err != nil || res.StatusCode != http.StatusOK || said.KV == nil && said.Disaggregated == nil {
		refuse(w, VLLM, http.StatusInternalServerError, "InternalServerError", "prefill failed")
		return
	}
	second := map[string]any{}
	if said.KV != nil {
		second["kv_transfer_params"] = said.KV
	}
	if said.Disaggregated != nil {
		second["disaggregated_params"] = said.Disaggregated
	}
	r.forward(w, q, decode, withMembers(body, second))
}

// withMembers is a JSON object with members set.
func withMembers(body []byte, members map[string]any) []byte {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return body // the worker says what is wrong with it
	}
	for name, v := range members {
		if v == nil {
			delete(all, name)
			continue
		}
		all[name], _ = json.Marshal(v) // numbers, words and what was JSON
	}
	out, _ := json.Marshal(all)
	return out
}

func (r *router) send(ctx context.Context, path string, to Worker, body []byte) (*http.Response, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	ask.Header.Set("Content-Type", "application/json")
	return r.client.Do(ask)
}

// forward passes a request on to one worker, and its answer back as it comes.
func (r *router) forward(w http.ResponseWriter, q *http.Request, to Worker, body []byte) {
	res, err := r.send(q.Context(), q.URL.Path, to, body)
	if err != nil {
		refuse(w, VLLM, http.StatusBadGateway, "upstream_error", err.Error())
		return
	}
	defer res.Body.Close()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	flusher := http.NewResponseController(w)
	for buf := make([]byte, 16<<10); ; {
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, gone := w.Write(buf[:n]); gone != nil {
				return
			}
			flusher.Flush()
		}
		if err != nil {
			return
		}
	}
}

// pass asks the worker that answers.
func (r *router) pass(w http.ResponseWriter, q *http.Request) {
	for _, to := range slices.Concat(r.to.Serve, r.to.Decode) {
		ask, err := http.NewRequestWithContext(q.Context(), http.MethodGet, to.URL+q.URL.Path, nil)
		if err != nil {
			continue
		}
		if res, err := r.client.Do(ask); err == nil {
			defer res.Body.Close()
			w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
			w.WriteHeader(res.StatusCode)
			io.Copy(w, res.Body)
			return
		}
	}
	refuse(w, VLLM, http.StatusServiceUnavailable, "ServiceUnavailableError", "no worker answers")
}

func hostOf(url string) (string, error) {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	return host, err
}
