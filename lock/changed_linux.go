package lock

import (
	"io/fs"
	"syscall"
	"time"
)

// changed is when a file was last written or replaced. Its status' time cannot be
// set by who writes it, as the other can.
func changed(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
