package load

import (
	"context"
	"maps"
	"sync/atomic"
)

// turns is a client for several servers: requests go to one after the other.
type turns struct {
	all  []client
	next atomic.Uint64
}

// newClients makes the client for a job's servers.
func newClients(job Job) (client, error) {
	target := job.Target
	if len(job.Secrets) > 0 {
		target.Headers = maps.Clone(target.Headers)
		if target.Headers == nil {
			target.Headers = map[string]string{}
		}
		maps.Copy(target.Headers, job.Secrets)
	}
	var servers []server
	for _, url := range append([]string{target.BaseURL}, target.BaseURLs...) {
		target.BaseURL = url
		s, err := newServer(target, job.Workload)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	if len(servers) == 1 {
		return newClient(servers[0]), nil
	}
	t := &turns{}
	for _, s := range servers {
		t.all = append(t.all, newClient(s))
	}
	return t, nil
}

func (t *turns) open(ctx context.Context, n int) {
	for i, c := range t.all {
		c.open(ctx, (n+len(t.all)-1-i)/len(t.all))
	}
}

func (t *turns) send(ctx context.Context, body []byte, x exchange) {
	t.all[(t.next.Add(1)-1)%uint64(len(t.all))].send(ctx, body, x)
}

func (t *turns) close() {
	for _, c := range t.all {
		c.close()
	}
}

func (t *turns) readLag() *histogram {
	var all *histogram
	for _, c := range t.all {
		if h := c.readLag(); h != nil && all == nil {
			all = h
		} else if h != nil {
			all.merge(h)
		}
	}
	return all
}
