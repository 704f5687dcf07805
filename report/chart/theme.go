package chart

import (
	"fmt"
	"image/color"
)

// Theme says what the colours of a drawing look like.
type Theme int

const (
	OfPage Theme = iota // as the page says that the drawing is in
	Light               // dark on white
	Dark
)

// Palette are the colours of the series on paper: eight that can be told apart whatever
// somebody's eyes tell apart, those for the first kinds of engine best of all. All are dark
// enough for small letters. Markers and dashes say the same once more.
func Palette() []string {
	return []string{"#0073e6", "#b26212", "#661a38", "#338052", "#9e5ba6", "#0a3866", "#800000", "#4d0e8c"}
}

// Night is the palette on a dark ground.
func Night() []string {
	return []string{"#3d85f2", "#f2c200", "#d95700", "#62b27a", "#bf699d", "#66c2ff", "#e6db7e", "#66fff0"}
}

// roles are the colours that are of no series, in each theme.
var roles = map[colour][3]string{
	nothing: {"none", "none", "none"},
	paper:   {"var(--paper)", "#ffffff", "#15171a"},
	ink:     {"var(--ink)", "#1b1c1e", "#e9e8e5"},
	faint:   {"var(--faint)", "#62666c", "#a0a4aa"},
	hair:    {"var(--hair)", "#e2e3e5", "#2e3237"},
	shade:   {"var(--shade)", "#c4c7cb", "#4b5057"},
}

// paint is a colour as SVG says it.
func (t Theme) paint(c colour) string {
	switch {
	case c < 0:
		return roles[c][t]
	case t == Light:
		return Palette()[c]
	case t == Dark:
		return Night()[c]
	}
	return fmt.Sprintf("var(--s%d)", int(c))
}

// rgb is a colour of a picture.
func (t Theme) rgb(c colour, pale float64) color.Color {
	of := color.NRGBA{A: uint8(255 * (1 - pale))}
	if n, err := fmt.Sscanf(t.paint(c), "#%02x%02x%02x", &of.R, &of.G, &of.B); n != 3 || err != nil {
		return color.Transparent
	}
	return of
}

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
