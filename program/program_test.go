package program

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestGrace: a program that is cut off may come to its end where it has the time for that, and is killed where it has not.
func TestGrace(t *testing.T) {
	for what, of := range map[string]struct {
		trap  string
		grace time.Duration
		ended bool
	}{
		"ends":       {"trap ': > ended; exit' INT", time.Hour, true},
		"goes on":    {"trap '' INT", time.Millisecond, false},
		"has none":   {"trap ': > ended; exit' INT", 0, false},
		"dies of it": {"", time.Hour, false},
	} {
		dir := t.TempDir()
		c := Call{Words: []string{"sh", "-c", of.trap + "\necho too much\nwhile :; do sleep 1; done"}, Dir: dir, Within: time.Hour, Most: 1, Grace: of.grace}
		if _, err := c.Run(t.Context()); !errors.Is(err, ErrCutOff) || err.Error() != "it prints more than 1 byte" {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "ended")); (err == nil) != of.ended {
			t.Errorf("%s: %v", what, err)
		}
	}
}
