package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/kube"
	"hclbench/telemetry"
)

// operated is an engine that operators of a cluster make of objects: these, and its pods.
type operated struct {
	*kube.Made
	roles   []provision.PodRole
	service string // that requests go to, by its name
	tell    teller
	asked   time.Time // when it was last looked at
	unknown error     // why it was not told then
}

// exports are where its pods say what they have counted.
func (o *operated) exports() (all []telemetry.Exports) {
	if o == nil {
		return nil
	}
	for _, role := range o.roles {
		n := 0
		for _, p := range o.Pods() {
			if p.Role != role.Name {
				continue
			}
			if e := engines.PodExports(role, p.IP, fmt.Sprintf("%s %d", role.Name, n)); e != nil {
				all = append(all, *e)
			}
			n++
		}
	}
	return all
}

// ended reports what became of the engine's pods while it was measured. Nothing is said of what cannot
// be asked, and not more often than that.
func (o *operated) ended(ctx context.Context, every time.Duration) error {
	if o == nil || time.Since(o.asked) < every {
		return nil
	}
	o.asked = time.Now()
	if o.unknown = o.Changed(ctx); errors.Is(o.unknown, provision.ErrPodLost) {
		return o.unknown
	}
	return nil
}

// doubts are why a cell that has just been measured may not be what it seems: nobody knows whether its
// pods stayed the same, or whose servers have answered.
func (o *operated) doubts(ctx context.Context) (doubts []string) {
	if o == nil {
		return nil
	}
	if o.unknown != nil {
		doubts = append(doubts, fmt.Sprintf("nobody knows whether its pods stayed the same: %v", o.unknown))
	}
	if said := o.strangers(ctx); said != "" {
		doubts = append(doubts, said)
	}
	return doubts
}

// strangers tells whose servers answer, where that is not proved; empty: it is.
func (o *operated) strangers(ctx context.Context) string {
	if o == nil {
		return ""
	}
	return o.Strangers(ctx, o.service)
}

// tail is the end of the log of a pod that is not ready, or has been started again; nil: there is none.
func (o *operated) tail(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailWithin)
	defer cancel()
	logs, _ := o.Logs(ctx)
	for _, l := range logs {
		if l.Ready && !l.Before {
			continue
		}
		lines := linesOf(l.Open(ctx, false, lookBack))
		if len(lines) > 0 && !strings.HasPrefix(lines[0], "unable to retrieve container logs") { // it is removed
			return lines
		}
	}
	return nil
}

// down deletes the objects, and sees that they and the pods are gone.
func (o *operated) down(ctx context.Context) error {
	o.tell.say(Step, "deleting what was made in the cluster")
	if err := o.Delete(ctx); err != nil {
		return err
	}
	o.tell.say(Down, "%s", fmt.Sprintf("%s deleted, no pod of its roles is left", plain.Count(o.Objects(), "object")))
	return nil
}
