package telemetry

import "syscall"

// dieWithUs has the kernel end a process when the thread ends that has started it, as it
// does when this process is killed.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
