package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// instant is an engine that never makes a test wait.
func instant(c Config) Config {
	c.TTFT, c.ITL = -1, -1
	return c
}

func start(t testing.TB, c Config) (*Server, string) {
	t.Helper()
	s := New(c)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL
}

func ask(t testing.TB, method, url, body string) (status int, answer string) {
	t.Helper()
	status, _, answer = askFor(t, method, url, body)
	return status, answer
}

// askFor returns the kind of the answer, too: its content type.
func askFor(t testing.TB, method, url, body string) (status int, kind, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

var varying = regexp.MustCompile(`"(id|created)":("[a-z]+-[0-9a-f]{32}"|[0-9]+)`)

// fixed replaces what differs from answer to answer.
func fixed(s string) string { return varying.ReplaceAllString(s, `"$1":X`) }

func TestCompletionsStream(t *testing.T) {
	_, url := start(t, instant(Config{Model: "m"}))
	_, got := ask(t, "POST", url+"/v1/completions",
		`{"model":"m","prompt":[5, 6,7],"max_tokens":2,"stream":true,"ignore_eos":true,"stream_options":{"include_usage":true}}`)
	want := `data: {"id":X,"object":"text_completion","created":X,"model":"m","choices":[{"index":0,"text":" the","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}

data: {"id":X,"object":"text_completion","created":X,"model":"m","choices":[{"index":0,"text":" of","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}

data: {"id":X,"object":"text_completion","created":X,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2},"system_fingerprint":"vllm-0.0.0+sim"}

data: [DONE]

`
	if diff := cmp.Diff(want, fixed(got)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}

func TestChatStream(t *testing.T) {
	_, url := start(t, instant(Config{As: SGLang, Model: "m"}))
	_, got := ask(t, "POST", url+"/v1/chat/completions",
		`{"model":"whatever","messages":[{"role":"user","content":"a b"},{"role":"user","content":[{"type":"text","text":"c"}]}],"max_completion_tokens":1,"max_tokens":9,"stream":true}`)
	want := `data: {"id":X,"object":"chat.completion.chunk","created":X,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":null,"role":"assistant","content":""},"logprobs":null,"finish_reason":null,"matched_stop":null}]}

data: {"id":X,"object":"chat.completion.chunk","created":X,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":null,"content":" the"},"logprobs":null,"finish_reason":null,"matched_stop":null}]}

data: {"id":X,"object":"chat.completion.chunk","created":X,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":null},"logprobs":null,"finish_reason":"length","matched_stop":null}]}

data: [DONE]

`
	if diff := cmp.Diff(want, fixed(got)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}

// TestNaturalEnd: an answer that ends by itself does so with a token of which there is no text, as the engines send it.
func TestNaturalEnd(t *testing.T) {
	for as, want := range map[string]string{
		VLLM: `data: {"id":X,"object":"chat.completion.chunk","created":X,"model":"m","choices":[{"index":0,"delta":{"content":" the"},"logprobs":null,"finish_reason":null,"token_ids":null}]}

data: {"id":X,"object":"chat.completion.chunk","created":X,"model":"m","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}
`,
		SGLang: `data: {"id":X,"object":"chat.completion.chunk","created":X,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":null,"content":" the"},"logprobs":null,"finish_reason":null,"matched_stop":null}]}

data: {"id":X,"object":"chat.completion.chunk","created":X,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":null},"logprobs":null,"finish_reason":"stop","matched_stop":null}]}
`,
	} {
		_, url := start(t, instant(Config{As: as, Model: "m", StopAfter: 2}))
		_, got := ask(t, "POST", url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}],"max_tokens":9,"stream":true}`)
		if !strings.Contains(fixed(got), want) {
			t.Errorf("%s sends\n%s\nwithout\n%s", as, fixed(got), want)
		}
	}
}

func TestGenerateStream(t *testing.T) {
	_, url := start(t, instant(Config{As: SGLang}))
	_, got := ask(t, "POST", url+"/generate", `{"input_ids":[5,6],"sampling_params":{"max_new_tokens":2},"stream":true}`)
	want := `data: {"text":" the","output_ids":[1000],"meta_info":{"id":X,"finish_reason":null,"prompt_tokens":2,"weight_version":"default","num_retractions":0,"reasoning_tokens":0,"completion_tokens":1,"cached_tokens":0,"cached_tokens_details":{"device":0,"host":0},"dp_rank":null}}

data: {"text":" the of","output_ids":[1000,1001],"meta_info":{"id":X,"finish_reason":{"type":"length","length":2},"prompt_tokens":2,"weight_version":"default","num_retractions":0,"reasoning_tokens":0,"completion_tokens":2,"cached_tokens":0,"cached_tokens_details":{"device":0,"host":0},"dp_rank":null,"weight_versions":[{"version":"default","start":0,"end":2}]}}

data: [DONE]

`
	if diff := cmp.Diff(want, fixed(got)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}

func TestNotStreamed(t *testing.T) {
	s, url := start(t, instant(Config{Model: "m", StopAfter: 3}))
	for _, c := range []struct{ path, body, want string }{
		{"/v1/completions", `{"prompt":["two words"],"max_tokens":8}`,
			`{"id":X,"object":"text_completion","created":X,"model":"m","choices":[{"index":0,"text":" the of","logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.0.0+sim","usage":{"prompt_tokens":2,"total_tokens":5,"completion_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":null},"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":1}`,
			`{"id":X,"object":"chat.completion","created":X,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":" the","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"routed_experts":null}],"service_tier":null,"system_fingerprint":"vllm-0.0.0+sim","usage":{"prompt_tokens":1,"total_tokens":2,"completion_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`},
		{"/generate", `{"text":"one two three"}`,
			`{"text":" the of","output_ids":[1000,1001,1002],"meta_info":{"id":X,"finish_reason":{"type":"stop","matched":0},"prompt_tokens":3,"weight_version":"default","num_retractions":0,"reasoning_tokens":0,"completion_tokens":3,"cached_tokens":0,"cached_tokens_details":{"device":0,"host":0},"dp_rank":null,"weight_versions":[{"version":"default","start":0,"end":3}]}}`},
	} {
		_, got := ask(t, "POST", url+c.path, c.body)
		if diff := cmp.Diff(c.want, fixed(got)); diff != "" {
			t.Errorf("POST %s (-want +got):\n%s", c.path, diff)
		}
	}
	if got := s.Truth(); got.CompletionTokens != 7 || got.PromptTokens != 6 || got.TTFT.Count != 0 || got.E2EL.Count != 3 {
		t.Errorf("Truth() = %+v, want 7 completion and 6 prompt tokens, no TTFT, 3 E2EL", got)
	}
}

// gif is an image of one pixel.
const gif = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="

func TestAnswers(t *testing.T) {
	_, url := start(t, instant(Config{Model: "m"}))
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string // a part of the answer
	}{
		{"GET", "/health", "", 200, ""},
		{"GET", "/health_generate", "", 200, ""},
		{"GET", "/v1/models", "", 200, `"id":"m"`},
		{"GET", "/version", "", 200, `"version"`},
		{"GET", "/server_info", "", 200, `"model":"m"`},
		{"POST", "/reset_prefix_cache", "", 200, `{"success":true}`},
		{"POST", "/tokenize", `{"prompt":"a b c"}`, 200, `"tokens":[1000,1001,1002]`},
		{"GET", "/metrics", "", 200, `vllm:generation_tokens_total{engine="0",model_name="m"} 0`},
		{"POST", "/v1/completions", `{"model":"other","prompt":"a"}`, 404, "The model `other` does not exist."},
		{"POST", "/v1/completions", `{"model":"m"}`, 400, "Either prompt or prompt_embeds must be provided"},
		{"POST", "/v1/completions", `{"model":"m","prompt":7}`, 400, "neither text nor a list"},
		{"POST", "/v1/completions", `{"model":"m","prompt":["a","b"]}`, 400, "a list of 2 prompts"},
		{"POST", "/v1/completions", `{"model":"m","prompt":[]}`, 400, "a list of 0 prompts"},
		{"POST", "/v1/completions", `{"model":"m","prompt":[[1,2,3]],"max_tokens":1}`, 200, `"prompt_tokens":3`},
		{"POST", "/v1/completions", `{"model":"m","prompt":"a","max_tokens":0}`, 400, "max_tokens must be at least 1"},
		{"POST", "/v1/completions", `nonsense`, 400, "1 validation error"},
		{"POST", "/v1/chat/completions", `{"model":"m"}`, 400, "messages"},
		{"POST", "/v1/chat/completions", `{"messages":[{"content":[{"text":"a b"},{"image_url":{"url":"` + gif + `"}}]}],"max_tokens":1}`, 200, `"prompt_tokens":3,`},
		{"POST", "/v1/chat/completions", `{"messages":[{"content":[{"image_url":{"url":"http://a/b.png"}}]}]}`, 400, "part 1: image_url: it is no data URI"},
		{"POST", "/v1/chat/completions", `{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`, 400, "neither PNG, JPEG nor GIF"},
		{"POST", "/generate", `{}`, 400, "input_ids or text"},
		{"GET", "/v1/completions", "", 405, ""},
	} {
		status, got := ask(t, c.method, url+c.path, c.body)
		if status != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s %s %s = %d %s, want %d with %s", c.method, c.path, c.body, status, got, c.status, c.want)
		}
	}
}

func TestFaults(t *testing.T) {
	const body = `{"prompt":"a","max_tokens":8,"stream":true}`
	t.Run("fail every", func(t *testing.T) {
		s, url := start(t, instant(Config{FailEvery: 2}))
		var got []int
		for range 4 {
			status, _ := ask(t, "POST", url+"/v1/completions", body)
			got = append(got, status)
		}
		if diff := cmp.Diff([]int{200, 500, 200, 500}, got); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if tr := s.Truth(); tr.Requests != 4 || tr.Completed != 2 || tr.Failed != 2 {
			t.Errorf("Truth() = %+v, want 4 requests, 2 completed, 2 failed", tr)
		}
	})
	t.Run("not ready", func(t *testing.T) {
		_, url := start(t, instant(Config{NotReadyFor: time.Hour}))
		if status, _ := ask(t, "GET", url+"/health", ""); status != 503 {
			t.Errorf("GET /health = %d, want 503", status)
		}
	})
	t.Run("hang", func(t *testing.T) {
		s, url := start(t, instant(Config{HangAfter: 1}))
		ask(t, "POST", url+"/v1/completions", body)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req) // returns with the headers
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		resp.Body.Close()
		if tr := s.Truth(); resp.StatusCode != 200 || tr.Completed != 1 || tr.Failed != 1 {
			t.Errorf("status %d, Truth() = %+v, want 200, 1 completed, 1 failed", resp.StatusCode, tr)
		}
	})
	t.Run("flush while running", func(t *testing.T) {
		_, url := start(t, instant(Config{As: SGLang, HangAfter: 1}))
		ask(t, "POST", url+"/generate", `{"text":"a"}`)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", url+"/generate", strings.NewReader(`{"text":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if status, _ := ask(t, "POST", url+"/flush_cache", ""); status != 400 {
			t.Errorf("POST /flush_cache = %d, want 400", status)
		}
	})
}

func TestTruth(t *testing.T) {
	const n, tokens = 8, 6
	s, url := start(t, Config{TTFT: 30 * time.Millisecond, ITL: 10 * time.Millisecond})
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			resp, err := http.Post(url+"/v1/completions", "application/json",
				strings.NewReader(fmt.Sprintf(`{"prompt":"a b c","max_tokens":%d,"stream":true}`, tokens)))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
		})
	}
	wg.Wait()
	_, body := ask(t, "GET", url+"/sim/truth", "")
	var got Truth
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	counts := Truth{Requests: got.Requests, Completed: got.Completed, PromptTokens: got.PromptTokens, CompletionTokens: got.CompletionTokens, Chunks: got.Chunks}
	if diff := cmp.Diff(Truth{Requests: n, Completed: n, PromptTokens: 3 * n, CompletionTokens: tokens * n, Chunks: tokens * n}, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got.ITL.Count != n*(tokens-1) || got.TTFT.Count != n || got.TPOT.Count != n {
		t.Errorf("%d ITL, %d TTFT, %d TPOT, want %d, %d, %d", got.ITL.Count, got.TTFT.Count, got.TPOT.Count, n*(tokens-1), n, n)
	}
	// A timer never fires early: these are lower bounds on any machine.
	if got.TTFT.Mean < 30 || got.E2EL.Mean < 80 || got.PeakInFlight > n {
		t.Errorf("TTFT %v, E2EL %v ms, peak %d, want at least 30 and 80 ms, at most %d", got.TTFT.Mean, got.E2EL.Mean, got.PeakInFlight, n)
	}
	ask(t, "POST", url+"/sim/truth/reset", "")
	if diff := cmp.Diff(Truth{}, s.Truth()); diff != "" {
		t.Errorf("after a reset (-want +got):\n%s", diff)
	}
}

func TestTokensPerChunk(t *testing.T) {
	s, url := start(t, instant(Config{TokensPerChunk: 4}))
	_, got := ask(t, "POST", url+"/v1/completions", `{"prompt":"a","max_tokens":10,"stream":true}`)
	if n := strings.Count(got, `"text"`); n != 3 || !strings.Contains(got, `" was for"`) {
		t.Errorf("%d chunks, want 3, the last with 2 tokens:\n%s", n, got)
	}
	if tr := s.Truth(); tr.CompletionTokens != 10 || tr.Chunks != 3 {
		t.Errorf("Truth() = %+v, want 10 tokens in 3 chunks", tr)
	}
}

func TestTable(t *testing.T) {
	table, err := ParseTable("64:90ms/12ms, 1:20ms/5ms")
	if err != nil {
		t.Fatal(err)
	}
	fromCSV, err := ReadTable(strings.NewReader("gpu,itl_ms,concurrency,ttft_ms\nh200,5,1,20\nh200,12,64,90\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, fromCSV); diff != "" {
		t.Errorf("CSV and text differ:\n%s", diff)
	}
	ms := time.Millisecond
	for _, want := range []Point{{0, 20 * ms, 5 * ms}, {1, 20 * ms, 5 * ms}, {10, 30 * ms, 6 * ms}, {64, 90 * ms, 12 * ms}, {99, 90 * ms, 12 * ms}} {
		if got := table.At(want.Concurrency); got != want {
			t.Errorf("At(%d) = %v, want %v", want.Concurrency, got, want)
		}
	}
	for _, bad := range []string{"", "1", "1:2ms", "x:1ms/1ms", "0:1ms/1ms", "1:1/1ms", "1:1ms/-1ms", "1:1ms/1ms,1:2ms/2ms"} {
		if _, err := ParseTable(bad); err == nil {
			t.Errorf("ParseTable(%q): no error", bad)
		}
	}
	for _, bad := range []string{"", "concurrency,ttft_ms\n1,2\n", "concurrency,ttft_ms,itl_ms\n", "concurrency,ttft_ms,itl_ms\n1,x,2\n"} {
		if _, err := ReadTable(strings.NewReader(bad)); err == nil {
			t.Errorf("ReadTable(%q): no error", bad)
		}
	}
}

// TestSpeed: whichever way the times are said, they are divided.
func TestSpeed(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		cfg  Config
		want Table
	}{
		{Config{TTFT: 40 * ms, ITL: 8 * ms, Speed: 4}, Table{{1, 10 * ms, 2 * ms}}},
		{Config{Speed: 10}, Table{{1, 5 * ms, 1 * ms}}},
		{Config{Table: Table{{1, 20 * ms, 5 * ms}, {64, 90 * ms, 12 * ms}}, Speed: 0.5}, Table{{1, 40 * ms, 10 * ms}, {64, 180 * ms, 24 * ms}}},
		{Config{ITL: -1, TTFT: 40 * ms, Speed: 2}, Table{{1, 20 * ms, 0}}},
	} {
		if got := c.cfg.withDefaults().withDefaults().Table; !cmp.Equal(got, c.want) {
			t.Errorf("%+v has the times %v, want %v", c.cfg, got, c.want)
		}
	}
}

// TestTellsFlags: under the engine's names, and otherwise where it lies.
func TestTellsFlags(t *testing.T) {
	flags := map[string]string{"tp": "8", "max-model-len": "4096", "kv-cache-dtype": "fp8", "enable-prefix-caching": "true"}
	for _, c := range []struct{ as, path, want string }{
		{SGLang, "/server_info", `"tp_size":4`},
		{SGLang, "/get_server_info", `"kv_cache_dtype":"fp8"`},
		{VLLM, "/server_info?config_format=json", `"cache_config":{"cache_dtype":"fp8","enable_prefix_caching":true}`},
		{VLLM, "/v1/models", `"max_model_len":4096`},
	} {
		_, url := start(t, Config{As: c.as, Model: "m", Flags: flags, Lies: map[string]string{"tp": "4"}})
		if status, body := ask(t, "GET", url+c.path, ""); status != 200 || !strings.Contains(body, c.want) {
			t.Errorf("%s of %s is %d %s, want %s", c.path, c.as, status, body, c.want)
		}
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		args   string
		cfg    Config
		listen string
	}{
		{"vllm serve org/M --port 9000 --host 0.0.0.0 --tensor-parallel-size 8 --trust-remote-code --served-model-name short",
			Config{As: VLLM, Model: "short", Flags: map[string]string{"tensor-parallel-size": "8", "trust-remote-code": "true"}}, "0.0.0.0:9000"},
		{"/usr/local/bin/vllm serve --model=org/M -tp 8", Config{As: VLLM, Model: "org/M", Flags: map[string]string{"tp": "8"}}, ":8000"},
		{"python3 -m vllm.entrypoints.openai.api_server --model M --port=1", Config{As: VLLM, Model: "M"}, ":1"},
		{"python3 -m sglang.launch_server --model-path M --tp 8 --enable-dp-attention --host=0.0.0.0", Config{As: SGLang, Model: "M", Flags: map[string]string{"tp": "8", "enable-dp-attention": "true"}}, "0.0.0.0:30000"},
		{"python -m sglang.launch_server --model-path=M --itl 5ms", Config{As: SGLang, Model: "M", ITL: 5 * time.Millisecond}, "127.0.0.1:30000"},
		{"trtllm-serve M --backend pytorch --lie tp_size=4", Config{As: TRTLLM, Model: "M", Flags: map[string]string{"backend": "pytorch"}, Lies: map[string]string{"tp_size": "4"}}, "127.0.0.1:8000"},
		{"trtllm-serve serve M --port 5 --host ::", Config{As: TRTLLM, Model: "M"}, "[::]:5"},
		{"vllm serve M --lora-modules sql=/a chat=/b --enable-lora", Config{As: VLLM, Model: "M", Adapters: []string{"sql", "chat"}, Flags: map[string]string{"lora-modules": "sql=/a", "enable-lora": "true"}}, ":8000"},
		{"--adapters sql,chat", Config{As: VLLM, Adapters: []string{"sql", "chat"}}, "127.0.0.1:8000"},
		{"", Config{As: VLLM}, "127.0.0.1:8000"},
		{"--speed 20", Config{As: VLLM, Speed: 20}, "127.0.0.1:8000"},
		{"--spread 0.3", Config{As: VLLM, Spread: 0.3}, "127.0.0.1:8000"},
		{"--as sglang --model M --port 0 --ttft 5ms --itl 0s --stop-after 3 --table 1:1ms/2ms",
			Config{As: SGLang, Model: "M", TTFT: 5 * time.Millisecond, ITL: -1, StopAfter: 3, Table: Table{{1, time.Millisecond, 2 * time.Millisecond}}}, "127.0.0.1:0"},
	} {
		cfg, listen, err := Command(strings.Fields(c.args))
		if err != nil || listen != c.listen || !cmp.Equal(cfg, c.cfg) {
			t.Errorf("Command(%s) = %+v, %s, %v, want %+v, %s", c.args, cfg, listen, err, c.cfg, c.listen)
		}
	}
	for _, bad := range []string{
		"--nonsense 1", "model", "--port", "--port x", "--port 70000", "--as other", "--ttft 5", "--itl -5ms", "--stop-after 0", "--speed 0", "--speed inf", "--spread -1", "--spread NaN",
		"--table nowhere.csv", "--lie tp", "vllm serve", "vllm serve M --port x", "vllm serve M --itl soon", "trtllm-serve",
	} {
		if _, _, err := Command(strings.Fields(bad)); err == nil {
			t.Errorf("Command(%s): no error", bad)
		}
	}
	want := []string{"--itl", "5ms", "--hang-after", "3"}
	if got := EnvFlags([]string{"PATH=/bin", "HCL_SIM_HANG_AFTER=3", "HCL_SIM_ITL=5ms"}); !cmp.Equal(got, want) {
		t.Errorf("EnvFlags() = %q, want %q", got, want)
	}
}

// logged is a writer that tells when a line has come.
type logged struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	want  string
	found chan struct{}
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := strings.Contains(l.buf.String(), l.want)
	l.buf.Write(b)
	if !had && strings.Contains(l.buf.String(), l.want) {
		close(l.found)
	}
	return len(b), nil
}

func TestServe(t *testing.T) {
	for as, ready := range map[string]string{
		VLLM: "Application startup complete.", SGLang: "The server is fired up and ready to roll!", TRTLLM: "Uvicorn running on http://127.0.0.1:",
	} {
		t.Run(as, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			log := &logged{want: ready, found: make(chan struct{})}
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, Config{As: as, NotReadyFor: time.Millisecond}, "127.0.0.1:0", log) }()
			select {
			case <-log.found:
			case err := <-done:
				t.Fatalf("Serve() = %v before it was ready", err)
			}
			log.mu.Lock()
			url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(log.buf.String())
			log.mu.Unlock()
			if status, _ := ask(t, "GET", url+"/health", ""); status != 200 {
				t.Errorf("GET %s/health = %d, want 200", url, status)
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve() = %v, want nil", err)
			}
		})
	}
	t.Run("start fails", func(t *testing.T) {
		log := &logged{want: "out of memory", found: make(chan struct{})}
		if err := Serve(t.Context(), Config{FailStart: "CUDA out of memory"}, "127.0.0.1:0", log); err == nil {
			t.Error("Serve(): no error")
		}
		<-log.found
	})
	t.Run("bad address", func(t *testing.T) {
		if err := Serve(t.Context(), Config{}, "nowhere", io.Discard); err == nil {
			t.Error("Serve(): no error")
		}
	})
}

// BenchmarkStream is the cost of one event, the client's reading included.
func BenchmarkStream(b *testing.B) {
	_, url := start(b, instant(Config{}))
	const tokens = 10000
	body := fmt.Sprintf(`{"prompt":"a","max_tokens":%d,"stream":true}`, tokens)
	for b.Loop() {
		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/event")
}
