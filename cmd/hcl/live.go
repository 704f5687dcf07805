package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"hclbench/apply"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/report/number"
	"hclbench/report/say"
)

// live is the view of a run on a terminal: a line for each host at the bottom, and what is worth keeping
// above it. The view only writes; keys and signals are not its business.
type live struct {
	program *tea.Program
	model   *model
	ready   chan struct{} // closed when it draws
	done    chan struct{} // closed when it no longer does
}

// newLive draws on w, and calls gone when it no longer does.
func newLive(w io.Writer, coloured bool, gone func(), options ...tea.ProgramOption) *live {
	options = append(options, tea.WithInput(nil), tea.WithOutput(w), tea.WithoutSignalHandler(), tea.WithEnvironment(terminalKind()),
		tea.WithFPS(5)) // a slow line gets a few pictures a second, which is all that changes
	l := &live{model: newModel(newStyles(coloured)), ready: make(chan struct{}), done: make(chan struct{})}
	l.model.ready = l.ready
	l.program = tea.NewProgram(l.model, options...)
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
func (l *live) pause() (restore func()) {
	select {
	case <-l.ready:
		l.program.ReleaseTerminal()
	case <-l.done:
	}
	return func() { l.program.RestoreTerminal() }
}

func (l *live) tell(what any) {
	l.program.Send(what)
	switch what := what.(type) {
	case apply.Event:
		for _, line := range kept(l.model.eventLine(what), int(l.model.width.Load())) {
			l.program.Send(tea.Println(line)()) // in the order of events, and before the end
		}
	case ended:
		<-l.done
	}
}

// kept are lines of at most so many columns, 0: however long. Longer ones go on with an indent, and
// none reaches the last column, where terminals differ in what comes next.
func kept(text string, columns int) []string {
	const indent = "  "
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\t", "    ")) {
		line = strings.TrimRight(line, "\n")
		if columns > 2*len(indent) && lipgloss.Width(line) >= columns {
			line = strings.ReplaceAll(lipgloss.Wrap(line, columns-1-len(indent), ""), "\n", "\n"+indent)
		}
		out = append(out, strings.Split(line, "\n")...)
	}
	return out
}

type second time.Time

func everySecond() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return second(t) })
}

// hostRow is what one host is doing.
type hostRow struct {
	engine  string
	doing   string
	since   time.Time
	pull    *provision.PullProgress
	fetched *apply.Fetched
	cell    string // that is measured; empty: none is
	number  int
	of      int
	current *load.Progress
}

// setActivity puts something else in the place of what the host was doing.
func (r *hostRow) setActivity(e apply.Event, what string) {
	*r = hostRow{engine: r.engine, doing: what, since: e.Time, number: r.number, of: r.of}
}

type model struct {
	styles
	ready chan struct{} // closed by Init, of which there is one
	hosts []string
	rows  map[string]*hostRow
	forecasts
	began time.Time
	price float64      // of all hosts together, USD per hour
	cells int          // to be measured
	ended int          // of them
	at    time.Time    // of what was heard last
	last  *tea.View    // of a run that is over
	width atomic.Int32 // of the terminal; 0: it is not known
}

func newModel(s styles) *model {
	return &model{styles: s, rows: map[string]*hostRow{}, forecasts: forecasts{}}
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
		return m, m.takeDown(msg)
	case over:
		m.last = &tea.View{DisableBracketedPasteMode: true}
		return m, tea.Quit
	case apply.Event:
		m.event(msg)
	case tea.WindowSizeMsg:
		m.width.Store(int32(msg.Width))
	}
	return m, nil
}

// over says that the view can be taken down.
type over struct{}

// takeDown ends the view with a line about the whole run. Such a line leaves the cursor on the first line of
// the view, which has to stay as it is until it goes: from any other line the library leaves a part of it.
func (m *model) takeDown(e ended) tea.Cmd {
	v := m.View()
	m.last = &v
	quit := func() tea.Msg { return over{} }
	if m.began.IsZero() || m.cells == 0 {
		return quit
	}
	if !e.Time.IsZero() { // one that was killed has not said when
		m.at = e.Time
	}
	so := m.at.Sub(m.began)
	s := fmt.Sprintf("%d of %s in %s", m.ended, plain.Count(m.cells, "cell"), so.Round(time.Second))
	if m.price > 0 {
		s += ", " + dollars(m.price*so.Hours())
	}
	return tea.Sequence(tea.Println(s), quit)
}

func (m *model) begin(b begun) {
	m.began, m.at = b.Time, b.Time
	for _, h := range b.Hosts {
		m.row(h.Name)
		m.price += h.PricePerHour
	}
	m.cells = len(b.Cells)
	m.hear(b)
}

// row is a host's, which may be new.
func (m *model) row(host string) *hostRow {
	r := m.rows[host]
	if r == nil {
		r = &hostRow{}
		m.hosts = append(m.hosts, host)
		m.rows[host] = r
	}
	return r
}

func (m *model) event(e apply.Event) {
	m.at = e.Time
	m.hear(e)
	r := m.row(e.Host)
	if e.Engine != "" {
		r.engine = e.Engine
	}
	switch e.Type {
	case apply.Step, apply.Waiting, apply.Down:
		r.setActivity(e, e.Message)
	case apply.Pull:
		r.pull = e.Pull
	case apply.Download:
		r.fetched = e.Download
	case apply.Begin, apply.Try:
		what := coordinates(e)
		if e.Try > 1 {
			what += fmt.Sprintf(", try %d", e.Try)
		}
		r.setActivity(e, what)
		r.cell, r.number, r.of = e.Cell, e.Number, e.Of
		m.cells = max(m.cells, e.Of, m.ended+1) // a tuning makes them as it goes on
	case apply.Progress:
		r.current = e.Progress
	case apply.Tried:
		r.current = nil
	case apply.End:
		if m.ended++; e.Number > 0 { // else it was never begun; why has been told of its engine
			r.cell, r.current = "", nil
		}
	}
}

// eventLine is what is worth keeping of an event, above the view; empty: nothing.
func (s styles) eventLine(e apply.Event) string {
	switch e.Type {
	case apply.Ready:
		return s.good.Render("✓") + " " + s.bold.Render(e.Engine) + " " + e.Message
	case apply.End, apply.Tried:
		if e.Number == 0 {
			break
		}
		place := s.faint.Render(fmt.Sprintf("%d/%d", e.Number, e.Of))
		what := fmt.Sprintf(" %s %s  %s  ", place, s.bold.Render(e.Engine), coordinates(e))
		switch {
		case e.Type == apply.Tried:
			return s.faint.Render("·") + what + say.Tried(e.Capacity, loadOf(e.Axes))
		case e.Capacity != nil && e.Capacity.Holds == nil && e.Capacity.Breaks == nil:
			return s.warn.Render("!") + what + say.Capacity(e.Capacity)
		case e.Capacity != nil:
			return s.good.Render("✓") + what + say.Capacity(e.Capacity)
		case e.Summary == nil:
			return s.bad.Render("✗") + what + e.Message
		case e.Score != nil && e.Summary.Verdict.Verdict != load.Valid:
			return s.warn.Render("!") + what + e.Score.String() + "  " + s.warn.Render(e.Summary.Verdict.Verdict)
		case e.Score != nil:
			return s.good.Render("✓") + what + e.Score.String()
		case e.Summary.Verdict.Verdict != load.Valid:
			return s.warn.Render("!") + what + figuresShort(e.Summary) + "  " + s.warn.Render(e.Summary.Verdict.Verdict)
		default:
			return s.good.Render("✓") + what + figuresShort(e.Summary)
		}
	case apply.Warning:
		return s.warn.Render("!") + " " + e.Host + " " + e.Engine + " " + e.Message
	case apply.Failed:
		return s.bad.Render("✗") + " " + e.Host + " " + e.Engine + " " + e.Message
	}
	return ""
}

// figuresShort is what a person wants to see of a cell at a glance. What was not measured is not 0.
func figuresShort(s *load.Summary) string {
	text := number.Text(s.OutputThroughput) + " tok/s"
	if s.Silent() {
		text = number.Text(s.RequestThroughput) + " req/s  p50 E2EL " + number.Text(s.E2EL.Median) + " ms"
	}
	var p50 []string
	for _, l := range []struct {
		name string
		of   load.Stats
	}{{"TTFT", s.TTFT}, {"TPOT", s.TPOT}} {
		if l.of.Count > 0 {
			p50 = append(p50, l.name+" "+number.Text(l.of.Median)+" ms")
		}
	}
	if len(p50) > 0 {
		text += "  p50 " + strings.Join(p50, ", ")
	}
	return text
}

// View does not end in a line end: the library would count a line that it does not draw.
func (m *model) View() tea.View {
	if m.last != nil {
		return *m.last
	}
	now := time.Now()
	var lines []string
	for _, name := range m.hosts {
		lines = append(lines, m.bold.Render(name)+"  "+m.hostLine(name, now))
	}
	if !m.began.IsZero() && (m.price > 0 || len(m.hosts) > 1) {
		lines = append(lines, m.faint.Render(m.total(now)))
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.DisableBracketedPasteMode = true // nothing is typed into it
	return v
}

// total is how far the whole run is, and what it costs:
// "12 of 46 cells, 40m left, 12m so far; $5.60, about $24.00 in all".
func (m *model) total(now time.Time) string {
	so, left := now.Sub(m.began), m.left(now)
	s := fmt.Sprintf("%d of %s", m.ended, plain.Count(m.cells, "cell"))
	if left > 0 {
		s += ", " + plan.Rough(left) + " left"
	}
	s += fmt.Sprintf(", %s so far", so.Round(time.Second))
	if m.price > 0 {
		s += "; " + dollars(m.price*so.Hours())
		if left > 0 {
			s += fmt.Sprintf(", about %s in all", dollars(m.price*(so+left).Hours()))
		}
	}
	return s
}

func dollars(x float64) string { return fmt.Sprintf("$%.2f", x) }

// hostLine says how long a host still takes, and what it is doing. What matters most stands
// first: a narrow terminal shows no more.
func (m *model) hostLine(host string, now time.Time) string {
	r := m.rows[host]
	if r.doing == "" {
		return m.faint.Render("waiting")
	}
	s := ""
	if left := m.forHost(host).Left(now); left > 0 {
		s = plan.Rough(left) + " left  "
	}
	if r.cell == "" {
		what := r.engine + "  " + r.doing
		if r.pull != nil {
			what += ", " + pulled(*r.pull)
		}
		if f := r.fetched; f != nil {
			what = r.engine + "  downloading " + f.Repo + "  " + bar(float64(f.Bytes)/float64(f.Total)) + "  " + downloaded(*f)
		}
		return s + strings.TrimSpace(what) + m.faint.Render(fmt.Sprintf("  %s", now.Sub(r.since).Round(time.Second)))
	}
	s += fmt.Sprintf("%d/%d  %s", r.number, r.of, r.engine)
	if p := r.current; p != nil {
		if p.Total > 0 && p.Done > 0 && !p.Warmup {
			s += "  " + bar(float64(p.Done)/float64(p.Total))
		}
		s += "  " + advanced(*p)
	}
	return s + "  " + r.doing
}

func bar(part float64) string {
	const width = 10
	n := int(min(max(part, 0), 1) * width)
	return strings.Repeat("█", n) + strings.Repeat("░", width-n)
}

// audience is who watches on this terminal: a program that reads JSON, a person before a live view, or a log.
func (t *console) audience(asJSON bool) audience {
	switch {
	case asJSON:
		enc := json.NewEncoder(t.stdout)
		enc.SetEscapeHTML(false)
		return recorder(enc.Encode)
	case terminal(t.stderr) && os.Getenv("TERM") != "dumb": // on which lines can be drawn again
		l := newLive(t.stderr, t.colours(), func() { t.questions.show(nil) })
		t.questions.show(l)
		return l.tell
	default:
		l := &lines{log: t.logger(), w: t.stderr, last: map[string]time.Time{}}
		l.log.SetTimeFunction(func(time.Time) time.Time { return l.at })
		return l.tell
	}
}
