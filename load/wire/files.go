package wire

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const spareFiles = 64 // what a process needs besides its connections

// ampleFiles is what a process may open before anybody wonders, where it is up to
// us: how many requests an open loop has in flight is not known beforehand.
const ampleFiles = 1 << 16

// AllowFiles makes sure that n connections can be open at once: it raises the
// limit on open files as far as it may.
func AllowFiles(n int) error {
	need := uint64(n + spareFiles)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit on open files: %w", err)
	}
	ample := max(need, ampleFiles)
	for _, want := range []unix.Rlimit{{Cur: ample, Max: max(ample, limit.Max)},
		{Cur: need, Max: max(need, limit.Max)}, {Cur: limit.Max, Max: limit.Max}} {
		if limit.Cur >= want.Cur || unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
			limit.Cur = max(limit.Cur, want.Cur)
			break
		}
	}
	if limit.Cur < need {
		return fmt.Errorf("%d connections need %d open files, and the limit is %d: raise it with ulimit -n", n, need,
			limit.Max)
	}
	return nil
}

func fileLimit() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
