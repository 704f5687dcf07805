package provision

import (
	"fmt"

	"hclbench/plain"
)

// ImageFrom says who fetches a host's images.
type ImageFrom string

const (
	// FromRegistry: the host's daemon asks the registry. The zero value means it.
	FromRegistry ImageFrom = "registry"
	// FromCaller: the daemon asks the caller, and the caller the registry, for
	// hosts without a way out.
	FromCaller ImageFrom = "caller"
)

// PullProgress is how far a pull is. Total grows while the registry tells the
// sizes of the layers.
type PullProgress struct {
	Bytes  int64  `json:"bytes"`  // downloaded
	Total  int64  `json:"total"`  // to download, as far as is known
	Layers int    `json:"layers"` // of the image
	Done   int    `json:"done"`   // layers downloaded and unpacked, or there before
	Phase  string `json:"phase"`  // "asking the registry", "downloading", "unpacking", "trying again"
}

// Image is an image on a host.
type Image struct {
	Ref        string // as asked for
	ID         string // "sha256:…" of its configuration
	Digest     string // "sha256:…" of its manifest in the repository; "" for one that was built on the host
	Size       int64  // bytes on disk
	Local      bool   // the registry could not be asked: this is what was there
	Entrypoint []string
	Cmd        []string
	StopSignal string // "": Docker's default, SIGTERM
}

// ImageRoom is what an image still takes of a host's disk.
type ImageRoom struct {
	There bool   // the host has it: nothing else is known, or asked
	Pull  int64  // bytes that are to be downloaded: of layers that no image of the host has
	Disk  int64  // bytes that they become at least
	Path  string // where images are kept
	Free  int64  // bytes there
}

// Fits reports whether the image does not certainly lack room.
func (r ImageRoom) Fits() bool { return r.There || r.Disk <= r.Free }

// Lack says what is missing for an image that does not fit, and what to do.
func (r ImageRoom) Lack(image string) string {
	return fmt.Sprintf("%s has layers of %s still to come, which unpack to %s at least, and %s has %s free: "+
		"see `docker system df`, and make room with `docker image prune --all`, "+
		"or keep Docker's data on another disk (data-root in /etc/docker/daemon.json)",
		image, plain.Bytes(r.Pull), plain.Bytes(r.Disk), r.Path, plain.Bytes(r.Free))
}
