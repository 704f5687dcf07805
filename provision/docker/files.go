package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"hclbench/provision"
)

func (d *Daemon) bringFiles(ctx context.Context, id string, files []provision.File) error {
	if len(files) == 0 {
		return nil
	}
	archive, err := packFiles(files)
	if err == nil {
		_, err = query(ctx, d, func(api *client.Client, ctx context.Context) (none struct{}, err error) {
			return none, api.CopyToContainer(ctx, id, "/", bytes.NewReader(archive), container.CopyToContainerOptions{})
		})
	}
	if err != nil {
		return fmt.Errorf("bring its files into it: %w", err)
	}
	return nil
}

// packFiles is the archive of files and their directory. Whoever the engine runs as
// must be able to read them; in the container there is nobody else.
func packFiles(files []provision.File) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: provision.FilesDir[1:] + "/", Mode: 0o755})
	for _, f := range files {
		text := f.Text.Reveal()
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: provision.FilesDir[1:] + "/" + f.Name,
				Mode: 0o444, Size: int64(len(text))})
		}
		if err == nil {
			_, err = w.Write([]byte(text))
		}
	}
	return archive.Bytes(), errors.Join(err, w.Close())
}

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
	if text, err = io.ReadAll(files); err != nil {
		return nil, written, d.wrap(doing, err)
	}
	return text, stat.Mtime, nil
}
