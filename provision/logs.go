package provision

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/docker/docker/api/types/container"

	"hclbench/plain"
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
	text, w := io.Pipe()
	c.reading.Go(func() {
		err := unframe(w, framed)
		if err != nil {
			err = c.wrap(doing, err)
		}
		w.CloseWithError(err) // nil is io.EOF
	})
	return &logReader{text, framed}, nil
}

// unframe copies what a container has written, out of Docker's framing: before each
// part one byte that names the stream, three that mean nothing, and the length in four.
// The library has it too, but makes room for whatever length a daemon says.
func unframe(to io.Writer, framed io.Reader) error {
	const systemError = 3
	for {
		var header [8]byte
		if _, err := io.ReadFull(framed, header[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		length := int64(binary.BigEndian.Uint32(header[4:]))
		switch stream := header[0]; {
		case stream == systemError:
			said, err := io.ReadAll(io.LimitReader(framed, min(length, 4<<10)))
			return errors.Join(fmt.Errorf("the Docker daemon cannot read on: %s", plain.Line(string(said))), err)
		case stream > systemError:
			return fmt.Errorf("the Docker daemon's log has a stream %d, which hcl does not know", stream)
		}
		if _, err := io.CopyN(to, framed, length); err == io.EOF {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
	}
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
