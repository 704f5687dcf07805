package chart

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
)

// Sans are the fonts of pages and pictures, all of them there already.
const Sans = `system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif`

// SVG writes a drawing: as a part of a page, or, with a theme of its own, as a file.
func (d *Drawing) SVG(t Theme) string {
	var b bytes.Buffer
	width, height := d.Width+2*d.Margin, d.Height+2*d.Margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="%s %s %s %s" role="img" aria-label="%s"`,
		num(-d.Margin), num(-d.Margin), num(width), num(height), html.EscapeString(d.title))
	if t != OfPage {
		fmt.Fprintf(&b, ` width="%s" height="%s" font-family="%s"`, num(width), num(height), html.EscapeString(Sans))
	}
	for pair := range slices.Chunk(d.keys, 2) {
		if t == OfPage && pair[1] != "" {
			fmt.Fprintf(&b, ` data-%s="%s"`, pair[0], html.EscapeString(pair[1]))
		}
	}
	b.WriteString(">\n")
	if t != OfPage {
		fmt.Fprintf(&b, `<rect x="%s" y="%s" width="100%%" height="100%%" fill="%s"/>`+"\n", num(-d.Margin),
			num(-d.Margin), t.paint(paper))
	}
	for i := 0; i < len(d.pieces); {
		end, part := i+1, d.pieces[i].part
		for part > 0 && end < len(d.pieces) && d.pieces[end].part == part {
			end++
		}
		if t == OfPage && part > 0 {
			lineOfPage(&b, d.pieces[i:end])
		} else {
			for _, m := range d.pieces[i:end] {
				m.svg(&b, t)
			}
		}
		i = end
	}
	b.WriteString("</svg>")
	return b.String()
}

func (m piece) svg(b *bytes.Buffer, t Theme) {
	known := t == OfPage && m.ref > 0 // the page's script says what it is
	group := m.series != nil || m.hover != "" || known
	if group {
		b.WriteString("<g")
		if m.series != nil {
			fmt.Fprintf(b, ` data-s="%d"`, m.series.Index)
			if m.shape != words { // names stay legible
				b.WriteString(m.series.paleness())
			}
		}
		if m.hover != "" && m.shape != words {
			b.WriteString(` class="pt"`)
		}
		if known {
			fmt.Fprintf(b, ` data-cell="%d"`, m.ref-1)
		} else if t == OfPage && len(m.cells) > 0 {
			fmt.Fprintf(b, ` data-%s="%s"`, map[bool]string{true: "every", false: "any"}[m.joins], places(m.cells))
		}
		b.WriteByte('>')
		if m.hover != "" && !known {
			fmt.Fprintf(b, "<title>%s</title>", html.EscapeString(m.hover))
		}
	}
	switch m.shape {
	case stroke:
		m.line(b, t)
	case words:
		m.words(b, t)
	default:
		m.symbol(b, t)
	}
	if group {
		b.WriteString("</g>")
	}
	b.WriteByte('\n')
}

// places are cells as the page's script counts them, from 0.
func places(cells []int) string {
	var words []string
	for _, c := range cells {
		words = append(words, strconv.Itoa(c-1))
	}
	return strings.Join(words, " ")
}

// paleness is that of a series behind another one.
func (s *Series) paleness() string {
	if s.Pale {
		return ` opacity="0.45"`
	}
	return ""
}

// lineOfPage writes a line with all its points, of which there are many: its vertices are its cells in
// their order, and have its marker; what is in doubt has a hollow one on it. A path has their ranges.
func lineOfPage(b *bytes.Buffer, pieces []piece) {
	look := piece{colour: nothing}
	var cells, ranges, hollow strings.Builder
	var points []piece
	low := map[int]piece{} // of each cell with a range
	for _, m := range pieces {
		switch {
		case m.shape != stroke:
			points = append(points, m)
		case m.ref > 0:
			low[m.ref] = m
		default:
			look = m
		}
	}
	for _, m := range points {
		fmt.Fprintf(&cells, " %d", m.ref-1)
		if r, ok := low[m.ref]; ok {
			fmt.Fprintf(&ranges, "M%s %sV%s", num(r.at[0].x), num(r.at[0].y), num(r.at[1].y))
		} else {
			ranges.WriteString("M0 0")
		}
		if m.fill == paper {
			fmt.Fprintf(&hollow, `<use href="#h%d" x="%s" y="%s" data-cell="%d"/>`, m.series.Chip(), num(m.at[0].x),
				num(m.at[0].y), m.ref-1)
		}
	}
	s := points[0].series
	fmt.Fprintf(b, `<g data-s="%d" data-cells="%s"%s>`, s.Index, cells.String()[1:], s.paleness())
	if len(low) > 0 {
		fmt.Fprintf(b, `<path d="%s" stroke="%s"/>`, ranges.String(), OfPage.paint(colourOf(s)))
	}
	for len(points) > 0 {
		n := 1
		for n < len(points) && !points[n].apart {
			n++
		}
		look.at = nil
		for _, m := range points[:n] {
			look.at = append(look.at, m.at[0])
		}
		look.marker(b, points[0])
		points = points[n:]
	}
	b.WriteString(hollow.String() + "</g>\n")
}

// marker writes a line whose vertices look like a point.
func (m piece) marker(b *bytes.Buffer, of piece) {
	var line bytes.Buffer
	m.line(&line, OfPage)
	b.WriteString(strings.TrimSuffix(line.String(), "/>"))
	if of.shape != spot {
		name := "m"
		if of.shape == cross {
			name = "x"
		}
		url := fmt.Sprintf(`="url(#%s%d)"`, name, of.series.Chip())
		b.WriteString(" marker-start" + url + " marker-mid" + url + " marker-end" + url)
	}
	b.WriteString("/>")
}

func (m piece) line(b *bytes.Buffer, t Theme) {
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"`, coordinates(m.at),
		t.paint(m.colour), num(m.width))
	if m.width >= 1.5 {
		b.WriteString(` stroke-linejoin="round" stroke-linecap="round"`)
	}
	if t == OfPage && m.class != "" {
		fmt.Fprintf(b, ` class="%s"`, m.class)
	}
	if len(m.dash) > 0 {
		parts := make([]string, len(m.dash))
		for i, v := range m.dash {
			parts[i] = num(v)
		}
		fmt.Fprintf(b, ` stroke-dasharray="%s"`, strings.Join(parts, " "))
	}
	if m.pale > 0 {
		fmt.Fprintf(b, ` stroke-opacity="%.2f"`, 1-m.pale)
	}
	b.WriteString("/>")
}

func (m piece) symbol(b *bytes.Buffer, t Theme) {
	switch m.shape {
	case area:
		fmt.Fprintf(b, `<polygon points="%s" fill="%s"`, coordinates(m.at), t.paint(m.colour))
		if m.pale > 0 {
			fmt.Fprintf(b, ` fill-opacity="%.2f"`, 1-m.pale)
		}
		b.WriteString("/>")
	case circle:
		fmt.Fprintf(b, `<circle cx="%s" cy="%s" r="%s"%s/>`, num(m.at[0].x), num(m.at[0].y), num(m.size), m.outline(t))
	case diamond, square, triangle:
		fmt.Fprintf(b, `<polygon points="%s"%s/>`, coordinates(m.corners()), m.outline(t))
	case cross:
		lines := m.strokes()
		fmt.Fprintf(b, `<path d="M%s L%s M%s L%s" stroke="%s" stroke-width="1.25"/>`, lines[0][0], lines[0][1],
			lines[1][0], lines[1][1], t.paint(m.colour))
	case spot:
		fmt.Fprintf(b, `<circle cx="%s" cy="%s" r="%s" fill="transparent"/>`, num(m.at[0].x), num(m.at[0].y), num(m.size))
	}
}

func (m piece) words(b *bytes.Buffer, t Theme) {
	fmt.Fprintf(b, `<text x="%s" y="%s" font-size="%s" fill="%s"`, num(m.at[0].x), num(m.at[0].y), num(m.size),
		t.paint(m.colour))
	if m.anchor != left {
		fmt.Fprintf(b, ` text-anchor="%s"`, []string{"start", "middle", "end"}[m.anchor])
	}
	if m.bold {
		b.WriteString(` font-weight="600"`)
	}
	if m.series != nil { // stays legible on lines
		fmt.Fprintf(b, ` stroke="%s" stroke-width="2.5" stroke-linejoin="round" paint-order="stroke"`, t.paint(paper))
	}
	fmt.Fprintf(b, ">%s</text>", html.EscapeString(m.text))
}

// outline paints a symbol: full, or hollow on paper.
func (m piece) outline(t Theme) string {
	if m.fill == paper {
		return fmt.Sprintf(` fill="%s" stroke="%s" stroke-width="1.5"`, t.paint(paper), t.paint(m.colour))
	}
	return fmt.Sprintf(` fill="%s"`, t.paint(m.colour))
}

// corners are those of a symbol with corners, about as large as a circle of its radius.
func (m piece) corners() []point {
	p, r := m.at[0], m.size
	switch m.shape {
	case diamond:
		r *= 1.3
		return []point{{p.x, p.y - r}, {p.x + r, p.y}, {p.x, p.y + r}, {p.x - r, p.y}}
	case triangle:
		r *= 1.3
		return []point{{p.x, p.y - r}, {p.x + r, p.y + 0.8*r}, {p.x - r, p.y + 0.8*r}}
	default:
		r *= 0.9
		return []point{{p.x - r, p.y - r}, {p.x + r, p.y - r}, {p.x + r, p.y + r}, {p.x - r, p.y + r}}
	}
}

func (p point) String() string { return num(p.x) + "," + num(p.y) }

func coordinates(points []point) string {
	parts := make([]string, len(points))
	for i, p := range points {
		parts[i] = p.String()
	}
	return strings.Join(parts, " ")
}

// num is a coordinate: a tenth of a pixel is enough.
func num(v float64) string {
	s := strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// Symbols are the markers of all series, as a page can use them: chips beside names, those of lines,
// full and as crosses, and hollow ones.
func Symbols(all []*Series) string {
	var b bytes.Buffer
	b.WriteString(`<svg width="0" height="0" class="chips" aria-hidden="true">`)
	for _, s := range all {
		write := func(open, end string, pieces ...piece) {
			fmt.Fprintf(&b, open, s.Chip())
			for _, m := range pieces {
				m.colour = colourOf(s)
				m.svg(&b, OfPage)
			}
			b.WriteString(end + "\n")
		}
		middle := []point{{}}
		write(`<symbol id="k%d" viewBox="0 0 22 10"`+s.paleness()+">", "</symbol>", piece{at: []point{{1, 5}, {21, 5}}, width: 2, dash: dashOf(s)},
			piece{shape: symbolOf(s), at: []point{{11, 5}}, size: 3.5})
		const marker = ` viewBox="-5 -5 10 10" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse">`
		write(`<marker id="m%d"`+marker, "</marker>", piece{shape: symbolOf(s), at: middle, size: markerSize})
		write(`<marker id="x%d"`+marker, "</marker>", piece{shape: cross, at: middle, size: crossSize})
		write(`<g id="h%d">`, "</g>", piece{shape: symbolOf(s), at: middle, size: markerSize, fill: paper})
	}
	b.WriteString("</svg>")
	return b.String()
}
