package chart

import (
	"strings"
	"unicode"
)

// Drawing is a chart laid out: pieces in the order in which they are painted. It is
// data, so that the page, a file and a picture show the same.
type Drawing struct {
	Width, Height float64  // in points, which are CSS pixels
	Margin        float64  // around it
	title         string   // for who cannot see it
	keys          []string // by which the page knows what it shows: name, value, name, value, …
	parts         int      // lines that have begun
	pieces        []piece
}

type point struct{ x, y float64 }

type piece struct {
	shape  shape
	at     []point // of a symbol and of text: one
	colour colour
	fill   colour // of a symbol that is hollow: paper
	width  float64
	dash   []float64
	series *Series // what it belongs to; nil: the chart
	hover  string  // what pointing at it says
	ref    int     // by which the page knows what it is, from 1; 0: it does not
	cells  []int   // as ref, those that it stands for where what it says is its own: it goes when all of them do
	joins  bool    // those cells: it goes when one of them does
	part   int     // of a line that the page's script draws anew: the same of all its pieces; 0: of none
	class  string  // what the page's script calls it
	apart  bool    // nothing joins it with the point before

	text   string
	size   float64 // of text: its height; of a symbol: its radius
	anchor anchor
	bold   bool
	pale   float64 // how much of what is below shines through, up to 1
}

type shape int

const (
	stroke shape = iota // through all points
	area                // within all points
	circle              // the symbols, each around its point
	diamond
	square
	triangle
	cross
	words
	spot // not painted, but can be pointed at
)

type anchor int

const (
	left anchor = iota
	middle
	right
)

func (d *Drawing) add(m ...piece) { d.pieces = append(d.pieces, m...) }

func (d *Drawing) label(x, y float64, s string, m piece) {
	m.shape, m.at, m.text = words, []point{{x, y}}, s
	if m.size == 0 {
		m.size = 11
	}
	d.add(m)
}

func (m piece) strokes() [2][]point {
	p, r := m.at[0], m.size
	return [2][]point{{{p.x - r, p.y - r}, {p.x + r, p.y + r}}, {{p.x - r, p.y + r}, {p.x + r, p.y - r}}}
}

// textWidth is at least how wide a text is: fonts differ, and this is for a wide one.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune(" .,:;'|iIjl·!", r):
			w += 0.34
		case strings.ContainsRune("frt()[]/-", r):
			w += 0.42
		case strings.ContainsRune("mMW%@…—", r) || r >= 0x1100: // from there on are the scripts of wide letters
			w++
		case unicode.IsUpper(r) || strings.ContainsRune("w×+=<>−→", r):
			w += 0.82
		default:
			w += 0.64
		}
	}
	return w * size
}

// boldness is how much wider bold letters are.
const boldness = 1.1

// fit is a text as far as there is room for it: its middle is left out, for the ends of names
// tell most.
func fit(s string, size, room float64) string {
	if textWidth(s, size) <= room {
		return s
	}
	letters := []rune(s)
	for n := len(letters) - 1; n > 0; n-- {
		if cut := string(letters[:(n+1)/2]) + "…" + string(letters[len(letters)-n/2:]); textWidth(cut, size) <= room {
			return cut
		}
	}
	return ""
}

// broken is a text in lines for which there is room.
func broken(s string, size, room float64) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch longer := strings.TrimSpace(line + " " + word); {
		case line == "" || textWidth(longer, size) <= room:
			line = longer
		default:
			lines, line = append(lines, fit(line, size, room)), word
		}
	}
	if line != "" {
		lines = append(lines, fit(line, size, room))
	}
	return lines
}

// symbolOf is the marker of a series: its GPU's, and another one when the colours begin again.
func symbolOf(s *Series) shape {
	return []shape{circle, diamond, square, triangle}[s.marker]
}

// dashOf is how the lines of a series are drawn: the first GPU's are solid.
func dashOf(s *Series) []float64 {
	return [][]float64{nil, {5, 3}, {2, 2.5}, {8, 3, 2, 3}}[s.dash]
}

func colourOf(s *Series) colour { return colour(s.hue) }

const (
	small      = 11 // height of text in charts
	tiny       = 10
	markerSize = 3.6
	crossSize  = 3
	markHeight = 14 // of the line that says that it is no measurement
)

type box struct{ left, top, right, bottom float64 }

func (b box) touches(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}
