package agent

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// shared is where POSIX shared memory and semaphores are files. What is killed leaves them there, and they
// take the machine's memory.
const shared = "/dev/shm"

const (
	segmentPoll  = 200 * time.Millisecond // how often it is looked whether anything has come there
	segmentLooks = 3                      // for its user: looking at all that a process maps costs it time
)

// segment is a file of shared memory, whatever it is called.
type segment struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
}

// segments are those that processes have made and used: they are theirs to remove.
type segments struct {
	before map[segment]bool   // what was there already is somebody else's; and what was told of, see foreign
	looks  map[segment]int    // at those of which no user was found
	ours   map[segment]string // paths
	looked time.Time
	shared bool // a container has seen them
}

// newSegments knows those already that were noted: what was there before anything of ours, nil for what is there now, and
// what is ours, by path.
func newSegments(before []segment, ours map[string]segment) *segments {
	s := &segments{before: map[segment]bool{}, looks: map[segment]int{}, ours: map[segment]string{}}
	if before == nil {
		own, others := allSegments()
		before = slices.AppendSeq(slices.Collect(maps.Keys(own)), maps.Keys(others))
	}
	for _, of := range before {
		s.before[of] = true
	}
	for path, of := range ours {
		s.ours[of] = path
		delete(s.before, of)
	}
	return s
}

// allSegments are those whose users this user may see, which is root for all, and those of others, with their paths.
func allSegments() (own, others map[segment]string) {
	own, others = map[segment]string{}, map[segment]string{}
	entries, _ := os.ReadDir(shared) // there on Linux
	for _, e := range entries {
		var st unix.Stat_t
		path := filepath.Join(shared, e.Name())
		if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if of := (segment{uint64(st.Dev), st.Ino}); os.Getuid() == 0 || os.Getuid() == int(st.Uid) {
			own[of] = path
		} else {
			others[of] = path
		}
	}
	return own, others
}

// foreign are the paths of what other users have there since before, where a container has seen it: it may be the
// container's, which this user cannot see. Each is told of once.
func (s *segments) foreign() (paths []string) {
	if !s.shared {
		return nil
	}
	_, others := allSegments()
	for of, path := range others {
		if !s.before[of] {
			s.before[of] = true
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// look notes which of the segments that have come are used by processes; with all, also those of which no user
// was found so far.
func (s *segments) look(users func() []entry, all bool) {
	var dir unix.Stat_t
	was := s.looked
	s.looked = time.Now()
	if unix.Stat(shared, &dir) == nil && !all && time.Unix(dir.Mtim.Unix()).Add(segmentLooks*segmentPoll).Before(was) {
		return // nothing has come
	}
	found, _ := allSegments()
	for of := range found {
		if s.before[of] || s.ours[of] != "" || s.looks[of] >= segmentLooks && !all {
			delete(found, of)
		}
	}
	if len(found) == 0 {
		return
	}
	used := map[segment]bool{}
	for _, e := range users() {
		usedBy(e.PID, used)
	}
	for of, path := range found {
		if used[of] {
			s.ours[of] = path
		} else {
			s.looks[of]++
		}
	}
}

// noted are ours, by path.
func (s *segments) noted() map[string]segment {
	all := map[string]segment{}
	for of, path := range s.ours {
		all[path] = of
	}
	return all
}

// remove removes what was noted, and nobody uses any more. What is gone is ours no more.
func (s *segments) remove() {
	defer func() {
		there, _ := allSegments()
		maps.DeleteFunc(s.ours, func(of segment, path string) bool { return there[of] != path })
	}()
	var left []segment
	there, _ := allSegments()
	for of, path := range there {
		if s.ours[of] == path {
			left = append(left, of)
		}
	}
	if len(left) == 0 {
		return
	}
	used := map[segment]bool{}
	for _, pid := range pids() {
		usedBy(pid, used)
	}
	for _, of := range left {
		if !used[of] {
			os.Remove(s.ours[of]) // what does not go, somebody else has removed
		}
	}
}

// watchMemory looks, until ctx ends, what the claim's members have in this machine's shared memory.
func (c *claim) watchMemory(ctx context.Context) {
	tick := time.NewTicker(segmentPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.lookAtMemory(ctx, false)
		case <-ctx.Done():
			return
		}
	}
}

// lookAtMemory is [segments.look] for those members that see this machine's shared memory.
func (c *claim) lookAtMemory(ctx context.Context, all bool) {
	c.mu.Lock()
	members := slices.DeleteFunc(slices.Clone(c.note.Members), func(m member) bool { return !m.sharesMemory() || m.ID == "" })
	c.mu.Unlock()
	if len(members) == 0 {
		return
	}
	c.memory.Lock()
	defer c.memory.Unlock()
	known := len(c.memory.ours)
	c.memory.look(func() (users []entry) {
		table := processTable()
		for _, m := range members {
			if pr := c.processes.get(m.Name); pr != nil {
				users = append(users, c.processes.tree(pr)...)
			} else if first, err := c.firstProcess(ctx, m); err == nil && first > 0 {
				users = append(users, below(table, first)...)
			}
		}
		return users
	}, all)
	if len(c.memory.ours) > known {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.note.Memory = c.memory.noted()
		c.keep()
	}
}

// foreignMemory is [segments.foreign] once no container that sees this machine's shared memory is up.
func (c *claim) foreignMemory() []string {
	c.memory.Lock()
	defer c.memory.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.note.Members, func(m member) bool { return m.SharesMemory }) {
		return nil
	}
	return c.memory.foreign()
}

// usedBy notes the segments that a process has mapped or open, as far as it is ours to look at.
func usedBy(pid int, used map[segment]bool) {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(maps)) { // 7f12a000-7f12b000 rw-s 00000000 00:1a 42 /dev/shm/psm_1
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[5], shared+"/") {
			continue
		}
		var major, minor uint32
		var of segment
		if _, err := fmt.Sscanf(fields[3]+" "+fields[4], "%x:%x %d", &major, &minor, &of.Inode); err == nil {
			of.Dev = unix.Mkdev(major, minor)
			used[of] = true
		}
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		var st unix.Stat_t
		if file, err := os.Readlink(link); err == nil && strings.HasPrefix(file, shared+"/") && unix.Stat(link, &st) == nil {
			used[segment{uint64(st.Dev), st.Ino}] = true
		}
	}
}
