package place

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
	"hclbench/provision/fabric"
	"hclbench/provision/kube"
	"hclbench/provision/look"
)

// Prove looks at all hosts at once at what [Check] does not ask about: links, memory and disks, which it measures for a few
// seconds, and what they reach. It copies hcl there. By a claim, unless that is nil, it takes each host as apply does, and measures its GPUs
// with what an engine there has. Of a cluster and of what is not rented yet it finds nothing: their machines are no host's.
func Prove(ctx context.Context, scope Scope, claim *agent.Lease, opt Options, tell Tell) []Checked {
	opt = opt.Filled()
	places := scope.places()
	found, errs := visit(ctx, scope, places, opt, func(ctx context.Context, c Reached) (*provision.Box, error) {
		on := scope.on(c.Conn.Host())
		hcl, err := agent.Install(ctx, c.Conn, opt.Binaries, opt.Log)
		if err != nil {
			return nil, err
		}
		c.Conn.UseHCL(plain.Quote(hcl))
		b, err := look.Box(ctx, c.Conn, hcl, modelsOn(c, on))
		if err != nil {
			return nil, err
		}
		b.Reached = reached(ctx, c, on, opt.Hub)
		return &b, nil
	}, func(context.Context, *provision.Host, *kube.Client) (*provision.Box, error) { return nil, nil })
	tell, told := listening(ctx, tell)
	defer told()
	out := make([]Checked, len(found))
	flow.Each(places, func(i int, h *provision.Host) error {
		out[i] = Checked{Host: h, Err: errs[i]}
		b := found[i]
		if b == nil {
			return nil
		}
		if claim != nil && h.Rent == nil && h.GPUs.Count > 0 {
			out[i].Err = scope.measureGPUs(ctx, h, *claim, b, opt, tell)
		}
		out[i].Findings = b.Findings(h)
		return nil
	})
	return out
}

// What of GPUs is measured: so much of a GPU's memory at once, which no cache holds, and in what time at most.
const (
	gpuBytes  = 1 << 30
	gpuWithin = 4 * time.Minute
)

// measureGPUs measures a host's GPUs with the Python of the first engine there that uses them. Why it could not is noted of the box.
func (s Scope) measureGPUs(ctx context.Context, h *provision.Host, claim agent.Lease, b *provision.Box, opt Options, tell Tell) (err error) {
	on := s.on(h)
	i := slices.IndexFunc(on, func(e *engines.Engine) bool { return engines.Real(e) && !e.Router })
	if i < 0 {
		b.NoGPUSpeeds = "no engine of the lab uses them"
		return nil
	}
	e := on[i]
	claim.Lab, claim.Holder, claim.Reserve = s.Lab, opt.Holder, true
	at, err := Open(ctx, h, Work{Claim: claim, Docker: engines.Runtime(e) == provision.Docker, Engines: on}, opt, tell)
	defer func() { err = at.Close(err) }()
	if err != nil {
		return err
	}
	spot := &fabric.Spot{Host: h, Like: engines.Container(e)} // with all GPUs of the host
	if err := at.lend(ctx, spot, "gpus"); err != nil {
		return err
	}
	at.say(Step, "measuring its GPUs")
	late := fmt.Errorf("it has not ended within %s", gpuWithin)
	ctx, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	defer EndWith([]*Session{at}, lose)()
	within, cancel := context.WithTimeoutCause(ctx, gpuWithin, late)
	defer cancel()
	python := "python3"
	if bin := path.Dir(spot.Like.Entrypoint[0].Reveal()); bin != "." {
		python = path.Join(bin, python) // of the same environment
	}
	p := fabric.Program{Suffix: "speed", GPUs: true, Words: []string{python, "-c", look.GPUSpeeds, "cuda", strconv.Itoa(gpuBytes)}}
	said, err := spot.Run(within, p, func(code int, why string) {
		if b.NoGPUSpeeds = why; fabric.Lacks(code, why) {
			b.NoGPUSpeeds = e.String() + " has no python3"
		}
	})
	if err == nil && b.NoGPUSpeeds == "" {
		var unread error
		if b.GPUSpeeds, unread = look.ReadGPUSpeeds(said); unread != nil {
			b.NoGPUSpeeds = unread.Error()
		}
	}
	return cmp.Or(context.Cause(ctx), err)
}

// modelsOn are the folders of a host where models of engines lie.
func modelsOn(c Reached, on []*engines.Engine) (paths []string) {
	for _, e := range on {
		if e.Model == nil {
			continue
		}
		at := e.Model.Cache
		if path.IsAbs(e.Model.Repo) {
			at = engines.Container(e).OnHost(e.Model.Repo)
		}
		if rest, ok := strings.CutPrefix(at, "~/"); ok {
			at = path.Join(c.Conn.Home(), rest)
		}
		if at != "" && !slices.Contains(paths, at) {
			paths = append(paths, at)
		}
	}
	return paths
}

// reached tries whether a host reaches the servers that its engines' models and images come from.
func reached(ctx context.Context, c Reached, on []*engines.Engine, hub origin.Hub) (all []provision.ReachedPlace) {
	var servers []string
	add := func(url string) {
		if at := Address(url); !slices.Contains(servers, at) {
			servers = append(servers, at)
		}
	}
	for _, e := range on {
		if engines.FromHub(e) {
			add(cmp.Or(hub.URL, origin.HuggingFace))
		}
		if ref, err := origin.ParseRef(e.Image); err == nil && engines.Runtime(e) == provision.Docker {
			add(ref.RegistryURL())
		}
	}
	for _, at := range servers {
		r, start := provision.ReachedPlace{Name: at}, time.Now()
		if err := reaches(ctx, c, at); err != nil {
			r.Failed = line(err)
		}
		r.Took = time.Since(start)
		all = append(all, r)
	}
	return all
}
