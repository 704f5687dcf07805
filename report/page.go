package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

var (
	//go:embed page/page.html
	pageText string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/page.js
	pageScript string
)

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
	// Records reads the requests of a cell, for its distributions. Nil: percentiles have to do.
	Records func(r *results.Row) ([]load.Record, error)
}

// HTML writes one page with everything in it: no part of it is anywhere else, and
// no script of it asks for anything.
func HTML(w io.Writer, rows []results.Row, about About) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	if err := t.Execute(w, newPage(rows, about)); err != nil {
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
	Answers                            []*answer
	Sections                           []section
	References                         []pageReference
	Spending, Hosts                    *pageTable // nil: there is nothing in it
	Count                              string
	Cells                              *pageTable
	Rest                               [][]entry // those that Cells does not show at once
	CSV                                string
	Plan                               []pagePlan
	Verdicts                           string
	Doubts                             []pageDoubt
	HostChanges                        []string
	Engines                            []pageEngine
}

type pageReference struct {
	Title, Source string
	Table         *pageTable
}

type pageDoubt struct {
	Number      int
	Text, Count string
	Cells       []string
}

func newPage(rows []results.Row, about About) *page {
	all, current, notes := about.series(rows), fresh(rows), newDoubts(rows)
	sections, found := sections(current, all, about)
	style := style()
	var csv strings.Builder
	_ = CSV(&csv, rows) // a builder takes whatever is written
	p := &page{Title: about.Title, Description: about.Description, Kicker: kicker(rows), Notes: about.Layout.Notes,
		Footer: strings.TrimSpace("Written by hcl " + about.Version),
		Style:  template.CSS(style), StyleHash: policyHash(style),
		Script: template.JS(pageScript), ScriptHash: policyHash(pageScript),
		Chips: template.HTML(chart.Symbols(all.all)), Tiles: tiles(current, all), Findings: found,
		Answers: about.answers(current, all), Sections: sections,
		Count: number.Count(len(rows), "cell"), CSV: csv.String(),
		Cells: cellSheet(rows, all, notes, about.Layout.Columns).page("cells", "grid"),
		Plan:  plans(rows, about.Planned), Verdicts: verdictCounts(rows), Doubts: pageDoubts(notes, all),
		HostChanges: hostChanges(rows), Engines: engines(rows)}
	for i := range rows {
		if m := mark(&rows[i]); m != "" {
			p.Marks = once(p.Marks, sentence(m))
		}
	}
	for _, reason := range sharedReasons(rows) {
		p.Marks = append(p.Marks, "All cells are suspect: "+reason)
	}
	for _, of := range byReference(about.References) {
		p.References = append(p.References, pageReference{of[0].Reference + ", benchmark " + of[0].Benchmark, of[0].Source,
			referenceSheet(of, shown(of)).page("", "grid")})
	}
	if len(about.Spending) > 0 {
		p.Spending = spendingSheet(about.Spending).page("", "plain")
	}
	if hosts := hostSheet(rows); hosts.rows > 0 {
		p.Hosts = hosts.page("", "plain")
	}
	first := min(len(rows), shownRows)
	p.Cells.Rows, p.Rest = p.Cells.Rows[:first], p.Cells.Rows[first:]
	return p
}

func pageDoubts(notes doubts, all *seriesOf) (out []pageDoubt) {
	for i, d := range notes {
		x := pageDoubt{Number: i + 1, Text: d.Text, Count: number.Count(len(d.rows), "cell")}
		for _, r := range d.rows {
			others := axisWords(r.Axes, func(name string) bool { return name != "engine" })
			x.Cells = append(x.Cells, strings.Join(append([]string{r.Benchmark, all.find(r).Label}, others...), ", "))
		}
		out = append(out, x)
	}
	return out
}

// policyHash names a part of the page in its content security policy: of all others
// in it, whoever wrote them, the browser runs and obeys none.
func policyHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// style is the page's, with the colours of the series in it.
func style() string {
	variables := func(colours []string) (text string) {
		for i, c := range colours {
			text += fmt.Sprintf("--s%d: %s; ", i, c)
		}
		return text
	}
	return strings.NewReplacer("{{light}}", variables(chart.Palette()), "{{dark}}", variables(chart.Night()),
		"{{font}}", chart.Sans).Replace(pageStyle)
}

// pageTable is a sheet as the template of the page prints it.
type pageTable struct {
	ID, Class string
	Groups    []tableGroup // nil: no column has any
	Heads     []tableHead
	Rows      [][]entry
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

// page is the sheet as a table of the page; one with an id can be sorted and filtered.
func (s *sheet) page(id, class string) *pageTable {
	t := &pageTable{ID: id, Class: class, Rows: make([][]entry, s.rows)}
	stay := func(i int, otherwise string) string {
		if i == 0 && id != "" {
			return "stay"
		}
		return otherwise
	}
	if slices.ContainsFunc(s.columns, func(c column) bool { return c.group != "" }) {
		for i, group := range s.groups() {
			t.Groups = append(t.Groups, tableGroup{Name: s.columns[group[0]].group, Span: len(group), Class: stay(i, "")})
		}
	}
	for i, c := range s.columns {
		head := tableHead{Name: strings.ReplaceAll(c.name, "_", " ")}
		if id != "" {
			head.Key = strings.ToLower(c.key)
		}
		if !c.left {
			head.Class = "n"
		}
		head.Class = stay(i, head.Class)
		t.Heads = append(t.Heads, head)
		for row, e := range c.entries {
			if e.Text == "" {
				e.Text = "–"
			}
			if e.Sort == e.Text && e.Doubt == 0 {
				e.Sort = "" // the text says it
			}
			t.Rows[row] = append(t.Rows[row], e)
		}
	}
	return t
}

// shownRows are the rows that a page shows before it is asked for all: browsers take
// long to lay out what nobody has asked for.
const shownRows = 200

// cellSheet is the table of all cells: what differs beside the series, and figures.
func cellSheet(rows []results.Row, all *seriesOf, notes doubts, names []string) *sheet {
	columns := []column{column{key: "series", name: "series", left: true}.with(len(rows), func(i int) entry {
		s := all.find(&rows[i])
		return entry{Text: s.Label, Chip: s.Chip()}
	})}
	if benchmark := identity(rows)[0]; !benchmark.same() {
		columns = append(columns, benchmark)
	}
	for _, c := range axisColumns(rows) {
		if c.key != "engine" {
			columns = append(columns, c)
		}
	}
	return &sheet{rows: len(rows), columns: slices.Concat(columns, repetitionColumns(rows),
		figureColumns(rows, names, paged(rows)), verdictColumn(rows, notes))}
}

// paged are the figures of the page's table when nobody has chosen any.
func paged(rows []results.Row) (metrics []weighted) {
	all := []metric{duration, requestThroughput, goodput, outputThroughput, totalThroughput,
		perGPU, perDecodeGPU, perPrefillGPU}
	tail := tailPercentile(rows)
	for _, t := range timings {
		mid := latency(t, "median")
		if !anyValue(rows, mid) {
			mid = latency(t, "mean")
		}
		all = append(all, mid, latency(t, tail))
	}
	for _, m := range append(all, interactivity, costOutput, costTotal, energyPerToken) {
		metrics = append(metrics, weighted{weight: 1, metric: m})
	}
	return metrics
}

func anyValue(rows []results.Row, m metric) bool {
	return slices.ContainsFunc(rows, func(r results.Row) bool { _, ok := m.value(&r); return ok })
}
