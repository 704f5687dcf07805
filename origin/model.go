package origin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// HuggingFace is the model hub.
const HuggingFace = "https://huggingface.co"

// Hub asks the model hub.
type Hub struct {
	Client
	URL   string // empty: [HuggingFace]
	Token string // for models that want one
}

func (h *Hub) url() string {
	if h.URL == "" {
		return HuggingFace
	}
	return strings.TrimRight(h.URL, "/")
}

// Commit asks for the commit that a model's revision, a branch or tag, is today;
// an empty one is the default branch. Errors wrap [ErrNotFound], [ErrAccess] or
// [ErrNotReachable] where they are that.
func (h *Hub) Commit(ctx context.Context, repo, revision string) (string, error) {
	commit, err := h.commit(ctx, repo, revision)
	if err != nil {
		if revision != "" {
			repo += "@" + revision
		}
		return "", fmt.Errorf("ask %s for model %s: %w", strings.TrimPrefix(h.url(), "https://"), repo, err)
	}
	return commit, nil
}

func (h *Hub) commit(ctx context.Context, repo, revision string) (string, error) {
	// The default branch is main on every repository of the hub.
	if revision == "" {
		revision = "main"
	}
	resp, err := h.get(ctx, "/api/models/"+escaped(repo)+"/revision/"+url.PathEscape(revision))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		SHA string `json:"sha"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	if !commitForm.MatchString(answer.SHA) {
		return "", fmt.Errorf("the answer's sha %q is not a commit", answer.SHA)
	}
	return answer.SHA, nil
}

// get asks the hub; only an answer that was hoped for is returned.
func (h *Hub) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url()+path, nil)
	if err != nil {
		return nil, err
	}
	if h.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	resp, err := h.do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp, nil
	case http.StatusNotFound:
		err = fmt.Errorf("%w: there is no such repository or revision", ErrNotFound)
	case http.StatusUnauthorized, http.StatusForbidden:
		hint := "the token in HF_TOKEN may not see it"
		if h.Token == "" {
			hint = "if it wants a token, set HF_TOKEN"
		}
		err = fmt.Errorf("%w: it is private, or there is no such repository; %s", ErrAccess, hint)
	default:
		err = answered(resp)
	}
	resp.Body.Close()
	return nil, err
}

// escaped is a path for a URL, its slashes kept.
func escaped(path string) string {
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}
