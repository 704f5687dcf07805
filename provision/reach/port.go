package reach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"hclbench/provision"
)

// Names tells what a container is called, by its id; "" where nobody knows.
type Names func(ctx context.Context, id string) string

// Loopback is where an engine is asked by its own host, unless its flags say otherwise.
var Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// portFreeWithin bounds how long a port is waited for that neither answers nor refuses.
const portFreeWithin = 5 * time.Second

// What is said of a port that is taken.
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
	if errors.Is(err, provision.ErrUnreachable) {
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
