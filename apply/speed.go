package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/look"
	"hclbench/provision/reach"
	"hclbench/results"
)

// gauge measures a fabric with what the image of its engine has, in containers that may do what
// the engine's may. Each measures for seconds, ends by itself, and is taken down.
type gauge struct {
	scope Scope
	store string // id
	opt   Options
	ports map[*provision.Host][]int
	spots []*spot
}

// spot is a host of the fabric.
type spot struct {
	host   *provision.Host
	fabric provision.Fabric // whole; without RDMA devices where engines get none
	facts  provision.FabricFacts
	at     *session
	tell   teller
	like   provision.Container // an engine's
	gpus   int                 // that engines have there
	ids    []string            // of these; nil: all of the host's
}

// What is measured: bytes of an all-reduce, as published floors have them; where the first process
// of it is found, unless engines have a port that others come to; and how long a program may take.
const (
	reducedBytes = 8 << 30
	reducePort   = 29500
	railPort     = 18515 // of the first pair of devices
	railWithin   = time.Minute
	railRetry    = time.Second
	reduceWithin = 5 * time.Minute
)

// measure adds to what was found between hosts what an engine gets of it. The hosts are held by a
// lease meanwhile, so that nothing stays there, whatever becomes of the caller.
func (f fabric) measure(ctx context.Context, scope Scope, store string, opt Options, j *joined) (err error) {
	g := &gauge{scope: scope, store: store, opt: opt, ports: f.ports, spots: f.spots(j)}
	if len(g.spots) < 2 {
		j.find("measured", provision.Warning, "nothing: fewer than two of these hosts run containers with GPUs", "")
		return nil
	}
	tell, told := listening(ctx, opt.Events)
	defer told()
	defer func() { err = errors.Join(err, g.close()) }()
	if err := g.open(ctx, tell); err != nil {
		return err
	}
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	for _, s := range g.spots {
		held := s.at.lease.held
		defer context.AfterFunc(held, func() { lose(context.Cause(held)) })()
	}
	g.say("measuring RDMA")
	rails, err := g.rails(ctx)
	if err != nil {
		return err
	}
	j.found = append(j.found, provision.JudgeRails(rails)...)
	g.say("measuring an all-reduce")
	reduced, err := g.reductions(ctx)
	if err != nil {
		return err
	}
	j.found = append(j.found, provision.JudgeReductions(reduced, g.wideRails())...)
	return nil
}

// spots are the hosts of a fabric on which containers get GPUs, each with what they may do.
func (f fabric) spots(j *joined) (spots []*spot) {
	completed, of := map[*provision.Host]*provision.Host{}, map[*provision.Host]*spot{}
	for _, h := range f.hosts {
		c := *h
		c.Fabric = j.full[h]
		completed[h], of[&c] = &c, &spot{host: h, fabric: c.Fabric, facts: j.facts[h]}
	}
	placed := f.engine.Moved(func(h *provision.Host) *provision.Host { return completed[h] })
	for _, m := range engines.Members(placed) {
		e := m.Engine
		if e.Router || engines.Runtime(e) != provision.Docker || e.Host().GPUs.Count == 0 {
			continue
		}
		s := of[e.Host()]
		if s.gpus == 0 {
			spots = append(spots, s)
		}
		s.add(engines.Container(e), e.GPUIDs())
	}
	return spots
}

// add takes a member's container, which may have a part of the host's GPUs.
func (s *spot) add(ct provision.Container, ids []string) {
	if s.gpus == 0 {
		s.like = ct
		if !ct.Privileged && !slices.ContainsFunc(ct.Devices, isRDMA) {
			s.fabric.RDMA = nil
		}
	}
	switch {
	case len(ids) == 0:
		s.ids, s.gpus = nil, s.host.GPUs.Count
	case s.gpus < s.host.GPUs.Count:
		s.ids = append(s.ids, ids...)
		s.gpus = len(s.ids)
	}
}

func isRDMA(device string) bool { return strings.HasPrefix(device, "/dev/infiniband") }

// open takes the hosts, side by side, and brings the image.
func (g *gauge) open(ctx context.Context, tell func(Event)) error {
	run := results.NewRunID(time.Now())
	claim := agent.Lease{
		Lab: g.scope.Lab, Run: run, Store: g.store, Holder: g.opt.Holder, TTL: load.Duration(g.scope.Lease), Reserve: true,
	}
	return g.each(func(s *spot) (err error) {
		s.tell = teller{about: Event{Host: s.host.Name}, to: tell}
		w := work{claim: claim, docker: true, shared: true, engines: g.scope.on(s.host)}
		if s.at, err = open(ctx, s.host, w, g.opt, s.tell); err != nil {
			return err
		}
		image, err := s.at.pull(ctx, s.like.Image, s.tell)
		s.like.Image = image.ID
		s.like.Name = "hcl-" + g.scope.Lab + "-fabric"
		s.like.Labels = map[string]string{plan.LabelLab: g.scope.Lab, plan.LabelRun: run, plan.LabelEngine: "fabric"}
		return err
	})
}

func (g *gauge) close() error {
	return g.each(func(s *spot) error {
		if s.at == nil {
			return nil
		}
		return s.at.close()
	})
}

func (g *gauge) say(what string) {
	for _, s := range g.spots {
		s.tell.say(Step, "%s", what)
	}
}

// each does the same for every host, side by side.
func (g *gauge) each(do func(*spot) error) error {
	return flow.Each(g.spots, func(_ int, s *spot) error { return do(s) })
}

// program is something that runs in a container of its own.
type program struct {
	suffix string
	gpus   bool
	files  []provision.File
	words  []string
}

// start runs a program on a host.
func (s *spot) start(ctx context.Context, p program) (*member, error) {
	ct := mayAs(s.like, "-"+p.suffix)
	ct.Network, ct.IPC, ct.ShmSize, ct.Ulimits = "host", s.like.IPC, s.like.ShmSize, s.like.Ulimits
	ct.Init, ct.StopSignal, ct.StopGrace = true, "SIGTERM", engines.StopGrace
	ct.Files = p.files
	for _, d := range s.like.Devices {
		if p.gpus || isRDMA(d) {
			ct.Devices = append(ct.Devices, d)
		}
	}
	switch {
	case !p.gpus:
	case s.host.GPUs.Vendor == provision.AMD:
		ct.HostGroups = s.like.HostGroups
		if s.ids != nil {
			ids := provision.Plain(strings.Join(s.ids, ","))
			ct.Env = append(ct.Env, provision.EnvVar{Name: "HIP_VISIBLE_DEVICES", Value: ids})
		}
	case s.ids != nil:
		ct.GPUIDs = s.ids
	default:
		ct.GPUs = -1
	}
	ct.Env = append(ct.Env, provision.EnvVar{Name: "NCCL_DEBUG", Value: provision.Plain("INFO")})
	for _, v := range s.like.Env { // and no secrets
		kind, _, _ := strings.Cut(v.Name, "_")
		if v.Name != "NCCL_DEBUG" && slices.Contains([]string{"NCCL", "RCCL", "GLOO", "HSA"}, kind) {
			ct.Env = append(ct.Env, v)
		}
	}
	ct.Entrypoint = []provision.Text{provision.Plain(p.words[0])}
	for _, w := range p.words[1:] {
		ct.Command = append(ct.Command, provision.Plain(w))
	}
	rt := s.at.runtime(provision.Docker)
	id, err := rt.Start(ctx, ct)
	in := plan.Member{Host: s.host, Runtime: provision.Docker, Container: ct}
	return &member{Member: in, at: s.at, rt: rt, id: id, tell: s.tell}, err
}

// ended waits for the end of a program, and returns what it has said.
func (s *spot) ended(ctx context.Context, m *member) (said string, code int, err error) {
	state, err := s.at.docker.Wait(ctx, m.id)
	if err != nil {
		return "", 0, err
	}
	logs, err := s.at.docker.Logs(ctx, m.id, false, -1)
	if err != nil {
		return "", 0, err
	}
	defer logs.Close()
	text, err := io.ReadAll(io.LimitReader(logs, 4<<20))
	return string(text), state.ExitCode, err
}

// lacks reports whether a program has not run as the image does not have it.
func lacks(code int, said string) bool {
	const notFound = 127
	return code == notFound || strings.Contains(said, "executable file not found")
}

// stop takes a program down that had no GPUs.
func (s *spot) stop(ctx context.Context, m *member) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), engines.StopGrace+time.Minute)
	defer done()
	_, err := m.rt.Stop(ctx, m.Container.Name, engines.StopGrace)
	return err
}

// reductions measures an all-reduce over the GPUs of each host, and then over those of all.
func (g *gauge) reductions(ctx context.Context) (all []provision.Reduction, err error) {
	alone := make([]*provision.Reduction, len(g.spots))
	err = g.each(func(s *spot) (err error) {
		if s.gpus > 1 {
			alone[slices.Index(g.spots, s)], err = g.reduce(ctx, s)
		}
		return err
	})
	for _, r := range alone {
		if r != nil {
			all = append(all, *r)
		}
	}
	if err != nil {
		return nil, err
	}
	wide, err := g.reduce(ctx, g.spots...)
	if err == nil {
		all = append(all, *wide)
	}
	return all, err
}

// reduce measures an all-reduce over all GPUs of these hosts. What did not go is told in the answer.
func (g *gauge) reduce(ctx context.Context, spots ...*spot) (*provision.Reduction, error) {
	late := fmt.Errorf("it has not ended within %s", reduceWithin)
	within, cancel := context.WithTimeoutCause(ctx, reduceWithin, late)
	defer cancel()
	r := &provision.Reduction{Bytes: reducedBytes, Model: spots[0].host.GPUs.Model}
	first := make([]int, len(spots))
	for i, s := range spots {
		first[i] = r.GPUs
		r.GPUs += s.gpus
		r.Hosts = append(r.Hosts, s.host.Name)
	}
	var failure sync.Once // the first: others fail as it has, and as they are then ended
	errs := make([]error, len(spots))
	var running sync.WaitGroup
	for i, s := range spots {
		words := []string{"python3", provision.FilesDir + "/allreduce.py", strconv.Itoa(s.gpus), strconv.Itoa(r.GPUs),
			strconv.Itoa(first[i]), g.meetAt(spots), strconv.Itoa(reducedBytes)}
		running.Go(func() {
			said := ""
			said, errs[i] = s.python(within, words, func(why string) {
				failure.Do(func() {
					r.Failed = fmt.Sprintf("on %s: %s", s.host.Name, why)
					cancel() // the others would wait for it
				})
			})
			if i == 0 {
				r.Seconds, r.Network, _ = look.Reduced(said)
			}
		})
	}
	running.Wait()
	if r.Failed == "" && r.Seconds == 0 {
		r.Failed = "it has ended without a result"
	}
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	return r, errors.Join(errs...)
}

// meetAt is where the processes of an all-reduce find the first of them.
func (g *gauge) meetAt(spots []*spot) string {
	if len(spots) == 1 {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(reducePort))
	}
	port := reducePort
	for h, ports := range g.ports {
		if h.Name == spots[0].host.Name && len(ports) > 0 {
			port = ports[0] // which others surely reach
		}
	}
	return net.JoinHostPort(spots[0].host.Inside(), strconv.Itoa(port))
}

// python runs a program with GPUs to its end, and proves that they are given back. The error is
// that they are not; why it has failed is told at once.
func (s *spot) python(ctx context.Context, words []string, failed func(why string)) (said string, err error) {
	script := []provision.File{{Name: "allreduce.py", Text: provision.Plain(look.AllReduce)}}
	m, err := s.start(ctx, program{suffix: "all-reduce", gpus: true, files: script, words: words})
	if err != nil {
		failed(line(err))
		return "", nil
	}
	said, code, err := s.ended(ctx, m)
	switch {
	case err != nil && ctx.Err() != nil:
		failed(context.Cause(ctx).Error())
	case err != nil:
		failed(line(err))
	case code != 0:
		failed(fmt.Sprintf("exit status %d: %s", code, reach.LastLines(said, 2)))
	}
	return said, m.down(ctx)
}

// wideRails is how many devices of 400 Gb/s the hosts use, one for a GPU: the fewest of all.
func (g *gauge) wideRails() int {
	fewest := -1
	for _, s := range g.spots {
		n := 0
		for _, name := range s.fabric.RDMA {
			if s.facts.Rate(name) >= 400 {
				n++
			}
		}
		if n = min(n, s.gpus); fewest < 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
}
