package agent

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
)

// TestClear: what is old and unused goes, what is used or young stays.
func TestClear(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		age   time.Duration
		other bool // another lab's agent is at work
		want  []string
	}{
		"at the start of an agent": {keepFor, false, []string{"agents/b/agent.log", "agents/b/lock", "agents/mine", "bin/new", "builds/half.part/x", "builds/new/x", "files/half.part", "files/new"}},
		"by destroy --cache":       {0, false, []string{"agents/mine"}},
		"while another works":      {0, true, []string{"agents/b/agent.log", "agents/b/lock", "agents/mine", "bin/new", "builds/half.part/x", "builds/new/x", "files/half.part", "files/new"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, age := range map[string]time.Duration{
				"bin/new": time.Hour, "bin/old": 40 * day, "bin/.old.hcl-X": 2 * day,
				"files/new": time.Hour, "files/old": 40 * day, "files/half.part": time.Hour, "files/dead.part": 2 * day,
				"builds/new/x": time.Hour, "builds/old/x": 40 * day, "builds/half.part/x": time.Hour,
				"agents/a/agent.log": 40 * day, "agents/a/lock": 40 * day,
				"agents/b/agent.log": time.Hour, "agents/b/lock": 40 * day,
				"agents/mine/": time.Hour,
			} {
				file := filepath.Join(root, path)
				check(t, os.MkdirAll(filepath.Dir(file), 0o700))
				if path[len(path)-1] == '/' {
					check(t, os.MkdirAll(file, 0o700))
				} else if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				when := time.Now().Add(-age)
				if strings.HasPrefix(path, "builds/") {
					file = filepath.Dir(file)
				}
				check(t, os.Chtimes(file, when, when))
			}
			if c.other {
				lock := flock.New(filepath.Join(root, "agents/b/lock"))
				if ok, err := lock.TryLock(); !ok {
					t.Fatal(err)
				}
				defer lock.Close()
			}
			s := cache{own: filepath.Join(root, "agents/mine"), root: root, log: slog.New(slog.DiscardHandler)}
			check(t, s.clear(c.age))
			var left []string
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if rel, _ := filepath.Rel(root, path); !d.IsDir() || rel == "agents/mine" {
					left = append(left, rel)
				}
				return err
			})
			check(t, err)
			slices.Sort(left)
			if diff := cmp.Diff(c.want, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}
