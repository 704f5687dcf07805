package reach

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"hclbench/provision"
)

// TestLabKeyAtOnce: of several hosts that are rented at once each lets in the key that the lab has.
func TestLabKeyAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	lines := make([]string, 8)
	for i := range lines {
		wg.Go(func() {
			var err error
			if lines[i], err = LabKey(&provision.Host{Name: "h"}, dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(filepath.Join(dir, "id_ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	want := authorizedKey(signer.PublicKey())
	for _, line := range lines {
		if line != want {
			t.Errorf("%s is let in, and the key is %s", line, want)
		}
	}
}
