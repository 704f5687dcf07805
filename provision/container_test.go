package provision

import "testing"

// TestExit: how a process ended is told as Linux has it, whatever the caller's system.
func TestExit(t *testing.T) {
	for code, want := range map[int]string{
		0: "exited with code 0", 1: "exited with code 1", 135: "exited with code 135 (bus error)",
		137: "exited with code 137 (killed)", 139: "exited with code 139 (segmentation fault)", 158: "exited with code 158",
	} {
		if got := (State{ExitCode: code}).Exit(&Host{}); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
	pod := &Host{Cluster: &Cluster{}}
	for state, want := range map[State]string{
		{ExitCode: 137, OOMKilled: true}: "its node's kernel killed it: out of memory: see limits of the host's block",
		{ExitCode: 137}: "exited with code 137 (killed, the cluster does not say by whom: if nobody did, its node's kernel, " +
			"out of memory: see limits of the host's block)",
		{ExitCode: 139}: "exited with code 139 (segmentation fault)",
	} {
		if got := state.Exit(pod); got != want {
			t.Errorf("%+v: %q, want %q", state, got, want)
		}
	}
}
