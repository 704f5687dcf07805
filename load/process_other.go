//go:build !unix

package load

import "time"

// allowFiles does nothing where there is no such limit.
func allowFiles(int) error { return nil }

// fileLimit is not known here.
func fileLimit() uint64 { return 0 }

// processorTime is not known here, and so the client's share is reported as 0.
func processorTime() time.Duration { return 0 }
