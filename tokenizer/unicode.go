package tokenizer

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"
)

type class uint8 // what the splitters want to know of a character

const (
	letter class = 1 << iota
	mark
	number
	symbolic // punctuation and symbols
	space    // White_Space
)

// classes has the class of every character: a lookup in Go's range tables per
// character would take longer than everything else.
type classes [unicode.MaxRune + 1]class

func newClasses() *classes {
	c := new(classes)
	for name, k := range map[string]class{"L": letter, "M": mark, "N": number, "P": symbolic, "S": symbolic} {
		rangetable.Visit(unicode.Categories[name], func(r rune) { c[r] |= k })
		for _, r := range assignedSince(name) {
			for x := r.lo; x <= r.hi; x++ {
				c[x] |= k
			}
		}
	}
	rangetable.Visit(unicode.White_Space, func(r rune) { c[r] |= space })
	return c
}

func (c *classes) at(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return c[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return c[r], n
}

// while returns the end of the characters from s[i] on that are one of k.
func (c *classes) while(s string, i int, k class) int { return c.run(s, i, k, true) }

// until returns the start of the first character from s[i] on that is one of k.
func (c *classes) until(s string, i int, k class) int { return c.run(s, i, k, false) }

// run returns the end of the characters from s[i] on that all are one of k, or all are none.
func (c *classes) run(s string, i int, k class, one bool) int {
	for i < len(s) {
		got, n := class(0), 1
		if b := s[i]; b < utf8.RuneSelf { // as at does: it is not inlined
			got = c[b]
		} else {
			got, n = c.at(s, i)
		}
		if got&k != 0 != one {
			break
		}
		i += n
	}
	return i
}

const goUnicode = "15.0.0" // the version of Unicode that the additions below add to

type span struct{ lo, hi rune } // a range of characters, both ends included

// assignedSince returns the characters of a general category, or of a group of them such as L, that
// are in Unicode 16, which Hugging Face's library follows (Oniguruma 6.9.10), and not in Go's
// tables. Source: General_Category of the Unicode Character Database 16.0.0. One character only
// changed its category, within M.
func assignedSince(category string) []span {
	var all []span
	for _, added := range []struct {
		category string
		spans    []span
	}{
		{"Ll", []span{{0x1C8A, 0x1C8A}, {0xA7CD, 0xA7CD}, {0xA7DB, 0xA7DB}, {0x10D70, 0x10D85}}},
		{"Lm", []span{{0x10D4E, 0x10D4E}, {0x10D6F, 0x10D6F}, {0x16D40, 0x16D42}, {0x16D6B, 0x16D6C}}},
		{"Lo", []span{
			{0x105C0, 0x105F3}, {0x10D4A, 0x10D4D}, {0x10D4F, 0x10D4F}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
			{0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7}, {0x113D1, 0x113D1},
			{0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D43, 0x16D6A},
			{0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D},
		}},
		{"Lu", []span{{0x1C89, 0x1C89}, {0xA7CB, 0xA7CC}, {0xA7DA, 0xA7DA}, {0xA7DC, 0xA7DC}, {0x10D50, 0x10D65}}},
		{"Mc", []span{
			{0x113B8, 0x113BA}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113CD},
			{0x113CF, 0x113CF}, {0x1612A, 0x1612C},
		}},
		{"Mn", []span{
			{0x0897, 0x0897}, {0x10D69, 0x10D6D}, {0x10EFC, 0x10EFC}, {0x113BB, 0x113C0}, {0x113CE, 0x113CE},
			{0x113D0, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x11F5A, 0x11F5A}, {0x1611E, 0x16129},
			{0x1612D, 0x1612F}, {0x1E5EE, 0x1E5EF},
		}},
		{"Nd", []span{
			{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139}, {0x16D70, 0x16D79},
			{0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA},
		}},
		{"Pd", []span{{0x10D6E, 0x10D6E}}},
		{"Po", []span{
			{0x1B4E, 0x1B4F}, {0x1B7F, 0x1B7F}, {0x113D4, 0x113D5}, {0x113D7, 0x113D8}, {0x11BE1, 0x11BE1},
			{0x16D6D, 0x16D6F}, {0x1E5FF, 0x1E5FF},
		}},
		{"Sm", []span{{0x10D8E, 0x10D8F}}},
		{"So", []span{
			{0x2427, 0x2429}, {0x2FFC, 0x2FFF}, {0x31E4, 0x31E5}, {0x31EF, 0x31EF}, {0x1CC00, 0x1CCEF},
			{0x1CD00, 0x1CEB3}, {0x1F8B2, 0x1F8BB}, {0x1F8C0, 0x1F8C1}, {0x1FA89, 0x1FA89}, {0x1FA8F, 0x1FA8F},
			{0x1FABE, 0x1FABE}, {0x1FAC6, 0x1FAC6}, {0x1FADC, 0x1FADC}, {0x1FADF, 0x1FADF}, {0x1FAE9, 0x1FAE9},
			{0x1FBCB, 0x1FBEF},
		}},
	} {
		if category == added.category || category == added.category[:1] {
			all = append(all, added.spans...)
		}
	}
	return all
}
