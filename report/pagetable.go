package report

import (
	"slices"
	"strings"

	"hclbench/results"
)

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
	all := []metric{duration, requestThroughput, goodput, outputThroughput, totalThroughput, perGPU}
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
