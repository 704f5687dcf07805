package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reading is what a reader makes of the bytes of a connection.
type reading struct {
	Status int
	Line   string
	Kind   string
	Body   string
	Left   string // after the end of the message
	Closes bool
	Whole  bool // the message has ended
}

// ours reads with our own reader, in reads of the lengths of plan.
func ours(text, plan []byte) (reading, error) {
	var r response
	var body, left []byte
	src := &cuts{text: text, plan: plan}
	buf := make([]byte, 512)
	for {
		n, err := src.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			if r.over() {
				left = append(left, b...)
				break
			}
			part, rest, err := r.next(b)
			if err != nil {
				return reading{}, err
			}
			body = append(body, part...)
			b = rest
		}
		if err != nil {
			break
		}
	}
	got := reading{r.status, r.line, r.kind, string(body), string(left), r.closes, r.over()}
	return got, r.end()
}

func TestResponse(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, in string
		want     reading
		err      error
	}{
		{"length", ok + "Content-Length: 3\r\nContent-Type:  text/plain \r\n\r\nabcHTTP", reading{200, "200 OK", "text/plain", "abc", "HTTP", false, true}, nil},
		{"length 0", ok + "content-length: 0\r\n\r\n", reading{200, "200 OK", "", "", "", false, true}, nil},
		{"length twice", ok + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", reading{200, "200 OK", "", "a", "", false, true}, nil},
		{"to the end", ok + "\r\nabc", reading{200, "200 OK", "", "abc", "", true, false}, nil},
		{"old", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", reading{200, "200 OK", "", "a", "", true, true}, nil},
		{"old, kept", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", reading{200, "200 OK", "", "a", "", false, true}, nil},
		{"closes", ok + "Connection: upgrade, Close\r\nContent-Length: 1\r\n\r\na", reading{200, "200 OK", "", "a", "", true, true}, nil},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", reading{200, "200", "", "", "", false, true}, nil},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\na", reading{200, "200 OK", "", "a", "", false, true}, nil},
		{"chunked", ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", reading{200, "200 OK", "", "abc0123456789", "", false, true}, nil},
		{"chunk extensions", ok + "Transfer-Encoding: Chunked\r\n\r\n3 ;a=b\r\nabc\r\n000;x\r\n\r\n", reading{200, "200 OK", "", "abc", "", false, true}, nil},
		{"trailer", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Took: 3\r\n\r\nmore", reading{200, "200 OK", "", "", "more", false, true}, nil},
		{"chunked and length", ok + "Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reading{200, "200 OK", "", "", "", true, true}, nil},
		{"continue", "HTTP/1.1 100 Continue\r\nContent-Length: 7\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 1\r\n\r\na", reading{200, "200 OK", "", "a", "", false, true}, nil},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", reading{204, "204 No Content", "", "", "", false, true}, nil},
		{"switching", "HTTP/1.1 101 Switching Protocols\r\n\r\nx", reading{101, "101 Switching Protocols", "", "", "x", true, true}, nil},

		{"nothing", "", reading{}, io.EOF},
		{"cut in the header", ok + "Content-Le", reading{200, "200 OK", "", "", "", false, false}, io.ErrUnexpectedEOF},
		{"cut in the body", ok + "Content-Length: 9\r\n\r\nabc", reading{200, "200 OK", "", "abc", "", false, false}, io.ErrUnexpectedEOF},
		{"cut in a chunk", ok + "Transfer-Encoding: chunked\r\n\r\n9\r\nabc", reading{200, "200 OK", "", "abc", "", false, false}, io.ErrUnexpectedEOF},
		{"cut before the last chunk", ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", reading{200, "200 OK", "", "abc", "", false, false}, io.ErrUnexpectedEOF},
		{"cut in the trailer", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n", reading{200, "200 OK", "", "", "", false, false}, io.ErrUnexpectedEOF},

		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", reading{}, errHTTP},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", reading{}, errHTTP},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", reading{}, errHTTP},
		{"status below 100", "HTTP/1.1 099 OK\r\n\r\n", reading{}, errHTTP},
		{"folded line", ok + "A: b\r\n c\r\n\r\n", reading{}, errHTTP},
		{"space before the colon", ok + "Content-Length : 3\r\n\r\n", reading{}, errHTTP},
		{"no colon", ok + "Content-Length\r\n\r\n", reading{}, errHTTP},
		{"no name", ok + ": 3\r\n\r\n", reading{}, errHTTP},
		{"control character", ok + "A: b\x00c\r\n\r\n", reading{}, errHTTP},
		{"carriage return inside", ok + "A: b\rc\r\n\r\n", reading{}, errHTTP},
		{"two lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na", reading{}, errHTTP},
		{"length with a sign", ok + "Content-Length: +1\r\n\r\na", reading{}, errHTTP},
		{"length beyond counting", ok + "Content-Length: 99999999999999999999\r\n\r\na", reading{}, errHTTP},
		{"gzip, chunked", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", reading{}, errHTTP},
		{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reading{}, errHTTP},
		{"chunked, old", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reading{}, errHTTP},
		{"chunk length", ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", reading{}, errHTTP},
		{"chunk length with 0x", ok + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n", reading{}, errHTTP},
		{"no chunk length", ok + "Transfer-Encoding: chunked\r\n\r\n\r\nabc", reading{}, errHTTP},
		{"chunk length beyond counting", ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", reading{}, errHTTP},
		{"chunk length with a bare line feed", ok + "Transfer-Encoding: chunked\r\n\r\n1\na\r\n", reading{}, errHTTP},
		{"chunk longer than it says", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", reading{}, errHTTP},
		{"endless header", ok + strings.Repeat("A: b\r\n", maxHead/6+1), reading{}, errHTTP},
		{"endless header line", ok + "A: " + strings.Repeat("b", maxHead), reading{}, errHTTP},
		{"endless hints", strings.Repeat("HTTP/1.1 103 x\r\n\r\n", maxHead/18+1), reading{}, errHTTP},
		{"endless chunk extension", ok + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", maxChunkLine), reading{}, errHTTP},
		{"endless trailer", ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", maxHead/6+1), reading{}, errHTTP},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, plan := range [][]byte{nil, {0}, {6, 1, 200}} {
				got, err := ours([]byte(c.in), plan)
				if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) || c.err == nil && err != nil {
					t.Errorf("in reads of %v: error %v, want %v; reading (-want +got):\n%.400s", plan, err, c.err, diff)
				}
			}
		})
	}
}

// theirs reads with net/http.
func theirs(text []byte) (reading, error) {
	src := bufio.NewReader(bytes.NewReader(text))
	post := &http.Request{Method: http.MethodPost}
	for {
		resp, err := http.ReadResponse(src, post)
		if err != nil {
			return reading{}, err
		}
		if resp.StatusCode < 200 && resp.StatusCode != 101 {
			continue // its body is none
		}
		var body []byte
		if resp.StatusCode != 101 {
			if body, err = io.ReadAll(resp.Body); err != nil {
				return reading{}, err
			}
		}
		left, _ := io.ReadAll(src)
		return reading{Status: resp.StatusCode, Line: strings.TrimSpace(resp.Status), Kind: resp.Header.Get("Content-Type"), Body: string(body), Left: string(left)}, nil
	}
}

// FuzzResponse: however a response is cut into reads we read the same, and what
// we read is what net/http reads; where it sees an error, so do we.
func FuzzResponse(f *testing.F) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	for _, s := range []string{
		ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\nleft",
		ok + "Content-Length: 3\r\n\r\nabcleft", ok + "\r\nto the end", "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n",
		"HTTP/1.0 503 No\nConnection: keep-alive\nContent-Length: 1\n\nx", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
		ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	} {
		f.Add([]byte(s), []byte{0, 3, 200})
	}
	f.Fuzz(func(t *testing.T, text, plan []byte) {
		got, err := ours(text, nil)
		again, againErr := ours(text, plan)
		if err != nil && againErr != nil {
			got, again = reading{}, reading{} // how far one came depends on where it was cut
		}
		if diff := cmp.Diff(got, again); diff != "" || (err == nil) != (againErr == nil) || errors.Is(err, errHTTP) != errors.Is(againErr, errHTTP) {
			t.Errorf("cut into reads: error %v, want %v; reading (-want +got):\n%s", againErr, err, diff)
		}
		if err != nil {
			return // we may be stricter
		}
		want, err := theirs(text)
		if err != nil {
			t.Fatalf("read as %+v, where net/http says: %v", got, err)
		}
		got.Closes, got.Whole = false, false
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reading (-net/http +ours):\n%s", diff)
		}
	})
}
