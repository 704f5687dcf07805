//go:build !unix

package load

import "time"

// allowFiles does nothing where there is no such limit.
func allowFiles(int) error { return nil }

// processorTime is not known here, and so the client's share is reported as 0.
func processorTime() time.Duration { return 0 }
