package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
)

// live is the view of a run on a terminal: a line for each host at the bottom,
// and what is worth keeping above it. The view only writes; keys and signals are
// not its business.
type live struct {
	program *tea.Program
	done    chan struct{}
}

func newLive(w io.Writer, p *plan.Plan) *live {
	m := &model{left: newLeft(p), rows: map[string]*row{}}
	for _, h := range p.Hosts {
		m.hosts = append(m.hosts, h.Name)
		m.rows[h.Name] = &row{}
	}
	l := &live{
		program: tea.NewProgram(m, tea.WithInput(nil), tea.WithOutput(w), tea.WithoutSignalHandler()),
		done:    make(chan struct{}),
	}
	go func() {
		defer close(l.done)
		if _, err := l.program.Run(); err != nil {
			fmt.Fprintln(w, "the live view failed:", err)
		}
	}()
	return l
}

func (l *live) event(e apply.Event) { l.program.Send(e) }

func (l *live) close() {
	l.program.Send(finished{})
	<-l.done
}

type finished struct{}
type second time.Time

func everySecond() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return second(t) })
}

// row is what one host is doing.
type row struct {
	engine  string
	doing   string
	since   time.Time
	pull    *provision.PullProgress
	cell    string
	began   time.Time
	number  int
	of      int
	current *load.Progress
}

type model struct {
	hosts []string
	rows  map[string]*row
	left  map[string]*left
	over  bool
}

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Color("2"))
	warn  = lipgloss.NewStyle().Foreground(lipgloss.Color("3"))
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)
)

func (m *model) Init() tea.Cmd { return everySecond() }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case second:
		return m, everySecond()
	case finished:
		m.over = true
		return m, tea.Quit
	case apply.Event:
		return m, m.event(msg)
	}
	return m, nil
}

// event updates the host's row, and returns what is printed above the view.
func (m *model) event(e apply.Event) tea.Cmd {
	r := m.rows[e.Host]
	if r == nil {
		r = &row{}
		m.hosts = append(m.hosts, e.Host)
		m.rows[e.Host] = r
	}
	if e.Engine != "" {
		r.engine = e.Engine
	}
	switch e.Type {
	case apply.Step, apply.Waiting:
		*r = row{engine: r.engine, doing: e.Message, since: e.Time, number: r.number, of: r.of}
	case apply.Pull:
		r.pull = e.Pull
	case apply.Ready:
		return tea.Println(good.Render("✓"), " ", bold.Render(e.Engine), " ", e.Message)
	case apply.Begin:
		*r = row{engine: r.engine, doing: coordinates(e), since: e.Time, cell: e.Cell, began: e.Time, number: e.Number, of: e.Of}
	case apply.Progress:
		r.current = e.Progress
	case apply.End:
		m.left[e.Host].ended(e.Cell, e.Time.Sub(r.began))
		r.cell, r.current = "", nil
		what := fmt.Sprintf("%s %s  %s", bold.Render(e.Engine), coordinates(e), faint.Render(fmt.Sprintf("(%d of %d)", e.Number, e.Of)))
		switch {
		case e.Summary == nil:
			return tea.Println(bad.Render("✗"), " ", what, "  ", e.Message)
		case e.Summary.Verdict.Verdict != load.Valid:
			return tea.Println(warn.Render("!"), " ", what, "  ", short(e.Summary), "  ", warn.Render(e.Summary.Verdict.Verdict))
		default:
			return tea.Println(good.Render("✓"), " ", what, "  ", short(e.Summary))
		}
	case apply.Down:
		*r = row{engine: r.engine, doing: e.Message, since: e.Time, number: r.number, of: r.of}
	case apply.Warning:
		return tea.Println(warn.Render("!"), " ", e.Host, " ", e.Engine, " ", e.Message)
	case apply.Failed:
		return tea.Println(bad.Render("✗"), " ", e.Host, " ", e.Engine, " ", e.Message)
	}
	return nil
}

func short(s *load.Summary) string {
	return fmt.Sprintf("%.0f tok/s  TTFT %.0f ms  TPOT %.1f ms", s.OutputThroughput, s.TTFT.Mean, s.TPOT.Mean)
}

func (m *model) View() tea.View {
	if m.over {
		return tea.NewView("")
	}
	var b strings.Builder
	for _, name := range m.hosts {
		r := m.rows[name]
		fmt.Fprintf(&b, "%s  %s\n", bold.Render(name), m.line(name, r))
	}
	return tea.NewView(b.String())
}

// line says what a host is doing, for how long, and how long the run still takes.
func (m *model) line(host string, r *row) string {
	if r.doing == "" {
		return faint.Render("waiting")
	}
	elapsed := time.Since(r.since).Round(time.Second)
	if r.cell == "" {
		s := r.engine + "  " + r.doing
		if r.pull != nil {
			s += ", " + pulled(*r.pull)
		}
		return strings.TrimSpace(s) + faint.Render(fmt.Sprintf("  %s", elapsed))
	}
	s := fmt.Sprintf("%s  cell %d of %d  %s", r.engine, r.number, r.of, r.doing)
	if p := r.current; p != nil {
		part := 0.0
		if p.Total > 0 && !p.Warmup {
			part = float64(p.Done) / float64(p.Total)
			s += "  " + bar(part)
		}
		s += "  " + advanced(*p)
		if left := m.left[host].of(r.cell, part, time.Since(r.began)); left > 0 {
			s += faint.Render(fmt.Sprintf("  %s left", left))
		}
	}
	return s
}

func bar(part float64) string {
	const width = 20
	n := int(part * width)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}
