package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hclbench/engines"
	"hclbench/flow"
	"hclbench/load"
	"hclbench/plain"
	"hclbench/plan"
	"hclbench/provision"
)

// start brings the engine up and waits until it serves: all members side by side, since ranks
// that do not find each other within minutes give up, and when they serve the router.
func (t *trial) start(ctx context.Context) error {
	t.row.CompileCache = ""
	workers, router := t.parts, []plan.Member(nil)
	if n := len(t.parts) - 1; n > 0 && t.parts[n].Engine.Router {
		workers, router = t.parts[:n], t.parts[n:]
	}
	var now serving
	var err error
	if t.objects, err = operate(ctx, t); err != nil {
		return err
	}
	if err := t.launchAll(ctx, workers); err != nil {
		return err
	}
	t.came = running
	if err := t.ready(ctx, &now, t.members...); err != nil {
		if failed, ok := errors.AsType[*waitError](err); ok && t.objects != nil {
			failed.tail = t.objects.tail(ctx)
		}
		return err
	}
	if router != nil {
		if err := t.launchAll(ctx, router); err != nil {
			return err
		}
		if err := t.ready(ctx, &now, t.front()); err != nil {
			return err
		}
	}
	if err := t.tryAll(ctx, now.model); err != nil {
		return err
	}
	return t.serves(ctx, now)
}

// operate makes the objects of an engine of manifests, as far as that can be done; nil: it is none.
func operate(ctx context.Context, t *trial) (*operated, error) {
	m := t.d.Engine.Manifests
	if m == nil {
		return nil, nil
	}
	t.row.Started = time.Now()
	service, _, _ := strings.Cut(m.Service, ":")
	o := &operated{roles: m.Roles, service: service, tell: t.tell.at(t.home().Host)}
	o.tell.say(Step, "making %s in the cluster", plain.Count(len(m.Objects), "object"))
	labels := map[string]string{provision.LabelEngine: t.d.Engine.Label(), provision.LabelDeployment: t.d.ID}
	var err error
	o.Made, err = t.home().Root.Make(ctx, m.Objects, m.Wait, m.Roles, labels)
	if o.Objects() == 0 { // nothing is to be deleted, and pods that it selects are not its own
		o = nil
	}
	return o, err
}

// launchAll starts members side by side.
func (t *trial) launchAll(ctx context.Context, parts []plan.Member) error {
	started, caches := make([]*member, len(parts)), make([]string, len(parts))
	err := flow.Each(parts, func(i int, in plan.Member) (err error) {
		started[i], caches[i], err = t.bring(ctx, in)
		return err
	})
	for i, m := range started {
		if m != nil {
			t.members = append(t.members, m)
			if caches[i] == "cold" || t.row.CompileCache == "" { // the slowest decides
				t.row.CompileCache = caches[i]
			}
		}
	}
	if len(t.members) > 0 {
		t.row.Started = t.members[0].started
	}
	return err
}

// bring starts one member at its place, where its ports have to be free.
func (t *trial) bring(ctx context.Context, in plan.Member) (m *member, cache string, err error) {
	s := t.at[in.Host]
	if in.Container, cache, err = s.CompileCache(ctx, in.Engine, in.Container); err != nil {
		return nil, "", err
	}
	for _, port := range in.Listens() {
		if err := s.Conn.PortFree(ctx, port, s.Docker.Name); err != nil {
			return nil, "", err
		}
	}
	what := "starting"
	if t.d.Grouped() {
		what += " " + in.Name()
	}
	if cache != "" {
		what += " with a " + cache + " compile cache"
	}
	t.tell.at(in.Host).say(Step, "%s", what)
	m, err = t.launch(ctx, in)
	if err != nil {
		return nil, "", err
	}
	return m, cache, nil
}

// serves notes what an engine is that has proved that it serves.
func (t *trial) serves(ctx context.Context, now serving) error {
	t.row.Model, t.row.Phases = now.model, append(t.row.Phases, now.phases...)
	t.context = now.context
	t.tellTooLong()
	flow.Each(t.members, func(i int, m *member) error {
		t.rows[i].Listener = m.listener
		if found := t.versions(ctx, m); len(found) > 0 {
			maps.Copy(found, t.rows[i].Versions)
			t.rows[i].Versions = found
		}
		return nil
	})
	for i, m := range t.members {
		for _, said := range engines.ServedSettings(m.Engine, t.rows[i].Versions) {
			t.tell.say(Warning, "%s", m.says(said))
		}
	}
	t.row.Ready = time.Since(t.row.Started).Seconds()
	if t.objects != nil {
		t.row.GPUCount = 0
		for _, p := range t.objects.Pods() {
			t.row.GPUCount += p.GPUs
		}
	}
	images, _ := alike(t.rows)
	t.doubts = load.Because(load.CodeImages, images...)
	t.row.Served = t.servedBy(ctx)
	if said := t.objects.strangers(ctx); said != "" {
		t.tell.say(Warning, "%s", said)
	}
	told := t.tally(ctx)
	if said := append(t.unproved(told), unseenLosses(told)); said[0] != "" {
		t.tell.say(Warning, "%s", said[0])
	}
	if err := t.keepRow(ctx); err != nil {
		return err
	}
	serves := fmt.Sprintf("serves %s after %.1f s", t.row.Model, t.row.Ready)
	if l := now.listener; l != nil && l.Proved {
		serves += "; " + l.By
	} else if l != nil && !t.run.plan.Rehearsal {
		t.tell.say(Warning, "the server is %s", l)
	}
	t.tell.tell(Event{Type: Ready, Message: serves, Listener: now.listener})
	return nil
}

// servedBy is what the engine says that it runs with: what its one server says, or what each
// does under its member's name.
func (t *trial) servedBy(ctx context.Context) json.RawMessage {
	workers := t.workers()
	texts := flow.Map(workers, func(m *member) json.RawMessage { return t.served(ctx, m) })
	said := map[string]json.RawMessage{}
	for i, m := range workers {
		if texts[i] != nil {
			said[m.Name()] = texts[i]
			t.doubts = append(t.doubts, load.Because(load.CodeServed, t.compareServed(m.Engine, m.name, texts[i])...)...)
		}
	}
	if !t.d.Grouped() {
		for _, text := range said {
			return text
		}
		return nil
	}
	if len(said) == 0 {
		return nil
	}
	text, err := json.Marshal(said)
	if err != nil {
		panic(fmt.Sprintf("marshal what was JSON: %v. This is a bug in hcl.", err))
	}
	return text
}

// stop takes the engine down: first what gives requests to the others, then these, side by
// side. What they have said is kept before any of them ends, as they end each other.
func (t *trial) stop(ctx context.Context) error {
	if t.objects != nil {
		t.keepPodLogs(ctx)
		err := failed(ofHost, t.home().Host, t.objects.down(ctx))
		t.objects, t.row.Stopped = nil, time.Now()
		return errors.Join(err, t.keepRow(ctx))
	}
	if len(t.members) == 0 {
		return nil
	}
	down := func(members []*member, how func(context.Context, *member) error) error {
		return flow.Each(members, func(_ int, m *member) error { return how(ctx, m) })
	}
	reachable := slices.DeleteFunc(slices.Clone(t.members), func(m *member) bool {
		return m.at.Gone()
	})
	down(reachable, func(ctx context.Context, m *member) error { t.keepLog(ctx, m); return nil })
	isRouter := func(m *member) bool { return m.Engine.Router }
	workers := slices.DeleteFunc(slices.Clone(t.members), isRouter)
	routers := slices.DeleteFunc(slices.Clone(t.members), func(m *member) bool { return !isRouter(m) })
	err := errors.Join(down(routers, t.down), down(workers, t.down))
	t.members = nil
	t.row.Stopped = time.Now()
	return errors.Join(err, t.keepRow(ctx))
}

// keepPodLogs keeps what the pods of an engine of manifests have said with the run.
func (t *trial) keepPodLogs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	logs, err := t.objects.Logs(ctx)
	if err != nil {
		t.debug("the logs are not kept", err)
	}
	for _, l := range logs {
		text, err := l.Open(ctx, false, -1)
		t.keepText(ctx, l.String(), text, err)
	}
}

func (t *trial) down(ctx context.Context, m *member) error {
	if m.at.Gone() {
		return nil // it has cleaned itself, or who has it now does
	}
	m.tell.say(Step, "stopping")
	return failed(ofHost, m.Host, m.at.Down(ctx, m.rt, m.Container, m.tell.hear))
}

// keepLog keeps what a member has said with the run, before it is removed.
func (t *trial) keepLog(ctx context.Context, m *member) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	log, err := m.rt.Logs(ctx, m.id, false, -1)
	t.keepText(ctx, m.name, log, err)
}

// keepWithin is how long logs may take to be kept.
const keepWithin = 30 * time.Second

// keepText keeps a log of the engine with the run: the beginning, which says how it came up, and the
// end. A log that cannot be read is no reason to leave an engine running.
func (t *trial) keepText(ctx context.Context, of string, log io.ReadCloser, err error) {
	if err != nil {
		t.debug("the log is not kept", err)
		return
	}
	defer log.Close()
	text, err := excerpt(log, 256<<10, 1<<20)
	if len(text) > 0 {
		err = t.run.keep.log(ctx, strings.ReplaceAll(strings.TrimSuffix(t.row.Engine+"-"+of, "-"), " ", "-"), text)
	}
	if err != nil {
		t.debug("the log is not kept whole", err)
	}
}
