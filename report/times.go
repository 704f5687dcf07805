package report

import (
	"cmp"
	"math"
	"slices"

	"hclbench/report/chart"
	"hclbench/results"
)

// dataTimes are cells over time: of as many as a page has room for, the busiest first.
type dataTimes struct {
	Names []dataName          `json:"names"`
	Rows  map[int][]dataCurve `json:"rows"`
	Left  []int               `json:"left"` // rows that there was no room for
}

type dataName struct {
	Title string `json:"title"`
	Unit  string `json:"unit"`
}

// dataCurve is a quantity of a cell over time, a letter for each of its parts, which are of the same length.
type dataCurve struct {
	Of    int     `json:"of"`    // its place among the names
	Range numbers `json:"range"` // from where to where: seconds, values of letters, values read
	At    string  `json:"at"`    // [curveLetters], and a point where nothing was read
}

// curveLetters stand for 64 steps from the least to the greatest: as fine as a small picture.
const curveLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

const (
	curveRoom   = 100_000 // letters that a page has room for
	curveHead   = 24      // letters that the rest of a curve is worth
	fewestParts = 24
	mostParts   = 60
	curvesOf    = 7 // that a cell has, about
)

// newTimes are those of rows, first of a repetition of each cell.
func newTimes(rows []results.Row) dataTimes {
	t := dataTimes{Names: []dataName{}, Left: []int{}, Rows: map[int][]dataCurve{}}
	var order []int
	for i := range rows {
		if s := rows[i].Summary; s != nil && (s.Series != nil || rows[i].Telemetry != nil) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &rows[i], &rows[j]
		return cmp.Or(a.Repetition-b.Repetition, cmp.Compare(b.Summary.MeanConcurrency, a.Summary.MeanConcurrency))
	})
	parts := min(max(curveRoom/max(1, curvesOf*len(order))-curveHead, fewestParts), mostParts)
	room, place := curveRoom, map[dataName]int{}
	for _, i := range order {
		lines := timed(&rows[i])
		if room < 0 && len(lines) > 0 {
			t.Left = append(t.Left, i)
			continue
		}
		var curves []dataCurve
		for _, l := range lines {
			name := dataName{l.title, l.unit}
			if _, ok := place[name]; !ok {
				place[name] = len(t.Names)
				t.Names = append(t.Names, name)
			}
			c := curveOf(l.line.Dots, parts)
			c.Of = place[name]
			curves, room = append(curves, c), room-len(c.At)-curveHead
		}
		if room < 0 {
			t.Left = append(t.Left, i)
		} else if curves != nil {
			t.Rows[i] = curves
		}
	}
	slices.Sort(t.Left)
	return t
}

// curveOf is a line, two points at least, in no more parts than that: of each part its mean.
func curveOf(dots []chart.Dot, parts int) dataCurve {
	from, to, least, most, n := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1), min(parts, len(dots))
	for _, d := range dots {
		from, to, least, most = min(from, d.X), max(to, d.X), min(least, d.Y), max(most, d.Y)
	}
	sums, counts := make([]float64, n), make([]float64, n)
	for _, d := range dots {
		at := 0
		if to > from {
			at = min(n-1, int((d.X-from)/(to-from)*float64(n)))
		}
		sums[at] += d.Y
		counts[at]++
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i := range sums {
		if counts[i] > 0 {
			sums[i] /= counts[i]
			low, high = min(low, sums[i]), max(high, sums[i])
		}
	}
	letters := make([]byte, n)
	for i, v := range sums {
		switch {
		case counts[i] == 0:
			letters[i] = '.'
		case high == low:
			letters[i] = curveLetters[0]
		default:
			letters[i] = curveLetters[int(math.Round((v-low)/(high-low)*float64(len(curveLetters)-1)))]
		}
	}
	return dataCurve{Range: numbers{from, to, low, high, least, most}, At: string(letters)}
}
