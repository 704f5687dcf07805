package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"hclbench/agent"
	"hclbench/apply/place"
	"hclbench/engines"
	"hclbench/flow"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
	"hclbench/provision/reach"
	"hclbench/results"
)

// prepare brings what the engine and its load need to their hosts. It comes before the
// engine: loading a model takes long, and costs.
func (t *trial) prepare(ctx context.Context) error {
	for _, step := range []func(context.Context) error{t.fabric, t.compareFacts, t.placeFiles, t.model, t.build, t.images} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	t.built, t.came = t.row.Phases, launching
	return nil
}

// fabric finds out how the hosts of the engine reach each other, before anything is brought
// there, and completes what the members are started with by it.
func (t *trial) fabric(ctx context.Context) error {
	n, ok := place.NetworkOf(t.d.Engine)
	if !ok || t.run.plan.Rehearsal {
		return nil
	}
	t.tell.say(Step, "looking how its hosts reach each other")
	j, err := n.Look(ctx, func(_ int, h *provision.Host) place.Reached { return t.at[h].Reached })
	if err != nil {
		return err
	}
	var wrong []string
	for _, found := range j.Findings {
		switch found.Level {
		case provision.Blocked:
			wrong = append(wrong, found.Sentence())
		case provision.Warning:
			t.tell.say(Warning, "its hosts: %s", found.Sentence())
		}
	}
	if len(wrong) > 0 {
		return errors.New("its hosts cannot work together:\n  - " + strings.Join(wrong, "\n  - "))
	}
	full := map[*provision.Host]provision.Fabric{}
	for i, h := range n.Hosts {
		full[h] = j.Full[i]
		t.at[h].Facts.Fabric = j.Facts[i].Traits(full[h])
	}
	t.d = t.d.On(full)
	t.describe()
	return nil
}

// compareFacts warns when a host is not as it was when cells were measured there, or sent from there.
func (t *trial) compareFacts(context.Context) error {
	for _, h := range t.d.Needs() {
		told := map[string]int{}
		for _, c := range t.d.Cells {
			if was := c.Facts[h]; c.Status == plan.Done && was != nil {
				if changed := strings.Join(t.at[h].Facts.Differences(*was), ", "); changed != "" {
					told[changed]++
				}
			}
		}
		for _, changed := range slices.Sorted(maps.Keys(told)) {
			t.tell.say(Warning, "%s has changed since %d of the cells that are up to date were measured: %s; "+
				"--strict-facts measures them again", h, told[changed], changed)
		}
	}
	return nil
}

func (t *trial) placeFiles(ctx context.Context) error {
	for _, c := range t.left {
		if c.Eval() != nil { // whose files are read here
			continue
		}
		for _, from := range t.at.onHosts(t.d.Senders(c)) {
			switch err := from.Bring(ctx, c.Task.Stored().Prompts().Dataset.Inputs(), t.run.plan.Local); {
			case err == nil:
			case errors.As(err, new(*fs.PathError)): // it is here that the file cannot be read
				return failed(ofDeployment, nil, err)
			case from == t.home() && ctx.Err() != nil:
				return context.Cause(ctx)
			default:
				return t.blame(from, err)
			}
		}
	}
	return nil
}

// model sees to it that the members' models are on their hosts, and the same on all of them.
func (t *trial) model(ctx context.Context) error {
	there, started := make([]agent.ModelThere, len(t.d.Members)), time.Now()
	if err := onHosts(ctx, t.d.Members, t.debug, func(ctx context.Context, i int) (err error) {
		in := t.d.Members[i]
		m := in.Engine.Model
		if m == nil || !engines.Real(in.Engine) {
			return nil
		}
		if before := loadedBefore(t.d.Members, i); before >= 0 {
			t.rows[i].Versions = t.rows[before].Versions
			return nil
		}
		if there[i], err = t.weights(ctx, i); err != nil {
			return fmt.Errorf("model %s (%s): %w", m.Name, m.Pos, err)
		}
		return nil
	}); err != nil {
		return err
	}
	for i, in := range t.d.Members {
		if there[i].Known() && in.Engine.Model.Download {
			t.row.Phases = append(t.row.Phases, results.Phase{Name: "fetching the model", Seconds: time.Since(started).Seconds()})
			break
		}
	}
	return sameEverywhere(t.d.Members, there)
}

// sameEverywhere reports members that would load different models by the same name.
func sameEverywhere(members []plan.Member, there []agent.ModelThere) error {
	first := map[sameModel]int{}
	for i, in := range members {
		if !there[i].Known() {
			continue
		}
		of := sameModelOf(in)
		one, known := first[of]
		if !known {
			first[of] = i
			continue
		}
		if what := there[one].Differs(there[i]); what != "" {
			m := in.Engine.Model
			return fmt.Errorf("model %s (%s) is not the same on %s and on %s: %s. The members of an engine have to "+
				"load the same: copy or fetch it again on one of them", m.Name, m.Pos, members[one].Host, in.Host, what)
		}
	}
	return nil
}

// sameModel is what has to be the same on all hosts.
type sameModel struct{ repo, revision string }

// sameModelOf is that of a member: of a directory, by where it lies on the host, as members of
// several engines may see others at the same path.
func sameModelOf(in plan.Member) sameModel {
	m := in.Engine.Model
	if path.IsAbs(m.Repo) {
		return sameModel{repo: in.Container.OnHost(m.Repo)}
	}
	return sameModel{m.Repo, cmp.Or(m.Revision, "main")}
}

// weights is what a member's host has of its model: fetched where the lab says so, and whole where
// it is a directory. What a cache lacks otherwise the engine fetches itself.
func (t *trial) weights(ctx context.Context, i int) (there agent.ModelThere, err error) {
	in := t.d.Members[i]
	m, s := in.Engine.Model, t.at[in.Host]
	switch {
	case m.Download:
		if there.Commit, err = t.fetch(ctx, s, m); err == nil {
			t.rows[i].Versions = map[string]string{"model commit": t.secrets.Line(there.Commit)}
		}
		if draft := engines.Draft(in.Engine); draft != nil && err == nil {
			if _, err = t.fetch(ctx, s, draft); err != nil {
				err = fmt.Errorf("its draft model %s: %w", draft.Repo, err)
			}
		}
	case path.IsAbs(m.Repo):
		if there, err = agent.ModelIn(ctx, s.Conn, in.Container.OnHost(m.Repo)); err != nil {
			return there, err
		}
		if !there.Known() && len(in.Engine.Setup) > 0 {
			return there, nil // which may make it
		}
		if err = there.Whole(); err != nil {
			err = fmt.Errorf("%s: %w. Copy it there again, or correct repo", in.Host, err)
		}
	case t.d.Grouped() && m.Cache != "":
		there, err = agent.ModelInCache(ctx, s.Conn, m.Cache, m.Repo, m.Revision)
		if err != nil && ctx.Err() == nil { // what others own there is theirs to show
			t.debug("what the cache has of the model is not known", err)
			return agent.ModelThere{}, nil
		}
	}
	return there, err
}

// loadedBefore is an earlier member on the same host that serves the same model, which has what
// both need; -1: none.
func loadedBefore(members []plan.Member, i int) int {
	in := members[i]
	return slices.IndexFunc(members[:i], func(m plan.Member) bool { return m.Host == in.Host && m.Engine.Model == in.Engine.Model })
}

func (t *trial) fetch(ctx context.Context, s *place.Session, m *engines.Model) (commit string, err error) {
	hub, tell := t.run.opt.Hub, t.tell.at(s.Host)
	tell.say(Step, "looking for model %s in %s", m.Repo, m.Cache)
	began, from := time.Time{}, int64(0)
	commit, err = s.Agent.FetchModel(ctx, agent.Model{
		Repo: m.Repo, Revision: m.Revision, Cache: m.Cache, Hub: hub.URL, Token: hub.Token, Agent: hub.UserAgent,
	}, func(p agent.ModelProgress) {
		if began.IsZero() && p.Bytes == p.Total {
			return // it is there
		}
		if began.IsZero() || p.Phase != agent.Downloading {
			began, from = time.Now(), p.Bytes
		}
		news := Fetched{Repo: m.Repo, ModelProgress: p}
		if took := time.Since(began).Seconds(); took > 1 {
			news.Rate = max(0, float64(p.Bytes-from)/took)
		}
		tell.tell(Event{Type: Download, Download: &news})
	})
	if err != nil {
		return "", err
	}
	tell.say(Step, "model %s is there, at commit %s", m.Repo, commit[:min(len(commit), 12)])
	return commit, nil
}

// build makes what the engine's build block describes, unless the host has it. The output gets its
// name when it is whole; what a build that failed has left is emptied by the next. Of hosts that
// share a home all build, and the first names its output.
func (t *trial) build(ctx context.Context) error {
	took := make([]time.Duration, len(t.d.Members))
	err := onHosts(ctx, t.d.Members, t.debug, func(ctx context.Context, i int) (err error) {
		in := t.d.Members[i]
		ct, output, ok := engines.BuildContainer(in.Engine)
		if !ok || loadedBefore(t.d.Members, i) >= 0 {
			return nil
		}
		ct.Name, ct.Labels = in.Container.Name+"-build", maps.Clone(in.Container.Labels)
		in.Container, in.Runtime, in.Ports = ct, provision.Docker, nil
		took[i], err = t.buildOn(ctx, in, output)
		return err
	})
	if longest := slices.Max(append(took, 0)); longest > 0 {
		t.row.Phases = append(t.row.Phases, results.Phase{Name: "building", Seconds: longest.Seconds()})
	}
	return err
}

// buildOn says how long it took; 0: the host has what would be built.
func (t *trial) buildOn(ctx context.Context, in plan.Member, output string) (took time.Duration, err error) {
	s, ct, tell := t.at[in.Host], &in.Container, t.tell.at(in.Host)
	whole, growing := s.Path(output), s.Path(output+"."+s.Conn.Machine()+".part")
	ct.Mounts[len(ct.Mounts)-1].Source = growing
	look := fmt.Sprintf("mkdir -p %[1]s && if test -d %[2]s; then touch %[2]s; echo there; else mkdir -p %[3]s; fi",
		plain.Quote(path.Dir(whole)), plain.Quote(whole), plain.Quote(growing)) // touched, it is seen to be in use
	there, err := s.Conn.Run(ctx, look, nil)
	if err != nil {
		return 0, err
	}
	if strings.TrimSpace(there) == "there" {
		tell.say(Step, "what is built is there: %s", whole)
		return 0, nil
	}
	image, err := s.Pull(ctx, ct.Image, tell.hear)
	if err != nil {
		return 0, err
	}
	ct.Image = image.ID
	*ct, _ = engines.CompileCache(in.Engine, *ct, image.ID)
	tell.say(Step, "building %s", in.Engine.Build.Output)
	m, err := t.launch(ctx, in)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.down(ctx, m)) }()
	if err := t.waitFor("the build", m).until(ctx); err != nil {
		return 0, err
	}
	_, err = s.Conn.Run(ctx, fmt.Sprintf("test -n \"$(ls -A %s)\" && %s", plain.Quote(growing), reach.Rename(growing, whole)), nil)
	if errors.As(err, new(*reach.CommandError)) {
		what := fmt.Sprintf("the build ended, but left nothing in %s: %v", in.Engine.Build.Output, err)
		return 0, errors.New(withTail(what, m.tail(ctx)))
	}
	if err != nil {
		return 0, err
	}
	took = time.Since(m.started)
	tell.say(Step, "built in %s, kept in %s", took.Round(time.Second), whole)
	return took, nil
}

// images brings the members' images and notes what they are, whatever their tags mean later.
func (t *trial) images(ctx context.Context) error {
	t.parts = slices.Clone(t.d.Members)
	started, got := time.Now(), make([]provision.Image, len(t.parts))
	if err := onHosts(ctx, t.parts, t.debug, func(ctx context.Context, i int) (err error) {
		in := t.parts[i]
		switch s := t.at[in.Host]; {
		case in.Runtime == provision.Docker:
			got[i], err = s.Pull(ctx, in.Container.Image, t.tell.at(in.Host).hear)
		case s.Pod != nil && engines.InImage(in.Engine):
			got[i] = provision.Image{Ref: in.Engine.Image, Digest: s.Pod.Image()}
		}
		return err
	}); err != nil {
		return err
	}
	pulled := false
	for i, image := range got {
		if image.Ref == "" {
			continue
		}
		t.rows[i].Digest = image.Digest
		t.compareDigest(t.parts[i].Role, image)
		if image.ID != "" { // of a pod the node has it
			t.parts[i].Container.Image, pulled = image.ID, true
		}
	}
	if pulled {
		t.row.Phases = append(t.row.Phases, results.Phase{Name: "pulling", Seconds: time.Since(started).Seconds()})
	}
	doubts, err := alike(t.rows)
	if err != nil {
		return err
	}
	for _, said := range doubts {
		t.tell.say(Warning, "%s", said)
	}
	return onHosts(ctx, t.parts, t.debug, func(ctx context.Context, i int) error {
		in := t.parts[i]
		if in.Runtime != provision.Docker || in.Engine.Router {
			return nil
		}
		err := t.at[in.Host].ProveGPUs(ctx, in.Container, in.Engine.Image, t.tell.at(in.Host).hear)
		if errors.Is(err, provision.ErrUnclean) { // nothing is started beside what it has left
			return failed(ofHost, in.Host, err)
		}
		return err
	})
}

// compareDigest warns when a tag has moved: new cells would stand beside old ones of another image.
func (t *trial) compareDigest(role string, image provision.Image) {
	moved, before := 0, ""
	for _, c := range t.d.Cells {
		was := c.Digests[role]
		if c.Status == plan.Done && was != "" && image.Digest != "" && was != image.Digest {
			moved, before = moved+1, was
		}
	}
	if moved > 0 {
		t.tell.say(Warning, "%s now means the image %s, but %d of the cells that are up to date were measured with %s; "+
			"--rerun measures them again, and an image written with its digest cannot move",
			image.Ref, image.Digest, moved, before)
	}
}

// onHosts does something for each member: on all hosts at once, and on a host in the members'
// order. The first failure ends the work on the others. It is what is returned, with what others
// have met that costs their host; what else they say is passed to dropped.
func onHosts(ctx context.Context, members []plan.Member, dropped func(what string, err error),
	do func(ctx context.Context, i int) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var mu sync.Mutex
	var met []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if end(err); len(met) == 0 {
			met = append(met, err)
			return
		}
		told := failures(errors.Join(met...), ofDeployment)
		for _, f := range failures(err, ofDeployment) { // others were broken off, and may give the first failure as the reason
			switch {
			case slices.Contains(told, f):
			case f.scope > ofDeployment:
				met = append(met, f)
			default:
				dropped("what was broken off on another host", f)
			}
		}
	}
	on := map[*provision.Host][]int{}
	for i, m := range members {
		on[m.Host] = append(on[m.Host], i)
	}
	flow.Each(slices.Collect(maps.Values(on)), func(_ int, list []int) error {
		for _, i := range list {
			if err := do(ctx, i); err != nil {
				fail(err)
				break
			}
		}
		return nil
	})
	return errors.Join(met...)
}
