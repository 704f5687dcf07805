package wire

import (
	"context"
	"maps"
	"sync/atomic"

	"hclbench/load"
)

// turns is a client for several servers: requests go to one after the other.
type several struct {
	all  []Client
	next atomic.Uint64
}

// newClients makes the client for a job's servers.
func New(job load.Job) (Client, error) {
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
	t := &several{}
	for _, s := range servers {
		t.all = append(t.all, newClient(s))
	}
	return t, nil
}

func (t *several) Open(ctx context.Context, n int) {
	for i, c := range t.all {
		c.Open(ctx, (n+len(t.all)-1-i)/len(t.all))
	}
}

func (t *several) Send(ctx context.Context, body []byte, x Exchange) {
	t.all[(t.next.Add(1)-1)%uint64(len(t.all))].Send(ctx, body, x)
}

func (t *several) Close() {
	for _, c := range t.all {
		c.Close()
	}
}

func (t *several) ReadLag() *load.Histogram {
	var all *load.Histogram
	for _, c := range t.all {
		if h := c.ReadLag(); h != nil && all == nil {
			all = h
		} else if h != nil {
			all.Merge(h)
		}
	}
	return all
}
