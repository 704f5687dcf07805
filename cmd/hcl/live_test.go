package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/vt"

	"hclbench/agent"
	"hclbench/apply"
	"hclbench/capacity"
	"hclbench/load"
	"hclbench/results"
)

// screen is a terminal that shows what is written to it, and keeps what it was asked.
type screen struct {
	mu  sync.Mutex
	vt  *vt.Emulator
	got bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got.Write(p)
	if _, err := s.vt.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil { // as a terminal that is not raw
		return 0, err
	}
	return len(p), nil
}

// lines are the lines that are seen, without those that are empty at the end.
func (s *screen) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, line := range strings.Split(s.vt.String(), "\n") {
		out = append(out, strings.TrimRight(line, " \r"))
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// eventually waits for the screen to show something.
func (s *screen) eventually(t *testing.T, what string, shows func(lines []string) bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); ; {
		if shows(s.lines()) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the screen does not show %s:\n%s", what, strings.Join(s.lines(), "\n"))
		}
	}
}

// full is a terminal that has scrolled, on which a plan was printed.
func full(width, height int) *screen {
	s := &screen{vt: vt.NewEmulator(width, height)}
	for i := range 2 * height {
		fmt.Fprintf(s, "before %d\n", i)
	}
	fmt.Fprintln(s, "Plan: 6 to measure")
	return s
}

// TestLiveScrolled: on a terminal that is full already, lines come above the view, each
// once and in order, and nothing of what stood there is overwritten.
func TestLiveScrolled(t *testing.T) {
	long := "serves m after 12 s, " + strings.Repeat("and ", 30) + "that is all"
	for _, width := range []int{80, 120, 200} {
		for _, hosts := range []int{1, 2} {
			t.Run(fmt.Sprint(width, hosts), func(t *testing.T) {
				s := full(width, 24)
				l := newLive(s, false, func() {}, tea.WithWindowSize(width, 24))
				now := time.Now()
				b := begun{Time: now, Cells: make([]begunCell, 6)}
				for i := range hosts {
					b.Hosts = append(b.Hosts, begunHost{Name: fmt.Sprintf("host%d", i)})
				}
				for i := range b.Cells {
					b.Cells[i] = begunCell{Cell: fmt.Sprint(i), Host: "host0", Work: 1}
				}
				l.tell(b)
				s.eventually(t, "the hosts", func(lines []string) bool {
					return slices.ContainsFunc(lines, func(l string) bool { return l == fmt.Sprintf("host%d  waiting", hosts-1) })
				})
				want := []string{"Plan: 6 to measure"}
				// Of every length about that of a line, and longer than several.
				for i, text := range []string{"serves m", strings.Repeat("x", width-11), strings.Repeat("x", width-10),
					strings.Repeat("x", width-9), long} {
					e := apply.Event{Time: now, Type: apply.Ready, Host: "host0", Engine: fmt.Sprintf("sim.e%d", i), Message: text}
					l.tell(e)
					lines := kept(l.model.eventLine(e), width)
					want = append(want, lines...)
					last := want[len(want)-1]
					s.eventually(t, last, func(lines []string) bool { return slices.Contains(lines, last) })
				}
				for i := range hosts {
					want = append(want, fmt.Sprintf("host%d  waiting", i))
				}
				view := s.lines()
				if hosts > 1 {
					total := view[len(view)-1]
					if !strings.HasPrefix(total, "0 of 6 cells, ") {
						t.Errorf("the last line is %q, want that of the whole run", total)
					}
					view = view[:len(view)-1]
				}
				tail := view[max(0, len(view)-len(want)):]
				if !slices.Equal(tail, want) {
					t.Errorf("the screen ends in\n%s\nwant\n%s", strings.Join(view, "\n"), strings.Join(want, "\n"))
				}
				// The cursor stands on the last line of the view when it is taken down.
				l.tell(apply.Event{Time: now, Type: apply.Step, Host: fmt.Sprintf("host%d", hosts-1), Message: "stopping"})
				s.eventually(t, "the last step", func(lines []string) bool {
					return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "stopping") })
				})
				l.tell(ended{Time: now.Add(90 * time.Second)})
				want = append(want[:len(want)-hosts], "0 of 6 cells in 1m30s")
				if got := s.lines(); !slices.Equal(got[max(0, len(got)-len(want)):], want) {
					t.Errorf("afterwards the screen ends in\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// TestLivePage: a reason that is longer than the screen goes by whole, and the view stands below it.
func TestLivePage(t *testing.T) {
	const width, height = 80, 16
	s := full(width, height)
	l := newLive(s, false, func() {}, tea.WithWindowSize(width, height))
	l.tell(begun{Time: time.Now(), Hosts: []begunHost{{Name: "box"}}})
	s.eventually(t, "the host", func(lines []string) bool { return slices.Contains(lines, "box  waiting") })
	page := "did not come up:"
	for i := range 3 * height {
		page += fmt.Sprintf("\n\tlog line %d", i)
	}
	l.tell(apply.Event{Time: time.Now(), Type: apply.Failed, Host: "box", Engine: "sim.e", Message: page})
	last := fmt.Sprintf("    log line %d", 3*height-1)
	s.eventually(t, last, func(lines []string) bool { return slices.Contains(lines, last) })
	var want []string
	for i := 3*height - 10; i < 3*height; i++ {
		want = append(want, fmt.Sprintf("    log line %d", i))
	}
	want = append(want, "box  waiting")
	if got := s.lines(); !slices.Equal(got[max(0, len(got)-len(want)):], want) {
		t.Errorf("the screen ends in\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	l.tell(ended{})
	if got := s.lines(); got[len(got)-1] != last {
		t.Errorf("afterwards the screen shows\n%s", strings.Join(got, "\n"))
	}
}

// TestLiveAsksNothing: the terminal is asked for nothing, and coloured only where that is wanted.
func TestLiveAsksNothing(t *testing.T) {
	for _, kind := range []string{"xterm-256color", "xterm-kitty", "screen"} {
		for _, coloured := range []bool{false, true} {
			t.Setenv("TERM", kind)
			s := &screen{vt: vt.NewEmulator(80, 24)}
			l := newLive(s, coloured, func() {}, tea.WithWindowSize(80, 24))
			l.tell(begun{Time: time.Now(), Hosts: []begunHost{{Name: "box"}}})
			l.tell(apply.Event{Time: time.Now(), Type: apply.Ready, Host: "box", Engine: "sim.e", Message: "serves m"})
			l.tell(ended{})
			got := s.got.String()
			for _, question := range []string{"\x1b[6n", "\x1b]10;?", "\x1b]11;?", "$p", "\x1b[c", "\x1b[>", "\x1b[?u", "\x1bP+q", "\x1b[?2004"} {
				if strings.Contains(got, question) {
					t.Errorf("%s: the terminal was asked %q: %q", kind, question, got)
				}
			}
			if has := strings.Contains(got, "\x1b[32m"); has != coloured {
				t.Errorf("%s: green is there: %v, want %v: %q", kind, has, coloured, got)
			}
		}
	}
}

// TestLiveLine: at 80 columns the time that is left and the count are seen, and what was
// not measured is no 0.
func TestLiveLine(t *testing.T) {
	m := newModel(newStyles(false))
	m.begin(begun{Time: time.Now(), Hosts: []begunHost{{Name: "h200"}}, Cells: []begunCell{{Cell: "a", Host: "h200", Work: 1}, {Cell: "b", Host: "h200", Work: 9}}})
	long := results.Axes{{Name: "concurrency", Value: int64(128)}, {Name: "output_tokens", Value: int64(800)}, {Name: "prefix_caching", Value: true}}
	now := time.Now()
	m.event(apply.Event{Time: now.Add(-time.Minute), Type: apply.Begin, Host: "h200", Engine: "sglang.deepseek-h200", Cell: "a", Benchmark: "online", Axes: long, Number: 1, Of: 2})
	m.event(apply.Event{Time: now, Type: apply.Progress, Host: "h200", Engine: "sglang.deepseek-h200", Cell: "a", Progress: &load.Progress{Done: 250, Total: 500, Elapsed: 60, OutputTokens: 200000}})
	text := "h200  " + m.hostLine("h200", now)
	want := "h200  19m left  1/2  sglang.deepseek-h200  █████░░░░░  250 of 500 requests, 3,333 tok/s  " +
		"online: concurrency=128 output_tokens=800 prefix_caching=true"
	if text != want {
		t.Errorf("the line is %q, want %q", text, want)
	}
	if got := string([]rune(text)[:80]); !strings.Contains(got, "250 of 500 requests") {
		t.Errorf("at 80 columns the line is %q", got)
	}
	offline := &load.Summary{Part: load.Part{Figures: load.Figures{OutputThroughput: 381299}}}
	if got, want := figuresShort(offline), "381,299 tok/s"; got != want {
		t.Errorf("an offline cell is %q, want %q", got, want)
	}
	online := &load.Summary{Part: load.Part{Figures: load.Figures{OutputThroughput: 3618.2,
		TTFT: load.Stats{Count: 9, Mean: 31.2, Median: 30.94}, TPOT: load.Stats{Count: 9, Mean: 5, Median: 4.001}}}}
	if got, want := figuresShort(online), "3,618 tok/s  p50 TTFT 30.9 ms, TPOT 4.00 ms"; got != want {
		t.Errorf("an online cell is %q, want %q", got, want)
	}
}

// TestForecast: cells at the pace of those before, and starts as long as those before.
func TestForecast(t *testing.T) {
	m := newModel(newStyles(false))
	start := time.Now()
	var cells []begunCell
	for i, engine := range []string{"sim.a", "sim.a", "sim.b", "sim.c"} {
		cells = append(cells, begunCell{Cell: fmt.Sprint(i), Host: "box", Engine: engine, Work: 10})
	}
	m.begin(begun{Time: start, Hosts: []begunHost{{Name: "box", PricePerHour: 60}}, Cells: cells})
	for _, step := range []struct {
		at   int // seconds since the start
		e    apply.Event
		want int // seconds left
	}{
		{0, apply.Event{Type: apply.Step, Engine: "sim.a"}, 0},
		{100, apply.Event{Type: apply.Begin, Engine: "sim.a", Cell: "0"}, 0},
		{110, apply.Event{Type: apply.Progress, Engine: "sim.a", Cell: "0", Progress: &load.Progress{Done: 1, InFlight: 2, Total: 20, Elapsed: 2}}, 0}, // the first answers
		{110, apply.Event{Type: apply.Progress, Engine: "sim.a", Cell: "0", Progress: &load.Progress{Done: 10, InFlight: 2, Total: 20, Elapsed: 10}}, 70 + 200},
		{120, apply.Event{Type: apply.End, Engine: "sim.a", Cell: "0", Number: 1}, 60 + 200},
		{120, apply.Event{Type: apply.Begin, Engine: "sim.a", Cell: "1"}, 60 + 200},
		{124, apply.Event{Type: apply.Progress, Engine: "sim.a", Cell: "1", Progress: &load.Progress{Warmup: true, Done: 5, Total: 20, Elapsed: 4}}, 56 + 200},
		{128, apply.Event{Type: apply.Progress, Engine: "sim.a", Cell: "1", Progress: &load.Progress{Done: 2, InFlight: 2, Total: 20, Elapsed: 4}}, 57 + 200},
		{128, apply.Event{Type: apply.Waiting, Engine: "sim.a", Message: "looking again at what it counts"}, 57 + 200},
		{140, apply.Event{Type: apply.End, Engine: "sim.a", Cell: "1", Number: 2}, 40 + 200},
		{170, apply.Event{Type: apply.Step, Engine: "sim.b"}, 40 + 200},
		{190, apply.Event{Type: apply.Waiting, Engine: "sim.b"}, 40 + 180},
		{200, apply.Event{Type: apply.Failed, Engine: "sim.b"}, 40 + 170},
		{200, apply.Event{Type: apply.End, Engine: "sim.b", Cell: "2"}, 20 + 170}, // it was never begun
		{210, apply.Event{Type: apply.Step, Engine: "sim.c"}, 20 + 100},
		{300, apply.Event{Type: apply.Begin, Engine: "sim.c", Cell: "3"}, 20},
		{330, apply.Event{Type: apply.End, Engine: "sim.c", Cell: "3", Number: 4}, 0},
	} {
		step.e.Time, step.e.Host = start.Add(time.Duration(step.at)*time.Second), "box"
		m.event(step.e)
		if got := m.left(step.e.Time); got.Round(time.Second) != time.Duration(step.want)*time.Second {
			t.Errorf("after %d s, at %s of %s, %s are left, want %d s", step.at, step.e.Type, step.e.Engine, got, step.want)
		}
		if step.at == 140 {
			want := "2 of 4 cells, 4m left, 2m20s so far; $2.33, about $6.33 in all"
			if got := m.total(step.e.Time); got != want {
				t.Errorf("the whole run is %q, want %q", got, want)
			}
		}
	}
}

// TestForecastUnderWay: the time that a cell has run counts, whatever its requests tell. The cell before it took
// 100 s, and as much is expected of this one.
func TestForecastUnderWay(t *testing.T) {
	start := time.Now()
	for _, tt := range []struct {
		what string
		at   int            // seconds since it began
		p    *load.Progress // nil: nothing is told of it
		want int            // seconds left
	}{
		{"all in flight at once", 50, &load.Progress{InFlight: 100, Total: 100, Elapsed: 50}, 50},
		{"the first answers of all at once", 90, &load.Progress{Done: 10, InFlight: 90, Total: 100, Elapsed: 90}, 10},
		{"answers of many lengths", 75, &load.Progress{Done: 50, InFlight: 50, Total: 100, Elapsed: 75}, 25},
		{"above capacity", 25, &load.Progress{Done: 250, InFlight: 250, Total: 1000, Elapsed: 25}, 75},
		{"twice as slow as expected", 100, &load.Progress{Done: 500, InFlight: 500, Total: 1000, Elapsed: 100}, 28},
		{"twice as fast", 25, &load.Progress{Done: 500, InFlight: 1, Total: 1000, Elapsed: 25}, 45},
		{"bounded by time", 30, &load.Progress{Done: 70, InFlight: 4, Elapsed: 30}, 70},
		{"warming up", 40, &load.Progress{Warmup: true, Done: 1, InFlight: 4, Total: 8, Elapsed: 40}, 60},
		{"nothing is told", 20, nil, 80},
		{"longer than expected", 120, &load.Progress{InFlight: 100, Total: 100, Elapsed: 120}, 0},
	} {
		m := newModel(newStyles(false))
		m.begin(begun{Time: start, Hosts: []begunHost{{Name: "box"}}, Cells: []begunCell{{Cell: "a", Host: "box", Work: 7}, {Cell: "b", Host: "box", Work: 7}}})
		for _, e := range []apply.Event{
			{Type: apply.Begin, Cell: "a", Number: 1}, {Type: apply.End, Cell: "a", Number: 1, Time: start.Add(100 * time.Second)},
			{Type: apply.Begin, Cell: "b", Number: 2, Time: start.Add(100 * time.Second)},
		} {
			e.Host = "box"
			if e.Time.IsZero() {
				e.Time = start
			}
			m.event(e)
		}
		now := start.Add(time.Duration(100+tt.at) * time.Second)
		if tt.p != nil {
			m.event(apply.Event{Time: now, Type: apply.Progress, Host: "box", Cell: "b", Progress: tt.p})
		}
		if got := m.left(now); got.Round(time.Second) != time.Duration(tt.want)*time.Second {
			t.Errorf("%s: after %d s, %s are left, want %d s", tt.what, tt.at, got, tt.want)
		}
	}
}

// TestAsk: a question is over with a line, with the end of the input, or with ctx.
func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		typed string
		want  bool
	}{{"yes\n", true}, {"no\n", false}, {"yes", true}, {"\n", false}, {"", false}, {"yes please\n", false}} {
		r, w, err := os.Pipe()
		must(t, err)
		fmt.Fprint(w, tt.typed)
		w.Close()
		a := &console{in: r, stderr: &bytes.Buffer{}}
		if got, err := a.ask(t.Context(), "Really?"); got != tt.want || err != nil {
			t.Errorf("ask of %q = %v, %v, want %v", tt.typed, got, err, tt.want)
		}
		r.Close()
	}
	// Ctrl-C, and nobody types anything.
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	said := &prompted{cancel: cancel}
	a := &console{in: r, stderr: said}
	var e *exit
	if got, err := a.ask(ctx, "Really?"); got || !errors.As(err, &e) || e.code != exitInterrupted {
		t.Errorf("ask = %v, %v, want exit %d", got, err, exitInterrupted)
	}
}

// prompted is a stderr behind which somebody presses Ctrl-C at the first question.
type prompted struct{ cancel func() }

func (p *prompted) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("Only 'yes'")) {
		p.cancel()
	}
	return len(b), nil
}

// TestDownloaded is a model that is on its way, in a log line and in the live view.
func TestDownloaded(t *testing.T) {
	on := agent.ModelProgress{Bytes: 120_100_000_000, Total: 688_600_000_000, Files: 163, Done: 34, Phase: agent.Downloading}
	waits := on
	waits.Phase, waits.For = agent.WaitingFor, "run r2 of lab other on box, by ada@laptop, pid 4711"
	for _, c := range []struct {
		fetched apply.Fetched
		want    string
	}{
		{apply.Fetched{ModelProgress: on}, "120.1 GB of 688.6 GB, 34 of 163 files"},
		{apply.Fetched{ModelProgress: on, Rate: 1.2e9}, "120.1 GB of 688.6 GB, 34 of 163 files, 1.2 GB/s, 7m54s left"},
		{apply.Fetched{ModelProgress: waits, Rate: 1.2e9}, "120.1 GB of 688.6 GB, 34 of 163 files, waiting for run r2 of lab other on box, by ada@laptop, pid 4711, who fetches it too"},
	} {
		if got := downloaded(c.fetched); got != c.want {
			t.Errorf("downloaded = %q, want %q", got, c.want)
		}
	}

	view := newModel(newStyles(false))
	for _, e := range []apply.Event{
		{Type: apply.Step, Message: "looking for model org/model"},
		{Type: apply.Download, Download: &apply.Fetched{Repo: "org/model", ModelProgress: on}},
	} {
		e.Time, e.Host, e.Engine = time.Now(), "box", "vllm.r1"
		view.event(e)
	}
	if got, want := view.hostLine("box", time.Now()), "vllm.r1  downloading org/model  █░░░░░░░░░  120.1 GB of 688.6 GB"; !strings.HasPrefix(got, want) {
		t.Errorf("the live view shows %q, want %q", got, want)
	}
}

// TestSearchLines: within a search the log says which load and try it is, and not again and again which cell.
func TestSearchLines(t *testing.T) {
	var said bytes.Buffer
	c := &console{stderr: &said}
	l := &lines{log: c.logger(), w: &said, last: map[string]time.Time{}}
	at := func(n int64) results.Axes { return results.Axes{{Name: "concurrency", Value: n}} }
	now, found := time.Now(), &capacity.Outcome{Of: capacity.Concurrency, Loads: []capacity.Load{{Load: 32, Verdict: capacity.Pass, Tries: 2}}}
	for _, e := range []apply.Event{
		{Type: apply.Begin, Number: 1, Of: 3, Benchmark: "chat"},
		{Type: apply.Try, Number: 1, Of: 3, Benchmark: "chat", Axes: at(32), Try: 2},
		{Type: apply.Progress, Number: 1, Of: 3, Benchmark: "chat", Axes: at(32), Try: 2, Progress: &load.Progress{Done: 7}, Time: now.Add(time.Minute)},
		{Type: apply.Tried, Number: 1, Of: 3, Benchmark: "chat", Axes: at(32), Try: 2, Capacity: found},
		{Type: apply.End, Number: 1, Of: 3, Benchmark: "chat", Capacity: found},
	} {
		l.tell(e)
	}
	rest := said.String()
	for _, want := range []string{"INFO cell 1 of 3 ", "INFO load 32, try 2 ", "INFO load 32, try 2 ", "7 requests", "INFO load 32, try 2: PASS; so far ", "INFO cell 1 of 3 done: "} {
		before, after, ok := strings.Cut(rest, want)
		if rest = after; !ok || strings.Contains(before, "cell 1 of") {
			t.Fatalf("no %q in its turn:\n%s", want, &said)
		}
	}
}
