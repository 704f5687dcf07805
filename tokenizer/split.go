package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// splitter cuts text into pieces. It calls piece for each of them that is not
// empty, from left to right.
type splitter func(text string, piece func(string))

// prefixed puts a space before text that does not start with one.
func prefixed(text string, piece func(string)) {
	if !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	piece(text)
}

// scanner is a splitter for one regular expression whose matches, and what is
// between them, all become pieces. It is the expression written out by hand.
type scanner func(c *classes, s string, i int) (end int) // of the piece that starts at s[i]

func (c *classes) splitter(scan scanner) splitter {
	return func(text string, piece func(string)) {
		for i := 0; i < len(text); {
			end := scan(c, text, i)
			piece(text[i:end])
			i = end
		}
	}
}

// gpt2Pattern is what ByteLevel splits by when use_regex is true.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// scannerFor returns the scanner of a regular expression; nil if there is
// none. The expressions are those of the published files, letter for letter.
func scannerFor(pattern string) scanner {
	switch pattern {
	case `\p{N}{1,3}`: // DeepSeek, the first of three
		return func(c *classes, s string, i int) int { return c.digitsOrGap(s, i, 3) }
	case `\p{N}`:
		return func(c *classes, s string, i int) int { return c.digitsOrGap(s, i, 1) }
	case `\p{N}+`:
		return func(c *classes, s string, i int) int { return c.digitsOrGap(s, i, len(s)) }
	case "[一-龥\u3040-ゟ゠-ヿ]+": // DeepSeek, the second
		return scanHan
	case "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+":
		return scanDeepSeek
	case `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: // Llama 3
		return func(c *classes, s string, i int) int { return c.cl100k(s, i, 3) }
	case `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: // Qwen 2 and 3
		return func(c *classes, s string, i int) int { return c.cl100k(s, i, 1) }
	case gpt2Pattern:
		return scanGPT2
	}
	return nil
}

// digits returns the end of at most limit numbers at s[i].
func (c *classes) digits(s string, i, limit int) int {
	for ; limit > 0 && i < len(s); limit-- {
		k, n := c.at(s, i)
		if k&number == 0 {
			break
		}
		i += n
	}
	return i
}

// digitsOrGap returns the end of what digits finds, or where that would start.
func (c *classes) digitsOrGap(s string, i, limit int) int {
	if end := c.digits(s, i, limit); end > i {
		return end
	}
	return c.until(s, i, number)
}

// scanHan separates Chinese characters and kana from all others.
func scanHan(_ *classes, s string, i int) int {
	han := func(r rune) bool { return r >= 0x4e00 && r <= 0x9fa5 || r >= 0x3040 && r <= 0x30ff }
	first, _ := utf8.DecodeRuneInString(s[i:])
	want := han(first)
	for j, r := range s[i:] {
		if han(r) != want {
			return i + j
		}
	}
	return len(s)
}

// scanDeepSeek is the expression of DeepSeek that does most of the work. There
// are characters that it does not match.
func scanDeepSeek(c *classes, s string, i int) int {
	if end := c.deepSeek(s, i); end > i {
		return end
	}
	for {
		_, n := c.at(s, i)
		if i += n; i == len(s) || c.deepSeek(s, i) > i {
			return i
		}
	}
}

// deepSeek returns the end of the match at s[i], or i.
func (c *classes) deepSeek(s string, i int) int {
	const word = letter | mark
	b := s[i]
	k, n := c.at(s, i)
	switch {
	case b < utf8.RuneSelf && k&symbolic != 0 && i+1 < len(s) && asciiLetter(s[i+1]):
		end := i + 2
		for end < len(s) && asciiLetter(s[end]) {
			end++
		}
		return end
	case k&word != 0:
		return c.while(s, i+n, word)
	case k&symbolic == 0 && b != '\r' && b != '\n':
		if end := c.while(s, i+n, word); end > i+n {
			return end
		}
	}
	if end := c.symbols(s, i, symbolic, true); end > i {
		return end
	}
	return c.spaces(s, i)
}

func asciiLetter(b byte) bool { b |= 0x20; return b >= 'a' && b <= 'z' }

// cl100k returns the end of the match at s[i] of the expression that began as
// OpenAI's cl100k. It matches everything.
func (c *classes) cl100k(s string, i, digits int) int {
	b := s[i]
	if b == '\'' {
		if end := contraction(s, i, true); end > i {
			return end
		}
	}
	k, n := c.at(s, i)
	switch {
	case k&letter != 0:
		return c.while(s, i+n, letter)
	case k&number != 0:
		return c.digits(s, i, digits)
	case b != '\r' && b != '\n':
		if end := c.while(s, i+n, letter); end > i+n {
			return end
		}
	}
	if end := c.symbols(s, i, space|letter|number, false); end > i {
		return end
	}
	return c.spaces(s, i)
}

// scanGPT2 matches everything too.
func scanGPT2(c *classes, s string, i int) int {
	start := i
	if s[i] == '\'' {
		if end := contraction(s, i, false); end > i {
			return end
		}
	}
	if s[i] == ' ' && i+1 < len(s) {
		i++
	}
	switch k, n := c.at(s, i); {
	case k&letter != 0:
		return c.while(s, i+n, letter)
	case k&number != 0:
		return c.while(s, i+n, number)
	case k&space == 0:
		return c.until(s, i+n, space|letter|number)
	}
	return c.lastSpaces(s, start, c.while(s, start, space))
}

// contraction returns the end of an English one at s[i], which is its
// apostrophe; i if there is none.
func contraction(s string, i int, anyCase bool) int {
	rest := s[i+1:]
	if anyCase && strings.HasPrefix(rest, "ſ") { // U+017F is a lower case of S
		return i + 1 + len("ſ")
	}
	for _, tail := range [...]string{"s", "t", "re", "ve", "m", "ll", "d"} {
		if len(rest) < len(tail) {
			continue
		}
		got := rest[:len(tail)]
		if got == tail || anyCase && strings.EqualFold(got, tail) {
			return i + 1 + len(tail)
		}
	}
	return i
}

// symbols returns the end of a space that may be there, symbols as run finds
// them, at least one, and the line ends after them; i if there is no symbol.
func (c *classes) symbols(s string, i int, k class, one bool) int {
	start := i
	if s[i] == ' ' {
		i++
	}
	end := c.run(s, i, k, one)
	if end == i {
		return start
	}
	for end < len(s) && (s[end] == '\r' || s[end] == '\n') {
		end++
	}
	return end
}

// spaces returns the end of \s*[\r\n]+|\s+(?!\S)|\s+ at s[i]: white space up to its last line end,
// or else all but the last of it, which belongs to what comes after.
func (c *classes) spaces(s string, i int) int {
	end := c.while(s, i, space)
	for j := end; j > i; j-- {
		if s[j-1] == '\r' || s[j-1] == '\n' {
			return j
		}
	}
	return c.lastSpaces(s, i, end)
}

// lastSpaces returns the end of \s+(?!\S)|\s+ at s[i], when the white space ends at s[end].
func (c *classes) lastSpaces(s string, i, end int) int {
	if end == len(s) {
		return end
	}
	if _, n := utf8.DecodeLastRuneInString(s[i:end]); end-n > i {
		return end - n
	}
	return end
}
