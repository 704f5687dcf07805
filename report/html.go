package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/load"
	"hclbench/results"
)

//go:embed page
var pageFiles embed.FS

// About is what a report tells beside what is in its rows. The zero value is a
// report about the rows alone.
type About struct {
	Title       string
	Description string
	Version     string // of hcl
	Layout      Layout
	References  []Compared
	Planned     []Planned // the lab's cells; nil: the lab's text is not at hand
	Spending    []Spending
	// Records reads the requests of a cell, for its distributions. Nil: percentiles
	// have to do.
	Records func(r *results.Row) ([]load.Record, error)
}

// HTML writes one page with everything in it: no part of it is anywhere else, and
// no script of it asks for anything.
func HTML(w io.Writer, rows []results.Row, about About) error {
	text, err := pageFiles.ReadFile("page/page.html")
	if err != nil {
		return err
	}
	t, err := template.New("page").Parse(string(text))
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	data, err := newPage(rows, about)
	if err != nil {
		return err
	}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// page is what the template prints.
type page struct {
	Title, Kicker, Description, Footer string
	Notes, Marks                       []string
	Style                              template.CSS
	Script                             template.JS
	StyleHash, ScriptHash              string // what the page's policy lets in
	Chips                              template.HTML
	Tiles                              []tile
	Findings                           []finding
	Sections                           []pageSection
	References                         []pageReference
	Spending                           [][]pageCell
	Count                              string
	Table                              pageTable
	Rest                               [][]tableCell // those that the table does not show at once
	CSV                                template.JS
	Plan                               []pagePlan
	Verdicts                           string
	Doubts                             []doubt
	Hosts                              []pageHost
	HostChanges                        []string
	Engines                            []pageEngine
}

type pageSection struct {
	ID, Title string
	Figures   []pageFigure
	Left      []string
}

type pageFigure struct {
	ID, Title, Short, Under string
	Hero, Over              bool
	Legend                  []pageLegend
	Charts                  []pageChart
	Notes                   []string
	CSV                     template.JS
}

type pageLegend struct {
	Index int
	Chip  template.HTML
	Label string
}

type pageChart struct{ Wide, Narrow template.HTML }

type pageReference struct {
	Title, Source string
	Table         pageTable
}

// pageTable is a table of a page.
type pageTable struct {
	ID     string // empty: none
	Groups []tableGroup
	Heads  []tableHead
	Rows   [][]tableCell
}

type tableGroup struct {
	Name  string
	Span  int
	Class string
}

type tableHead struct {
	Name  string
	Key   string // by which it is sorted and filtered; empty: it is not
	Class string // "n": numbers; "stay": the first column
}

// tableCell is one value. Those that a page does not show at once are its JSON.
type tableCell struct {
	Text  string `json:"t,omitempty"`
	Sort  string `json:"v,omitempty"` // exact, where Text is not
	Class string `json:"c,omitempty"` // where it is not the column's
	Chip  int    `json:"k,omitempty"` // marker of a series, by its index, from 1; 0: none
	Doubt int    `json:"d,omitempty"` // number of the reason against it; 0: none
}

type pageCell struct {
	Text   string
	Number bool
}

func newPage(rows []results.Row, about About) (*page, error) {
	all := newSeries(rows, about.Layout.Series)
	current := fresh(rows)
	figures, found := sections(current, all, about)
	style, err := style()
	if err != nil {
		return nil, err
	}
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		return nil, err
	}
	p := &page{Title: about.Title, Description: about.Description, Notes: about.Layout.Notes, Findings: found,
		Style: style, Script: template.JS(script), StyleHash: policyHash(string(style)), ScriptHash: policyHash(string(script))}
	p.Kicker, p.Chips = kicker(rows), chips(all.all)
	for i := range rows {
		if m := mark(rows[i]); m != "" && !slices.Contains(p.Marks, sentence(m)) {
			p.Marks = append(p.Marks, sentence(m))
		}
	}
	for _, reason := range sharedReasons(rows) {
		p.Marks = append(p.Marks, "All cells are suspect: "+reason)
	}
	p.Tiles = tiles(current, all)
	for _, s := range figures {
		x := pageSection{ID: "part-" + s.id, Title: s.title, Left: s.left}
		for _, f := range s.figures {
			fig := f.page()
			if slices.ContainsFunc(x.Figures, func(o pageFigure) bool { return o.Title == f.title }) {
				fig.Short = "" // the contents name the first of them
			}
			x.Figures = append(x.Figures, fig)
		}
		p.Sections = append(p.Sections, x)
	}
	for _, of := range byReference(about.References) {
		p.References = append(p.References, pageReference{
			Title: of[0].Reference + ", benchmark " + of[0].Benchmark, Source: of[0].Source, Table: referenceTable(of)})
	}
	for _, s := range about.Spending {
		p.Spending = append(p.Spending, s.cells())
	}
	p.HostChanges = hostChanges(rows)
	p.Doubts = doubts(rows, all)
	p.Table, p.Rest = resultsTable(rows, all, p.Doubts, about.Layout.Columns)
	p.Count = counted(len(rows), "cell")
	var csv bytes.Buffer
	if err := CSV(&csv, rows); err != nil {
		return nil, err
	}
	p.CSV = scriptText(csv.String())
	p.Plan = plans(rows, about.Planned)
	p.Verdicts = verdictCounts(rows)
	p.Hosts, p.Engines = environment(rows)
	p.Footer = strings.TrimSpace("Written by hcl " + about.Version)
	return p, nil
}

// policyHash names a part of the page in its content security policy: of all others
// in it, whoever wrote them, the browser runs and obeys none.
func policyHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// style is the page's, with the colours of the series in it.
func style() (template.CSS, error) {
	text, err := pageFiles.ReadFile("page/page.css")
	if err != nil {
		return "", err
	}
	variables := func(colours []string) string {
		var b strings.Builder
		for i, c := range colours {
			fmt.Fprintf(&b, "--s%d: %s; ", i, c)
		}
		return b.String()
	}
	return template.CSS(strings.NewReplacer("{{light}}", variables(palette()), "{{dark}}", variables(night()), "{{font}}", sans).Replace(string(text))), nil
}

// kicker says in a line where the rows are from.
func kicker(rows []results.Row) string {
	if len(rows) == 0 {
		return "No results"
	}
	parts := []string{counted(len(rows), "cell")}
	engines, gpus, hosts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	first, last := time.Time{}, time.Time{}
	for i := range rows {
		r := &rows[i]
		engines[r.Deployment.Engine] = true
		if r.Deployment.GPUs != "" {
			gpus[r.Deployment.GPUs] = true
		}
		if r.Deployment.Host != "" {
			hosts[r.Deployment.Host] = true
		}
		if first.IsZero() || !r.Started.IsZero() && r.Started.Before(first) {
			first = r.Started
		}
		if r.Finished.After(last) {
			last = r.Finished
		}
	}
	parts = append(parts, counted(len(engines), "engine"))
	if len(gpus) > 1 {
		parts = append(parts, counted(len(gpus), "kind")+" of GPU")
	}
	if len(hosts) > 0 {
		parts = append(parts, counted(len(hosts), "host"))
	}
	if !first.IsZero() && mark(rows[0]) == "" {
		from, to := first.UTC().Format("2 January 2006"), last.UTC().Format("2 January 2006")
		if from == to || last.IsZero() {
			parts = append(parts, from)
		} else {
			parts = append(parts, from+" to "+to)
		}
	}
	return strings.Join(parts, " · ")
}

// Sizes of charts in a page, by the room there is.
const (
	heroWide, heroHigh     = 1086, 430
	panelWide, panelHigh   = 524, 280
	phoneWide, phoneHigh   = 360, 250
	phoneHero              = 340
	overHigh, overHighThin = 190, 170
)

func (f *figure) page() pageFigure {
	out := pageFigure{ID: f.id, Title: f.title, Short: f.title, Under: f.under, Hero: f.hero, Over: f.wide, CSV: scriptText(f.csv())}
	var legend []*series
	for _, c := range f.charts {
		for _, s := range c.series() {
			if !slices.Contains(legend, s) {
				legend = append(legend, s)
			}
		}
		wide, narrow := f.drawings(c)
		out.Charts = append(out.Charts, pageChart{template.HTML(wide.svg(false)), template.HTML(narrow.svg(false))})
	}
	slices.SortFunc(legend, func(a, b *series) int { return a.index - b.index })
	if f.wide {
		legend = nil // the title names it
	}
	for _, s := range legend {
		out.Legend = append(out.Legend, pageLegend{s.index, chip(s), s.label})
	}
	out.Notes = f.readings
	return out
}

// drawings are a chart for a wide and for a narrow page.
func (f *figure) drawings(c *chart) (wide, narrow *drawing) {
	switch {
	case c.groups != nil:
		return c.draw(panelWide, c.barsHeight(), false), c.draw(phoneWide, c.barsHeight(), false)
	case f.hero:
		return c.draw(heroWide, heroHigh, false), c.draw(phoneWide, phoneHero, false)
	case f.wide:
		return c.draw(panelWide, overHigh, false), c.draw(phoneWide, overHighThin, false)
	}
	return c.draw(panelWide, panelHigh, false), c.draw(phoneWide, phoneHigh, false)
}

// finding is who is ahead in one figure: a row for each of its charts, a column
// for each place along their axis.
func (f *figure) finding(of section) (finding, bool) {
	x := finding{Figure: of.title, Under: f.under}
	for _, c := range f.charts {
		if c.leads == nil {
			continue
		}
		if x.Rows == nil {
			x.Along = c.x.title
			for _, l := range c.leads {
				x.Head = append(x.Head, short(l.x))
			}
		}
		row := findingRow{Metric: c.title}
		for _, l := range c.leads {
			var cell findingCell
			switch {
			case l.level:
				cell.Label = "level"
			case l.series != nil:
				cell = findingCell{Chip: chip(l.series), Label: l.series.label, By: percent(l.by)}
			}
			if l.suspect != nil {
				cell.Besides = l.suspect.label + " is suspect, and left out"
			}
			row.Cells = append(row.Cells, cell)
		}
		x.Rows = append(x.Rows, row)
	}
	return x, x.Rows != nil
}

// chip is the marker of a series as it is in charts: a use of one of [chips].
func chip(s *series) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg width="22" height="10" aria-hidden="true"><use href="#k%d"/></svg>`, s.index+1))
}

// chips are the markers of all series, drawn once for a page.
func chips(all []*series) template.HTML {
	var b bytes.Buffer
	b.WriteString(`<svg width="0" height="0" class="chips" aria-hidden="true">`)
	for _, s := range all {
		fmt.Fprintf(&b, `<symbol id="k%d" viewBox="0 0 22 10">`, s.index+1)
		for _, m := range []piece{
			{at: []point{{1, 5}, {21, 5}}, colour: colourOf(s), width: 2, dash: dashOf(s)},
			{shape: symbolOf(s), at: []point{{11, 5}}, size: 3.5, colour: colourOf(s)},
		} {
			m.svg(&b, css)
		}
		b.WriteString("</symbol>\n")
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// scriptText is text as a string of JavaScript that cannot end its element.
func scriptText(s string) template.JS {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always can be marshalled
	}
	return template.JS(b)
}

// tile is a figure that stands out.
type tile struct{ Name, Value, Unit, Whose, Where string }

// tiles are the best of each of the main figures.
func tiles(rows []results.Row, all *seriesOf) []tile {
	cells := samples(rows, all)
	var out []tile
	for _, choice := range [][]metric{{outputThroughput, totalThroughput}, {perGPU}, {medianTTFT}, {interactivity}, {costOutput}, {energyPerToken}} {
		for _, m := range choice {
			var best *sample
			var of dot
			for _, s := range cells {
				d, ok := s.value(m)
				if ok && !d.doubt && (best == nil || (d.y-of.y)*float64(m.better) > 0) {
					best, of = s, d
				}
			}
			if best == nil {
				continue
			}
			sure := 0
			doubted := false // something suspect would be better
			for _, s := range cells {
				d, ok := s.value(m)
				if ok && !d.doubt {
					sure++
				}
				doubted = doubted || ok && d.doubt && (d.y-of.y)*float64(m.better) > 0
			}
			name := "Highest " + lower(m.title)
			if m.better < 0 {
				name = "Lowest " + lower(m.title)
			}
			where := slice{samples: []*sample{best}}.under()
			if best.dataset != "" && slices.ContainsFunc(cells, func(s *sample) bool { return s.benchmark == best.benchmark && s.dataset != best.dataset }) {
				where += ", " + best.dataset
			}
			if doubted {
				where += fmt.Sprintf(", of the %s not in doubt; a suspect one is beyond", counted(sure, "cell"))
			}
			out = append(out, tile{name, number(of.y), m.unit, best.series.label, strings.Trim(best.benchmark+": "+where, ": ")})
			break
		}
	}
	return out
}

// finding is who is ahead in one figure.
type finding struct {
	Figure, Under, Along string
	Head                 []string
	Rows                 []findingRow
}

type findingRow struct {
	Metric string
	Cells  []findingCell
}

// findingCell is one place; without a label nobody is ahead there.
type findingCell struct {
	Chip      template.HTML
	Label, By string
	Besides   string // what the lead says nothing of
}

// shownRows are the rows that a page shows before it is asked for all.
const shownRows = 200

// tableMetrics are the figures of a page's table: those of these names, or those
// that matter most.
func tableMetrics(rows []results.Row, names []string) []metric {
	if names != nil {
		return chosen(names)
	}
	tail := "p" + tailPercentile(rows)
	metrics := []metric{duration, requestThroughput, goodput, outputThroughput, totalThroughput, perGPU}
	for _, t := range []timing{ttft, tpot, itl, e2el} {
		mid := latency(t, "median")
		if !anyValue(rows, mid) {
			mid = latency(t, "mean")
		}
		metrics = append(metrics, mid, latency(t, tail))
	}
	metrics = append(metrics, interactivity, costOutput, costTotal, energyPerToken)
	return slices.DeleteFunc(metrics, func(m metric) bool { return !anyValue(rows, m) })
}

func anyValue(rows []results.Row, m metric) bool {
	for i := range rows {
		if _, ok := m.value(&rows[i]); ok {
			return true
		}
	}
	return false
}

// resultsTable is every cell in a line: those that are shown at once as a table, and
// the others apart, for browsers take long to lay out what nobody has asked for.
func resultsTable(rows []results.Row, all *seriesOf, doubts []doubt, columns []string) (table pageTable, more [][]tableCell) {
	sheet := newSheet(rows, all, doubts, columns)
	table = pageTable{ID: "cells", Groups: groupsOf(sheet), Rows: [][]tableCell{}}
	for _, c := range sheet {
		table.Heads = append(table.Heads, c.head)
	}
	more = [][]tableCell{}
	for i := range rows {
		line := make([]tableCell, len(sheet))
		for j, c := range sheet {
			line[j] = c.of(&rows[i])
		}
		if i < shownRows {
			table.Rows = append(table.Rows, line)
		} else {
			more = append(more, line)
		}
	}
	return table, more
}

// sheetColumn is a column of a page's table.
type sheetColumn struct {
	group string
	head  tableHead
	of    func(r *results.Row) tableCell
}

// groupsOf are the titles above the columns: neighbours of one group have one.
func groupsOf(sheet []sheetColumn) (groups []tableGroup) {
	for i, c := range sheet {
		if n := len(groups); c.group != "" && n > 0 && groups[n-1].Name == c.group {
			groups[n-1].Span++
			continue
		}
		g := tableGroup{Name: c.group, Span: 1}
		if i == 0 {
			g.Class = "stay"
		}
		groups = append(groups, g)
	}
	return groups
}

// newSheet are the columns of the table of all cells.
func newSheet(rows []results.Row, all *seriesOf, doubts []doubt, columns []string) []sheetColumn {
	text := func(s string) tableCell { return tableCell{Text: dashed(s)} }
	count := func(n int) tableCell { return tableCell{Text: whole(n), Sort: strconv.Itoa(n)} }
	sheet := []sheetColumn{{"", tableHead{"series", "series", "stay"}, func(r *results.Row) tableCell {
		s := all.find(r)
		return tableCell{Text: s.label, Chip: s.index + 1}
	}}}
	add := func(group, name, key, class string, of func(r *results.Row) tableCell) {
		sheet = append(sheet, sheetColumn{group, tableHead{name, strings.ToLower(key), class}, of})
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return r.Benchmark != rows[0].Benchmark }) {
		add("", "benchmark", "benchmark", "", func(r *results.Row) tableCell { return text(r.Benchmark) })
	}
	for _, name := range axes(rows) {
		if name == "engine" {
			continue
		}
		class := "n"
		if slices.ContainsFunc(rows, func(r results.Row) bool { v, ok := r.Axes.Value(name); _, isNumber := float(v); return ok && !isNumber }) {
			class = ""
		}
		add("", strings.ReplaceAll(name, "_", " "), name, class, func(r *results.Row) tableCell { return text(axisCell(r.Axes, name)) })
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return r.Repetition > 1 }) {
		add("", "rep", "repetition", "n", func(r *results.Row) tableCell { return count(r.Repetition) })
	}
	metrics := tableMetrics(rows, columns)
	for _, m := range []metric{failed, completed} {
		if !slices.Contains(columns, m.name) {
			metrics = slices.Insert(metrics, 0, m)
		}
	}
	for _, m := range metrics {
		group, name := m.group, m.short
		if m.unit != "" && name != m.unit {
			if group != "" {
				group += ", " + m.unit
			} else {
				name += ", " + m.unit
			}
		}
		add(strings.Replace(group, "USD per million, USD", "USD per million", 1), name, m.name, "n", func(r *results.Row) tableCell {
			v, ok := m.value(r)
			if !ok {
				return text(none)
			}
			return tableCell{Text: number(v), Sort: strconv.FormatFloat(v, 'g', 6, 64)}
		})
	}
	if slices.ContainsFunc(rows, func(r results.Row) bool { return metText(&r) != "" }) {
		add("", "SLO", "slo", "", func(r *results.Row) tableCell {
			c := tableCell{Text: dashed(cmp.Or(metText(r), none)), Sort: metText(r)}
			if _, missed, _ := attained(r); missed != nil {
				c.Text += " " + strings.Join(missed, ", ")
			}
			return c
		})
	}
	add("", "verdict", "verdict", "", func(r *results.Row) tableCell {
		v := r.Verdict().Verdict
		c := tableCell{Text: v, Sort: v, Class: v, Doubt: doubtOf(doubts, r)}
		if r.Stale {
			c.Text += ", stale"
		}
		return c
	})
	return sheet
}

// dashed is a cell of a page's table.
func dashed(cell string) string {
	if cell == none {
		return "–"
	}
	return cell
}

// exact is a number as it was measured.
func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// referenceTable is one table of published figures beside measured ones.
func referenceTable(all []Compared) pageTable {
	g := referenceGrid(all, shown(all))
	var t pageTable
	for _, group := range g.groups() {
		t.Groups = append(t.Groups, tableGroup{Name: g.columns[group[0]].group, Span: len(group)})
	}
	for _, c := range g.columns {
		class := "n"
		if c.left {
			class = ""
		}
		t.Heads = append(t.Heads, tableHead{Name: strings.ReplaceAll(c.name, "_", " "), Class: class})
	}
	for i := range all {
		var line []tableCell
		for _, c := range g.columns {
			line = append(line, tableCell{Text: dashed(c.cells[i])})
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// cells are the columns of a run's spending.
func (s Spending) cells() []pageCell {
	part := func(v float64) string {
		if s.Held <= 0 {
			return none
		}
		return number(100 * v / s.Held)
	}
	money := func(v float64) string {
		if s.Price <= 0 {
			return none
		}
		return fmt.Sprintf("%.2f", v)
	}
	return []pageCell{{s.Run, false}, {s.Host, false}, {s.held(), true}, {part(s.Starting), true}, {part(s.Measuring), true},
		{part(s.Idle), true}, {money(s.Price), true}, {money(s.Cost), true}, {money(s.IdleCost), true}}
}

// doubt is one reason against cells, with all cells that it is against.
type doubt struct {
	Number      int
	Text, Count string
	Cells       []string
}

// doubts are the footnotes of a page.
func doubts(rows []results.Row, all *seriesOf) []doubt {
	var out []doubt
	byText := map[string]int{}
	for i := range rows {
		r := &rows[i]
		text := reasons(*r)
		if text == "" {
			continue
		}
		n, known := byText[text]
		if !known {
			n = len(out)
			byText[text] = n
			out = append(out, doubt{Number: n + 1, Text: text})
		}
		place := fmt.Sprintf("%s, %s%s", r.Benchmark, all.find(r).label, axesText(r.Axes))
		out[n].Cells = append(out[n].Cells, place)
	}
	for i := range out {
		out[i].Count = counted(len(out[i].Cells), "cell")
	}
	return out
}

func doubtOf(doubts []doubt, r *results.Row) int {
	if text := reasons(*r); text != "" {
		return slices.IndexFunc(doubts, func(d doubt) bool { return d.Text == text }) + 1
	}
	return 0
}

// axesText is a cell's place: ", concurrency 64, output tokens 800".
func axesText(axes results.Axes) string {
	var b strings.Builder
	for _, a := range axes {
		if a.Name != "engine" {
			fmt.Fprintf(&b, ", %s %s", strings.ReplaceAll(a.Name, "_", " "), axisText(a.Value))
		}
	}
	return b.String()
}

func verdictCounts(rows []results.Row) string {
	n := map[string]int{}
	for i := range rows {
		n[rows[i].Verdict().Verdict]++
	}
	text := fmt.Sprintf("%s: %s valid, ", counted(len(rows), "cell"), whole(n[load.Valid]))
	if n[load.Imported] > 0 {
		text += whole(n[load.Imported]) + " imported, not measured here, "
	}
	return text + fmt.Sprintf("%s suspect, %s void.", whole(n[load.Suspect]), whole(n[load.Void]))
}

// pagePlan is what a benchmark asked for and what came of it.
type pagePlan struct {
	Benchmark, Counts string
	Axes              []named
	Missing           []string
}

type named struct{ Name, Value string }

// maxMissing bounds the cells that are listed as not measured.
const maxMissing = 200

// plans say of each benchmark what it turned and what is not measured.
func plans(rows []results.Row, planned []Planned) []pagePlan {
	var order []string
	axesOf := map[string][]results.Axes{}
	add := func(benchmark string, axes results.Axes) {
		if axesOf[benchmark] == nil {
			order = append(order, benchmark)
		}
		axesOf[benchmark] = append(axesOf[benchmark], axes)
	}
	verdict := map[string]string{}
	measured := map[string]int{}
	for i := range rows {
		r := &rows[i]
		verdict[r.ID] = r.Verdict().Verdict
		if verdict[r.ID] != load.Void {
			measured[r.Benchmark]++
		}
	}
	missing := map[string][]string{}
	for _, c := range planned {
		add(c.Benchmark, c.Axes)
		if v, ok := verdict[c.ID]; !ok {
			missing[c.Benchmark] = append(missing[c.Benchmark], c.place())
		} else if v == load.Void {
			missing[c.Benchmark] = append(missing[c.Benchmark], c.place()+": void")
		}
	}
	counts := map[string]int{}
	for _, c := range planned {
		counts[c.Benchmark]++
	}
	for i := range rows {
		if counts[rows[i].Benchmark] == 0 {
			add(rows[i].Benchmark, rows[i].Axes)
			if verdict[rows[i].ID] == load.Void {
				missing[rows[i].Benchmark] = append(missing[rows[i].Benchmark], Planned{Axes: rows[i].Axes}.place()+": void")
			}
		}
	}
	var out []pagePlan
	for _, name := range order {
		p := pagePlan{Benchmark: name, Missing: missing[name]}
		if n := counts[name]; n > 0 {
			p.Counts = fmt.Sprintf("%s planned, %s not measured.", counted(n, "cell"), whole(len(p.Missing)))
		} else {
			p.Counts = fmt.Sprintf("%s measured. The lab's text is not at hand, so what else it asks for is not known.", counted(measured[name], "cell"))
		}
		if more := len(p.Missing) - maxMissing; more > 0 {
			p.Missing = append(p.Missing[:maxMissing:maxMissing], fmt.Sprintf("and %s more", whole(more)))
		}
		for _, axis := range axisNames(axesOf[name]) {
			var values []string
			for _, axes := range axesOf[name] {
				if v, ok := axes.Value(axis); ok && !slices.Contains(values, axisText(v)) {
					values = append(values, axisText(v))
				}
			}
			if !slices.ContainsFunc(values, func(v string) bool { return !isNumber(v) }) {
				slices.SortFunc(values, func(a, b string) int {
					x, _ := float(a) // all of them are numbers
					y, _ := float(b)
					return cmp.Compare(x, y)
				})
			}
			p.Axes = append(p.Axes, named{strings.ReplaceAll(axis, "_", " "), strings.Join(values, ", ")})
		}
		out = append(out, p)
	}
	return out
}

func axisNames(all []results.Axes) []string {
	var names []string
	for _, axes := range all {
		for _, a := range axes {
			if !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

func (c Planned) place() string {
	var parts []string
	for _, a := range c.Axes {
		parts = append(parts, axisText(a.Value)+map[bool]string{true: "", false: " " + strings.ReplaceAll(a.Name, "_", " ")}[a.Name == "engine"])
	}
	return strings.Join(parts, ", ")
}
