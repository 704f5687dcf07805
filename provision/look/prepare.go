package look

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/provision"
	"hclbench/provision/reach"
)

// Prepare sets what p wants, and reads it back. note is called with all changes before; when it
// fails nothing is changed. When a setting cannot be made, some are: what was noted has to be
// restored.
func Prepare(
	ctx context.Context, c *reach.Conn, p provision.Prepare, note func([]provision.Change) error,
) ([]provision.Change, error) {
	now, err := Condition(ctx, c, nil, nil)
	if err != nil {
		return nil, err
	}
	all, err := p.Changes(c.Host().GPUs.Vendor, now)
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", c.Host(), err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	if err := note(all); err != nil {
		return nil, err
	}
	const goOn = false
	if err := set(ctx, c, all, goOn); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", c.Host(), err)
	}
	return all, nil
}

// Restore puts back what was changed, the last first, and reads it back. What is
// neither as it was nor as it was set, somebody else has set since: it is left alone.
func Restore(ctx context.Context, c *reach.Conn, all []provision.Change) error {
	if len(all) == 0 {
		return nil
	}
	now, err := Condition(ctx, c, nil, nil)
	if err == nil {
		var back []provision.Change
		for _, change := range slices.Backward(all) {
			if change.Foreign(now) {
				c.Log().Warn("somebody else has changed a setting since; it is left alone", "setting", change.String())
			} else {
				back = append(back, change.Back())
			}
		}
		const goOn = true
		err = set(ctx, c, back, goOn)
	}
	if err != nil {
		return fmt.Errorf("put back the settings of %s: %w", c.Host(), err)
	}
	return nil
}

// set makes changes and reads them back: AMD's tools end well also where they refuse.
// goOn makes those that follow one that fails.
func set(ctx context.Context, c *reach.Conn, all []provision.Change, goOn bool) error {
	said := make([]string, len(all)) // by the tools, of each
	failed := make([]error, len(all))
	for i, change := range all {
		said[i], failed[i] = runAsRoot(ctx, c, change.Set)
		if failed[i] != nil && !goOn {
			return failed[i]
		}
	}
	now, err := Condition(ctx, c, nil, nil)
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	for i, change := range all {
		if failed[i] == nil {
			failed[i] = change.Check(now, said[i])
		}
	}
	return errors.Join(failed...)
}

// ShutDown has a machine shut itself down after a time, in whole minutes, and forget what it was told of that before.
func ShutDown(ctx context.Context, c *reach.Conn, after time.Duration) error {
	_, err := runAsRoot(ctx, c, []string{"shutdown", "-P", fmt.Sprintf("+%d", max(0, int(after/time.Minute)))})
	return err
}

// asRoot runs a command of a host's tools, and again by sudo when the login may not.
const asRoot = `PATH=$PATH:/usr/local/bin:/usr/bin:/sbin:/usr/sbin:/opt/rocm/bin
tool=$(command -v %[1]s) || { echo "there is no %[1]s" >&2; exit 127; }
said=$("$tool" %[2]s 2>&1) && { echo "$said"; exit 0; }
[ "$(id -u)" != 0 ] || { echo "$said" >&2; exit 1; }
also=$(sudo -n "$tool" %[2]s 2>&1) && { echo "$also"; exit 0; }
echo "$said" >&2
echo "with sudo: $also" >&2
exit 1`

// runAsRoot runs a command that changes a setting. It returns what the tool has said
// last, as the end of a sentence.
func runAsRoot(ctx context.Context, c *reach.Conn, argv []string) (said string, err error) {
	out, err := c.Run(ctx, fmt.Sprintf(asRoot, reach.Words(argv[:1]), reach.Words(argv[1:])), nil)
	if failed := new(reach.CommandError); errors.As(err, &failed) {
		return "", fmt.Errorf("`%s`: %s (it takes root: log in as root, or let the login use sudo without a password)",
			strings.Join(argv, " "), reach.LastLines(failed.Stderr, 3))
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "=") { // rocm-smi's frame
			said = ", which said: " + line
		}
	}
	return said, err
}
