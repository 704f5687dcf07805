package provision

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

// Logs reads what a container has written, stdout and stderr in the order in
// which Docker got them: the last tail lines, or all for a negative tail. With
// follow it goes on until the container ends, which is io.EOF; a lost
// connection is [ErrUnreachable]. ctx bounds the reading as well; Close ends it.
func (c *Conn) Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error) {
	doing := "read log of container " + shortID(id)
	lines := "all"
	if tail >= 0 {
		lines = strconv.Itoa(tail)
	}
	api, err := c.api(ctx)
	if err != nil {
		return nil, c.wrap(doing, err)
	}
	framed, err := api.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Tail: lines})
	if err != nil {
		return nil, c.wrap(doing, absent(err))
	}
	plain, w := io.Pipe()
	c.reading.Go(func() {
		_, err := stdcopy.StdCopy(w, w, framed)
		if err != nil {
			err = c.wrap(doing, err)
		}
		w.CloseWithError(err) // nil is io.EOF
	})
	return &logReader{plain, framed}, nil
}

// logReader reads a log without Docker's framing.
type logReader struct {
	*io.PipeReader
	framed io.Closer
}

// Close leaves the unpacking to end by itself: when the connection has gone
// silent, that is not before it is given up. [Conn.Close] waits for it.
func (r *logReader) Close() error {
	return errors.Join(r.PipeReader.Close(), r.framed.Close())
}
