package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
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
	t, err := template.ParseFS(pageFiles, "page/page.html")
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
	Spending, Hosts                    *pageTable // nil: there is nothing in it
	Count                              string
	Cells                              pageTable
	Rest                               [][]entry // those that Cells does not show at once
	CSV                                template.JS
	Plan                               []pagePlan
	Verdicts                           string
	Doubts                             []pageDoubt
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
	Legend                  []*chart.Series
	Charts                  []pageChart
	Notes                   []string
	CSV                     template.JS
}

type pageChart struct{ Wide, Narrow template.HTML }

type pageReference struct {
	Title, Source string
	Table         pageTable
}

type pageDoubt struct {
	Number      int
	Text, Count string
	Cells       []string
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
		Style: style, Script: template.JS(script), StyleHash: policyHash(string(style)),
		ScriptHash: policyHash(string(script))}
	p.Kicker, p.Chips = kicker(rows), template.HTML(chart.Symbols(all.all))
	for i := range rows {
		if m := mark(&rows[i]); m != "" {
			p.Marks = once(p.Marks, sentence(m))
		}
	}
	for _, reason := range sharedReasons(rows) {
		p.Marks = append(p.Marks, "All cells are suspect: "+reason)
	}
	p.Tiles = tiles(current, all)
	p.Sections = pageSections(figures)
	for _, of := range byReference(about.References) {
		p.References = append(p.References, pageReference{
			Title: of[0].Reference + ", benchmark " + of[0].Benchmark, Source: of[0].Source,
			Table: *referenceSheet(of, shown(of)).page("", "grid")})
	}
	if len(about.Spending) > 0 {
		p.Spending = spendingSheet(about.Spending).page("", "plain")
	}
	if hosts := hostSheet(rows); hosts.rows > 0 {
		p.Hosts = hosts.page("", "plain")
	}
	p.HostChanges = hostChanges(rows)
	notes := newDoubts(rows)
	p.Doubts = pageDoubts(notes, all)
	p.Cells = *cellSheet(rows, all, notes, about.Layout.Columns).page("cells", "grid")
	shown := min(len(rows), shownRows)
	p.Cells.Rows, p.Rest = p.Cells.Rows[:shown], p.Cells.Rows[shown:]
	p.Count = number.Count(len(rows), "cell")
	var csv bytes.Buffer
	if err := CSV(&csv, rows); err != nil {
		return nil, err
	}
	p.CSV = scriptText(csv.String())
	p.Plan = plans(rows, about.Planned)
	p.Verdicts = verdictCounts(rows)
	p.Engines = engines(rows)
	p.Footer = strings.TrimSpace("Written by hcl " + about.Version)
	return p, nil
}

// pageSections are the sections with their charts drawn.
func pageSections(sections []section) (out []pageSection) {
	for _, s := range sections {
		x := pageSection{ID: "part-" + s.id, Title: s.title, Left: s.left}
		for _, f := range s.figures {
			drawn := f.page()
			if slices.ContainsFunc(x.Figures, func(o pageFigure) bool { return o.Title == f.title }) {
				drawn.Short = "" // the contents name the first of them
			}
			x.Figures = append(x.Figures, drawn)
		}
		out = append(out, x)
	}
	return out
}

// pageDoubts are the doubts with the places of their cells.
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
	return template.CSS(strings.NewReplacer("{{light}}", variables(chart.Palette()), "{{dark}}",
		variables(chart.Night()), "{{font}}", chart.Sans).Replace(string(text))), nil
}

// scriptText is text as a string of JavaScript that cannot end its element.
func scriptText(s string) template.JS {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always can be marshalled
	}
	return template.JS(b)
}
