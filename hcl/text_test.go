package hcl

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"hclbench/hcl/lang"
)

// keptText is what is kept of a lab's files, all of it.
func keptText(t *testing.T, src *lang.Source) string {
	t.Helper()
	_, problems := Load(src, lang.Vars{})
	if problems.HasErrors() || len(problems.Text()) != len(src.Files) {
		t.Fatal(printed(t, problems))
	}
	return string(bytes.Join(slices.Collect(maps.Values(problems.Text())), nil))
}

// TestText: none of the canaries is in the text that is kept, everything else is.
func TestText(t *testing.T) {
	src := &lang.Source{Dir: ".", Files: map[string][]byte{
		"lab.hcl": []byte(`lab "kept" {
  description = "stays" # canary-default, too
}

variable "token" {
  type      = string
  default   = "canary-default"
  sensitive = true
}

variable "keys" {
  type      = map(string)
  default   = { a = "canary-a", b = "canary-b" }
  sensitive = true
}

variable "given" {
  type      = string
  sensitive = true
}

host "box" {
  address = "box.example"
}

model "m" {
  repo = "org/m"
}

engine "vllm" "box" {
  host    = host.box
  model   = model.m
  image   = "vllm/vllm-openai:v0.7.3"
  api_key = join("", ["canary-key", sensitive("canary-nested"), "canary-last"])
  env     = { HF_TOKEN = var.token, OTHER = sensitive("canary-literal"), MORE = "${var.keys.a}${var.given}", PLAIN = "shown" }
}
`),
		lang.VarsFile: []byte("given = \"canary-given\"\n"),
	}}
	all := keptText(t, src)
	if strings.Contains(all, "canary-") {
		t.Errorf("the text still has a secret:\n%s", all)
	}
	for _, want := range []string{`description = "stays" # (sensitive), too`, `HF_TOKEN = var.token`,
		`OTHER = sensitive("(sensitive)")`, `PLAIN = "shown" }`, `api_key = "(sensitive)"`, `given = "(sensitive)"`} {
		if !strings.Contains(all, want) {
			t.Errorf("the text lacks %q:\n%s", want, all)
		}
	}
}

// TestTextFollows: a key that a local or a plain variable holds is not kept either, and
// of two secrets of which one begins like the other nothing stays.
func TestTextFollows(t *testing.T) {
	src := &lang.Source{Dir: ".", Files: map[string][]byte{
		"lab.hcl": []byte(`locals {
  key    = "canary-local"
  longer = "${local.key}-and-more"
  shown  = "stays here"
}

variable "plain" {
  default = "canary-default"
}

variable "given" {
  type = string
}

engine "external" "a" {
  url     = "http://203.0.113.7:8000" # canary-local, canary-local-and-more
  api_key = local.longer
}

engine "external" "b" {
  url     = "http://203.0.113.7:8001"
  api_key = sensitive("${var.plain}${var.given}")
}

locals {
  two = [sensitive("canary-abcd"), sensitive("canary-abcdefgh")] # canary-abcdefgh
}
`),
		lang.VarsFile: []byte("given = \"canary-given\"\n"),
	}}
	all := keptText(t, src)
	if strings.Contains(all, "canary") || strings.Contains(all, "efgh") || !strings.Contains(all, "stays here") {
		t.Errorf("the text has a secret, or lacks what is none:\n%s", all)
	}
}

// TestSecretInMistake: the line of a mistake does not show a key, whatever is wrong with it.
func TestSecretInMistake(t *testing.T) {
	for _, wrong := range []string{
		`apikey = "canary-1234567"`,
		`api_key = ["canary-1234567"]`,
		`api_key = "canary-1234567`,
		`api_key = "canary-1234567" x`,
		`env = { HF_TOKEN = "canary-1234567", X = host.nowhere }`,
		`flags = { other = "sk-canary1234567", x = ["a", {}] }`,
		`command = ["serve", "--api-key", "canary-1234567", {}]`,
		`urls = ["http://a:8000/?api_key=canary-1234567", "http://b:8000"]`,
	} {
		text := "engine \"external\" \"e\" {\n  url = \"http://203.0.113.7:8000\"\n  " + wrong + "\n}\n"
		_, p := Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
		if said := printed(t, p); !p.HasErrors() || strings.Contains(said, "canary") {
			t.Errorf("%s: no error, or the key is shown:\n%s", wrong, said)
		}
	}
	body := `load { extra_body = { api_key = "canary-1234567" } }`
	text := "benchmark \"b\" {\n  " + body + "\n}\n"
	_, p := Load(&lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(text)}}, lang.Vars{})
	if said := printed(t, p); strings.Contains(said, "canary") || !strings.Contains(said, "would show") {
		t.Errorf("a key in extra_body is taken, or shown:\n%s", said)
	}
}

// TestTextOfVarFiles: two files of values that are named alike are both kept.
func TestTextOfVarFiles(t *testing.T) {
	text := map[string]string{"a/x.hclvars": "one = 1\n", "b/x.hclvars": "two = 2\n"}
	src := &lang.Source{Dir: ".", Files: map[string][]byte{"lab.hcl": []byte("variable \"one\" {}\nvariable \"two\" {}\n")},
		Open: func(path string) ([]byte, error) { return []byte(text[path]), nil }}
	_, p := Load(src, lang.Vars{Files: []string{"a/x.hclvars", "b/x.hclvars"}})
	kept := p.Text()
	if string(kept["x.hclvars"]) != "one = 1\n" || string(kept["x-2.hclvars"]) != "two = 2\n" || len(kept) != 3 {
		t.Errorf("got %q, want both files of values beside the lab", kept)
	}
}
