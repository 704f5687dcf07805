package plan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plan"
)

// secretsLab says a secret in every place where one can stand.
const secretsLab = `
locals {
  boxes = { a = { url = "http://203.0.113.1:8000", key = "canary-of-each" } }
  half  = "canary-half"
}
variable "key" {
  sensitive = true
  default   = "canary-variable"
}
lab "secrets" {
  description = "calls it canary-of-each and canary-header, and https://hooks.example.com/services/canary-hook"
  notice {
    url = "https://hooks.example.com/services/canary-hook"
  }
}
host "h" {
  address = "203.0.113.7"
  gpus    = "8xH200"
}
model "m" {
  repo = "org/model"
}
dataset "random" "d" {
  input_tokens = 128
}
engine "external" "e" {
  for_each = local.boxes
  url      = each.value.url
  api_key  = each.value.key
}
engine "vllm" "named" {
  host   = host.h
  model  = model.m
  image  = "vllm/vllm-openai:v0.11.0"
  env    = { HF_TOKEN = "canary-token", OTHER = sensitive("${local.half}-more") }
  config = { api-key = "canary-config" }
  api_key = "canary-config"
}
engine "openai" "command" {
  host    = host.h
  image   = "registry.example.com/server:1.2"
  port    = 9000
  command = ["serve", "--api-key", "canary-word", "--token=canary-joined", "--key", var.key]
  api_key = "canary-word"
}
benchmark "b" {
  description = "with canary-token"
  matrix {
    engine = [engine.external.e["a"], engine.vllm.named, engine.openai.command]
    note   = ["of canary-config"]
  }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 16
  load {
    concurrency   = 4
    output_tokens = 16
    headers       = { X-Api-Key = "canary-header", X-Note = matrix.note }
  }
}
`

// TestSecretsNowhere: a secret is nowhere in what is shown or kept, whatever made it one.
func TestSecretsNowhere(t *testing.T) {
	src := &lang.Source{Dir: t.TempDir(), Files: map[string][]byte{"lab.hcl": []byte(secretsLab)}}
	c, problems := hcl.Load(src, lang.Vars{})
	var shown bytes.Buffer
	if err := problems.Write(&shown, 100, false); err != nil || c == nil {
		t.Fatal(err, shown.String())
	}
	p := plan.New(c, plan.Options{})
	for what, write := range map[string]func(*bytes.Buffer) error{
		"the problems":  func(b *bytes.Buffer) error { return problems.Write(b, 100, false) },
		"the plan":      func(b *bytes.Buffer) error { return p.Text(b, plan.ByHost, true) },
		"its JSON":      func(b *bytes.Buffer) error { return p.JSON(b) },
		"the kept text": func(b *bytes.Buffer) error { _, err := b.Write(problems.Text()["lab.hcl"]); return err },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(what, err)
		}
		if b.Len() == 0 || strings.Contains(b.String(), "canary") {
			t.Errorf("%s is empty, or shows a secret:\n%s", what, b.String())
		}
		if what == "its JSON" && !json.Valid(b.Bytes()) {
			t.Errorf("the plan is no JSON any more")
		}
	}
	if !strings.Contains(shown.String(), "Secret in clear") {
		t.Errorf("nobody is warned of secrets in clear:\n%s", shown.String())
	}
}
