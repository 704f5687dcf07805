package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"hclbench/origin"
	"hclbench/plain"
)

// Model is one that a host is to have.
type Model struct {
	Repo     string `json:"repo"`
	Revision string `json:"revision,omitempty"` // empty: main
	Cache    string `json:"cache"`              // Hugging Face's cache directory on the host; "~/" is below the home
	Hub      string `json:"hub,omitempty"`      // URL; empty: [origin.HuggingFace]
	Token    string `json:"token,omitempty"`    // for the hub; it is kept nowhere
	Agent    string `json:"user_agent,omitempty"`
}

// ModelProgress is how far a model's download is. What was there counts as done.
type ModelProgress struct {
	Bytes int64  `json:"bytes"`
	Total int64  `json:"total"`
	Files int    `json:"files"`
	Done  int    `json:"done"`          // files
	Phase string `json:"phase"`         // [Downloading] or [WaitingFor]
	For   string `json:"for,omitempty"` // who fetches the model meanwhile, when we wait
}

// The phases of a download.
const (
	Downloading = "downloading"
	WaitingFor  = "waiting" // for somebody else's download of the same model
)

// modelEvent is one line of the answer; the last has a commit or an error.
type modelEvent struct {
	Progress *ModelProgress `json:"progress,omitempty"`
	Commit   string         `json:"commit,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// fetchModel brings a model to the host and tells how far it is; it ends with its
// request, and keeps what has come.
func (s *server) fetchModel(w http.ResponseWriter, r *http.Request) error {
	var want Model
	if err := read(r, &want); err != nil {
		return err
	}
	dir, err := homePath(want.Cache)
	if err != nil {
		return fail(http.StatusBadRequest, "%v", err)
	}
	enc, flush := json.NewEncoder(w), http.NewResponseController(w)
	tell := func(e modelEvent) {
		enc.Encode(e) // an error here is the caller gone, which ends the request
		flush.Flush()
	}
	m := modelCache{
		dir: dir, repo: want.Repo, revision: want.Revision, who: s.lessor.who(),
		hub:   origin.Hub{Client: origin.Client{UserAgent: want.Agent}, URL: want.Hub, Token: want.Token},
		pause: fetchPause, stall: fetchStall,
		progress: func(p ModelProgress) { tell(modelEvent{Progress: &p}) },
	}
	s.Log.Info("fetching", "model", want.Repo, "cache", dir)
	commit, err := m.fetch(r.Context())
	if err != nil {
		why := plain.NewSecrets(want.Token).Hide(err.Error())
		s.Log.Warn("fetching", "model", want.Repo, "err", why)
		tell(modelEvent{Error: why})
		return nil
	}
	tell(modelEvent{Commit: commit})
	return nil
}

// homePath is an absolute path for one that may begin with the home.
func homePath(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not an absolute path", path)
	}
	return path, nil
}

// FetchModel brings a model to the host, and returns its commit. A download that
// breaks off, be it for the hub's connection or ours, goes on where it was. The
// token goes to the hub, and is kept nowhere.
func (a *Client) FetchModel(ctx context.Context, m Model, progress func(ModelProgress)) (commit string, err error) {
	var last modelEvent
	most := int64(-1)
	err = a.persist(ctx, func() (more bool, err error) {
		before := most
		last, err = a.fetchModel(ctx, m, func(p ModelProgress) { most = max(most, p.Bytes); progress(p) })
		return most > before, err
	})
	switch {
	case err != nil:
		return "", cmp.Or(context.Cause(ctx), err)
	case last.Error != "":
		return "", fmt.Errorf("%s: %s", a.host, last.Error)
	}
	return last.Commit, nil
}

func (a *Client) fetchModel(ctx context.Context, m Model, progress func(ModelProgress)) (modelEvent, error) {
	resp, err := a.open(ctx, "POST", "/v1/models", m)
	if err != nil {
		return modelEvent{}, err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var e modelEvent
		if err := dec.Decode(&e); err != nil {
			return e, fmt.Errorf("agent on %s: the answer broke off: %w", a.host, err)
		}
		if e.Progress == nil {
			return e, nil
		}
		progress(*e.Progress)
	}
}
