// Engine is the program in the images of test hosts: the simulated engine behind
// the names that real images have (vllm, python3, trtllm-serve, vllm-router, smg), with
// faults, and as much of a shell as labs need. It is also what measures a fabric there.
//
// It takes the command line of the engine, rank or router that it is called as, or of that
// engine's offline benchmark. The environment, which comes with the image or with the
// container, steers it:
//
//	ENGINE_TTFT, ENGINE_ITL   times of the simulation, such as 20ms
//	HCL_SIM_…                 every other flag of the simulation, see sim.EnvFlags
//	ENGINE_FAULT              what goes wrong, several separated by commas; of ranks, roles
//	                          and routers what goes wrong with answers says HCL_SIM_…:
//	  exit            log lines of a failed start, then exit status 3
//	  exit-after=N    exit status 137 in the middle of the answer to the request after N
//	  never-ready     listens, and answers everything with 503 for ever
//	  hang-after=N    after N requests falls silent in the middle of streams
//	  grow-after=N    from the request after N on takes ever more memory, once it has a limit
//	  ignore-term     ends neither on SIGTERM nor on SIGINT
//	  miss-term       does not end on its first SIGTERM
//	  fatal-log       logs that CUDA is out of memory, and lives on without listening
//	  busy=N          keeps N threads busy for ever
//	  memory          has a file in /dev/shm, and leaves it there
//	  slow-start=DUR  logs how shards are loaded for so long, then starts
//
// It knows nothing of containers, and is never part of what is shipped.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"hclbench/sim"
)

func main() {
	args := os.Args
	if filepath.Base(args[0]) == "nvidia_entrypoint.sh" {
		runRest(args[1:])
	}
	args[0] = filepath.Base(args[0])
	if err := become(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// become is the program that it is called as.
func become(args []string) error {
	inline := len(args) > 1 && args[1] == "-c"
	switch {
	case args[0] == "pause":
		// It holds the network of a pod until it is told to end.
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		<-ended
		return nil
	case inline && args[0] == "sh" && len(args) == 3:
		return shell(args[2])
	case args[0] == "ibv_rc_pingpong", args[0] == "ib_write_bw":
		return railTool(args)
	case args[0] == "python3" && len(args) > 1 && filepath.Base(args[1]) == "allreduce.py":
		return allReduce(args[2:])
	case inline && args[0] == "python3" && len(args) == 4:
		// The one script that is run in engines' containers finds out versions.
		return os.WriteFile(args[3], []byte(`{"python": "3.12.9", "torch": "2.5.1+cu124", "vllm": "0.7.3"}`), 0o644)
	}
	if err := run(args, os.Environ()); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// runRest is what NVIDIA's entry point does last: it becomes the command.
func runRest(args []string) {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "engine: the entry point got no command")
		os.Exit(2)
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		err = syscall.Exec(path, args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "engine: exec %s: %v\n", args[0], err)
	os.Exit(127)
}

type faults struct {
	exit, neverReady, ignoreTerm, missTerm, fatalLog, memory bool
	exitAfter, hangAfter, growAfter                          int64 // requests; -1: never
	busy                                                     int64 // threads
	slowStart                                                time.Duration
}

func parseFaults(s string) (faults, error) {
	f := faults{exitAfter: -1, hangAfter: -1, growAfter: -1}
	flags := map[string]*bool{"exit": &f.exit, "never-ready": &f.neverReady, "ignore-term": &f.ignoreTerm, "miss-term": &f.missTerm, "fatal-log": &f.fatalLog, "memory": &f.memory}
	after := map[string]*int64{"exit-after": &f.exitAfter, "hang-after": &f.hangAfter, "grow-after": &f.growAfter, "busy": &f.busy}
	for word := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		var err error
		switch {
		case name == "":
		case flags[name] != nil:
			*flags[name] = true
		case after[name] != nil:
			*after[name], err = strconv.ParseInt(value, 10, 64)
		case name == "slow-start":
			f.slowStart, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("%q is not known", name)
		}
		if err != nil {
			return f, fmt.Errorf("ENGINE_FAULT=%s: %w", s, err)
		}
	}
	return f, nil
}

func run(args, environ []string) error {
	f, err := parseFaults(os.Getenv("ENGINE_FAULT"))
	if err != nil {
		return err
	}
	args = append(args, sim.EnvFlags(environ)...)
	for _, name := range []string{"TTFT", "ITL"} {
		if v := os.Getenv("ENGINE_" + name); v != "" {
			args = append(args, "--"+strings.ToLower(name), v)
		}
	}
	batch, offline, err := sim.BatchCommand(args)
	if err != nil {
		return err
	}
	var cfg sim.Config
	var listen string
	if !offline {
		if cfg, listen, err = sim.Command(args); err != nil {
			return err
		}
	}
	ctx := context.Background()
	if f.ignoreTerm {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	} else {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		go func() {
			if f.missTerm {
				<-signals
			}
			<-signals
			stop()
		}()
	}
	if f.exit {
		for _, line := range failedStart {
			fmt.Println(line)
		}
		os.Exit(3)
	}
	if f.memory {
		shared, err := os.CreateTemp("/dev/shm", "psm_")
		if err != nil {
			return err
		}
		defer shared.Close()
	}
	if !load(ctx, f.slowStart) {
		return nil
	}
	for range f.busy {
		go func() {
			for ctx.Err() == nil {
			}
		}()
	}
	if f.fatalLog {
		fmt.Println("ERROR 03-01 12:00:31 engine.py:400] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 139.72 GiB of which 414.69 MiB is free.")
		<-ctx.Done()
		return nil
	}
	if dir := os.Getenv("TRITON_CACHE_DIR"); dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "kernel.cubin"), []byte("compiled"), 0o644); err != nil {
			return err
		}
	}
	if offline {
		return batch.Run(ctx, os.Stdout)
	}
	return serve(ctx, f, cfg, listen)
}

// failedStart is what a vLLM says that does not find its model.
var failedStart = []string{
	"INFO 03-01 12:00:01 api_server.py:838] vLLM API server version 0.7.3",
	"Traceback (most recent call last):",
	`  File "/usr/local/lib/python3.12/dist-packages/vllm/engine/arg_utils.py", line 1119, in create_engine_config`,
	"    model_config = self.create_model_config()",
	"OSError: the model is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
}

// load logs the loading of weights for so long; false: told to end meanwhile.
func load(ctx context.Context, d time.Duration) bool {
	const shards = 8
	for n := range shards {
		if d == 0 {
			return true
		}
		fmt.Printf("Loading safetensors checkpoint shards: %3d%% Completed | %d/%d\n", 100*n/shards, n, shards)
		select {
		case <-time.After(d / shards):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// serve runs the engine with the faults that show in its answers.
func serve(ctx context.Context, f faults, cfg sim.Config, listen string) error {
	if !f.neverReady && f.exitAfter < 0 && f.hangAfter < 0 && f.growAfter < 0 {
		return sim.Serve(ctx, cfg, listen, os.Stdout)
	}
	if cfg.Routes != nil || cfg.Place != (sim.Place{}) {
		return fmt.Errorf("ENGINE_FAULT=%s: of one among others HCL_SIM_… says what goes wrong with its answers", os.Getenv("ENGINE_FAULT"))
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	url := "http://" + l.Addr().String()
	server := &http.Server{Handler: &faulty{faults: f, engine: sim.New(cfg)}}
	if f.neverReady {
		fmt.Println("loading, listening on", url)
	} else {
		for _, line := range sim.Banner(cfg.As, cfg.Model, url) {
			fmt.Println(line)
		}
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// faulty is an engine whose answers go wrong.
type faulty struct {
	faults
	engine   http.Handler
	requests atomic.Int64 // for generation
}

func (h *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.neverReady {
		http.Error(w, "loading", http.StatusServiceUnavailable)
		return
	}
	if r.Method != http.MethodPost {
		h.engine.ServeHTTP(w, r)
		return
	}
	n := h.requests.Add(1)
	switch {
	case h.exitAfter >= 0 && n > h.exitAfter:
		w = &cut{ResponseWriter: w, then: func() {
			fmt.Println("ERROR 03-01 12:03:31 engine.py:139] AsyncEngineDeadError: Background loop has errored already.")
			os.Exit(137)
		}}
	case h.growAfter >= 0 && n > h.growAfter:
		go grow()
		w = &cut{ResponseWriter: w, then: func() { <-r.Context().Done() }} // whatever comes until then, it dies in mid-answer
	case h.hangAfter >= 0 && n > h.hangAfter:
		w = &cut{ResponseWriter: w, then: func() { <-r.Context().Done() }}
	}
	h.engine.ServeHTTP(w, r)
}

// grow takes memory until the kernel has none left for us: once our container may not have all of the machine's.
func grow() {
	for !limited() {
		time.Sleep(10 * time.Millisecond)
	}
	var all [][]byte
	for {
		block := make([]byte, 8<<20)
		for i := range block {
			block[i] = byte(i) | 1 // a page that is not written is not there
		}
		all = append(all, block)
		runtime.KeepAlive(all)
	}
}

// limited reports whether our container has a limit of its memory, by cgroup v1 or v2.
func limited() bool {
	for _, file := range []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"} {
		text, _ := os.ReadFile(file)
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < 1<<40 {
			return true
		}
	}
	return false
}

// cut lets the first chunks of an answer through and then does something else.
type cut struct {
	http.ResponseWriter
	writes int
	then   func()
}

// kept is how many writes get through: enough for an answer to have begun.
const kept = 3

func (c *cut) Write(p []byte) (int, error) {
	c.writes++
	if c.writes > kept {
		c.then()
		return 0, http.ErrHandlerTimeout
	}
	return c.ResponseWriter.Write(p)
}

// Flush lets chunks leave as they are written.
func (c *cut) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// Unwrap gives [http.ResponseController] the connection.
func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// shell is /bin/sh -c for the scripts that labs have in tests: a command a line,
// of these, ended by the first that fails.
//
//	set -e                             nothing: it is always so
//	exec COMMAND…                      becomes the command, with runRest
//	echo TEXT…
//	fail TEXT…                         prints the text and fails
//	find DIR -mindepth 1 -delete       empties the folder
//	trtllm-build … --output_dir DIR …  writes DIR/rank0.engine, as the real one does
func shell(script string) error {
	for line := range strings.Lines(script) {
		words := shellWords(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "set":
		case "exec":
			runRest(words[1:])
		case "echo":
			fmt.Println(strings.Join(words[1:], " "))
		case "fail":
			return fmt.Errorf("%s", strings.Join(words[1:], " "))
		case "find":
			left, err := filepath.Glob(filepath.Join(words[1], "*"))
			if err != nil {
				return err
			}
			for _, path := range left {
				if err := os.RemoveAll(path); err != nil {
					return err
				}
			}
		case "trtllm-build":
			for i, w := range words[:len(words)-1] {
				if w == "--output_dir" {
					if err := os.WriteFile(filepath.Join(words[i+1], "rank0.engine"), []byte(line), 0o644); err != nil {
						return err
					}
				}
			}
		default:
			return fmt.Errorf("sh: %s: not found", words[0])
		}
	}
	return nil
}

// shellWord is what stands between blanks; single quotes keep blanks in it.
var shellWord = regexp.MustCompile(`(?:'[^']*'|[^' \n])+`)

func shellWords(line string) []string {
	words := shellWord.FindAllString(line, -1)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "'", "")
	}
	return words
}
