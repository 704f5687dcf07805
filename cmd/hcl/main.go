// Command hcl provisions and benchmarks LLM inference engines.
//
// A verb is its flags, xVerb, and a function that a test can call, runX; its help is in the
// folder help. Nothing here measures, connects or decides: the rooms below do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

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
