package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// freePorts are ports that nobody listens on.
func freePorts(t *testing.T, n int) []any {
	t.Helper()
	var ports []any
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// running is an engine that was started by a command line.
type running struct {
	log  *lines
	done chan error
	end  context.CancelFunc
}

// lines is a log that grows while it is read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// run starts what a command line says, without latencies.
func run(t *testing.T, command string) *running {
	t.Helper()
	cfg, listen, err := Command(strings.Fields(command))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{log: &lines{}, done: make(chan error, 1), end: cancel}
	go func() { r.done <- Serve(ctx, instant(cfg), listen, r.log) }()
	t.Cleanup(cancel)
	return r
}

// until asks again and again until an answer has the status.
func until(t *testing.T, url string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == status {
				return
			}
		}
	}
	t.Fatalf("%s never answered %d", url, status)
}

const prompt = `{"model":"m","prompt":"one two three","max_tokens":4}`

// TestRanks starts engines over several hosts, rank 0 first and alone for a while.
func TestRanks(t *testing.T) {
	for name, c := range map[string]string{
		"sglang": "python3 -m sglang.launch_server --model-path m --host 127.0.0.1 --port %[2]d --nnodes 2 --node-rank %[1]d --dist-init-addr 127.0.0.1:%[4]d",
		"vllm":   "vllm serve m --host 127.0.0.1 --port %[2]d --nnodes 2 --node-rank %[1]d --master-addr 127.0.0.1 --master-port %[4]d %[5]s",
		"vllm data parallel": "vllm serve m --host 127.0.0.1 --port %[2]d --data-parallel-size 16 --data-parallel-size-local 8 --data-parallel-start-rank %[3]d " +
			"--data-parallel-address 127.0.0.1 --data-parallel-rpc-port %[4]d %[5]s",
		"vllm hybrid": "vllm serve m --host 127.0.0.1 --port %[2]d --data-parallel-size 16 --data-parallel-size-local 8 --data-parallel-start-rank %[3]d " +
			"--data-parallel-address 127.0.0.1 --data-parallel-rpc-port %[4]d --data-parallel-hybrid-lb %[5]s",
	} {
		t.Run(name, func(t *testing.T) {
			ports := freePorts(t, 3)
			command := func(rank int, port any, more string) string {
				if name == "sglang" {
					more = ""
				}
				return strings.Split(fmt.Sprintf(c, rank, port, 8*rank, ports[2], more), "%!")[0]
			}
			head := run(t, command(0, ports[0], ""))
			url := fmt.Sprintf("http://127.0.0.1:%d", ports[0])
			until(t, url+"/health", http.StatusServiceUnavailable)
			silent := "--headless"
			if name == "vllm hybrid" {
				silent = ""
			}
			rank := run(t, command(1, ports[1], silent))
			until(t, url+"/health", http.StatusOK)
			if status, answer := ask(t, "POST", url+"/v1/completions", prompt); status != http.StatusOK {
				t.Errorf("status %d: %s", status, answer)
			}
			other := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
			if name == "sglang" { // its dummy is always well, and serves nothing
				until(t, other+"/health", http.StatusOK)
				until(t, other+"/v1/models", http.StatusNotFound)
			} else if name == "vllm hybrid" {
				if !answers(t, other) {
					t.Error("the other host does not answer")
				}
			} else if _, err := http.Get(other + "/health"); err == nil {
				t.Error("a headless rank listens")
			}
			if silent != "" && !strings.Contains(rank.log.String(), fmt.Sprint(ports[2])) {
				t.Errorf("the rank's log does not say where it joins:\n%s", rank.log)
			}
			rank.end()
			if err := <-rank.done; err != nil {
				t.Errorf("the rank ended with %v", err)
			}
			// The head is as it was, and as soon as it has noticed never answers again.
			for tries := 0; answers(t, url); tries++ {
				if tries == 100 {
					t.Fatal("it answers without its other rank")
				}
			}
			until(t, url+"/health", http.StatusOK)
			head.end()
			if err := <-head.done; err != nil {
				t.Errorf("the head ended with %v", err)
			}
		})
	}
}

// answers reports whether an engine answers a prompt within a moment.
func answers(t *testing.T, url string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", strings.NewReader(prompt))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	_, err = io.ReadAll(res.Body)
	return err == nil
}

// pd starts prefill, decode and a router, and returns their urls.
func pd(t *testing.T, engine, moreDecode, moreRouter string) (prefill, decode, router string) {
	t.Helper()
	p := freePorts(t, 5)
	t.Setenv("VLLM_NIXL_SIDE_CHANNEL_HOST", "127.0.0.1")
	at := func(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", p[i]) }
	switch engine {
	case SGLang:
		const server = "python3 -m sglang.launch_server --model-path m --host 127.0.0.1 --port %d --disaggregation-mode %s --disaggregation-transfer-backend nixl %s"
		run(t, fmt.Sprintf(server, p[0], Prefill, fmt.Sprintf("--disaggregation-bootstrap-port %d", p[3])))
		run(t, fmt.Sprintf(server, p[1], Decode, moreDecode))
		run(t, fmt.Sprintf("python3 -m sglang_router.launch_router --pd-disaggregation --prefill %s %d --decode %s --host 127.0.0.1 --port %d --disable-retries %s", at(0), p[3], at(1), p[2], moreRouter))
	case VLLM:
		const server = `vllm serve m --host 127.0.0.1 --port %d --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_both"} %s`
		t.Setenv("VLLM_NIXL_SIDE_CHANNEL_PORT", fmt.Sprint(p[3]))
		run(t, fmt.Sprintf(server, p[0], ""))
		t.Setenv("VLLM_NIXL_SIDE_CHANNEL_PORT", fmt.Sprint(p[4]))
		run(t, fmt.Sprintf(server, p[1], moreDecode))
		run(t, fmt.Sprintf("vllm-router --vllm-pd-disaggregation --kv-connector nixl --prefill %s --decode %s --host 127.0.0.1 --port %d %s", at(0), at(1), p[2], moreRouter))
	case TRTLLM:
		for i := range 2 {
			more := ""
			if i == 1 {
				more = moreDecode
			}
			run(t, fmt.Sprintf("trtllm-serve m --host 127.0.0.1 --port %d %s", p[i], more))
		}
		file := filepath.Join(t.TempDir(), "config.yaml")
		const text = `{"hostname":"127.0.0.1","port":%d,"context_servers":{"num_instances":1,"urls":["127.0.0.1:%d"]},"generation_servers":{"num_instances":1,"urls":["127.0.0.1:%d"]}}`
		if err := os.WriteFile(file, fmt.Appendf(nil, text, p[2], p[0], p[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, "trtllm-serve disaggregated --config_file "+file+" --request_timeout 60 "+moreRouter)
	}
	return at(0), at(1), at(2)
}

// TestSplit sends requests through a router, and finds by the servers' own counts that the
// prompt was read in one and the answer written in the other.
func TestSplit(t *testing.T) {
	for _, engine := range []string{SGLang, VLLM, TRTLLM} {
		t.Run(engine, func(t *testing.T) {
			prefill, decode, router := pd(t, engine, "", "")
			until(t, prefill+"/health", http.StatusOK)
			until(t, decode+"/health", http.StatusOK)
			until(t, router+"/health", http.StatusOK)
			_, workers := ask(t, "GET", router+"/workers", "")
			if !strings.Contains(workers, `"decode_count":1,"prefill_count":1,"regular_count":0`) {
				t.Errorf("workers: %s", workers)
			}
			var all sync.WaitGroup
			for _, stream := range []string{"false", "true", "true", "true"} { // at once, so on connections of their own
				all.Go(func() {
					status, answer := ask(t, "POST", router+"/v1/completions", strings.TrimSuffix(prompt, "}")+`,"stream":`+stream+"}")
					if status != http.StatusOK || !strings.Contains(answer, " to") {
						t.Errorf("status %d: %s", status, answer)
					}
				})
			}
			all.Wait()
			_, one := ask(t, "GET", prefill+"/sim/truth", "")
			_, other := ask(t, "GET", decode+"/sim/truth", "")
			if !strings.Contains(one, `"completion_tokens":4`) || !strings.Contains(other, `"completion_tokens":16`) {
				t.Errorf("prefill did %s\ndecode did %s", one, other)
			}
			if engine == VLLM {
				_, metrics := ask(t, "GET", decode+"/metrics", "")
				if !strings.Contains(metrics, `source="external_kv_transfer"} 12`) || !strings.Contains(metrics, `source="local_compute"} 0`) {
					t.Errorf("decode counts:\n%s", metrics)
				}
			}
		})
	}
}

// TestSplitTogether sends many at once, streamed, and counts what was handed over.
func TestSplitTogether(t *testing.T) {
	prefill, decode, router := pd(t, SGLang, "", "")
	until(t, prefill+"/health", http.StatusOK)
	until(t, decode+"/health", http.StatusOK)
	until(t, router+"/readiness", http.StatusOK)
	for body, want := range map[string]int{ // as SGLang's router 0.3.2
		`{"model":"m","prompt":[1,2,3],"max_tokens":4}`: http.StatusUnprocessableEntity,
		`{"model":"m","prompt":5,"max_tokens":4}`:       http.StatusUnprocessableEntity,
		`{"model":"m","prompt":["one"],"max_tokens":4}`: http.StatusOK,
	} {
		if status, answer := ask(t, "POST", router+"/v1/completions", body); status != want {
			t.Errorf("%s: status %d, want %d: %s", body, status, want, answer)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				if status, answer := ask(t, "POST", router+"/v1/completions", strings.TrimSuffix(prompt, "}")+`,"stream":true}`); status != http.StatusOK {
					t.Errorf("status %d: %s", status, answer)
				}
			}
		})
	}
	all.Wait()
	_, metrics := ask(t, "GET", prefill+"/metrics", "")
	if !strings.Contains(metrics, `kv_transfer_total_mb_count{engine_type="prefill",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 41`) || !strings.Contains(metrics, `generation_tokens_total{engine_type="prefill",is_streaming="true",model_name="m"} 41`) {
		t.Errorf("prefill counts:\n%s", metrics)
	}
}

// TestSplitFaults has each part fail in its own way.
func TestSplitFaults(t *testing.T) {
	for name, c := range map[string]struct {
		decode, router string
		status         int
		want           string
	}{
		"a hand-over is lost":            {decode: "--lose-kv 1", status: http.StatusInternalServerError, want: "KVTransferError"},
		"decode prefills by itself":      {decode: "--local-prefill true", status: http.StatusOK, want: " of"},
		"other words with 200":           {decode: "--wrong-text 1", status: http.StatusOK, want: " of and to in"},
		"the circuit breaker opens":      {router: "--break-after 1", status: http.StatusServiceUnavailable, want: "circuits open"},
		"dead workers are said to be ok": {router: "--count-dead true", status: http.StatusOK, want: " the of"},
	} {
		t.Run(name, func(t *testing.T) {
			prefill, decode, router := pd(t, SGLang, c.decode, c.router)
			until(t, prefill+"/health", http.StatusOK)
			until(t, decode+"/health", http.StatusOK)
			until(t, router+"/readiness", http.StatusOK)
			if c.router == "--break-after 1" {
				ask(t, "POST", router+"/v1/completions", prompt)
			}
			if status, answer := ask(t, "POST", router+"/v1/completions", prompt); status != c.status || !strings.Contains(answer, c.want) {
				t.Errorf("status %d, %s", status, answer)
			}
			if c.decode == "--local-prefill true" {
				_, metrics := ask(t, "GET", prefill+"/metrics", "")
				if !strings.Contains(metrics, `kv_transfer_total_mb_count{engine_type="prefill",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0`) {
					t.Errorf("a prompt was fetched:\n%s", metrics)
				}
			}
		})
	}
}

// TestDies has an engine, a rank and a router die by themselves.
func TestDies(t *testing.T) {
	p := freePorts(t, 2)
	for _, command := range []string{
		fmt.Sprintf("vllm serve m --host 127.0.0.1 --port %d --die-after 1ms", p[0]),
		fmt.Sprintf("vllm serve m --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port %d --headless --die-after 1ms", p[1]),
		fmt.Sprintf("vllm-router --worker-urls http://127.0.0.1:1 --host 127.0.0.1 --port %d --die-after 1ms", p[0]),
	} {
		if err := <-run(t, command).done; err == nil {
			t.Errorf("%s: ended without an error", command)
		}
	}
}

// TestNoPlace gives command lines that cannot be right.
func TestNoPlace(t *testing.T) {
	for _, command := range []string{
		"vllm serve m --nnodes two",
		"vllm serve m --nnodes 2 --node-rank 2 --master-addr h --master-port 1",
		"vllm serve m --kv-transfer-config {",
		`vllm serve m --kv-transfer-config {"kv_connector":"Other"}`,
		"python3 -m sglang.launch_server --model-path m --disaggregation-mode half",
		"vllm-router --vllm-pd-disaggregation --prefill",
		"vllm-router --vllm-pd-disaggregation --prefill http://h:1 x",
		"trtllm-serve disaggregated --config_file /nowhere",
	} {
		if cfg, _, err := Command(strings.Fields(command)); err == nil {
			t.Errorf("%s: %+v, want an error", command, cfg)
		}
	}
}

// TestRouterQueues: what the machine cannot have open at once waits, and does not fail.
func TestRouterQueues(t *testing.T) {
	var now, most atomic.Int64
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		runtime.Gosched()
		now.Add(-1)
	}))
	defer worker.Close()
	r := newRouter(VLLM, Routes{Serve: []Worker{{URL: worker.URL}}})
	r.slots = make(chan struct{}, 1)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			w := httptest.NewRecorder()
			r.mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt":"a"}`)))
			if w.Code != http.StatusOK {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d requests were with the worker at once, want 1", most.Load())
	}
}
