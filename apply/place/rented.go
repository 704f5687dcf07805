package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hclbench/flow"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/provision/rent"
	"hclbench/provision/rent/protocol"
)

// Renter rents boxes as the block of a host says it.
func (o Options) Renter(h *provision.Host, tell func(format string, args ...any)) (*rent.Renter, error) {
	if o.Rent == nil {
		return nil, fmt.Errorf("%s: nothing can be rented here", h)
	}
	dir, err := filepath.Abs(filepath.Join(o.Rent.Dir(), h.Rent.Plugin))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &rent.Renter{Plugin: &rent.Plugin{Name: h.Rent.Plugin, Dir: dir, Env: h.Rent.Env}, Journal: o.Rent, Tell: tell}, nil
}

// rentBox makes a box of the provider's, or takes the one that is there, and waits until it lets us in.
func (s *Session) rentBox(ctx context.Context) error {
	say := func(format string, args ...any) { s.say(Step, format, args...) }
	renter, err := s.opt.Renter(s.Host, say)
	if err != nil {
		return err
	}
	key, err := reach.LabKey(s.Host, s.opt.Rent.Dir())
	if err != nil {
		return err
	}
	rental, err := renter.Rent(ctx, rent.Ask{
		Host: s.Host.Name, Lab: s.work.Claim.Lab, Run: s.work.Claim.Run, Want: s.Host.Rent, GPUs: s.Host.GPUs.String(), PublicKey: key, MaxMoney: s.work.MaxMoney,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.Host, err)
	}
	s.rental, s.leave = rental, func(ctx context.Context) error { return s.giveBox(ctx, renter, rental) }
	s.lost = func(ctx context.Context) error { return renter.Lost(ctx, rental) }
	at, ssh, err := s.opt.boxOf(s.Host, rental, func(what string) { s.say(Warning, "%s", what) })
	if err != nil {
		return err
	}
	opt := s.opt
	opt.SSH = ssh
	s.until = rental.Until.Add(-giveBackTime)
	ctx, stop := context.WithDeadlineCause(ctx, s.until, errHardEnd)
	defer stop()
	s.say(Step, "box %s has the address %s: waiting until it lets us in", rental.Box.ID, at.Address)
	booted := time.Since(rental.Asked) // a box that is used again may be dead
	patience := flow.Patience{First: time.Second, Most: 10 * time.Second, Total: max(at.Rent.BootLimit()-booted, time.Minute)}
	err = patience.Again(ctx, func() (err error) {
		if s.Reached, err = dial(ctx, at, opt); err != nil {
			err = errors.Join(err, s.lost(ctx))
		}
		return err
	}, func(err error) bool { return errors.Is(err, provision.ErrHostKey) || errors.Is(err, rent.ErrLost) })
	if err == nil {
		rental.Last().Up = time.Now()
	}
	return err
}

// watchBox asks the provider of a box as often as the lease is renewed: nobody else would tell before it runs out. It looks at the clock, too.
func (s *Session) watchBox(ctx context.Context) {
	for flow.Pause(ctx, s.lease.every()) && s.boxThere(ctx) {
		if time.Now().After(s.until) { // no timer goes on while this machine sleeps
			s.lease.lose(errHardEnd)
			return
		}
	}
}

// boxThere reports whether the box is not taken away. If it is, the work there ends, with what its provider says.
func (s *Session) boxThere(ctx context.Context) bool {
	err := s.lost(ctx)
	if err == nil || ctx.Err() != nil {
		return true
	}
	s.lease.lose(&placeLost{fmt.Errorf("%s: %w; what is not measured yet is measured by the next apply", s.Host, err)})
	return false
}

// giveBackTime is how long before its hard end a box is given back, which takes a while: its provider may not end it.
const giveBackTime = 2 * time.Minute

var errHardEnd = errors.New("the hard end of its box is near; what is not measured yet is measured by the next apply")

// giveBox gives a box back, or leaves it for the next run if this one could use it to its end: who has ended its lease, as `hcl destroy`
// does, wants no box.
func (s *Session) giveBox(ctx context.Context, renter *rent.Renter, rental *rent.Rental) error {
	if keep := s.Host.Rent.Keep; keep > 0 && s.claimed != "" && !s.Gone() && time.Now().Before(s.until) {
		if err := renter.Keep(ctx, rental, keep); err != nil {
			return fmt.Errorf("%s: %w", s.Host, err)
		}
		s.say(Step, "box %s stays until %s, for the next run; `hcl destroy` gives it back", rental.Box.ID, rental.Deadline.Local().Format("15:04"))
		return nil
	}
	s.say(Step, "giving back box %s", rental.Box.ID)
	if err := renter.Release(ctx, rental); err != nil {
		return provision.Fail(s.Host, provision.ErrUnclean, "%w", err)
	}
	s.say(Down, "box %s is gone; it has cost %s", rental.Box.ID, rental.Money())
	return nil
}

// box is a host as it can be reached, and how: of one that is rented the box that is there now; nil: there is none.
func (o Options) box(s Scope, h *provision.Host) (*provision.Host, reach.SSH, error) {
	if h.Rent == nil || h.Address != "" {
		return h, o.SSH, nil
	}
	t, err := o.rental(s, h)
	if t == nil || err != nil || t.Box.Address == "" {
		return nil, o.SSH, err
	}
	return o.boxOf(h, t, func(what string) { o.Log.Warn(what, "host", h.Name) })
}

// rental is the box that is rented for a host, as the journal has it, which other labs may share; nil: none.
func (o Options) rental(s Scope, h *provision.Host) (*rent.Rental, error) {
	if h.Rent == nil {
		return nil, nil
	}
	open, err := o.Rent.Open(func(t *rent.Rental) bool { return t.Host == h.Name && s.Owns(t) })
	if len(open) == 0 || err != nil {
		return nil, err
	}
	return open[len(open)-1], nil
}

// boxOf is a host with what its provider tells of it. Its key, where the provider does not tell it, is trusted the first time, which
// is told, and kept for this box alone: the next one may have the same address.
func (o Options) boxOf(h *provision.Host, t *rent.Rental, warn func(what string)) (*provision.Host, reach.SSH, error) {
	at, ssh := *h, o.SSH
	at.Address, at.PricePerHour, at.IdentityFile = t.Box.Address, t.PerHour(), reach.LabKeyFile(h, o.Rent.Dir())
	if at.User == "" {
		at.User = t.Box.User
	}
	at.Fabric.Address = cmp.Or(t.Box.Private, at.Inside())
	ssh.KnownHosts = []string{filepath.Join(o.Rent.Dir(), t.Request+".known_hosts")}
	ssh.AcceptNew = func(_ *provision.Host, fingerprint string) bool {
		if len(t.Box.HostKeys) > 0 {
			return false
		}
		warn(fmt.Sprintf("box %s has the host key %s, which its provider does not tell: it is trusted, for this box alone", t.Box.ID, fingerprint))
		return true
	}
	for _, key := range t.Box.HostKeys {
		if at.HostKey == "" || strings.HasPrefix(key, "ssh-ed25519 ") {
			at.HostKey = key
		}
	}
	return &at, ssh, nil
}

// Rental is what there is to say of a rented host now: its box in the journal, and how its end is made sure.
type Rental struct {
	Host   *provision.Host
	Box    *rent.Rental // nil: none
	Can    protocol.Capabilities
	Ahead  time.Duration // the provider's clock, before this machine's
	Offers []protocol.Offer
	Err    error // the provider could not be asked
}

// Offered asks the providers of all rented hosts of a lab what there is.
func Offered(ctx context.Context, lab string, hosts []*provision.Host, opt Options) (all []Rental) {
	for _, h := range hosts {
		if h.Rent != nil {
			all = append(all, Rental{Host: h})
		}
	}
	flow.Each(all, func(i int, r Rental) (err error) {
		defer func() { all[i].Err = err }()
		renter, err := opt.Renter(r.Host, func(string, ...any) {})
		if err != nil {
			return err
		}
		if all[i].Box, err = opt.rental(Scope{Lab: lab}, r.Host); err != nil {
			return err
		}
		if all[i].Can, all[i].Ahead, err = renter.Capabilities(ctx, r.Host.Rent.Spec); err != nil {
			return err
		}
		all[i].Offers, err = renter.Offers(ctx, r.Host.Rent, r.Host.GPUs.String())
		return err
	})
	return all
}

// Left are the boxes that runs of a lab have left and the next has no use for: those of hosts that are not needed, unless they are kept for
// them yet, and those of hosts that the lab has no more.
func (o Options) Left(lab string, hosts, needed []*provision.Host) ([]*rent.Rental, error) {
	return o.Rent.Open(func(t *rent.Rental) bool {
		kept := t.Stage == rent.Kept && rentedFor(t, hosts) != nil && time.Now().Before(t.Deadline)
		return t.Lab == lab && rentedFor(t, needed) == nil && !kept
	})
}

// Owns reports whether a box is rented for the lab. What is sent by hand goes from hosts that have an address: it rents none.
func (s Scope) Owns(t *rent.Rental) bool { return t.Lab == s.Lab }

// rentedFor is the host that a box is rented for; nil: it is none of them.
func rentedFor(t *rent.Rental, hosts []*provision.Host) *provision.Host {
	i := slices.IndexFunc(hosts, func(h *provision.Host) bool { return h.Rent != nil && h.Name == t.Host })
	if i < 0 {
		return nil
	}
	return hosts[i]
}

// Account is a host by which a box of a lab can be given back: its own, or, where that is no more, or rents of another provider now, any
// that rents of the same one, if all of those are of one account. nil: nobody knows the account.
func Account(t *rent.Rental, hosts []*provision.Host) *provision.Host {
	if own := rentedFor(t, hosts); own != nil && own.Rent.Plugin == t.Plugin {
		return own
	}
	var found *provision.Host
	for _, h := range hosts {
		switch {
		case h.Rent == nil || h.Rent.Plugin != t.Plugin:
		case found != nil && !found.Rent.SameAccount(h.Rent):
			return nil
		default:
			found = h
		}
	}
	return found
}

// NoAccount says that no host of a lab knows by which account a box is rented, so that nobody can look at it or give it back.
func NoAccount(t *rent.Rental) error {
	return t.StillThere(noAccount(t))
}

func noAccount(t *rent.Rental) error {
	return fmt.Errorf("no host of the lab says by which account of %s it is rented: write the block of host %s again as it was, and run `hcl destroy`", t.Plugin, t.Host)
}

// GiveBack gives boxes back. hosts are those of the lab.
func GiveBack(ctx context.Context, boxes []*rent.Rental, hosts []*provision.Host, opt Options, tell Tell) error {
	return flow.Each(boxes, func(_ int, t *rent.Rental) error {
		own := &provision.Host{Name: t.Host}
		by := Account(t, hosts)
		if by == nil {
			return provision.Fail(own, provision.ErrUnclean, "%w", NoAccount(t))
		}
		renter, err := opt.Renter(by, func(format string, args ...any) { tell.say(own, Step, format, args...) })
		if err != nil {
			return err
		}
		tell.say(own, Step, "giving back %s, which run %s left", t, t.Run)
		if err := renter.Settle(ctx, t); err != nil {
			return provision.Fail(own, provision.ErrUnclean, "%w", err)
		}
		tell.say(own, Down, "%s is gone; it has cost %s", t, t.Money())
		return nil
	})
}
