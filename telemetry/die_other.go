//go:build !linux

package telemetry

import "syscall"

// dieWithUs does nothing: only Linux can.
func dieWithUs(*syscall.SysProcAttr) {}
