package place

import (
	"cmp"
	"context"
	"path"
	"slices"
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

// Prove looks at all hosts at once at what [Check] does not ask about: links, memory and disks, which it measures for a few
// seconds, and what they reach. It copies hcl there. Of a cluster it finds nothing: its machines are no host's.
func Prove(ctx context.Context, scope Scope, opt Options) []Checked {
	opt = opt.Filled()
	places := scope.places()
	found, errs := visit(ctx, places, opt, func(ctx context.Context, c Reached) ([]provision.Finding, error) {
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
		return b.Findings(c.Conn.Host()), nil
	}, func(context.Context, *provision.Host, *kube.Client) ([]provision.Finding, error) { return nil, nil })
	out := make([]Checked, len(found))
	for i, h := range places {
		out[i] = Checked{h, found[i], errs[i]}
	}
	return out
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
