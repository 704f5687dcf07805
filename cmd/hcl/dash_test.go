package main

import (
	"slices"
	"testing"
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
