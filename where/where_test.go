package where

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	values := map[string]any{"engine": []string{"vllm.h200", "vllm"}, "concurrency": 16.0, "verdict": "valid"}
	of := func(name string) (any, bool) { v, ok := values[name]; return v, ok }
	names := []string{"engine", "concurrency", "verdict", "host"}
	for condition, want := range map[string]bool{
		`engine = vllm`: true,
		`engine = "vllm.h200" and concurrency<=16`: true,
		`engine != "v*"`: false,
		`engine < "w"`:   true,
		`concurrency = 4 or concurrency = 16 and verdict = void`:        false,
		`(concurrency = 4 OR concurrency == 16) and not verdict = void`: true,
		`concurrency > "many"`:     false,
		`concurrency > 16.5`:       false,
		`verdict >= "valid"`:       true,
		`host = "a"`:               false, // it has none
		`host != "a"`:              true,
		`host < "a" or host > "a"`: false,
	} {
		holds, err := Parse(condition, names)
		if err != nil {
			t.Errorf("%s: %v", condition, err)
		} else if got := holds(of); got != want {
			t.Errorf("%s: %v", condition, got)
		}
	}
}

func TestParseMistakes(t *testing.T) {
	names := []string{"concurrency", "engine"}
	for condition, want := range map[string]string{
		"":                             "the name of a column is missing",
		"colour = red":                 `no result has a column "colour". There are concurrency, engine.`,
		"concurrency":                  "a comparison is missing here",
		"concurrency = ":               "a value is missing here",
		"concurrency = 4 16":           `"16" is not expected here`,
		"(concurrency = 4":             "a closing parenthesis is missing",
		"concurrency = 4 and":          "the name of a column is missing",
		`engine = "vllm`:               "this text has no end",
		`engine = "["`:                 "is not a pattern",
		"concurrency = )":              "a value is missing here",
		"not":                          "the name of a column is missing",
		"concurrency => 4":             "a comparison is missing here",
		`concurrency = 4 or "x" = "y"`: "the name of a column is missing",
	} {
		_, err := Parse(condition, names)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", condition, err, want)
		}
	}
	if _, err := Parse("concurrency = 4 and clour = 1", names); err == nil || !strings.Contains(err.Error(), "\n    concurrency = 4 and clour = 1\n                        ^\n") {
		t.Errorf("the mark is wrong: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`engine = "vllm" and concurrency >= 64`)
	f.Add(`not (a < 'b' or c != 1)`)
	f.Fuzz(func(t *testing.T, condition string) {
		holds, err := Parse(condition, []string{"engine", "concurrency", "a", "c"})
		if err == nil {
			holds(func(string) (any, bool) { return "b", true }) // must not panic
		}
	})
}
