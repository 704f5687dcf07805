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
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/results"
)

// Commands of the host's shell around a build: where it is there already, it is said to
// be in use; where it is not, a directory is made for it to grow in.
const (
	lookForBuild = "mkdir -p %[1]s && if test -d %[2]s; then touch %[2]s; echo there; else mkdir -p %[3]s; fi"
	nameBuild    = "test -n \"$(ls -A %[1]s)\" && mv -T %[1]s %[2]s"
)

// build makes what the engine's build block describes, unless the host has it. The
// output grows in a directory of its own and gets its name when it is whole, so
// that what has a name can be used; what a build that failed has left is emptied
// by the next.
func (t *trial) build(ctx context.Context) error {
	ct, output, ok := engines.BuildContainer(t.d.Engine)
	if !ok {
		return nil
	}
	for i, in := range t.d.Members {
		if t.before(i) >= 0 {
			continue
		}
		ct.Name, ct.Labels = in.Container.Name+"-build", maps.Clone(in.Container.Labels)
		in.Container, in.Runtime, in.Ports = ct, provision.Docker, nil
		if err := t.buildOn(ctx, in, output); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) buildOn(ctx context.Context, in plan.Member, output string) (err error) {
	s, ct := t.at[in.Host], &in.Container
	whole, growing := s.path(output), s.path(ct.Mounts[len(ct.Mounts)-1].Source)
	look := fmt.Sprintf(lookForBuild, plain.Quote(path.Dir(whole)), plain.Quote(whole), plain.Quote(growing))
	there, err := s.conn.Run(ctx, look, nil)
	if err != nil {
		return err
	}
	if strings.TrimSpace(there) == "there" {
		t.tell.say(Step, "what is built is there: %s", whole)
		return nil
	}
	image, err := s.pull(ctx, ct.Image, t.tell)
	if err != nil {
		return err
	}
	ct.Image = image.ID
	*ct, _ = engines.CompileCache(t.d.Engine, *ct, image.ID)
	t.tell.say(Step, "building %s", t.d.Engine.Build.Output)
	m, err := t.launch(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.down(ctx, m)) }()
	if err := t.waitFor("the build", m).until(ctx); err != nil {
		return err
	}
	_, err = s.conn.Run(ctx, fmt.Sprintf(nameBuild, plain.Quote(growing), plain.Quote(whole)), nil)
	if errors.As(err, new(*reach.CommandError)) {
		what := fmt.Sprintf("the build ended, but left nothing in %s: %v", t.d.Engine.Build.Output, err)
		return errors.New(withTail(what, m.tail(ctx)))
	} else if err != nil {
		return err
	}
	took := time.Since(m.started)
	t.row.Phases = append(t.row.Phases, results.Phase{Name: "building", Seconds: took.Seconds()})
	t.tell.say(Step, "built in %s, kept in %s", took.Round(time.Second), whole)
	return nil
}
