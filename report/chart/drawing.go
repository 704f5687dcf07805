package chart

import (
	"strings"
	"unicode"
)

// Drawing is a chart laid out: pieces in the order in which they are painted. It is
// data, so that the page, a file and a picture show the same.
type Drawing struct {
	Width, Height float64 // in points, which are CSS pixels
	Margin        float64 // around it
	title         string  // for who cannot see it
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

	text   string
	size   float64 // of text: its height; of a symbol: its radius
	anchor anchor
	bold   bool
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

// Palette are the colours of the series on paper: eight that stay apart for
// people with any kind of colour blindness, as far as eight can, and as dark as
// lines need to be. Markers and dashes say the same once more.
func Palette() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#b0488c", "#a67c00", "#5b5fc7", "#2b9ecb", "#7a4a2b"}
}

// Night is the palette on a dark ground.
func Night() []string {
	return []string{"#56a8e8", "#ff8f47", "#2fc79a", "#ea93c6", "#e3b93f", "#a3a6ff", "#7fd6f5", "#c99a76"}
}

func (d *Drawing) add(m ...piece) { d.pieces = append(d.pieces, m...) }

func (d *Drawing) label(x, y float64, s string, m piece) {
	m.shape, m.at, m.text = words, []point{{x, y}}, s
	if m.size == 0 {
		m.size = 11
	}
	d.add(m)
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

func (m piece) strokes() [2][]point {
	p, r := m.at[0], m.size
	return [2][]point{{{p.x - r, p.y - r}, {p.x + r, p.y + r}}, {{p.x - r, p.y + r}, {p.x + r, p.y - r}}}
}

// textWidth is about how wide a text is: fonts differ, and a little too much does no harm.
func textWidth(s string, size float64) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune(" .,:;'|il·", r):
			w += 0.32
		case unicode.IsUpper(r) || strings.ContainsRune("mw×%", r):
			w += 0.74
		default:
			w += 0.6
		}
	}
	return w * size
}

// Series is what one line of a chart stands for: an engine on its GPUs. Its colour
// and its marker are the same in every chart of a report.
type Series struct {
	Index  int // among all series
	Label  string
	GPUs   string // "8xH200"
	GPU    int    // index of its kind of GPU
	Engine string // "vllm.h200"
	Kind   string
	hue    int // of its engine's kind, as far as there are enough
	marker int // of its GPU, likewise
	dash   int
}

// Chip is the number of its marker among [Symbols], from 1.
func (s *Series) Chip() int { return s.Index + 1 }

// variants is how many markers there are, and how many kinds of dashes.
const variants = 4

// Look gives each series a look of its own: the hue is that of its engine's kind, the
// marker and the dashes are those of its GPUs, and where another one has both, it is the
// next hue that is of no kind, then another marker, then other dashes. 32 series differ
// in hue or marker, 128 in one of the three; no page can tell more apart.
func Look(all []*Series) {
	hues := len(Palette())
	own := map[string]int{}
	for _, x := range all {
		if _, ok := own[x.Kind]; !ok {
			own[x.Kind] = len(own) % hues
		}
	}
	taken := map[[3]int]bool{}
	for _, x := range all {
		x.hue, x.marker, x.dash = own[x.Kind], x.GPU%variants, x.GPU%variants
		for i := 0; taken[[3]int{x.hue, x.marker, x.dash}] && i <= hues*variants*variants; i++ {
			x.hue = own[x.Kind]
			if i%hues > 0 { // those of no kind first
				x.hue = (len(own) + i%hues - 1) % hues
			}
			x.marker = (x.GPU + i/hues) % variants
			x.dash = (x.marker + i/hues/variants) % variants // turned against the marker
		}
		taken[[3]int{x.hue, x.marker, x.dash}] = true
	}
}
