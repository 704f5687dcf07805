package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"hclbench/testhost"
)

// release is the carried part of a release whose binaries are these.
func release(t *testing.T, binaries map[string]string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{"README": {Data: []byte("text")}}
	for kind, content := range binaries {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		check(t, z.Close())
		sum := sha256.Sum256([]byte(content))
		files[kind+".gz"] = &fstest.MapFile{Data: packed.Bytes()}
		files[kind+".sha256"] = &fstest.MapFile{Data: []byte(hex.EncodeToString(sum[:]) + "\n")}
	}
	return files
}

func TestNeedsLoader(t *testing.T) {
	for path, want := range map[string]bool{"/bin/ls": true, testhost.HCL(t): false, "start.go": false} {
		if got := needsLoader(path); got != want {
			t.Errorf("needsLoader(%s) = %v", path, got)
		}
	}
}

func TestBinaries(t *testing.T) {
	own := map[string]string{"linux-amd64": "Linux x86_64", "linux-arm64": "Linux aarch64"}[runtime.GOOS+"-"+runtime.GOARCH]
	plain := Binaries{self: "/usr/bin/hcl", sha: "abc", carried: release(t, nil)}
	if b, err := plain.forPlatform(own); err != nil || b.path != "/usr/bin/hcl" || b.sha != "abc" {
		t.Errorf("a plain build for its own kind: %+v, %v", b, err)
	}
	for _, platform := range []string{"Darwin x86_64", "Linux riscv64"} {
		if _, err := plain.forPlatform(platform); err == nil || !strings.Contains(err.Error(), platform) || !strings.Contains(err.Error(), runtime.GOOS+"-"+runtime.GOARCH+" only") {
			t.Errorf("a plain build for %s: %v", platform, err)
		}
	}

	full := Binaries{self: "/usr/bin/hcl", sha: "abc", carried: release(t, map[string]string{"linux-amd64": "for amd64", "linux-arm64": "for arm64"})}
	for platform, want := range map[string]string{"Linux x86_64": "for amd64", "Linux aarch64": "for arm64"} {
		b, err := full.forPlatform(platform)
		check(t, err)
		var file string
		err = b.unpacked(func(path string) error {
			file = path
			got, err := os.ReadFile(path)
			if string(got) != want {
				t.Errorf("%s: %q, want %q", platform, got, want)
			}
			if sha, err := SHA(path); err != nil || sha != b.sha {
				t.Errorf("%s: SHA-256 %s, %v; want %s", platform, sha, err, b.sha)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left", file)
		}
	}

	broken := release(t, map[string]string{"linux-arm64": "for arm64"})
	broken["linux-arm64.sha256"].Data = []byte("0000")
	b, err := Binaries{carried: broken}.forPlatform("Linux aarch64")
	check(t, err)
	if err := b.unpacked(func(string) error { return nil }); err == nil || !strings.Contains(err.Error(), "its SHA-256 is") {
		t.Errorf("a damaged release: %v", err)
	}
}

// TestDamagedBinary: a binary that is damaged on its host is replaced, whatever tools there are,
// and is not what somebody who looks for any hcl runs.
func TestDamagedBinary(t *testing.T) {
	whole, err := os.ReadFile(testhost.HCL(t))
	check(t, err)
	binaries, err := ReadBinaries(testhost.HCL(t))
	check(t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	few := t.TempDir() // tools that cannot sum
	for _, tool := range []string{"sh", "uname", "mkdir", "touch", "cat", "mv", "rm", "wc", "chmod", "sync", "dirname"} {
		path, err := exec.LookPath(tool)
		check(t, err)
		check(t, os.Symlink(path, filepath.Join(few, tool)))
	}
	for what, tt := range map[string]struct {
		text []byte
		path string // of tools
	}{
		"not there": {nil, os.Getenv("PATH")}, "empty": {[]byte{}, os.Getenv("PATH")}, "cut": {whole[:len(whole)/2], os.Getenv("PATH")},
		"a byte": {flipped, os.Getenv("PATH")}, "empty, no sum": {[]byte{}, few}, "cut, no sum": {whole[:len(whole)/2], few},
	} {
		t.Run(what, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			c := local(t)
			t.Setenv("PATH", tt.path)
			file := filepath.Join(home, root, "bin", binaries.sha)
			if tt.text != nil {
				check(t, os.MkdirAll(filepath.Dir(file), 0o700))
				check(t, os.WriteFile(file, tt.text, 0o755))
				if out, err := c.Run(t.Context(), anyHCL(home)+" --version", nil); what != "a byte" && (err != nil || out != "no hcl there\n") {
					t.Errorf("any hcl: %q, %v", out, err)
				}
			}
			var log bytes.Buffer
			for range 2 {
				log.Reset()
				path, err := Install(t.Context(), c, binaries, slog.New(slog.NewTextHandler(&log, nil)))
				check(t, err)
				if got, err := SHA(path); err != nil || got != binaries.sha {
					t.Errorf("%s: SHA-256 %s, %v; want %s", path, got, err, binaries.sha)
				}
			}
			if log.Len() > 0 {
				t.Errorf("what is whole is copied again: %s", log.String())
			}
		})
	}
}
