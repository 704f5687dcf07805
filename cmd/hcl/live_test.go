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

// TestLiveScrolled: on a terminal that is full already, lines come above the view, each
// once and in order, and nothing of what stood there is overwritten.
func TestLiveScrolled(t *testing.T) {
	for _, hosts := range []int{1, 2} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			const width, height = 80, 16
			s := &screen{vt: vt.NewEmulator(width, height)}
			for i := range 2 * height {
				fmt.Fprintf(s, "before %d\n", i)
			}
			fmt.Fprintln(s, "Plan: 6 to measure")
			l := newLive(s, false, func() {}, tea.WithWindowSize(width, height))
			now := time.Now()
			b := begun{Time: now}
			for i := range hosts {
				b.Hosts = append(b.Hosts, begunHost{Name: fmt.Sprintf("host%d", i)})
			}
			l.tell(b)
			s.eventually(t, "the hosts", func(lines []string) bool {
				return strings.HasPrefix(lines[len(lines)-1], fmt.Sprintf("host%d  waiting", hosts-1))
			})
			var want []string
			for i := range 4 {
				l.tell(apply.Event{Time: now, Type: apply.Ready, Host: "host0", Engine: fmt.Sprintf("sim.e%d", i), Message: "serves m"})
				want = append(want, fmt.Sprintf("✓ sim.e%d serves m", i))
				s.eventually(t, want[i], func(lines []string) bool { return slices.Contains(lines, want[i]) })
			}
			view := s.lines()
			tail := view[len(view)-hosts-len(want)-1:]
			for i := range hosts {
				want = append(want, fmt.Sprintf("host%d  waiting", i))
			}
			want = append([]string{"Plan: 6 to measure"}, want...)
			if !slices.Equal(tail, want) {
				t.Errorf("the screen ends in\n%s\nwant\n%s", strings.Join(view, "\n"), strings.Join(want, "\n"))
			}
			l.tell(ended{})
			if got := s.lines(); len(got) == 0 || got[len(got)-1] != "✓ sim.e3 serves m" {
				t.Errorf("afterwards the screen shows\n%s", strings.Join(got, "\n"))
			}
		})
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
			for _, question := range []string{"\x1b[6n", "\x1b]10;?", "\x1b]11;?", "$p", "\x1b[c", "\x1b[>", "\x1b[?u", "\x1bP+q"} {
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
	m := &model{styles: newStyles(false), rows: map[string]*row{}}
	m.begin(begun{Time: time.Now(), Hosts: []begunHost{{Name: "h200"}}, Cells: []begunCell{{Cell: "a", Host: "h200", Work: 1}, {Cell: "b", Host: "h200", Work: 9}}})
	long := results.Axes{{Name: "concurrency", Value: int64(128)}, {Name: "output_tokens", Value: int64(800)}, {Name: "prefix_caching", Value: true}}
	m.event(apply.Event{Time: time.Now().Add(-time.Minute), Type: apply.Begin, Host: "h200", Engine: "sglang.deepseek-h200", Cell: "a", Benchmark: "online", Axes: long, Number: 1, Of: 2})
	m.event(apply.Event{Time: time.Now(), Type: apply.Progress, Host: "h200", Engine: "sglang.deepseek-h200", Cell: "a", Progress: &load.Progress{Done: 250, Total: 500, Elapsed: 60, OutputTokens: 200000}})
	text := "h200  " + m.line(m.rows["h200"])
	if got := []rune(text)[:80]; !strings.Contains(string(got), "left") || !strings.Contains(string(got), "250 of 500 requests") {
		t.Errorf("at 80 columns the line is %q", string(got))
	}
	offline := &load.Summary{Part: load.Part{Figures: load.Figures{OutputThroughput: 381299}}}
	if got, want := short(offline), "381299 tok/s"; got != want {
		t.Errorf("an offline cell is %q, want %q", got, want)
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

	view := &model{styles: newStyles(false), rows: map[string]*row{}}
	for _, e := range []apply.Event{
		{Type: apply.Step, Message: "looking for model org/model"},
		{Type: apply.Download, Download: &apply.Fetched{Repo: "org/model", ModelProgress: on}},
	} {
		e.Time, e.Host, e.Engine = time.Now(), "box", "vllm.r1"
		view.event(e)
	}
	if got, want := view.line(view.rows["box"]), "vllm.r1  downloading org/model  █░░░░░░░░░  120.1 GB of 688.6 GB"; !strings.HasPrefix(got, want) {
		t.Errorf("the live view shows %q, want %q", got, want)
	}
}
