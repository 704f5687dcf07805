package apply

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/plan"
	"hclbench/results"
)

// modelNews is how often it is told how far a download is.
const modelNews = 5 * time.Second

// model sees to it, before anything is started, that the engine's model is on the
// host: fetched where the lab says so, and whole where it is a directory. What a
// cache lacks otherwise the engine fetches itself.
func (s *site) model(ctx context.Context, d *plan.Deployment, row *results.Deployment) error {
	m := d.Engine.Model
	if m == nil || len(d.Instances) == 0 || d.Engine.Kind == engines.Sim {
		return nil
	}
	switch {
	case m.Download:
		return s.fetch(ctx, m, row)
	case path.IsAbs(m.Repo):
		dir := onHost(d.Instances[0], m.Repo)
		if err := s.agent.CheckModel(ctx, dir); err != nil {
			return fmt.Errorf("model %s (%s): %w. Copy it there again, or correct repo", m.Name, m.Pos, err)
		}
	}
	return nil
}

// onHost is where a path of the engine lies on the host: below the mount that holds
// it, or as it is.
func onHost(in plan.Instance, file string) string {
	at, longest := file, -1
	for _, m := range in.Container.Mounts {
		rest, below := strings.CutPrefix(file, m.Target)
		if below && (rest == "" || rest[0] == '/') && len(m.Target) > longest {
			at, longest = m.Source+rest, len(m.Target)
		}
	}
	return at
}

// fetch has the host's agent bring a model, and tells how far it is.
func (s *site) fetch(ctx context.Context, m *engines.Model, row *results.Deployment) error {
	tell := func(kind, format string, args ...any) {
		s.event(Event{Type: kind, Host: s.host.Name, Engine: row.Engine, Message: fmt.Sprintf(format, args...)})
	}
	tell(Step, "looking for model %s in %s", m.Repo, m.Cache)
	started, told, from := time.Now(), time.Time{}, int64(-1)
	commit, err := s.agent.FetchModel(ctx, agent.Model{
		Repo: m.Repo, Revision: m.Revision, Cache: m.Cache,
		Hub: s.opt.Hub.URL, Token: s.opt.Hub.Token, Agent: s.opt.Hub.UserAgent,
	}, func(p agent.ModelProgress) {
		if from < 0 {
			from, started = p.Bytes, time.Now()
		}
		if p.Bytes == p.Total || time.Since(told) < modelNews {
			return
		}
		told = time.Now()
		tell(Waiting, "downloading %s: %s", m.Repo, fetched(p, from, time.Since(started)))
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("model %s (%s): %w", m.Name, m.Pos, err)
	}
	row.Phases = append(row.Phases, results.Phase{Name: "fetching the model", Seconds: time.Since(started).Seconds()})
	row.Versions = map[string]string{modelCommit: commit}
	tell(Step, "model %s is there, at commit %s", m.Repo, commit[:min(len(commit), 12)])
	return nil
}

// modelCommit is among a deployment's versions: what the model's revision was.
const modelCommit = "model commit"

// fetched says how far a download is, which had from bytes when it began:
// "120.1 of 688.6 GB, 34 of 163 files, 1.2 GB/s, 7m54s left".
func fetched(p agent.ModelProgress, from int64, took time.Duration) string {
	out := fmt.Sprintf("%.1f of %.1f GB, %d of %d files", float64(p.Bytes)/1e9, float64(p.Total)/1e9, p.Done, p.Files)
	if rate := float64(p.Bytes-from) / took.Seconds(); rate > 0 && took > time.Second {
		left := time.Duration(float64(p.Total-p.Bytes) / rate * float64(time.Second))
		out += fmt.Sprintf(", %.2f GB/s, %s left", rate/1e9, left.Round(time.Second))
	}
	return out
}
