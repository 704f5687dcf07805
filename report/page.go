package report

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"hclbench/load"
	"hclbench/plain"
	"hclbench/report/chart"
	"hclbench/report/number"
	"hclbench/results"
)

var (
	//go:embed page/page.html
	pageText string
	//go:embed page/page.css
	pageStyle string
	//go:embed page/*.js
	scripts embed.FS
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
	return newPage(rows, about).write(w)
}

func (p *page) write(w io.Writer) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// page is what the template prints.
type page struct {
	Title, Description, Footer string
	Headline                   string   // the lab's; empty: what was found
	Source                     []string // model, GPUs, lab, run, date
	Status                     []status
	Notes, Marks               []string
	Style                      template.CSS
	Script                     template.JS
	StyleHash, ScriptHash      string // what the page's policy lets in
	Chips                      template.HTML
	Data                       *data
	Front                      *figure // what is drawn first where no script runs; nil: nothing is
	Sections                   []section
	References                 []pageReference
	Spending, Hosts            *pageTable // nil: there is nothing in it
	Plan                       []pagePlan
	Verdicts                   string
	Doubts                     []pageDoubt
	HostChanges                []string
	Engines                    []pageEngine
	Compared                   *pageDifference // nil: it is of one set of results
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
	published := publishedRows(rows, about)
	stale := slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool { return !r.Stale })
	data := newData(current, stale, published, all, notes, &about.Layout) // before what is drawn of it
	sections := sections(current, all, about)
	style, script := style(), script()
	source := sourceOf(rows, about)
	p := &page{Title: about.Title, Description: about.Description,
		Headline: plain.Line(about.Layout.Headline), Notes: about.Layout.Notes,
		Source: slices.Concat(source.what, source.from), Status: statuses(rows, about.Planned, unmeasured(current, all)),
		Footer: strings.TrimSpace("Written by hcl " + about.Version),
		Style:  template.CSS(style), StyleHash: policyHash(style),
		Script: template.JS(script), ScriptHash: policyHash(script),
		Chips: template.HTML(chart.Symbols(all.all)), Sections: sections,
		Data: data,
		Plan: plans(rows, about.Planned), Verdicts: verdictCounts(rows), Doubts: pageDoubts(notes, all),
		HostChanges: hostChanges(rows), Engines: engines(rows)}
	for _, s := range sections {
		if len(s.Figures) > 0 && p.Front == nil {
			p.Front = s.Figures[0]
		}
	}
	for i := range rows {
		if m := mark(&rows[i]); m != "" {
			p.Marks = once(p.Marks, sentence(m))
		}
	}
	p.Marks = append(p.Marks, forcedText(rows)...)
	if len(published) > 0 && len(those(rows, isMeasured)) == 0 {
		p.Marks = append(p.Marks, onlyPublished)
	}
	for _, reason := range sharedReasons(rows) {
		p.Marks = append(p.Marks, "All cells are suspect: "+reason)
	}
	for _, of := range byReference(about.References) {
		p.References = append(p.References, pageReference{of[0].Reference + ", benchmark " + of[0].Benchmark, of[0].Source,
			referenceSheet(of, shown(of)).page()})
	}
	if len(about.Spending) > 0 {
		p.Spending = spendingSheet(about.Spending).page()
	}
	if hosts := hostSheet(rows); hosts.rows > 0 {
		p.Hosts = hosts.page()
	}
	return p
}

const onlyPublished = "What others published: no cell here has figures of its own"

// status is how many cells are of one kind; its filter shows them, or its link says more.
type status struct{ Count, Text, Class, Filter, Link string }

// maxNamed bounds the series that the strip names.
const maxNamed = 3

// statuses are what came of all cells, and the series of which nothing came.
func statuses(rows []results.Row, planned []Planned, unmeasured []string) (out []status) {
	count := number.Whole(len(rows))
	out = append(out, status{Count: count, Text: strings.TrimPrefix(number.Count(len(rows), "cell"), count+" ")})
	for _, verdict := range verdicts() {
		of := those(rows, func(r *results.Row) bool { return r.Verdict().Verdict == verdict })
		if len(of) == 0 {
			continue
		}
		s := status{Count: number.Whole(len(of)), Text: verdict, Class: verdict, Filter: "verdict=" + verdict}
		if why := grouped(of, reasonOf); len(why) == 1 && (verdict == load.Suspect || verdict == load.Void) {
			s.Text += ": " + reasonOf(of[0])
		}
		out = append(out, s)
	}
	have := map[string]bool{}
	for _, r := range rows {
		have[r.ID] = true
	}
	missing := 0
	for _, c := range planned {
		if !have[c.ID] {
			missing++
		}
	}
	if missing > 0 {
		out = append(out, status{Count: number.Whole(missing), Text: "not measured", Class: "void", Link: "#plan"})
	}
	if n := len(unmeasured); n > 0 {
		text := "series without figures: " + strings.Join(unmeasured[:min(n, maxNamed)], ", ")
		if n > maxNamed {
			text += ", …"
		}
		out = append(out, status{Count: number.Whole(n), Text: text, Class: "void", Link: "#plan"})
	}
	return out
}

// script is all that the page runs, of one scope of its own.
func script() string {
	text := "\"use strict\";\n{\n"
	for _, name := range []string{"data", "page", "compare", "decide", "hero", "table", "cell"} {
		part, err := scripts.ReadFile("page/" + name + ".js")
		if err != nil {
			panic(err) // it is in the binary
		}
		text += string(part)
	}
	return text + "}\n"
}

func pageDoubts(notes doubts, all *seriesOf) (out []pageDoubt) {
	for i, d := range notes {
		x := pageDoubt{Number: i + 1, Text: d.Text, Count: number.Count(len(d.rows), "cell")}
		for _, r := range d.rows {
			others := axisWords(r.Axes, func(name string) bool { return name != "engine" && name != sideAxis })
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
	Groups []tableGroup // nil: no column has any
	Heads  []tableHead
	Rows   [][]entry
}

type tableGroup struct {
	Name string
	Span int
}

type tableHead struct {
	Name  string
	Class string // "n": numbers
}

// page is the sheet as a table of the page.
func (s *sheet) page() *pageTable {
	t := &pageTable{Rows: make([][]entry, s.rows)}
	if slices.ContainsFunc(s.columns, func(c column) bool { return c.group != "" }) {
		for _, group := range s.groups() {
			t.Groups = append(t.Groups, tableGroup{s.columns[group[0]].group, len(group)})
		}
	}
	for _, c := range s.columns {
		head := tableHead{Name: strings.ReplaceAll(c.name, "_", " ")}
		if !c.left {
			head.Class = "n"
		}
		t.Heads = append(t.Heads, head)
		for row, e := range c.entries {
			if e.Text == "" {
				e.Text = cmp.Or(fewer(e.Needs), "–")
			}
			t.Rows[row] = append(t.Rows[row], e)
		}
	}
	return t
}

// paged are the figures of the page's table when nobody has chosen any.
func paged(rows []results.Row) (metrics []weighted) {
	all := []Metric{duration, requestThroughput, goodput, outputThroughput, totalThroughput,
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
		metrics = append(metrics, weighted{weight: 1, Metric: m})
	}
	return metrics
}

func anyValue(rows []results.Row, m Metric) bool {
	return slices.ContainsFunc(rows, func(r results.Row) bool { _, ok := m.value(&r); return ok })
}
