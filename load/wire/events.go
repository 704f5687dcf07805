package wire

import (
	"bytes"
	"errors"
	"time"
)

// maxLine bounds one line, and the data of one event, of a stream of chunks. These are
// some hundred bytes; only a broken server comes near.
const maxLine = 1 << 20

const smallBuffer = 64 << 10 // what a connection keeps from one answer to the next

const done = "[DONE]" // the data of the last event of an answer

var errLine = errors.New("a line of the stream is longer than any answer to what was asked")

// events takes a stream of server-sent events apart, fed with what each read brought. Only data
// matters here: comments, event names and ids are passed over. Lines end in LF, CRLF or CR, and a byte order mark may
// stand before the first.
//
// An event's arrival is when the read that brought the end of its data returned. Between reads
// nothing is kept but the beginning of a line or of an event, so that a stream whose reads end
// where its events do needs no memory.
type events struct {
	most int           // bytes of a line, and of the data of an event
	in   []byte        // what the last read brought and is not yet used
	at   time.Duration // when it returned
	read int           // which one it was

	begun   bool // the first line is over
	endedCR bool // a line ended in a CR with which what had come ended: an LF that follows is of that end

	line   []byte // the beginning of a line whose end has not come
	joined bool   // line is whole, and has been used
	data   []byte // the data of an event whose end has not come: a part of in, or store
	store  []byte
	lines  int   // of data
	last   event // what is known of that event
}

// event is one event of a stream. Data is valid until the next one.
type event struct {
	data []byte
	at   time.Duration
	read int // which read brought it; events of one read have the same
}

// reset makes e ready for another stream, whose lines have at most so many bytes. Small buffers
// are used again.
func (e *events) reset(most int) {
	line, store := e.line[:0], e.store[:0]
	if cap(line) > smallBuffer {
		line = nil
	}
	if cap(store) > smallBuffer {
		store = nil
	}
	*e = events{most: most, line: line, store: store}
}

// feed hands over what a read brought, at its time. All events of what was fed
// before must have been taken. The bytes are not used after the last of them.
func (e *events) feed(b []byte, at time.Duration, read int) {
	e.in, e.at, e.read = b, at, read
}

// next returns the next event that has data; ok is false when that needs more bytes.
func (e *events) next() (ev event, ok bool, err error) {
	for {
		line, whole, err := e.nextLine()
		if err != nil {
			return event{}, false, err
		}
		if !whole {
			e.keep()
			return event{}, false, nil
		}
		if ev, ok, err := e.take(line); ok || err != nil {
			return ev, ok, err
		}
	}
}

// end returns the event that the end of the stream completes, if there is one: what the end cut off
// is dropped, except a whole [DONE], because some servers do not end their last line.
func (e *events) end() (ev event, ok bool) {
	if l := string(e.line); !e.joined && (l == "data: "+done || l == "data:"+done) {
		e.joined = true
		if ev, ok, _ := e.take(e.line); ok {
			return ev, true
		}
	}
	if e.lines == 0 {
		return event{}, false
	}
	return e.finish(), true
}

// nextLine returns the next line without its end, or what there is of it.
func (e *events) nextLine() (line []byte, whole bool, err error) {
	if e.joined {
		e.line, e.joined = e.line[:0], false
	}
	if e.endedCR && len(e.in) > 0 {
		e.in, e.endedCR = bytes.TrimPrefix(e.in, []byte("\n")), false
	}
	i := bytes.IndexByte(e.in, '\n')
	width := 1 // of the line's end
	before := e.in
	if i >= 0 {
		before = e.in[:i]
	}
	if cr := bytes.IndexByte(before, '\r'); cr >= 0 {
		e.endedCR = cr == len(e.in)-1
		if cr == i-1 {
			width = 2
		}
		i = cr
	}
	if i < 0 {
		if len(e.line)+len(e.in) > e.most {
			return nil, false, errLine
		}
		e.line = append(e.line, e.in...)
		e.in = nil
		return nil, false, nil
	}
	line, e.in = e.in[:i], e.in[i+width:]
	if len(e.line)+len(line) > e.most {
		return nil, false, errLine
	}
	if len(e.line) > 0 {
		e.line, e.joined = append(e.line, line...), true
		line = e.line
	}
	if !e.begun {
		e.begun, line = true, bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line, true, nil
}

// take uses one line; ok when it ends an event.
func (e *events) take(line []byte) (ev event, ok bool, err error) {
	if len(line) == 0 {
		if e.lines == 0 {
			return event{}, false, nil
		}
		return e.finish(), true, nil
	}
	value, found := bytes.CutPrefix(line, []byte("data:"))
	if !found {
		return event{}, false, nil
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	if e.lines == 0 && string(value) == done {
		// The end of the answer; not every server ends the event.
		return event{value, e.at, e.read}, true, nil
	}
	if e.lines == 0 {
		e.data = value
	} else {
		e.keep()
		e.store = append(append(e.store, '\n'), value...)
		e.data = e.store
	}
	if len(e.data) > e.most {
		return event{}, false, errLine
	}
	e.lines++
	e.last.at, e.last.read = e.at, e.read
	if e.joined && e.lines == 1 {
		e.keep() // the next line may be joined in the same place
	}
	return event{}, false, nil
}

func (e *events) finish() event {
	e.lines = 0
	e.last.data = e.data
	return e.last
}

// keep saves the data of an unfinished event from what comes next.
func (e *events) keep() {
	if e.lines == 0 || len(e.store) > 0 && len(e.data) > 0 && &e.store[0] == &e.data[0] {
		return
	}
	e.store = append(e.store[:0], e.data...)
	e.data = e.store
}
