package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// keepFor is how long what no caller has asked for stays on a host: another
// version of hcl, the files of a data set, what engines were built, the logs of agents.
const keepFor = 30 * 24 * time.Hour

// unfinished is how long half of an upload may lie there. Nobody goes on with it.
const unfinished = 24 * time.Hour

// cache is the one directory that hcl writes to on a host.
type cache struct {
	root string // empty: there is none
	own  string // the agent's own directory in it
	log  *slog.Logger
}

// clear removes what has not been used for so long from the one directory that
// hcl writes to on a host: binaries that no other process runs, placed files, built
// engines, and the directories of agents that have ended. While agents of other labs
// are at work, on this machine or another with this home, all but their directories
// stays for a day at least: their jobs may be reading it.
func (c cache) clear(age time.Duration) error {
	if c.root == "" {
		return nil
	}
	var errs []error
	old := func(path string, st fs.FileInfo, age time.Duration) {
		if time.Since(st.ModTime()) >= age {
			c.log.Info("clearing", "path", path)
			errs = append(errs, os.RemoveAll(path))
		}
	}
	used := age
	c.each("agents", func(path string, st fs.FileInfo) {
		if path == c.own {
			return
		}
		lock := flock.New(filepath.Join(path, "lock"))
		defer lock.Close()
		if free, err := lock.TryLock(); err != nil || !free {
			used = max(used, unfinished)
			return
		}
		if log, err := os.Stat(filepath.Join(path, "agent.log")); err == nil {
			st = log
		}
		old(path, st, age)
	})
	busy := executables()
	c.each("bin", func(path string, st fs.FileInfo) {
		switch {
		case strings.HasPrefix(filepath.Base(path), "."): // on its way
			old(path, st, unfinished)
		case !busy[path]:
			old(path, st, used)
		}
	})
	for _, folder := range []string{"files", "builds"} {
		c.each(folder, func(path string, st fs.FileInfo) {
			least := used
			half := strings.HasSuffix(path, ".part") || strings.HasPrefix(filepath.Base(path), ".")
			if half && used == age {
				least = min(age, unfinished)
			}
			old(path, st, least)
		})
	}
	return errors.Join(errs...)
}

func (c cache) each(folder string, visit func(path string, st fs.FileInfo)) {
	entries, _ := os.ReadDir(filepath.Join(c.root, folder)) // it may not be there
	for _, e := range entries {
		if st, err := e.Info(); err == nil {
			visit(filepath.Join(c.root, folder, e.Name()), st)
		}
	}
}

// executables are the programs that other processes run, as far as they are ours to look at.
func executables() map[string]bool {
	running := map[string]bool{}
	for _, pid := range pids() {
		if path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && pid != os.Getpid() {
			running[path] = true
		}
	}
	return running
}

func (c cache) forget(http.ResponseWriter, *http.Request) error { return c.clear(0) }

// Clear removes all that hcl keeps on the host, but for what agents of other labs
// use at this moment.
func (a *Client) Clear(ctx context.Context) error {
	return a.call(ctx, "DELETE", "/v1/cache", nil, nil)
}

// Place brings a file or a folder of the caller to a host, where it is kept under
// its SHA-256 and so travels once, and returns where it lies there.
func Place(ctx context.Context, c *reach.Conn, local string) (remote string, err error) {
	files, sum, err := inventory(local)
	if err != nil {
		return "", err
	}
	remote = path.Join(c.Home(), root, "files", sum)
	out, err := c.Run(ctx, fmt.Sprintf("if test -e %[1]s; then touch %[1]s; echo there; fi", plain.Quote(remote)), nil)
	if err != nil || strings.TrimSpace(out) == "there" {
		return remote, err
	}
	// A folder is whole only under its final name. What an earlier call has left is not this one's.
	part := remote + "." + rand.Text() + ".part"
	defer func() {
		if err != nil && !provision.OutOfReach(err) {
			after, done := context.WithTimeout(context.WithoutCancel(ctx), answerWithin) // Ctrl-C ends ctx
			defer done()
			_, _ = c.Run(after, "rm -rf "+plain.Quote(part), nil) // or it is cleared after a day
		}
	}()
	for _, f := range files {
		to := path.Join(part, filepath.ToSlash(f))
		if _, err := c.Run(ctx, "mkdir -p -m 700 "+plain.Quote(path.Dir(to)), nil); err != nil {
			return "", err
		}
		if err := c.Upload(ctx, filepath.Join(local, f), to, 0o600); err != nil {
			return "", fmt.Errorf("bring %s to %s: %w", filepath.Join(local, f), c.Host(), err)
		}
	}
	_, err = c.Run(ctx, reach.Rename(part, remote), nil)
	return remote, err
}

// inventory lists the regular files of a folder, relative to it, or is the one
// file "." itself, with a sum over names and contents. Links are what they lead to, as
// for whoever reads the files here.
func inventory(local string) (files []string, sum string, err error) {
	h := sha256.New()
	root, err := filepath.EvalSymlinks(local)
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", local, err)
	}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		st, err := os.Stat(p)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 && st.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			return fmt.Errorf("%s is a link to a folder, which is not followed: name that folder itself", p)
		}
		if !st.Mode().IsRegular() {
			return nil
		}
		content, err := SHA(p)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %s\n", rel, content)
		files = append(files, rel)
		return nil
	})
	if err == nil && len(files) == 0 {
		err = errors.New("there is no file")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", local, err)
	}
	return files, hex.EncodeToString(h.Sum(nil)), nil
}
