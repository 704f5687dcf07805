package provision

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Met is what hosts of one engine have found out of each other.
type Met struct {
	Apart  []Apart
	Narrow []Narrow
	Clocks []Clock // of each host
}

// Apart is a host that does not reach another one of the same engine.
type Apart struct {
	From  string `json:"from"`
	To    string `json:"to"` // From itself: it cannot listen on the ports
	At    string `json:"at,omitempty"`
	Ports []int  `json:"ports"`
	Own   bool   `json:"own,omitempty"`  // the port is none of a member's, but one of the kernel's choice
	Long  bool   `json:"long,omitempty"` // short messages arrive there
	Why   string `json:"why"`
}

// String says it for people.
func (a Apart) String() string {
	var ports []string
	for _, p := range a.Ports {
		ports = append(ports, strconv.Itoa(p))
	}
	on := "port " + strings.Join(ports, ", ")
	if len(ports) > 1 {
		on = "ports " + strings.Join(ports, ", ")
	}
	switch {
	case a.From == a.To:
		return fmt.Sprintf("%s cannot listen on %s: %s", a.From, on, a.Why)
	case a.Long:
		return fmt.Sprintf("%s reaches %s at %s, but %s", a.From, a.To, a.At, a.Why)
	case a.Own:
		on += ", which its kernel chose, as it does for engines"
	}
	return fmt.Sprintf("%s does not reach %s at %s on %s: %s", a.From, a.To, a.At, on, a.Why)
}

// Narrow is a way from one host to another on which packets have to be shorter than its
// interface would send them.
type Narrow struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Interface string `json:"interface"`
	MTU       int    `json:"mtu"` // of the interface, bytes
	Path      int    `json:"path_mtu"`
}

// String says it for people.
func (n Narrow) String() string {
	return fmt.Sprintf("packets from %s to %s may have %d bytes, where its %s has %d",
		n.From, n.To, n.Path, n.Interface, n.MTU)
}

// Clock is how far a host's clock is ahead of the caller's: something between the two.
type Clock struct {
	Host        string
	Least, Most time.Duration
}

// clocksApart is how much the clocks of hosts may differ: their telemetry has a sample a second.
const clocksApart = 500 * time.Millisecond

// CompareClocks says how far the clocks of hosts are apart, and whether that is too far.
func CompareClocks(clocks []Clock) (have string, good bool) {
	var within, worst time.Duration
	for _, a := range clocks {
		for _, b := range clocks {
			if a.Host == b.Host {
				continue
			}
			within = max(within, a.Most-b.Least)
			if ahead := a.Least - b.Most; ahead > max(worst, clocksApart) {
				worst = ahead
				have = fmt.Sprintf("that of %s is at least %.1f s ahead of that of %s", a.Host, ahead.Seconds(), b.Host)
			}
		}
	}
	if have == "" {
		return fmt.Sprintf("they differ by less than %.2f s", within.Seconds()), true
	}
	return have, false
}
