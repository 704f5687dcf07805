package docker

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// accessScript tells where a Docker daemon may listen, as NAME=VALUE. Its arguments
// are addresses; none means the usual ones.
//
//go:embed access.sh
var accessScript string

type access struct {
	address string // as docker -H has it: "unix:///var/run/docker.sock", "tcp://127.0.0.1:2375"
	tool    bool   // by `docker system dial-stdio` there, and not straight to the socket
	sudo    bool   // and that as root
}

// socket is the path of the daemon's socket; "" where it has none.
func (a access) socket() string {
	if path, ok := strings.CutPrefix(a.address, "unix://"); ok {
		return path
	}
	return ""
}

// command is what speaks to the daemon on its standard input and output.
func (a access) command() string {
	sudo := ""
	if a.sudo {
		sudo = "sudo -n "
	}
	return sudo + "docker -H " + plain.Quote(a.address) + " system dial-stdio"
}

// String names the way for people.
func (a access) String() string {
	if a.tool {
		return a.command()
	}
	return a.socket()
}

// ping asks the daemon whether it is there, as [access.command] would. The client
// would do it in a connection that tells less of why it fails.
const ping = `printf 'GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n' | `

// ways finds the way to the daemon of a host.
type ways struct {
	conn    *reach.Conn
	host    *provision.Host
	looking *semaphore.Weighted // a lock that a context can stop waiting for; guards way
	way     *access             // that was found; nil: not looked for
}

func newWays(c *reach.Conn) ways {
	return ways{conn: c, host: c.Host(), looking: semaphore.NewWeighted(1)}
}

// known is the way that was found once. found says that it was just now.
func (w *ways) known(ctx context.Context) (way access, found bool, err error) {
	if err := w.looking.Acquire(ctx, 1); err != nil {
		return access{}, false, context.Cause(ctx)
	}
	defer w.looking.Release(1)
	if w.way != nil {
		return *w.way, false, nil
	}
	way, err = w.find(ctx)
	if err == nil {
		w.way = &way
		w.conn.Log().Debug("docker", "access", way.String())
	}
	return way, true, err
}

// forget has the way looked for again: who listened there does not any more.
func (w *ways) forget(way access) {
	// Never nil: the context does not end.
	if w.looking.Acquire(context.Background(), 1) == nil {
		if w.way != nil && *w.way == way {
			w.way = nil
		}
		w.looking.Release(1)
	}
}

// dial connects to the daemon. One that does not listen where it did is looked for again.
func (w *ways) dial(ctx context.Context) (net.Conn, error) {
	for {
		way, found, err := w.known(ctx)
		if err != nil {
			return nil, err
		}
		if way.tool {
			return w.conn.Pipe(way.command()), nil
		}
		conn, err := w.conn.DialStraight(ctx, "unix", way.socket())
		if err == nil || !w.host.Local() && !reach.Refused(err) {
			return conn, err
		}
		w.forget(way)
		if found { // it was there a moment ago
			return nil, provision.Fail(w.host, provision.ErrDockerAway, "the Docker daemon at %s went away: %w",
				way.socket(), err)
		}
	}
}

func (w *ways) find(ctx context.Context) (access, error) {
	var addresses []string // none: the usual ones
	switch address := w.host.Docker; {
	case strings.Contains(address, "://"):
		addresses = []string{address}
	case address != "":
		addresses = []string{"unix://" + address}
	}
	said, err := w.conn.Ask(ctx, accessScript, addresses...)
	if err != nil {
		return access{}, err
	}
	seen := seen{said}
	var tried []string
	var refused error // the first refusal of a socket that is there
	for _, way := range seen.ways(w.host.Local()) {
		err := w.try(ctx, way)
		if err == nil {
			// A daemon may just have come up, and the straight way goes now.
			straight := access{address: way.address}
			if way.tool && !way.sudo && refused != nil && w.try(ctx, straight) == nil {
				way = straight
			}
			return way, nil
		}
		if ctx.Err() != nil || provision.OutOfReach(err) {
			return way, err
		}
		why := err.Error()
		if failed := new(reach.CommandError); errors.As(err, &failed) {
			why = reach.LastLines(failed.Stderr, 1)
		} else if refused == nil {
			refused, why = err, "no answer"
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", way, why))
	}
	return access{}, seen.none(w.host, tried, refused)
}

// try is nil where a daemon answers.
func (w *ways) try(ctx context.Context, way access) error {
	if way.tool {
		_, err := w.conn.Run(ctx, ping+way.command(), nil)
		return err
	}
	conn, err := w.conn.DialStraight(ctx, "unix", way.socket())
	if err == nil {
		conn.Close()
	}
	return err
}

// seen is what the script has said: addresses that are "usable", "denied" or "absent",
// each "tool" that is there, and the "login".
type seen struct{ reach.Answers }

func (s seen) tool(name string) bool { return slices.Contains(s.Answers["tool"], name) }

// ways are those that there may be, in the order in which they are tried: sockets that the login
// may use, straight and by the docker command there, then those of root. Here nothing stands
// between us and a socket.
func (s seen) ways(local bool) (all []access) {
	for _, address := range s.Answers["usable"] {
		direct := access{address: address}
		isSocket := direct.socket() != ""
		if isSocket {
			all = append(all, direct)
		}
		if s.tool("docker") && !(local && isSocket) {
			all = append(all, access{address: address, tool: true})
		}
	}
	if s.tool("docker") && s.tool("sudo") {
		for _, address := range s.Answers["denied"] {
			all = append(all, access{address: address, tool: true, sudo: true})
		}
	}
	return all
}

const (
	daemonDied = "%s is there, but nobody answers: the Docker daemon has died, " +
		"start it with `sudo systemctl start docker` (%w%s)"
	daemonOrSSHD = "%s is there, but nobody answers (%w): either the Docker daemon has died, or sshd forbids " +
		"the forwarding of sockets (AllowStreamLocalForwarding, DisableForwarding), " +
		"and there is no docker command that could stand in"
	daemonSilent = "the Docker daemon does not answer%s"
	daemonDenied = "%[1]s may not use %[2]s: add it to the group that may, usually with " +
		"`sudo usermod -aG docker %[1]s`, and connect again, or let it use sudo without a password%[3]s"
	daemonDown = "the Docker daemon does not run: there is no %s " +
		"(start it with `sudo systemctl start docker`, or name another socket with docker)"
	notInstalled = "Docker is not installed: there is no %s (install it as in " +
		"https://docs.docker.com/engine/install/, name another socket with docker, " +
		"or set runtime = \"process\" on a box that is itself a container)"
)

// none says why none of the ways goes. tried are those that were, and refused the
// refusal of a socket.
func (s seen) none(h *provision.Host, tried []string, refused error) error {
	var also string
	if len(tried) > 0 {
		also = "; tried: " + strings.Join(tried, ", ")
	}
	usable, denied := s.Answers["usable"], s.Answers["denied"]
	switch {
	case refused != nil && s.tool("docker"):
		return provision.Fail(h, provision.ErrDockerAway, daemonDied, sockets(usable[:1]), refused, also)
	case refused != nil:
		return provision.Fail(h, provision.ErrDockerAway, daemonOrSSHD, sockets(usable[:1]), refused)
	case len(usable) > 0:
		return provision.Fail(h, provision.ErrDockerAway, daemonSilent, also)
	case len(denied) > 0:
		return provision.Fail(h, provision.ErrNoDocker, daemonDenied, s.One("login"), sockets(denied[:1]), also)
	case s.tool("docker"), s.tool("dockerd"):
		return provision.Fail(h, provision.ErrDockerAway, daemonDown, sockets(s.Answers["absent"]))
	}
	return provision.Fail(h, provision.ErrNoDocker, notInstalled, sockets(s.Answers["absent"]))
}

func sockets(addresses []string) string {
	var paths []string
	for _, a := range addresses {
		paths = append(paths, access{address: a}.socket())
	}
	return strings.Join(paths, " and no ")
}
