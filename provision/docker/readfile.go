package docker

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"time"

	"hclbench/provision"
)

// maxFile bounds what [Daemon.ReadFile] reads: results of a benchmark, never data.
const maxFile = 64 << 20

// ReadFile reads a file in a container, which may have ended. A file that is not
// there is an error that names it. written is when it was last, by the host's clock.
func (d *Daemon) ReadFile(ctx context.Context, id, path string) (text []byte, written time.Time, err error) {
	doing := "read " + path + " in container " + provision.ShortID(id)
	api, err := d.api(ctx)
	if err != nil {
		return nil, written, d.wrap(doing, err)
	}
	archive, stat, err := api.CopyFromContainer(ctx, id, path)
	if err != nil {
		return nil, written, d.wrap(doing, err)
	}
	defer archive.Close()
	files := tar.NewReader(archive)
	found, err := files.Next()
	if err != nil {
		return nil, written, d.wrap(doing, err)
	}
	if found.Typeflag != tar.TypeReg || found.Size > maxFile {
		return nil, written, d.wrap(doing, fmt.Errorf("it is no file of at most %d MiB", maxFile>>20))
	}
	text, err = io.ReadAll(files)
	if err != nil {
		return nil, written, d.wrap(doing, err)
	}
	return text, stat.Mtime, nil
}
