package agent

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"hclbench/plain"
	"hclbench/provision/reach"
)

// carried is what a release carries for its hosts; a plain build carries nothing.
//
//go:embed carried
var carried embed.FS

// Binaries are the hcl binaries that there are for hosts: those that this program
// carries, and this program itself for hosts of its own kind.
type Binaries struct {
	self    string // path
	sha     string // of self
	carried fs.FS  // KIND.gz and KIND.sha256, where KIND is "linux-arm64"
}

// ReadBinaries finds what the program at path, which is this one, has for hosts.
func ReadBinaries(path string) (Binaries, error) {
	sha, err := SHA(path)
	if err != nil {
		return Binaries{}, fmt.Errorf("read the hcl binary: %w", err)
	}
	inside, err := fs.Sub(carried, "carried")
	return Binaries{self: path, sha: sha, carried: inside}, err
}

// SHA is the SHA-256 of the file at path, in hex: a binary's name on the hosts.
func SHA(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

type binary struct {
	sha  string
	path string // of the file; "": it has to be unpacked
	kind string
	from fs.FS
}

// kinds are the platforms of Go by what "uname -sm" prints there.
var kinds = map[string]string{
	"Linux x86_64": "linux-amd64", "Linux aarch64": "linux-arm64", "Linux arm64": "linux-arm64",
	"Darwin x86_64": "darwin-amd64", "Darwin arm64": "darwin-arm64",
}

func (b Binaries) forPlatform(platform string) (binary, error) {
	kind := kinds[platform]
	own := runtime.GOOS + "-" + runtime.GOARCH
	if sum, err := fs.ReadFile(b.carried, kind+".sha256"); kind != "" && err == nil {
		return binary{sha: strings.TrimSpace(string(sum)), kind: kind, from: b.carried}, nil
	}
	if kind == own {
		return binary{sha: b.sha, path: b.self}, nil
	}
	there := []string{own}
	packed, _ := fs.Glob(b.carried, "*.gz") // a pattern that is right
	for _, p := range packed {
		there = append(there, strings.TrimSuffix(p, ".gz"))
	}
	slices.Sort(there)
	hint := "a release carries those for linux-amd64 and linux-arm64; `make dist` builds it"
	if kind == "" || len(packed) > 1 {
		hint = "hosts need Linux on amd64 or arm64"
	}
	return binary{}, fmt.Errorf("it is %q, and this hcl has binaries for %s only: %s", platform, strings.Join(slices.Compact(there), ", "), hint)
}

// unpacked passes the path of the binary's file to use.
func (b binary) unpacked(use func(path string) error) error {
	if b.path != "" {
		return use(b.path)
	}
	f, err := os.CreateTemp("", "hcl-"+b.kind+"-")
	if err == nil {
		defer os.Remove(f.Name())
		err = errors.Join(b.unpack(f), f.Close())
	}
	if err != nil {
		return fmt.Errorf("unpack the hcl binary for %s: %w", b.kind, err)
	}
	return use(f.Name())
}

func (b binary) unpack(to io.Writer) error {
	packed, err := b.from.Open(b.kind + ".gz")
	if err != nil {
		return err
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err = io.Copy(io.MultiWriter(to, h), z); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != b.sha {
		return fmt.Errorf("its SHA-256 is %s, not %s", got, b.sha)
	}
	return nil
}

// pick returns the binary for a host.
func (b Binaries) pick(ctx context.Context, c *reach.Conn) (binary, error) {
	platform, err := c.Run(ctx, "uname -sm", nil)
	if err != nil {
		return binary{}, err
	}
	found, err := b.forPlatform(strings.TrimSpace(platform))
	if err != nil {
		return binary{}, fmt.Errorf("%s: %w", c.Host(), err)
	}
	return found, nil
}

// Install copies the binary for a host there, if it is not there yet, and returns its path there.
func Install(ctx context.Context, c *reach.Conn, b Binaries, log *slog.Logger) (remote string, err error) {
	found, err := b.pick(ctx, c)
	if err != nil {
		return "", err
	}
	return install(ctx, c, found, log)
}

func install(ctx context.Context, c *reach.Conn, b binary, log *slog.Logger) (remote string, err error) {
	if b.path != "" && !c.Host().Local() && needsLoader(b.path) {
		log.Warn("this hcl is linked with the C library of the machine that built it, and may not run on another or in containers: CGO_ENABLED=0 builds one that needs none, as make does", "host", c.Host().Name)
	}
	remote = path.Join(c.Home(), root, "bin", b.sha)
	file := plain.Quote(remote)
	// A damaged file would be there for good. Where nothing sums, it has to run at least.
	out, err := c.Run(ctx, fmt.Sprintf("mkdir -p -m 700 %s; if test -x %[2]s; then touch %[2]s; sha256sum <%[2]s 2>/dev/null || shasum -a 256 <%[2]s 2>/dev/null || %[3]s; fi",
		plain.Quote(path.Dir(remote)), file, runs(file)), nil)
	if err != nil {
		return remote, err
	}
	switch said := strings.TrimSpace(out); {
	case strings.HasPrefix(said, b.sha), said == itRuns:
		return remote, nil
	case said != "":
		log.Warn("hcl is damaged on the host, and is copied there again", "host", c.Host().Name, "path", remote)
	default:
		log.Info("copying hcl to the host", "host", c.Host().Name)
	}
	// Executable for all: it is mounted in containers, which have users of their own.
	return remote, b.unpacked(func(local string) error { return c.Upload(ctx, local, remote, 0o755) })
}

// itRuns is what [runs] says of an hcl that does.
const itRuns = "runs"

// runs is a command that says whether a file, as a shell names it, is an hcl that runs here: it says
// which it is. An empty file runs as well.
func runs(file string) string {
	return fmt.Sprintf(`case $(%s --version </dev/null 2>/dev/null) in (hcl*) echo %s ;; (*) echo damaged ;; esac`, file, itRuns)
}

// needsLoader reports whether a program is linked with shared libraries, as Go does
// where it finds a C compiler.
func needsLoader(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
