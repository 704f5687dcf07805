package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// Unclean is what a host is left with that could not be cleaned. It is kept on
// the host, so that whoever comes next is told, whatever has become of the caller.
type Unclean struct {
	Time   time.Time        `json:"time"`
	Lab    string           `json:"lab"`
	Run    string           `json:"run"`
	Holder string           `json:"holder"`
	Left   []string         `json:"left"`   // what, and what holds it
	Traces provision.Traces `json:"traces"` // what to look for, to see whether it is gone
}

func uncleanFile(c *reach.Conn) string { return noteOf(c, "unclean") }

// markUnclean notes that the tear-down of a run has failed with err, beside what earlier ones have left.
func (s *server) markUnclean(ctx context.Context, l Lease, failed error) error {
	u := Unclean{Time: time.Now(), Lab: l.Lab, Run: l.Run, Holder: l.Holder, Traces: s.claim.traces(), Left: []string{failed.Error()}}
	if unclean, ok := errors.AsType[*provision.UncleanError](failed); ok {
		u.Left = unclean.Left
	}
	c, err := s.claim.dialHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if was, err := ReadUnclean(ctx, c); err == nil && was != nil {
		u.Traces = bothTraces(was.Traces, u.Traces)
		for _, left := range was.Left {
			if !slices.Contains(u.Left, left) {
				u.Left = append(u.Left, left)
			}
		}
	}
	file := uncleanFile(c)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), writeJSON(file, u, 0o600)); err != nil {
		return fmt.Errorf("note that the host is unclean: %w", err)
	}
	return nil
}

// bothTraces are the traces of two runs, which may be those of two labs; how the GPUs were before is known from the
// older of them.
func bothTraces(older, newer provision.Traces) provision.Traces {
	older.Containers = union(older.Containers, newer.Containers)
	older.Ports = union(older.Ports, newer.Ports)
	older.Marks = union(older.Marks, newer.Marks)
	if len(older.Before.Memory) == 0 {
		older.Before = newer.Before
	}
	return older
}

// union is what two lists have, once.
func union[T cmp.Ordered](a, b []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// ReadUnclean returns what an earlier run has left on the host, nil for nothing.
func ReadUnclean(ctx context.Context, c *reach.Conn) (*Unclean, error) {
	return readNote[Unclean](ctx, c, uncleanFile(c))
}

// readNote reads what hcl has noted in a file on the host; nil for nothing.
func readNote[T any](ctx context.Context, c *reach.Conn, file string) (*T, error) {
	out, err := c.Run(ctx, fmt.Sprintf("if test -e %[1]s; then cat %[1]s; fi", plain.Quote(file)), nil)
	if err != nil || strings.TrimSpace(out) == "" {
		return nil, err
	}
	note := new(T)
	if err := json.Unmarshal([]byte(out), note); err != nil {
		return nil, fmt.Errorf("%s: read %s there: %w", c.Host(), file, err)
	}
	return note, nil
}

// downWithin bounds how long an agent whose time is over takes for cleaning up, and
// sweepWithin, how much of that for a Docker daemon that does not answer.
const (
	downWithin  = 5 * time.Minute
	sweepWithin = downWithin - time.Minute
)

// begun is what a caller finds that has taken the lease.
type begun struct {
	Removed []provision.Found `json:"removed,omitempty"` // of earlier runs
	Was     *Unclean          `json:"was,omitempty"`     // that an earlier run had left, and that is gone by now
	Use     provision.GPUUse  `json:"use"`               // of the GPUs, before anything is made
}

// begin readies the host for the run that has taken the lease: what earlier runs of this agent's directory have
// left is ended and proved to be gone, and settings are put back. It may be asked again.
func (s *server) begin(w http.ResponseWriter, r *http.Request) error {
	s.claim.beginning.Lock()
	defer s.claim.beginning.Unlock()
	held := s.lessor.current()
	if held == nil {
		return fail(http.StatusConflict, "nobody has taken the lease")
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(r.Context()), s.claim.mostGrace()+downWithin)
	defer done()
	s.jobs.endOthers(held.Run)
	var said begun
	var err error
	said.Removed, _, err = s.claim.end(ctx, extent{of: func(run string) bool { return run != held.Run }})
	if err != nil {
		by := Lease{Lab: held.Lab, Holder: "a caller of the same store"}
		for _, f := range said.Removed {
			by.Run = f.Labels[provision.LabelRun] // the one that has left it
		}
		return faultOf(errors.Join(err, s.markUnclean(ctx, by, err)))
	}
	if !held.Reserve {
		return reply(w, said)
	}
	if err := s.settings.restore(ctx); err != nil {
		return &fault{Kind: provision.ErrSettings.Error(), Text: err.Error()}
	}
	c, err := s.claim.dialHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if said.Was, err = stillUnclean(ctx, c); err != nil {
		return faultOf(err)
	}
	if said.Use, err = s.claim.baseline(ctx, c, len(said.Removed) > 0); err != nil {
		return faultOf(err)
	}
	return reply(w, said)
}

// stillUnclean forgets what an earlier run could not clean, if it is gone by now.
func stillUnclean(ctx context.Context, c *reach.Conn) (was *Unclean, err error) {
	u, err := ReadUnclean(ctx, c)
	if err != nil || u == nil {
		return nil, err
	}
	if _, err := look.ProveGone(ctx, c, u.Traces, 0); err != nil {
		by := fmt.Sprintf("run %s of lab %s (%s, %s) has left something: ", u.Run, u.Lab, u.Holder, u.Time.Local().Format(time.DateTime))
		var left []string
		for _, what := range leftOf(err) {
			left = append(left, by+what)
		}
		return nil, &provision.UncleanError{Host: c.Host(), Left: left}
	}
	return u, os.Remove(uncleanFile(c))
}

// clean does what is asked when somebody ends a claim for good: what earlier tear-downs have left is looked at again, or
// forgotten.
func (s *server) clean(ctx context.Context, by ending, left error) error {
	c, err := s.claim.dialHere(ctx)
	if err != nil {
		return uncleanOf(left, err)
	}
	defer c.Close()
	if by.Force {
		if err := os.Remove(uncleanFile(c)); err != nil && !errors.Is(err, os.ErrNotExist) {
			left = uncleanOf(left, err)
		}
	} else if _, err := stillUnclean(ctx, c); err != nil {
		left = uncleanOf(left, err)
	}
	if by.Cache && left == nil {
		return s.cache.clear(0)
	}
	return left
}
