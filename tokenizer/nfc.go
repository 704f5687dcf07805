package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nfc returns text in Unicode's normal form C.
//
// The library inserts a joiner (U+034F) after 30 marks on one letter, which the standard does not
// ask for and no other implementation does. Such text is taken by the long way.
func nfc(s string) string {
	normal := norm.NFC.QuickSpanString(s)
	switch {
	case normal == len(s):
		return s
	case manyMarks(s[normal:]):
		return s[:normal] + slowNFC(s[normal:])
	}
	return norm.NFC.String(s)
}

// manyMarks reports whether a letter of s may have more marks than the library
// takes. A character is at most four when decomposed.
func manyMarks(s string) bool {
	marks := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			marks = 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(s[i:])
		if marks++; p.CCC() == 0 {
			marks = 0
		}
		if marks > 6 {
			return true
		}
		i += max(1, p.Size())
	}
	return false
}

// part is a character of decomposed text.
type part struct {
	r       rune
	ccc     uint8 // canonical combining class; 0 starts a cluster
	cluster int
}

// slowNFC is the algorithm of the standard (UAX 15). Only tables, and the
// composition of two characters, are the library's.
func slowNFC(s string) string {
	var parts []part
	var out strings.Builder
	clusters := 0
	add := func(r rune, ccc uint8) {
		if ccc == 0 {
			clusters++
		}
		parts = append(parts, part{r, ccc, clusters})
	}
	flush := func() {
		// The marks of each cluster go by class.
		slices.SortStableFunc(parts, func(a, b part) int {
			return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.ccc, b.ccc))
		})
		for _, p := range compose(parts) {
			out.WriteRune(p.r)
		}
		parts = parts[:0]
	}
	for i := 0; i < len(s); {
		p := norm.NFD.PropertiesString(s[i:])
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1: // not UTF-8: kept as it is
			flush()
			out.WriteByte(s[i])
		case p.Decomposition() == nil:
			add(r, p.CCC())
		default:
			for _, d := range string(p.Decomposition()) {
				add(d, norm.NFD.PropertiesString(string(d)).CCC())
			}
		}
		i += n
	}
	flush()
	return out.String()
}

// compose puts each part into its starter where the two have a character of
// their own and nothing between them is in the way. It returns what is left.
func compose(parts []part) []part {
	var out []part
	starter := -1
	for _, p := range parts {
		if starter >= 0 {
			blocked := len(out)-1 > starter && out[len(out)-1].ccc >= p.ccc
			if r, ok := composed(out[starter].r, p.r); ok && !blocked {
				out[starter].r = r
				continue
			}
		}
		out = append(out, p)
		if p.ccc == 0 {
			starter = len(out) - 1
		}
	}
	return out
}

// composed returns the character that two become.
func composed(a, b rune) (rune, bool) {
	pair := norm.NFC.String(string(a) + string(b))
	r, n := utf8.DecodeRuneInString(pair)
	return r, n == len(pair)
}
