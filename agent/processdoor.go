package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"hclbench/provision"
)

// What callers ask about processes.

func (p *processes) list(w http.ResponseWriter, r *http.Request) error {
	return reply(w, p.found())
}

func (p *processes) find(r *http.Request) (*process, error) {
	if pr := p.get(r.PathValue("name")); pr != nil {
		return pr, nil
	}
	return nil, fail(http.StatusNotFound, "there is no such process")
}

func (p *processes) state(w http.ResponseWriter, r *http.Request) error {
	pr, err := p.find(r)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	st := provision.State{
		Running: pr.Finished.IsZero(), ExitCode: pr.ExitCode, OOMKilled: pr.OOMKilled,
		Started: pr.Started, Finished: pr.Finished,
	}
	if st.Running {
		st.PID = pr.PID
	}
	return reply(w, st)
}

// logs sends the log: with ?tail=N its last N lines, with ?follow=1 what
// comes until the process has ended.
func (p *processes) logs(w http.ResponseWriter, r *http.Request) error {
	pr, err := p.find(r)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(pr.dir, logName))
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := strconv.Atoi(r.URL.Query().Get("tail")); err == nil && n >= 0 {
		if err := seekTail(f, n); err != nil {
			return err
		}
	}
	rc := http.NewResponseController(w)
	tick := time.NewTicker(processPoll)
	defer tick.Stop()
	for ended := false; ; {
		if _, err := io.Copy(w, f); err != nil || rc.Flush() != nil || ended || r.URL.Query().Get("follow") == "" {
			return nil
		}
		select {
		case <-pr.done:
			ended = true // once more, for what was written last
		case <-r.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// seekTail moves f to its last n lines, looking at no more than 1 MiB.
func seekTail(f *os.File, n int) error {
	const most = 1 << 20
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	from := max(end-most, 0)
	b := make([]byte, end-from)
	if _, err := f.ReadAt(b, from); err != nil && err != io.EOF {
		return err
	}
	at := len(bytes.TrimSuffix(b, []byte("\n")))
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(b[:at], '\n')
	}
	_, err = f.Seek(from+int64(min(at+1, len(b))), io.SeekStart)
	return err
}

// headerWritten is when a file was written, more exactly than Last-Modified has it.
const headerWritten = "Hcl-Written"

// file answers with a file that the process has written into its own directory.
func (p *processes) file(w http.ResponseWriter, r *http.Request) error {
	pr, err := p.find(r)
	if err != nil {
		return err
	}
	name := filepath.Base(r.PathValue("file")) // nothing outside of the directory
	f, err := os.Open(filepath.Join(pr.dir, name))
	if err != nil {
		return fail(http.StatusNotFound, "the process has written no file %s", name)
	}
	defer f.Close()
	found, err := f.Stat()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(headerWritten, found.ModTime().Format(time.RFC3339Nano))
	if _, err := io.Copy(w, f); err != nil {
		p.log.Warn("send a file of a process", "name", pr.Name, "file", name, "err", err)
	}
	return nil
}

// Processes runs engines as processes of the agent: what [docker.Daemon] does for containers.
type Processes struct{ *Client }

// Start starts the container's command as a process and returns its name.
func (p Processes) Start(ctx context.Context, ct provision.Container) (string, error) {
	return p.start(ctx, provision.Process, ct)
}

// State says what the process is doing.
// [provision.ErrNoContainer] when the agent does not know it, or not any more.
func (p Processes) State(ctx context.Context, name string) (provision.State, error) {
	var st provision.State
	err := p.call(ctx, "GET", "/v1/processes/"+url.PathEscape(name), nil, &st)
	if unknown(err) {
		err = fmt.Errorf("%w: %w", provision.ErrNoContainer, err)
	}
	return st, err
}

// Logs returns the last tail lines of what the process has written (all of it
// for a negative tail) and, when following, what comes until it has ended.
func (p Processes) Logs(ctx context.Context, name string, follow bool, tail int) (io.ReadCloser, error) {
	q := "?tail=" + strconv.Itoa(tail)
	if follow {
		q += "&follow=1"
	}
	resp, err := p.open(ctx, "GET", "/v1/processes/"+url.PathEscape(name)+"/logs"+q, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body.(*bounded).ReadCloser, nil // which is passed on, and kept nowhere
}

// ReadFile reads a file that the process has written into its own directory, while
// [Processes.Stop] has not removed that. written is when that was last, by the host's clock.
func (p Processes) ReadFile(ctx context.Context, name, file string) (text []byte, written time.Time, err error) {
	resp, err := p.open(ctx, "GET", "/v1/processes/"+url.PathEscape(name)+"/files/"+url.PathEscape(file), nil)
	if err != nil {
		return nil, written, err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err == nil {
		written, err = time.Parse(time.RFC3339Nano, resp.Header.Get(headerWritten))
	}
	if err != nil {
		return nil, written, fmt.Errorf("agent on %s: read %s: %w", p.host, file, err)
	}
	return text, written, nil
}

// List returns the processes that carry all the labels, ended ones too.
func (p Processes) List(ctx context.Context, labels map[string]string) ([]provision.Found, error) {
	var all []provision.Found
	if err := p.call(ctx, "GET", "/v1/processes", nil, &all); err != nil {
		return nil, err
	}
	lacks := func(f provision.Found) bool {
		for k, v := range labels {
			if f.Labels[k] != v {
				return true
			}
		}
		return false
	}
	return slices.DeleteFunc(all, lacks), nil
}
