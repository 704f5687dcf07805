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
	ofTrial                   // the cells that are left wait for the next apply: no load can be sent, or their pod is lost
	ofHost                    // the work there ends
	ofRun                     // all work ends
)

// failure is why something could not be done, and how much it costs.
type failure struct {
	scope scope
	host  *provision.Host // the one to blame, of ofTrial and ofHost; nil of the others
	err   error
	came  progress // how far its deployment had come; of a cell and of what [trial.settle] has not seen: 0
}

// progress is how far a deployment has come.
type progress int

const (
	preparing progress = iota // files, model and images
	launching                 // its ports have to be free, and its containers or processes are made
	running                   // it speaks for itself
)

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed gives an error its scope, and the host that is to blame; nil stays nil.
func failed(of scope, h *provision.Host, err error) error {
	if err == nil {
		return nil
	}
	return &failure{scope: of, host: h, err: err}
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

// full reports whether a host had no room for what came of a cell: those that follow
// would be measured for nothing.
func full(h *provision.Host, err error) error {
	if err == nil || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return nil
	}
	return fmt.Errorf("%s: its disk is full, and what is measured there is lost; make room on the disk of ~/.cache/hcl, "+
		"and the next apply goes on from here: %w", h, err)
}
