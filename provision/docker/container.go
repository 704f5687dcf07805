package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"hclbench/plain"
	"hclbench/provision"
)

// Name is what a container is called; "" where that is not known.
func (d *Daemon) Name(ctx context.Context, id string) string {
	found, err := d.inspect(ctx, id)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(found.Name, "/")
}

func (d *Daemon) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	found, err := query(ctx, d, func(api *client.Client, ctx context.Context) (container.InspectResponse, error) {
		return api.ContainerInspect(ctx, id)
	})
	return found, absent(err)
}

// absent marks the daemon's answer that it knows no such container.
func absent(err error) error {
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("%w (%w)", provision.ErrNoContainer, err)
	}
	return err
}

// State says what a container is doing. [provision.ErrNoContainer] when it is gone.
func (d *Daemon) State(ctx context.Context, id string) (provision.State, error) {
	doing := "inspect container " + provision.ShortID(id)
	found, err := d.inspect(ctx, id)
	if err != nil {
		return provision.State{}, d.wrap(doing, err)
	}
	s := found.State
	started, startErr := time.Parse(time.RFC3339Nano, s.StartedAt)
	finished, finishErr := time.Parse(time.RFC3339Nano, s.FinishedAt)
	if err := errors.Join(startErr, finishErr); err != nil {
		return provision.State{}, d.wrap(doing, err)
	}
	return provision.State{
		Running: s.Running, PID: s.Pid, ExitCode: s.ExitCode, OOMKilled: s.OOMKilled, Error: plain.Line(s.Error),
		Started: started, Finished: finished,
	}, nil
}

// Wait waits until a container does not run, and returns its state then.
// [provision.ErrNoContainer] when it is gone.
func (d *Daemon) Wait(ctx context.Context, id string) (provision.State, error) {
	if err := d.wait(ctx, id, container.WaitConditionNotRunning); err != nil {
		return provision.State{}, d.wrap("wait for container "+provision.ShortID(id), err)
	}
	return d.State(ctx, id)
}

func (d *Daemon) wait(ctx context.Context, id string, until container.WaitCondition) error {
	api, err := d.api(ctx)
	if err != nil {
		return err
	}
	ended, failed := api.ContainerWait(ctx, id, until)
	select {
	case <-ended:
		return nil
	case err := <-failed: // when ctx ends, too
		return absent(err)
	}
}

// List finds every container that has all those labels, stopped ones too, sorted by name. At least
// one label is needed: nobody asks for all of a host by intention.
func (d *Daemon) List(ctx context.Context, labels map[string]string) ([]provision.Found, error) {
	if len(labels) == 0 {
		return nil, fmt.Errorf("%s: list containers: no label was given", d.host)
	}
	wanted := filters.NewArgs()
	for k, v := range labels {
		wanted.Add("label", k+"="+v)
	}
	var listed []container.Summary
	err := d.whenBack(ctx, func() (err error) {
		listed, err = query(ctx, d, func(api *client.Client, ctx context.Context) ([]container.Summary, error) {
			return api.ContainerList(ctx, container.ListOptions{All: true, Filters: wanted})
		})
		return err
	})
	if err != nil {
		return nil, d.wrap("list containers", err)
	}
	found := make([]provision.Found, 0, len(listed))
	for _, l := range listed {
		f := provision.Found{
			ID: plain.Line(l.ID), Image: plain.Line(l.Image), Labels: map[string]string{}, State: plain.Line(l.State),
		}
		for k, v := range l.Labels {
			f.Labels[k] = plain.Line(v)
		}
		if len(l.Names) > 0 {
			f.Name = plain.Line(strings.TrimPrefix(l.Names[0], "/"))
		}
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b provision.Found) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return found, nil
}

const execPoll = 100 * time.Millisecond

// Exec runs a program in a running container and waits for its end. What it has to
// say it writes to a file there, for [Daemon.ReadFile]. An exit status other than 0
// is an error. When ctx ends the program is left alone.
func (d *Daemon) Exec(ctx context.Context, id string, argv []string) error {
	doing := "run " + argv[0] + " in container " + provision.ShortID(id)
	api, err := d.api(ctx)
	if err != nil {
		return d.wrap(doing, err)
	}
	created, err := api.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: argv})
	if err != nil {
		return d.wrap(doing, absent(err))
	}
	// Detached: the library takes over a connection for what is attached, and would
	// not ask us for it.
	if err := api.ContainerExecStart(ctx, created.ID, container.ExecStartOptions{Detach: true}); err != nil {
		return d.wrap(doing, err)
	}
	poll := time.NewTicker(execPoll)
	defer poll.Stop()
	for {
		state, err := api.ContainerExecInspect(ctx, created.ID)
		switch {
		case err != nil:
			return d.wrap(doing, err)
		case !state.Running && state.ExitCode != 0:
			return d.wrap(doing, fmt.Errorf("exit status %d", state.ExitCode))
		case !state.Running:
			return nil
		}
		select {
		case <-ctx.Done():
			return d.wrap(doing, context.Cause(ctx))
		case <-poll.C:
		}
	}
}

func (d *Daemon) bringFiles(ctx context.Context, id string, files []provision.File) error {
	if len(files) == 0 {
		return nil
	}
	archive, err := packFiles(files)
	if err == nil {
		_, err = query(ctx, d, func(api *client.Client, ctx context.Context) (none struct{}, err error) {
			return none, api.CopyToContainer(ctx, id, "/", bytes.NewReader(archive), container.CopyToContainerOptions{})
		})
	}
	if err != nil {
		return fmt.Errorf("bring its files into it: %w", err)
	}
	return nil
}

// packFiles is the archive of files and their directory. Whoever the engine runs as
// must be able to read them; in the container there is nobody else.
func packFiles(files []provision.File) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: provision.FilesDir[1:] + "/", Mode: 0o755})
	for _, f := range files {
		text := f.Text.Reveal()
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: provision.FilesDir[1:] + "/" + f.Name,
				Mode: 0o444, Size: int64(len(text))})
		}
		if err == nil {
			_, err = w.Write([]byte(text))
		}
	}
	return archive.Bytes(), errors.Join(err, w.Close())
}

// maxFile bounds what [Daemon.ReadFile] reads: results of a benchmark, never data.
const maxFile = 64 << 20

// ReadFile reads a file in a container, which may have ended. A file that is not
// there is an error that names it. written is when it was last, by the host's clock.
func (d *Daemon) ReadFile(ctx context.Context, id, path string) (text []byte, written time.Time, err error) {
	doing := "read " + path + " in container " + provision.ShortID(id)
	api, err := d.api(ctx)
	if err != nil {
		return nil, written, d.wrap(doing, err)
	}
	archive, stat, err := api.CopyFromContainer(ctx, id, path)
	if err != nil {
		return nil, written, d.wrap(doing, err)
	}
	defer archive.Close()
	files := tar.NewReader(archive)
	found, err := files.Next()
	if err == nil && (found.Typeflag != tar.TypeReg || found.Size > maxFile) {
		err = fmt.Errorf("it is no file of at most %d MiB", maxFile>>20)
	}
	if err == nil {
		text, err = io.ReadAll(files)
	}
	if err != nil {
		return nil, written, d.wrap(doing, err)
	}
	return text, stat.Mtime, nil
}

// Logs reads what a container has written, in the order in which Docker got it: the last tail lines,
// or all for a negative tail. With follow it goes on until the container ends, which is io.EOF; a
// lost connection is [provision.ErrUnreachable]. ctx bounds the reading as well; Close ends it.
func (d *Daemon) Logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error) {
	doing := "read log of container " + provision.ShortID(id)
	lines := "all"
	if tail >= 0 {
		lines = strconv.Itoa(tail)
	}
	api, err := d.api(ctx)
	if err != nil {
		return nil, d.wrap(doing, err)
	}
	framed, err := api.ContainerLogs(ctx, id,
		container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow, Tail: lines})
	if err != nil {
		return nil, d.wrap(doing, absent(err))
	}
	return &logReader{framed: framed, wrap: func(err error) error { return d.wrap(doing, err) }}, nil
}

// logReader reads a log out of Docker's framing: one byte that names the stream, three that mean
// nothing, and a length in four. The library makes room for whatever length a daemon says.
type logReader struct {
	framed io.ReadCloser
	wrap   func(error) error
	left   int64 // of the part that is being read
}

func (r *logReader) Read(p []byte) (n int, err error) {
	for err == nil && r.left == 0 {
		r.left, err = nextPart(r.framed)
	}
	if err == nil {
		n, err = r.framed.Read(p[:min(int64(len(p)), r.left)])
		r.left -= int64(n)
		if err == io.EOF {
			err = nil // the next part will tell, if there should be more of this one
			if r.left > 0 {
				err = io.ErrUnexpectedEOF
			}
		}
	}
	if err != nil && err != io.EOF {
		err = r.wrap(err)
	}
	return n, err
}

func (r *logReader) Close() error { return r.framed.Close() }

func nextPart(framed io.Reader) (int64, error) {
	const systemError = 3
	var header [8]byte
	if _, err := io.ReadFull(framed, header[:]); err != nil {
		return 0, err
	}
	length := int64(binary.BigEndian.Uint32(header[4:]))
	switch stream := header[0]; {
	case stream == systemError:
		said, err := io.ReadAll(io.LimitReader(framed, min(length, 4<<10)))
		return 0, errors.Join(fmt.Errorf("the Docker daemon cannot read on: %s", plain.Line(string(said))), err)
	case stream > systemError:
		return 0, fmt.Errorf("the Docker daemon's log has a stream %d, which hcl does not know", stream)
	}
	return length, nil
}
