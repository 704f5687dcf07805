package table

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/report/figure"
	"hclbench/report/number"
	"hclbench/report/say"
	"hclbench/results"
)

// Options say how a table is printed.
type Options struct {
	// Width is how many characters a line may have; columns that matter less are
	// left out to fit. Zero is no limit.
	Width int
	// Layout is what the lab wants: the columns, the series and what they are held against.
	Layout figure.Layout
	figure.Found
	// Colour marks verdicts, and the best under each load.
	Colour bool
}

// Table prints one line per cell, a table for each workload, series by series, and the load growing.
// What is the same for all cells stands above a table instead of in a column; what puts a cell in doubt
// stands below.
func Table(w io.Writer, rows []results.Row, opt Options) error {
	scores := inBlocks(scoreLines(opt.Scores, opt.Width)...)
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, cmp.Or(strings.TrimSuffix(scores, "\n"), "No results."))
		return err
	}
	capacities := figure.Capacities(rows, opt.Capacities)
	parted := tablesOf(figure.LongestTries(rows, capacities), &opt.Layout)
	rows = slices.Concat(parted...)
	notes := say.NewDoubts(rows)
	tables, common := newSheets(parted, &opt.Layout, notes, capacities)
	var dropped []string
	for _, s := range tables {
		dropped = figure.Once(dropped, s.Fit(opt.Width)...)
		s.colour = opt.Colour
	}
	if len(dropped) > 0 {
		dropped[0] = fmt.Sprintf("Left out to fit %d columns: %s", opt.Width, dropped[0])
	}
	head := plain.Wrap(say.Origin(rows), ", ", opt.Width)
	if text := say.CommonMark(rows); text != "" {
		head = append(head, text)
	}
	head = append(head, plain.Wrap(common, ", ", opt.Width)...)
	var below [][]string
	alone := opt.Untried(rows)
	for _, text := range slices.Concat(say.Sentences(alone, &opt.Layout), say.HostChanges(rows), say.Noises(rows, figure.Floors()), say.ForcedText(rows), say.Lengths(rows, &opt.Layout),
		explained(rows, &opt.Layout, tables)) {
		below = append(below, plain.Wrap(plain.Words(text), " ", opt.Width))
	}
	below = append(below, Numbered(notes.Texts(), opt.Width), spreadLines(figure.Repetitions(alone), opt.Width),
		plain.Wrap(dropped, ", ", opt.Width))
	// Only the tables have colours: their entries are plain by themselves.
	parts := []string{plain.Text(inBlocks(slices.Insert(capacityLines(capacities, opt.Width), 0, head)...))}
	for _, s := range tables {
		parts = append(parts, plain.Text(inBlocks(plain.Wrap(s.common, ", ", opt.Width))), inBlocks(s.Lines()))
	}
	parts = append(parts, plain.Text(inBlocks(below...)), plain.Text(scores))
	for _, t := range figure.Tunings(rows, opt.Tunings) {
		parts = append(parts, plain.Text(inBlocks(tuningBlocks(t, opt.Width)...)))
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

// tablesOf are the rows of each table: of one workload, or, of all that is of none, of benchmarks that have the
// same axes.
func tablesOf(rows []results.Row, layout *figure.Layout) (all [][]results.Row) {
	shapes := map[string]string{} // of each benchmark
	for _, of := range figure.Grouped(rows, func(r results.Row) string { return r.Benchmark }) {
		own := slices.DeleteFunc(figure.Axes(of), func(name string) bool { return name == "engine" })
		slices.Sort(own)
		shapes[of[0].Benchmark] = fmt.Sprint(of[0].Job.Batch != nil, own)
	}
	for _, of := range figure.Workloads(rows, figure.NewSeries(rows, layout.Series)) {
		all = append(all, figure.Grouped(of, func(r results.Row) string { return shapes[r.Benchmark] })...)
	}
	return all
}

// newSheets are the tables of these parts of all rows, with the metrics that the layout names or those that
// matter most, and what all of them have in common, in words.
func newSheets(parted [][]results.Row, layout *figure.Layout, notes say.Doubts, capacities []*figure.Capacity) (all []*Sheet, common []string) {
	rows := slices.Concat(parted...)
	begin, ofID := shortIDs(rows), 79
	if names := layout.Columns; names != nil {
		ofID = chosenWeight + len(names) - 2 // two of them matter more
	}
	for _, of := range parted {
		s := &Sheet{Rows: len(of), Columns: slices.Concat(
			Identity(of), AxisColumns(of), repetitionColumns(of), figureColumns(of, rows, layout, tabled(of)))}
		if len(rows) > 1 {
			s.Columns = append(s.Columns, Column{Key: "id", Name: "cell", Left: true, weight: ofID}.filled(len(of),
				func(i int) string { return begin(of[i].ID) }))
		}
		s.Columns = slices.Concat(s.Columns, capacityColumn(of, capacities), accuracyColumn(of), callColumn(of), verdictColumn(of, notes))
		s.common = s.Project()
		all = append(all, s)
	}
	shared := func(text string) bool {
		return !slices.ContainsFunc(all, func(s *Sheet) bool { return !slices.Contains(s.common, text) })
	}
	common = slices.DeleteFunc(slices.Clone(all[0].common), func(text string) bool { return !shared(text) })
	for _, s := range all {
		s.common = slices.DeleteFunc(s.common, func(text string) bool { return slices.Contains(common, text) })
	}
	return all, common
}

// Markdown writes what [Table] shows as a table of GitHub's Markdown, below what the lab says about
// it, and with the published figures, if there are any, below that.
func Markdown(w io.Writer, rows []results.Row, about figure.About) error {
	var b bytes.Buffer
	paragraph := func(text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s\n\n", MarkdownText(text))
		}
	}
	if title := about.Layout.Title; title != "" {
		fmt.Fprintf(&b, "## %s\n\n", MarkdownText(title))
	}
	for _, text := range slices.Concat([]string{about.Layout.Description}, about.Layout.Notes) {
		paragraph(text)
	}
	if len(rows) > 0 {
		capacities := figure.Capacities(rows, about.Capacities)
		parted := tablesOf(figure.LongestTries(rows, capacities), &about.Layout)
		rows = slices.Concat(parted...)
		notes := say.NewDoubts(rows)
		tables, common := newSheets(parted, &about.Layout, notes, capacities)
		paragraph(say.Sentence(say.CommonMark(rows)))
		paragraph(strings.Join(slices.Concat(say.Origin(rows), common), ", "))
		capacityMarkdown(&b, capacities)
		for i, s := range tables {
			if i > 0 {
				b.WriteByte('\n')
			}
			paragraph(strings.Join(s.common, ", "))
			s.Markdown(&b)
		}
		for _, text := range slices.Concat(say.Sentences(about.Untried(rows), &about.Layout), say.ForcedText(rows), say.Lengths(rows, &about.Layout), explained(rows, &about.Layout, tables)) {
			fmt.Fprintf(&b, "\n%s\n", MarkdownText(text))
		}
		for i, d := range notes {
			fmt.Fprintf(&b, "\n[%d] %s\n", i+1, MarkdownText(d.Text))
		}
		tuningMarkdown(&b, figure.Tunings(rows, about.Tunings))
		if len(about.Scores) > 0 {
			b.WriteByte('\n')
		}
	}
	scoreMarkdown(&b, about.Scores)
	if paid := figure.Paid(about.Spending); len(paid) > 0 {
		b.WriteByte('\n')
		SpendingSheet(paid).Markdown(&b)
	}
	for _, of := range ByReference(about.References) {
		if len(rows) > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(MarkdownText(fmt.Sprintf("Published by %s, benchmark %s", of[0].Reference, of[0].Benchmark)))
		if of[0].Source != "" {
			fmt.Fprintf(&b, ", <%s>", of[0].Source)
		}
		b.WriteString("\n\n")
		ReferenceSheet(of, Shown(of)).Markdown(&b)
	}
	if len(rows)+len(about.References)+len(about.Scores) == 0 {
		b.WriteString("No results.\n")
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// spreadLines are a table with one line for each repeated cell: the median of its repetitions, and
// how far the farthest is from it. What does not fit into width goes, the last column first.
func spreadLines(repeated []figure.Repeated, width int) []string {
	if len(repeated) == 0 {
		return nil
	}
	s := &Sheet{Rows: len(repeated), Columns: []Column{
		Column{Name: "cell", Left: true}.filled(len(repeated), func(i int) string {
			return strings.TrimSpace(repeated[i].Benchmark + " " + figure.CellName(repeated[i].Engine, repeated[i].Axes))
		}),
		Column{Name: "n"}.filled(len(repeated), func(i int) string { return repeated[i].Used() }),
	}}
	for i, m := range []figure.Metric{figure.OutputThroughput, figure.MedianTTFT, figure.MedianTPOT, figure.MedianE2EL, figure.Goodput} {
		var medians []float64
		for _, r := range repeated {
			if of, ok := r.Figures[m.Name]; ok {
				medians = append(medians, of.Median)
			}
		}
		unit, per := number.Unit(m.Unit, medians...)
		c := columnOf(m, nil, 90-10*i, unit, per).filled(len(repeated), func(i int) string {
			of, ok := repeated[i].Figures[m.Name]
			if !ok {
				return ""
			}
			of.Median, of.Min, of.Max = of.Median/per, of.Min/per, of.Max/per
			return say.Spread(of)
		})
		if c.Known() {
			s.Columns = append(s.Columns, c)
		}
	}
	s.Fit(width)
	return append([]string{"Repetitions: their median, and how far the farthest is from it", ""}, s.Lines()...)
}

// Together prints repetitions as one line for each cell, and nothing where there are none.
func Together(w io.Writer, rows []results.Row) error {
	return WriteBlocks(w, [][]string{spreadLines(figure.Repetitions(rows), 0)})
}

// SpendingSheet is what runs had of hosts.
func SpendingSheet(all []figure.Spending) *Sheet {
	rented := slices.ContainsFunc(all, func(s figure.Spending) bool { return s.Box != "" })
	columns := []Column{{Name: "Run", Left: true}, {Name: "Host", Left: true}, {Name: "Held"}, {Group: "Of that", Name: "preparing"},
		{Group: "Of that", Name: "starting"}, {Group: "Of that", Name: "measuring"}, {Group: "Of that", Name: "idle"},
		{Group: "USD", Name: "per hour"}, {Group: "USD", Name: "in all"}, {Group: "USD", Name: "idle"}}
	if rented {
		columns = slices.Insert(columns, 3, Column{Group: "Of that", Name: "booting"})
		columns = append(slices.Insert(columns, 2, Column{Name: "Box", Left: true}), Column{Group: "USD", Name: "by the provider"})
	}
	var lines [][]string
	for _, s := range all {
		money := func(v float64) string {
			if v <= 0 && s.Price <= 0 {
				return ""
			}
			return fmt.Sprintf("%.2f", v)
		}
		parts, held := s.Parts()
		line, box, told := []string{s.Run, s.Host}, s.Box, ""
		if s.Open {
			box += ", rented still"
		}
		if s.Told > 0 {
			told = money(s.Told)
		}
		if rented {
			line = append(line, box)
		}
		line = append(line, held.String())
		if rented && s.Box == "" {
			line = append(line, "")
		}
		for _, p := range parts {
			line = append(line, p.Took.String())
		}
		line = append(line, money(s.Price), money(s.Cost), money(s.IdleCost))
		if rented {
			line = append(line, told)
		}
		lines = append(lines, line)
	}
	return Tabulate(columns, lines)
}

// ReferenceSheet has a column for each axis and three for each metric, or one where
// nothing was measured.
func ReferenceSheet(all []figure.Compared, metrics []figure.Metric) *Sheet {
	s := &Sheet{Rows: len(all)}
	for _, name := range figure.AxisNames(len(all), func(i int) results.Axes { return all[i].Axes }) {
		c := Column{Name: name}.filled(len(all), func(i int) string { return figure.AxisOf(all[i].Axes, name) })
		s.Columns = append(s.Columns, c.aligned())
	}
	with, _ := figure.Measured(all)
	for _, m := range metrics {
		var values []float64
		for _, c := range all {
			if f := c.Figure(m.Name); f != nil {
				values = append(values, f.Published)
			}
		}
		unit, per := number.Unit(m.Unit, values...)
		title := header(m, unit)
		parts := []Column{{Group: title, Name: "published"}, {Group: title, Name: "measured"}, {Group: title, Name: "change"}}
		if len(with) == 0 {
			parts = []Column{{Name: title}}
		}
		for part, c := range parts {
			s.Columns = append(s.Columns, c.filled(len(all), func(i int) string { return referenceTexts(all[i].Figure(m.Name), per)[part] }))
		}
	}
	return s
}

// References prints published figures beside measured ones, a table for each
// reference, as wide as fits.
func References(w io.Writer, all []figure.Compared, opt Options) error {
	var b bytes.Buffer
	for _, of := range ByReference(all) {
		metrics := Shown(of)
		s := ReferenceSheet(of, metrics)
		for n := len(metrics) - 1; n >= 1 && s.over(opt.Width) > 0; n-- {
			s = ReferenceSheet(of, metrics[:n])
		}
		title := fmt.Sprintf("published by %s, benchmark %s", of[0].Reference, of[0].Benchmark)
		if of[0].Source != "" {
			title += ", " + of[0].Source
		}
		title = strings.Join(plain.Wrap(strings.Split(plain.Line(title), ", "), ", ", opt.Width), "\n")
		fmt.Fprintf(&b, "%s\n\n%s\n\n", title, strings.Join(s.Lines(), "\n"))
	}
	_, err := io.WriteString(w, plain.Text(b.String()))
	return err
}

// Shown are what tables have room for: one throughput and one statistic of each timing.
func Shown(all []figure.Compared) []figure.Metric {
	var metrics []figure.Metric
	for _, choice := range [][]string{
		{"output_throughput", "total_throughput", "request_throughput"},
		{"median_ttft_ms", "mean_ttft_ms", "p99_ttft_ms"},
		{"median_tpot_ms", "mean_tpot_ms", "p99_tpot_ms"},
		{"median_itl_ms", "mean_itl_ms", "p99_itl_ms"},
		{"median_e2el_ms", "mean_e2el_ms", "p99_e2el_ms"},
	} {
		for _, name := range choice {
			if i := slices.IndexFunc(all, func(c figure.Compared) bool { return c.Figure(name) != nil }); i >= 0 {
				metrics = append(metrics, all[i].Figure(name).Of)
				break
			}
		}
	}
	return metrics
}

// header is a metric above its columns, in a unit: "TTFT p50 ms".
func header(m figure.Metric, unit string) string {
	if m.Name == figure.OutputThroughput.Name || m.Name == figure.TotalThroughput.Name || m.Name == figure.InputThroughput.Name {
		return m.Short + " " + m.Unit
	}
	if m.Group == "" {
		return m.Short
	}
	return strings.TrimSpace(m.Group + " " + m.Short + " " + unit)
}

// ByReference keeps together what stands in one table.
func ByReference(all []figure.Compared) [][]figure.Compared {
	return figure.Grouped(all, func(c figure.Compared) [2]string { return [2]string{c.Reference, c.Benchmark} })
}

// referenceTexts are a figure for people, in a unit that is so many of its own: published, measured, change.
func referenceTexts(f *figure.Figure, per float64) (parts [3]string) {
	if f == nil {
		return parts
	}
	parts[0] = number.Text(f.Published / per)
	if f.Measured != nil {
		if parts[1] = number.Text(*f.Measured / per); f.Suspect {
			parts[1] += " suspect"
		}
	}
	if f.Change != nil {
		parts[2] = number.Change(*f.Change / 100)
	}
	return parts
}
