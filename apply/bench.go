package apply

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/provision"
	"hclbench/results"
	"hclbench/telemetry"
)

// Bench is hosts that together send loads to a server that somebody else runs. What they
// measure is kept nowhere.
type Bench struct {
	run  string
	at   []*session
	sent int
}

// OpenBench takes hosts, which are nobody else's until the bench is closed, and brings files of
// data sets there. A bench has to be closed, also one of which only a part could be opened.
func OpenBench(ctx context.Context, hosts []*provision.Host, files []string, opt Options) (*Bench, error) {
	opt = opt.filled()
	var telling sync.Mutex
	tell := func(e Event) {
		telling.Lock()
		defer telling.Unlock()
		if opt.Events != nil {
			opt.Events(e)
		}
	}
	b := &Bench{run: results.NewRunID(time.Now()), at: make([]*session, len(hosts))}
	claim := agent.Lease{
		Lab: "bench", Run: b.run, Store: b.run, Holder: opt.Holder, TTL: load.Duration(benchLease), Reserve: true,
	}
	return b, flow.Each(hosts, func(i int, h *provision.Host) (err error) {
		b.at[i], err = open(ctx, h, work{claim: claim, shared: true}, opt, teller{Event{Host: h.Name}, tell})
		if err == nil {
			err = b.at[i].place(ctx, files, func(path string) string { return path })
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", h, err)
		}
		return err
	})
}

// benchLease is how long a host stays taken when its caller is lost.
const benchLease = 2 * time.Minute

// Run has the hosts send a load, each its share, and returns what they measured as one.
func (b *Bench) Run(ctx context.Context, job load.Job, progress func(load.Progress)) (*load.Result, error) {
	senders := make([]agent.Sender, len(b.at))
	for i, s := range b.at {
		for _, base := range append([]string{job.Target.BaseURL}, job.Target.BaseURLs...) {
			if err := dials(ctx, s, addressOf(base)); err != nil {
				return nil, fmt.Errorf("%s does not reach the server: %w", s.host, err)
			}
		}
		senders[i] = agent.Sender{Client: s.agent, Load: job}
		senders[i].Load.Files = s.files
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer endsWith(b.at, cancel)()
	b.sent++
	m, err := agent.RunTogether(ctx, fmt.Sprintf("%s.%d", b.run, b.sent), senders, telemetry.Plan{Host: true}, progress)
	if m.Summary == nil {
		return nil, err
	}
	return &load.Result{Summary: *m.Summary, Records: m.Records}, err
}

// Dial connects from the first of the hosts, as its requests do.
func (b *Bench) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return b.at[0].conn.Dial(ctx, network, address)
}

// Close gives the hosts back.
func (b *Bench) Close() error {
	return flow.Each(b.at, func(_ int, s *session) error {
		if s == nil {
			return nil
		}
		return s.close()
	})
}
