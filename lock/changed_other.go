//go:build !linux

package lock

import (
	"io/fs"
	"time"
)

// changed is when a file was last written.
func changed(info fs.FileInfo) time.Time { return info.ModTime() }
