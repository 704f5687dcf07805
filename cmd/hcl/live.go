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
	"hclbench/provision"
)

// live is the view of a run on a terminal: a line for each host at the bottom,
// and what is worth keeping above it. The view only writes; keys and signals are
// not its business.
type live struct {
	program *tea.Program
	done    chan struct{}
}

func newLive(w io.Writer) *live {
	l := &live{
		// A slow line gets a few pictures a second, which is all that changes.
		program: tea.NewProgram(&model{rows: map[string]*row{}}, tea.WithInput(nil), tea.WithOutput(w), tea.WithoutSignalHandler(), tea.WithFPS(5)),
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

func (l *live) begin(b begun)       { l.program.Send(b) }
func (l *live) event(e apply.Event) { l.program.Send(e) }

func (l *live) end(e ended) {
	l.program.Send(e)
	<-l.done
}

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
	fetched *apply.Fetched
	cell    string
	began   time.Time
	number  int
	of      int
	current *load.Progress
	left    *left
}

// does puts something else in the place of what the host was doing.
func (r *row) does(e apply.Event, what string) {
	*r = row{engine: r.engine, doing: what, since: e.Time, number: r.number, of: r.of, left: r.left}
}

type model struct {
	hosts []string
	rows  map[string]*row
	began time.Time
	price float64 // of all hosts together, USD per hour
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
	case begun:
		m.begin(msg)
	case ended:
		m.over = true
		return m, tea.Quit
	case apply.Event:
		return m, m.event(msg)
	}
	return m, nil
}

func (m *model) begin(b begun) {
	m.began = b.Time
	left := newLeft(b.Cells)
	for _, h := range b.Hosts {
		m.hosts = append(m.hosts, h.Name)
		m.rows[h.Name] = &row{left: left[h.Name]}
		m.price += h.PricePerHour
	}
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
		r.does(e, e.Message)
	case apply.Pull:
		r.pull = e.Pull
	case apply.Download:
		r.fetched = e.Download
	case apply.Ready:
		return tea.Println(good.Render("✓"), " ", bold.Render(e.Engine), " ", e.Message)
	case apply.Begin:
		r.does(e, coordinates(e))
		r.cell, r.began, r.number, r.of = e.Cell, e.Time, e.Number, e.Of
	case apply.Progress:
		r.current = e.Progress
	case apply.End:
		r.left.ended(e.Cell, e.Time.Sub(r.began))
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
		r.does(e, e.Message)
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
		fmt.Fprintf(&b, "%s  %s\n", bold.Render(name), m.rows[name].line())
	}
	if m.price > 0 && !m.began.IsZero() {
		fmt.Fprintln(&b, faint.Render(m.money()))
	}
	return tea.NewView(b.String())
}

// money is what the hosts have cost since the run began, and what they are
// likely to cost in the end.
func (m *model) money() string {
	so := time.Since(m.began)
	s := fmt.Sprintf("%s, %s so far", so.Round(time.Second), dollars(m.price*so.Hours()))
	var longest time.Duration
	for _, r := range m.rows {
		longest = max(longest, r.remaining())
	}
	if longest > 0 {
		s += fmt.Sprintf(", about %s in all", dollars(m.price*(so+longest).Hours()))
	}
	return s
}

func dollars(x float64) string { return fmt.Sprintf("$%.2f", x) }

// line says what a host is doing, for how long, and how long the run still takes.
func (r *row) line() string {
	if r.doing == "" {
		return faint.Render("waiting")
	}
	elapsed := time.Since(r.since).Round(time.Second)
	if r.cell == "" {
		s := r.engine + "  " + r.doing
		if r.pull != nil {
			s += ", " + pulled(*r.pull)
		}
		if f := r.fetched; f != nil {
			s = r.engine + "  downloading " + f.Repo + "  " + bar(float64(f.Bytes)/float64(f.Total)) + "  " + downloaded(*f)
		}
		return strings.TrimSpace(s) + faint.Render(fmt.Sprintf("  %s", elapsed))
	}
	s := fmt.Sprintf("%s  cell %d of %d  %s", r.engine, r.number, r.of, r.doing)
	if p := r.current; p != nil {
		if part := r.part(); part > 0 {
			s += "  " + bar(part)
		}
		s += "  " + advanced(*p)
		if left := r.remaining(); left > 0 {
			s += faint.Render(fmt.Sprintf("  %s left", left))
		}
	}
	return s
}

// part is how much of the cell that is being measured is done, from 0 to 1.
func (r *row) part() float64 {
	if p := r.current; p != nil && p.Total > 0 && !p.Warmup {
		return float64(p.Done) / float64(p.Total)
	}
	return 0
}

// remaining is how long the host's cells still take; 0: nothing can be said yet.
func (r *row) remaining() time.Duration {
	var elapsed time.Duration
	if r.cell != "" {
		elapsed = time.Since(r.began)
	}
	return r.left.of(r.cell, r.part(), elapsed)
}

func bar(part float64) string {
	const width = 20
	n := int(part * width)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}

// left estimates how long a host still takes: what a cell costs is taken to be
// its share of the work, and measured on the cells that are done. Nil knows of
// no work.
type left struct {
	work  map[string]float64 // by cell
	total float64
	done  float64
	spent time.Duration // on cells that are done
}

// newLeft returns the estimates by host.
func newLeft(cells []begunCell) map[string]*left {
	all := map[string]*left{}
	for _, c := range cells {
		l := all[c.Host]
		if l == nil {
			l = &left{work: map[string]float64{}}
			all[c.Host] = l
		}
		l.work[c.Cell] = c.Work
		l.total += c.Work
	}
	return all
}

func (l *left) ended(cell string, took time.Duration) {
	if l != nil {
		l.done += l.work[cell]
		l.spent += took
	}
}

// of the host's work, given the part of a cell that is under way; 0 when nothing
// can be said yet.
func (l *left) of(cell string, part float64, elapsed time.Duration) time.Duration {
	if l == nil {
		return 0
	}
	done, spent := l.done+l.work[cell]*part, l.spent+elapsed
	if done == 0 {
		return 0
	}
	return time.Duration(float64(spent) * (l.total - done) / done).Round(time.Second)
}
