package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/load"
	"hclbench/provision"
	"hclbench/sim"
	"hclbench/telemetry"
)

// skewed is the way to an agent whose host's clock is ahead, and is set that much again whenever the
// load is told of.
type skewed struct {
	http.RoundTripper
	by    time.Duration
	times *atomic.Int64
}

func (s skewed) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/begin") {
		s.times.Add(1)
	}
	resp, err := s.RoundTripper.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/info") {
		return resp, err
	}
	var in Info
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil {
		return nil, err
	}
	in.Now = in.Now.Add(s.by * time.Duration(1+s.times.Load()))
	text, _ := json.Marshal(in)
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// several are agents that each hold a lease, and the job that they send together.
func several(t *testing.T, job load.Job, names ...string) (all []Sender) {
	t.Helper()
	for _, name := range names {
		a, _ := serve(t, shortDir(t))
		hold(t, a, lease("run-"+name, "store", time.Minute))
		a.host = &provision.Host{Name: name}
		all = append(all, Sender{a, job})
	}
	return all
}

// TestSilentTogether: an engine is silent for as long as it is to every client that waits for an answer.
func TestSilentTogether(t *testing.T) {
	w := &together{states: make([]load.Progress, 3)}
	var all load.Progress
	for i, p := range []load.Progress{{Sent: 9, Done: 9}, {Sent: 9, Done: 4, InFlight: 5, Silent: 40}, {Sent: 9, Done: 7, InFlight: 2, Silent: 30}} {
		w.reportProgress(i, p, func(now load.Progress) { all = now })
	}
	if all.Silent != 30 || all.InFlight != 7 || all.Sent != 27 {
		t.Errorf("all of them: %+v", all)
	}
}

// TestTogether: agents whose clocks are a minute apart, and are set meanwhile, begin a load at the same moment, send each
// request once, and what they have measured is one measurement.
func TestTogether(t *testing.T) {
	job := spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 11, 4).Load
	job.Workload.Concurrency = 4
	senders := several(t, job, "c0", "c1", "c2")
	senders[1].http.Transport = skewed{senders[1].http.Transport, time.Minute, new(atomic.Int64)}
	var last load.Progress
	m, err := RunTogether(t.Context(), "job", senders, telemetry.Plan{Host: true}, func(p load.Progress) { last = p })
	check(t, err)
	if m.Summary.Completed != 11 || len(m.Records) != 11 || len(m.Summary.Clients) != 3 || m.Telemetry == nil {
		t.Fatalf("%+v, %d records", m.Summary, len(m.Records))
	}
	if last.Total != 11 || last.Sent != 11 || last.Done != 11 {
		t.Errorf("the last progress is %+v", last)
	}
	seen := map[int]bool{}
	for _, r := range m.Records {
		seen[r.Seq] = true
		if r.Client != r.Seq%4%3 {
			t.Errorf("client %d sent request %d", r.Client, r.Seq)
		}
	}
	if len(seen) != 11 {
		t.Errorf("requests %v", seen)
	}
	for i, c := range m.Summary.Clients {
		want := map[bool]float64{true: 60_000}[i == 1]
		if c.Host != senders[i].host.Name || c.Clock.Ahead < want-1000 || c.Clock.Ahead > want+1000 || math.Abs(c.Clock.Gained) > 1000 {
			t.Errorf("client %d: %s, %+v", i, c.Host, c.Clock)
		}
	}
	if m.Window().Zero.After(time.Now()) { // by the first client's clock
		t.Errorf("it began at %v", m.Window().Zero)
	}
}

// TestTogetherFails: a client that cannot send ends the work of the others, and is named.
func TestTogetherFails(t *testing.T) {
	job := spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 40, 4).Load
	job.Workload.Concurrency = 4
	fails := func(senders []Sender, host, says string) {
		t.Helper()
		m, err := RunTogether(t.Context(), "job", senders, telemetry.Plan{}, func(load.Progress) {})
		of := new(SenderError)
		if !errors.As(err, &of) || of.Host.Name != host || !strings.Contains(err.Error(), says) || m.Summary != nil {
			t.Errorf("%+v, %v", m.Summary, err)
		}
	}
	senders := several(t, job, "c0", "c1")
	senders[1].Load.Workload.Dataset = load.Dataset{Kind: load.JSONL, Path: filepath.Join(t.TempDir(), "none.jsonl")}
	fails(senders, "c1", "host c1 sends a part of the load: ")

	few := job
	few.Workload.Requests, few.Workload.Concurrency = 0, 0
	few.Workload.Rate, few.Workload.Duration = 0.9, load.Duration(time.Second)
	fails(several(t, few, "c0", "c1"), "c1", "client 2 of 2 has nothing to send: there are 1 requests in all")
}

// strikes does something once, as an agent is about to be told when to begin.
type strikes struct {
	http.RoundTripper
	once *sync.Once
	do   func()
}

func (s strikes) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/begin") {
		s.once.Do(s.do)
	}
	return s.RoundTripper.RoundTrip(r)
}

// TestTogetherAgentDies: the agent of a client that dies when it is ready, and has not begun, has
// lost its job, and the next load finds a new agent.
func TestTogetherAgentDies(t *testing.T) {
	job := spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 8, 4).Load
	job.Workload.Concurrency = 4
	senders := several(t, job, "c0")
	dir := shortDir(t)
	cmd := spawn(t, dir, dir)
	a := newClient(local(t), filepath.Join(dir, "sock"))
	t.Cleanup(a.Close)
	a.up = spawns(t, dir, dir)
	hold(t, a, lease("run-c1", "store", time.Hour))
	a.host = &provision.Host{Name: "c1"}
	a.http.Transport = strikes{a.http.Transport, new(sync.Once), func() { cmd.Process.Kill(); cmd.Wait() }}
	senders = append(senders, Sender{a, job})
	run := func(id string) (Measured, error) {
		return RunTogether(t.Context(), id, senders, telemetry.Plan{}, func(load.Progress) {})
	}
	m, err := run("job")
	of := new(SenderError)
	if !errors.Is(err, ErrJobLost) || !errors.As(err, &of) || of.Host.Name != "c1" || m.Summary != nil {
		t.Fatalf("%+v, %v", m.Summary, err)
	}
	m, err = run("again")
	check(t, err)
	if m.Summary.Completed != 8 {
		t.Errorf("%+v", m.Summary)
	}
}

// piling is the way to an agent that says at once that requests pile up.
type piling struct{ http.RoundTripper }

func (p piling) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := p.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/events") {
		resp.Body = &piled{ReadCloser: resp.Body}
	}
	return resp, err
}

// underWay is progress of requests that are sent.
var underWay = regexp.MustCompile(`"sent":[1-9]`)

// piled is a body with lines of progress, each marked as overloaded.
type piled struct {
	io.ReadCloser
	left []byte
}

func (m *piled) Read(b []byte) (int, error) {
	if len(m.left) == 0 {
		n, err := m.ReadCloser.Read(b[:len(b)/2])
		if m.left = underWay.ReplaceAll(b[:n:n], []byte(`"overloaded":true,$0`)); err != nil {
			return copy(b, m.left), err
		}
	}
	n := copy(b, m.left)
	m.left = m.left[n:]
	return n, nil
}

// TestTogetherOverloaded: the first client that sees requests pile up ends the load of all, which says so.
func TestTogetherOverloaded(t *testing.T) {
	job := spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 1_000_000, 4).Load
	job.Workload.Concurrency, job.Workload.Rate, job.Workload.StopWhenOverloaded = 0, 100, true
	senders := several(t, job, "c0", "c1", "c2")
	senders[1].http.Transport = piling{senders[1].http.Transport}
	m, err := RunTogether(t.Context(), "job", senders, telemetry.Plan{}, func(load.Progress) {})
	check(t, err)
	if m.Summary.Requests == 0 || m.Summary.Requests > 100_000 || !strings.Contains(strings.Join(m.Summary.Verdict.Texts(), " "), "overloaded: sending ended after") {
		t.Errorf("%d requests, %+v", m.Summary.Requests, m.Summary.Verdict)
	}
	for i, c := range m.Summary.Clients {
		if c.Requests == 0 {
			t.Errorf("client %d has sent nothing", i)
		}
	}
}

// asleep is the way to an agent as a caller sees it whose own clock stood still while the load went on.
type asleep struct {
	http.RoundTripper
	begun *atomic.Bool
	by    time.Duration
}

func (a asleep) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/events") {
		a.begun.Store(true)
	}
	resp, err := a.RoundTripper.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/records") && !strings.HasSuffix(r.URL.Path, "/info") {
		return resp, err
	}
	if strings.HasSuffix(r.URL.Path, "/records") {
		a.begun.Store(false) // and it has ended
		return resp, nil
	}
	var in Info
	if err := json.NewDecoder(resp.Body).Decode(&in); err != nil {
		return nil, err
	}
	if !a.begun.Load() {
		in.Up += a.by
	}
	text, _ := json.Marshal(in)
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// TestTogetherAsleep: a caller that slept while the load went on finds that all clients have gained the
// same, which says nothing of them; what one has gained against the others does.
func TestTogetherAsleep(t *testing.T) {
	job := spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 12, 4).Load
	job.Workload.Concurrency = 4
	senders := several(t, job, "c0", "c1", "c2")
	for i := range senders {
		by := 40 * time.Second
		if i == 1 {
			by += time.Second
		}
		senders[i].http.Transport = asleep{senders[i].http.Transport, new(atomic.Bool), by}
	}
	m, err := RunTogether(t.Context(), "job", senders, telemetry.Plan{}, func(load.Progress) {})
	check(t, err)
	for i, want := range []float64{0, 1000, 0} {
		if got := m.Summary.Clients[i].Clock.Gained; math.Abs(got-want) > 500 {
			t.Errorf("client %d has gained %.0f ms, want %.0f", i, got, want)
		}
	}
}

// forgets counts the jobs that an agent is told to drop.
type forgets struct {
	http.RoundTripper
	jobs *atomic.Int64
}

func (f forgets) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == "DELETE" && r.URL.Path == jobPath("job") && resp.StatusCode < 300 {
		f.jobs.Add(1)
	}
	return resp, err
}

// TestTogetherOutOfReach: a host that is given up ends the load, and the others are told to stop sending.
func TestTogetherOutOfReach(t *testing.T) {
	job := spec(simulated(t, sim.Config{TTFT: time.Millisecond, ITL: time.Millisecond}), 1_000_000, 4).Load
	job.Workload.Concurrency = 4
	senders, told := several(t, job, "c0", "c1", "c2"), new(atomic.Int64)
	for i := range senders {
		senders[i].http.Transport = forgets{senders[i].http.Transport, told}
	}
	ctx, end := context.WithCancelCause(t.Context())
	_, err := RunTogether(ctx, "job", senders, telemetry.Plan{}, func(p load.Progress) {
		if p.Done > 0 {
			end(provision.ErrUnreachable)
		}
	})
	if !errors.Is(err, provision.ErrUnreachable) || told.Load() != 3 {
		t.Errorf("%v; %d of 3 clients were told to stop", err, told.Load())
	}
}

// TestBounded: what an agent answers is bounded, however much comes.
func TestBounded(t *testing.T) {
	a, _ := serve(t, shortDir(t))
	resp, err := a.open(t.Context(), "GET", "/v1/info", nil)
	check(t, err)
	defer resp.Body.Close()
	resp.Body.(*bounded).left = 10
	if text, err := io.ReadAll(resp.Body); len(text) != 10 || err == nil {
		t.Errorf("%q, %v", text, err)
	}
}
