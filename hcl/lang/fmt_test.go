package lang

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func TestFormat(t *testing.T) {
	tests := []struct{ name, Text, want string }{
		{"empty", "", ""},
		{"blank", " \n\n", ""},
		{"no end", "locals{}", "locals {}\n"},
		{"many ends", "locals {}\n\n\n", "locals {}\n"},
		{"comment at the end", "# x", "# x\n"},
		{"aligned", "host \"h\" {\naddress=\"a\" # one\n   gpus = \"8xH200\"   # two\n}\n",
			"host \"h\" {\n  address = \"a\"      # one\n  gpus    = \"8xH200\" # two\n}\n"},
		{"line ends of another system", "locals {\r\na = 1\r\n}\r\n\r\n", "locals {\r\n  a = 1\r\n}\r\n"},
		{"heredoc", "locals {\na=<<E\n  as it is  \nE\n}\n", "locals {\n  a = <<E\n  as it is  \nE\n}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, p := Format("lab.hcl", []byte(tt.Text))
			if p.HasErrors() {
				t.Fatalf("problems:\n%s", messages(t, p))
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Format (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormatRefusesWhatDoesNotParse(t *testing.T) {
	got, p := Format("x/lab.hcl", []byte("host \"h\" {\n  address = \n}\n"))
	if got != nil || !p.HasErrors() {
		t.Fatalf("Format = %q, %d problems; want problems alone", got, len(p.List()))
	}
	if x := p.List()[0]; x.File != "x/lab.hcl" || x.Start.Line != 2 {
		t.Errorf("problem is at %s:%d, want x/lab.hcl:2", x.File, x.Start.Line)
	}
}

// FuzzFormat: what parses can be formatted, means what it meant (the tokens are
// the same, white space apart), and is not changed by formatting it again.
func FuzzFormat(f *testing.F) {
	for _, pattern := range []string{"../../examples/*/[a-z]*.hcl", "../../examples/*/[a-z]*.hclvars"} {
		names, err := filepath.Glob(pattern)
		if err != nil || names == nil {
			f.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for _, s := range []string{
		"", "\n", "#", "a=1//x", "a = 1 /* x */\n", "a=<<-E\n  x ${ 1+1 }\n  E\n", "a=\"${b}%{if c}d%{endif}\"\n",
		"a = [\n1,\n2, # two\n]\nbb = 3 # three\n", "x \"y\" {\r\n a = 1\r\n}\r\n",
		"a=-1\nb=!c\nd=e?f:g\nh=i.*.j[0]\n", "a={for k,v in b:k=>v...if c}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, p := Format("lab.hcl", text)
		if p.HasErrors() {
			if once != nil {
				t.Errorf("text comes with errors: %q", once)
			}
			return
		}
		if was, is := tokens(text), tokens(once); !slices.Equal(was, is) {
			t.Errorf("tokens of %q and %q (-was +is):\n%s", text, once, cmp.Diff(was, is))
		}
		twice, p := Format("lab.hcl", once)
		if p.HasErrors() {
			t.Fatalf("formatted %q does not parse:\n%s", once, messages(t, p))
		}
		if !bytes.Equal(once, twice) {
			t.Errorf("Format is not idempotent: %q, then %q", once, twice)
		}
	})
}

// tokens are what text consists of, without the white space between them.
func tokens(text []byte) []string {
	lexed, _ := hclsyntax.LexConfig(text, "", hcl.InitialPos)
	out := []string{}
	for _, tok := range lexed {
		b := tok.Bytes
		switch tok.Type {
		case hclsyntax.TokenEOF:
			continue
		case hclsyntax.TokenComment, hclsyntax.TokenCHeredoc:
			b = bytes.TrimRight(b, " \t\r\n") // these end with the line
		case hclsyntax.TokenNewline:
			b = []byte("\n")
		}
		out = append(out, tok.Type.String()+" "+string(b))
	}
	for len(out) > 0 && out[len(out)-1] == "TokenNewline \n" {
		out = out[:len(out)-1]
	}
	return out
}
