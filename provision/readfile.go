package provision

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"time"
)

// maxFile bounds what [Conn.ReadFile] reads: results of a benchmark, never data.
const maxFile = 64 << 20

// ReadFile reads a file in a container, which may have ended. A file that is not
// there is an error that names it. written is when it was last, by the host's clock.
func (c *Conn) ReadFile(ctx context.Context, id, path string) (text []byte, written time.Time, err error) {
	doing := "read " + path + " in container " + shortID(id)
	api, err := c.api(ctx)
	if err != nil {
		return nil, written, c.wrap(doing, err)
	}
	archive, stat, err := api.CopyFromContainer(ctx, id, path)
	if err != nil {
		return nil, written, c.wrap(doing, err)
	}
	defer archive.Close()
	files := tar.NewReader(archive)
	found, err := files.Next()
	if err != nil {
		return nil, written, c.wrap(doing, err)
	}
	if found.Typeflag != tar.TypeReg || found.Size > maxFile {
		return nil, written, c.wrap(doing, fmt.Errorf("it is no file of at most %d MiB", maxFile>>20))
	}
	text, err = io.ReadAll(files)
	if err != nil {
		return nil, written, c.wrap(doing, err)
	}
	return text, stat.Mtime, nil
}
