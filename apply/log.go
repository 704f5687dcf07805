package apply

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

// Of a log its beginning is kept, which says how the engine came up, and its end.
const (
	logBegin = 256 << 10
	logEnd   = 1 << 20
	logTime  = 30 * time.Second // to read it
)

// keepLog keeps what an instance has said with the run, before it is removed, and
// without the secrets of the run. A log that cannot be read is no reason to
// leave an engine running.
func (s *site) keepLog(ctx context.Context, rt runtime, id, engine string) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	log, err := rt.Logs(ctx, id, false, -1)
	if err != nil {
		s.debug("the log is not kept", engine, err)
		return
	}
	defer log.Close()
	text, err := excerpt(log, logBegin, logEnd)
	if len(text) > 0 {
		name := fmt.Sprintf("logs/%s-%s.log", engine, time.Now().UTC().Format("20060102-150405.000"))
		err = s.store.PutInputs(ctx, s.opt.Run.ID, map[string][]byte{name: []byte(s.secrets.Text(string(text)))})
	}
	if err != nil {
		s.debug("the log is not kept whole", engine, err)
	}
}

// excerpt is the beginning and the end of a text, in whole lines where something
// between them is left out.
func excerpt(r io.Reader, begin, end int) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(r, int64(begin)))
	if err != nil || len(head) < begin {
		return head, err
	}
	var tail []byte
	left := 0
	for buf := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = r.Read(buf)
		tail = append(tail, buf[:n]...)
		if more := len(tail) - end; more > end {
			tail, left = append([]byte(nil), tail[more:]...), left+more
		}
	}
	if err == io.EOF {
		err = nil
	}
	if more := len(tail) - end; more > 0 {
		tail, left = tail[more:], left+more
	}
	if left > 0 {
		whole := bytes.LastIndexByte(head, '\n') + 1
		first := bytes.IndexByte(tail, '\n') + 1
		left += len(head) - whole + first
		head = fmt.Appendf(head[:whole:whole], "… %d bytes are left out …\n", left)
		tail = tail[first:]
	}
	return append(head, tail...), err
}
