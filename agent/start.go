package agent

import (
	"cmp"
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
	"time"

	"hclbench/plain"
	"hclbench/provision/reach"
)

// root is the only directory that hcl writes to on a host, below its user's home.
const root = ".cache/hcl"

// dir is where the agent of a lab works for one of its hosts. Two host blocks may
// be the same machine, as in every rehearsal, and two machines may have one home. The
// name is short because a unix socket's path may have no more than 107 bytes.
func dir(c *reach.Conn, lab string) string {
	sum := sha256.Sum256([]byte(lab + "\x00" + c.Host().Name + "\x00" + c.Machine()))
	return path.Join(c.Home(), root, "agents", hex.EncodeToString(sum[:4]))
}

// noteOf is a file with what hcl has to remember of this machine, and of no other that
// has the same home.
func noteOf(c *reach.Conn, name string) string {
	return path.Join(c.Home(), root, name+"-"+c.Machine()+".json")
}

// anyHCL is the command that runs any hcl binary which is there; where an agent is,
// one is. Machines of other kinds may have put theirs into the same home.
func anyHCL(home string) string {
	return "sh -c " + plain.Quote(fmt.Sprintf(`for b in %s/*; do if [ -x "$b" ] && "$b" --version </dev/null >/dev/null 2>&1; then exec "$b" "$@"; fi; done; echo no hcl there`,
		plain.Quote(path.Join(home, root, "bin")))) + " sh"
}

// Mark is how the [provision.ProcessMark] of every process begins that an agent of
// the lab starts on this host.
func Mark(c *reach.Conn, lab string) string {
	return dir(c, lab) + "/"
}

// answerWithin bounds how long an agent takes to say that it is there.
const answerWithin = 20 * time.Second

// Attach returns the lab's agent on a host if one is at work there; nil if none.
func Attach(ctx context.Context, c *reach.Conn, lab string) (*Client, error) {
	a := newClient(c, path.Join(dir(c, lab), "sock"))
	a.lab = lab
	there, err := binaryThere(ctx, a, c)
	if !there {
		a.Close()
		return nil, err
	}
	return a, nil
}

// there reports whether the agent answers.
func binaryThere(ctx context.Context, a *Client, c *reach.Conn) (bool, error) {
	soon, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("the agent does not answer within %s", answerWithin))
	defer cancel()
	_, err := a.Info(soon)
	if err == nil {
		return true, nil
	}
	if soon.Err() != nil {
		return false, errors.Join(context.Cause(soon), err)
	}
	// Nobody listens: no socket, or one that a killed agent has left. Telling these from a lost
	// connection is the connection's business: ask it for something simple.
	_, err = c.Run(ctx, "true", nil)
	return false, err
}

// Start brings the lab's agent up on a host for a caller that will claim it, of which it reads
// the lab, the store and the TTL: the binary is copied there when it is not yet, and an agent that
// is at work already is used. One of another version of hcl is ended first; when another store's
// caller holds its lease, that is a [*HeldError]. Should the agent die later, the client brings
// up another.
func Start(ctx context.Context, c *reach.Conn, all Binaries, claim Lease, log *slog.Logger) (*Client, error) {
	b, err := all.pick(ctx, c)
	if err != nil {
		return nil, err
	}
	if old, err := Attach(ctx, c, claim.Lab); err != nil {
		return nil, err
	} else if old != nil {
		err := old.giveWay(ctx, b.sha, claim.Store)
		old.Close()
		if err != nil {
			return nil, err
		}
	}
	a := newClient(c, path.Join(dir(c, claim.Lab), "sock"))
	a.lab, a.store = claim.Lab, claim.Store
	a.binary = path.Join(c.Home(), root, "bin", b.sha)
	a.up = func(ctx context.Context) error { return up(ctx, c, a, b, claim, log) }
	if err := a.up(ctx); err != nil {
		a.Close()
		return nil, err
	}
	c.UseHCL(plain.Quote(a.binary))
	return a, nil
}

// giveWay ends an agent of another version of hcl, unless another store's caller is at work.
func (a *Client) giveWay(ctx context.Context, sha, store string) error {
	info, err := a.Info(ctx)
	if err != nil || info.Binary == sha {
		return err
	}
	if info.Lease != nil && info.Lease.Store != store {
		return &HeldError{Host: a.host, Lab: a.lab, Lease: *info.Lease}
	}
	a.store = store
	return a.Release(ctx) // what it runs is found by label later
}

// End ends the lab's agent on a host, whoever has its lease, and with it that run: its caller
// is told of by, for people, as soon as it comes again. What the agent runs itself is stopped.
func End(ctx context.Context, c *reach.Conn, lab, by string) error {
	a, err := Attach(ctx, c, lab)
	if err != nil || a == nil {
		return err
	}
	defer a.Close()
	return a.release(ctx, by)
}

// up starts an agent unless one answers.
func up(ctx context.Context, c *reach.Conn, a *Client, b binary, claim Lease, log *slog.Logger) error {
	if there, err := binaryThere(ctx, a, c); there || err != nil {
		return err
	}
	remote, err := install(ctx, c, b, log)
	if err != nil {
		return err
	}
	stays := min(Unclaimed, cmp.Or(time.Duration(claim.TTL), Unclaimed))
	command := fmt.Sprintf("%s agent --detach --unclaimed %s --dir %s --cache %s",
		plain.Quote(remote), stays, plain.Quote(dir(c, claim.Lab)), plain.Quote(path.Join(c.Home(), root)))
	_, err = c.Run(ctx, command, nil)
	if err == nil {
		_, err = a.Info(ctx)
	}
	if err != nil {
		return fmt.Errorf("start the agent on %s: %w", c.Host(), err)
	}
	return nil
}

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

func (b Binaries) of(platform string) (binary, error) {
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
	found, err := b.of(strings.TrimSpace(platform))
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
	out, err := c.Run(ctx, fmt.Sprintf("mkdir -p -m 700 %s; if test -x %[2]s; then touch %[2]s; echo there; fi", plain.Quote(path.Dir(remote)), plain.Quote(remote)), nil)
	if err != nil || strings.TrimSpace(out) == "there" {
		return remote, err
	}
	log.Info("copying hcl to the host", "host", c.Host().Name)
	// Executable for all: it is mounted in containers, which have users of their own.
	return remote, b.unpacked(func(local string) error { return c.Upload(ctx, local, remote, 0o755) })
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
