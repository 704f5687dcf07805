package testhost

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// first is the script of a host's first process. It prepares the mounts, says
// so, and then waits for the end of its standard input, which is the end of the
// test process. When it ends, the kernel ends everything on the host.
//
//go:embed first.sh
var first string

type machine struct {
	dir    string
	name   string // unique on this machine; the control group of its containers
	ip     string // how the test reaches the host
	outer  string // how the host reaches the test
	shared bool   // no network of its own

	cmd *exec.Cmd // the first process
	end io.Closer // its standard input: closing it ends the host

	daemons []*daemon // all that were started
}

func startMachine(hostname, dir string, opt Options) (_ *machine, err error) {
	m := &machine{dir: dir, name: filepath.Base(dir), ip: "127.0.0.1", outer: "127.0.0.1", shared: !opt.Namespace}
	flags := uintptr(syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS)
	if opt.Namespace {
		flags |= syscall.CLONE_NEWNET
	}
	sudo := ""
	if opt.Sudo {
		sudo = "sudo"
	}
	var complaint bytes.Buffer
	m.cmd = exec.Command("/bin/sh", "-c", first, "first", dir, hostname, gpuVendors[opt.GPU], opt.Login, opt.Other, sudo)
	m.cmd.Env = []string{"PATH=" + systemPath}
	m.cmd.Stderr = &complaint
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Setsid: true}
	if m.end, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	said, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start first process in its namespaces: %w", err)
	}
	defer func() {
		if err != nil {
			m.kill()
		}
	}()
	// Written before anything else runs there, so that a sweep can always find it.
	if err := recordProcess(filepath.Join(dir, "first"), m.cmd.Process.Pid); err != nil {
		return nil, err
	}
	word := make([]byte, 16)
	if n, _ := said.Read(word); string(word[:n]) != "ready\n" {
		m.kill() // and its complaint is whole
		return nil, fmt.Errorf("prepare mounts: %s", strings.TrimSpace(complaint.String()))
	}
	if opt.Namespace {
		return m, m.connect()
	}
	return m, nil
}

// connect joins the host's network to the machine's by a pair of virtual Ethernet devices. The
// pair goes with the namespace; nothing has a name in /run/netns that could be left behind.
func (m *machine) connect() error {
	// Two test processes must not choose the same address: the choice holds a
	// lock, on the directory itself so that no file is left.
	lock, err := os.Open(base)
	if err != nil {
		return fmt.Errorf("open network lock: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("take network lock: %w", err)
	}
	taken, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	free := func() bool {
		return !slices.ContainsFunc(taken, func(a net.Addr) bool { return a.String() == m.outer+"/30" })
	}
	// 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544): 32768
	// blocks of four addresses.
	for try := range uint32(1000) {
		block := (hashOf(m.name) + try) % 32768 << 2
		address := func(n uint32) string {
			return net.IPv4(198, byte(18|block>>16), byte(block>>8), byte(block|n)).String()
		}
		if m.outer, m.ip = address(1), address(2); free() {
			break
		}
	}
	if !free() {
		return errors.New("choose an address in 198.18.0.0/15: all tried are taken")
	}
	dev := deviceOf(m.name)
	err = ip(exec.Command,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", dev, m.cmd.Process.Pid),
		fmt.Sprintf("addr add %s/30 dev %s", m.outer, dev), fmt.Sprintf("link set %s up", dev))
	if err != nil {
		return err
	}
	return ip(m.command, "link set lo up", "addr add "+m.ip+"/30 dev eth0", "link set eth0 up")
}

// ip has the program of this name carry commands out, on this machine or on a host.
func ip(on func(program string, args ...string) *exec.Cmd, commands ...string) error {
	cmd := on(tool("ip"), "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if err := run(cmd); err != nil {
		return fmt.Errorf("%q: %w", commands, err)
	}
	return nil
}

// deviceOf names the machine's end of a host's network; a device's name may have 15 characters.
func deviceOf(name string) string { return fmt.Sprintf("hclt%08x", hashOf(name)) }

func hashOf(name string) uint32 {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return hash.Sum32()
}

// removeDevice removes the machine's end of a host's network if it is there. The
// kernel does so by itself, a moment after the last process there has ended.
func removeDevice(name string) error {
	exists := func() bool { _, err := net.InterfaceByName(deviceOf(name)); return err == nil }
	if !exists() {
		return nil
	}
	if err := ip(exec.Command, "link delete "+deviceOf(name)); err != nil && exists() {
		return err
	}
	return nil
}

// command is a program to be run on the host.
func (m *machine) command(program string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(m.cmd.Process.Pid), "--mount", "--pid", "--uts"}
	if !m.shared {
		enter = append(enter, "--net")
	}
	cmd := exec.Command(tool("nsenter"), append(append(enter, "--", program), args...)...)
	cmd.Env = []string{"PATH=" + systemPath, "HOME=/root", "LANG=C.UTF-8"}
	cmd.Dir = "/"
	return cmd
}

// listen opens a listener in the host's network.
func (m *machine) listen(addr string) (net.Listener, error) {
	if m.shared {
		return net.Listen("tcp", addr)
	}
	type answer struct {
		l   net.Listener
		err error
	}
	done := make(chan answer)
	go func() {
		// Never unlocked: the thread has changed its network and must end with this goroutine.
		runtime.LockOSThread()
		l, err := func() (net.Listener, error) {
			ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.cmd.Process.Pid))
			if err != nil {
				return nil, fmt.Errorf("open network of host: %w", err)
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return nil, fmt.Errorf("enter network of host: %w", err)
			}
			return net.Listen("tcp", addr)
		}()
		done <- answer{l, err}
	}()
	a := <-done
	return a.l, a.err
}

// kill ends the host and waits until no process of it is left.
func (m *machine) kill() {
	// The kernel kills every process of a process namespace with its first, and
	// lets the first be reaped only when all the others are gone.
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.end.Close()
	for _, d := range m.daemons {
		<-d.exited
	}
}

// Link takes the host's network cable out, or puts it back in. Nothing is told to
// either end: packets are lost. The host needs a network of its own.
func (h *Host) Link(up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	return ip(exec.Command, "link set "+deviceOf(h.machine.name)+" "+state)
}

// Cable connects hosts that have networks of their own, each to each of the others by a cable
// that nobody else is on, and returns their addresses there, which each of them has once. The cable
// to the n-th of them is called fabricN. A host can be in one such network.
func Cable(hosts ...*Host) (at []string, err error) {
	for i, h := range hosts {
		at = append(at, fmt.Sprintf("192.0.2.%d", i+1))
		for j, other := range hosts[:i] {
			here, there := fmt.Sprintf("fabric%d", j+1), fmt.Sprintf("fabric%d", i+1)
			err = errors.Join(err,
				ip(exec.Command, fmt.Sprintf("link add name %s netns %d type veth peer name %s netns %d",
					here, h.machine.cmd.Process.Pid, there, other.machine.cmd.Process.Pid)),
				ip(h.machine.command, fmt.Sprintf("addr add %s peer %s dev %s", at[i], at[j], here), "link set "+here+" up"),
				ip(other.machine.command, fmt.Sprintf("addr add %s peer %s dev %s", at[j], at[i], there), "link set "+there+" up"))
		}
	}
	return at, err
}

// Listen opens a listener on the host, such as one that holds a port which an
// engine will want. addr is "IP:port" as in [net.Listen]; the test closes it.
func (h *Host) Listen(addr string) (net.Listener, error) { return h.machine.listen(addr) }

// Outside is the address of the machine that the test runs on, as the host sees it.
func (h *Host) Outside() string { return h.machine.outer }

// Command is a program to be run on the host without SSH, with root's clean environment.
func (h *Host) Command(program string, args ...string) *exec.Cmd {
	return h.machine.command(program, args...)
}

// Process is something that runs on a host.
type Process struct {
	PID     int    // as the test sees it, not as the host does
	Command string // its arguments, separated by spaces
}

// Processes lists what runs on the host and in its containers, but for the
// first process and what the host's own daemons consist of. Zombies do not count.
func (h *Host) Processes() ([]Process, error) {
	var found []Process
	for _, pid := range children(h.machine.cmd.Process.Pid) {
		command := strings.TrimSpace(strings.ReplaceAll(commandLine(pid), "\x00", " "))
		if command == "" {
			continue
		}
		if name, _, _ := strings.Cut(filepath.Base(strings.Fields(command)[0]), ":"); !furniture[name] {
			found = append(found, Process{PID: pid, Command: command})
		}
	}
	return found, nil
}

// furniture is what belongs to a host rather than to who uses it.
var furniture = map[string]bool{
	"cat": true, "sshd": true, "sshd-session": true, "dockerd": true, "containerd": true, "containerd-shim": true,
	"containerd-shim-runc-v2": true, "docker-proxy": true, "etcd": true, "kube": true, "pause": true,
}

// children lists the processes below a process, itself not among them.
func children(pid int) []int {
	parents := map[int][]int{}
	for _, child := range pids() {
		if parent, _, ok := processStat(child); ok {
			parents[parent] = append(parents[parent], child)
		}
	}
	var below []int
	for next := parents[pid]; len(next) > 0; next = next[1:] {
		below = append(below, next[0])
		next = append(next, parents[next[0]]...)
	}
	return below
}

func pids() []int {
	var all []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// commandLine are a process's arguments, each with a zero byte after it; empty when it has ended.
func commandLine(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(text)
}

// processStat returns a process's parent and the time it started, in clock
// ticks since boot; pid and start time together are never used twice.
func processStat(pid int) (parent int, started string, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", false
	}
	// The second field is the program's name in brackets, which may hold anything.
	_, rest, _ := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, "", false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[19], err == nil
}

func recordProcess(path string, pid int) error {
	_, started, _ := processStat(pid)
	return os.WriteFile(path, fmt.Appendf(nil, "%d %s\n", pid, started), 0o600)
}

// recordedProcess returns the process that was written down, when it is still that one and alive.
func recordedProcess(path string) (pid int, alive bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	var want string
	if _, err := fmt.Sscan(string(text), &pid, &want); err != nil {
		return 0, false
	}
	_, started, ok := processStat(pid)
	return pid, ok && started == want
}

// run runs a command and puts what it said into the error.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

const killWait = 20 * time.Second
