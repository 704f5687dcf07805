package apply

import (
	"context"
	"fmt"
	"path"
	"slices"
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

// model sees to it, before anything is started, that the engine's model is on its
// hosts: fetched where the lab says so, and whole where it is a directory. What a
// cache lacks otherwise the engine fetches itself.
func (t *trial) model(ctx context.Context) error {
	m := t.d.Engine.Model
	if m == nil || !engines.Real(t.d.Engine) {
		return nil
	}
	for i, in := range t.d.Members {
		s := t.at[in.Host]
		switch before := t.before(i); {
		case before >= 0:
			t.rows[i].Versions = t.rows[before].Versions
		case m.Download:
			commit, err := t.fetch(ctx, s, m)
			if err != nil {
				return fmt.Errorf("model %s (%s): %w", m.Name, m.Pos, err)
			}
			t.rows[i].Versions = map[string]string{modelCommit: commit}
		case path.IsAbs(m.Repo):
			there, err := agent.ModelIn(ctx, s.conn, onHost(in.Container, m.Repo))
			if err == nil {
				err = there.Whole()
			}
			if err != nil {
				return fmt.Errorf("model %s (%s): %w. Copy it there again, or correct repo", m.Name, m.Pos, err)
			}
		}
	}
	return nil
}

// modelCommit is among a member's versions: what the model's revision was.
const modelCommit = "model commit"

// before is an earlier member on the same host, which has what all of them need; -1: none.
func (t *trial) before(i int) int {
	h := t.d.Members[i].Host
	return slices.IndexFunc(t.d.Members[:i], func(m plan.Member) bool { return m.Host == h })
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

// fetch has a host's agent bring a model, tells how far it is, and returns its commit.
func (t *trial) fetch(ctx context.Context, s *session, m *engines.Model) (commit string, err error) {
	hub := s.opt.Hub
	t.tell.say(Step, "looking for model %s in %s", m.Repo, m.Cache)
	started, began, from := time.Now(), time.Time{}, int64(0)
	commit, err = s.agent.FetchModel(ctx, agent.Model{
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
		t.tell.tell(Event{Type: Download, Download: &news})
	})
	if err != nil {
		return "", err
	}
	t.row.Phases = append(t.row.Phases, results.Phase{Name: "fetching the model", Seconds: time.Since(started).Seconds()})
	t.tell.say(Step, "model %s is there, at commit %s", m.Repo, commit[:min(len(commit), 12)])
	return commit, nil
}
