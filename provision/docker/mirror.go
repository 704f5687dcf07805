package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	images "github.com/docker/docker/api/types/image"

	"hclbench/origin"
	"hclbench/provision"
)

// pullThroughCaller has the daemon pull from a registry on the host's loopback address, which
// daemons take without TLS. It is a port forwarded to this process and answered by an
// [origin.Mirror], so only layers that the daemon lacks travel, and it checks each against its
// digest.
func (i *Images) pullThroughCaller(ctx context.Context, image origin.Ref, tell progress) (provision.Image, error) {
	if image.Pinned() {
		if present, err := i.inspectKept(ctx, image, image.Digest); !errors.Is(err, provision.ErrImageNotFound) {
			return present, err
		}
	}
	if i.registries == nil {
		return provision.Image{}, i.d.fail(provision.ErrImageNotFound, noCaller, image)
	}
	present, err := i.present(ctx, image)
	if err != nil {
		return provision.Image{}, err
	}
	var digestNow string
	usable := func(err error) bool { return errors.Is(err, origin.ErrNotReachable) }
	instead, err := i.bring(ctx, image, tell, present, usable, func() error {
		mirror, err := i.registries.Mirror(ctx, image.String())
		if err != nil {
			return err
		}
		digestNow = mirror.Digest
		if _, err := i.inspectKept(ctx, image, digestNow); !errors.Is(err, provision.ErrImageNotFound) {
			return err // it is there
		}
		return i.pullMirrored(ctx, image, mirror, tell)
	})
	if err != nil {
		return provision.Image{}, i.explainMirror(image, err)
	}
	if instead != nil {
		return *instead, nil
	}
	return i.inspectKept(ctx, image, digestNow)
}

const (
	noCaller  = "%s is to come from the caller, which asks no registries"
	notLetUs  = "%s does not let this machine pull %s: %w"
	noForward = "the host lets nothing listen on its loopback address for this machine (%w): " +
		`image_from = "caller" needs sshd's AllowTcpForwarding`
)

func (i *Images) explainMirror(image origin.Ref, err error) error {
	switch {
	case errors.Is(err, origin.ErrNotFound):
		return i.d.fail(provision.ErrImageNotFound, "%w: check the image's name and tag", err)
	case errors.Is(err, origin.ErrAccess):
		return i.d.fail(errRegistryAuth, notLetUs, image.Registry, image, err)
	case errors.Is(err, origin.ErrNotReachable):
		return fmt.Errorf("from here, as image_from says: %w", err)
	}
	return i.explainPull(image, err)
}

// pullMirrored serves the mirror while the daemon pulls from it, and has the image keep its names.
func (i *Images) pullMirrored(ctx context.Context, image origin.Ref, mirror *origin.Mirror, tell progress) error {
	forwarded, err := i.d.conn.Listen(ctx)
	if err != nil {
		return &noAnswer{i.d.fail(errNoForward, noForward, err)}
	}
	listener := &bridged{Listener: forwarded}
	server := &http.Server{Handler: mirror, ErrorLog: log.New(io.Discard, "", 0)}
	listener.open.Go(func() { _ = server.Serve(listener) }) // what it could not answer, the daemon tells
	defer listener.open.Wait()
	defer server.Close()
	ref := origin.Ref{Registry: forwarded.Addr().String(), Repository: mirror.Name, Digest: mirror.Digest}
	if _, err := i.download(ctx, ref, "", tell); err != nil {
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
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // whichever side ends, ends both
		to.Close()
		from.Close()
	}
	l.open.Go(func() { carry(channel, ours) })
	l.open.Go(func() { carry(ours, channel) })
	return theirs, nil
}
