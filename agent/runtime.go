package agent

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"hclbench/provision"
)

// Processes runs engines as processes of the agent: what
// [docker.Daemon] does for containers.
type Processes struct{ *Client }

// Start starts the container's command as a process and returns its name.
func (p Processes) Start(ctx context.Context, ct provision.Container) (string, error) {
	spec := processSpec{Labels: ct.Labels, StopSignal: ct.StopSignal, StopGrace: ct.StopGrace}
	for _, w := range slices.Concat(ct.Entrypoint, ct.Command) {
		spec.Argv = append(spec.Argv, w.Reveal())
	}
	for _, v := range ct.Env {
		spec.Env = append(spec.Env, v.Name+"="+v.Value.Reveal())
	}
	for _, f := range ct.Files {
		if spec.Files == nil {
			spec.Files = map[string]string{}
		}
		spec.Files[f.Name] = f.Text.Reveal()
	}
	return ct.Name, p.call(ctx, "PUT", "/v1/processes/"+url.PathEscape(ct.Name), spec, nil)
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
	return resp.Body, nil
}

// ReadFile reads a file that the process has written into its own directory, while
// [Processes.Stop] has not removed that.
// written is when that was last, by the host's clock.
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

// Stop stops the process: its stop signal, grace, SIGKILL. One that is not there
// is stopped.
func (p Processes) Stop(ctx context.Context, name string, grace time.Duration) error {
	return p.call(ctx, "DELETE", "/v1/processes/"+url.PathEscape(name)+"?grace="+grace.String(), nil, nil)
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
