package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/provision"
)

// live is the view of a run on a terminal: a line for each host at the bottom, and what is worth keeping
// above it. The view only writes; keys and signals are not its business.
type live struct {
	program *tea.Program
	styles  styles
	ready   chan struct{} // closed when it draws
	done    chan struct{} // closed when it no longer does
}

// newLive draws on w, and calls gone when it no longer does.
func newLive(w io.Writer, coloured bool, gone func(), options ...tea.ProgramOption) *live {
	options = append(options, tea.WithInput(nil), tea.WithOutput(w), tea.WithoutSignalHandler(), tea.WithEnvironment(terminalKind()),
		tea.WithFPS(5)) // a slow line gets a few pictures a second, which is all that changes
	l := &live{styles: newStyles(coloured), ready: make(chan struct{}), done: make(chan struct{})}
	l.program = tea.NewProgram(&model{styles: l.styles, ready: l.ready, rows: map[string]*row{}}, options...)
	go func() {
		defer close(l.done)
		defer gone()
		if _, err := l.program.Run(); err != nil {
			fmt.Fprintln(w, "the live view failed:", err)
		}
	}()
	return l
}

// terminalKind is what the library is told of the terminal: that it is behind SSH, and
// not one of those that it asks for their modes even there.
func terminalKind() []string {
	kind := os.Getenv("TERM")
	for _, asked := range []string{"ghostty", "wezterm", "alacritty", "kitty", "rio"} {
		if strings.Contains(kind, asked) {
			kind = "xterm-256color" // which all of them understand
		}
	}
	return []string{"TERM=" + kind, "SSH_TTY=/dev/tty"}
}

// pause leaves the terminal to somebody else, until it is restored.
func (l *live) pause() {
	select {
	case <-l.ready:
		l.program.ReleaseTerminal()
	case <-l.done:
	}
}

func (l *live) tell(what any) {
	l.program.Send(what)
	switch what := what.(type) {
	case apply.Event:
		if said := l.styles.said(what); said != "" {
			l.program.Send(tea.Println(said)()) // in the order of events, and before the end
		}
	case ended:
		<-l.done
	}
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
	left    left
}

// does puts something else in the place of what the host was doing.
func (r *row) does(e apply.Event, what string) {
	*r = row{engine: r.engine, doing: what, since: e.Time, number: r.number, of: r.of, left: r.left}
}

type model struct {
	styles
	ready chan struct{} // closed by Init, of which there is one
	hosts []string
	rows  map[string]*row
	began time.Time
	price float64 // of all hosts together, USD per hour
	over  bool
}

type styles struct{ bold, faint, good, warn, bad lipgloss.Style }

func newStyles(coloured bool) styles {
	plain := lipgloss.NewStyle()
	if !coloured {
		return styles{plain, plain, plain, plain, plain}
	}
	return styles{
		bold:  plain.Bold(true),
		faint: plain.Faint(true),
		good:  plain.Foreground(lipgloss.Color("2")),
		warn:  plain.Foreground(lipgloss.Color("3")),
		bad:   plain.Foreground(lipgloss.Color("1")).Bold(true),
	}
}

func (m *model) Init() tea.Cmd {
	close(m.ready)
	return everySecond()
}

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
		m.event(msg)
	}
	return m, nil
}

func (m *model) begin(b begun) {
	m.began = b.Time
	for _, h := range b.Hosts {
		m.row(h.Name)
		m.price += h.PricePerHour
	}
	for _, c := range b.Cells {
		left := &m.row(c.Host).left
		left.work[c.Cell] = c.Work
		left.total += c.Work
	}
}

// row is a host's, which may be new.
func (m *model) row(host string) *row {
	r := m.rows[host]
	if r == nil {
		r = &row{left: left{work: map[string]float64{}}}
		m.hosts = append(m.hosts, host)
		m.rows[host] = r
	}
	return r
}

func (m *model) event(e apply.Event) {
	r := m.row(e.Host)
	if e.Engine != "" {
		r.engine = e.Engine
	}
	switch e.Type {
	case apply.Step, apply.Waiting, apply.Down:
		r.does(e, e.Message)
	case apply.Pull:
		r.pull = e.Pull
	case apply.Download:
		r.fetched = e.Download
	case apply.Begin:
		r.does(e, coordinates(e))
		r.cell, r.began, r.number, r.of = e.Cell, e.Time, e.Number, e.Of
	case apply.Progress:
		r.current = e.Progress
	case apply.End:
		if e.Number == 0 { // it was never begun; why has been told of its engine
			r.left.without(e.Cell)
			break
		}
		r.left.ended(e.Cell, e.Time.Sub(r.began))
		r.cell, r.current = "", nil
	}
}

// said is what is worth keeping of an event, above the view; empty: nothing.
func (s styles) said(e apply.Event) string {
	switch e.Type {
	case apply.Ready:
		return s.good.Render("✓") + " " + s.bold.Render(e.Engine) + " " + e.Message
	case apply.End:
		if e.Number == 0 {
			break
		}
		what := fmt.Sprintf(" %s %s  %s  ", s.bold.Render(e.Engine), coordinates(e), s.faint.Render(fmt.Sprintf("(%d of %d)", e.Number, e.Of)))
		switch {
		case e.Summary == nil:
			return s.bad.Render("✗") + what + e.Message
		case e.Summary.Verdict.Verdict != load.Valid:
			return s.warn.Render("!") + what + short(e.Summary) + "  " + s.warn.Render(e.Summary.Verdict.Verdict)
		default:
			return s.good.Render("✓") + what + short(e.Summary)
		}
	case apply.Warning:
		return s.warn.Render("!") + " " + e.Host + " " + e.Engine + " " + e.Message
	case apply.Failed:
		return s.bad.Render("✗") + " " + e.Host + " " + e.Engine + " " + e.Message
	}
	return ""
}

// short is what a person wants to see of a cell at a glance. What was not measured is not 0.
func short(s *load.Summary) string {
	text := fmt.Sprintf("%.0f tok/s", s.OutputThroughput)
	if s.TTFT.Count > 0 {
		text += fmt.Sprintf("  TTFT mean %.0f ms", s.TTFT.Mean)
	}
	if s.TPOT.Count > 0 {
		text += fmt.Sprintf("  TPOT mean %.1f ms", s.TPOT.Mean)
	}
	return text
}

// View does not end in a line end: the library would count a line that it does not draw.
func (m *model) View() tea.View {
	if m.over {
		return tea.NewView("")
	}
	var lines []string
	for _, name := range m.hosts {
		lines = append(lines, m.bold.Render(name)+"  "+m.line(m.rows[name]))
	}
	if m.price > 0 && !m.began.IsZero() {
		lines = append(lines, m.faint.Render(m.money()))
	}
	return tea.NewView(strings.Join(lines, "\n"))
}

// money is what the hosts have cost since the run began, and what they are likely to cost in the end.
func (m *model) money() string {
	elapsed := time.Since(m.began)
	s := fmt.Sprintf("%s, %s so far", elapsed.Round(time.Second), dollars(m.price*elapsed.Hours()))
	var longest time.Duration
	for _, r := range m.rows {
		longest = max(longest, r.remaining())
	}
	if longest > 0 {
		s += fmt.Sprintf(", about %s in all", dollars(m.price*(elapsed+longest).Hours()))
	}
	return s
}

func dollars(x float64) string { return fmt.Sprintf("$%.2f", x) }

// line says what a host is doing, for how long, and how long the run still takes. What
// matters most stands first: a narrow terminal shows no more.
func (m *model) line(r *row) string {
	if r.doing == "" {
		return m.faint.Render("waiting")
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
		return strings.TrimSpace(s) + m.faint.Render(fmt.Sprintf("  %s", elapsed))
	}
	s := fmt.Sprintf("%s  %d/%d", r.engine, r.number, r.of)
	if left := r.remaining(); left > 0 {
		s += m.faint.Render(fmt.Sprintf("  %s left", left))
	}
	if p := r.current; p != nil {
		if part := r.part(); part > 0 {
			s += "  " + bar(part)
		}
		s += "  " + advanced(*p)
	}
	return s + "  " + r.doing
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
	const width = 10
	n := int(min(max(part, 0), 1) * width)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}

// left estimates how long a host still takes: what a cell costs is taken to be its share
// of the work, and measured on the cells that are done.
type left struct {
	work  map[string]float64 // by cell
	total float64
	done  float64
	spent time.Duration // on cells that are done
}

func (l *left) ended(cell string, took time.Duration) {
	l.done += l.work[cell]
	l.spent += took
}

// without takes out a cell that nobody begins any more.
func (l *left) without(cell string) {
	l.total -= l.work[cell]
	delete(l.work, cell)
}

// of the host's work, given the part of a cell that is under way; 0 when nothing can be said yet.
func (l *left) of(cell string, part float64, elapsed time.Duration) time.Duration {
	done, spent := l.done+l.work[cell]*part, l.spent+elapsed
	if done == 0 {
		return 0
	}
	return time.Duration(float64(spent) * (l.total - done) / done).Round(time.Second)
}
