//go:build !linux

package look

// direct is nothing where hosts are never measured.
const direct = 0
