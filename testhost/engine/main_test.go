package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test binary the engine when a test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("ENGINE_TEST") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// engine is a running engine.
type engine struct {
	cmd *exec.Cmd
	log *bufio.Reader
}

func start(t *testing.T, fault string, args ...string) *engine {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Args = args
	cmd.Env = append(os.Environ(), "ENGINE_TEST=1", "ENGINE_FAULT="+fault, "ENGINE_TTFT=1ms", "ENGINE_ITL=1ms", "HCL_SIM_STOP_AFTER=20")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &engine{cmd: cmd, log: bufio.NewReader(out)}
}

// until reads the log up to a line that matches and returns the match.
func (e *engine) until(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var read strings.Builder
	for {
		line, err := e.log.ReadString('\n')
		read.WriteString(line)
		if found := re.FindString(line); found != "" {
			return found
		}
		if err != nil {
			t.Fatalf("log has no %q: %v in\n%s", pattern, err, read.String())
		}
	}
}

// exit reads the rest of the log and returns it with the exit status.
func (e *engine) exit(t *testing.T) (code int, log string) {
	t.Helper()
	text, err := io.ReadAll(e.log)
	if err != nil {
		t.Fatal(err)
	}
	err = e.cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return e.cmd.ProcessState.ExitCode(), string(text)
}

// stream asks for tokens and returns what came before the deadline.
func stream(t *testing.T, url string, within time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	body := strings.NewReader(`{"model":"m","prompt":"a","max_tokens":20,"stream":true}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

const address = `http://\S+`

// long is more than an answer ever takes here.
const long = 20 * time.Second

// reach is the address in the log, in a form that can be dialled.
func reach(url string) string {
	return strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(url)
}

func TestServes(t *testing.T) {
	for _, args := range [][]string{
		{"/usr/local/bin/vllm", "serve", "m", "--port", "0"},
		{"python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m", "--port", "0"},
		{"/usr/bin/python3", "-m", "sglang.launch_server", "--model-path", "m", "--port", "0"},
		{"trtllm-serve", "m", "--port", "0"},
	} {
		e := start(t, "", args...)
		url := reach(e.until(t, address))
		if got, err := stream(t, url, long); err != nil || !strings.Contains(got, "[DONE]") {
			t.Errorf("%v streams %q, %v; want it to end with [DONE]", args, got, err)
		}
		if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, _ := e.exit(t); code != 0 {
			t.Errorf("%v exits with %d on SIGTERM, want 0", args, code)
		}
	}
}

// TestMembers starts prefill, decode and a router by the names that they have, and asks through it.
func TestMembers(t *testing.T) {
	const (
		sglang = "python3 -m sglang.launch_server --model-path m --disaggregation-mode ROLE --disaggregation-bootstrap-port DOOR"
		vllm   = `vllm serve m --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_both"}`
	)
	t.Setenv("VLLM_NIXL_SIDE_CHANNEL_HOST", "127.0.0.1")
	for router, worker := range map[string]string{
		"python3 -m sglang_router.launch_router --pd-disaggregation": sglang,
		"/usr/local/bin/smg launch --pd-disaggregation":              sglang,
		"/usr/local/bin/vllm-router --vllm-pd-disaggregation":        vllm,
		"trtllm-serve disaggregated":                                 "trtllm-serve m",
	} {
		t.Run(router, func(t *testing.T) {
			var url, door []string
			for i, role := range []string{"prefill", "decode"} {
				door = append(door, freePort(t))
				t.Setenv("VLLM_NIXL_SIDE_CHANNEL_PORT", door[i])
				command := strings.NewReplacer("ROLE", role, "DOOR", door[i]).Replace(worker) + " --host 127.0.0.1 --port 0"
				url = append(url, start(t, "", strings.Fields(command)...).until(t, address))
			}
			port := freePort(t)
			command := fmt.Sprintf("%s --prefill %s %s --decode %s --host 127.0.0.1 --port %s", router, url[0], door[0], url[1], port)
			if worker == "trtllm-serve m" {
				file := filepath.Join(t.TempDir(), "config.yaml")
				text := fmt.Sprintf(`{"hostname":"127.0.0.1","port":%s,"context_servers":{"urls":[%q]},"generation_servers":{"urls":[%q]}}`,
					port, strings.TrimPrefix(url[0], "http://"), strings.TrimPrefix(url[1], "http://"))
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				command = router + " --config_file " + file
			}
			t.Setenv("HCL_SIM_BREAK_AFTER", "1")
			front := start(t, "", strings.Fields(command)...).until(t, address)
			if got, err := stream(t, front, long); err != nil || !strings.Contains(got, "[DONE]") {
				t.Errorf("streams %q, %v; want it to end with [DONE]", got, err)
			}
			if got, err := stream(t, front, long); err != nil || !strings.Contains(got, "circuits open") {
				t.Errorf("after the one request of HCL_SIM_BREAK_AFTER: %q, %v", got, err)
			}
		})
	}
}

// TestRank has a rank die as its environment says, and one refuse what only whole engines do.
func TestRank(t *testing.T) {
	rank := []string{"vllm", "serve", "m", "--nnodes", "2", "--node-rank", "1", "--headless",
		"--master-addr", "127.0.0.1", "--master-port", freePort(t)}
	if code, log := start(t, "exit-after=1", rank...).exit(t); code != 1 || !strings.Contains(log, "HCL_SIM_… says") {
		t.Errorf("exit status %d, log %q; want 1 and what to say instead", code, log)
	}
	t.Setenv("HCL_SIM_DIE_AFTER", "1ms")
	code, log := start(t, "", rank...).exit(t)
	if code != 1 || !strings.Contains(log, "headless") || !strings.Contains(log, "told to die") {
		t.Errorf("exit status %d, log %q; want 1, and that it was told to die", code, log)
	}
}

// freePort is a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestFaults(t *testing.T) {
	command := []string{"vllm", "serve", "m", "--port", "0"}

	t.Run("exit", func(t *testing.T) {
		code, log := start(t, "exit", command...).exit(t)
		if code != 3 || !strings.Contains(log, "OSError") {
			t.Errorf("exit status %d, log %q; want 3 and an OSError", code, log)
		}
	})
	t.Run("never-ready", func(t *testing.T) {
		e := start(t, "never-ready", "vllm", "serve", "m", "--host", "127.0.0.1", "--port", "0")
		url := e.until(t, address)
		resp, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("/health = %d, want 503", resp.StatusCode)
		}
	})
	t.Run("hang-after", func(t *testing.T) {
		url := reach(start(t, "hang-after=1", command...).until(t, address))
		if got, err := stream(t, url, long); err != nil || !strings.Contains(got, "[DONE]") {
			t.Errorf("first request streams %q, %v", got, err)
		}
		if got, err := stream(t, url, 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(got, "data: ") {
			t.Errorf("second request streams %q, %v; want the beginning and then nothing", got, err)
		}
	})
	t.Run("exit-after", func(t *testing.T) {
		e := start(t, "exit-after=0", command...)
		if got, err := stream(t, reach(e.until(t, address)), long); err == nil || !strings.Contains(got, "data: ") {
			t.Errorf("request streams %q, %v; want the beginning and then an error", got, err)
		}
		if code, _ := e.exit(t); code != 137 {
			t.Errorf("exit status %d, want 137", code)
		}
	})
	t.Run("ignore-term", func(t *testing.T) {
		e := start(t, "ignore-term", command...)
		url := reach(e.until(t, address))
		for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
			if err := e.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := stream(t, url, long); err != nil || !strings.Contains(got, "[DONE]") {
			t.Errorf("after SIGTERM and SIGINT: %q, %v; want an answer", got, err)
		}
	})
	t.Run("fatal-log", func(t *testing.T) {
		e := start(t, "fatal-log,slow-start=80ms", command...)
		e.until(t, `Loading safetensors checkpoint shards:  87%`)
		e.until(t, `OutOfMemoryError: CUDA out of memory`)
		if err := e.cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the engine is gone: %v; want it to live on", err)
		}
	})
	t.Run("unknown", func(t *testing.T) {
		if code, log := start(t, "flood", command...).exit(t); code != 1 || !strings.Contains(log, "flood") {
			t.Errorf("exit status %d, log %q; want 1 and the word", code, log)
		}
	})
}
