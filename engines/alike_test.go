package engines

import (
	"maps"
	"testing"

	"hclbench/provision"
)

// TestOtherEngine: what looks alike and is not.
func TestOtherEngine(t *testing.T) {
	command := func(words ...string) func(*Engine) { return func(e *Engine) { e.Command = commandOf(words...) } }
	config := func(text string) func(*Engine) { return func(e *Engine) { e.Config = provision.Plain(text) } }
	for name, pair := range map[string][2]func(*Engine){
		"the model behind the port":      {command("llama-server", "--port", "1", "-m", "a"), command("llama-server", "--port", "1", "-m", "b")},
		"the model behind =":             {command("llama-server", "--port=1", "-m", "a"), command("llama-server", "--port=1", "-m", "b")},
		"an empty member":                {config(`{"a": 1}`), config(`{"a": 1, "cuda_graph_config": {}}`)},
		"a member with a dot":            {config(`{"a": {"b": 1}}`), config(`{"a.b": 1}`)},
		"a number and a text":            {config(`{"a": 1}`), config(`{"a": "1"}`)},
		"whose flag it is":               {command("wrap", "--x", "1", "--", "serve", "--y", "2"), command("wrap", "--y", "2", "--x", "1", "--", "serve")},
		"whose flag it is, without dash": {command("wrap", "--x=1", "serve", "--y", "2"), command("wrap", "--y", "2", "--x=1", "serve")},
	} {
		one, two := fingerprinted()[SGLang], fingerprinted()[SGLang]
		pair[0](one)
		pair[1](two)
		if a, b := Fingerprint(one), Fingerprint(two); maps.Equal(a, b) {
			t.Errorf("%s makes no other engine: %v", name, a)
		}
	}
	for name, pair := range map[string][2]func(*Engine){
		"where a configuration listens": {config(`{"a": 1}`), config(`{"a": 1, "port": 7, "host": "::", "served_model_name": "x"}`)},
		"the image that builds":         {func(e *Engine) { e.Build = &Build{Commands: []string{"x"}} }, func(e *Engine) { e.Build = &Build{Commands: []string{"x"}, Image: e.Image} }},
		"the port in a command":         {command("serve", "--port", "1", "-m", "a"), command("serve", "--port=2", "-m", "a")},
	} {
		one, two := fingerprinted()[SGLang], fingerprinted()[SGLang]
		pair[0](one)
		pair[1](two)
		if a, b := Fingerprint(one), Fingerprint(two); !maps.Equal(a, b) {
			t.Errorf("%s makes another engine: %v, %v", name, a, b)
		}
	}
}
