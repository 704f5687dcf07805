package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hclbench/flow"
	"hclbench/plain"
)

// measureRails measures from each RDMA device of a host to the same of every other: all devices of a pair
// of hosts side by side, as engines use them, and as many pairs as there can be at once.
func measureRails(ctx context.Context, spots []*Spot) (all []Rail, err error) {
	var mu sync.Mutex
	for _, round := range rounds(len(spots)) {
		var running sync.WaitGroup
		for _, pair := range round {
			a, b := spots[pair[0]], spots[pair[1]]
			for k := range min(len(a.Fabric.RDMA), len(b.Fabric.RDMA)) {
				running.Go(func() {
					r, failed := a.rail(ctx, b, k)
					mu.Lock()
					defer mu.Unlock()
					all, err = append(all, r), errors.Join(err, failed)
				})
			}
		}
		running.Wait()
		if err != nil || ctx.Err() != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
	}
	return all, nil
}

// rounds pair each of n with each other; in a round nobody has two partners.
func rounds(n int) (all [][][2]int) {
	even := n + n%2 // one more, who rests, when they are odd
	for r := range even - 1 {
		var round [][2]int
		for i := range even / 2 {
			a, b := (r+i)%(even-1), (r+even-1-i)%(even-1)
			if i == 0 {
				b = even - 1
			}
			if max(a, b) < n {
				round = append(round, [2]int{min(a, b), max(a, b)})
			}
		}
		all = append(all, round)
	}
	return all
}

// rail measures from one device of a host to the same of another: first whether they reach each
// other, then how fast. The error is that something is left there.
func (s *Spot) rail(ctx context.Context, to *Spot, k int) (Rail, error) {
	name := s.Fabric.RDMA[k]
	r := Rail{From: s.Host.Name, To: to.Host.Name, Device: name, Rate: s.Facts.Rate(name)}
	pingPong := halves{tool: "ibv_rc_pingpong", gid: "-g", flags: []string{"-n", "1000"}}
	said, err := s.towards(ctx, to, k, pingPong, &r)
	if r.Micros, _ = pingPongMicros(said); err != nil || r.Failed != "" {
		return r, err
	}
	write := halves{tool: "ib_write_bw", gid: "-x", flags: []string{"-D", "3", "-F", "--report_gbits"}}
	said, err = s.towards(ctx, to, k, write, &r)
	r.Gbits, _ = writeGbits(said)
	return r, err
}

// halves are a tool that runs on both hosts, with its flag for the index of the address that RoCE takes.
type halves struct {
	tool, gid string
	flags     []string
}

// on is what runs on one host; at is where the other half is found, empty for the one that waits.
func (t halves) on(s *Spot, k int, at ...string) Program {
	words := []string{t.tool, "-d", s.Fabric.RDMA[k], "-p", strconv.Itoa(railPort + k)}
	if i := s.Fabric.GIDIndex; i != nil {
		words = append(words, t.gid, strconv.Itoa(*i))
	}
	suffix := fmt.Sprintf("%s-%d", strings.ReplaceAll(t.tool, "_", "-"), k)
	return Program{Suffix: suffix, Words: slices.Concat(words, t.flags, at)}
}

// towards runs a tool on both hosts, and returns what it has said on the one that goes to the other.
// Why it has measured nothing is noted in r.
func (s *Spot) towards(ctx context.Context, to *Spot, k int, t halves, r *Rail) (said string, err error) {
	late := fmt.Errorf("%s has not ended within %s", t.tool, railWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, railWithin, late)
	defer cancel()
	waits := to.container(t.on(to, k))
	defer func() { err = errors.Join(err, to.Stop(ctx, waits)) }()
	there, err := to.Runtime.Start(ctx, waits)
	if err != nil {
		t.explain(r, 0, plain.Line(err.Error()))
		return "", nil
	}
	notYet := fmt.Sprintf("Couldn't connect to %s:", to.Host.Inside()) // as both tools say
	for {
		var code int
		why := ""
		said, err := s.Run(ctx, t.on(s, k, to.Host.Inside()), func(c int, w string) { code, why = c, w })
		if err != nil || why == "" && code == 0 {
			return said, err
		}
		state, err := to.Runtime.State(ctx, there)
		if err == nil && state.Running && strings.Contains(said, notYet) && flow.Pause(ctx, railRetry) {
			continue
		}
		if ctx.Err() != nil {
			why = context.Cause(ctx).Error()
		}
		t.explain(r, code, why)
		return "", nil
	}
}

// explain notes why a tool has measured nothing.
func (t halves) explain(r *Rail, code int, said string) {
	if Lacks(code, said) {
		r.Missing = t.tool
		return
	}
	r.Failed = t.tool + ": " + said
}
