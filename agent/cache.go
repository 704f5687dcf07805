package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
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
			if strings.HasSuffix(path, ".part") && used == age {
				old(path, st, min(age, unfinished))
			} else {
				old(path, st, used)
			}
		})
	}
	return errors.Join(errs...)
}

// each visits what lies in a folder of the cache.
func (c cache) each(folder string, visit func(path string, st fs.FileInfo)) {
	entries, _ := os.ReadDir(filepath.Join(c.root, folder)) // it may not be there
	for _, e := range entries {
		if st, err := e.Info(); err == nil {
			visit(filepath.Join(c.root, folder, e.Name()), st)
		}
	}
}

// executables are the programs that other processes run, as far as they are ours
// to look at.
func executables() map[string]bool {
	running := map[string]bool{}
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil && filepath.Base(filepath.Dir(link)) != strconv.Itoa(os.Getpid()) {
			running[path] = true
		}
	}
	return running
}

func (c cache) forget(w http.ResponseWriter, r *http.Request) {
	ack(w, c.clear(0))
}

// Clear removes all that hcl keeps on the host, but for what agents of other labs
// use at this moment.
func (a *Client) Clear(ctx context.Context) error {
	return a.call(ctx, "DELETE", "/v1/cache", nil, nil)
}
