package place

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/telemetry"
)

// verbWithin is far longer than a verb on a host takes.
const verbWithin = time.Hour

// Run runs hcl with these words on every machine of the scope, side by side, and returns what it printed, by the host's
// name. A host where somebody is at work is left alone: both would be disturbed.
func Run(ctx context.Context, scope Scope, opt Options, words ...string) (map[string]string, error) {
	opt = opt.Filled()
	printed, errs := visit(ctx, scope, scope.Hosts, opt, func(ctx context.Context, c Reached) (string, error) {
		a, err := agent.Attach(ctx, c.Conn, scope.Lab)
		if err != nil {
			return "", err
		}
		if a != nil {
			defer a.Close()
			info, err := a.Info(ctx)
			if err == nil && info.Lease != nil {
				err = &agent.HeldError{Host: c.Conn.Host(), Lab: scope.Lab, Lease: *info.Lease}
			}
			if err != nil {
				return "", err
			}
		}
		remote, err := agent.Install(ctx, c.Conn, opt.Binaries, opt.Log)
		if err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, verbWithin, fmt.Errorf("it has not ended within %s", verbWithin))
		defer cancel()
		out, err := c.Conn.Run(ctx, command(append([]string{remote}, words...)), nil)
		if err != nil {
			err = fmt.Errorf("%s on %s: %w", words[0], c.Conn.Host(), err)
		}
		return out, err
	}, nil)
	said := map[string]string{}
	for i, out := range printed {
		if out != "" { // also of one that failed
			said[scope.Hosts[i].Name] = out
		}
	}
	return said, errors.Join(errs...)
}

func command(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = plain.Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Bench is hosts that together send loads to a server that somebody else runs. What they
// measure is kept nowhere.
type Bench struct {
	run  string
	at   []*Session
	sent int
}

// benchLease is how long a host stays taken when its caller is lost.
const benchLease = 2 * time.Minute

// benchLab is the lab of what is sent by hand.
const benchLab = "bench"

// OpenBench takes hosts for a run of this name, which are nobody else's until the bench is closed, and brings files of
// data sets there. A bench has to be closed, also one of which only a part could be opened.
func OpenBench(ctx context.Context, run string, hosts []*provision.Host, files []string, opt Options, tell Tell) (*Bench, error) {
	b := &Bench{run: run, at: make([]*Session, len(hosts))}
	claim := agent.Lease{
		Lab: benchLab, Run: run, Store: run, Holder: opt.Holder, TTL: load.Duration(benchLease), Reserve: true,
	}
	return b, flow.Each(hosts, func(i int, h *provision.Host) (err error) {
		b.at[i], err = Open(ctx, h, Work{Claim: claim, Shared: true}, opt, tell)
		if err == nil {
			err = b.at[i].Bring(ctx, files, func(path string) string { return path })
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", h, err)
		}
		return err
	})
}

// Run has the hosts send a load, each its share, and returns what they measured as one.
func (b *Bench) Run(ctx context.Context, job load.Job, progress func(load.Progress)) (*load.Result, error) {
	senders := make([]agent.Sender, len(b.at))
	for i, s := range b.at {
		for _, base := range append([]string{job.Target.BaseURL}, job.Target.BaseURLs...) {
			if err := s.Reaches(ctx, base); err != nil {
				return nil, fmt.Errorf("%s does not reach the server: %w", s.Host, err)
			}
		}
		senders[i] = agent.Sender{Client: s.Agent, Load: job}
		senders[i].Load.Files = s.Files
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer EndWith(b.at, cancel)()
	b.sent++
	m, err := agent.RunTogether(ctx, fmt.Sprintf("%s.%d", b.run, b.sent), senders, telemetry.Plan{Host: true}, progress)
	if m.Summary == nil {
		return nil, err
	}
	return &load.Result{Summary: *m.Summary, Records: m.Records}, err
}

// Dial connects from the first of the hosts, as its requests do.
func (b *Bench) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return b.at[0].Conn.Dial(ctx, network, address)
}

// Close gives the hosts back.
func (b *Bench) Close() error { return closeAll(b.at) }
