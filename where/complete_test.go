package where

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestComplete(t *testing.T) {
	names := []string{"engine", "concurrency", "p99_ttft_ms"}
	values := map[string][]string{
		"engine": {"vllm.a", `vllm.b["x y"]`, "it's", `'"`}, "concurrency": {"4", "64"},
	}
	for text, want := range map[string][]string{
		"":                               {"concurrency", "engine", "p99_ttft_ms", "not", "("},
		"conc":                           {"concurrency"},
		"not ":                           {"not concurrency", "not engine", "not p99_ttft_ms", "not not", "not ("},
		"concurrency ":                   {"concurrency =", "concurrency !=", "concurrency <", "concurrency <=", "concurrency >", "concurrency >="},
		"concurrency >":                  {"concurrency >", "concurrency >="},
		"p99_ttft_ms >= ":                nil,
		"concurrency >= ":                {"concurrency >= 4", "concurrency >= 64"},
		"engine = ":                      {"engine = vllm.a", "engine = 'vllm.b[\"x y\"]'", `engine = "it's"`},
		"engine!=v":                      {"engine!=vllm.a"},
		`engine = 'vl`:                   {"engine = 'vllm.a'", "engine = 'vllm.b[\"x y\"]'"},
		`engine = "`:                     {`engine = "vllm.a"`, `engine = "it's"`},
		"engine = it and conc":           {"engine = it and concurrency"},
		"concurrency >= 64 ":             {"concurrency >= 64 and", "concurrency >= 64 or"},
		"concurrency>=64 a":              {"concurrency>=64 and"},
		`engine = "vllm" and p`:          {`engine = "vllm" and p99_ttft_ms`},
		`(engine = "vllm" `:              {`(engine = "vllm" and`, `(engine = "vllm" or`, `(engine = "vllm" )`},
		`(engine = vllm or engine = x) `: {`(engine = vllm or engine = x) and`, `(engine = vllm or engine = x) or`},
		`engine = engine `:               {`engine = engine and`, `engine = engine or`},
		`p99_ttft_ms = "vl`:              nil,
		`engine "vl`:                     nil,
		"nothing":                        nil,
	} {
		if diff := cmp.Diff(want, Complete(text, names, func(name string) []string { return values[name] })); diff != "" {
			t.Errorf("Complete(%q) (-want +got):\n%s", text, diff)
		}
	}
}
