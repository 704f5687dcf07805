package lang

import (
	"strings"
	"testing"
)

// readText reads the text of a file in a language of variables, locals and some more blocks.
func readText(t testing.TB, text string, blocks ...*BlockType) *Reader {
	t.Helper()
	src := &Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}
	r := NewReader(src, Vars{}, append([]*BlockType{VariableBlock(), LocalsBlock()}, blocks...), nil)
	r.EvaluateAll()
	r.CheckAll()
	r.Finish()
	return r
}

func messages(t testing.TB, p *Problems) string {
	t.Helper()
	var b strings.Builder
	if err := p.Write(&b, 80, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"32GB": 32e9, "32GiB": 32 << 30, "1.5TB": 15e11, "512 MiB": 512 << 20, "7B": 7,
		"32": 0, "32G": 0, "GB": 0, "-1GB": 0, "1e3GB": 0, "99999999999TB": 0,
	} {
		if got, err := parseSize(in); (err == nil) != (want != 0) || got != want {
			t.Errorf("parseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestWrite(t *testing.T) {
	p := readText(t, "locals {\n\ta = \"日本 "+strings.Repeat("long ", 40)+"\" + nope\n}\n").Problems
	var b strings.Builder
	if err := p.Write(&b, 60, true); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		plain := colors.ReplaceAllString(line, "")
		if n := len([]rune(strings.TrimRight(plain, "\n"))); n > 60 {
			t.Errorf("a line is %d columns wide, want at most 60: %q", n, plain)
		}
	}
	if !strings.Contains(b.String(), "nope") || !strings.Contains(b.String(), "\x1b[1;4mnope\x1b[0m") {
		t.Errorf("the message does not show what is wrong, underlined:\n%s", b.String())
	}
}

// TestPlaces: the place of a mistake is marked wherever it is in its line, and nothing that the text says reaches
// the terminal but as characters.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"behind the line", "locals {\n\ta = \n}\n", "   2:     a =  \n              ^\n"},
		{"at the end of the text", "locals { a = b }\nlocals { a =", "   2: locals { a = \n                  ^\n"},
		{"wide characters", "locals {\n  a = 1 日本\n}\n", "   2:   a = 1 日本\n              ^^^^\n"},
		{"control characters", "locals {\n  a = \"\u009b31m\u202e\" + nope\n}\n", `   2:   a = "·31m·" + nope`},
		{"in a rule's words", "variable \"n\" {\n  default = 1\n  validation {\n    condition     = var.n > 1\n" +
			"    error_message = \"red \\u001b[31mletters\"\n  }\n}\n", "red letters\n"},
	} {
		p := readText(t, c.text).Problems
		if got := messages(t, p); !strings.Contains(got, c.want) {
			t.Errorf("%s: the message is\n%s\nwant in it\n%s", c.name, got, c.want)
		}
		var coloured strings.Builder
		if err := p.Write(&coloured, 80, true); err != nil {
			t.Fatal(err)
		}
		if got := colors.ReplaceAllString(coloured.String(), ""); strings.ContainsAny(got, "\x1b\u009b\u202e") {
			t.Errorf("%s: the message holds what a terminal obeys: %q", c.name, got)
		}
		if strings.Contains(coloured.String(), "\x1b[31mletters") {
			t.Errorf("%s: the text colours the message: %q", c.name, coloured.String())
		}
	}
}

// TestIterated: what a for expression goes over is not told where it is sensitive: a part of it has no mark.
func TestIterated(t *testing.T) {
	for _, in := range []string{"var.secrets", `sensitive({ hunter2 = 4711 })`} {
		p := readText(t, `
variable "secrets" {
  sensitive = true
  default   = { hunter2 = 4711 }
}
locals {
  open   = [for k, v in { clear = 1 } : k + 1]
  keys   = [for k, v in `+in+` : k + 1]
  values = [for k, v in `+in+` : v.none]
}
`).Problems
		got := messages(t, p)
		for _, not := range []string{`k is "hunter2"`, "v is 4711"} {
			if strings.Contains(got, not) {
				t.Errorf("for in %s: the message tells a secret, %s:\n%s", in, not, got)
			}
		}
		if !strings.Contains(got, `k is "clear"`) {
			t.Errorf("for in %s: what is not sensitive is not told:\n%s", in, got)
		}
	}
}

// TestTitle: a sentence begins with a capital, and a name stays what it is.
func TestTitle(t *testing.T) {
	for text, want := range map[string]string{"": "", "a rate is above 0": "A rate is above 0", "ttft_p95 takes 60 requests": "ttft_p95 takes 60 requests"} {
		if got := Title(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
