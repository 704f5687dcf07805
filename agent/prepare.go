package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"hclbench/provision"
	"hclbench/provision/look"
	"hclbench/provision/reach"
)

// What a host block has set on its host is put back by the agent, as the last thing
// that it does for a lease, so that it happens also when nobody is there to ask for
// it. What has to be put back stands in a file before anything is changed: an agent
// that is killed leaves it to the next one.

const preparedNote = "prepared"

// prepared is what stands in the file.
type prepared struct {
	Dir     string             `json:"dir"` // of the agent that has to put it back
	Changes []provision.Change `json:"changes"`
}

// preparing is what a caller wants to have set, and on what.
type preparing struct {
	GPUs    provision.GPUs    `json:"gpus"`
	Prepare provision.Prepare `json:"prepare"`
}

// settings are those of the machine that the agent has changed for a lease.
type settings struct {
	dir, cache string // the agent's own, and the one that hcl writes to on a host
	reserved   func() bool
	here       func(context.Context) (*reach.Conn, error)
	log        *slog.Logger

	changing sync.Mutex // held while they are changed or put back
}

// put sets what is wanted for as long as the lease lasts, and answers with the
// changes. What is changed already, by whomever, is put back before. Only who has
// reserved the machine may, or 409. What cannot be done is 422, with nothing changed.
func (s *settings) put(w http.ResponseWriter, r *http.Request) error {
	var want preparing
	if err := read(r, &want); err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.reserved() {
		return fail(http.StatusConflict, "the machine is not reserved")
	}
	c, err := s.here(r.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	c.Host().GPUs = want.GPUs
	if err := s.putBack(r.Context(), c, true); err != nil {
		return fail(http.StatusUnprocessableEntity, "%v", err)
	}
	if want.Prepare == (provision.Prepare{}) {
		return reply(w, []provision.Change{})
	}
	changes, err := look.Prepare(r.Context(), c, want.Prepare, func(all []provision.Change) error { return s.note(c, all) })
	if err != nil {
		back, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), downWithin)
		defer cancel()
		return fail(http.StatusUnprocessableEntity, "%v", errors.Join(err, s.putBack(back, c, true)))
	}
	for _, change := range changes {
		s.log.Info("changed", "setting", change.String())
	}
	return reply(w, changes)
}

// preparedFile is in the one directory that hcl writes to on a host.
func (s *settings) preparedFile(c *reach.Conn) string {
	return filepath.Join(cmp.Or(s.cache, s.dir), filepath.Base(noteOf(c, preparedNote)))
}

func (s *settings) note(c *reach.Conn, changes []provision.Change) error {
	if err := writeJSON(s.preparedFile(c), prepared{s.dir, changes}, 0o600); err != nil {
		return fmt.Errorf("note what has to be put back: %w", err)
	}
	return nil
}

// putBack puts back what was changed, if anything was: by an agent in this directory,
// or, with all, by any of this user's. The caller holds s.changing.
func (s *settings) putBack(ctx context.Context, c *reach.Conn, all bool) error {
	file := s.preparedFile(c)
	var p prepared
	err := readJSON(file, &p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what has to be put back: %w", err)
	}
	if p.Dir != s.dir && !all {
		return nil
	}
	if err := look.Restore(ctx, c, p.Changes); err != nil {
		return err
	}
	for _, change := range p.Changes {
		s.log.Info("put back", "setting", change.String())
	}
	return os.Remove(file)
}

// restore puts back what any agent of this user has left changed.
func (s *settings) restore(ctx context.Context) error { return s.back(ctx, true) }

// finish puts back what was changed for this agent's lease.
func (s *settings) finish(ctx context.Context) error { return s.back(ctx, false) }

func (s *settings) back(ctx context.Context, all bool) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	c, err := s.here(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return s.putBack(ctx, c, all)
}

// ReadPrepared returns what of the host's settings is changed now, for whatever lab of
// this user, or was by an agent that was killed.
func ReadPrepared(ctx context.Context, c *reach.Conn) ([]provision.Change, error) {
	p, err := readNote[prepared](ctx, c, noteOf(c, preparedNote))
	if err != nil || p == nil {
		return nil, err
	}
	return p.Changes, nil
}

// Prepare has the agent set what the host's block wants for as long as the lease lasts, and
// returns what was changed. The lease has to reserve the machine.
func (a *Client) Prepare(ctx context.Context) (changes []provision.Change, err error) {
	if a.host.Prepare == nil {
		return nil, nil
	}
	want := preparing{GPUs: a.host.GPUs, Prepare: *a.host.Prepare}
	err = a.insist(ctx, func() error { return a.call(ctx, "PUT", "/v1/prepare", want, &changes) })
	return changes, err
}
