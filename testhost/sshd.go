package testhost

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// sshd is the host's SSH server: a listener of our own that hands each
// connection to a process of the real sshd. So the port comes from the kernel,
// and connections can be counted, cut and refused.
type sshd struct {
	m        *machine
	addr     string
	hostKeys []string
	log      *os.File

	mu       sync.Mutex
	listener net.Listener
	refuse   bool
	accepted int
	open     map[*sshConn]bool
	all      sync.WaitGroup
}

type sshConn struct {
	socket *os.File
	cmd    *exec.Cmd
}

func startSSHD(m *machine, lines []string) (*sshd, error) {
	s := &sshd{m: m, open: map[*sshConn]bool{}}
	if err := s.makeKeys(); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`# A host's own; what is not said here has sshd's defaults, MaxSessions among them.
HostKey %[1]s/ssh_host_ed25519_key
HostKey %[1]s/ssh_host_ecdsa_key
HostKey %[1]s/ssh_host_rsa_key
AuthorizedKeysFile %[1]s/id_ed25519.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
PidFile none
SetEnv PATH=%[1]s/bin:%[2]s TMPDIR=%[1]s/tmp
%[3]s
`, m.dir, systemPath, strings.Join(lines, "\n"))
	if err := os.WriteFile(filepath.Join(m.dir, "sshd_config"), []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write sshd's configuration: %w", err)
	}
	var err error
	if s.log, err = os.OpenFile(filepath.Join(m.dir, "sshd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("open sshd's log: %w", err)
	}
	if err := s.listen(net.JoinHostPort(m.ip, "0")); err != nil {
		s.log.Close()
		return nil, err
	}
	s.addr = s.listener.Addr().String()
	host, port, _ := net.SplitHostPort(s.addr)
	var known strings.Builder
	for _, key := range s.hostKeys {
		fmt.Fprintf(&known, "[%s]:%s %s\n", host, port, key)
	}
	return s, os.WriteFile(filepath.Join(m.dir, "known_hosts"), []byte(known.String()), 0o600)
}

func (s *sshd) makeKeys() error {
	if err := keygen("ed25519", filepath.Join(s.m.dir, "id_ed25519")); err != nil {
		return err
	}
	for _, kind := range keyKinds {
		file := filepath.Join(s.m.dir, "ssh_host_"+kind+"_key")
		if err := keygen(kind, file); err != nil {
			return err
		}
		line, err := publicKey(file + ".pub")
		if err != nil {
			return err
		}
		s.hostKeys = append(s.hostKeys, line)
	}
	return nil
}

var keyKinds = []string{"ed25519", "ecdsa", "rsa"}

func keygen(kind, file string) error {
	args := []string{"-q", "-t", kind, "-N", "", "-f", file}
	if kind == "rsa" { // a larger key would only make the tests wait
		args = append(args, "-b", "2048")
	}
	return run(exec.Command(tool("ssh-keygen"), args...))
}

// publicKey reads the type and the key of a .pub file, without the comment.
func publicKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(2, len(fields))], " "), err
}

func (s *sshd) listen(addr string) error {
	l, err := s.m.listen(addr)
	if err != nil {
		return fmt.Errorf("listen for SSH on %s: %w", addr, err)
	}
	s.mu.Lock()
	s.listener = l
	s.mu.Unlock()
	s.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.serve(conn)
		}
	})
	return nil
}

func (s *sshd) serve(conn net.Conn) {
	defer conn.Close() // the process has its own copy of the socket
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse {
		return
	}
	s.accepted++
	socket, err := conn.(*net.TCPConn).File()
	if err != nil {
		fmt.Fprintf(s.log, "testhost: copy socket: %v\n", err)
		return
	}
	// -i: serve the connection on standard input; -e: log to standard error.
	cmd := s.m.command(tool("sshd"), "-i", "-e", "-f", filepath.Join(s.m.dir, "sshd_config"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = socket, socket, s.log
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(s.log, "testhost: start sshd: %v\n", err)
		socket.Close()
		return
	}
	c := &sshConn{socket: socket, cmd: cmd}
	s.open[c] = true
	s.all.Go(func() {
		_ = cmd.Wait()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
		socket.Close()
	})
}

// cut ends every open connection as a lost peer would: the socket is gone, the
// commands that ran over it are not told.
func (s *sshd) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = syscall.Shutdown(int(c.socket.Fd()), syscall.SHUT_RDWR)
	}
}

// signal sends a signal to the sshds that serve connections, not to the commands they run.
func (s *sshd) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		for _, pid := range children(c.cmd.Process.Pid) {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
			if strings.HasPrefix(string(name), "sshd") {
				_ = syscall.Kill(pid, sig)
			}
		}
		// nsenter, which is only the door, stops with what it lets in; on its own
		// it would neither go on nor see the end.
		if sig != syscall.SIGSTOP {
			_ = c.cmd.Process.Signal(syscall.SIGCONT)
		}
	}
}

func (s *sshd) close() {
	s.mu.Lock()
	s.refuse = true
	l := s.listener
	s.mu.Unlock()
	l.Close()
	s.signal(syscall.SIGKILL)
	s.cut()
	s.all.Wait()
	s.log.Close()
}

// Cut ends all open SSH connections at once, as a lost network does. New ones are served.
func (h *Host) Cut() { h.sshd.cut() }

// Refuse makes the host close every new SSH connection before a word is said,
// or serve them again. Open ones are not touched.
func (h *Host) Refuse(on bool) {
	h.sshd.mu.Lock()
	defer h.sshd.mu.Unlock()
	h.sshd.refuse = on
}

// Stall makes all open SSH connections fall silent without ending, as a host
// does that hangs or whose packets are lost, or lets them speak again. It does
// not touch the commands that run over them, nor new connections.
func (h *Host) Stall(on bool) {
	if on {
		h.sshd.signal(syscall.SIGSTOP)
	} else {
		h.sshd.signal(syscall.SIGCONT)
	}
}

// Restart does what a restart of sshd and its listener does: for a moment the
// port is closed, then it is open again, the same one. Open connections are cut.
func (h *Host) Restart() error {
	h.sshd.mu.Lock()
	l := h.sshd.listener
	h.sshd.mu.Unlock()
	l.Close()
	h.sshd.cut()
	return h.sshd.listen(h.Addr)
}

// ChangeHostKeys gives the host other keys, as a machine has that was set up anew or
// is another one, or its own ones back. Open connections are not touched.
func (h *Host) ChangeHostKeys(on bool) error {
	for _, kind := range keyKinds {
		key := filepath.Join(h.Dir, "ssh_host_"+kind+"_key")
		if !on {
			if err := os.Rename(key+".own", key); err != nil {
				return fmt.Errorf("bring a host key back: %w", err)
			}
			continue
		}
		if err := keygen(kind, key+".other"); err != nil {
			return err
		}
		if err := errors.Join(os.Rename(key, key+".own"), os.Rename(key+".other", key)); err != nil {
			return fmt.Errorf("change a host key: %w", err)
		}
	}
	return nil
}

// Connections returns how many SSH connections are open and how many there were
// in all, the refused ones not counted.
func (h *Host) Connections() (open, accepted int) {
	h.sshd.mu.Lock()
	defer h.sshd.mu.Unlock()
	return len(h.sshd.open), h.sshd.accepted
}
