package reach

import (
	"bytes"
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
	"syscall"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// ListenersVerb is the verb of the hcl binary that prints the [provision.Listener]s of a port
// as JSON. It runs on a host, and in an engine's namespaces.
const ListenersVerb = "listeners"

// LookAtListeners finds who waits for connections to a port here, in the order of
// [provision.Listener.Rank].
func LookAtListeners(port int) ([]provision.Listener, error) {
	var all []provision.Listener
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
	slices.SortStableFunc(all, func(a, b provision.Listener) int { return cmp.Compare(a.Rank(), b.Rank()) })
	if len(all) > 0 {
		hold(all)
	}
	return all, nil
}

func parseListener(line string) (l provision.Listener, ok bool) {
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
func hold(all []provision.Listener) {
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

// holder describes the process of a directory below /proc; what cannot be read is left out.
func holder(dir string) (h provision.Holder) {
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
	if st, err := os.Stat(dir); err != nil || int(st.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		return h // what others write into theirs is no mark
	}
	for v := range strings.SplitSeq(read("environ"), "\x00") {
		if mark, ok := strings.CutPrefix(v, provision.ProcessMark+"="); ok {
			h.Mark = mark
		}
	}
	return h
}

func parents(pid int) (parent, group int, ok bool) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var state string
	// The name of the program, in parentheses, may hold anything.
	_, err := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent, &group)
	return parent, group, err == nil
}

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
	return plain.Cut(cmp.Or(command, name), commandLength)
}

const listenersWithin = 30 * time.Second

// Listeners finds who waits for connections to a port of the host, by hcl there, see [Conn.UseHCL].
func (c *Conn) Listeners(ctx context.Context, port int) ([]provision.Listener, error) {
	if c.host.Local() {
		return LookAtListeners(port)
	}
	const doing = "look for listeners"
	hcl := c.hcl.Load()
	if hcl == nil {
		return nil, provision.Wrap(c.host, doing, errors.New("no hcl is known there"))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listenersWithin, fmt.Errorf("nothing came within %s", listenersWithin))
	defer cancel()
	var all []provision.Listener
	out, err := c.Run(ctx, fmt.Sprintf("%s %s %d", *hcl, ListenersVerb, port), nil)
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	if err != nil {
		return nil, provision.Wrap(c.host, doing, err)
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

// Names tells what a container is called, by its id; "" where nobody knows.
type Names func(ctx context.Context, id string) string

// Loopback is where an engine is asked by its own host, unless its flags say otherwise.
var Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

const portFreeWithin = 5 * time.Second

const (
	takenByNobody = "port %d is in use: `sudo ss -ltnp 'sport = :%d'` on the host tells by whom; " +
		"stop that, or give the engine another port"
	takenBy    = "port %d is in use by %s: stop that (%s), or give the engine another port"
	takenFrom  = "port %d: %s, which this run has not started, listens there %s. Stop it (%s), or give the engine another port"
	inPlace    = "in place of the engine"
	besideOurs = "beside the engine, and gets a part of its requests"
)

// PortFree fails when somebody answers on a port that an engine is about to take: it
// would be taken for the engine. Port 0 is none.
func (c *Conn) PortFree(ctx context.Context, port int, names Names) error {
	if port == 0 {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, portFreeWithin)
	defer cancel()
	conn, err := c.Dial(soon, "tcp", netip.AddrPortFrom(Loopback, uint16(port)).String())
	if err == nil {
		conn.Close()
		return c.PortTaken(ctx, port, names)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if provision.OutOfReach(err) {
		return err
	}
	return nil // refused, as it should be; or sshd forwards no TCP, and nothing is known
}

// PortTaken is the error of a port that is taken. It names who holds it, as far as the
// login may see it.
func (c *Conn) PortTaken(ctx context.Context, port int, names Names) error {
	all, err := c.Listeners(ctx, port)
	if err != nil || len(all) == 0 {
		return provision.Fail(c.host, provision.ErrPortTaken, takenByNobody, port, port)
	}
	who, stop := holders(ctx, all, names)
	return provision.Fail(c.host, provision.ErrPortTaken, takenBy, port, who, stop)
}

// Foreign is the error that listeners of somebody else take connections to a port
// of an engine. beside says that the engine's own listen there as well.
func (c *Conn) Foreign(ctx context.Context, theirs []provision.Listener, beside bool, names Names) error {
	place := inPlace
	if beside {
		place = besideOurs
	}
	who, stop := holders(ctx, theirs, names)
	return provision.Fail(c.host, provision.ErrPortTaken, takenFrom, theirs[0].Address.Port(), who, place, stop)
}

func holders(ctx context.Context, all []provision.Listener, names Names) (who, stop string) {
	var called, commands []string
	for _, l := range all {
		if len(l.Holders) == 0 {
			called = append(called, "a process of user "+l.User)
			commands = append(commands, fmt.Sprintf("`sudo ss -ltnp 'sport = :%d'` there tells which",
				l.Address.Port()))
		}
		for _, h := range l.Holders {
			name, command := fmt.Sprintf("%s of user %s", h, l.User), fmt.Sprintf("`kill %d`", h.PID)
			if h.Container != "" {
				container := provision.ShortID(h.Container)
				if known := names(ctx, h.Container); known != "" {
					container = known
				}
				name, command = name+" in container "+container, "`docker stop "+container+"`"
			}
			called, commands = append(called, name), append(commands, command)
		}
	}
	return strings.Join(slices.Compact(called), " and "), strings.Join(slices.Compact(commands), ", ")
}
