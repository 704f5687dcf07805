package main

import (
	"slices"
	"testing"
	"time"
)

// TestDoubleDash: flags may have one dash, and values stay as they are.
func TestDoubleDash(t *testing.T) {
	root := rootOf(&console{})
	for _, tt := range []struct{ args, want []string }{
		{[]string{"apply", "-auto-approve", "lab"}, []string{"apply", "--auto-approve", "lab"}},
		{[]string{"plan", "-var", "-json", "-json"}, []string{"plan", "--var", "-json", "--json"}},
		{[]string{"plan", "--var", "-json"}, []string{"plan", "--var", "-json"}},
		{[]string{"plan", "-var=x=1", "-json"}, []string{"plan", "--var=x=1", "--json"}},
		{[]string{"plan", "-v", "--", "-json"}, []string{"plan", "-v", "--", "-json"}},
	} {
		if got := doubleDash(root, tt.args); !slices.Equal(got, tt.want) {
			t.Errorf("%q becomes %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "0d": 0, "-5m": -5 * time.Minute,
		"d": -1, "1d2d": -1, "x": -1, "": 0, "999999999999d": -1,
	} {
		var s span
		err := s.Set(text)
		if want == -1 && err == nil || want != -1 && (err != nil || time.Duration(s) != want) {
			t.Errorf("%q: %v, %v, want %v", text, time.Duration(s), err, want)
		}
	}
}
