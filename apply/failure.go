package apply

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"hclbench/provision"
)

// scope is how much of a run a failure costs. [trial.settle] decides what becomes of it.
type scope int

const (
	ofCell       scope = iota // the cell is void; the next one is measured
	ofStart                   // so is the cell, and the engine is started again for the next one
	ofDeployment              // all its cells that are left are void
	ofSender                  // the cells that are left wait for the next apply: their load cannot be sent
	ofHost                    // the work there ends
	ofRun                     // all work ends
)

// failure is why something could not be done, and how much it costs.
type failure struct {
	scope scope
	host  *provision.Host // the one to blame, of ofSender and ofHost; nil of the others
	err   error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed gives an error its scope, and the host that is to blame; nil stays nil.
func failed(of scope, h *provision.Host, err error) error {
	if err == nil {
		return nil
	}
	return &failure{of, h, err}
}

// failures are those that errors.Join has joined; an error without a scope gets one.
func failures(err error, without scope) (all []*failure) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok && errors.As(err, new(*failure)) {
		for _, e := range joined.Unwrap() {
			all = append(all, failures(e, without)...)
		}
		return all
	}
	f := new(failure)
	if !errors.As(err, &f) {
		f = &failure{scope: without, err: err}
	}
	return []*failure{f}
}

const senderLost = "its load is sent no more; the next apply measures it: %w"

// unusable is that a sender cannot be used, which its own error explains.
func unusable(sender *provision.Host) error {
	return failed(ofSender, sender, fmt.Errorf("%s, which its load is sent from, cannot be used; the next apply measures it", sender))
}

// errFull says that a host keeps nothing more of what is measured there.
var errFull = errors.New("its disk is full, and what is measured there is lost; " +
	"free some of what ~/.cache/hcl lies on, and the next apply goes on from here")

// full reports whether a host had no room for what came of a cell: those that follow
// would be measured for nothing.
func full(h *provision.Host, err error) error {
	if err == nil || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", h, errFull, err)
}
