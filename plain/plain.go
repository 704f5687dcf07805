// Package plain makes the words of others fit to be shown and kept: no control
// sequence of theirs reaches a terminal, no secret of ours stays in them, and they
// are no longer than there is room for. What comes from an engine, a host, a file or
// a server passes here once, at the door where it comes in.
//
// It knows nothing of where words come from or go to, and writes nothing.
package plain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Line makes one printable line of s: control sequences of terminals and control
// characters are taken out, line ends and tabs become blanks, and every other rune
// that cannot be seen becomes "�".
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Text(s))
}

// Text is [Line] for a text of several lines: line ends ("\n", "\r\n", and the "\r"
// with which a progress bar begins again) become "\n", tabs stay.
func Text(s string) string {
	if printable(s) {
		return s
	}
	s = strings.ReplaceAll(ansi.Strip(strings.ToValidUTF8(s, string(utf8.RuneError))), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case unicode.IsControl(r) && !seen(r):
			return -1
		case !seen(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// printable reports whether s is as [Text] would leave it; nearly everything is.
func printable(s string) bool {
	for i, r := range s {
		if !seen(r) {
			return false
		}
		if r == utf8.RuneError {
			if _, width := utf8.DecodeRuneInString(s[i:]); width < 2 {
				return false
			}
		}
	}
	return true
}

// seen reports whether a rune may stand in a text. Marks that turn the direction of
// writing, and others without a form of their own, can make a text look like another;
// the joiner of emoji and of some scripts is let through.
func seen(r rune) bool {
	return r == '\n' || r == '\t' || r == '\u200d' || unicode.IsGraphic(r) && r != '\u2028' && r != '\u2029'
}

// Cut is s when it has at most n bytes, and otherwise as many whole runes of it as go
// into n bytes, with "…" after them.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Quote makes one word of s for a POSIX shell: as it is where no shell would read it otherwise.
func Quote(s string) string {
	asItIs := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !asItIs(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// CSV is a line that no spreadsheet takes for a formula and no terminal for a command.
func CSV(s string) string {
	s = Line(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return "'" + s
		}
	}
	return s
}

// Count is so many of something: "1 cell", "3 cells", "0 cells".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Bytes is a size in decimal units: "688.6 GB", "3.1 MB", "12.0 kB", "7 bytes".
func Bytes(n int64) string {
	for _, unit := range []struct {
		of   float64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if float64(n) >= unit.of {
			return fmt.Sprintf("%.1f %s", float64(n)/unit.of, unit.name)
		}
	}
	return Count(int(n), "byte")
}

// JSON is JSON whose texts, and names of members, are printable. All else, and every
// text that is printable already, is spelt as it was.
func JSON(text []byte) []byte {
	var out []byte // nil: nothing had to be changed up to done
	done := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		begin, plainly := i, true
		for i++; i < len(text) && text[i] != '"'; i++ {
			if plainly = plainly && text[i] >= ' ' && text[i] <= '~' && text[i] != '\\'; text[i] == '\\' {
				i++
			}
		}
		if i >= len(text) {
			break // not JSON: whoever reads it says so
		}
		var s string
		if plainly || json.Unmarshal(text[begin:i+1], &s) != nil {
			continue
		}
		shown := Text(s)
		if shown == s && utf8.Valid(text[begin:i]) {
			continue
		}
		out = append(append(out, text[done:begin]...), quoted(shown)...)
		done = i + 1
	}
	if out == nil {
		return text
	}
	return append(out, text[done:]...)
}

// quoted is a text as JSON writes it, with nothing escaped that need not be.
func quoted(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // of a string into memory
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
