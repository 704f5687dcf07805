package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"hclbench/provision"
	"hclbench/provision/reach"
)

// transport runs commands in a pod by exec. Each is a connection of its own, so that nothing has to be
// dialled again.
type transport struct {
	*Pod
	spdy atomic.Bool // what stands before the API server lets no WebSocket through
	life context.Context
	end  context.CancelFunc
}

// Transport is how the pod is reached, for [reach.Through].
func (p *Pod) Transport() reach.Transport {
	t := &transport{Pod: p}
	t.life, t.end = context.WithCancel(context.Background())
	return t
}

func (t *transport) Close() error {
	t.end()
	return nil
}

func (t *transport) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, provision.Wrap(t.host, "dial from pod "+t.name, reach.ErrNotForwarded)
}

func (t *transport) Listen(context.Context) (net.Listener, error) {
	return nil, provision.Wrap(t.host, "listen in pod "+t.name, reach.ErrNotForwarded)
}

// Run runs a command in the pod. What is given up is killed there: an exec that nobody listens to
// any more would go on.
func (t *transport) Run(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(t.life, func() { stop(net.ErrClosed) })()
	out, told := reach.NewOutput(stdout, stop), reach.NewOutput(stderr, nil)
	streams := remotecommand.StreamOptions{Stdin: stdin, Stdout: out, Stderr: told}
	going, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	ended := make(chan error, 1)
	go func() { ended <- t.begin(ctx, going, command, streams, out) }()
	var err error
	select {
	case err = <-ended:
		if _, ran := err.(*reach.CommandError); ran || err == nil {
			return err
		}
	case <-ctx.Done():
		err = t.giveUp(out, ended)
		out.Drop()
		told.Drop()
	}
	if cause := context.Cause(ctx); cause != nil && !(errors.Is(cause, context.DeadlineExceeded) && away(err)) {
		err = cause // of one that ran out of time, what it waited for says more
	}
	return provision.Wrap(t.host, "run "+reach.ShortCommand(command), err)
}

// giveUp kills what has begun, or begins just now; of what did not, the error says why.
func (t *transport) giveUp(out *reach.Output, ended <-chan error) error {
	select {
	case <-out.Known():
	case err := <-ended:
		return err
	case <-time.After(reach.KillDelay):
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*reach.KillDelay)
	defer cancel()
	kill := reach.KillCommand(out.Number())
	_ = t.exec(ctx, []string{"sh", "-c", kill}, remotecommand.StreamOptions{Stdout: io.Discard, Stderr: io.Discard})
	return nil
}

// begin starts a command, once more where the API server was away before that, and says how it ended.
func (t *transport) begin(
	ctx, going context.Context, command string, streams remotecommand.StreamOptions, out *reach.Output,
) error {
	words, before := marked(command)
	if before != "" {
		if streams.Stdin == nil {
			streams.Stdin = strings.NewReader(before)
		} else {
			streams.Stdin = io.MultiReader(strings.NewReader(before), streams.Stdin)
		}
	}
	var err error
	for until := time.Now().Add(t.client.patience.away); ; {
		err = t.exec(going, words, streams)
		if !notDialled(err) || time.Now().After(until) || !t.client.pause(ctx) {
			break
		}
	}
	exit, exited := errors.AsType[exec.CodeExitError](err)
	code := exit.Code
	if code < lastCode {
		code--
	}
	switch {
	case err == nil:
		err = io.ErrUnexpectedEOF // it was closed, and said nothing of how the command ended
	case !exited || !out.Begun():
	case code == 0:
		return nil
	default:
		return &reach.CommandError{Host: t.host.String(), Command: command, ExitCode: code}
	}
	return t.failed(going, err, out.Begun())
}

const (
	noNodeIn = "node %s does not take commands for pod %s: %s: its kubelet, or the way to it, is down"
	cutOff   = "the connection to pod %s was lost while it ran: %w"
	notBegun = "pod %s does not begin it: %w: %s shows more"
)

// failed says why a command did not run to its end: because of the pod, or of the way to it.
func (t *transport) failed(ctx context.Context, err error, begun bool) error {
	if ctx.Err() != nil {
		return err
	}
	s := refusalOf(err)
	if s != nil && (s.Code == http.StatusUnauthorized || s.Code == http.StatusForbidden) {
		return t.client.refused(s)
	}
	now, gone := t.State(ctx)
	if gone == nil && !now.Finished.IsZero() {
		gone = t.lost("it has ended")
	}
	if errors.Is(gone, provision.ErrPodLost) || errors.Is(gone, provision.ErrAuth) {
		return gone
	}
	if begun {
		return provision.Fail(t.host, provision.ErrUnreachable, cutOff, t.name, err)
	}
	if notDialled(err) {
		return t.client.unreached(err)
	}
	if s != nil {
		if _, why, ok := strings.Cut(s.Error(), `": dial `); ok { // all that was asked of the node stands before
			return provision.Fail(t.host, provision.ErrUnreachable, noNodeIn, t.node, t.name, "dial "+why)
		}
	}
	show := t.client.byHand("describe pod %s", t.name)
	return provision.Fail(t.host, provision.ErrUnreachable, notBegun, t.name, err, show)
}

// notDialled reports whether the API server was not there: nothing has begun.
func notDialled(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// longest is how long a command may be in the address of a request, for which proxies have bounds.
const longest = 2 << 10

// lastCode is the last that a program can end with.
const lastCode = 255

// marked is a command that first prints the number of its process, which is its group's as well, and
// ends with the code after its own, if there is one: a connection that was merely closed looks as code
// 0. A long command comes from standard input, before what it reads there itself.
func marked(command string) (words []string, before string) {
	const run = reach.SayNumber + `; %s; c=$?; [ $c = 255 ] || c=$((c+1)); exit $c`
	if len(command) <= longest {
		return []string{"sh", "-c", fmt.Sprintf(run, `sh -c "$0"`), command}, ""
	}
	read := fmt.Sprintf(`sh -c "$(dd bs=1 count=%d 2>/dev/null)"`, len(command))
	return []string{"sh", "-c", fmt.Sprintf(run, read)}, command
}

// exec runs words in the pod, by a WebSocket, or by SPDY where that does not get through.
func (t *transport) exec(ctx context.Context, words []string, streams remotecommand.StreamOptions) error {
	ctx = klog.NewContext(ctx, klog.Logger{}) // silent
	at := *t.client.base
	at.Path = strings.TrimSuffix(at.Path, "/") + t.client.in("pods/"+t.name+"/exec")
	at.RawQuery = url.Values{
		"container": {container}, "command": words, "stdout": {"true"}, "stderr": {"true"},
		"stdin": {strconv.FormatBool(streams.Stdin != nil)},
	}.Encode()
	var first error
	if !t.spdy.Load() {
		socket, err := remotecommand.NewWebSocketExecutor(t.client.config, http.MethodGet, at.String())
		if err != nil {
			return err
		}
		err = socket.StreamWithContext(ctx, streams)
		kept := httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		if s := refusalOf(err); !kept || s != nil && s.Code == http.StatusNotFound {
			return err
		}
		first = err
	}
	old, err := remotecommand.NewSPDYExecutor(t.client.config, http.MethodPost, &at)
	if err != nil {
		return err
	}
	err = old.StreamWithContext(ctx, streams)
	if _, ended := errors.AsType[exec.CodeExitError](err); err != nil && !ended {
		return cmp.Or(first, err) // which says why, where that is known
	}
	t.spdy.Store(true)
	return err
}

// refusalOf is what the API server has answered instead of a connection; nil when it was something else.
func refusalOf(err error) *status {
	if failed, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		err = failed.Cause
	}
	if api, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return &status{int(api.ErrStatus.Code), string(api.ErrStatus.Reason), api.ErrStatus.Message}
	}
	return nil
}
