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

// access is one way to the Docker daemon of a host.
type access struct {
	address string // as docker -H has it: "unix:///var/run/docker.sock", "tcp://127.0.0.1:2375"
	tool    bool   // by `docker system dial-stdio` there, and not straight to the socket
	sudo    bool   // and that as root
}

// socket is the path of the daemon's socket; "" where it has none.
func (a access) socket() string {
	path, ok := strings.CutPrefix(a.address, "unix://")
	if !ok {
		return ""
	}
	return path
}

// command is what speaks to the daemon on its standard input and output.
func (a access) command() string {
	command := "docker -H " + plain.Quote(a.address) + " system dial-stdio"
	if a.sudo {
		command = "sudo -n " + command
	}
	return command
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

// dial connects to the daemon. One that does not listen where it did is
// looked for again.
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
			return nil, provision.Fail(w.host, provision.ErrDockerAway, "the Docker daemon at %s went away: %w", way.socket(), err)
		}
	}
}

// find tries the ways one after the other: sockets that the login may use,
// straight and by the docker command there, then those that only root may use.
func (w *ways) find(ctx context.Context) (access, error) {
	var words string
	switch address := w.host.Docker; {
	case strings.Contains(address, "://"):
		words = plain.Quote(address)
	case address != "":
		words = plain.Quote("unix://" + address)
	}
	out, err := w.conn.Run(ctx, "set -- "+words+"\n"+accessScript, nil)
	if err != nil {
		return access{}, err
	}
	seen := map[string][]string{}
	for line := range strings.Lines(plain.Text(out)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		seen[name] = append(seen[name], value)
	}
	var tried []string
	var refused error
	try := func(way access) (bool, error) {
		err := w.try(ctx, way)
		if err == nil || ctx.Err() != nil || errors.Is(err, provision.ErrUnreachable) {
			return err == nil, err
		}
		why := err.Error()
		if failed := new(reach.CommandError); errors.As(err, &failed) {
			why = reach.LastLines(failed.Stderr, 1)
		} else if refused == nil {
			refused, why = err, "no answer"
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", way, why))
		return false, nil
	}
	tool := slices.Contains(seen["tool"], "docker")
	var ways []access
	for _, address := range seen["usable"] {
		direct := access{address: address}
		if direct.socket() != "" {
			ways = append(ways, direct)
		}
		// On this machine nothing stands between us and the socket.
		if tool && !(w.host.Local() && direct.socket() != "") {
			ways = append(ways, access{address: address, tool: true})
		}
	}
	if tool && slices.Contains(seen["tool"], "sudo") {
		for _, address := range seen["denied"] {
			ways = append(ways, access{address: address, tool: true, sudo: true})
		}
	}
	for _, way := range ways {
		ok, err := try(way)
		if err != nil {
			return way, err
		}
		// A daemon may just have come up, and the straight way goes now.
		if straight := (access{address: way.address}); ok && way.tool && !way.sudo && refused != nil && w.try(ctx, straight) == nil {
			way = straight
		}
		if ok {
			return way, nil
		}
	}
	return access{}, w.none(seen, tried, refused)
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

// none says why none of the ways goes, and what to do. seen is what the script
// has said.
func (w *ways) none(seen map[string][]string, tried []string, refused error) error {
	h := w.host
	var also string
	if len(tried) > 0 {
		also = "; tried: " + strings.Join(tried, ", ")
	}
	path := func(addresses []string) string { return access{address: addresses[0]}.socket() }
	switch login := strings.Join(seen["login"], ""); {
	case refused != nil && slices.Contains(seen["tool"], "docker"):
		return provision.Fail(h, provision.ErrDockerAway, "%s is there, but nobody answers: the Docker daemon has died, start it with `sudo systemctl start docker` (%w%s)", path(seen["usable"]), refused, also)
	case refused != nil:
		return provision.Fail(h, provision.ErrDockerAway, "%s is there, but nobody answers (%w): either the Docker daemon has died, or sshd forbids the forwarding of sockets (AllowStreamLocalForwarding, DisableForwarding), and there is no docker command that could stand in", path(seen["usable"]), refused)
	case len(seen["usable"]) > 0:
		return provision.Fail(h, provision.ErrDockerAway, "the Docker daemon does not answer%s", also)
	case len(seen["denied"]) > 0:
		return provision.Fail(h, provision.ErrNoDocker, "%[1]s may not use %[2]s: add it to the group that may, usually with `sudo usermod -aG docker %[1]s`, and connect again, or let it use sudo without a password%[3]s", login, path(seen["denied"]), also)
	case slices.Contains(seen["tool"], "docker"), slices.Contains(seen["tool"], "dockerd"):
		return provision.Fail(h, provision.ErrDockerAway, "the Docker daemon does not run: there is no %s (start it with `sudo systemctl start docker`, or name another socket with docker)", sockets(seen["absent"]))
	default:
		return provision.Fail(h, provision.ErrNoDocker, "Docker is not installed: there is no %s (install it as in https://docs.docker.com/engine/install/, name another socket with docker, or set runtime = \"process\" on a box that is itself a container)", sockets(seen["absent"]))
	}
}

// sockets are the paths of addresses.
func sockets(addresses []string) string {
	var paths []string
	for _, a := range addresses {
		paths = append(paths, access{address: a}.socket())
	}
	return strings.Join(paths, " and no ")
}
