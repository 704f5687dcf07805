package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision/reach"
	"hclbench/results"
)

// build makes what the engine's build block describes, unless the host has it. The
// output grows in a directory of its own and gets its name when it is whole, so
// that what has a name can be used; what a build that failed has left is emptied
// by the next. unclean says that the build could not be taken down; err, why there
// is no output.
func (s *site) build(ctx context.Context, d *plan.Deployment, row *results.Deployment) (unclean, err error) {
	ct, output, ok := engines.BuildContainer(d.Engine)
	if !ok {
		return nil, nil
	}
	tell := func(format string, args ...any) {
		s.event(Event{Type: Step, Host: s.host.Name, Engine: row.Engine, Message: fmt.Sprintf(format, args...)})
	}
	whole, growing := s.onHost(output), s.onHost(ct.Mounts[len(ct.Mounts)-1].Source)
	there, err := s.conn.Run(ctx, fmt.Sprintf("mkdir -p %[1]s && if test -d %[2]s; then touch %[2]s; echo there; else mkdir -p %[3]s; fi", plain.Quote(path.Dir(whole)), plain.Quote(whole), plain.Quote(growing)), nil)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(there) == "there" {
		tell("what is built is there: %s", whole)
		return nil, nil
	}
	image, err := s.pull(ctx, row.Engine, ct.Image)
	if err != nil {
		return nil, err
	}
	ct.Image = image.ID
	ct, _ = engines.CompileCache(d.Engine, ct, image.ID)
	in := d.Members[0].Container
	ct.Name, ct.Labels = in.Name+"-build", maps.Clone(in.Labels)
	ct.Labels[plan.LabelRun] = s.opt.Run.ID
	tell("building %s", d.Engine.Build.Output)
	started := time.Now()
	id, err := s.docker.Start(ctx, ct)
	if err != nil {
		return nil, err
	}
	defer func() { unclean = s.down(ctx, s.docker, id, row.Engine, ct) }()
	if err := s.finished(ctx, d, s.docker, id, "the build", nil); err != nil {
		return nil, err
	}
	_, err = s.conn.Run(ctx, fmt.Sprintf("test -n \"$(ls -A %[1]s)\" && mv -T %[1]s %[2]s", plain.Quote(growing), plain.Quote(whole)), nil)
	if failed := new(reach.CommandError); errors.As(err, &failed) {
		return nil, errors.New(withTail(fmt.Sprintf("the build ended, but left nothing in %s: %v", d.Engine.Build.Output, err), s.tail(ctx, &instance{rt: s.docker, id: id})))
	} else if err != nil {
		return nil, err
	}
	took := time.Since(started)
	row.Phases = append(row.Phases, results.Phase{Name: "building", Seconds: took.Seconds()})
	tell("built in %s, kept in %s", took.Round(time.Second), whole)
	return nil, nil
}

// onHost is a path of the host that may begin with its home.
func (s *site) onHost(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return path.Join(s.conn.Home(), rest)
	}
	return p
}
