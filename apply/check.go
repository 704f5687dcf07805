package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/look"
)

// Checked is a host held against its contract.
type Checked struct {
	Host     *provision.Host
	Findings []provision.Finding
	Err      error // why it could not be looked at; nil: it was
}

// Check looks at all hosts at once and starts nothing there. The answer is in
// the order of the hosts.
func Check(ctx context.Context, lab string, hosts []*provision.Host, all []*engines.Engine, opt Options) []Checked {
	opt = opt.filled()
	found, errs := visit(ctx, hosts, opt, func(ctx context.Context, c reached) ([]provision.Finding, error) {
		return newChecker(c, lab, all, opt.Hub).findings(ctx)
	})
	out := make([]Checked, len(hosts))
	for i, h := range hosts {
		out[i] = Checked{h, found[i], errs[i]}
	}
	return out
}

// checker holds a host against its contract, and against what engines need there.
type checker struct {
	reached
	lab     string
	engines []*engines.Engine // of the host
	hub     origin.Hub
	free    map[string]int64 // bytes, by disk: what models before have left for those after
}

// newChecker takes the engines of all hosts.
func newChecker(c reached, lab string, all []*engines.Engine, hub origin.Hub) *checker {
	k := &checker{reached: c, lab: lab, hub: hub, free: map[string]int64{}}
	for _, e := range all {
		if e.Host == c.conn.Host() {
			k.engines = append(k.engines, e)
		}
	}
	return k
}

// findings is everything that is found.
func (c *checker) findings(ctx context.Context) ([]provision.Finding, error) {
	facts, err := look.Facts(ctx, c.conn, c.docker)
	if err != nil {
		return nil, err
	}
	findings, err := c.contract(ctx, &facts)
	if err != nil {
		return nil, err
	}
	needed, err := c.needs(ctx, facts)
	if err != nil {
		return nil, err
	}
	unclean, err := c.leftThere(ctx)
	return slices.Concat(findings, needed, unclean), err
}

// needs says of the images and models of engines whether they are there, and where
// they will come from. None of it keeps other engines of the host from starting.
func (c *checker) needs(ctx context.Context, facts provision.Facts) ([]provision.Finding, error) {
	var pulled []provision.Finding
	if facts.Docker != "" {
		pulled = c.images(ctx)
	}
	kept, err := c.models(ctx)
	return append(pulled, kept...), err
}

// images says of each image that engines run in whether it is there, or fits.
func (c *checker) images(ctx context.Context) []provision.Finding {
	var findings []provision.Finding
	var seen []string
	for _, e := range c.engines {
		if e.Image == "" || engines.Runtime(e) != provision.Docker || slices.Contains(seen, e.Image) {
			continue
		}
		seen = append(seen, e.Image)
		room, err := c.docker.Images.Room(ctx, e.Image)
		f := provision.Finding{Check: "image", Want: e.Image, Level: provision.OK}
		switch {
		case errors.Is(err, origin.ErrNotFound):
			f.Level, f.Have, f.Advice = provision.Blocked, "not there", line(err)+": check the image's name and tag"
		case err != nil:
			f.Have = "not there, of unknown size: " + line(err)
		case room.There:
			f.Have = "there"
		default:
			f.Have = fmt.Sprintf("%s to pull; %s free at %s", plain.Bytes(room.Pull), plain.Bytes(room.Free), room.Path)
			if !room.Fits() {
				f.Level, f.Advice = provision.Blocked, room.Lack(e.Image)
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// adviceUnclean says what to do with a host that a run could not clean up.
const adviceUnclean = "run %s of lab %s (%s, %s) could not clean up. Where GPU memory is not given back, " +
	"it takes a reset of the GPUs by their owner or a reboot. " +
	"`hcl destroy` looks again, and `hcl destroy --force` forgets it"

// leftThere says what a run could not clean up there, whether its caller was told
// or was gone. apply itself looks when its own sweep is over.
func (c *checker) leftThere(ctx context.Context) ([]provision.Finding, error) {
	u, err := agent.ReadUnclean(ctx, c.conn)
	if err != nil || u == nil {
		return nil, err
	}
	f := provision.Finding{
		Check: "left behind", Level: provision.Blocked, Have: strings.Join(u.Left, "; "), Want: "nothing",
		Advice: fmt.Sprintf(adviceUnclean, u.Run, u.Lab, u.Holder, u.Time.Local().Format(time.DateTime)),
	}
	if _, err := look.ProveGone(ctx, c.conn, u.Traces, 0); err == nil {
		f.Level, f.Have, f.Advice = provision.OK, "what run "+u.Run+" had left is gone", ""
	}
	return []provision.Finding{f}, nil
}

// contract holds a host against its contract, and adds the state that it is in to its
// facts. What an earlier run of the lab has left there is swept before anything starts,
// and uses the GPUs by right.
func (c *checker) contract(ctx context.Context, facts *provision.Facts) ([]provision.Finding, error) {
	now, err := look.Condition(ctx, c.conn, c.docker, c.keptOn())
	if err != nil {
		return nil, err
	}
	facts.See(now)
	changed, err := agent.ReadPrepared(ctx, c.conn) // by a run that is at work, or was killed: the next puts it back
	if err != nil {
		return nil, err
	}
	ours := provision.Traces{Mark: agent.Mark(c.conn, c.lab)}
	if facts.Docker != "" {
		found, err := c.docker.List(ctx, ofLab(c.lab))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			ours.Containers = append(ours.Containers, f.ID)
		}
	}
	return provision.Contract(c.conn.Host(), *facts, now.Without(changed), ours), nil
}

// keptOn are the directories where the engines' models are kept.
func (c *checker) keptOn() []string {
	var paths []string
	for _, e := range c.engines {
		if e.Model != nil && e.Model.Cache != "" && !slices.Contains(paths, e.Model.Cache) {
			paths = append(paths, e.Model.Cache)
		}
	}
	return paths
}

// sentence is a finding that is not good.
func sentence(f provision.Finding) string {
	s := f.Check + ": " + f.Have
	if f.Want != "" {
		s += ", where " + f.Want + " is wanted"
	}
	return s + ": " + f.Advice
}
