package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/provision"
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

// MarkUnclean notes on the host that the tear-down of a run has failed with err.
func MarkUnclean(ctx context.Context, c *reach.Conn, l Lease, traces provision.Traces, err error) error {
	u := Unclean{Time: time.Now(), Lab: l.Lab, Run: l.Run, Holder: l.Holder, Traces: traces}
	if unclean := new(provision.UncleanError); errors.As(err, &unclean) {
		u.Left = unclean.Left
	} else {
		u.Left = []string{err.Error()}
	}
	b, err := json.Marshal(u)
	if err != nil {
		return err
	}
	file := uncleanFile(c)
	_, err = c.Run(ctx, fmt.Sprintf("umask 077 && mkdir -p %s && cat >%[2]s.new && mv %[2]s.new %[2]s", plain.Quote(path.Dir(file)), plain.Quote(file)), bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("note that the host is unclean: %w", err)
	}
	return nil
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

// ForgetUnclean removes the note.
func ForgetUnclean(ctx context.Context, c *reach.Conn) error {
	_, err := c.Run(ctx, "rm -f "+plain.Quote(uncleanFile(c)), nil)
	return err
}
