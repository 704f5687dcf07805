package apply

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/reach"
)

// Calibrate runs "hcl calibrate" with these flags on every host of the scope,
// side by side, and returns what it printed, by the host's name. A host where
// somebody is at work is left alone: both would be disturbed.
func Calibrate(ctx context.Context, scope Scope, opt Options, flags ...string) (map[string]string, error) {
	var mu sync.Mutex
	said := map[string]string{}
	_, err := visit(ctx, scope, opt, func(ctx context.Context, c *reach.Conn, h *provision.Host) (Presence, error) {
		p := Presence{Host: h}
		a, err := agent.Attach(ctx, c, scope.Lab)
		if err != nil {
			return p, err
		}
		if a != nil {
			defer a.Close()
			info, err := a.Info(ctx)
			if err != nil {
				return p, err
			}
			if info.Lease != nil {
				return p, &agent.HeldError{Host: h, Lab: scope.Lab, Lease: *info.Lease}
			}
		}
		remote, err := agent.Install(ctx, c, opt.Binaries, opt.Log)
		if err != nil {
			return p, err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, calibrateWithin, fmt.Errorf("it has not ended within %s", calibrateWithin))
		defer cancel()
		out, err := c.Run(ctx, command(append([]string{remote, "calibrate"}, flags...)), nil)
		if out != "" { // also when no load was measured rightly
			mu.Lock()
			defer mu.Unlock()
			said[h.Name] = out
		}
		if err != nil {
			err = fmt.Errorf("calibrate on %s: %w", h, err)
		}
		return p, err
	})
	return said, err
}

// calibrateWithin is far longer than the longest calibration takes.
const calibrateWithin = time.Hour

// command is a line for the host's shell.
func command(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = plain.Quote(w)
	}
	return strings.Join(quoted, " ")
}
