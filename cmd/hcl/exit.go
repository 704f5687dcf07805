package main

import (
	"context"
	"errors"
	"fmt"

	"hclbench/provision"
)

// The exit codes are part of the interface; every verb's help names its own.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitCells       = 3
	exitContract    = 4
	exitUnclean     = 5
	exitToDo        = 6 // plan --detailed-exitcode alone: nothing else may look like it
	exitInterrupted = 130
	exitReaderLeft  = 141 // as of a program that dies of it
)

// exit is an error with an exit code of its own. A nil err has been printed.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// exitOf is the exit code for what a verb came to, and whether its error is still to be
// shown.
func exitOf(ctx context.Context, err error) (code int, shown bool) {
	if err == nil {
		return exitDone, true
	}
	code = exitFailed
	var e *exit
	if errors.As(err, &e) {
		code = e.code
	}
	if ctx.Err() != nil {
		code = exitInterrupted
	}
	if errors.As(err, new(*provision.UncleanError)) { // whatever else: somebody has to look at it
		code = exitUnclean
	}
	if errors.Is(err, errReaderLeft) && code == exitInterrupted {
		return exitReaderLeft, true
	}
	return code, e != nil && e.err == nil
}
