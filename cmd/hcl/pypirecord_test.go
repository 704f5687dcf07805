package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hclbench/testhost/pypi"
)

// recording writes what a real engine says into testdata/real, with neutral paths and addresses.
type recording struct {
	*realServer
	dir     string
	neutral *strings.Replacer
	files   map[string]string // how each was made, for the README
	what    string            // it is of
}

func (s *realServer) record(name string) *recording {
	s.Helper()
	r := &recording{realServer: s, dir: filepath.Join("..", "..", "testdata", "real", name), neutral: strings.NewReplacer(s.engine.Model, "/models/tiny",
		filepath.Dir(s.engine.Bin), "/venv", filepath.Dir(filepath.Dir(s.engine.Bin)), "/engine", s.host.IP, "192.0.2.10", s.host.Outside(), "192.0.2.1"), files: map[string]string{}}
	must(s, os.RemoveAll(r.dir))
	must(s, os.MkdirAll(r.dir, 0o755))
	return r
}

// ofMachine is what vLLM says of the machine that it runs on, at the end of all that it says of itself.
var ofMachine = regexp.MustCompile(`"system_env":\{.*\}\}$`)

// keep writes a file of the recording.
func (r *recording) keep(name, how string, text []byte) {
	r.Helper()
	r.files[name] = how
	text = ofMachine.ReplaceAll(text, []byte(`"system_env":{}}`))
	must(r, os.WriteFile(filepath.Join(r.dir, name), []byte(r.neutral.Replace(string(text))), 0o644))
}

// many are the ids of a long prompt, which a README does not repeat.
var many = regexp.MustCompile(`(2000,){8,}`)

// ask keeps what a server answers: head and body. Without a body it is a GET.
func (r *recording) ask(name, path, body string) {
	r.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(body))
	must(r, err)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	must(r, err)
	defer answer.Body.Close()
	var text bytes.Buffer
	if filepath.Ext(name) == ".txt" && name != "metrics.txt" {
		fmt.Fprintf(&text, "%s %s\r\n", answer.Proto, answer.Status)
		must(r, answer.Header.Write(&text))
		text.WriteString("\r\n")
	}
	_, err = io.Copy(&text, answer.Body) // some answers break off
	if err != nil {
		fmt.Fprintf(&text, "\n%v\n", err)
	}
	short := many.ReplaceAllStringFunc(body, func(ids string) string { return fmt.Sprintf("… %d times 2000, … ", strings.Count(ids, ",")) })
	r.keep(name, strings.TrimSpace("`"+method+" "+path+"` "+short), text.Bytes())
}

// ends keeps all that a program of the engine's says that ends by itself, or is ended: a failed SGLang may hang.
func (r *recording) ends(name string, argv ...string) {
	r.Helper()
	cmd := r.starts(argv...)
	said, err := os.Create(filepath.Join(r.TempDir(), "said")) // whatever outlives the program holds no pipe that is waited for
	must(r, err)
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	must(r, cmd.Start())
	limit := time.AfterFunc(4*time.Minute, func() { cmd.Process.Kill() })
	cmd.Wait()
	how := fmt.Sprintf("exit code %d", cmd.ProcessState.ExitCode())
	if !limit.Stop() {
		how = "killed after 4 minutes"
	}
	text, err := os.ReadFile(said.Name())
	must(r, err)
	r.keep(name, fmt.Sprintf("`%s`, %s", strings.Join(argv, " "), how), text)
}

// fails keeps the log of a start that fails, beside the server that runs.
func (r *recording) fails(name string, serves []string, args ...string) {
	r.Helper()
	serves = slices.Clone(serves)
	if i := slices.Index(serves, "8000"); name != "port-taken" {
		serves[i] = "8001"
	}
	for _, flag := range args {
		if i := slices.Index(serves, flag); i >= 0 { // given twice, the engine warns of it
			serves = slices.Delete(serves, i, i+2)
		}
	}
	r.ends("log-fail-"+name+".txt", append(serves, args...)...)
}

// done keeps a server's log, and says what every file is.
func (r *recording) done() {
	r.Helper()
	log, err := os.ReadFile(r.log)
	must(r, err)
	r.keep("log.txt", "its log, from the start on", log)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nWritten by `make record-engines`. Paths and addresses are neutral; times mean nothing.\n\n| file | what |\n|---|---|\n", r.neutral.Replace(r.what))
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.ReplaceAll(r.neutral.Replace(r.files[name]), "|", "\\|"))
	}
	must(r, os.WriteFile(filepath.Join(r.dir, "README.md"), []byte(b.String()), 0o644))
}

// streams keeps answers of each endpoint, and errors, of a server whose context is 4096 tokens.
func (r *recording) streams() {
	r.Helper()
	ids := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("2000,", n), ",") + "]" }
	const sampling, usage = `"max_tokens":8,"temperature":0,"ignore_eos":true`, `"stream":true,"stream_options":{"include_usage":true}`
	const talk = `"messages":[{"role":"user","content":"one two three"}]`
	const tool = talk + `,"max_tokens":48,"temperature":0,"tool_choice":{"type":"function","function":{"name":"well"}},"tools":[{"type":"function",` +
		`"function":{"name":"well","parameters":{"type":"object","properties":{"is":{"type":"boolean"}},"required":["is"],"additionalProperties":false}}}]`
	for _, a := range []struct{ name, path, body string }{
		{"stream-completions.txt", "/v1/completions", `"prompt":` + ids(16) + "," + sampling + "," + usage},
		{"stream-completions-continuous-usage.txt", "/v1/completions", `"prompt":` + ids(16) + "," + sampling + `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`},
		{"stream-completions-text.txt", "/v1/completions", `"prompt":"one two three",` + sampling + "," + usage},
		{"stream-chat.txt", "/v1/chat/completions", talk + "," + sampling + "," + usage},
		{"stream-chat-tool.txt", "/v1/chat/completions", tool + "," + usage},
		{"stream-responses.txt", "/v1/responses", `"input":"one two three","max_output_tokens":8,"temperature":0,"stream":true`},
		{"whole-completions.txt", "/v1/completions", `"prompt":` + ids(16) + "," + sampling},
		{"whole-chat.txt", "/v1/chat/completions", talk + "," + sampling},
		{"whole-chat-tool.txt", "/v1/chat/completions", tool},
		{"whole-responses.txt", "/v1/responses", `"input":"one two three","max_output_tokens":8,"temperature":0`},
		{"beyond-context-prompt.txt", "/v1/completions", `"prompt":` + ids(9000) + "," + sampling},
		{"beyond-context-answer.txt", "/v1/completions", `"prompt":` + ids(4090) + `,"max_tokens":200,"temperature":0,"ignore_eos":true`},
		{"beyond-context-full.txt", "/v1/completions", `"prompt":` + ids(4096) + "," + sampling},
		{"beyond-context-chat.txt", "/v1/chat/completions", talk + `,"max_tokens":5000,"temperature":0`},
		{"error-bad-parameter.txt", "/v1/completions", `"prompt":` + ids(16) + `,"max_tokens":8,"temperature":-1`},
		{"error-no-prompt.txt", "/v1/completions", sampling},
		{"error-no-path.txt", "/v1/nothing", `"prompt":"one"`},
	} {
		r.ask(a.name, a.path, `{"model":"tiny",`+a.body+"}")
	}
	r.ask("error-unknown-model.txt", "/v1/completions", `{"model":"other","prompt":`+ids(16)+","+sampling+"}")
	r.ask("error-unknown-model-chat.txt", "/v1/chat/completions", `{"model":"other",`+talk+","+sampling+"}")
	r.ask("error-no-json.txt", "/v1/completions", "{")
	r.ask("models.json", "/v1/models", "")
}

// before keeps what a router says before the server.
func (r *recording) before(name string, port int, program ...string) *recording {
	r.Helper()
	s := *r.realServer
	s.engine.Bin, s.log, s.url = pypi.Routers(r.T), filepath.Join(r.TempDir(), "log"), fmt.Sprintf("http://%s:%d", r.host.IP, port)
	said, err := os.Create(s.log)
	must(r, err)
	argv := slices.Concat(program, strings.Fields(fmt.Sprintf("--host 0.0.0.0 --port %d --policy round_robin --disable-circuit-breaker --disable-retries "+
		"--prometheus-host 0.0.0.0 --prometheus-port %d --worker-urls http://127.0.0.1:8000", port, port+1)))
	cmd := s.starts(argv...)
	cmd.Stdout, cmd.Stderr = said, said
	must(r, cmd.Start())
	r.Cleanup(func() {
		cmd.Process.Kill() // what it has started ends with the host
		cmd.Wait()
		said.Close()
	})
	eventually(r.T, name+" serves", 3*time.Minute, func() bool {
		answer, err := http.Get(s.url + "/readiness")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	})
	routed := s.record(name)
	routed.streams()
	for _, path := range []string{"health", "readiness", "liveness", "version"} {
		routed.ask(path+".txt", "/"+path, "")
	}
	routed.ask("workers.json", "/workers", "")
	metrics := *routed.realServer
	metrics.url = fmt.Sprintf("http://%s:%d", r.host.IP, port+1)
	(&recording{realServer: &metrics, dir: routed.dir, neutral: routed.neutral, files: routed.files}).ask("metrics.txt", "/metrics", "")
	routed.what = name + " before one vLLM, `" + strings.Join(argv, " ") + "`."
	return routed
}

// TestRecordVLLM and TestRecordSGLang write the recordings of a version, for `make record-engines`.
func TestRecordVLLM(t *testing.T) {
	for _, version := range pypi.VersionsOr(pypi.Versions, pypi.VLLMVersion) {
		engine := pypi.VLLM(t, version, tokenizerOfReal)
		engine.Env["VLLM_SERVER_DEV_MODE"] = "1"
		serves, more := vllmServes(engine), strings.Fields("--enable-prompt-tokens-details --enable-auto-tool-choice --tool-call-parser hermes")
		r := serveReal(t, engine, "vllm:", append(serves, more...)...).record("vllm-" + version)
		r.streams()
		r.ask("error-token-out-of-vocabulary.txt", "/v1/completions", `{"model":"tiny","prompt":[9999999],"max_tokens":8}`)
		r.ask("error-no-embeddings.txt", "/v1/embeddings", `{"model":"tiny","input":"one"}`)
		r.ask("reset-prefix-cache.txt", "/reset_prefix_cache", "{}")
		r.ask("version.json", "/version", "")
		r.ask("server_info.json", "/server_info?config_format=json", "")
		r.ask("metrics.txt", "/metrics", "")
		routers := []*recording{
			r.before("vllm-router-0.1.17", 9000, "vllm-router"),
			r.before("sglang-router-0.3.2", 9100, "python3", "-m", "sglang_router.launch_router"),
		}
		r.ends("help.txt", "vllm", "serve", "--help=all")
		r.fails("bad-int", serves, "--max-num-seqs", "abc")
		r.fails("unknown-flag", serves, "--no-such-flag")
		r.fails("dtype-invalid", serves, "--dtype", "float17")
		r.fails("max-model-len-too-large", serves, "--max-model-len", "100000")
		r.fails("kv-cache-too-small", serves, "--num-gpu-blocks-override", "4")
		r.fails("port-taken", serves)
		r.what = "vLLM " + version + " on processors, `" + strings.Join(append(serves, more...), " ") + "` with VLLM_SERVER_DEV_MODE=1."
		r.done()
		r.dies("vllm serve")
		for _, routed := range routers {
			routed.ask("dead-worker.txt", "/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"one two three"}],"max_tokens":8}`)
			routed.ask("dead-worker-stream.txt", "/v1/completions", `{"model":"tiny","prompt":"one two three","max_tokens":8,"stream":true}`)
			routed.done()
		}
	}
}

// dies ends the server at once.
func (r *recording) dies(title string) {
	r.Helper()
	must(r, r.host.Command("pkill", "-KILL", "-f", title).Run())
	eventually(r.T, "the server is gone", time.Minute, func() bool {
		answer, err := http.Get(r.url + "/health")
		if err == nil {
			answer.Body.Close()
		}
		return err != nil
	})
}

func TestRecordSGLang(t *testing.T) {
	for _, version := range pypi.VersionsOr(pypi.SGLangVersions, pypi.SGLangVersion) {
		engine := pypi.SGLang(t, version, tokenizerOfReal)
		serves, more := sglangServes(engine), strings.Fields("--enable-cache-report --context-length 4096 --tool-call-parser hermes")
		r := serveReal(t, engine, "sglang:", append(serves, more...)...).record("sglang-" + version)
		r.streams()
		r.ask("stream-generate.txt", "/generate", `{"input_ids":[2000,2001,2002],"sampling_params":{"max_new_tokens":8,"temperature":0,"ignore_eos":true},"stream":true}`)
		r.ask("flush-cache.txt", "/flush_cache", "{}")
		r.ask("server_info.json", "/server_info", "")
		r.ask("loads.json", "/v1/loads", "")
		r.ask("metrics.txt", "/metrics", "")
		r.ends("help.txt", "python3", "-m", "sglang.launch_server", "--help")
		r.fails("parse-int", serves, "--tp-size", "two")
		r.fails("parse-unknown", serves, "--no-such-flag")
		r.fails("parse-ambiguous", serves, "--pp", "2")
		r.fails("low-mem", serves, "--mem-fraction-static", "0.0001")
		r.what = "SGLang " + version + " on processors, `" + strings.Join(append(serves, more...), " ") + "`."
		r.done()
	}
}
