package agent

import (
	"os"
	"testing"
)

// TestSegments: shared memory that a process of ours has used goes when nobody uses it any more, and is forgotten then; what
// others have had before stays.
func TestSegments(t *testing.T) {
	made := func() *os.File {
		t.Helper()
		f, err := os.CreateTemp(shared, "hcl-test-")
		check(t, err)
		t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
		return f
	}
	theirs := made()
	s := newSegments(nil, nil)
	ours := made()
	s.look(func() []entry { return []entry{{identity: identity{PID: os.Getpid()}}} }, true)
	if noted := s.noted(); len(noted) != 1 || noted[ours.Name()] == (segment{}) {
		t.Fatalf("noted %v, want %s alone", noted, ours.Name())
	}
	there := func(f *os.File) bool { _, err := os.Stat(f.Name()); return err == nil }
	if s.remove(); !there(ours) || len(s.ours) != 1 {
		t.Error("what is in use is removed")
	}
	ours.Close()
	if s.remove(); there(ours) || !there(theirs) || len(s.ours) != 0 {
		t.Errorf("ours is there: %v, theirs: %v; noted %v", there(ours), there(theirs), s.noted())
	}
}
