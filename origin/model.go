package origin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"hclbench/plain"
)

// HuggingFace is the model hub.
const HuggingFace = "https://huggingface.co"

// Hub asks the model hub.
type Hub struct {
	Client
	URL   string // empty: [HuggingFace]
	Token string // for models that want one
}

func (h *Hub) url() string { return strings.TrimRight(cmp.Or(h.URL, HuggingFace), "/") }

func (h *Hub) name() string { return strings.TrimPrefix(h.url(), "https://") }

// Commit asks for the commit that a model's revision, a branch or tag, is today; an empty one is the
// default branch. Errors wrap [ErrNotFound], [ErrAccess] or [ErrNotReachable] where they are that.
func (h *Hub) Commit(ctx context.Context, repo, revision string) (string, error) {
	commit, err := h.commit(ctx, repo, revision)
	if err != nil {
		if revision != "" {
			repo += "@" + revision
		}
		return "", fmt.Errorf("ask %s for model %s: %w", h.name(), repo, err)
	}
	return commit, nil
}

func (h *Hub) commit(ctx context.Context, repo, revision string) (string, error) {
	// The default branch is main on every repository of the hub.
	if revision == "" {
		revision = "main"
	}
	resp, err := h.get(ctx, "/api/models/"+escaped(repo)+"/revision/"+url.PathEscape(revision), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		SHA string `json:"sha"`
	}
	if err := decode(resp, "answer", &answer); err != nil {
		return "", err
	}
	if !commitForm.MatchString(answer.SHA) {
		return "", fmt.Errorf("the answer's sha %q is not a commit", answer.SHA)
	}
	return answer.SHA, nil
}

// get asks the hub; only an answer that was hoped for is returned.
func (h *Hub) get(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url()+path, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if h.Token != "" {
		req.Header.Set("Authorization", "Bearer "+h.Token)
	}
	resp, err := h.tokenClient().do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
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

// tokenClient is the client, which takes the token nowhere else: not even to other names
// of the hub's domain, where the standard library would.
func (h *Hub) tokenClient() Client {
	c := h.Client
	if h.Token == "" {
		return c
	}
	client := *cmp.Or(c.HTTP, http.DefaultClient)
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("it sends on without end")
		}
		if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
			req.Header.Del("Authorization")
		}
		return nil
	}
	c.HTTP = &client
	return c
}

func escaped(path string) string {
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// File is one file of a model.
type File struct {
	Path string // below the model, with slashes
	Size int64  // bytes
	// Sum is the SHA-256 of a large file, 64 hex digits, or the id that git gives a
	// small one, the SHA-1 of "blob SIZE\x00" and its bytes, 40 hex digits. It is
	// also the file's name in Hugging Face's cache.
	Sum string
}

var sumForm = regexp.MustCompile(`^([0-9a-f]{64}|[0-9a-f]{40})$`)

// maxFiles is more than any model has: an answer that goes on has no end.
const maxFiles = 100_000

// Files lists all files of a model at a commit. Errors are those of [Hub.Commit].
func (h *Hub) Files(ctx context.Context, repo, commit string) ([]File, error) {
	var files []File
	for next := "/api/models/" + escaped(repo) + "/tree/" + url.PathEscape(commit) + "?recursive=true"; next != ""; {
		page, after, err := h.list(ctx, next)
		files, next = append(files, page...), after
		if len(files) > maxFiles || len(page) == 0 && next != "" {
			err = errors.New("its list has no end")
		}
		if err != nil {
			return nil, fmt.Errorf("ask %s for the files of %s: %w", h.name(), repo, err)
		}
	}
	return files, nil
}

func (h *Hub) list(ctx context.Context, path string) (files []File, next string, err error) {
	resp, err := h.get(ctx, path, nil)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	var page []struct {
		Type, Path, OID string
		Size            int64
		LFS             *struct{ OID string }
	}
	if err := decode(resp, "answer", &page); err != nil {
		return nil, "", err
	}
	for _, p := range page {
		if p.Type != "file" {
			continue
		}
		f := File{Path: p.Path, Size: p.Size, Sum: p.OID}
		if p.LFS != nil {
			f.Sum = strings.TrimPrefix(p.LFS.OID, "sha256:")
		}
		if !filepath.IsLocal(f.Path) || plain.Line(f.Path) != f.Path || !sumForm.MatchString(f.Sum) || f.Size < 0 {
			return nil, "", fmt.Errorf("the answer's file %q with sum %q and %d bytes is none", f.Path, f.Sum, f.Size)
		}
		files = append(files, f)
	}
	// Link: <https://huggingface.co/api/models/…&cursor=…>; rel="next"
	if link, _, ok := strings.Cut(resp.Header.Get("Link"), `>; rel="next"`); ok {
		u, err := url.Parse(strings.TrimPrefix(link, "<"))
		if err != nil {
			return nil, "", fmt.Errorf("read answer: %w", err)
		}
		next = u.RequestURI() // asked from the hub itself, whatever name the link has
	}
	return files, next, nil
}

// Open opens a model's file at an offset. at is where the answer really begins: 0
// when the hub does not know ranges. The token goes to the hub alone, not to where
// it sends on to. Errors are those of [Hub.Commit].
func (h *Hub) Open(ctx context.Context, repo, commit, path string, offset int64) (body io.ReadCloser, at int64, err error) {
	header := http.Header{}
	if offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := h.get(ctx, "/"+escaped(repo)+"/resolve/"+url.PathEscape(commit)+"/"+escaped(path), header)
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode == http.StatusPartialContent {
		return resp.Body, offset, nil
	}
	return resp.Body, 0, nil
}
