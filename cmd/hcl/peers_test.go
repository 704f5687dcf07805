package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"hclbench/capacity"
	"hclbench/load"
	"hclbench/load/measure"
	"hclbench/sim"
	"hclbench/testhost/pypi"
)

// The tools that are held beside hcl's search.
const (
	guideLLM = "guidellm==0.8.1"
	aiPerf   = "aiperf==0.13.0"
)

// searcher asks a server how many requests in flight it holds. 0: it names no such load.
type searcher struct {
	name string
	find func(ctx context.Context, t *testing.T, url string) (holds, breaks float64, err error)
}

// peerQuestion is what all of them are asked.
func peerQuestion() capacity.Question {
	return capacity.Question{SLO: []load.Objective{{Metric: "ttft", Percentile: 95, Max: load.Duration(400 * time.Millisecond)}},
		Least: 1, Most: 128, Whole: true, Confidence: 0.95, Precision: 0.05, Budget: 6000}
}

// TestPeers prints what each tool finds of servers whose truth is known, and how many requests it has sent. It fails where hcl's own
// answer is wrong, or where a tool gives none at all.
func TestPeers(t *testing.T) {
	const tokens = 4
	q := peerQuestion()
	guide, perf := pypi.Peer(t, guideLLM), pypi.Peer(t, aiPerf)
	tokenizer := pypi.VLLM(t, pypi.VLLMVersion, tokenizerOfReal).Model
	searchers := []searcher{
		{"hcl bench --capacity", ownSearch},
		{"bisection, 100 a load", bisection(100)},
		{"bisection, 1,000 a load", bisection(1000)},
		{"GuideLLM 0.8.1, goodput, 300 a probe", func(ctx context.Context, t *testing.T, url string) (holds, breaks float64, err error) {
			found, err := guided(ctx, t, guide, tokenizer, url, `{"kind":"goodput","initial_streams":4,"max_streams":128}`, 300)
			return numberAt(found, "best_passing_streams"), numberAt(found, "lowest_failing_streams"), err
		}},
		{"GuideLLM 0.8.1, knee, 300 a point", func(ctx context.Context, t *testing.T, url string) (holds, breaks float64, err error) {
			found, err := guided(ctx, t, guide, tokenizer, url, `{"kind":"knee","initial_streams":[1,8,16,32,64,128]}`, 300)
			return numberAt(found, "knee"), 0, err
		}},
		{"AIPerf 0.13.0, --search-sla, 300 a probe", func(ctx context.Context, t *testing.T, url string) (holds, breaks float64, err error) {
			return aiPerfSearch(ctx, t, perf, tokenizer, url)
		}},
	}
	for _, world := range []struct {
		name string
		sim.Config
	}{
		{"smooth", sim.Config{Table: speeds(1, 60, 64, 560), Spread: 0.25}},
		{"cliff", sim.Config{Table: speeds(24, 100, 25, 700), Spread: 0.1}},
		{"noisy", sim.Config{Table: speeds(1, 40, 64, 240), Spread: 0.6, FailEvery: 50}},
	} {
		w := load.Workload{OutputTokens: tokens}
		holds, breaks, err := trulyHolds(world.Config, q, w, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		least, _, err := trulyHolds(world.Config, q, w, 1, adds)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range searchers {
			t.Run(world.name+"/"+s.name, func(t *testing.T) {
				engine := sim.New(world.Config)
				server := httptest.NewServer(engine)
				defer server.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				started := time.Now()
				low, high, err := s.find(ctx, t, server.URL)
				if err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
				var o capacity.Outcome
				if low > 0 {
					o.Holds = &low
				}
				if high > 0 {
					o.Breaks = &high
				}
				verdict := "right"
				switch {
				case o.Holds == nil && o.Breaks == nil:
					verdict = "no answer"
				case !o.Agrees(least, breaks):
					verdict = "wrong"
				}
				fmt.Printf("| %s | %.0f | %s | %.3g | %.3g | %d | %s | %s |\n", world.name, holds, s.name, low, high, engine.Truth().Requests,
					time.Since(started).Round(time.Second), verdict)
				if verdict == "wrong" && strings.HasPrefix(s.name, "hcl") {
					t.Errorf("it holds %v, and hcl says %v to %v", holds, low, high)
				}
			})
		}
	}
}

// speeds are how long the first token takes at two loads, in milliseconds.
func speeds(from, ms, to, more int) sim.Table {
	at := func(n, ms int) sim.Point {
		return sim.Point{Concurrency: n, TTFT: time.Duration(ms) * time.Millisecond, ITL: time.Millisecond}
	}
	return sim.Table{at(from, ms), at(to, more)}
}

func ownSearch(ctx context.Context, t *testing.T, url string) (holds, breaks float64, err error) {
	q := peerQuestion()
	var o benchOptions
	o.add(&cobra.Command{})
	o.said = func(string) bool { return false }
	o.format, o.capacity = "json", capacityFlags{of: "concurrency", within: "1-128", budget: "6000", confidence: q.Confidence, precision: q.Precision}
	o.Workload.SLO, o.Workload.Dataset.InputTokens, o.Workload.OutputTokens = q.SLO, 16, 4
	var stdout, stderr bytes.Buffer
	if err := runBench(ctx, &console{stdout: &stdout, stderr: &stderr}, o, []string{url}); err != nil {
		return 0, 0, fmt.Errorf("%w\n%s", err, &stderr)
	}
	var found capacity.Outcome
	if err := json.Unmarshal(stdout.Bytes(), &found); err != nil {
		return 0, 0, err
	}
	if found.Holds != nil {
		holds = *found.Holds
	}
	if found.Breaks != nil {
		breaks = *found.Breaks
	}
	return holds, breaks, nil
}

// bisection doubles the load until it breaks by the requests that were sent, so many a load, and halves what is between.
func bisection(requests int) func(context.Context, *testing.T, string) (holds, breaks float64, err error) {
	return func(ctx context.Context, _ *testing.T, url string) (holds, breaks float64, err error) {
		q := peerQuestion()
		for at := 4.0; ; {
			job := load.Job{Target: load.Target{BaseURL: url, Model: sim.DefaultModel}, Seed: uint64(at)}
			job.Workload = load.Workload{Endpoint: load.Completions, Dataset: load.Dataset{Kind: load.Random, InputTokens: 16}, OutputTokens: 4,
				IgnoreEOS: true, Requests: requests, Concurrency: int(at)}
			result, err := measure.Run(ctx, job, nil)
			if err != nil {
				return 0, 0, err
			}
			within := 0
			for i := range result.Records {
				if v, ok := q.SLO[0].Of(&result.Records[i]); ok && v <= time.Duration(q.SLO[0].Max) {
					within++
				}
			}
			if float64(within) >= 0.95*float64(len(result.Records)) {
				holds = at
			} else {
				breaks = at
			}
			switch {
			case breaks == 0 && at == q.Most, holds == 0 && at == q.Least, breaks > 0 && holds > 0 && breaks <= max(holds+1, holds*(1+q.Precision)):
				return holds, breaks, nil
			case breaks == 0:
				at = min(2*at, q.Most)
			case holds == 0:
				at = q.Least
			default:
				at = min(max(math.Round(math.Sqrt(holds*breaks)), holds+1), breaks-1)
			}
		}
	}
}

// guided is what GuideLLM has written of a search.
func guided(ctx context.Context, t *testing.T, bin, tokenizer, url, profile string, requests int) (any, error) {
	out := filepath.Join(t.TempDir(), "found.json")
	err := peer(ctx, t, bin, "guidellm", []string{"GUIDELLM__MAX_WORKER_PROCESSES=1"}, "run",
		"--backend", "kind=openai_http,target="+url+",model="+sim.DefaultModel+",request_format=/v1/completions",
		"--tokenizer", "kind=hf_auto,model="+tokenizer, "--data", "kind=synthetic_text,prompt_tokens=16,output_tokens=4", "--profile", profile,
		"--metrics", `{"kind":"generative","slo":{"ttft_ms":400}}`, "--constraint", fmt.Sprintf("kind=max_requests,count=%d", requests),
		"--output", fmt.Sprintf(`{"kind":"json","path":%q}`, out), "--disable-console-interactive")
	if err != nil {
		return nil, err
	}
	return readJSON(out)
}

func aiPerfSearch(ctx context.Context, t *testing.T, bin, tokenizer, url string) (holds, breaks float64, err error) {
	dir, hub := t.TempDir(), t.TempDir()
	// Offline it takes a tokenizer out of the hub's cache, and no path.
	const commit = "0000000000000000000000000000000000000001"
	cached := filepath.Join(hub, "models--hcl--sim")
	for _, err := range []error{os.MkdirAll(filepath.Join(cached, "refs"), 0o755), os.MkdirAll(filepath.Join(cached, "snapshots"), 0o755),
		os.WriteFile(filepath.Join(cached, "refs", "main"), []byte(commit), 0o644), os.Symlink(tokenizer, filepath.Join(cached, "snapshots", commit))} {
		if err != nil {
			return 0, 0, err
		}
	}
	// Its warm-ups of a minute are for caches and graphs, of which a simulated engine has none.
	err = peer(ctx, t, bin, "aiperf", []string{"AIPERF_SEARCH_PLANNER_FIRST_PROBE_WARMUP_FLOOR=1", "AIPERF_SEARCH_PLANNER_REPLICATE_WARMUP_FLOOR=1",
		"AIPERF_SEARCH_PLANNER_DEFAULT_WARMUP_SECONDS=1", "HF_HUB_CACHE=" + hub}, "profile", "-m", sim.DefaultModel, "-u", url, "--endpoint-type", "completions", "--streaming",
		"--tokenizer", "hcl/sim", "--isl", "16", "--osl", "4", "--ui", "none", "--random-seed", "1", "--output-artifact-dir", dir,
		"--search-space", "phases.profiling.concurrency:1,128:int", "--search-metric", "request_throughput", "--search-direction", "maximize",
		"--search-max-iterations", "12", "--search-planner", "smooth-isotonic", "--search-sla", "time_to_first_token:p95:le:400", "--request-count", "300")
	if err != nil {
		return 0, 0, err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "search_history.json" {
			return err
		}
		found, err := readJSON(path)
		summary := named(found, "boundary_summary")
		holds, breaks = numberAt(named(summary, "feasible_max"), "value"), numberAt(named(summary, "infeasible_min"), "value")
		return err
	})
	return holds, breaks, err
}

// peer runs another tool to its end.
func peer(ctx context.Context, t *testing.T, bin, program string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + cmd.Dir, "HF_HUB_OFFLINE=1"}, env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, said[max(0, len(said)-4000):])
	}
	return nil
}

func readJSON(file string) (found any, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return found, json.Unmarshal(text, &found)
}

// named is the first value of that name anywhere in a document; nil: there is none.
func named(in any, name string) any {
	switch in := in.(type) {
	case map[string]any:
		if v := in[name]; v != nil {
			return v
		}
		for _, v := range in {
			if found := named(v, name); found != nil {
				return found
			}
		}
	case []any:
		for _, v := range in {
			if found := named(v, name); found != nil {
				return found
			}
		}
	}
	return nil
}

func numberAt(in any, name string) float64 {
	f, _ := named(in, name).(float64)
	return f
}
