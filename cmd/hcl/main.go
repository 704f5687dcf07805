// Command hcl provisions and benchmarks LLM inference engines.
//
// A verb is its flags, xVerb, and a function that a test can call, runX; its help is in the
// folder help. Nothing here measures, connects or decides: the rooms below do.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

var version = "dev"

func main() {
	ctx, interrupt := context.WithCancel(context.Background())
	catch(ctx, interrupt)
	stdout, stderr := &output{File: os.Stdout, left: interrupt}, &output{File: os.Stderr, left: interrupt}
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, stdout, stderr))
}

// catch has the first signal interrupt, which lets everything be taken down. After it
// the default is back for those that people send, so that a second one leaves at once.
// A terminal that goes away may tell so more than once: that is no second signal.
func catch(ctx context.Context, interrupt func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Stop(signals) })
	hangups := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(hangups, syscall.SIGHUP)
	}
	go func() {
		select {
		case <-signals:
		case <-hangups:
		case <-ctx.Done():
		}
		interrupt()
	}()
	// Without this a write to a reader who has left would end the process at once.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// errReaderLeft says that nobody reads any more what is printed.
var errReaderLeft = errors.New("the reader of the output has left")

// output is stdout or stderr. When its reader has left, that is an interruption: what
// runs is taken down, as after Ctrl-C.
type output struct {
	*os.File
	left func()
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.left()
		err = fmt.Errorf("%w: %w", errReaderLeft, err)
	}
	return n, err
}

// WriteString and ReadFrom are the file's own otherwise.
func (o *output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

func (o *output) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{o}, r)
}
