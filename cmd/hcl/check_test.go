package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hclbench/provision"
	"hclbench/results"
	"hclbench/testhost"
)

// findings are those of hcl check on the lab's one host, by what was checked.
func (u *person) findings() (by map[string]provision.Finding, said string, code int) {
	u.Helper()
	out, said, code := u.run("check", "--json")
	var shown struct {
		Hosts []struct{ Findings []provision.Finding }
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || len(shown.Hosts) != 1 {
		u.Fatalf("%v: %s%s", err, out, said)
	}
	by = map[string]provision.Finding{}
	for _, f := range shown.Hosts[0].Findings {
		by[f.Check] = f
	}
	return by, out + said, code
}

// TestCheck: a user looks at two boxes, one of which somebody else uses, and is kept from using it.
func TestCheck(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true, GPU: "8xH200"})
	lab := strings.NewReplacer("%LEASE%", "1m", "%HOST%", `%HOST%
  gpus    = "8xH200"
  runtime = "process"
  require {
    driver    = ">= 550.144"
    idle_gpus = true
  }`, `image = "vllm/vllm-openai:v0.7.3"`, `command = ["sleep", "60"]`).Replace(slowLab)
	u := newPerson(t, host, lab)
	u.env = []string{"HF_ENDPOINT=http://127.0.0.1:9"} // discard: nobody listens
	found, said, code := u.findings()
	if code != exitDone || found["gpus"].Level != "ok" || found["driver"].Level != "ok" || found["gpu users"].Level != "ok" {
		t.Errorf("a good box: exit %d\n%s", code, said)
	}
	must(t, host.UseGPUs(testhost.GPUUse{GPU: 2, PID: 4711, MiB: 20000, Name: "python3"}))
	if found, said, code = u.findings(); code != exitContract || found["gpu users"].Level != "blocked" {
		t.Errorf("a box that somebody uses: exit %d\n%s", code, said)
	}
	u.tells("check", exitContract, "python3 (process 4711, 20000 MiB)", "host box (lab.hcl:7)", "of 1 host, 1 cannot be used")
	u.tells("apply", exitContract, "gpu users: python3 (process 4711")
}

// TestProveGPUs: a program of the engine's Python measures GPUs, and who is slow is named. What does not go is told; what is interrupted leaves
// nothing behind.
func TestProveGPUs(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true, GPU: "8xH200"})
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o644))
	u := newPerson(t, host, `
lab "proof" { lease = "1m" }
host "box" {
  %HOST%
  gpus    = "8xH200"
  runtime = "process"
}
model "m" { repo = "`+dir+`" }
engine "vllm" "a" {
  host    = host.box
  model   = model.m
  version = "0.11.0"
  command = ["false"]
}
`+benchmarkOf("engine.vllm.a", "concurrency = [1]", 8, "matrix.concurrency", 4))
	var gpus []provision.GPUSpeed
	for i := range 8 {
		g := provision.GPUSpeed{Name: "NVIDIA H200", Memory: 4e12, To: 52e9, From: 52e9, Peers: slices.Repeat([]float64{380e9}, 8)}
		g.Peers[i] = 0
		gpus = append(gpus, g)
	}
	gpus[5].Memory, gpus[2].To = 2.5e12, 13e9
	answer, err := json.Marshal(map[string]any{"gpus": gpus})
	must(t, err)
	says := func(script string) { must(t, host.Install("python3", "#!/bin/sh\n"+script)) }
	says("[ \"$1 $3 $4\" = '-c cuda 1073741824' ] || exit 9\ncat <<'END'\nsome warning\n" + string(answer) + "\nEND\n")
	u.tells("check --prove", exitFailed, "measuring its GPUs", "gpu5 2.50 TB/s", "gpu2 13.0 GB/s", "gpu links", "380.0 GB/s", "have it reset or replaced")
	says("echo 'its Python has no PyTorch' >&2; exit 1\n")
	u.tells("check --prove", exitFailed, "gpu memory speed", "not measured: its Python has no PyTorch")
	says("exec sleep 600\n")
	cmd := u.command("check", "--prove")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	must(t, cmd.Start())
	eventually(t, "something measures", time.Minute, func() bool { return host.Command("pgrep", "-f", "sleep 600").Run() == nil })
	must(t, cmd.Process.Signal(os.Interrupt))
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("interrupted: exit %d\n%s", code, &said)
	}
	if host.Command("pgrep", "-f", "sleep 600").Run() == nil {
		t.Errorf("what measured is still there\n%s", &said)
	}
}

// TestProve: an engine that is started several times tells how small a difference a box can show, which compare then
// says of what the lab measures there. What it measured is no result of the lab.
func TestProve(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true})
	u := newPerson(t, host, `
lab "proof" { lease = "1m" }
host "box" {
  %HOST%
  runtime = "process"
}
engine "sim" "first" {
  host  = host.box
  flags = { ttft = "20ms", itl = "5ms" }
}
engine "sim" "other" { host = host.box }
`+benchmarkOf("matrix.engine", "\nengine = [engine.sim.first, engine.sim.other]\nconcurrency = [2, 3, 4]\n", 400, "matrix.concurrency", 4))
	out, said, code := u.run("check", "--prove", "--starts", "3", "--json")
	var shown struct {
		Hosts []struct{ Findings []provision.Finding }
		Noise results.Noise
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != exitDone && code != exitCells { // a busy machine makes cells suspect
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, said)
	}
	measured := func(f provision.Finding) bool { return f.Check == "memory speed" && strings.HasSuffix(f.Have, " GB/s") }
	if len(shown.Hosts) != 1 || !slices.ContainsFunc(shown.Hosts[0].Findings, measured) {
		t.Errorf("the host's memory was not measured: %+v", shown.Hosts)
	}
	n := shown.Noise
	if n.Engine != "sim.first" || n.Starts != 3 || n.Host != "box" || n.Box == "" || n.Spread["median_e2el_ms"] <= 0 || n.Spread["output_throughput"] <= 0 {
		t.Errorf("the noise is %+v", n)
	}
	store, err := results.Look(t.Context(), filepath.Join(u.lab, ".hcl"))
	must(t, err)
	defer store.Close()
	rows, err := store.Rows(t.Context(), results.Query{Run: n.RunID})
	must(t, err)
	loads := map[string]int{}
	for _, r := range rows {
		loads[fmt.Sprint(r.Job.Workload.Concurrency, " × ", r.Job.Workload.Requests)]++
	}
	if want := map[string]int{"2 × 64": 3, "4 × 64": 3}; !maps.Equal(loads, want) {
		t.Errorf("it has measured %v, want %v", loads, want)
	}
	u.tells("check --prove --engine sim.none", exitUsage, "no benchmark sends load to an engine sim.none")
	u.tells("check --prove --starts 1", exitUsage, "--starts is how often an engine is started: 2 to 20")
	u.tells("check --starts 3", exitUsage, "--starts does nothing without --prove")
	u.tells("report", exitDone, "No results.")
	u.edit("requests = 400", "requests = 8")
	u.tells("apply --auto-approve --only engine=sim.first", applied, "sim.first")
	out, said, _ = u.run("compare", "--metric", "median_e2el_ms", ".", ".")
	if !strings.Contains(out, "Host box cannot show less than") || !strings.Contains(out, "sim.first") {
		t.Errorf("compare does not name the noise:\n%s%s", out, said)
	}
}

// TestCheckModels: what hcl check says of models, wherever they are and come from,
// and that apply warns of the same before it starts anything.
func TestCheckModels(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true, GPU: "8xH200"})
	files := map[string][]byte{"config.json": []byte("{}")}
	for i := range 5 {
		files[fmt.Sprintf("model-%05d-of-00005.bin", i+1)] = bytes.Repeat([]byte{byte(i)}, 1<<20)
	}
	hub, gated := testhost.NewHub(t, "127.0.0.1:0", files), testhost.NewHub(t, "127.0.0.1:0", files)
	const token = "hf_canary-3e1"
	gated.Require(token)
	cache := func(names ...string) string {
		t.Helper()
		dir := t.TempDir()
		root := filepath.Join(dir, "hub", "models--org--model")
		snapshot := filepath.Join(root, "snapshots", hub.Commit)
		for _, d := range []string{"blobs", "refs", filepath.Join("snapshots", hub.Commit)} {
			must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
		}
		must(t, os.WriteFile(filepath.Join(root, "refs", "main"), []byte(hub.Commit), 0o644))
		for _, name := range names {
			blob := filepath.Join(root, "blobs", hub.Sum(name))
			must(t, errors.Join(os.WriteFile(blob, files[name], 0o644), os.Symlink(blob, filepath.Join(snapshot, name))))
		}
		return dir
	}
	small, broken := t.TempDir(), t.TempDir()
	if out, err := host.Command("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	must(t, os.WriteFile(filepath.Join(broken, "model.safetensors.index.json"), []byte(`{"weight_map":{"a":"model-00001-of-00001.safetensors"}}`), 0o644))

	type want struct{ level, have, advice string }
	check := func(env []string, blocks map[string]string, wants map[string]want) *person {
		t.Helper()
		text := `
lab "models" { lease = "1m" }
host "box" {
  %HOST%
  gpus    = "8xH200"
  runtime = "process"
}
`
		var engines []string
		for name, block := range blocks {
			text += fmt.Sprintf("model %[1]q {\n%[2]s\n}\nengine \"vllm\" %[1]q {\n  host = host.box\n  model = model.%[1]s\n}\n", name, block)
			engines = append(engines, "engine.vllm."+name)
		}
		u := newPerson(t, host, text+benchmarkOf("matrix.engine", "engine = ["+strings.Join(engines, ", ")+"]", 1, "1", 1))
		u.env = env
		found, said, _ := u.findings()
		if strings.Contains(said, token) {
			t.Error("the token is shown")
		}
		for name, w := range wants {
			f, ok := found["model "+name]
			if !ok {
				t.Fatalf("model %s has no line: %s", name, said)
			}
			if string(f.Level) != w.level || !strings.Contains(f.Have, w.have) || !strings.Contains(f.Advice, w.advice) || f.Want != "org/model" && !strings.HasPrefix(f.Want, "/") {
				t.Errorf("model %s: %+v, want %+v", name, f, w)
			}
		}
		return u
	}

	all := slices.Sorted(maps.Keys(files))
	in := func(cache string, more ...string) string {
		return fmt.Sprintf("repo = \"org/model\"\ncache = %q\n%s", cache, strings.Join(more, "\n"))
	}
	u := check([]string{"HF_ENDPOINT=" + hub.URL}, map[string]string{
		"whole": in(cache(all...)), "part": in(cache(all[:4]...), "download = true"), "none": in(cache(), "download = true"),
		"engines": in(cache(all[:2]...)), "small": in(small, "download = true"), "broken": fmt.Sprintf("repo = %q", broken),
	}, map[string]want{
		"whole":   {"ok", "whole, 6 files, 5.2 MB", ""},
		"part":    {"ok", "3.1 MB of 5.2 MB there, without model-00004-of-00005.bin, model-00005-of-00005.bin", ""},
		"none":    {"ok", "not there, 5.2 MB; ", ""},
		"engines": {"warning", "1.0 MB of 5.2 MB there, without model-00002-of-00005.bin, model-00003-of-00005.bin, model-00004-of-00005.bin and 1 more", "the engine fetches it at its start"},
		"small":   {"blocked", "not there, 5.2 MB; 2.1 MB of disk free", "5.2 MB are still to come and there is no room on " + small},
		"broken":  {"blocked", "model-00001-of-00001.safetensors is missing", "copy it there again"},
	})
	blocks := map[string]string{"fetched": in(cache(), "download = true"), "whole": in(cache(all...)), "engines": in(cache())}
	check([]string{"HF_ENDPOINT=" + gated.URL, "HF_TOKEN="}, blocks, map[string]want{
		"whole":   {"ok", "whole, 6 files, 5.2 MB, as it says itself", ""},
		"fetched": {"blocked", "not there", "set HF_TOKEN"},
		"engines": {"warning", "not there", "give the engine one with env"},
	})
	check([]string{"HF_ENDPOINT=" + gated.URL, "HF_TOKEN=" + token}, blocks, map[string]want{
		"fetched": {"ok", "not there, 5.2 MB; ", ""},
		"engines": {"warning", "not there", "give the engine one with env"},
	})

	// apply tells of what is not good, and no more, before it starts anything.
	cmd, out := u.start("apply", "--json", "--auto-approve")
	var warned []string
	for out.Scan() {
		var e struct{ Type, Message string }
		must(t, json.Unmarshal(out.Bytes(), &e))
		if name, ok := strings.CutPrefix(e.Message, "model "); ok && e.Type == "warning" {
			name, _, _ = strings.Cut(name, ":")
			warned = append(warned, name)
		}
		if e.Message == "starting" || strings.HasPrefix(e.Message, "looking for") {
			cmd.Process.Signal(os.Interrupt)
		}
	}
	cmd.Wait() // however it ends
	slices.Sort(warned)
	if diff := cmp.Diff([]string{"broken", "engines", "small"}, warned); diff != "" {
		t.Errorf("apply warns (-want +got):\n%s", diff)
	}
}
