package provision

import (
	"fmt"
	"net/netip"
)

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
	Mark      string `json:"mark,omitempty"`      // value of [ProcessMark], of the user who looks
	Lineage   []int  `json:"lineage,omitempty"`   // its process group, then the processes that it descends from
}

// String names the process for people: "process 4711 (vllm serve m)".
func (h Holder) String() string { return fmt.Sprintf("process %d (%s)", h.PID, h.Command) }

// Rank is in which order the kernel asks the sockets that wait on one port: those of one address
// before those of all, and of these the ones of IPv4 first.
func (l Listener) Rank() int {
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
		if len(taking) > 0 && taking[0].Rank() < l.Rank() {
			break
		}
		taking = append(taking, l)
	}
	return taking
}
