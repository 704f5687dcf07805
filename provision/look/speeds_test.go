package look

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"
	"testing/iotest"
)

// TestBrokenDisk: a disk that fails while it is read has no speed.
func TestBrokenDisk(t *testing.T) {
	in := io.MultiReader(bytes.NewReader(make([]byte, readBlock)), iotest.ErrReader(syscall.EIO))
	if speed, err := speedOf(t.Context(), in); !errors.Is(err, syscall.EIO) {
		t.Errorf("it was read at %v bytes a second, %v", speed, err)
	}
	if speed, err := speedOf(t.Context(), bytes.NewReader(make([]byte, readBlock+1))); err != nil || speed <= 0 {
		t.Errorf("a whole one was read at %v bytes a second, %v", speed, err)
	}
}
