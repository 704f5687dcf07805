//go:build !unix

package measure

import "time"

// processorTime is not known here, and so the client's share is reported as 0.
func processorTime() time.Duration { return 0 }
