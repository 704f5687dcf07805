package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"

	images "github.com/docker/docker/api/types/image"

	"hclbench/origin"
	"hclbench/provision"
)

// pullThroughCaller has the daemon pull from a registry on the host's own loopback
// address, which daemons take without TLS. It is a port forwarded to this process
// by the connection, and answered by an [origin.Mirror], so only layers that the
// daemon does not have travel, and it checks each against its digest.
func (i *Images) pullThroughCaller(ctx context.Context, image origin.Ref, progress func(provision.PullProgress)) (provision.Image, error) {
	if image.Pinned() {
		if present, err := i.inspectKept(ctx, image, image.Digest); !errors.Is(err, provision.ErrImageNotFound) {
			return present, err
		}
	}
	if i.registries == nil {
		return provision.Image{}, provision.Fail(i.d.host, provision.ErrImageNotFound, "%s is to come from the caller, which asks no registries", image)
	}
	present, err := i.inspect(ctx, image)
	if err != nil && !errors.Is(err, provision.ErrImageNotFound) {
		return provision.Image{}, err
	}
	here := err == nil
	var digestNow string
	err = i.pullTry(ctx, image, progress, func(err error) bool { return here && errors.Is(err, origin.ErrNotReachable) }, func() error {
		mirror, err := i.registries.Mirror(ctx, image.String())
		if err != nil {
			return err
		}
		digestNow = mirror.Digest
		if _, err := i.inspectKept(ctx, image, digestNow); !errors.Is(err, provision.ErrImageNotFound) {
			return err // it is there
		}
		return i.pullMirrored(ctx, image, mirror, progress)
	})
	switch {
	case err == nil:
	case errors.Is(err, origin.ErrNotFound):
		return provision.Image{}, provision.Fail(i.d.host, provision.ErrImageNotFound, "%w: check the image's name and tag", err)
	case errors.Is(err, origin.ErrAccess):
		return provision.Image{}, provision.Fail(i.d.host, errRegistryAuth, "%s does not let this machine pull %s: %w", image.Registry, image, err)
	case errors.Is(err, origin.ErrNotReachable) && !here:
		return provision.Image{}, fmt.Errorf("from here, as image_from says: %w", err)
	case errors.Is(err, origin.ErrNotReachable):
		i.d.log.Warn("registry could not be asked, using the image that is on the host", "image", image, "err", err)
		present.Local = true
		return present, nil
	default:
		return provision.Image{}, i.explainPull(image, err)
	}
	return i.inspectKept(ctx, image, digestNow)
}

// pullMirrored serves the mirror on the host for as long as the daemon pulls from
// it, and has the image keep its names.
func (i *Images) pullMirrored(ctx context.Context, image origin.Ref, mirror *origin.Mirror, progress func(provision.PullProgress)) error {
	forwarded, err := i.d.conn.Listen(ctx)
	if err != nil {
		return &noAnswer{provision.Fail(i.d.host, errNoForward, "the host lets nothing listen on its loopback address for this machine (%w): image_from = \"caller\" needs sshd's AllowTcpForwarding", err)}
	}
	listener := &bridged{Listener: forwarded}
	server := &http.Server{Handler: mirror, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // what it could not answer, the daemon tells
	}()
	defer func() {
		server.Close()
		<-served
		listener.wait()
	}()
	ref := origin.Ref{Registry: forwarded.Addr().String(), Repository: mirror.Name, Digest: mirror.Digest}
	if _, err := i.download(ctx, ref, "", progress); err != nil {
		return err
	}
	api, err := i.d.api(ctx)
	if err != nil {
		return err
	}
	if err := api.ImageTag(ctx, ref.String(), kept(mirror.Digest).String()); err != nil {
		return err
	}
	if !image.Pinned() {
		if err := api.ImageTag(ctx, ref.String(), image.String()); err != nil {
			return err
		}
	}
	_, err = api.ImageRemove(ctx, ref.String(), images.RemoveOptions{}) // the name alone
	return err
}

// errNoForward is a kind of failure that no caller tells apart today.
var errNoForward = errors.New("no forwarding")

// keptName begins the names under which hosts keep images that came through a
// caller: a daemon notes the digest of an image only with the registry that it
// came from.
const keptName = "hcl.local/image:" + keptTag
const keptTag = "sha256-"

func kept(digest string) origin.Ref {
	return origin.Ref{Registry: "hcl.local", Repository: "image", Tag: keptTag + strings.TrimPrefix(digest, "sha256:")}
}

// inspectKept describes an image by its digest, whichever way it came.
func (i *Images) inspectKept(ctx context.Context, image origin.Ref, digest string) (provision.Image, error) {
	exact := image
	exact.Digest = digest
	present, err := i.inspect(ctx, exact)
	if errors.Is(err, provision.ErrImageNotFound) {
		present, err = i.inspect(ctx, kept(digest))
	}
	if err != nil {
		return provision.Image{}, err
	}
	present.Ref, present.Digest = image.String(), digest
	return present, nil
}

// bridged is a listener whose connections know deadlines, without which the HTTP
// server would wait for ever after a request: SSH's channels do not.
type bridged struct {
	net.Listener
	open sync.WaitGroup
}

func (l *bridged) Accept() (net.Conn, error) {
	channel, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	l.open.Add(2)
	carry := func(to, from net.Conn) {
		defer l.open.Done()
		_, _ = io.Copy(to, from) // whichever side ends, ends both
		to.Close()
		from.Close()
	}
	go carry(channel, ours)
	go carry(ours, channel)
	return theirs, nil
}

// wait returns when no connection is left.
func (l *bridged) wait() { l.open.Wait() }
