package provision

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
)

// maxFile bounds what [Conn.ReadFile] reads: results of a benchmark, never data.
const maxFile = 64 << 20

// ReadFile reads a file in a container, which may have ended. A file that is not
// there is an error that names it.
func (c *Conn) ReadFile(ctx context.Context, id, path string) ([]byte, error) {
	doing := "read " + path + " in container " + shortID(id)
	api, err := c.api(ctx)
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	archive, _, err := api.CopyFromContainer(ctx, id, path)
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	defer archive.Close()
	files := tar.NewReader(archive)
	found, err := files.Next()
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	if found.Typeflag != tar.TypeReg || found.Size > maxFile {
		return nil, c.wrap(doing, fmt.Errorf("it is no file of at most %d MiB", maxFile>>20))
	}
	text, err := io.ReadAll(files)
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	return text, nil
}
