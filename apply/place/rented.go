package place

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		Host: s.Host.Name, Lab: s.work.Claim.Lab, Run: s.work.Claim.Run, Want: s.Host.Rent, GPUs: s.Host.GPUs.String(), PublicKey: key,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.Host, err)
	}
	s.leave = func(ctx context.Context) error { return s.giveBox(ctx, renter, rental) }
	at, ssh, err := s.opt.boxOf(s.Host, rental)
	if err != nil {
		return err
	}
	opt := s.opt
	opt.SSH = ssh
	s.until = rental.Until.Add(-giveBackTime)
	ctx, stop := context.WithDeadlineCause(ctx, s.until, errHardEnd)
	defer stop()
	s.say(Step, "box %s has the address %s: waiting until it lets us in", rental.Box.ID, at.Address)
	patience := flow.Patience{First: time.Second, Most: 10 * time.Second, Total: at.Rent.BootLimit()}
	return patience.Again(ctx, func() (err error) {
		s.Reached, err = dial(ctx, at, opt)
		return err
	}, func(err error) bool { return errors.Is(err, provision.ErrHostKey) })
}

// giveBackTime is how long before its hard end a box is given back, which takes a while: its provider may not end it.
const giveBackTime = 2 * time.Minute

var errHardEnd = errors.New("the hard end of its box is near; what is not measured yet is measured by the next apply")

// giveBox gives a box back, or leaves it for the next run if this one could use it.
func (s *Session) giveBox(ctx context.Context, renter *rent.Renter, rental *rent.Rental) error {
	if keep := s.Host.Rent.Keep; keep > 0 && s.claimed != "" && !s.lease.unreachable() && time.Now().Before(s.until) {
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
func (o Options) box(h *provision.Host) (*provision.Host, reach.SSH, error) {
	if h.Rent == nil || h.Address != "" {
		return h, o.SSH, nil
	}
	t, err := o.rental(h)
	if t == nil || err != nil || t.Box.Address == "" {
		return nil, o.SSH, err
	}
	return o.boxOf(h, t)
}

// rental is the box that is rented for a host, as the journal has it; nil: none.
func (o Options) rental(h *provision.Host) (*rent.Rental, error) {
	if h.Rent == nil || o.Rent == nil {
		return nil, nil
	}
	open, err := o.Rent.Open(h.Name)
	if len(open) == 0 || err != nil {
		return nil, err
	}
	return open[len(open)-1], nil
}

// boxOf is a host with what its provider tells of it. Its key, where the provider does not tell it, is trusted the first time, and
// kept for this box alone: the next one may have the same address.
func (o Options) boxOf(h *provision.Host, t *rent.Rental) (*provision.Host, reach.SSH, error) {
	at, ssh := *h, o.SSH
	at.Address, at.PricePerHour, at.IdentityFile = t.Box.Address, t.Price, reach.LabKeyFile(h, o.Rent.Dir())
	if t.Box.PricePerHour > 0 {
		at.PricePerHour = t.Box.PricePerHour
	}
	if at.User == "" {
		at.User = t.Box.User
	}
	at.Fabric.Address = at.Inside()
	ssh.KnownHosts = []string{filepath.Join(o.Rent.Dir(), t.Request+".known_hosts")}
	ssh.AcceptNew = func(*provision.Host, string) bool { return len(t.Box.HostKeys) == 0 }
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
	Offers []protocol.Offer
	Err    error // the provider could not be asked
}

// Layers are the ends that a box of a provider has, the surest first.
func (r Rental) Layers() (layers []string) {
	if r.Can.Deadline {
		layers = append(layers, "the provider ends it")
	}
	if r.Can.OffIsFree {
		layers = append(layers, "it shuts itself down")
	}
	sweep := "this machine gives it back"
	if r.Can.List {
		sweep += ", or `hcl sweep` anywhere"
	}
	return append(layers, sweep)
}

// Offered asks the providers of all rented hosts what there is.
func Offered(ctx context.Context, hosts []*provision.Host, opt Options) (all []Rental) {
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
		if all[i].Can, _, err = renter.Capabilities(ctx); err != nil {
			return err
		}
		all[i].Offers, err = renter.Offers(ctx, r.Host.Rent, r.Host.GPUs.String())
		return err
	})
	return all
}

// giveBack gives back the boxes that runs have left of rented hosts.
func (r remover) giveBack(ctx context.Context, hosts []*provision.Host) error {
	return flow.Each(hosts, func(_ int, h *provision.Host) error {
		if h.Rent == nil {
			return nil
		}
		open, err := r.opt.Rent.Open(h.Name)
		if err != nil || len(open) == 0 {
			return err
		}
		renter, err := r.opt.Renter(h, func(format string, args ...any) { r.tell.say(h, Step, format, args...) })
		if err != nil {
			return err
		}
		var errs []error
		for _, t := range open {
			r.tell.say(h, Step, "giving back %s", t)
			if err := renter.Settle(ctx, t); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", h, err))
				continue
			}
			r.tell.say(h, Down, "%s is gone; it has cost %s", t, t.Money())
		}
		return errors.Join(errs...)
	})
}
