package chart

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// density is how many pixels of a picture are a point of its drawing: as many as good screens have.
const density = 2

// PNG paints the drawing, on dark ground or on white.
func (d *Drawing) PNG(w io.Writer, t Theme) error {
	margin := int(d.Margin * density)
	p := painter{RGBA: image.NewRGBA(image.Rect(-margin, -margin, int(math.Ceil(d.Width*density))+margin,
		int(math.Ceil(d.Height*density))+margin)), theme: t, faces: map[letters]font.Face{}}
	draw.Draw(p.RGBA, p.Bounds(), image.NewUniform(t.rgb(paper, 0)), image.Point{}, draw.Src)
	for _, m := range d.pieces {
		if err := p.paint(m); err != nil {
			return err
		}
	}
	return png.Encode(w, p.RGBA)
}

// Boxes are the letters of the drawing that the font of a PNG does not have, each once: they are boxes there.
func (d *Drawing) Boxes() (letters string, err error) {
	have, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return "", fmt.Errorf("read the font: %w", err)
	}
	for _, m := range d.pieces {
		for _, r := range m.text {
			glyph, err := have.GlyphIndex(nil, r)
			if err != nil {
				return "", fmt.Errorf("find a letter of the font: %w", err)
			}
			if glyph == 0 && !strings.ContainsRune(letters, r) {
				letters += string(r)
			}
		}
	}
	return letters, nil
}

type painter struct {
	*image.RGBA
	theme Theme
	faces map[letters]font.Face
}

// letters are those of one face.
type letters struct {
	size float64
	bold bool
}

func (p painter) paint(m piece) error {
	switch m.shape {
	case stroke:
		p.stroke(m.at, m.width, m.dash, p.theme.rgb(m.colour, m.pale))
	case area:
		p.fill(p.theme.rgb(m.colour, m.pale), m.at)
	case circle, diamond, square, triangle:
		outline := m.corners()
		if m.shape == circle {
			outline = disc(m.at[0], m.size)
		}
		if m.fill == paper {
			p.fill(p.theme.rgb(paper, 0), outline)
			p.stroke(append(outline, outline[0]), 1.5, nil, p.theme.rgb(m.colour, 0))
		} else {
			p.fill(p.theme.rgb(m.colour, 0), outline)
		}
	case cross:
		for _, line := range m.strokes() {
			p.stroke(line, 1.25, nil, p.theme.rgb(m.colour, 0))
		}
	case words:
		return p.text(m)
	}
	return nil
}

// fill paints all polygons in one pass, so that where they overlap nothing is painted twice.
func (p painter) fill(c color.Color, polygons ...[]point) {
	within := extent(polygons).Intersect(p.Bounds())
	if within.Empty() {
		return
	}
	r := vector.NewRasterizer(within.Dx(), within.Dy())
	for _, polygon := range polygons {
		if clockwise(polygon) < 0 { // all one way round, or areas cancel each other out
			polygon = slices.Clone(polygon)
			slices.Reverse(polygon)
		}
		for i, q := range polygon {
			x, y := float32(q.x*density)-float32(within.Min.X), float32(q.y*density)-float32(within.Min.Y)
			if i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	r.Draw(p.RGBA, within, image.NewUniform(c), image.Point{})
}

// extent are the pixels that polygons touch.
func extent(polygons [][]point) image.Rectangle {
	var all image.Rectangle
	for _, polygon := range polygons {
		for _, q := range polygon {
			x, y := int(math.Floor(q.x*density)), int(math.Floor(q.y*density))
			all = all.Union(image.Rect(x, y, x+1, y+1))
		}
	}
	return all
}

// clockwise is twice the area of a polygon, with its sign.
func clockwise(polygon []point) float64 {
	sum := 0.0
	for i, q := range polygon {
		next := polygon[(i+1)%len(polygon)]
		sum += q.x*next.y - next.x*q.y
	}
	return sum
}

// stroke paints a line with round ends and joins.
func (p painter) stroke(at []point, width float64, dash []float64, c color.Color) {
	var polygons [][]point
	for _, part := range cutUp(at, dash) {
		for i := 1; i < len(part); i++ {
			a, b := part[i-1], part[i]
			length := math.Hypot(b.x-a.x, b.y-a.y)
			if length == 0 {
				continue
			}
			nx, ny := -(b.y-a.y)/length*width/2, (b.x-a.x)/length*width/2
			polygons = append(polygons, []point{{a.x + nx, a.y + ny}, {b.x + nx, b.y + ny}, {b.x - nx, b.y - ny},
				{a.x - nx, a.y - ny}})
			if width >= 1.5 {
				polygons = append(polygons, disc(b, width/2))
			}
		}
		if width >= 1.5 && len(part) > 0 {
			polygons = append(polygons, disc(part[0], width/2))
		}
	}
	p.fill(c, polygons...)
}

// cutUp cuts a line into the pieces that a pattern of lengths leaves of it.
func cutUp(at []point, pattern []float64) [][]point {
	if len(pattern) == 0 || len(at) < 2 {
		return [][]point{at}
	}
	var parts [][]point
	part := []point{at[0]}
	on, i, left := true, 0, pattern[0]
	for n := 1; n < len(at); n++ {
		from, to := at[n-1], at[n]
		for {
			length := math.Hypot(to.x-from.x, to.y-from.y)
			if length < left {
				left -= length
				if on {
					part = append(part, to)
				}
				break
			}
			t := left / length
			cut := point{from.x + (to.x-from.x)*t, from.y + (to.y-from.y)*t}
			if on {
				parts = append(parts, append(part, cut))
			}
			part, on, from = []point{cut}, !on, cut
			i = (i + 1) % len(pattern)
			left = pattern[i]
		}
	}
	if on && len(part) > 1 {
		parts = append(parts, part)
	}
	return parts
}

// disc is a circle as a polygon that looks like one.
func disc(c point, r float64) []point {
	out := make([]point, 36)
	for i := range out {
		a := 2 * math.Pi * float64(i) / 36
		out[i] = point{c.x + r*math.Cos(a), c.y + r*math.Sin(a)}
	}
	return out
}

func (p painter) text(m piece) error {
	face, err := p.face(letters{m.size * density, m.bold})
	if err != nil {
		return err
	}
	d := font.Drawer{Dst: p.RGBA, Face: face}
	x := m.at[0].x * density
	x -= float64(d.MeasureString(m.text)) / 64 * float64(m.anchor) / 2
	write := func(c colour, dx, dy float64) {
		d.Src = image.NewUniform(p.theme.rgb(c, 0))
		d.Dot = fixed.Point26_6{X: fixed.Int26_6((x + dx) * 64), Y: fixed.Int26_6((m.at[0].y*density + dy) * 64)}
		d.DrawString(m.text)
	}
	if m.series != nil { // stays legible on lines
		for dx := -1.; dx <= 1; dx++ {
			for dy := -1.; dy <= 1; dy++ {
				write(paper, dx*density, dy*density)
			}
		}
	}
	write(m.colour, 0, 0)
	return nil
}

// face are letters of one size, made once.
func (p painter) face(of letters) (font.Face, error) {
	if face := p.faces[of]; face != nil {
		return face, nil
	}
	text := goregular.TTF
	if of.bold {
		text = gobold.TTF
	}
	parsed, err := opentype.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the font: %w", err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: of.size, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		return nil, fmt.Errorf("size the font: %w", err)
	}
	p.faces[of] = face
	return face, nil
}
