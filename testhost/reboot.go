package testhost

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Reboot does to a host with a network of its own what a reset does: all that runs on it ends at once and says
// nothing, /run is empty, GPUs are set as they are by default, and the kernel calls it another boot. When it
// returns, sshd and Docker are up again, with the images and containers that there were.
func (h *Host) Reboot() error {
	if err := h.Link(false); err != nil {
		return err
	}
	h.Refuse(true)
	// What entered from outside has its parent there, what is in a container is in a space of its own.
	first := h.machine.cmd.Process.Pid
	space := func(pid int) string {
		name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		return name
	}
	ended := eventually(killWait, func() bool {
		here := children(first)
		for _, pid := range pids() {
			if space(pid) == space(first) {
				here = append(here, pid)
			}
		}
		left := 0
		for _, pid := range here {
			parent, _, ok := processStat(pid)
			if !ok || pid == first || parent == first && commandLine(pid) == "cat\x00" { // which the first waits for
				continue
			}
			left++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return left == 0
	})
	if !ended {
		return fmt.Errorf("reboot %s: something of it is still there %v after it was killed", h.Name, killWait)
	}
	h.Cut() // and what would still come of them goes nowhere
	if h.Docker != nil {
		<-h.Docker.daemon.exited
	}
	boot := filepath.Join(h.Dir, "boot_id")
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	// What is open stays the old one's: the file is replaced.
	if err := os.WriteFile(boot+".new", id, 0o444); err != nil {
		return err
	}
	if err := os.Rename(boot+".new", boot); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(h.Dir, gpus, "set"))
	const boots = `cut -d" " -f2 /proc/self/mounts | grep "^$1/exec/" | xargs -r umount -l
rm -rf "$1/exec" /run/*
mkdir -p /run/sshd && mkdir -m 1777 /run/lock
umount /proc/sys/kernel/random/boot_id 2>/dev/null || : # of an earlier time, whose file is no more
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id`
	if err := run(h.Command("sh", "-ec", boots, "sh", h.Dir)); err != nil {
		return fmt.Errorf("reboot %s: %w", h.Name, err)
	}
	h.Refuse(false)
	if err := h.Link(true); err != nil || h.Docker == nil {
		return err
	}
	return h.Docker.Start()
}
