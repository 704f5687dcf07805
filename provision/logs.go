package provision

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Logs reads what a container has written, stdout and stderr in the order in
// which Docker got them: the last tail lines, or all for a negative tail. With
// follow it goes on until the container ends, which is io.EOF; a lost
// connection is [ErrUnreachable]. ctx bounds the reading as well; Close ends it.
func (c *Conn) Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error) {
	query := url.Values{"stdout": {"1"}, "stderr": {"1"}, "tail": {"all"}}
	if tail >= 0 {
		query.Set("tail", strconv.Itoa(tail))
	}
	if follow {
		query.Set("follow", "1")
	}
	path := "/containers/" + url.PathEscape(id) + "/logs"
	body, err := c.daemon.open(ctx, http.MethodGet, path, query, nil, nil)
	if refusedWith(err, http.StatusNotFound) {
		err = errors.Join(ErrNoContainer, err)
	}
	if err != nil {
		return nil, c.wrap("read log of container "+shortID(id), err)
	}
	return &logReader{body: body, explain: func(err error) error {
		return c.wrap("read log of container "+shortID(id), c.daemon.broken(ctx, http.MethodGet, path, err))
	}}, nil
}

// logReader takes away Docker's framing: before each piece, eight bytes with
// the stream's number and the piece's length.
type logReader struct {
	body    io.ReadCloser
	left    uint32 // of the current piece
	explain func(error) error
}

func (r *logReader) Read(p []byte) (int, error) {
	for r.left == 0 {
		var header [8]byte
		switch _, err := io.ReadFull(r.body, header[:]); {
		case err == io.EOF:
			return 0, io.EOF
		case err != nil:
			return 0, r.explain(err)
		}
		r.left = binary.BigEndian.Uint32(header[4:])
	}
	if uint32(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.body.Read(p)
	r.left -= uint32(n)
	if err == io.EOF && r.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		err = r.explain(err)
	}
	return n, err
}

func (r *logReader) Close() error { return r.body.Close() }
