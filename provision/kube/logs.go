package kube

import (
	"context"
	"io"
	"net/url"
	"strconv"

	"hclbench/provision"
)

// Log is what a container of a pod that serves writes, or has written before it was started again.
type Log struct {
	Role, Pod, Container string
	Before               bool // it is of the container's last run, which has ended
	Ready                bool // the pod is
	client               *Client
}

// Logs are those of the pods of roles, as far as there are any yet.
func (c *Client) Logs(ctx context.Context, roles []provision.PodRole) (all []Log, err error) {
	for _, role := range roles {
		pods, err := c.podsOf(ctx, role)
		if err != nil {
			return all, err
		}
		for _, p := range pods {
			ready := p.Status.Conditions.ofType("Ready").Status == "True"
			for _, s := range p.containers() {
				log := Log{role.Name, p.Metadata.Name, s.Name, true, ready, c}
				if s.LastState.Terminated != nil && s.State.Terminated == nil { // nodes keep the log of one that ended
					all = append(all, log)
				}
				if log.Before = false; s.State.Waiting == nil {
					all = append(all, log)
				}
			}
		}
	}
	return all, nil
}

// Open reads the log, its last lines or all of it where tail is negative.
func (l Log) Open(ctx context.Context, follow bool, tail int) (io.ReadCloser, error) {
	query := url.Values{"container": {l.Container}}
	if tail >= 0 {
		query.Set("tailLines", strconv.Itoa(tail))
	}
	if l.Before {
		query.Set("previous", "true")
	} else if follow {
		query.Set("follow", "true")
	}
	log, err := l.client.open(ctx, request{path: l.client.in("pods/" + l.Pod + "/log"), query: query})
	if err != nil {
		return nil, provision.Wrap(l.client.host, "read the log of pod "+l.Pod, err)
	}
	return log, nil
}

func (l Log) String() string {
	name := l.Role + " " + l.Pod + " " + l.Container
	if l.Before {
		name += " before"
	}
	return name
}
