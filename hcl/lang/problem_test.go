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
