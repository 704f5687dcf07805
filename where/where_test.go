package where

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	values := map[string]any{"engine": []string{"vllm.h200", "vllm"}, "concurrency": 16.0, "verdict": "valid", "model": "deepseek-ai/DeepSeek-R1", "path": `a[1]\b?`, "none": []string{}, "wait": Milliseconds(1500)}
	of := func(name string) (any, bool) { v, ok := values[name]; return v, ok }
	names := []string{"engine", "concurrency", "verdict", "host", "model", "path", "none", "wait"}
	for condition, want := range map[string]bool{
		`engine = vllm`: true,
		`engine = "vllm.h200" and concurrency<=16`: true,
		`engine != "v*"`: false,
		`engine < "w"`:   true,
		`concurrency = 4 or concurrency = 16 and verdict = void`:        false,
		`(concurrency = 4 OR concurrency == 16) and not verdict = void`: true,
		`concurrency > "many"`:       false,
		`concurrency > 16.5`:         false,
		`verdict >= "valid"`:         true,
		`host = "a"`:                 false, // it has none
		`host != "a"`:                true,
		`host < "a" or host > "a"`:   false,
		`model = "*"`:                true, // a slash is a character
		`model = "*DeepSeek*"`:       true,
		`model = "deep*seek*R1"`:     true,
		`model = "deep*R2"`:          false,
		`model = "deepseek-ai"`:      false,
		`path = "a[1]\b?"`:           true, // so are brackets, \ and ?
		`path = "a?1]\b?"`:           false,
		`path = "["`:                 false,
		`none < "a" or none = "*"`:   false,
		`none != "a"`:                true,
		"wait = 1500 and wait=1.5s":  true,
		"wait < 2s and wait > 900ms": true,
		"wait < 2":                   false,
		"wait < soon":                false,
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
		"":                             "a name is missing here",
		"colour = red":                 `there is no "colour" to compare. There are concurrency, engine.`,
		"concurrency":                  "a comparison is missing here",
		"concurrency = ":               "a value is missing here",
		"concurrency = 4 16":           `"16" is not expected here`,
		"(concurrency = 4":             "a closing parenthesis is missing",
		"concurrency = 4 and":          "a name is missing here",
		`engine = "vllm`:               "this text has no end",
		"concurency = 4":               `Did you mean "concurrency"?`,
		"concurrency = )":              "a value is missing here",
		strings.Repeat("(", 1<<20):     "too deep",
		"not":                          "a name is missing here",
		"concurrency => 4":             "a comparison is missing here",
		`concurrency = 4 or "x" = "y"`: "a name is missing here",
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

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"**", "x/y", true},
		{"a*b*c", "aXXbYYbc", true}, {"a*b*c", "aXXbYYbd", false}, {"ab*ba", "aba", false}, {"a*a", "a", false},
		{"vllm.*", "vllm.h200", true}, {"*é", "né", true}, {"[a]", "a", false}, {"?", "a", false},
	}
	for _, tt := range tests {
		if got := Match(tt.pattern, tt.text); got != tt.want {
			t.Errorf("Match(%q, %q) = %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
}

func TestRead(t *testing.T) {
	_, all, err := Read(`engine = vllm and not (concurrency < 4 or not host = "a b")`, []string{"engine", "concurrency", "host"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, fmt.Sprintf("%s %s %s %v %d", c.Name, c.Op, c.Value, c.Negated, c.At))
	}
	want := []string{"engine = vllm false 9", "concurrency < 4 true 37", "host = a b false 53"}
	if !slices.Equal(got, want) {
		t.Errorf("comparisons %q, want %q", got, want)
	}
}

// TestInstead: who writes a name that there is not is told of those that begin so, and not of hundreds.
func TestInstead(t *testing.T) {
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprint("name", i))
	}
	many = append(many, "ttft_p50", "ttft_p99", "tpot_p50")
	for wrong, want := range map[string]string{
		"ttft":    "There are ttft_p50, ttft_p99.",
		"ttft_50": `Did you mean "ttft_p50"?`,
		"p50":     "There are tpot_p50, ttft_p50.",
		"nme":     `Did you mean "name0"?`,
		"foo":     "The nearest of 63 are name0, name1, name2.",
	} {
		if got := Instead(wrong, many); got != want {
			t.Errorf("%s: %s", wrong, got)
		}
	}
}
