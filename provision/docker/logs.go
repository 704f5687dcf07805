package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/docker/docker/api/types/container"

	"hclbench/plain"
	"hclbench/provision"
)

// Logs reads what a container has written, stdout and stderr in the order in
// which Docker got them: the last tail lines, or all for a negative tail. With
// follow it goes on until the container ends, which is io.EOF; a lost
// connection is [provision.ErrUnreachable]. ctx bounds the reading as well; Close ends it.
func (d *Daemon) Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error) {
	doing := "read log of container " + provision.ShortID(id)
	lines := "all"
	if tail >= 0 {
		lines = strconv.Itoa(tail)
	}
	api, err := d.api(ctx)
	if err != nil {
		return nil, d.wrap(doing, err)
	}
	framed, err := api.ContainerLogs(ctx, id,
		container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Tail: lines})
	if err != nil {
		return nil, d.wrap(doing, absent(err))
	}
	return &logReader{framed: framed, wrap: func(err error) error { return d.wrap(doing, err) }}, nil
}

// logReader reads a log out of Docker's framing: before each part one byte that names
// the stream, three that mean nothing, and the length in four. The library has it too,
// but makes room for whatever length a daemon says.
type logReader struct {
	framed io.ReadCloser
	wrap   func(error) error
	left   int64 // of the part that is being read
}

func (r *logReader) Read(p []byte) (n int, err error) {
	for err == nil && r.left == 0 {
		r.left, err = nextPart(r.framed)
	}
	if err == nil {
		n, err = r.framed.Read(p[:min(int64(len(p)), r.left)])
		r.left -= int64(n)
		if err == io.EOF {
			err = nil // the next part will tell, if there should be more of this one
			if r.left > 0 {
				err = io.ErrUnexpectedEOF
			}
		}
	}
	if err != nil && err != io.EOF {
		err = r.wrap(err)
	}
	return n, err
}

func (r *logReader) Close() error { return r.framed.Close() }

func nextPart(framed io.Reader) (int64, error) {
	const systemError = 3
	var header [8]byte
	if _, err := io.ReadFull(framed, header[:]); err != nil {
		return 0, err
	}
	length := int64(binary.BigEndian.Uint32(header[4:]))
	switch stream := header[0]; {
	case stream == systemError:
		said, err := io.ReadAll(io.LimitReader(framed, min(length, 4<<10)))
		return 0, errors.Join(fmt.Errorf("the Docker daemon cannot read on: %s", plain.Line(string(said))), err)
	case stream > systemError:
		return 0, fmt.Errorf("the Docker daemon's log has a stream %d, which hcl does not know", stream)
	}
	return length, nil
}
