package plain

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	tests := []struct{ in, text, line string }{
		{"", "", ""},
		{"two lines\nhere\tand there", "two lines\nhere\tand there", "two lines here and there"},
		{"\x1b[36m(EngineCore)\x1b[0m up", "(EngineCore) up", "(EngineCore) up"},
		{"title \x1b]0;evil\x07here", "title here", "title here"},
		{"clipboard \x1b]52;c;ZXZpbA==\x1b\\here", "clipboard here", "clipboard here"},
		{"clear \x1b[2J\x1b[Hhere", "clear here", "clear here"},
		{"C1 \u009b2Jhere", "C1 2Jhere", "C1 2Jhere"},
		{"bell\a and null\x00 and del\x7f", "bell and null and del", "bell and null and del"},
		{"10%\r20%\r\nend", "10%\n20%\nend", "10% 20% end"},
		{"turned \u202egnp.exe", "turned �gnp.exe", "turned �gnp.exe"},
		{"nothing\u200bseen\u2028end", "nothing�seen�end", "nothing�seen�end"},
		{"Grüße, 你好, 👩\u200d🚀", "Grüße, 你好, 👩\u200d🚀", "Grüße, 你好, 👩\u200d🚀"},
		{"half a rune \xe4\xbd", "half a rune �", "half a rune �"},
		{"written � stays", "written � stays", "written � stays"},
	}
	for _, tt := range tests {
		if got := Text(tt.in); got != tt.text {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.text)
		}
		if got := Line(tt.in); got != tt.line {
			t.Errorf("Line(%q) = %q, want %q", tt.in, got, tt.line)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[1;2Hx\x9b\xff\u202e\r\n")
	f.Add("\x1b\x1b]]\x07[31m")
	f.Add("\x1b[\u009b0m31m")
	f.Fuzz(func(t *testing.T, s string) {
		out := Text(s)
		if again := Text(out); again != out {
			t.Errorf("Text(%q) = %q, and of that %q", s, out, again)
		}
		if !utf8.ValidString(out) {
			t.Errorf("Text(%q) = %q: no UTF-8", s, out)
		}
		for _, r := range out {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Errorf("Text(%q) = %q: has %U", s, out, r)
			}
		}
		if line := Line(s); strings.ContainsAny(line, "\n\t") {
			t.Errorf("Line(%q) = %q: more than one line", s, line)
		}
	})
}

func TestCut(t *testing.T) {
	tests := []struct {
		in   string
		n    int
		want string
	}{
		{"short", 5, "short"}, {"longer", 5, "longe…"}, {"über", 1, "…"}, {"über", 2, "ü…"}, {"x", 0, "…"}, {"x", -1, "…"}, {"", 0, ""},
	}
	for _, tt := range tests {
		if got := Cut(tt.in, tt.n); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "''"}, {"--tp=8", "--tp=8"}, {"two words", "'two words'"}, {"it's", `'it'\''s'`}, {"$(reboot)", "'$(reboot)'"}, {"a\nb", "'a\nb'"}, {"~root", "'~root'"}, {"ü", "'ü'"},
	}
	for _, tt := range tests {
		if got := Quote(tt.in); got != tt.want {
			t.Errorf("Quote(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestHide(t *testing.T) {
	const key = "sk-<a>'b\"c\\d/é"
	pem := "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"
	s := NewSecrets("abcd", "abcdefgh", key, pem, "x", " \n ", "")
	for _, text := range []string{
		"plain " + key + " end",
		fmt.Sprintf("as JSON %q end", key),
		`as JSON "sk-\u003ca\u003e'b\"c\\d/é" end`,
		`as repr 'sk-<a>\'b"c\\d/é' end`,
		"in a URL ?key=" + url.QueryEscape(key) + "&end",
		"Basic " + base64.StdEncoding.EncodeToString([]byte(key)),
		"cut off: sk-<a>…",
		"the longer first: abcdefgh",
	} {
		got := s.Hide(text)
		if !strings.Contains(got, Hidden) || strings.Contains(got, "sk-") || strings.Contains(got, "efgh") {
			t.Errorf("Hide(%q) = %q", text, got)
		}
	}
	for _, line := range strings.Split(pem, "\n") {
		if got := s.Hide("ERROR 11-22 [loader.py:7] " + line); strings.Contains(got, line) {
			t.Errorf("Hide left the line %q: %q", line, got)
		}
	}
	if got, want := s.Hide("x and y"), "x and y"; got != want {
		t.Errorf("Hide = %q, want %q: one letter is no secret", got, want)
	}
	if got := (Secrets{}).Hide("all of it…"); got != "all of it…" {
		t.Errorf("without secrets: %q", got)
	}
}

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"b","n":1.50,"u":"ü \"q\" \n"}`:     `{"a":"b","n":1.50,"u":"ü \"q\" \n"}`,
		`{"\u001b[2Ja" : ["\u001b[31mred", 1e3]}`: `{"a" : ["red", 1e3]}`,
		"[\"\xff\"]": `["` + "\ufffd" + `"]`,
		`["\u202eturned", "kept \u003c", "\\u001b[m"]`: `["` + "\ufffd" + `turned", "kept \u003c", "\\u001b[m"]`,
		`"not ended`: `"not ended`,
		`null`:       `null`,
	} {
		if got := string(JSON([]byte(in))); got != want {
			t.Errorf("JSON(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for got, want := range map[string]string{
		Count(0, "cell"): "0 cells", Count(1, "cell"): "1 cell", Count(3, "cell"): "3 cells",
		Bytes(7): "7 bytes", Bytes(1): "1 byte", Bytes(12_000): "12.0 kB",
		Bytes(3_100_000): "3.1 MB", Bytes(688_600_000_000): "688.6 GB",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
