//go:build unix

package load

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// spareFiles is what a process needs besides its connections.
const spareFiles = 64

// allowFiles makes sure that n connections can be open at once: it raises the
// limit on open files as far as it may.
func allowFiles(n int) error {
	need := uint64(n + spareFiles)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit on open files: %w", err)
	}
	if uint64(limit.Cur) >= need {
		return nil
	}
	for _, want := range []unix.Rlimit{{Cur: need, Max: max(need, uint64(limit.Max))}, {Cur: limit.Max, Max: limit.Max}} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil && uint64(want.Cur) >= need {
			return nil
		}
	}
	return fmt.Errorf("%d connections need %d open files, and the limit is %d: raise it with ulimit -n", n, need, limit.Max)
}

// processorTime is what this process has used so far, user and system.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
