package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"hclbench/provision"
)

// bringFiles copies its files into a container that was created.
func (d *Daemon) bringFiles(ctx context.Context, id string, files []provision.File) error {
	if len(files) == 0 {
		return nil
	}
	archive, err := packFiles(files)
	if err == nil {
		_, err = query(ctx, d, func(ctx context.Context, api *client.Client) (struct{}, error) {
			return struct{}{}, api.CopyToContainer(ctx, id, "/", bytes.NewReader(archive), container.CopyToContainerOptions{})
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
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: provision.FilesDir[1:] + "/" + f.Name, Mode: 0o444, Size: int64(len(text))})
		}
		if err == nil {
			_, err = w.Write([]byte(text))
		}
	}
	return archive.Bytes(), errors.Join(err, w.Close())
}
