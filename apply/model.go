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
	"hclbench/provision"
	"hclbench/results"
)

// Fetched is how far the download of a model is.
type Fetched struct {
	Repo string `json:"repo"`
	agent.ModelProgress
	Rate float64 `json:"bytes_per_s,omitempty"` // since it began; 0: not known yet
}

// Left is how long it still takes; 0: nobody knows.
func (f Fetched) Left() time.Duration {
	if f.Rate <= 0 {
		return 0
	}
	return time.Duration(float64(f.Total-f.Bytes) / f.Rate * float64(time.Second))
}

// model sees to it, before anything is started, that the engine's model is on the
// host: fetched where the lab says so, and whole where it is a directory. What a
// cache lacks otherwise the engine fetches itself.
func (s *site) model(ctx context.Context, d *plan.Deployment, row *results.Deployment) error {
	m := d.Engine.Model
	if m == nil || len(d.Members) == 0 || d.Engine.Kind == engines.Sim {
		return nil
	}
	switch {
	case m.Download:
		return s.fetch(ctx, m, row)
	case path.IsAbs(m.Repo):
		there, err := agent.ModelIn(ctx, s.conn, onHost(d.Members[0].Container, m.Repo))
		if err == nil {
			err = there.Whole()
		}
		if err != nil {
			return fmt.Errorf("model %s (%s): %w. Copy it there again, or correct repo", m.Name, m.Pos, err)
		}
	}
	return nil
}

// onHost is where a path of the engine lies on the host: below the mount that holds
// it, or as it is.
func onHost(ct provision.Container, file string) string {
	at, longest := file, -1
	for _, m := range ct.Mounts {
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
	started, began, from := time.Now(), time.Time{}, int64(0)
	commit, err := s.agent.FetchModel(ctx, agent.Model{
		Repo: m.Repo, Revision: m.Revision, Cache: m.Cache,
		Hub: s.opt.Hub.URL, Token: s.opt.Hub.Token, Agent: s.opt.Hub.UserAgent,
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
		s.event(Event{Type: Download, Host: s.host.Name, Engine: row.Engine, Download: &news})
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
