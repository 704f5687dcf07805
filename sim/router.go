package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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

// router is a simulated router: an [http.Handler]. What SGLang's and vLLM's answer of their own is what the recordings in
// testdata/real have.
type router struct {
	as       string
	to       Routes
	client   *http.Client
	mux      *http.ServeMux
	slots    chan struct{} // of the requests that are with workers; others wait
	requests atomic.Int64

	mu     sync.Mutex
	busy   []int            // requests in flight of each of Serve
	met    map[string]bool  // workers that were well once, of SGLang's router, which knows no others
	routed map[string]int64 // requests that were given to workers, by path
	took   map[string]int64 // and by the worker that answers
}

func newRouter(as string, to Routes) *router {
	r := &router{as: as, to: to, busy: make([]int, len(to.Serve)), mux: http.NewServeMux(), slots: make(chan struct{}, openFiles()/5),
		met: map[string]bool{}, routed: map[string]int64{}, took: map[string]int64{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}}
	for path := range plans {
		r.mux.HandleFunc("POST "+path, r.generate)
	}
	r.mux.HandleFunc("GET /liveness", r.ok)
	r.mux.HandleFunc("GET /health", r.health)
	r.mux.HandleFunc("GET /readiness", r.readiness)
	r.mux.HandleFunc("GET /workers", r.workers)
	r.mux.HandleFunc("GET /metrics", r.metrics)
	r.mux.HandleFunc("GET /v1/models", r.models)
	r.mux.HandleFunc("/", r.other)
	return r
}

// openFiles is how many files this process may open. A request that a router has taken is one; with
// its workers it is two more.
func openFiles() uint64 {
	limit := unix.Rlimit{Cur: 1 << 10}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // nobody is refused his own
	return min(limit.Cur, 1<<20)
}

func (r *router) ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "OK") }

// health is of SGLang's router that it lives, and of vLLM's that all of its workers do.
func (r *router) health(w http.ResponseWriter, q *http.Request) {
	switch {
	case r.as == SGLang:
		r.ok(w, q)
	case r.as == VLLM && r.whole(q.Context()):
		io.WriteString(w, "All servers healthy")
	case r.as == VLLM:
		http.Error(w, "Unhealthy servers", http.StatusServiceUnavailable)
	default:
		r.readiness(w, q)
	}
}

// knows reports whether the router has a worker in its list.
func (r *router) knows(ctx context.Context, to Worker) bool {
	r.mu.Lock()
	met := r.met[to.URL]
	r.mu.Unlock()
	if r.as != SGLang || met {
		return true
	}
	if met = r.alive(ctx, to); met {
		r.mu.Lock()
		r.met[to.URL] = true
		r.mu.Unlock()
	}
	return met
}

// whole reports whether all workers are well.
func (r *router) whole(ctx context.Context) bool {
	return !slices.ContainsFunc(r.all(), func(to Worker) bool { return !r.alive(ctx, to) })
}

func (r *router) all() []Worker { return slices.Concat(r.to.Serve, r.to.Prefill, r.to.Decode) }

func (r *router) readiness(w http.ResponseWriter, q *http.Request) {
	well := func(list []Worker) (n int) {
		for _, to := range list {
			if r.alive(q.Context(), to) {
				n++
			}
		}
		return n
	}
	serve, prefill, decode := well(r.to.Serve), well(r.to.Prefill), well(r.to.Decode)
	if serve > 0 || prefill > 0 && decode > 0 {
		answer(w, map[string]any{"status": "ready", "healthy_workers": serve + prefill + decode, "total_workers": len(r.all())})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, `{"status":"not ready","reason":"insufficient healthy workers"}`)
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
	list, counts := []map[string]any{}, map[string]int{}
	for role, of := range map[string][]Worker{"regular": r.to.Serve, Prefill: r.to.Prefill, Decode: r.to.Decode} {
		counts[role+"_count"] = 0
		for _, to := range of {
			if !r.knows(q.Context(), to) {
				continue
			}
			well := r.alive(q.Context(), to)
			if well {
				counts[role+"_count"]++
			}
			one := map[string]any{"url": to.URL, "model_id": "unknown", "worker_type": role, "is_healthy": well, "load": 0, "connection_mode": "Http",
				"priority": 50, "cost": 1.0}
			if r.as == SGLang {
				one["id"], one["connection_mode"], one["disable_health_check"] = to.URL, "HTTP", false
			}
			list = append(list, one)
		}
	}
	answer(w, map[string]any{"workers": list, "total": len(list), "stats": counts})
}

// models are the workers'. SGLang's router knows no names of others than SGLang.
func (r *router) models(w http.ResponseWriter, q *http.Request) {
	if r.as != SGLang {
		r.pass(w, q)
		return
	}
	res := r.first(q)
	if res == nil {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "No models available")
		return
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(res.Body)
	if !bytes.Contains(said, []byte(`"owned_by":"sglang"`)) {
		said = []byte(`{"object":"list","data":[{"id":"unknown","object":"model","owned_by":"local"}]}`)
	}
	answer(w, json.RawMessage(said))
}

// metrics are some of those that the router has: of its retries there are none, and what has not happened it does not show.
func (r *router) metrics(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	health := map[string]int64{}
	for _, to := range r.all() {
		if r.alive(q.Context(), to) {
			health[to.URL] = 1
		} else {
			health[to.URL] = 0
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	each := func(name, kind, label string, counts map[string]int64) {
		if len(counts) > 0 {
			fmt.Fprintf(w, "# TYPE %s %s\n", name, kind)
		}
		for _, of := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(w, "%s{%s=%q} %d\n", name, label, of, counts[of])
		}
	}
	switch r.as {
	case SGLang:
		each("smg_http_requests_total", "counter", `method="POST",path`, r.routed)
		each("smg_worker_health", "gauge", "worker", health)
	case VLLM:
		each("vllm_router_requests_total", "counter", "route", r.routed)
		each("vllm_router_processed_requests_total", "counter", "worker", r.took)
		each("vllm_router_worker_health", "gauge", "worker", health)
	}
}

// refuse writes an error of the router's own.
func (r *router) refuse(w http.ResponseWriter, status int, code, text string) {
	switch r.as {
	case VLLM:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		io.WriteString(w, text)
	case SGLang:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"type":"%s","code":"%s","message":%s}}`, http.StatusText(status), code, quote(text))
	default:
		refuse(w, TRTLLM, status, code, text)
	}
}

// typed is a request as it comes to a worker: the routers of SGLang and vLLM pass on what they know, and SGLang's calls a
// member of chats by its newer name.
func (r *router) typed(path string, body []byte) []byte {
	asked, _ := read(body)
	changed := map[string]any{}
	if asked.StreamOptions.IncludeUsage {
		changed["stream_options"] = map[string]bool{"include_usage": true}
	}
	if r.as == SGLang && path == "/v1/chat/completions" && asked.MaxTokens != nil {
		changed["max_completion_tokens"], changed["max_tokens"] = *asked.MaxTokens, nil
	}
	if r.as == TRTLLM || len(changed) == 0 {
		return body
	}
	return withMembers(body, changed)
}

func read(body []byte) (asked request, err error) { return asked, json.Unmarshal(body, &asked) }

// unreadable is why the routers of SGLang and vLLM do not read a body, which they do before they choose a worker.
func (r *router) unreadable(path string, body []byte) (status int, text string) {
	request, err := read(body)
	if err != nil {
		return http.StatusBadRequest, fmt.Sprintf("Failed to parse the request body as JSON: EOF while parsing an object at line 1 column %d", len(body))
	}
	const typed = "Failed to deserialize the JSON body into the target type: "
	switch {
	case path != "/v1/completions":
		return 0, ""
	case request.Prompt == nil:
		return http.StatusUnprocessableEntity, fmt.Sprintf("%smissing field `prompt` at line 1 column %d", typed, len(body))
	case r.as == SGLang && !isText(body):
		return http.StatusUnprocessableEntity, fmt.Sprintf("%sprompt: data did not match any variant of untagged enum StringOrArray at line 1 column %d",
			typed, bytes.Index(body, request.Prompt)+len(request.Prompt))
	}
	return 0, ""
}

// generate gives a request to workers.
func (r *router) generate(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	if err != nil {
		refuse(w, VLLM, http.StatusBadRequest, "BadRequestError", "request body: "+err.Error())
		return
	}
	if status, text := r.unreadable(q.URL.Path, body); status != 0 && r.as != TRTLLM {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		io.WriteString(w, text)
		return
	}
	n := int(r.requests.Add(1))
	if after := r.to.BreakAfter; after > 0 && n > after {
		r.refuse(w, http.StatusServiceUnavailable, "no_available_workers", "No available workers (all circuits open or unhealthy)")
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
		if !r.knows(q.Context(), r.to.Serve[i]) {
			i = slices.IndexFunc(r.to.Serve, func(to Worker) bool { return r.knows(q.Context(), to) })
		}
		if i < 0 {
			r.refuse(w, http.StatusServiceUnavailable, "no_available_workers", "No available workers (all circuits open or unhealthy)")
			return
		}
		r.mu.Lock()
		if r.to.MindCache {
			i = slices.Index(r.busy, slices.Min(r.busy))
		}
		r.busy[i]++
		r.mu.Unlock()
		r.forward(w, q, r.to.Serve[i], r.typed(q.URL.Path, body))
		r.mu.Lock()
		r.busy[i]--
		r.mu.Unlock()
		return
	}
	if len(r.to.Prefill) == 0 || len(r.to.Decode) == 0 {
		r.refuse(w, http.StatusServiceUnavailable, "no_available_workers", "No available workers (all circuits open or unhealthy)")
		return
	}
	prefill, decode := r.to.Prefill[n%len(r.to.Prefill)], r.to.Decode[n%len(r.to.Decode)]
	if r.as == SGLang {
		r.sendBoth(w, q, prefill, decode, body)
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

// sendBoth sends the same request to prefill and decode, as SGLang's router does.
func (r *router) sendBoth(w http.ResponseWriter, q *http.Request, prefill, decode Worker, body []byte) {
	at, err := hostOf(prefill.URL)
	if err != nil {
		r.refuse(w, http.StatusInternalServerError, "InternalServerError", err.Error())
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
		r.unreached(w, "Prefill", prefill.URL+q.URL.Path)
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
		r.unreached(w, "Decode", to.URL+q.URL.Path)
		return
	}
	r.mu.Lock()
	r.routed[q.URL.Path]++
	r.took[to.URL]++
	r.mu.Unlock()
	defer res.Body.Close()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	asis := r.as == TRTLLM || r.as == VLLM && q.URL.Path == "/v1/responses" || len(r.to.Serve) == 0
	if asked, _ := read(body); asked.Stream && !asis {
		w.Header().Set("Content-Type", "text/event-stream") // an error, too
	}
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

// unreached says that a worker does not answer, which has a role where prefill and decode have each their own.
func (r *router) unreached(w http.ResponseWriter, role, url string) {
	text := fmt.Sprintf("error sending request for url (%s)", url)
	switch {
	case r.as == SGLang:
		text += ". URL: " + url
	case r.as == VLLM && len(r.to.Serve) > 0:
		text = "Request failed: " + text
	case r.as == VLLM:
		text = fmt.Sprintf("Transparent proxy request failed: Network error: %s request failed to %s: %s caused by: client error (Connect) "+
			"caused by: tcp connect error caused by: Connection refused (os error 111)", role, url, text)
	}
	r.refuse(w, http.StatusInternalServerError, "call_upstream_request_error", text)
}

// other is what the router has not itself: vLLM's passes it on, if it can, and SGLang's does not.
func (r *router) other(w http.ResponseWriter, q *http.Request) {
	switch {
	case r.as == SGLang:
		w.WriteHeader(http.StatusNotFound)
	case r.as == VLLM && len(r.to.Serve) == 0 && q.Method != http.MethodPost:
		r.refuse(w, http.StatusMethodNotAllowed, "", "Only POST requests are supported for transparent proxy")
	default:
		r.pass(w, q)
	}
}

// pass asks the worker that answers.
func (r *router) pass(w http.ResponseWriter, q *http.Request) {
	res := r.first(q)
	if res == nil {
		r.refuse(w, http.StatusServiceUnavailable, "no_available_workers", "No available workers")
		return
	}
	defer res.Body.Close()
	w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
	w.WriteHeader(res.StatusCode)
	io.Copy(w, res.Body)
}

// first is what the first worker answers that does; nil: none does.
func (r *router) first(q *http.Request) *http.Response {
	for _, to := range slices.Concat(r.to.Serve, r.to.Decode) {
		ask, err := http.NewRequestWithContext(q.Context(), q.Method, to.URL+q.URL.Path, nil)
		if err != nil {
			continue
		}
		if res, err := r.client.Do(ask); err == nil {
			return res
		}
	}
	return nil
}

func hostOf(url string) (string, error) {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	return host, err
}
