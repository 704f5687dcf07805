package apply

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"hclbench/plain"
)

// TestPassOn: a log that is shown has no secret and nothing for the terminal in it, and
// where it breaks off that is said.
func TestPassOn(t *testing.T) {
	var said strings.Builder
	write := func(b []byte) error { said.Write(b); return nil }
	secrets := plain.NewSecrets("hush-hush")
	err := passOn(strings.NewReader("one\x1b]0;title\x07 hush-hush\nlast"), write, secrets)
	if want := "one (sensitive)\nlast"; err != nil || said.String() != want {
		t.Errorf("passOn = %v, wrote %q, want %q", err, said.String(), want)
	}
	for _, before := range []int{0, 1, 5, 10} { // wherever a line that is too long is taken apart
		said.Reset()
		long := strings.Repeat("x", longestLine-before) + "hush-hush" + strings.Repeat("y", longestLine)
		if err := passOn(strings.NewReader(long), write, secrets); err != nil || strings.Contains(said.String(), "hush") || said.Len() != len(long)+2 {
			t.Errorf("%d bytes before the end of a piece: %v, %d bytes, want %d", before, err, said.Len(), len(long)+2)
		}
	}
	lost := io.MultiReader(strings.NewReader("one\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := passOn(lost, write, secrets); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "breaks off") {
		t.Errorf("of a connection that is lost: %v", err)
	}
}

func TestCommand(t *testing.T) {
	if got, want := command([]string{"/home/a b/hcl", "calibrate", "--streams", "$(id)"}), `'/home/a b/hcl' calibrate --streams '$(id)'`; got != want {
		t.Errorf("command = %s, want %s", got, want)
	}
}
