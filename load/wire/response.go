package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"hclbench/load"
)

var errHTTP = errors.New("malformed HTTP response") // what an answer is that is not HTTP/1.1 as we read it

const (
	maxHead      = 64 << 10 // bounds the header, and the trailer, of a response
	maxChunkLine = 4 << 10  // bounds the line before a chunk, extensions included
)

// The parts of a response, in order.
const (
	inStatus    byte = iota
	inHeader         // of fields
	inBody           // of a known length
	inRest           // that ends with the connection
	inChunkLine      // the length of the next chunk
	inChunk
	inChunkEnd // the line end behind a chunk
	inTrailer
	atEnd
)

// response takes one HTTP/1.1 response apart as it comes, and keeps nothing of
// its body. It is stricter than HTTP asks a client to be: what two readers could
// understand differently is an error. Its zero value is ready.
type response struct {
	state   byte
	started bool   // a byte came
	status  int    // known from inBody on
	line    string // "200 OK"
	kind    string // content type
	closes  bool   // the server will not take another request on this connection

	old     bool // HTTP/1.0
	chunked bool
	sized   bool   // length is known
	length  int64  // of the body, or of the chunk: what is left of it
	lineEnd byte   // how many bytes of the line end behind a chunk have come
	head    int    // bytes of the header or trailer so far
	partial []byte // of a line whose end has not come
}

// reset makes r ready for the next response on its connection.
func (r *response) reset() { *r = response{partial: r.partial[:0], line: r.line} }

func (r *response) headed() bool { return r.state >= inBody }

func (r *response) over() bool { return r.state == atEnd }

// next uses bytes of a read, up to the end of the header, of a part of the body or of the response.
// It returns the part of the body, if there was one, and what is left.
func (r *response) next(b []byte) (body, left []byte, err error) {
	r.started = r.started || len(b) > 0
	for len(b) > 0 && r.state != atEnd {
		switch r.state {
		case inBody, inChunk:
			n := int(min(r.length, int64(len(b))))
			body, b = b[:n], b[n:]
			r.length -= int64(n)
			if r.length == 0 && r.state == inBody {
				r.state = atEnd
			} else if r.length == 0 {
				r.state = inChunkEnd
			}
			return body, b, nil
		case inRest:
			return b, nil, nil
		case inChunkEnd:
			if b[0] != "\r\n"[r.lineEnd] {
				return nil, nil, fmt.Errorf("%w: a chunk is longer than it says", errHTTP)
			}
			b = b[1:]
			if r.lineEnd++; r.lineEnd == 2 {
				r.lineEnd, r.state = 0, inChunkLine
			}
		default:
			line, rest, ok, err := r.nextLine(b)
			if err != nil {
				return nil, nil, err
			}
			b = rest
			if !ok {
				return nil, nil, nil
			}
			before := r.state
			if err := r.use(line); err != nil {
				return nil, nil, err
			}
			r.partial = r.partial[:0]
			if before == inHeader && r.headed() {
				return nil, b, nil
			}
		}
	}
	return nil, b, nil
}

// end says what the end of the connection makes of the response: nil when that is how it ends.
func (r *response) end() error {
	switch {
	case r.state == atEnd || r.state == inRest:
		r.state = atEnd
		return nil
	case !r.started:
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// nextLine takes a line off b, without its end.
func (r *response) nextLine(b []byte) (line, left []byte, ok bool, err error) {
	limit := maxHead
	if r.state == inChunkLine {
		limit = maxChunkLine
	}
	i := bytes.IndexByte(b, '\n')
	n := i + 1
	if i < 0 {
		n = len(b)
	}
	if r.state != inChunkLine {
		r.head += n
	}
	if r.head > maxHead || len(r.partial)+n > limit {
		return nil, nil, false, fmt.Errorf("%w: more than %d bytes before the body", errHTTP, limit)
	}
	if i < 0 {
		r.partial = append(r.partial, b...)
		return nil, nil, false, nil
	}
	line = b[:i]
	if len(r.partial) > 0 {
		r.partial = append(r.partial, line...)
		line = r.partial
	}
	if cr := bytes.IndexByte(line, '\r'); cr == len(line)-1 && cr >= 0 {
		line = line[:cr]
	} else if cr >= 0 || r.state == inChunkLine {
		return nil, nil, false, fmt.Errorf("%w: a line that does not end in CRLF", errHTTP)
	}
	return line, b[i+1:], true, nil
}

// use takes one line of what is not the body.
func (r *response) use(line []byte) error {
	switch r.state {
	case inStatus:
		return r.statusLine(line)
	case inChunkLine:
		return r.chunkLine(line)
	case inTrailer:
		if len(line) == 0 {
			r.state = atEnd
			return nil
		}
		_, _, err := field(line)
		return err
	}
	if len(line) > 0 {
		return r.field(line)
	}
	r.headEnd()
	return nil
}

func (r *response) statusLine(line []byte) error {
	var n int64
	ok := len(line) == 12 || len(line) > 12 && line[12] == ' '
	if ok = ok && string(line[:7]) == "HTTP/1." && (line[7] == '0' || line[7] == '1') && line[8] == ' '; ok {
		n, ok = decimal(line[9:12])
	}
	if !ok || n < 100 || !load.HeaderValue(line) {
		return fmt.Errorf("%w %q", errHTTP, Shorten(line))
	}
	r.old = line[7] == '0'
	r.closes = r.old
	r.status = int(n)
	if string(line[9:]) != r.line {
		r.line = string(bytes.TrimSpace(line[9:]))
	}
	r.state = inHeader
	return nil
}

// field reads a header or trailer line. Lines that go on in the next one are
// errors: they have been for long.
func field(line []byte) (name, value []byte, err error) {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !load.HeaderName(name) || !load.HeaderValue(value) {
		return nil, nil, fmt.Errorf("%w: header line %q", errHTTP, Shorten(line))
	}
	return name, bytes.Trim(value, " \t"), nil
}

func (r *response) field(line []byte) error {
	name, value, err := field(line)
	if err != nil {
		return err
	}
	// Informational responses come before the one that counts.
	if r.status < 200 && r.status != 101 {
		return nil
	}
	switch {
	case isWord(name, "content-type"):
		if r.kind == "" {
			r.kind = string(value)
		}
	case isWord(name, "content-length"):
		n, ok := decimal(value)
		if !ok || r.sized && n != r.length {
			return fmt.Errorf("%w: content length %q", errHTTP, Shorten(value))
		}
		r.sized, r.length = true, n
	case isWord(name, "transfer-encoding"):
		if r.chunked || r.old || !isWord(value, "chunked") {
			return fmt.Errorf("%w: unsupported transfer encoding %q", errHTTP, Shorten(value))
		}
		r.chunked = true
	case isWord(name, "connection"):
		for part := range bytes.SplitSeq(value, []byte(",")) {
			switch part = bytes.Trim(part, " \t"); {
			case isWord(part, "close"):
				r.closes = true
			case isWord(part, "keep-alive") && r.old:
				r.closes = false
			}
		}
	}
	return nil
}

func (r *response) headEnd() {
	switch {
	case r.status < 200 && r.status != 101:
		r.state = inStatus
	case r.status == 101:
		r.closes = true
		r.state = atEnd
	case r.status == 204 || r.status == 304:
		r.state = atEnd
	case r.chunked:
		// A length beside it is what request smuggling is made of.
		r.closes = r.closes || r.sized
		r.state = inChunkLine
	case r.sized && r.length == 0:
		r.state = atEnd
	case r.sized:
		r.state = inBody
	default:
		r.closes = true
		r.state = inRest
	}
}

func (r *response) chunkLine(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	n := int64(0)
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return fmt.Errorf("%w: chunk length %q", errHTTP, Shorten(line))
		}
		n = n<<4 | int64(c)
	}
	if len(digits) == 0 || len(digits) > 15 || !load.HeaderValue(line) {
		return fmt.Errorf("%w: chunk length %q", errHTTP, Shorten(line))
	}
	if n == 0 {
		r.head, r.state = 0, inTrailer
		return nil
	}
	r.length, r.state = n, inChunk
	return nil
}

// isWord compares without regard to case; lower is in lower case.
func isWord(b []byte, lower string) bool {
	return len(b) == len(lower) && strings.EqualFold(string(b), lower)
}

func decimal(b []byte) (n int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' || n > math.MaxInt64/100 {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(b) > 0
}
