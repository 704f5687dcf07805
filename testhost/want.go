package testhost

import (
	"errors"
	"strings"
	"testing"
)

// WantError checks an error's kind, where nil is any, and that its text helps.
func WantError(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Fatalf("error = %v, want %v", err, kind)
	}
	t.Log(err)
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error does not say %q: %v", text, err)
		}
	}
}

// Do runs a shell command on a host as root; it has to succeed.
func Do(t *testing.T, h *Host, command string) {
	t.Helper()
	if out, err := h.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
