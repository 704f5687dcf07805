package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// all is every event of a stream, and how it ended.
func all(src io.Reader) (data []string, err error) {
	var e events
	err = each(&e, src, func() time.Duration { return 0 }, func(ev event) { data = append(data, string(ev.data)) })
	return data, err
}

// each feeds a stream to e, in a buffer that every read overwrites.
func each(e *events, src io.Reader, now func() time.Duration, do func(event)) error {
	e.reset(maxLine)
	buf := make([]byte, 4<<10)
	for i := 1; ; i++ {
		n, err := src.Read(buf)
		e.feed(buf[:n], now(), i)
		for {
			ev, ok, err := e.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			do(ev)
		}
		if err == io.EOF {
			if ev, ok := e.end(); ok {
				do(ev)
			}
		}
		if err != nil {
			return err
		}
		for j := range buf[:n] {
			buf[j] = 'x'
		}
	}
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		name, in string
		want     []string
		err      error
	}{
		{"nothing", "", nil, io.EOF},
		{"usual", "data: a\n\ndata: b\n\n", []string{"a", "b"}, io.EOF},
		{"crlf", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}, io.EOF},
		{"cr", "data: a\r\rdata: b\rdata: c\r\r", []string{"a", "b\nc"}, io.EOF},
		{"ends of all kinds", "data: a\rdata: b\r\ndata: c\n\r\ndata: d\n\rdata: e\r\n\n", []string{"a\nb\nc", "d", "e"}, io.EOF},
		{"byte order mark", "\ufeffdata: a\n\ndata: \ufeffb\n\n", []string{"a", "\ufeffb"}, io.EOF},
		{"no space", "data:a\n\ndata:  b\n\n", []string{"a", " b"}, io.EOF},
		{"comments and other fields", ": ping\n\nevent: x\nid: 7\nretry: 10\ndata: a\n\n:\n\n", []string{"a"}, io.EOF},
		{"several lines", "data: a\ndata: b\ndata:\n\n", []string{"a\nb\n"}, io.EOF},
		{"blank lines", "\n\n\ndata: a\n\n\n\n", []string{"a"}, io.EOF},
		{"no name", "data\n\nnonsense\n\ndata: a\n\n", []string{"a"}, io.EOF},
		{"ends without a blank line", "data: a\n\ndata: b\n", []string{"a", "b"}, io.EOF},
		{"cut off", "data: a\n\ndata: {\"te", []string{"a"}, io.EOF},
		{"done", "data: a\n\ndata: [DONE]\n\n", []string{"a", "[DONE]"}, io.EOF},
		{"done without an end", "data: a\n\ndata: [DONE]", []string{"a", "[DONE]"}, io.EOF},
		{"done with half an end", "data:[DONE]\n", []string{"[DONE]"}, io.EOF},
		{"longest line", "data: " + long[6:] + "\n\ndata: b\n\n", []string{long[6:], "b"}, io.EOF},
		{"too long", "data: a\n\ndata: " + long + "\n\n", []string{"a"}, errLine},
		{"too long without an end", "data: a\n\n" + long + "xx", []string{"a"}, errLine},
		{"too many lines", strings.Repeat("data: "+long[:maxLine/2]+"\n", 3), nil, errLine},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"at once":        strings.NewReader(c.in),
				"byte by byte":   iotest.OneByteReader(strings.NewReader(c.in)),
				"end with bytes": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				got, err := all(src)
				if diff := cmp.Diff(c.want, got); diff != "" || err != c.err {
					t.Errorf("%s: error %v, want %v; events (-want +got):\n%.500s", name, err, c.err, diff)
				}
			}
		})
	}
}

func TestEventsError(t *testing.T) {
	broken := errors.New("broken")
	got, err := all(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	if diff := cmp.Diff([]string{"a"}, got); diff != "" || err != broken {
		t.Errorf("error %v, events (-want +got):\n%s", err, diff)
	}
}

// reads hands out one text per Read.
type reads []string

func (r *reads) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*r)[0])
	*r = (*r)[1:]
	return n, nil
}

// TestArrival: an event has arrived when the read that brought the end of its
// data returned, and events of one read can be told from others.
func TestArrival(t *testing.T) {
	src := &reads{"data: a\n\ndata: b", "\n\n", "data: c\n", "\ndata: d\n\n"}
	now := time.Duration(0)
	type arrival struct {
		Data string
		At   time.Duration
		Read int
	}
	var got []arrival
	each(new(events), src, func() time.Duration { now++; return now }, func(ev event) {
		got = append(got, arrival{string(ev.data), ev.at, ev.read})
	})
	want := []arrival{{"a", 1, 1}, {"b", 2, 2}, {"c", 3, 3}, {"d", 4, 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arrivals (-want +got):\n%s", diff)
	}
}

// cuts hands out a text in pieces whose lengths are the bytes of plan, in turn.
type cuts struct {
	text []byte
	plan []byte
	i    int
}

func (c *cuts) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := len(c.text)
	if len(c.plan) > 0 {
		n = min(n, 1+int(c.plan[c.i%len(c.plan)]))
		c.i++
	}
	n = copy(p, c.text[:n])
	c.text = c.text[n:]
	return n, nil
}

// FuzzStream: however a stream is cut into reads its events are the same, no input makes the reader
// panic or keep more than it may, and what encoding/json reads is read.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		vllmChunk(f), chatRole(f) + chatChunk(f), vllmUsage(f) + "data: [DONE]\n\n", sglangChunk(f), trtChunk,
		"data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\n", ": ping\r\n\r\ndata:{}\r\n\r\n", "data: [DONE]", "data: {\"choices\":[{\"text\":\"\\u00e4\\\"\"}]}\n\n",
	} {
		f.Add([]byte(s), []byte{0, 3, 200})
	}
	f.Fuzz(func(t *testing.T, text, plan []byte) {
		want, wantErr := all(bytes.NewReader(text))
		got, err := all(&cuts{text: text, plan: plan})
		if diff := cmp.Diff(want, got); diff != "" || err != wantErr {
			t.Errorf("cut into reads: error %v, want %v; events (-want +got):\n%s", err, wantErr, diff)
		}
		var e events
		each(&e, &cuts{text: text, plan: plan}, func() time.Duration { return 0 }, func(event) {})
		if n := cap(e.line) + cap(e.store); n > 8*maxLine {
			t.Errorf("the reader keeps %d bytes", n)
		}
		for _, data := range want {
			compareChunk(t, []byte(data))
		}
	})
}
