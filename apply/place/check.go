package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/kube"
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
func Check(ctx context.Context, scope Scope, opt Options) []Checked {
	opt = opt.Filled()
	places := scope.places()
	found, errs := visit(ctx, scope, places, opt, func(ctx context.Context, c Reached) ([]provision.Finding, error) {
		return newChecker(c, scope.Lab, scope.on(c.Conn.Host()), opt.Hub).findings(ctx)
	}, scope.contractOf)
	out := make([]Checked, len(found))
	for i, h := range places {
		out[i] = Checked{h, found[i], errs[i]}
	}
	return out
}

// contractOf holds a cluster against its block, and what is asked of it when a lab is applied.
func (s Scope) contractOf(ctx context.Context, _ *provision.Host, client *kube.Client) ([]provision.Finding, error) {
	var pods []kube.PodSpec
	for _, h := range s.Hosts {
		if h.Cluster == client.Cluster() {
			spec := kube.PodSpec{Host: h, Image: h.Cluster.Image}
			if on := s.on(h); len(on) > 0 && on[0].Image != "" {
				spec.Image = on[0].Image
			}
			pods = append(pods, spec)
		}
	}
	findings, err := client.Check(ctx, pods)
	if err != nil {
		return findings, err
	}
	if there, err := client.HasNamespace(ctx); !there || err != nil {
		return findings, err
	}
	tried, err := s.tryManifests(ctx, client)
	return append(findings, tried...), err
}

// tryManifests asks a cluster what it would say to the objects of engines of manifests.
func (s Scope) tryManifests(ctx context.Context, client *kube.Client) (findings []provision.Finding, err error) {
	for _, e := range s.Engines {
		if e.Manifests == nil || e.Host().Cluster != client.Cluster() {
			continue
		}
		taken := len(e.Manifests.Objects)
		for i, err := range client.TryObjects(ctx, kube.RunOf{Lab: s.Lab, Run: "check"}, e.Manifests.Objects) {
			if errors.Is(err, provision.ErrUnreachable) {
				return findings, err
			}
			if err != nil {
				taken--
				why := strings.TrimPrefix(err.Error(), client.Cluster().String()+": ")
				findings = append(findings, provision.Finding{
					Check: e.Label(), Level: provision.Blocked, Have: e.Manifests.Objects[i].String() + " is refused: " + why,
					Advice: "see the object's file, and what the cluster has installed",
				})
			}
		}
		if taken > 0 {
			have := plain.Count(taken, "object") + " would be taken"
			findings = append(findings, provision.Finding{Check: e.Label(), Level: provision.OK, Have: have})
		}
	}
	return findings, nil
}

// checker holds a host against its contract, and against what engines need there.
type checker struct {
	Reached
	lab     string
	engines []*engines.Engine // of the host
	hub     origin.Hub
	free    map[string]int64 // bytes, by disk: what models before have left for those after
}

func newChecker(c Reached, lab string, on []*engines.Engine, hub origin.Hub) *checker {
	return &checker{Reached: c, lab: lab, engines: on, hub: hub, free: map[string]int64{}}
}

func (c *checker) findings(ctx context.Context) ([]provision.Finding, error) {
	facts, err := look.Facts(ctx, c.Conn, c.Docker)
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
		pulled = c.images(ctx, facts)
	}
	kept, err := c.models(ctx)
	return append(pulled, kept...), err
}

func (c *checker) images(ctx context.Context, facts provision.Facts) (findings []provision.Finding) {
	seen := map[string]bool{}
	for _, e := range c.engines {
		if e.Image == "" || engines.Runtime(e) != provision.Docker || seen[e.Image] {
			continue
		}
		seen[e.Image] = true
		room, err := c.Docker.Images.Room(ctx, e.Image)
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
		if lack := driverLacks(facts, engines.LeastDriver(e)); f.Level == provision.OK && lack != "" {
			f.Level, f.Advice = provision.Warning, lack
		}
		findings = append(findings, f)
	}
	return findings
}

// driverLacks says that NVIDIA's driver of a host is older than an image needs, of which least is the major version;
// empty: it is not, or nothing tells. A warning: data centre GPUs may have what lets older ones do.
func driverLacks(facts provision.Facts, least int) string {
	if len(facts.GPUs) == 0 {
		return ""
	}
	have := facts.GPUs[0].Driver
	major, _, _ := strings.Cut(have, ".")
	if n, err := strconv.Atoi(major); err != nil || n >= least {
		return ""
	}
	return fmt.Sprintf("it is built with CUDA 13, which needs driver %d or newer, and the host has %s: install one, or take an image "+
		"with CUDA 12, such as one whose tag ends with -cu129", least, have)
}

// leftThere says what a run could not clean up there. apply looks after its own sweep.
func (c *checker) leftThere(ctx context.Context) ([]provision.Finding, error) {
	u, err := agent.ReadUnclean(ctx, c.Conn)
	if err != nil || u == nil {
		return nil, err
	}
	f := provision.Finding{
		Check: "left behind", Level: provision.Blocked, Have: strings.Join(u.Left, "; "), Want: "nothing",
		Advice: fmt.Sprintf("run %s of lab %s (%s, %s) could not clean up. If GPU memory is not given back, "+
			"it takes a reset of the GPUs by their owner or a reboot. `hcl destroy` looks again, "+
			"and `hcl destroy --force` forgets it", u.Run, u.Lab, u.Holder, u.Time.Local().Format(time.DateTime)),
	}
	if _, err := look.ProveGone(ctx, c.Conn, u.Traces, 0); err == nil {
		f.Level, f.Have, f.Advice = provision.OK, "what run "+u.Run+" had left is gone", ""
	}
	return []provision.Finding{f}, nil
}

// contract holds a host against its contract, and adds its state to the facts. What an earlier
// run of the lab has left there is swept before anything starts, and uses the GPUs by right.
func (c *checker) contract(ctx context.Context, facts *provision.Facts) ([]provision.Finding, error) {
	now, err := look.Condition(ctx, c.Conn, c.Docker, c.keptOn())
	if err != nil {
		return nil, err
	}
	facts.See(now)
	changed, err := agent.ReadPrepared(ctx, c.Conn) // by a run that is at work, or was killed: the next puts it back
	if err != nil {
		return nil, err
	}
	ours := provision.Traces{Marks: []string{agent.Dir(c.Conn, c.lab) + "/"}}
	if facts.Docker != "" {
		found, err := c.Docker.List(ctx, map[string]string{provision.LabelAgent: agent.Dir(c.Conn, c.lab)})
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			ours.Containers = append(ours.Containers, f.ID)
		}
	}
	return provision.Contract(c.Conn.Host(), *facts, now.Without(changed), ours), nil
}

func (c *checker) keptOn() (paths []string) {
	for _, e := range c.engines {
		if e.Model != nil && e.Model.Cache != "" && !slices.Contains(paths, e.Model.Cache) {
			paths = append(paths, e.Model.Cache)
		}
	}
	return paths
}

const hubWithin = 20 * time.Second

// models says of each model whether it is there, and where it will come from.
func (c *checker) models(ctx context.Context) (findings []provision.Finding, err error) {
	seen := map[*engines.Model]bool{}
	for _, e := range c.engines {
		if e.Model == nil || !engines.Real(e) || seen[e.Model] {
			continue
		}
		seen[e.Model] = true
		f, err := c.model(ctx, e)
		if err != nil {
			return nil, err
		}
		f.Check, f.Want = "model "+e.Model.Name, e.Model.Repo
		if e.Model.Revision != "" {
			f.Want += " at " + e.Model.Revision
		}
		findings = append(findings, f)
	}
	return findings, nil
}

func (c *checker) model(ctx context.Context, e *engines.Engine) (f provision.Finding, err error) {
	m := e.Model
	if path.IsAbs(m.Repo) {
		there, err := agent.ModelIn(ctx, c.Conn, engines.Container(e).OnHost(m.Repo))
		if err != nil {
			return f, err
		}
		if !there.Known() && len(e.Setup) > 0 {
			return provision.Finding{Level: provision.Warning, Have: "not there", Advice: "the engine's setup has to make it"}, nil
		}
		if err := there.Whole(); err != nil {
			return provision.Finding{Level: provision.Blocked, Have: line(err), Advice: copyAgain}, nil
		}
		return wholeFinding(there.Files()), nil
	}
	cache := hubCache(e)
	if cache == "" {
		return provision.Finding{Level: provision.Warning, Have: "kept nowhere", Advice: keepIt}, nil
	}
	there, err := agent.ModelInCache(ctx, c.Conn, cache, m.Repo, m.Revision)
	if err != nil {
		return f, err
	}
	hub := c.hub
	if !m.Download {
		hub.Token = tokenOf(e) // as the engine will ask
	}
	files, err := askHub(ctx, hub, m)
	switch {
	case err != nil && ctx.Err() != nil:
		return f, context.Cause(ctx)
	case err != nil && there.Whole() == nil:
		f = wholeFinding(there.Files())
		f.Have += ", as it says itself"
		return f, nil
	case err != nil:
		return unasked(m, there, err), nil
	}
	now, missing := there.Missing(files)
	if len(missing) == 0 {
		return wholeFinding(now.Files, now.Total), nil
	}
	return c.coming(ctx, e, hub, there, now, missing), nil
}

// unasked is a model that is not whole, and of which the hub tells nothing.
func unasked(m *engines.Model, there agent.ModelThere, err error) provision.Finding {
	f := provision.Finding{Level: provision.Warning, Have: "not there"}
	if n, size := there.Files(); n > 0 {
		f.Have = fmt.Sprintf("%s of it there, %s", plain.Bytes(size), line(there.Whole()))
	}
	refused := errors.Is(err, origin.ErrAccess) || errors.Is(err, origin.ErrNotFound)
	switch {
	case refused && m.Download:
		f.Level, f.Advice = provision.Blocked, "it cannot be downloaded: "+line(err)
	case errors.Is(err, origin.ErrNotFound):
		f.Advice = "the engine will not find it: " + line(err)
	case refused:
		f.Advice = "the engine may not get it: " + line(err) + "; " + giveToken
	default:
		f.Advice = "this machine cannot ask how much is missing: " + line(err) + "; the host asks for itself"
	}
	return f
}

const (
	copyAgain = "no engine can load it: copy it there again, or correct repo"
	giveToken = "give the engine one with env = { HF_TOKEN = sensitive(env(\"HF_TOKEN\")) }, " +
		"or write download = true into the model's block and set HF_TOKEN here"
	keepIt = "each start of an engine fetches it anew: write cache = \"/data/huggingface\" into its block, " +
		"and download = true so that hcl fetches it before that"
	fetchFirst = "the engine fetches it at its start and does not check it: " +
		"write download = true into the model's block, and hcl fetches it before that"
	makeRoom = "%s are still to come and there is no room on %s: make some, " +
		"or give the model a cache on another disk"
)

// coming is a model that is not there, or not whole, and will be fetched.
func (c *checker) coming(ctx context.Context, e *engines.Engine, hub origin.Hub,
	there agent.ModelThere, now agent.ModelProgress, missing []origin.File) provision.Finding {
	m, room := e.Model, now.Total-now.Bytes
	f := provision.Finding{Level: provision.OK, Have: "not there, " + plain.Bytes(room)}
	if now.Bytes > 0 {
		f.Have = fmt.Sprintf("%s of %s there, without %s", plain.Bytes(now.Bytes), plain.Bytes(now.Total), someFiles(missing))
	}
	free, known := c.free[there.Mount]
	if !known {
		free = there.Free
	}
	if there.Mount != "" {
		f.Have += fmt.Sprintf("; %s of disk free", plain.Bytes(free))
	}
	smallest := slices.MinFunc(missing, func(a, b origin.File) int { return cmp.Compare(a.Size, b.Size) })
	err := mayRead(ctx, hub, m, smallest)
	switch {
	case there.Mount != "" && free < room:
		f.Level, f.Advice = provision.Blocked, fmt.Sprintf(makeRoom, plain.Bytes(room), there.Mount)
		return f
	case m.Download && err != nil:
		f.Level, f.Advice = provision.Blocked, "it cannot be downloaded: "+line(err)
	case m.Download:
		f.Have += "; hcl downloads it first"
	case err != nil:
		f.Level, f.Advice = provision.Warning, "the engine may not get it: "+line(err)+"; "+giveToken
	default:
		f.Level, f.Advice = provision.Warning, fetchFirst
	}
	c.free[there.Mount] = free - room
	return f
}

func askHub(ctx context.Context, hub origin.Hub, m *engines.Model) ([]origin.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hubWithin, fmt.Errorf("no answer within %s", hubWithin))
	defer cancel()
	_, files, err := agent.ModelFiles(ctx, hub, m.Repo, m.Revision)
	return files, cmp.Or(context.Cause(ctx), err)
}

// mayRead says why the hub does not let a file of a model be read: of a gated model
// everybody may see the names. Errors that do not mean that are none.
func mayRead(ctx context.Context, hub origin.Hub, m *engines.Model, f origin.File) error {
	ctx, cancel := context.WithTimeout(ctx, hubWithin)
	defer cancel()
	body, _, err := hub.Open(ctx, m.Repo, cmp.Or(m.Revision, "main"), f.Path, 0)
	if errors.Is(err, origin.ErrAccess) {
		return err
	}
	if err == nil {
		body.Close()
	}
	return nil
}

// hubCache is Hugging Face's cache on the host; empty when it is gone with the container.
func hubCache(e *engines.Engine) string {
	ct, process := engines.Container(e), engines.Runtime(e) == provision.Process
	at := "/root/.cache/huggingface"
	if process {
		at = "~/.cache/huggingface"
	}
	if i := slices.IndexFunc(ct.Env, func(v provision.EnvVar) bool { return v.Name == "HF_HOME" }); i >= 0 {
		at = ct.Env[i].Value.Reveal()
	}
	if process {
		return at
	}
	mounted := slices.ContainsFunc(ct.Mounts, func(m provision.Mount) bool { return m.Target == at })
	if source := ct.OnHost(at); mounted || source != at {
		return source
	}
	return ""
}

func tokenOf(e *engines.Engine) string {
	for _, v := range e.Env {
		if v.Name == "HF_TOKEN" || v.Name == "HUGGING_FACE_HUB_TOKEN" {
			return v.Value.Reveal()
		}
	}
	return ""
}

func wholeFinding(files int, size int64) provision.Finding {
	have := "whole, " + plain.Count(files, "file") + ", " + plain.Bytes(size)
	return provision.Finding{Level: provision.OK, Have: have}
}

func someFiles(files []origin.File) string {
	const most = 3
	var names []string
	for _, f := range files[:min(most, len(files))] {
		names = append(names, f.Path)
	}
	s := strings.Join(names, ", ")
	if more := len(files) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

func line(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
