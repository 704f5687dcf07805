package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hclbench/capacity"
	"hclbench/report/say"
	"hclbench/results"
	"hclbench/testhost"
	"hclbench/testhost/pypi"
)

// realServer is a real engine that somebody has started by hand.
type realServer struct {
	*testing.T
	engine pypi.Engine
	host   *testhost.Host
	url    string
	sends  string // Prometheus names begin so: "vllm:"
	log    string // file
}

// starts is a program of the engine's on the server's host.
func (s *realServer) starts(argv ...string) *exec.Cmd {
	args := []string{"PATH=" + s.engine.Bin + ":/usr/bin:/bin", "COLUMNS=120"}
	for name, value := range s.engine.Env {
		args = append(args, name+"="+value)
	}
	return s.host.Command("env", append(args, argv...)...)
}

// serveReal starts it on a host, and returns when it is healthy.
func serveReal(t *testing.T, engine pypi.Engine, prefix string, argv ...string) *realServer {
	t.Helper()
	pypi.Room(t, 1)
	host := testhost.New(t, testhost.Options{Namespace: true})
	said, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	s := &realServer{T: t, engine: engine, host: host, url: "http://" + host.IP + ":8000", sends: prefix, log: said.Name()}
	cmd := s.starts(argv...)
	cmd.Stdout, cmd.Stderr = said, said
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill() // what it has started ends with the host
		if err := <-ended; t.Failed() {
			text, _ := os.ReadFile(said.Name())
			t.Logf("%q: %v\n%s", argv, err, text[max(0, len(text)-4096):])
		}
		said.Close()
	})
	eventually(t, fmt.Sprintf("%q serves", argv), 10*time.Minute, func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%q ended: %v", argv, err)
		default:
		}
		r, err := http.Get(s.url + "/health")
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
	return s
}

// vllmServes and sglangServes are how somebody starts them by hand.
func vllmServes(engine pypi.Engine) []string {
	return []string{"vllm", "serve", engine.Model, "--host", "0.0.0.0", "--port", "8000", "--served-model-name", "tiny", "--enforce-eager", "--max-model-len", "4096"}
}

func sglangServes(engine pypi.Engine) []string {
	return []string{"python3", "-m", "sglang.launch_server", "--model-path", engine.Model, "--served-model-name", "tiny", "--host", "0.0.0.0", "--port", "8000",
		"--device", "cpu", "--max-total-tokens", "65536", "--mem-fraction-static", "0.3", "--enable-metrics", "--sleep-on-idle"}
}

// counters are what the engine has counted and timed since it began, by name, all labels together.
func (s *realServer) counters() map[string]float64 {
	s.Helper()
	r, err := http.Get(s.url + "/metrics")
	must(s, err)
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	must(s, err)
	sums := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^`+s.sends+`(\w+)(?:\{.*\})? (\S+)$`).FindAllSubmatch(page, -1) {
		n, err := strconv.ParseFloat(string(m[2]), 64)
		must(s, err)
		sums[string(m[1])] += n
	}
	return sums
}

// clientRun is what a client writes of a run, in the words of vLLM's or SGLang's, and what the engine has counted and
// timed meanwhile.
type clientRun struct {
	Completed  int     `json:"completed"`
	Input      int     `json:"total_input_tokens"`
	Output     int     `json:"total_output_tokens"`
	TTFT       float64 `json:"mean_ttft_ms"`
	TPOT       float64 `json:"mean_tpot_ms"`
	ITL        float64 `json:"mean_itl_ms"`
	E2EL       float64 `json:"mean_e2el_ms"`
	E2ELatency float64 `json:"mean_e2e_latency_ms"` // SGLang's word

	served struct {
		input, output         int
		ttft, tpot, itl, e2el float64 // means in ms; NaN: the engine does not tell
	}
}

func (r clientRun) String() string {
	return fmt.Sprintf("%d done, TTFT %.1f TPOT %.2f ITL %.2f E2EL %.1f ms, %d and %d tokens; the engine: %v", r.Completed, r.TTFT, r.TPOT, r.ITL, r.E2EL, r.Input, r.Output, r.served)
}

// measured is a run of a client, which leaves a file.
func (s *realServer) measured(who string, run func(file string)) (r clientRun) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "run.json")
	before := s.counters()
	run(file)
	text, err := os.ReadFile(file)
	must(s, err)
	must(s, json.Unmarshal(bytes.ReplaceAll(text, []byte("Infinity"), []byte("0")), &r)) // as Python writes a rate
	r.E2EL += r.E2ELatency
	now := s.counters()
	more := func(name string) float64 { return now[name] - before[name] }
	mean := func(name string) float64 { return 1000 * more(name+"_sum") / more(name+"_count") }
	r.served.input, r.served.output = int(more("prompt_tokens_total")), int(more("generation_tokens_total"))
	r.served.ttft, r.served.e2el = mean("time_to_first_token_seconds"), mean("e2e_request_latency_seconds")
	r.served.tpot, r.served.itl = mean("request_time_per_output_token_seconds"), mean("inter_token_latency_seconds")
	s.Logf("%-6s %v", who, r)
	return r
}

// hcl bench measures the server, and writes what it has measured as another client does.
func (s *realServer) bench(format string, args ...[]string) clientRun {
	s.Helper()
	u := newLocal(s.T, "")
	return s.measured("hcl", func(file string) {
		out, said, code := u.run(slices.Concat([]string{"bench", s.url, "--format", format, "--output", file}, slices.Concat(args...))...)
		if code != exitDone && code != exitCells { // a busy machine may make it suspect
			s.Fatalf("hcl bench %q: exit %d\n%s%s", args, code, out, said)
		}
	})
}

// alike holds runs of hcl bench and of another client, made in turns, to each other. Requests and tokens are as many as
// the engine says. Times depend on what else this machine does, and on the client's own use of it: so they are held to
// those that the engine has taken of the same requests. Ours are not shorter, and not further away than its own client's.
func alike(t *testing.T, what string, ours, theirs []clientRun) {
	t.Helper()
	for i, r := range slices.Concat(ours, theirs) {
		// SGLang's client does not count a prompt that it sends as text.
		if r.Completed != requests || r.Output != r.served.output || i < len(ours) && r.Input != r.served.input {
			t.Errorf("%s: of %d requests: %v", what, requests, r)
		}
	}
	for name, of := range map[string]func(clientRun) (client, engine float64){
		"TTFT": func(r clientRun) (float64, float64) { return r.TTFT, r.served.ttft },
		"TPOT": func(r clientRun) (float64, float64) { return r.TPOT, r.served.tpot },
		"ITL":  func(r clientRun) (float64, float64) { return r.ITL, r.served.itl },
		"E2EL": func(r clientRun) (float64, float64) { return r.E2EL, r.served.e2el },
	} {
		factors := func(runs []clientRun) (mean, spread float64) {
			var all []float64
			for _, r := range runs {
				client, engine := of(r)
				all = append(all, client/engine)
				mean += client / engine / float64(len(runs))
			}
			return mean, slices.Max(all) - slices.Min(all)
		}
		m, spread := factors(ours)
		own, ownSpread := factors(theirs)
		t.Logf("%s: mean %s by the engine's clock ×%.3f (over %.3f), by its own client ×%.3f (over %.3f)", what, name, m, spread, own, ownSpread)
		if room := spread + ownSpread + 0.05; m < min(1, own)-room || m > max(1, own)+room {
			t.Errorf("%s: mean %s is ×%.3f of what the engine has seen, by its own client ×%.3f", what, name, m, own)
		}
	}
}

const (
	pairs    = 3
	requests = 48 // of each run
)

// lengths are what both clients are told of prompts, answers and pace.
var lengths = strings.Fields("--requests 48 --concurrency 4 --input-tokens 128 --output-tokens 32")

// TestPyPIVLLMClient holds hcl bench to `vllm bench serve`, with answers of one length, and with such as end by themselves.
func TestPyPIVLLMClient(t *testing.T) {
	for _, version := range pypi.VersionsOr(pypi.Versions, pypi.VLLMVersion) {
		t.Run(version, func(t *testing.T) {
			engine := pypi.VLLM(t, version, tokenizerOfReal)
			s := serveReal(t, engine, "vllm:", append(vllmServes(engine), "--no-enable-prefix-caching", "--max-num-seqs", strconv.Itoa(atOnce))...)
			client := engine.Client(t, pypi.VLLMClient)
			var stops []string // of the vocabulary every twelfth word ends an answer
			for id := 0; id < 30000; id += 12 {
				stops = append(stops, strconv.Itoa(id))
			}
			extra := `{"stop_token_ids":[` + strings.Join(stops, ",") + `]}`
			for name, says := range map[string]struct{ ours, theirs []string }{
				"one length":   {nil, []string{"--ignore-eos", "--temperature", "0"}},
				"natural ends": {[]string{"--stop-at-eos", "--temperature", "1", "--extra-body", extra}, []string{"--temperature", "1", "--extra-body", extra}},
			} {
				var ours, theirs []clientRun
				for i := range pairs {
					seed := []string{"--seed", strconv.Itoa(i + 1)}
					ours = append(ours, s.bench("vllm", lengths, seed, says.ours))
					theirs = append(theirs, s.measured("vllm", func(file string) {
						client.Run(slices.Concat([]string{"bench", "serve", "--base-url", s.url, "--model", "tiny", "--tokenizer", engine.Model,
							"--dataset-name", "random", "--random-input-len", "128", "--random-output-len", "32", "--num-prompts", "48", "--max-concurrency", "4",
							"--percentile-metrics", "ttft,tpot,itl,e2el", "--ready-check-timeout-sec", "0", "--save-result",
							"--result-dir", filepath.Dir(file), "--result-filename", filepath.Base(file)}, seed, says.theirs)...)
					}))
				}
				alike(t, name, ours, theirs)
			}
			s.holds()
		})
	}
}

// atOnce is how many requests the server of TestPyPIVLLMClient has room for, as many as are sent to it: whatever is beyond waits for one
// of them to end.
const atOnce = 4

// holds has hcl find how many requests in flight the server holds whose wait for the first token is at most two of such answers: more
// than it has room for, and not eight times as many. hcl bench does so, and an hcl apply that is killed in mid-search and goes on.
func (s *realServer) holds() {
	s.Helper()
	const least, most = atOnce / 2, 8 * atOnce
	const budget = 20000 // requests: a tenth is enough on a quiet machine
	answers := strings.Fields("--input-tokens 32 --output-tokens 8")
	slo := fmt.Sprintf("%.0fms", 2*s.bench("vllm", strings.Fields(fmt.Sprintf("--requests 480 --concurrency %d", atOnce)), answers).E2EL)
	holds := func(who string, o *capacity.Outcome, code int, said string) {
		s.Helper()
		s.Logf("%s: TTFT within %s: %s", who, slo, say.Capacity(o))
		doubted := slices.ContainsFunc(o.Loads, func(l capacity.Load) bool { return l.Doubt != "" }) // as on a busy machine
		if !doubted && (o.Holds == nil || o.Breaks == nil || code != exitDone) || !o.Agrees(atOnce, most) || !o.Over || o.Flaw != "" {
			s.Errorf("%s: of %d at once: exit %d, %+v\n%s", who, atOnce, code, o, said)
		}
		for _, l := range o.Loads {
			if l.Load < least || l.Load > most {
				s.Errorf("%s: %v is tried, beyond the range", who, l.Load)
			}
		}
	}
	served := func() float64 { return s.counters()["request_success_total"] }

	before := served()
	out, said, code := newLocal(s.T, "").run(append([]string{"bench", s.url, "--capacity", "concurrency", "--within", fmt.Sprintf("%d-%d", least, most),
		"--slo", "ttft_p90=" + slo, "--budget", strconv.Itoa(budget), "--precision", "1", "--format", "json"}, answers...)...)
	var found capacity.Outcome
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		s.Fatalf("hcl bench --capacity: exit %d, %v\n%s%s", code, err, out, said)
	}
	holds("hcl bench", &found, code, said)
	if n := served() - before; n != float64(found.Requests) {
		s.Errorf("hcl bench says %d requests, and the engine has served %.0f", found.Requests, n)
	}

	a := &scene{person: newLocal(s.T, fmt.Sprintf(`
lab "capacity" { lease = "30s" }
model "tiny" { repo = "tiny" }
engine "external" "e" {
  url   = %q
  model = model.tiny
}
dataset "random" "d" { input_tokens = 32 }
benchmark "b" {
  engine  = engine.external.e
  dataset = dataset.random.d
  capacity {
    of        = "concurrency"
    within    = [%d, %d]
    budget    = %d
    precision = 1
  }
  slo { ttft_p90 = %q }
  load { output_tokens = 8 }
}`, s.url, least, most, budget, slo))}
	a.begin()
	a.await("tried", "", 1)
	a.await("try", "", 2)
	a.kill()
	a.begin()
	code = a.end(5 * time.Minute)
	store, err := results.Open(s.Context(), storeDir(a.lab))
	must(s, err)
	defer store.Close()
	rows, err := store.Rows(s.Context(), results.Query{})
	must(s, err)
	tries, runs, requests := map[string]bool{}, map[string]bool{}, 0
	for _, r := range rows {
		if tries[r.ID] {
			s.Errorf("%v is measured twice", r.Axes)
		}
		tries[r.ID], runs[r.RunID] = true, true
		requests += r.Summary.Requests
	}
	all, err := store.Capacities(s.Context(), results.Query{Latest: true})
	must(s, err)
	if len(all) != 1 || len(runs) != 2 || all[0].Outcome.Requests != requests {
		s.Fatalf("%d tries of %d runs, %d requests; found %+v", len(rows), len(runs), requests, all)
	}
	holds("hcl apply", &all[0].Outcome, code, a.told())
}

// TestPyPISGLangClient holds hcl bench to SGLang's bench_serving, by its own endpoint and by OpenAI's. Chats are counted right
// too.
func TestPyPISGLangClient(t *testing.T) {
	for _, version := range pypi.VersionsOr(pypi.SGLangVersions, pypi.SGLangVersion) {
		t.Run(version, func(t *testing.T) {
			engine := pypi.SGLang(t, version, tokenizerOfReal)
			s := serveReal(t, engine, "sglang:", append(sglangServes(engine), "--disable-radix-cache")...)
			client := engine.Client(t, pypi.SGLangClient)
			for endpoint, backend := range map[string][]string{"generate": {"sglang", "--tokenize-prompt"}, "completions": {"sglang-oai"}} {
				var ours, theirs []clientRun
				for i := range pairs {
					seed := []string{"--seed", strconv.Itoa(i + 1)}
					ours = append(ours, s.bench("sglang", lengths, seed, []string{"--endpoint", endpoint}))
					theirs = append(theirs, s.measured("sglang", func(file string) {
						client.Run(slices.Concat([]string{"--base-url", s.url, "--model", "tiny", "--tokenizer", engine.Model,
							"--dataset-name", "random-ids", "--random-input-len", "128", "--random-output-len", "32", "--random-range-ratio", "1",
							"--num-prompts", "48", "--max-concurrency", "4", "--warmup-requests", "0", "--output-file", file, "--backend"}, backend, seed)...)
					}))
				}
				alike(t, endpoint, ours, theirs)
			}
			if r := s.bench("sglang", lengths, []string{"--endpoint", "chat"}); r.Completed != requests || r.Input != r.served.input || r.Output != r.served.output {
				t.Errorf("chat: %v", r)
			}
		})
	}
}
