package testhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// base is where test hosts have their directories. It is fixed, so that a sweep finds those
	// of every process, and short: a socket's path may have 108 characters.
	base = "/tmp"
	// prefix is how the directories' names begin.
	prefix = "hclt-"
)

func newDir() (string, error) {
	dir, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	return dir, recordProcess(filepath.Join(dir, "owner"), os.Getpid())
}

// removeDir removes a host's directory, network and the control groups of its
// containers. The host's processes must be gone, and with them its mounts.
func removeDir(dir string) error {
	name := filepath.Base(dir)
	return errors.Join(removeDevice(name), removeGroups(name), os.RemoveAll(dir))
}

// removeGroups removes the control groups that dockerd made for its containers:
// with version 1 one tree per controller, with version 2 one in all.
func removeGroups(name string) error {
	old, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	var errs []error
	for _, top := range append(old, "/sys/fs/cgroup/"+name) {
		// The kernel may need a moment to see that a group is empty.
		var err error
		if !eventually(5*time.Second, func() bool { err = removeGroup(top); return err == nil }) {
			errs = append(errs, fmt.Errorf("remove control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// removeGroup removes a control group and those below it. Their files cannot be
// removed and need not be.
func removeGroup(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && e.IsDir():
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		if e := os.Remove(dir); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Sweep removes what test processes left that were interrupted: hosts whose
// owner is dead, with every process on them, their networks, control groups
// and directories. Hosts of living processes are not touched.
func Sweep() error {
	dirs, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return fmt.Errorf("find test hosts: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		owner := filepath.Join(dir, "owner")
		if _, alive := recordedProcess(owner); alive {
			continue
		}
		if _, err := os.Stat(owner); err != nil && time.Since(info.ModTime()) < time.Minute {
			continue // just being made
		}
		if err := sweepDir(dir); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// Traces finds what there is of the host with that directory outside of its own namespaces:
// files, control groups, mounts and processes.
func Traces(dir string) ([]string, error) {
	var found []string
	name := filepath.Base(dir)
	for _, pattern := range []string{dir, "/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		paths, _ := filepath.Glob(pattern) // the patterns are good
		found = append(found, paths...)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			found = append(found, "mount "+line)
		}
	}
	for _, pid := range pids() {
		if text := commandLine(pid); strings.Contains(text, dir) {
			found = append(found, fmt.Sprintf("process %d %q", pid, text))
		}
	}
	return found, err
}

func sweepDir(dir string) error {
	// What entered the host from outside waits outside, and must not keep the
	// dead from being reaped. All of it names the directory.
	for _, pid := range pids() {
		if pid != os.Getpid() && strings.Contains(commandLine(pid), dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	record := filepath.Join(dir, "first")
	if pid, alive := recordedProcess(record); alive {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill first process: %w", err)
		}
		gone := eventually(killWait, func() bool { _, alive := recordedProcess(record); return !alive })
		if !gone {
			return fmt.Errorf("first process %d is still there %v after it was killed", pid, killWait)
		}
	}
	return removeDir(dir)
}

// Main is for TestMain: it sweeps what interrupted runs left, runs the tests,
// removes what this process built and stops the database that its tests shared,
// and returns the exit code.
//
//	func TestMain(m *testing.M) { os.Exit(testhost.Main(m)) }
func Main(m *testing.M) int {
	sweepOnce()
	// What nohup, or a shell's &, has this process ignore, its children would ignore too. They do not
	// inherit what it catches.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	code := m.Run()
	if err := errors.Join(stopShared(), removeBuilt()); err != nil {
		fmt.Fprintln(os.Stderr, "testhost:", err)
		code = max(code, 1)
	}
	return code
}
