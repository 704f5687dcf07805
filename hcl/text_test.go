package hcl

import (
	"strings"
	"testing"
)

// TestText: none of the canaries is in the text that is kept, everything else is.
func TestText(t *testing.T) {
	const canary = "canary-"
	src := &Source{Dir: ".", Files: map[string][]byte{
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
		VarsFile: []byte("given = \"canary-given\"\n"),
	}}
	cfg, problems := Load(src, Vars{})
	if problems.HasErrors() {
		t.Fatal(problems.list)
	}
	text := cfg.Text()
	if len(text) != 2 {
		t.Errorf("%d files are kept; want 2", len(text))
	}
	all := ""
	for name, file := range text {
		all += string(file)
		if strings.Contains(string(file), canary) {
			t.Errorf("%s still has a secret:\n%s", name, file)
		}
	}
	for _, want := range []string{`description = "stays" # (sensitive), too`, `HF_TOKEN = var.token`, `OTHER = sensitive("(sensitive)")`, `PLAIN = "shown" }`, `api_key = "(sensitive)"`, `given = "(sensitive)"`} {
		if !strings.Contains(all, want) {
			t.Errorf("the text lacks %q:\n%s", want, all)
		}
	}
}
