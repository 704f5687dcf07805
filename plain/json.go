package plain

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

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
