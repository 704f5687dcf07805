//go:build !unix

package wire

// AllowFiles does nothing where there is no such limit.
func AllowFiles(int) error { return nil }

// fileLimit is not known here.
func fileLimit() uint64 { return 0 }
