package report

import (
	"fmt"
	"hclbench/load"
	"hclbench/results"
	"html/template"
	"slices"
	"strings"
	"time"
)

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
