package measure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hclbench/load"
	"hclbench/load/prompts"
	"hclbench/sim"
)

// What a process of a speed measurement is: the engine, the generator, or the
// least that a reader must do. Each has a core of its own.
const (
	roleVariable = "HCL_LOAD_ROLE"
	roleEngine   = "engine"
	roleLoad     = "load"
	roleLeast    = "least"
)

// TestMain is also the program of the processes that benchmarks start.
func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	work := map[string]func() (any, error){roleEngine: beEngine, roleLoad: beLoad, roleLeast: beLeast}[role]
	out, err := work()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

// effort is what a process found and what that cost it.
type effort struct {
	Summary load.Summary
	Events  int           // least: how many it counted
	CPU     time.Duration // while measuring
	Wall    time.Duration // of the measuring
	RSS     int64         // bytes, the most
}

func beEngine() (any, error) {
	var c sim.Config
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, in) // until the benchmark is over
		cancel()
	}()
	return nil, sim.Serve(ctx, c, "127.0.0.1:0", os.Stdout)
}

func beLoad() (any, error) {
	var job load.Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return nil, err
	}
	r, err := Run(context.Background(), job, nil)
	if err != nil {
		return nil, err
	}
	s := r.Summary
	return effort{Summary: s, CPU: time.Duration(s.CPUShare * s.Duration * float64(time.Second)), RSS: peakMemory()}, nil
}

// peakMemory is the most memory that this process has had, in bytes.
func peakMemory() int64 {
	status, _ := os.ReadFile("/proc/self/status") // rusage has what the parent had
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		return 0
	}
	kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kb << 10
}

// beLeast is the least that a reader must do: one thread, one epoll, one clock
// reading for each read, and a count of the events.
func beLeast() (any, error) {
	var job load.Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	w := job.Workload
	set, err := prompts.Open(context.Background(), job, w.Requests)
	if err != nil {
		return nil, err
	}
	queue := set.Queue(prompts.ForPrompt, w.Requests)
	host := strings.TrimPrefix(job.Target.BaseURL, "http://")
	addr, err := net.ResolveTCPAddr("tcp", host)
	if err != nil {
		return nil, err
	}
	to := &unix.SockaddrInet4{Port: addr.Port}
	copy(to.Addr[:], addr.IP.To4())
	poll, err := unix.EpollCreate1(0)
	if err != nil {
		return nil, err
	}
	next := 0
	post := func(fd int) error {
		session, _ := queue.Next()
		body := bytes.Join(session.Request().Body, nil)
		next++
		_, err := unix.Write(fd, fmt.Appendf(nil, "POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body))
		return err
	}
	var fds []int
	for range w.Concurrency {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return nil, err
		}
		if err := unix.Connect(fd, to); err != nil {
			return nil, err
		}
		unix.SetNonblock(fd, true)
		unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)})
		fds = append(fds, fd)
	}
	before, began := processorTime(), time.Now()
	for _, fd := range fds {
		if err := post(fd); err != nil {
			return nil, err
		}
	}
	buf := make([]byte, 64<<10)
	ready := make([]unix.EpollEvent, 512)
	stamps := make([]time.Time, 65536)
	counted := 0
	for left := w.Requests; left > 0; {
		n, err := unix.EpollWait(poll, ready, -1)
		if err != nil && err != unix.EINTR {
			return nil, err
		}
		for i := range max(n, 0) {
			fd := int(ready[i].Fd)
			got, err := unix.Read(fd, buf)
			if err == unix.EAGAIN {
				continue
			}
			if err != nil || got == 0 {
				return nil, fmt.Errorf("read: %d, %w", got, err)
			}
			stamps[fd] = time.Now()
			counted += bytes.Count(buf[:got], []byte("data: "))
			if bytes.HasSuffix(buf[:got], []byte("\r\n0\r\n\r\n")) {
				left--
				if next < w.Requests {
					if err := post(fd); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return effort{Events: counted, CPU: processorTime() - before, Wall: time.Since(began), RSS: peakMemory()}, nil
}

// onCore starts a process of this test's program that runs on one core.
func onCore(b *testing.B, core int, role string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	// A process may use the cores of the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		b.Fatal(err)
	}
	seen := 0
	for i := range 1024 {
		if all.IsSet(i) {
			if seen == core%all.Count() {
				one.Set(i)
			}
			seen++
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		b.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &all)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return cmd, in, bufio.NewReader(out)
}

// engineProcess starts an engine on the first core and returns its URL, and what
// tells the processor time that it has had.
func engineProcess(b *testing.B, c sim.Config) (url string, used func() time.Duration) {
	b.Helper()
	cmd, in, out := onCore(b, 0, roleEngine)
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	used = func() time.Duration {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		_, after, _ := strings.Cut(string(stat), ") ") // the name may have spaces
		fields := strings.Fields(after)
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ
	}
	if err := json.NewEncoder(in).Encode(c); err != nil {
		b.Fatal(err)
	}
	line, err := out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	go io.Copy(io.Discard, out)
	return regexp.MustCompile(`http://\S+`).FindString(line), used
}

// on runs a job in a process on the second core.
func on(b *testing.B, role string, job load.Job) (e effort) {
	b.Helper()
	cmd, in, out := onCore(b, 1, role)
	if err := json.NewEncoder(in).Encode(job); err != nil {
		b.Fatal(err)
	}
	in.Close()
	err := json.NewDecoder(out).Decode(&e)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		b.Fatal(err)
	}
	return e
}

func truthOf(b *testing.B, url string) (t sim.Truth) {
	b.Helper()
	resp, err := http.Get(url + "/sim/truth")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&t); err != nil {
		b.Fatal(err)
	}
	if resp, err = http.Post(url+"/sim/truth/reset", "", nil); err != nil {
		b.Fatal(err)
	}
	resp.Body.Close()
	return t
}

// figures are the values of several runs, of which the medians are reported.
type figures map[string][]float64

func (f figures) add(unit string, v float64) { f[unit] = append(f[unit], v) }

func (f figures) report(b *testing.B) {
	for unit, v := range f {
		slices.Sort(v)
		b.ReportMetric(load.Percentile(v, 50), unit)
	}
	b.ReportMetric(0, "ns/op")
}

// speedJob is a job of the speed measurements: answers of 128 tokens, one event each.
func speedJob(url string, w load.Workload) load.Job {
	w.Dataset = load.Dataset{Kind: load.Random, InputTokens: 100}
	w.OutputTokens, w.IgnoreEOS, w.Endpoint = 128, true, load.Completions
	return load.Job{Target: load.Target{BaseURL: url, Model: sim.DefaultModel}, Workload: w, Seed: uint64(time.Now().UnixNano())}
}

// BenchmarkQuestions is what as many questions as GSM8K's cost the generator, and beside that a load of as many requests, as long, of
// which it is measured when tokens come.
func BenchmarkQuestions(b *testing.B) {
	const questions, tokens = 1319, 150
	file := filepath.Join(b.TempDir(), "questions.jsonl")
	var lines bytes.Buffer
	for i := range questions {
		fmt.Fprintf(&lines, `{"prompt":"Question %d: %s","max_tokens":%d,"temperature":0,"stop":["Question:"]}`+"\n", i, strings.Repeat("how many are left? ", 170), tokens)
	}
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		dataset load.Dataset
	}{{"asked", load.Dataset{Kind: load.JSONL, Path: file, Questions: true}}, {"load", load.Dataset{Kind: load.Random, InputTokens: 600}}} {
		b.Run(c.name, func(b *testing.B) {
			url, _ := engineProcess(b, sim.Config{TTFT: 200 * time.Millisecond, ITL: 15 * time.Millisecond})
			f := figures{}
			for b.Loop() {
				job := load.Job{Target: load.Target{BaseURL: url, Model: sim.DefaultModel}, Seed: uint64(time.Now().UnixNano()),
					Workload: load.Workload{Requests: questions, Concurrency: 64, Endpoint: load.Completions, Dataset: c.dataset}}
				if !c.dataset.Questions {
					job.Workload.OutputTokens, job.Workload.IgnoreEOS = tokens, true
				}
				got := on(b, roleLoad, job)
				if s := got.Summary; s.Completed != questions || s.OutputTokens != questions*tokens {
					b.Errorf("%d completed with %d tokens, of %d: %v %v", s.Completed, s.OutputTokens, questions, s.Errors, s.ErrorSamples)
				}
				f.add("s", got.Summary.Duration)
				f.add("cpu-s", got.CPU.Seconds())
				f.add("cpu-%", 100*got.Summary.CPUShare)
				f.add("cpu-us/tok", got.CPU.Seconds()*1e6/(questions*tokens))
			}
			f.report(b)
		})
	}
}

// BenchmarkSpeed is the generator on one core against an engine on another.
// docs/performance.md says what its figures should be.
func BenchmarkSpeed(b *testing.B) {
	for _, c := range []struct {
		concurrency, rounds int
		ttft, itl           time.Duration
	}{
		{1024, 3, 50 * time.Millisecond, 20 * time.Millisecond},
		{4096, 2, 50 * time.Millisecond, 50 * time.Millisecond},
		{10800, 1, 50 * time.Millisecond, 160 * time.Millisecond},
	} {
		b.Run(fmt.Sprintf("itl=%v/c=%d", c.itl, c.concurrency), func(b *testing.B) {
			url, _ := engineProcess(b, sim.Config{TTFT: c.ttft, ITL: c.itl})
			w := load.Workload{Concurrency: c.concurrency, Requests: c.rounds * c.concurrency}
			f := figures{}
			for b.Loop() {
				least := on(b, roleLeast, speedJob(url, w))
				truthOf(b, url)
				got := on(b, roleLoad, speedJob(url, w))
				truth := truthOf(b, url)
				s := got.Summary
				if s.Completed != w.Requests || truth.Completed != w.Requests {
					b.Errorf("%d completed, %d by the server, of %d: %v %v", s.Completed, truth.Completed, w.Requests, s.Errors, s.ErrorSamples)
				}
				tokens := float64(s.OutputTokens)
				f.add("tok/s", s.OutputThroughput)
				f.add("itl-p99-ms", s.ITL.Percentiles["99"])
				f.add("true-itl-p99-ms", truth.ITL.P99)
				f.add("ttft-added-ms", s.TTFT.Mean-truth.TTFT.Mean)
				f.add("cpu-us/tok", got.CPU.Seconds()*1e6/tokens)
				f.add("least-cpu-us/tok", least.CPU.Seconds()*1e6/tokens)
				f.add("cpu-ratio", got.CPU.Seconds()/least.CPU.Seconds())
				f.add("rss-MB", float64(got.RSS)/1e6)
				f.add("merged-%", 100*s.MergedShare)
			}
			f.report(b)
		})
	}
	b.Run("engine", func(b *testing.B) {
		// What the engine can write, one write for each event, with a reader that
		// has a core of its own.
		const concurrency, rounds = 3200, 2
		f := figures{}
		for b.Loop() {
			url, used := engineProcess(b, sim.Config{TTFT: 20 * time.Millisecond, ITL: 20 * time.Millisecond})
			before := used()
			e := on(b, roleLeast, speedJob(url, load.Workload{Concurrency: concurrency, Requests: rounds * concurrency}))
			cpu := used() - before
			truth := truthOf(b, url)
			f.add("events/s", float64(truth.Chunks)/e.Wall.Seconds())
			f.add("events/cpu-s", float64(truth.Chunks)/cpu.Seconds())
			f.add("late-p99-ms", truth.Late.P99)
			f.add("reader-cpu-us/event", e.CPU.Seconds()*1e6/float64(e.Events))
		}
		f.report(b)
	})
	for _, tokens := range []int{128, 1000} {
		b.Run(fmt.Sprintf("memory/tokens=%d", tokens), func(b *testing.B) {
			// 45 million tokens as fast as they come: what counts is what is kept of them.
			const all = 45_000_000
			url, _ := engineProcess(b, sim.Config{TTFT: -1, ITL: -1})
			f := figures{}
			for b.Loop() {
				job := speedJob(url, load.Workload{Concurrency: 64, Requests: all / tokens})
				job.Workload.OutputTokens = tokens
				got := on(b, roleLoad, job)
				truthOf(b, url)
				f.add("tokens", float64(got.Summary.OutputTokens))
				f.add("tok/s", got.Summary.OutputThroughput)
				f.add("cpu-us/tok", got.CPU.Seconds()*1e6/float64(got.Summary.OutputTokens))
				f.add("rss-MB", float64(got.RSS)/1e6)
			}
			f.report(b)
		})
	}
	b.Run("burst", func(b *testing.B) {
		url, _ := engineProcess(b, sim.Config{TTFT: 50 * time.Millisecond, ITL: 20 * time.Millisecond})
		f := figures{}
		for b.Loop() {
			s := on(b, roleLoad, speedJob(url, load.Workload{Concurrency: 256, Requests: 256})).Summary
			f.add("ttft-added-ms", s.TTFT.Mean-truthOf(b, url).TTFT.Mean)
		}
		f.report(b)
	})
	for _, rate := range []load.Rate{1000, 5000} {
		b.Run(fmt.Sprintf("rate=%v", rate), func(b *testing.B) {
			url, _ := engineProcess(b, sim.Config{TTFT: 20 * time.Millisecond, ITL: 5 * time.Millisecond})
			f := figures{}
			for b.Loop() {
				job := speedJob(url, load.Workload{Rate: rate, Requests: 20 * int(rate)})
				job.Workload.OutputTokens = 2
				s := on(b, roleLoad, job).Summary
				truthOf(b, url)
				f.add("achieved-%", 100*s.RequestThroughput/float64(rate))
				f.add("lag-p99-ms", s.SendLag.Percentiles["99"])
				f.add("failed", float64(s.Failed))
				if s.Failed > 0 {
					b.Logf("%d failed: %v %q", s.Failed, s.Errors, s.ErrorSamples)
				}
				f.add("cpu-%", 100*s.CPUShare)
			}
			f.report(b)
		})
	}
}
