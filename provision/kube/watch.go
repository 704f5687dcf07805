package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"time"

	"hclbench/provision"
)

const (
	// lookEvery is how often a pod is looked at, where no watch tells of it.
	lookEvery = 3 * time.Second
	// lastWord is how long a watch is waited for that may know why a pod is not there any more.
	lastWord = time.Second
)

// Went waits until the pod is lost or has ended, and returns what [Pod.State] would. A deleted pod is gone
// within a second, and why with it: looks come too late for that, a watch does not. Looks see nodes that
// fall silent, and are all there is where nothing may be watched. The error is ctx's when that ended before.
func (p *Pod) Went(ctx context.Context) (provision.State, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	seen := make(chan *sight, 1)
	go func() {
		if l := p.watch(ctx); l != nil {
			seen <- l
		}
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return provision.State{}, context.Cause(ctx)
		case l := <-seen:
			return l.state, l.err
		case <-tick.C:
		}
		var now sight
		if now.state, now.err = p.State(ctx); !now.isGone() {
			continue
		}
		select {
		case l := <-seen:
			return l.state, l.err
		case <-time.After(lastWord):
			return now.state, now.err
		case <-ctx.Done():
		}
	}
}

// sight is what a look at a pod has shown.
type sight struct {
	state provision.State
	err   error
}

// isGone reports whether the pod is lost or has ended. One that cannot be looked at may be as it was.
func (l sight) isGone() bool {
	return errors.Is(l.err, provision.ErrPodLost) || l.err == nil && !l.state.Running && !l.state.Finished.IsZero()
}

// watch has the API server tell of each change of the pod, until it went; nil where that may not be.
func (p *Pod) watch(ctx context.Context) *sight {
	of := url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + p.name}}
	for again := true; again; again = p.client.pause(ctx) {
		changes, err := p.client.open(ctx, request{path: p.client.in("pods"), query: of})
		switch {
		case err == nil:
			last := p.lastOf(changes)
			changes.Close()
			if last != nil {
				return last
			}
		case !away(err):
			return nil
		}
	}
	return nil
}

// lastOf reads changes up to that by which the pod went; nil: they end before.
func (p *Pod) lastOf(changes io.Reader) *sight {
	for d := json.NewDecoder(changes); ; {
		var change struct {
			Type   string
			Object pod
		}
		if d.Decode(&change) != nil {
			return nil
		}
		var l sight
		switch now := change.Object; {
		case now.Metadata.UID != p.uid: // another of its name, or what ends a watch
			continue
		case change.Type == "DELETED":
			l.err = p.lost(deleted(now))
		default:
			l.state, l.err = p.stateFrom(now)
		}
		if l.isGone() {
			return &l
		}
	}
}
