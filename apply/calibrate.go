package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/plain"
)

// Calibrate runs "hcl calibrate" with these flags on every host of the scope,
// side by side, and returns what it printed, by the host's name. A host where
// somebody is at work is left alone: both would be disturbed.
func Calibrate(ctx context.Context, scope Scope, opt Options, flags ...string) (map[string]string, error) {
	opt = opt.filled()
	found, errs := visit(ctx, scope.Hosts, opt, func(ctx context.Context, c reached) (string, error) {
		if err := unused(ctx, c, scope.Lab); err != nil {
			return "", err
		}
		remote, err := agent.Install(ctx, c.conn, opt.Binaries, opt.Log)
		if err != nil {
			return "", err
		}
		late := fmt.Errorf("it has not ended within %s", calibrateWithin)
		ctx, cancel := context.WithTimeoutCause(ctx, calibrateWithin, late)
		defer cancel()
		out, err := c.conn.Run(ctx, command(append([]string{remote, "calibrate"}, flags...)), nil)
		if err != nil {
			err = fmt.Errorf("calibrate on %s: %w", c.conn.Host(), err)
		}
		return out, err
	}, nil)
	said := map[string]string{}
	for i, out := range found {
		if out != "" { // also when no load was measured rightly
			said[scope.Hosts[i].Name] = out
		}
	}
	return said, errors.Join(errs...)
}

// unused reports who is at work on a host for the lab.
func unused(ctx context.Context, c reached, lab string) error {
	a, err := agent.Attach(ctx, c.conn, lab)
	if err != nil || a == nil {
		return err
	}
	defer a.Close()
	info, err := a.Info(ctx)
	if err == nil && info.Lease != nil {
		return &agent.HeldError{Host: c.conn.Host(), Lab: lab, Lease: *info.Lease}
	}
	return err
}

// calibrateWithin is far longer than the longest calibration takes.
const calibrateWithin = time.Hour

func command(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = plain.Quote(w)
	}
	return strings.Join(quoted, " ")
}
