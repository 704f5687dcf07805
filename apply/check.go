package apply

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/origin"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/docker"
	"hclbench/provision/look"
	"hclbench/provision/reach"
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
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	out := make([]Checked, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() {
			out[i].Host = h
			out[i].Findings, out[i].Err = checkHost(ctx, lab, h, all, opt)
		})
	}
	wg.Wait()
	return out
}

func checkHost(ctx context.Context, lab string, h *provision.Host, all []*engines.Engine, opt Options) ([]provision.Finding, error) {
	c, err := reach.Dial(ctx, h, opt.SSH, opt.Log)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	d := docker.New(c, opt.Images)
	facts, err := look.Facts(ctx, c, d)
	if err != nil {
		return nil, err
	}
	findings, err := contract(ctx, c, d, lab, &facts, keptOn(h, all))
	if err != nil {
		return nil, err
	}
	needed, err := needs(ctx, c, d, facts, all, opt)
	if err != nil {
		return nil, err
	}
	unclean, err := leftThere(ctx, c)
	return slices.Concat(findings, needed, unclean), err
}

// needs says of the images and models of engines whether they are there, and where
// they will come from. None of it keeps other engines of the host from starting.
func needs(ctx context.Context, c *reach.Conn, d *docker.Daemon, facts provision.Facts, all []*engines.Engine, opt Options) ([]provision.Finding, error) {
	var pulled []provision.Finding
	if facts.Docker != "" {
		pulled = images(ctx, c.Host(), d, all)
	}
	kept, err := models(ctx, c, all, opt.Hub)
	return append(pulled, kept...), err
}

// images says of each image that engines of the host run in whether it is there, or
// fits.
func images(ctx context.Context, h *provision.Host, d *docker.Daemon, all []*engines.Engine) []provision.Finding {
	var findings []provision.Finding
	var seen []string
	for _, e := range all {
		if e.Host != h || e.Image == "" || engines.Runtime(e) != provision.Docker || slices.Contains(seen, e.Image) {
			continue
		}
		seen = append(seen, e.Image)
		room, err := d.Images.Room(ctx, e.Image)
		f := provision.Finding{Check: "image", Want: e.Image, Level: provision.OK}
		switch {
		case errors.Is(err, origin.ErrNotFound):
			f.Level, f.Have, f.Advice = provision.Blocked, "not there", line(err)+": check the image's name and tag"
		case err != nil:
			f.Have = "not there, of unknown size: " + line(err)
		case room.There:
			f.Have = "there"
		default:
			f.Have = fmt.Sprintf("%s to pull; %s free at %s", provision.Bytes(room.Pull), provision.Bytes(room.Free), room.Path)
			if !room.Fits() {
				f.Level, f.Advice = provision.Blocked, room.Lack(e.Image)
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// leftThere says what a run could not clean up there, whether its caller was told
// or was gone. apply itself looks when its own sweep is over.
func leftThere(ctx context.Context, c *reach.Conn) ([]provision.Finding, error) {
	u, err := agent.ReadUnclean(ctx, c)
	if err != nil || u == nil {
		return nil, err
	}
	f := provision.Finding{Check: "left behind", Level: provision.Blocked, Have: strings.Join(u.Left, "; "), Want: "nothing",
		Advice: fmt.Sprintf("run %s of lab %s (%s, %s) could not clean up. Where GPU memory is not given back, it takes a reset of the GPUs by their owner or a reboot. `hcl destroy` looks again, and `hcl destroy --force` forgets it", u.Run, u.Lab, u.Holder, u.Time.Local().Format(time.DateTime))}
	if _, err := look.ProveGone(ctx, c, u.Traces, 0); err == nil {
		f.Level, f.Have, f.Advice = provision.OK, "what run "+u.Run+" had left is gone", ""
	}
	return []provision.Finding{f}, nil
}

// contract holds a host against its contract, and adds the state that it is in to its
// facts. What an earlier run of the lab has left there is swept before anything starts,
// and uses the GPUs by right.
func contract(ctx context.Context, c *reach.Conn, d *docker.Daemon, lab string, facts *provision.Facts, paths []string) ([]provision.Finding, error) {
	now, err := look.Condition(ctx, c, d, paths)
	if err != nil {
		return nil, err
	}
	facts.See(now)
	changed, err := agent.ReadPrepared(ctx, c) // by a run that is at work, or was killed: the next puts it back
	if err != nil {
		return nil, err
	}
	ours := provision.Traces{Mark: agent.Mark(c, lab)}
	if facts.Docker != "" {
		found, err := d.List(ctx, map[string]string{plan.LabelLab: lab})
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			ours.Containers = append(ours.Containers, f.ID)
		}
	}
	return provision.Contract(c.Host(), *facts, now.Without(changed), ours), nil
}

// keptOn are the directories of a host where the engines' models are kept.
func keptOn(h *provision.Host, all []*engines.Engine) []string {
	var paths []string
	for _, e := range all {
		if e.Host == h && e.Model != nil && e.Model.Cache != "" && !slices.Contains(paths, e.Model.Cache) {
			paths = append(paths, e.Model.Cache)
		}
	}
	return paths
}

func enginesOf(deployments []*plan.Deployment) []*engines.Engine {
	var all []*engines.Engine
	for _, d := range deployments {
		all = append(all, d.Engine)
	}
	return all
}

// sentence is a finding that is not good.
func sentence(f provision.Finding) string {
	s := f.Check + ": " + f.Have
	if f.Want != "" {
		s += ", where " + f.Want + " is wanted"
	}
	return s + ": " + f.Advice
}
