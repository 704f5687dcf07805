// Package page writes the report as one HTML page with all its data. What leads and what is sure was decided below;
// its scripts hide, show and draw.
package page

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
	"hclbench/report/draw"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/report/table"
	"hclbench/results"
	"hclbench/tune"
)

// printed is the sheet as a table of the page.
func printed(s *table.Sheet) *pageTable {
	t := &pageTable{Rows: make([][]table.Entry, s.Rows)}
	if slices.ContainsFunc(s.Columns, func(c table.Column) bool { return c.Group != "" }) {
		for _, group := range s.Groups() {
			t.Groups = append(t.Groups, tableGroup{s.Columns[group[0]].Group, len(group)})
		}
	}
	for _, c := range s.Columns {
		head := tableHead{Name: strings.ReplaceAll(c.Name, "_", " ")}
		if !c.Left {
			head.Class = "n"
		}
		t.Heads = append(t.Heads, head)
		for row, e := range c.Entries {
			if e.Text == "" {
				if e.Text = say.Fewer(e.Needs); e.Text == "" && !c.Blank {
					e.Text = "–"
				}
			}
			t.Rows[row] = append(t.Rows[row], e)
		}
	}
	return t
}

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed *.js
	scripts embed.FS
)

// HTML writes one page with everything in it, its rows in the order of terminals: no part of it is anywhere
// else, and no script of it asks for anything.
func HTML(w io.Writer, rows []results.Row, about figure.About) error {
	return newPage(slices.Concat(figure.Workloads(rows, about.Series(rows))...), about).write(w)
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
	Front                      *draw.Figure  // what is drawn first where no script runs; nil: nothing is
	Capacity                   *draw.Section // what searches have found; nil: there were none
	Tunings                    []pageTuning
	Accuracy                   []pageAccuracy
	Sections                   []draw.Section
	References                 []pageReference
	Spending, Hosts            *pageTable // nil: there is nothing in it
	Plan                       []pagePlan
	Verdicts                   string
	Doubts                     []pageDoubt
	HostChanges                []string
	Engines                    []table.Engine
	Compared                   *pageDifference // nil: it is of one set of results
}

type pageReference struct {
	Title, Source string
	Table         *pageTable
}

// pageAccuracy is what a block has asked, what the answers are worth, and what they prove.
type pageAccuracy struct {
	Name, Asked string
	Scores      *pageTable
	Proved      []string
}

type pageTuning struct {
	*tune.Summary
	Verdict            string // empty: the page begins with it
	Drawn              *draw.Figure
	Candidates, Starts *pageTable
}

type pageDoubt struct {
	Number      int
	Text, Count string
	Cells       []string
}

func newPage(rows []results.Row, about figure.About) *page {
	all, current, notes := about.Series(rows), figure.Fresh(rows), say.NewDoubts(rows)
	published := figure.PublishedRows(rows, about)
	stale := slices.DeleteFunc(slices.Clone(rows), func(r results.Row) bool { return !r.Stale })
	data := newData(current, stale, published, all, notes, &about) // before what is drawn of it
	sections := draw.Sections(current, all, about)
	style, script := style(), script()
	source := draw.SourceOf(rows, about)
	p := &page{Title: about.Title, Description: about.Description,
		Headline: plain.Line(about.Layout.Headline), Notes: about.Layout.Notes,
		Source: slices.Concat(source.What, source.From), Status: statuses(rows, about.Planned, say.Unmeasured(current, all)),
		Footer: strings.TrimSpace("Written by hcl " + about.Version),
		Style:  template.CSS(style), StyleHash: policyHash(style),
		Script: template.JS(script), ScriptHash: policyHash(script),
		Chips: template.HTML(chart.Symbols(all.All)), Sections: sections,
		Data: data,
		Plan: plans(rows, about.Planned), Verdicts: say.VerdictCounts(rows), Doubts: pageDoubts(notes, all),
		HostChanges: append(say.HostChanges(rows), say.Noises(rows, figure.Floors())...), Engines: table.Engines(rows)}
	if len(sections) > 0 && sections[0].ID == draw.CapacityID {
		p.Capacity, p.Sections = &sections[0], sections[1:]
	}
	if len(p.Sections) > 0 && p.Sections[0].ID == draw.TuningID {
		for i, t := range figure.Tunings(current, about.Tunings) {
			x := pageTuning{Summary: t.Summary, Drawn: p.Sections[0].Figures[i], Candidates: printed(table.CandidateSheet(t.Summary)),
				Starts: printed(table.StartSheet(t))}
			if len(data.Workloads) == 0 || data.Workloads[0].Finding != say.Tuned(t) { // which the page begins with
				x.Verdict = say.TuningVerdict(t.Summary)
			}
			p.Tunings = append(p.Tunings, x)
		}
		p.Sections = p.Sections[1:]
	}
	for _, of := range figure.Grouped(about.Scores, func(s results.Scored) string { return s.Benchmark }) {
		sheet, proved := table.ScoreSheet(of)
		p.Accuracy = append(p.Accuracy, pageAccuracy{of[0].Benchmark, strings.Join(table.Asked(of), ", "), printed(sheet), proved})
	}
	for _, s := range p.Sections {
		if len(s.Figures) > 0 && p.Front == nil {
			p.Front = s.Figures[0]
		}
	}
	for i := range rows {
		if m := say.Mark(&rows[i]); m != "" {
			p.Marks = figure.Once(p.Marks, say.Sentence(m))
		}
	}
	p.Marks = slices.Concat(p.Marks, say.ForcedText(rows), say.PrefillHits(rows), say.Lengths(rows, &about.Layout))
	if len(published) > 0 && len(figure.Those(rows, figure.IsMeasured)) == 0 {
		p.Marks = append(p.Marks, onlyPublished)
	}
	for _, reason := range figure.SharedReasons(rows) {
		p.Marks = append(p.Marks, "All cells are suspect: "+reason)
	}
	for _, of := range table.ByReference(about.References) {
		p.References = append(p.References, pageReference{of[0].Reference + ", benchmark " + of[0].Benchmark, of[0].Source,
			printed(table.ReferenceSheet(of, table.Shown(of)))})
	}
	if len(about.Spending) > 0 {
		p.Spending = printed(table.SpendingSheet(about.Spending))
	}
	if hosts := table.HostSheet(rows); hosts.Rows > 0 {
		p.Hosts = printed(hosts)
	}
	if len(rows) == 0 {
		p.Verdicts = ""
	}
	return p
}

const onlyPublished = "What others published: no cell here has figures of its own"

// status is how many cells are of one kind; its filter shows them, or its link says more.
type status struct{ Count, Text, Class, Filter, Link string }

// maxNamed bounds the series that the strip names.
const maxNamed = 3

// statuses are what came of all cells, and the series of which nothing came.
func statuses(rows []results.Row, planned []figure.Planned, unmeasured []string) (out []status) {
	count := number.Whole(len(rows))
	if len(rows) > 0 {
		out = append(out, status{Count: count, Text: strings.TrimPrefix(number.Count(len(rows), "cell"), count+" ")})
	}
	for _, verdict := range figure.Verdicts() {
		of := figure.Those(rows, func(r *results.Row) bool { return r.Verdict().Verdict == verdict })
		if len(of) == 0 {
			continue
		}
		s := status{Count: number.Whole(len(of)), Text: verdict, Class: verdict, Filter: "verdict=" + verdict}
		if why := figure.Grouped(of, say.ReasonOf); len(why) == 1 && (verdict == load.Suspect || verdict == load.Void) {
			s.Text += ": " + say.ReasonOf(of[0])
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
		part, err := scripts.ReadFile(name + ".js")
		if err != nil {
			panic(err) // it is in the binary
		}
		text += string(part)
	}
	return text + "}\n"
}

func pageDoubts(notes say.Doubts, all *figure.Series) (out []pageDoubt) {
	for i, d := range notes {
		x := pageDoubt{Number: i + 1, Text: d.Text, Count: number.Count(len(d.Rows), "cell")}
		for _, r := range d.Rows {
			others := figure.AxisWords(r.Axes, func(name string) bool { return name != "engine" && name != figure.SideAxis })
			x.Cells = append(x.Cells, strings.Join(append([]string{r.Benchmark, all.Find(r).Label}, others...), ", "))
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
	Rows   [][]table.Entry
}

type tableGroup struct {
	Name string
	Span int
}

type tableHead struct {
	Name  string
	Class string // "n": numbers
}

// pagePlan is what a benchmark asked for and what came of it.
type pagePlan struct {
	Benchmark, Counts string
	Axes              []table.Fact
	Missing           []string
}

// maxMissing bounds the cells that are listed as not measured.
const maxMissing = 200

// plans say of each benchmark what it turned and what is not measured.
func plans(rows []results.Row, planned []figure.Planned) (out []pagePlan) {
	asked := map[string]int{} // cells of each benchmark
	for _, c := range planned {
		asked[c.Benchmark]++
	}
	all := slices.Clone(planned)
	of := map[string]*results.Row{}
	for i := range rows {
		r := &rows[i]
		of[r.ID] = r
		if asked[r.Benchmark] == 0 { // nobody knows what was asked for, but this
			all = append(all, figure.Planned{ID: r.ID, Benchmark: r.Benchmark, Axes: r.Axes})
		}
	}
	for _, cells := range figure.Grouped(all, func(c figure.Planned) string { return c.Benchmark }) {
		name := cells[0].Benchmark
		p := pagePlan{Benchmark: name, Axes: turned(cells)}
		for _, c := range cells {
			switch r := of[c.ID]; {
			case r == nil:
				p.Missing = append(p.Missing, c.Place())
			case !figure.IsMeasured(r):
				p.Missing = append(p.Missing, c.Place()+": void")
			}
		}
		if n := asked[name]; n > 0 {
			p.Counts = fmt.Sprintf("%s planned, %s not measured.", number.Count(n, "cell"), number.Whole(len(p.Missing)))
		} else {
			measured := figure.Those(rows, func(r *results.Row) bool { return r.Benchmark == name && figure.IsMeasured(r) })
			p.Counts = number.Count(len(measured), "cell") +
				" measured. The lab's text is not at hand, so what else it asks for is not known."
		}
		if more := len(p.Missing) - maxMissing; more > 0 {
			p.Missing = append(p.Missing[:maxMissing:maxMissing], fmt.Sprintf("and %s more", number.Whole(more)))
		}
		out = append(out, p)
	}
	return out
}

// turned are the axes of cells with all their values; numbers rise.
func turned(cells []figure.Planned) (axes []table.Fact) {
	of := func(i int) results.Axes { return cells[i].Axes }
	for _, axis := range figure.AxisNames(len(cells), of) {
		if axis == figure.SideAxis {
			continue
		}
		values := figure.AxisValues(axis, len(cells), of)
		if !slices.ContainsFunc(values, func(v string) bool { return !figure.IsNumber(v) }) {
			slices.SortFunc(values, func(a, b string) int {
				x, _ := figure.Float(a) // all of them are numbers
				y, _ := figure.Float(b)
				return cmp.Compare(x, y)
			})
		}
		axes = append(axes, table.Fact{Name: strings.ReplaceAll(axis, "_", " "), Value: strings.Join(values, ", ")})
	}
	return axes
}

// pageDifference is what the page of a comparison says first.
type pageDifference struct {
	Gate, GateClass string
	Broken          []string   // limits
	Inputs          *pageTable // that differ; nil: none
	More            *pageTable // as many again, that stand folded
	MoreCount       string
	Same            string // what is said where no input differs
	Changes         *pageTable
}
