package apply

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hclbench/engines"
)

type waitError struct {
	what  string   // "does not serve", or the tool that was waited for
	why   string   // "exited with code 3", "nothing has moved for 15m0s"
	probe string   // what the last probe has found; empty: nothing
	tail  []string // the last log lines
}

func (e *waitError) Error() string {
	text := e.what + ": " + e.why
	if e.probe != "" {
		text += "\n  last probe: " + e.probe
	}
	return withTail(text, e.tail)
}

const notServing = "does not serve"

// tailLines is how many lines of a log are told, and lookBack, in how many is looked for them,
// and for why an engine was lost: most may tell of requests.
const (
	tailLines = 20
	lookBack  = 2000
)

// tailWithin is how long last log lines are worth waiting for.
const tailWithin = 10 * time.Second

// longestLine is how much of a log is taken for one line, in bytes.
const longestLine = 256 << 10

// linesOf are the lines of a log, which is no long one.
func linesOf(logs io.ReadCloser, err error) (lines []string) {
	if err != nil {
		return nil
	}
	defer logs.Close()
	sc := bufio.NewScanner(io.LimitReader(logs, 4<<20))
	for sc.Buffer(nil, longestLine); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return lines
}

// withTail adds the last lines of a log that do not tell of requests.
func withTail(what string, tail []string) string {
	tail = slices.DeleteFunc(slices.Clone(tail), engines.AccessLine)
	tail = tail[max(len(tail)-tailLines, 0):]
	if len(tail) == 0 {
		return what
	}
	return what + "\n  last log lines:\n    " + strings.Join(tail, "\n    ")
}

// excerpt is the beginning and the end of a text, in whole lines where something
// between them is left out.
func excerpt(r io.Reader, begin, end int) (text []byte, err error) {
	left := 0
	for buf := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = r.Read(buf)
		text = append(text, buf[:n]...)
		if more := len(text) - begin - end; more > end || err != nil && more > 0 {
			text, left = slices.Delete(text, begin, begin+more), left+more
		}
	}
	if err == io.EOF {
		err = nil
	}
	if left > 0 {
		from := bytes.LastIndexByte(text[:begin], '\n') + 1
		to := begin + bytes.IndexByte(text[begin:], '\n') + 1
		text = slices.Replace(text, from, to, fmt.Appendf(nil, "… %d bytes are left out …\n", left+to-from)...)
	}
	return text, err
}
