package chart

// Series is what one line of a chart stands for: an engine on its GPUs. Its colour
// and its marker are the same in every chart of a report.
type Series struct {
	Index  int // among all series
	Label  string
	GPUs   string // "8xH200"
	GPU    int    // index of its kind of GPU
	Engine string // "vllm.h200"
	Kind   string
	Pale   bool // stands behind another one that looks like it
	hue    int  // of its engine's kind, as far as there are enough
	marker int  // of its GPU, likewise
	dash   int
}

// Chip is the number of its marker among [Symbols], from 1.
func (s *Series) Chip() int { return s.Index + 1 }

// Looks are the numbers of its colour, its marker and its dashes.
func (s *Series) Looks() (hue, marker, dash int) { return s.hue, s.marker, s.dash }

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
