package load

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// maxLine bounds one line, and the data of one event, of a stream. Chunks are
// some hundred bytes; only a broken server comes near.
const maxLine = 1 << 20

// done is the data of the last event of an answer.
const done = "[DONE]"

var errLine = errors.New("a line of the stream is longer than 1 MiB")

// events takes a stream of server-sent events apart. Only data matters here:
// comments, event names and ids are passed over. Lines may end in LF or CRLF.
//
// An event's arrival is when the read that brought the end of its data
// returned: the clock is read once per read, before anything is parsed.
type events struct {
	src io.Reader
	now func() time.Duration // read once after each Read of src

	buf     []byte
	lo, hi  int           // buf[lo:hi] has been read and not yet used
	scanned int           // buf[lo:scanned] has no line end
	at      time.Duration // when the last read returned
	reads   int           // how many there were
	err     error         // what the last read said, once buf is used up

	data []byte // of an event with several data lines
}

// event is one event of a stream. Data is valid until the next one.
type event struct {
	data []byte
	at   time.Duration
	read int // which read brought it; events of one read have the same
}

func (e *events) reset(src io.Reader, now func() time.Duration) {
	if e.buf == nil {
		e.buf = make([]byte, 4<<10)
	}
	*e = events{src: src, now: now, buf: e.buf, data: e.data[:0]}
}

// next returns the next event that has data. It returns io.EOF at the end of
// the stream; an event that the end cut off is dropped, except a whole [DONE].
func (e *events) next() (event, error) {
	var ev event
	lines := 0
	for {
		line, err := e.line()
		if err != nil {
			if err == io.EOF && lines > 0 {
				return ev, nil
			}
			return event{}, err
		}
		if len(line) == 0 {
			if lines > 0 {
				return ev, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if lines == 0 && string(value) == done {
			// The end of the answer; not every server ends the event.
			return event{value, e.at, e.reads}, nil
		}
		switch lines {
		case 0:
			// Kept: reading the line that ends the event may move the buffer.
			e.data = append(e.data[:0], value...)
		default:
			e.data = append(append(e.data, '\n'), value...)
		}
		if len(e.data) > maxLine {
			return event{}, errLine
		}
		lines++
		ev = event{e.data, e.at, e.reads}
	}
}

// line returns the next line without its end. It is valid until the next call.
func (e *events) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(e.buf[e.scanned:e.hi], '\n'); i >= 0 {
			line := e.buf[e.lo : e.scanned+i]
			e.lo = e.scanned + i + 1
			e.scanned = e.lo
			if len(line) > maxLine {
				return nil, errLine
			}
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		e.scanned = e.hi
		if e.hi-e.lo > maxLine {
			return nil, errLine
		}
		if e.err != nil {
			return e.rest()
		}
		e.fill()
	}
}

// rest is what is left when the stream has ended: half a line is worth nothing,
// but some servers do not end their last one.
func (e *events) rest() ([]byte, error) {
	line := e.buf[e.lo:e.hi]
	e.lo, e.scanned = e.hi, e.hi
	if e.err == io.EOF && (string(line) == "data: "+done || string(line) == "data:"+done) {
		return line, nil
	}
	return nil, e.err
}

func (e *events) fill() {
	if e.lo == e.hi {
		e.lo, e.hi, e.scanned = 0, 0, 0
	}
	if e.hi == len(e.buf) {
		if e.lo > 0 {
			e.hi = copy(e.buf, e.buf[e.lo:e.hi])
			e.scanned -= e.lo
			e.lo = 0
		} else {
			e.buf = append(e.buf, make([]byte, len(e.buf))...)
		}
	}
	n, err := e.src.Read(e.buf[e.hi:])
	e.at = e.now()
	e.reads++
	e.hi += n
	e.err = err
}
