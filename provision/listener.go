package provision

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plain"
)

// ListenersVerb is the verb of the hcl binary that prints the [Listener]s of a port
// as JSON. It runs on a host, and in an engine's namespaces.
const ListenersVerb = "listeners"

// Listener is a socket that waits for connections. Several may do so on one port:
// on different addresses, or on the same with SO_REUSEPORT, which vLLM asks for (every
// server since vllm-project/vllm#13113, with several API servers alone since #47529).
type Listener struct {
	Address netip.AddrPort `json:"address"` // unspecified: every address of the host
	User    string         `json:"user"`    // whose it is: a name, or a number without one
	Mine    bool           `json:"mine"`    // it is of the user who looks
	Inode   uint64         `json:"inode"`   // the socket's number on its host
	// Holders are the processes that have it open, as far as whoever looks may see
	// them: root sees all, a user their own.
	Holders []Holder `json:"holders,omitempty"`
}

// Holder is a process that has a socket open.
type Holder struct {
	PID       int    `json:"pid"`
	Command   string `json:"command"`             // its words before the first flag: what follows may be secret
	Container string `json:"container,omitempty"` // id of the container that it runs in
	Mark      string `json:"mark,omitempty"`      // value of [ProcessMark]
	Lineage   []int  `json:"lineage,omitempty"`   // its process group, then the processes that it descends from
}

// String names the process for people: "process 4711 (vllm serve m)".
func (h Holder) String() string { return fmt.Sprintf("process %d (%s)", h.PID, h.Command) }

// LookAtListeners finds who waits for connections to a port here, in the order of
// [Listener.rank].
func LookAtListeners(port int) ([]Listener, error) {
	var all []Listener
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + table) // of the network in which this very thread would listen
		if errors.Is(err, fs.ErrNotExist) && table == "tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("look for listeners: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if l, ok := parseListener(line); ok && int(l.Address.Port()) == port {
				all = append(all, l)
			}
		}
	}
	for i, l := range all {
		all[i].Mine = l.User == strconv.Itoa(os.Getuid())
		if u, err := user.LookupId(l.User); err == nil {
			all[i].User = u.Username
		}
	}
	slices.SortStableFunc(all, func(a, b Listener) int { return cmp.Compare(a.rank(), b.rank()) })
	if len(all) > 0 {
		hold(all)
	}
	return all, nil
}

// parseListener reads a line of /proc/net/tcp or tcp6, of a socket in state LISTEN.
func parseListener(line string) (l Listener, ok bool) {
	const local, state, uid, inode, listen = 1, 3, 7, 9, "0A"
	fields := strings.Fields(line)
	if len(fields) <= inode || fields[state] != listen {
		return l, false
	}
	ip, port, _ := strings.Cut(fields[local], ":")
	raw, err := hex.DecodeString(ip)
	if err != nil || len(raw)%4 != 0 {
		return l, false
	}
	for at := 0; at < len(raw); at += 4 { // words of the machine's own order
		binary.NativeEndian.PutUint32(raw[at:], binary.BigEndian.Uint32(raw[at:]))
	}
	addr, sized := netip.AddrFromSlice(raw)
	n, errPort := strconv.ParseUint(port, 16, 16)
	l.Inode, err = strconv.ParseUint(fields[inode], 10, 64)
	l.Address, l.User = netip.AddrPortFrom(addr, uint16(n)), fields[uid]
	return l, sized && err == nil && errPort == nil
}

// containerID is the last such id in a control group: the others are of those that
// contain the container.
var containerID = regexp.MustCompile(`.*\b([0-9a-f]{64})\b`)

// hold finds the processes that have the sockets open.
func hold(all []Listener) {
	sockets := map[string]int{}
	for i, l := range all {
		sockets[fmt.Sprintf("socket:[%d]", l.Inode)] = i
	}
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, dir := range processes {
		open, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue // it has ended, or is not ours to look at
		}
		var holds []int
		for _, fd := range open {
			target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if i, ok := sockets[target]; ok && err == nil && !slices.Contains(holds, i) {
				holds = append(holds, i)
			}
		}
		if len(holds) == 0 {
			continue
		}
		h := holder(dir)
		for _, i := range holds {
			all[i].Holders = append(all[i].Holders, h)
		}
	}
}

// holder describes the process of a directory below /proc; what cannot be read is
// left out.
func holder(dir string) (h Holder) {
	h.PID, _ = strconv.Atoi(filepath.Base(dir))
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	h.Command = commandOf(read("cmdline"), strings.TrimSpace(read("comm")))
	for line := range strings.Lines(read("cgroup")) {
		if found := containerID.FindStringSubmatch(line); found != nil {
			h.Container = found[1]
		}
	}
	for v := range strings.SplitSeq(read("environ"), "\x00") {
		if mark, ok := strings.CutPrefix(v, ProcessMark+"="); ok {
			h.Mark = mark
		}
	}
	for pid := h.PID; pid > 0; {
		parent, group, ok := parents(pid)
		if !ok {
			break
		}
		if pid == h.PID {
			h.Lineage = append(h.Lineage, group)
		}
		h.Lineage = append(h.Lineage, parent)
		pid = parent
	}
	return h
}

// parents are a process's parent and process group.
func parents(pid int) (parent, group int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// The name of the program, in parentheses, may hold anything.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 3 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	group, errGroup := strconv.Atoi(fields[2])
	return parent, group, err == nil && errGroup == nil
}

// commandLength is how much of a command names a process.
const commandLength = 80

// commandOf is what of a command line names the process and is no secret.
func commandOf(cmdline, name string) string {
	var words []string
	for w := range strings.SplitSeq(strings.TrimRight(cmdline, "\x00"), "\x00") {
		if strings.HasPrefix(w, "-") && w != "-m" { // Python's, whose module tells more than "python3"
			break
		}
		words = append(words, w)
	}
	command := strings.TrimSpace(strings.Join(words, " "))
	if command == "" {
		return name
	}
	if len(command) > commandLength {
		command = strings.ToValidUTF8(command[:commandLength], "") + "…"
	}
	return command
}

// rank is in which order the kernel asks the sockets that wait on one port whether a
// connection is theirs: those of one address before those of all, and of these the
// ones of IPv4 first.
func (l Listener) rank() int {
	switch addr := l.Address.Addr(); {
	case !addr.IsUnspecified():
		return 0
	case addr.Is4():
		return 1
	}
	return 2
}

// Taking returns those of a port's listeners that a connection to the address goes
// to: of several, any.
func Taking(all []Listener, to netip.Addr) (taking []Listener) {
	for _, l := range all {
		addr := l.Address.Addr().Unmap()
		if addr != to.Unmap() && !(addr.IsUnspecified() && (to.Unmap().Is4() || addr.Is6())) {
			continue
		}
		if len(taking) > 0 && taking[0].rank() < l.rank() {
			break
		}
		taking = append(taking, l)
	}
	return taking
}

// loopback is where an engine is asked by its own host, unless its flags say otherwise.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// listenersWithin bounds the look: it reads what the kernel has at hand.
const listenersWithin = 30 * time.Second

// errNoHCL says that a connection does not know of an hcl on its host.
var errNoHCL = errors.New("no hcl is known there")

// Listeners finds who waits for connections to a port of the host, by hcl there, see
// [Conn.UseHCL].
func (c *Conn) Listeners(ctx context.Context, port int) ([]Listener, error) {
	if c.host.Local() {
		return LookAtListeners(port)
	}
	const doing = "look for listeners"
	hcl := c.hcl.Load()
	if hcl == nil {
		return nil, wrap(c.host, doing, errNoHCL)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listenersWithin, fmt.Errorf("nothing came within %s", listenersWithin))
	defer cancel()
	out, err := c.Run(ctx, fmt.Sprintf("%s %s %d", *hcl, ListenersVerb, port), nil)
	if err != nil {
		return nil, wrap(c.host, doing, err)
	}
	var all []Listener
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, wrap(c.host, doing, err)
	}
	for i := range all {
		all[i].User = plain.Line(all[i].User)
		for j := range all[i].Holders {
			h := &all[i].Holders[j]
			h.Command, h.Container, h.Mark = plain.Line(h.Command), plain.Line(h.Container), plain.Line(h.Mark)
		}
	}
	return all, nil
}

// portFreeWithin bounds how long a port is waited for that neither answers nor refuses.
const portFreeWithin = 5 * time.Second

// PortFree fails when somebody answers on a port that an engine is about to take: it
// would be taken for the engine. Port 0 is none.
func (c *Conn) PortFree(ctx context.Context, port int) error {
	if port == 0 {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, portFreeWithin)
	defer cancel()
	conn, err := c.Dial(soon, "tcp", netip.AddrPortFrom(loopback, uint16(port)).String())
	if err == nil {
		conn.Close()
		return c.portTaken(ctx, port)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, ErrUnreachable) {
		return err
	}
	return nil // refused, as it should be; or sshd forwards no TCP, and nothing is known
}

// portTaken names who holds a port, as far as the login may see it.
func (c *Conn) portTaken(ctx context.Context, port int) error {
	all, err := c.Listeners(ctx, port)
	if err != nil || len(all) == 0 {
		return fail(c.host, ErrPortTaken, "port %d is in use: `sudo ss -ltnp 'sport = :%d'` on the host tells by whom; stop that, or give the engine another port", port, port)
	}
	who, stop := c.held(ctx, all)
	return fail(c.host, ErrPortTaken, "port %d is in use by %s: stop that (%s), or give the engine another port", port, who, stop)
}

// Foreign is the error that listeners of somebody else take connections to a port
// of an engine. beside says that the engine's own listen there as well.
func (c *Conn) Foreign(ctx context.Context, theirs []Listener, beside bool) error {
	place := "in place of the engine"
	if beside {
		place = "beside the engine, and gets a part of its requests"
	}
	who, stop := c.held(ctx, theirs)
	return fail(c.host, ErrPortTaken, "port %d: %s, which this run has not started, listens there %s. Stop it (%s), or give the engine another port",
		theirs[0].Address.Port(), who, place, stop)
}

// held says who holds sockets, and how to stop them.
func (c *Conn) held(ctx context.Context, all []Listener) (who, stop string) {
	var names, commands []string
	for _, l := range all {
		if len(l.Holders) == 0 {
			names = append(names, "a process of user "+l.User)
			commands = append(commands, fmt.Sprintf("`sudo ss -ltnp 'sport = :%d'` there tells which", l.Address.Port()))
		}
		for _, h := range l.Holders {
			name, command := fmt.Sprintf("%s of user %s", h, l.User), fmt.Sprintf("`kill %d`", h.PID)
			if h.Container != "" {
				called := shortID(h.Container)
				if found, err := c.inspect(ctx, h.Container); err == nil {
					called = strings.TrimPrefix(found.Name, "/")
				}
				name, command = name+" in container "+called, "`docker stop "+called+"`"
			}
			names, commands = append(names, name), append(commands, command)
		}
	}
	return strings.Join(slices.Compact(names), " and "), strings.Join(slices.Compact(commands), ", ")
}
