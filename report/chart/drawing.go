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

// colour is a role, or a series: what it looks like is the theme's.
type colour int

const (
	nothing colour = iota - 6
	paper
	ink
	faint // of text that explains
	hair  // of lines that guide the eye
	shade // of bars that are compared with
	// From 0: the series.
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
