package engines

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"hclbench/engines/setting"
	"hclbench/provision"
)

const loopback = "127.0.0.1"

// Port is where the engine listens on its host; 0 for an external one.
func Port(e *Engine) int {
	return cmp.Or(e.port(), kinds[e.Kind].port)
}

// listens is the address that the engine listens on: what its flags say, and else
// the loopback address, of its host's network; in a network of its own, where Docker
// forwards the port to it, all. A command of the lab's own tells nothing.
func listens(e *Engine) string {
	if host, said := e.says(setting.Host); said && e.Command == nil {
		return host
	}
	if e.Container.Network == "bridge" && Runtime(e) == provision.Docker {
		return "0.0.0.0"
	}
	return loopback
}

// everywhere is the address that means all of a host's, of the kind at which others find it.
func everywhere(h *provision.Host) string {
	if ip := net.ParseIP(h.Inside()); ip != nil && ip.To4() == nil {
		return "::"
	}
	return "0.0.0.0"
}

// open reports whether an address means all of a host's.
func open(address string) bool { ip := net.ParseIP(address); return ip != nil && ip.IsUnspecified() }

// BaseURL is where the engine is reached from its own host, without a path.
func BaseURL(e *Engine) string {
	switch e.Kind {
	case External:
		return base(e.URL)
	case Operated:
		return "http://" + e.Manifests.Service
	}
	if e.Kind == GroupKind {
		e = Fronts(e)[0].Engine
	}
	at := listens(e)
	if open(at) {
		at = loopbackOf(at)
	}
	return e.urlAt(at)
}

// loopbackOf is a host's own address of the kind of another: who listens on :: need not listen
// on 127.0.0.1.
func loopbackOf(address string) string {
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		return "::1"
	}
	return loopback
}

func (e *Engine) urlAt(host string) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(Port(e)))
}

// RemoteURLs are where the servers of an engine are reached from another host of the lab,
// without a path. The error says why there is no way to one, and what to do.
func RemoteURLs(e *Engine, from *provision.Host) (urls []string, err error) {
	if e.Kind == Operated && from.Cluster != e.Host().Cluster {
		return nil, fmt.Errorf(otherSpace, e.Host().Cluster.Name)
	}
	if ByOthers(e) {
		return append([]string{BaseURL(e)}, MoreURLs(e)...), nil
	}
	for _, m := range Fronts(e) {
		url := BaseURL(m.Engine)
		if m.Engine.Host() != from {
			url, err = remoteURL(m.Engine, from)
		}
		if err != nil {
			return nil, err
		}
		urls = append(urls, url)
	}
	return urls, nil
}

// Why load does not get from a host to an engine, and what to do.
const (
	otherSpace = "its service has a name that only pods in its namespace know. Send from hosts of cluster.%s"
	otherNet   = "its host is a pod of cluster.%[1]s, which only other pods there reach. Send from hosts of cluster.%[1]s"
	ownPort    = "with network = %q its port is open to its own host only. Remove that"
	listenAll  = "it listens on %s only, so that nothing of its pod is open to the cluster. Let it listen on all of " +
		`the pod's addresses: flags = { host = "0.0.0.0" }`
	listenOne   = "it listens on %s only, so that nothing of a rented box is open to the network. " + listenThere
	noOutside   = "its host is this machine, which has no address for others. " + listenThere
	listenThere = `Let it listen on an address of its host: flags = { host = "10.0.0.5" }`
)

// remoteURL is where a server of ours is reached from another host: the one address that its
// flag host says, or, when that means all, or the lab has a command of its own, the address of
// its host block. In place of a pod's, which nobody knows before it runs, stands its host's name.
func remoteURL(e *Engine, from *provision.Host) (string, error) {
	at, inPod := listens(e), e.Host().Cluster != nil
	ip := net.ParseIP(at)
	network := e.Container.Network
	switch {
	case inPod && !e.Host().Cluster.Same(from.Cluster):
		return "", fmt.Errorf(otherNet, e.Host().Cluster.Name)
	case network == "bridge", network == "none":
		return "", fmt.Errorf(ownPort, network)
	case e.Command == nil && !open(at):
		if at != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return e.urlAt(at), nil
		}
		if inPod {
			return "", fmt.Errorf(listenAll, at)
		}
		return "", fmt.Errorf(listenOne, at)
	case inPod:
		return e.urlAt(e.Host().Inside()), nil
	case e.Host().Local():
		return "", errors.New(noOutside)
	}
	if host, _, err := net.SplitHostPort(e.Host().Address); err == nil {
		return e.urlAt(host), nil
	}
	return e.urlAt(e.Host().Address), nil
}

// MoreURLs are the other servers of an engine that has several, as [BaseURL] is the first.
func MoreURLs(e *Engine) []string {
	var list []string
	for _, u := range e.URLs {
		list = append(list, base(u))
	}
	if !ByOthers(e) {
		for _, m := range Fronts(e)[1:] {
			list = append(list, m.Engine.insideURL())
		}
	}
	return list
}

// TokenizeURL is where text is turned into tokens for load from a host, nil for the engine's
// own, when that is not where requests go: a router does not do it, so one that generates is
// asked.
func TokenizeURL(e *Engine, from *provision.Host) string {
	if e.recipe(Route) == nil {
		return ""
	}
	members, i, inside := Members(e), 0, from == nil
	for n, m := range members {
		inside = inside || m.Engine.Host() == from
		if m.Answers && !m.Engine.Router {
			i = n
		}
	}
	if inside {
		return members[i].Engine.insideURL()
	}
	url, _ := remoteURL(members[i].Engine, from) // without a way to it the router may do it nevertheless
	return url
}

func base(url string) string { return strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1") }
