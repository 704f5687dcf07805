package chart

import "strings"

// Picture is a panel that stands alone, wherever somebody shows it: what it shows, and of what,
// what its marks mean, and where it is from.
type Picture struct {
	Panel *Panel
	Title string
	Under []string // below the title
	Key   []string // what marks mean, in sentences
	Foot  []string // source, run, date, verdicts
	Stamp string   // across it, where it shows no measurement: "REHEARSAL"
}

const (
	margin    = 16
	titleSize = 17
	lineRoom  = 15 // from one line of small text to the next
)

// Draw lays the picture out around a panel of this height.
func (p *Picture) Draw(width, height float64) *Drawing {
	d := &Drawing{Width: width, Margin: margin, title: p.Title + ". " + p.Panel.description()}
	y := 0.0
	for _, line := range broken(p.Title, titleSize*boldness, width) {
		y += titleSize + 5
		d.label(0, y-5, line, piece{colour: ink, size: titleSize, bold: true})
	}
	y = d.paragraph(strings.Join(p.Under, " · "), 12, faint, y) + 10
	if own := p.Panel.Height(0); own > 0 {
		height = own + p.Panel.legend(&Drawing{Width: width}, 0)
	}
	if p.Stamp != "" {
		size := min(0.5*height, width/textWidth(p.Stamp, boldness))
		d.label(width/2, y+height/2+size*0.36, p.Stamp, piece{colour: hair, size: size, anchor: middle, bold: true})
	}
	p.Panel.draw(d, y, y+height, true)
	y += height + 12
	y = d.paragraph(strings.Join(p.Key, " "), small, faint, y)
	if len(p.Foot) > 0 {
		y += 8
		d.add(piece{at: []point{{0, y}, {width, y}}, colour: hair, width: 1})
		y = d.paragraph(strings.Join(p.Foot, " · "), small, ink, y+3)
	}
	d.Height = y
	return d
}

// paragraph writes text in as many lines as it needs, and returns where they end.
func (d *Drawing) paragraph(text string, size float64, c colour, y float64) float64 {
	for _, line := range broken(text, size, d.Width) {
		y += lineRoom
		d.label(0, y-2, line, piece{colour: c, size: size})
	}
	return y
}
