package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	images "github.com/docker/docker/api/types/image"

	"hclbench/flow"
	"hclbench/origin"
	"hclbench/provision"
)

// pullStall is how long a pull may be silent. The whole, tens of gigabytes, has no limit.
const pullStall = 5 * time.Minute

// A pull that stalls or breaks off is tried again, with pauses that double. The
// daemon itself tries each layer several times before.
const (
	pullTries = 4
	pullPause = 5 * time.Second
)

type progress = func(provision.PullProgress)

// Pull brings an image to the host. The registry is always asked what a tag means today; only an
// image that is pinned and there is taken as it is. When the registry cannot be asked, or has none,
// the image that is there is used, with Image.Local set. tell, which may be nil, is called from the
// calling goroutine. [provision.ErrImageNotFound] when there is no such image. One for which there
// is certainly no room is not pulled, see [Images.Room].
func (i *Images) Pull(ctx context.Context, image string, tell progress) (provision.Image, error) {
	if tell == nil {
		tell = func(provision.PullProgress) {}
	}
	ref, err := origin.ParseRef(image)
	if err != nil {
		return provision.Image{}, i.d.fail(provision.ErrImageNotFound, "%w", err)
	}
	found, err := i.pull(ctx, ref, tell)
	if err != nil {
		return provision.Image{}, i.d.wrap("pull "+image, err)
	}
	found.Ref = image
	return found, nil
}

func (i *Images) pull(ctx context.Context, image origin.Ref, tell progress) (provision.Image, error) {
	if err := i.checkRoom(ctx, image); err != nil {
		return provision.Image{}, err
	}
	if i.d.host.ImageFrom == provision.FromCaller {
		return i.pullThroughCaller(ctx, image, tell)
	}
	present, err := i.present(ctx, image)
	if err != nil {
		return provision.Image{}, err
	}
	if present != nil && image.Pinned() {
		return *present, nil
	}
	var got string
	usable := func(err error) bool { return mayUse(*present, err) }
	instead, err := i.bring(ctx, image, tell, present, usable, func() error {
		login, err := i.registryAuth(ctx, image.Registry)
		if err != nil {
			return &noAnswer{err} // nobody has been asked
		}
		got, err = i.download(ctx, image, login, tell)
		return err
	})
	if err != nil {
		return provision.Image{}, i.explainPull(image, err)
	}
	if instead != nil {
		return *instead, nil
	}
	found, err := i.inspect(ctx, image)
	if err != nil {
		return provision.Image{}, err
	}
	image.Digest = got
	if _, err := origin.ParseRef(image.String()); err == nil && got != "" {
		found.Digest = got
	}
	return found, nil
}

// bring downloads an image, again with pauses when that fails for a reason that may pass.
// Where the one that is present may be used for such an error, it returns that one instead.
func (i *Images) bring(
	ctx context.Context, image origin.Ref, tell progress,
	present *provision.Image, usable func(error) bool, download func() error,
) (instead *provision.Image, err error) {
	for try, pause := 1, i.pause; ; try, pause = try+1, 2*pause {
		// The daemon gives up a pull that nobody listens to.
		err := again(ctx, download)
		switch {
		case err != nil && present != nil && usable(err):
			i.d.log.Warn("registry could not be asked, using the image that is on the host", "image", image, "err", err)
			local := *present
			local.Local = true
			return &local, nil
		case err == nil, try == pullTries, !mayPass(ctx, err):
			return nil, err
		}
		i.d.log.Warn("pull failed, trying again", "image", image, "in", pause, "err", err)
		tell(provision.PullProgress{Phase: "trying again"})
		if !flow.Pause(ctx, pause) {
			return nil, context.Cause(ctx)
		}
	}
}

func mayPass(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !notFound(err) && !unauthorized(err) && !diskFull(err) &&
		!errdefs.IsInvalidArgument(err) && !errors.Is(err, origin.ErrNotFound) && !errors.Is(err, origin.ErrAccess) &&
		(!unanswered(err) || errors.Is(err, errStalled))
}

var errStalled = errors.New("stalled")

// mayUse reports whether the image on the host can stand in for one that did not come.
func mayUse(present provision.Image, err error) bool {
	if unanswered(err) || diskFull(err) {
		return false
	}
	if notFound(err) || unauthorized(err) {
		return present.Digest == "" // built here, never in a registry
	}
	return true
}

func notFound(err error) bool {
	return errdefs.IsNotFound(err) || says(err, "manifest unknown", "not found", "name unknown", "does not exist")
}

func unauthorized(err error) bool {
	return errdefs.IsUnauthorized(err) ||
		says(err, "unauthorized", "authentication required", "no basic auth credentials", "denied")
}

func diskFull(err error) bool { return says(err, "no space left on device") }

const (
	diskIsFull   = "the disk with Docker's images is full (%w): see `docker system df`, and make room"
	noneOrSecret = "there is no image %s, or it is private (%w): check its name; " +
		"for a private one run `docker login %s`, here or on the host"
	noneThere = "%s has no image %s (%w): check its name and tag"
	noLogin   = "%s does not let the host pull %s (%w): run `docker login %[1]s`, here or on the host"
	noMove    = "nothing has moved for %s: see the host's connection to %s, and its disk"
)

func (i *Images) explainPull(image origin.Ref, err error) error {
	switch registry := image.Registry; {
	case diskFull(err):
		return i.d.fail(errDiskFull, diskIsFull, err)
	case notFound(err) && unauthorized(err):
		return i.d.fail(provision.ErrImageNotFound, noneOrSecret, image, err, registry)
	case notFound(err):
		return i.d.fail(provision.ErrImageNotFound, noneThere, registry, image, err)
	case unauthorized(err):
		return i.d.fail(errRegistryAuth, noLogin, registry, image, err)
	}
	return err
}

// download has the daemon fetch an image, and returns the digest that the registry gave.
func (i *Images) download(ctx context.Context, image origin.Ref, login string, tell progress) (digest string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(i.stall, func() {
		cancel(i.d.fail(errStalled, noMove, i.stall, image.Registry))
	})
	defer stalled.Stop()

	api, err := i.d.api(ctx)
	if err != nil {
		return "", err
	}
	body, err := api.ImagePull(ctx, image.String(), images.PullOptions{RegistryAuth: login})
	if err != nil {
		return "", err
	}
	defer body.Close()
	var track pullTracker
	message := &limited{of: "a message of the Docker daemon"}
	message.ReadCloser = body
	for lines := json.NewDecoder(message); ; {
		var m pullMessage
		message.left = 1 << 20
		switch err := lines.Decode(&m); {
		case err == io.EOF:
			return track.digest, nil
		case err != nil:
			return "", err
		}
		stalled.Reset(i.stall)
		if m.Error != "" {
			return "", errors.New(m.Error)
		}
		if track.add(m) {
			tell(track.sum())
		}
	}
}

type pullMessage struct {
	ID             string // of a layer, or the tag
	Status         string
	ProgressDetail struct{ Current, Total int64 }
	Error          string
}

type pullTracker struct {
	layers map[string]*pullLayer
	phase  string
	digest string
}

type pullLayer struct {
	bytes, total int64
	done         bool
}

// add takes in one line; it reports whether the sum has changed.
func (t *pullTracker) add(m pullMessage) bool {
	if digest, ok := strings.CutPrefix(m.Status, "Digest: "); ok {
		t.digest = digest
		return false
	}
	if t.layers == nil {
		t.layers, t.phase = map[string]*pullLayer{}, "asking the registry"
	}
	if m.ID == "" || strings.HasPrefix(m.Status, "Pulling from ") {
		return false
	}
	layer := t.layers[m.ID]
	if layer == nil {
		layer = new(pullLayer)
		t.layers[m.ID] = layer
	}
	switch m.Status {
	case "Downloading":
		t.phase = "downloading"
		layer.bytes = m.ProgressDetail.Current
		layer.total = max(layer.total, m.ProgressDetail.Total)
	case "Verifying Checksum", "Download complete":
		layer.bytes = layer.total
	case "Extracting":
		t.phase = "unpacking"
		layer.total = max(layer.total, m.ProgressDetail.Total)
		layer.bytes = layer.total
	case "Pull complete", "Already exists":
		layer.bytes = layer.total
		layer.done = true
	}
	return true
}

func (t *pullTracker) sum() provision.PullProgress {
	p := provision.PullProgress{Layers: len(t.layers), Phase: t.phase}
	for _, l := range t.layers {
		p.Bytes += l.bytes
		p.Total += l.total
		if l.done {
			p.Done++
		}
	}
	return p
}

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
