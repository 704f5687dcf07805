package plain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWrap: no line is longer than wanted but for a word that is, and no % begins one.
func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text, separator string
		width           int
		want            []string
	}{
		{"", " ", 10, nil},
		{"one two  three", " ", 0, []string{"one two three"}},
		{"one two three", " ", 7, []string{"one two", "three"}},
		{"one two three", ", ", 9, []string{"one, two,", "three"}},
		{"a longer-than-that b", " ", 6, []string{"a", "longer-than-that", "b"}},
		{"it is −0.4 %, at 8", " ", 11, []string{"it is", "−0.4 %, at", "8"}},
		{"% 日本語 日本", " ", 8, []string{"% 日本語", "日本"}},
	} {
		if diff := cmp.Diff(c.want, Wrap(Words(c.text), c.separator, c.width)); diff != "" {
			t.Errorf("%q in %d columns (-want +got):\n%s", c.text, c.width, diff)
		}
	}
}
