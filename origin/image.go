package origin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// manifests are the kinds that a tag can stand for. The lists of several platforms come first:
// their digest is the one that the tag has on every host.
const manifests = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, " +
	"application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

// base is the URL of a registry. Only one on this machine is spoken to without TLS, as Docker does.
func base(host string) string {
	if host == "docker.io" {
		host = "registry-1.docker.io"
	}
	if onThisMachine(host) {
		return "http://" + host
	}
	return "https://" + host
}

// RegistryURL is where the image's registry is asked.
func (r Ref) RegistryURL() string { return base(r.Registry) }

// Registries asks image registries. The zero value has no logins.
type Registries struct {
	Client
	Logins Logins
}

// Digest asks an image's registry what its tag stands for today and returns the
// digest, "sha256:…". Nothing is pulled. Errors wrap [ErrNotFound], [ErrAccess]
// or [ErrNotReachable] where they are that.
func (r *Registries) Digest(ctx context.Context, image string) (string, error) {
	mirror, err := r.Mirror(ctx, image)
	if err != nil {
		return "", err
	}
	return mirror.Digest, nil
}

type repository struct {
	ref    Ref
	client Client
	login  Login

	mu            sync.Mutex
	authorization string // that its registry let in last
}

func (r *Registries) repository(ctx context.Context, image string) (*repository, error) {
	ref, err := ParseRef(image)
	if err != nil {
		return nil, err
	}
	login, err := r.Logins.Find(ctx, ref.Registry)
	if err != nil {
		return nil, err
	}
	return &repository{ref: ref, client: r.Client, login: login}, nil
}

func (r *repository) digest(ctx context.Context) (string, error) {
	// A registry may leave the digest out of the answer to HEAD, which costs
	// nothing of a pull limit; then the manifest itself is hashed.
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		resp, err := r.ask(ctx, method, "manifests/"+r.ref.asked(), http.Header{"Accept": {manifests}})
		if err != nil {
			return "", err
		}
		digest, err := digestOf(resp, r.login)
		if err != nil || digest != "" {
			return digest, err
		}
	}
	return "", errors.New("the registry tells no digest")
}

// ask makes a request about the repository, "manifests/…" or "blobs/…", with a new
// authorization when the registry wants one.
func (r *repository) ask(ctx context.Context, method, path string, header http.Header) (*http.Response, error) {
	r.mu.Lock()
	authorization := r.authorization
	r.mu.Unlock()
	resp, err := r.send(ctx, method, path, header, authorization)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	resp.Body.Close()
	if authorization, err = r.authorize(ctx, resp.Header.Get("WWW-Authenticate")); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.authorization = authorization
	r.mu.Unlock()
	return r.send(ctx, method, path, header, authorization)
}

func (r *repository) send(ctx context.Context, method, path string, header http.Header, authorization string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, base(r.ref.Registry)+"/v2/"+r.ref.Repository+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return r.client.do(req)
}

// digestOf reads the answer and closes it. "" means: ask with GET.
func digestOf(resp *http.Response, l Login) (string, error) {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusMethodNotAllowed && resp.Request.Method == http.MethodHead {
		return "", nil
	}
	if err := refused(resp, l); err != nil {
		return "", err
	}
	digest := resp.Header.Get("Docker-Content-Digest")
	if digest == "" && resp.Request.Method == http.MethodHead {
		return "", nil
	}
	if digest == "" {
		h := sha256.New()
		n, err := io.Copy(h, io.LimitReader(resp.Body, maxAnswer+1))
		if err != nil {
			return "", fmt.Errorf("read manifest: %w", err)
		}
		if n > maxAnswer {
			return "", errors.New("read manifest: it has no end")
		}
		digest = fmt.Sprintf("sha256:%x", h.Sum(nil))
	}
	if !digestForm.MatchString(digest) {
		return "", fmt.Errorf("the registry's digest %q is none", digest)
	}
	return digest, nil
}

func refused(resp *http.Response, l Login) error {
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound:
		return fmt.Errorf("%w: the registry has no such image or tag", ErrNotFound)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: it is private, or there is no such image%s", ErrAccess, l.hint())
	}
	return answered(resp)
}

// authorize answers a challenge with the Authorization header to ask again with.
func (r *repository) authorize(ctx context.Context, challenge string) (string, error) {
	scheme, params := parseChallenge(challenge)
	switch l := r.login; scheme {
	case "basic":
		if l.User == "" {
			return "", fmt.Errorf("%w: it wants a login%s", ErrAccess, l.hint())
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.User+":"+l.Password)), nil
	case "bearer":
		return r.token(ctx, params)
	}
	return "", fmt.Errorf("%w: it asks for a login of a kind that is not known: %q", ErrAccess, challenge)
}

func (r *repository) token(ctx context.Context, params map[string]string) (string, error) {
	l := r.login
	realm, err := url.Parse(params["realm"])
	isSafe := err == nil && (realm.Scheme == "https" || realm.Scheme == "http" && onThisMachine(realm.Host))
	if !isSafe || realm.Host == "" {
		return "", fmt.Errorf("%w: it sends us to %q for a token, which is not an https address", ErrAccess,
			params["realm"])
	}
	scope := cmp.Or(params["scope"], "repository:"+r.ref.Repository+":pull")
	req, err := l.tokenRequest(ctx, realm, url.Values{"service": {params["service"]}, "scope": {scope}})
	if err != nil {
		return "", err
	}
	resp, err := r.client.do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest:
		return "", fmt.Errorf("%w: %s gives no token (%d)%s", ErrAccess, realm.Host, resp.StatusCode, l.hint())
	default:
		return "", answered(resp)
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := decode(resp, "token", &answer); err != nil {
		return "", err
	}
	token := cmp.Or(answer.Token, answer.AccessToken)
	if token == "" {
		return "", fmt.Errorf("%w: %s gives an empty token", ErrAccess, realm.Host)
	}
	return "Bearer " + token, nil
}

func (l Login) tokenRequest(ctx context.Context, realm *url.URL, form url.Values) (*http.Request, error) {
	if l.Identity != "" {
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", l.Identity)
		form.Set("client_id", "hcl")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return req, err
	}
	query := realm.Query()
	maps.Copy(query, form)
	realm.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err == nil && l.User != "" {
		req.SetBasicAuth(l.User, l.Password)
	}
	return req, err
}

// parseChallenge takes apart a WWW-Authenticate header:
// Bearer realm="https://auth.docker.io/token",service="registry.docker.io".
func parseChallenge(header string) (scheme string, params map[string]string) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	params = map[string]string{}
	for _, m := range challengeForm.FindAllStringSubmatch(rest, -1) {
		params[strings.ToLower(m[1])] = m[2] + m[3]
	}
	return strings.ToLower(scheme), params
}

var challengeForm = regexp.MustCompile(`(\w+)=(?:"([^"]*)"|([^\s,"]+))`)

// Layer is one of an image's.
type Layer struct {
	Size   int64  // bytes as the registry keeps it, packed
	DiffID string // "sha256:…" of what it unpacks to, which is how a daemon knows it
}

// Layers asks an image's registry for its layers on Linux for an architecture, in Go's words:
// "amd64". Nothing is pulled. Errors are those of [Registries.Digest].
func (r *Registries) Layers(ctx context.Context, image, architecture string) ([]Layer, error) {
	repo, err := r.repository(ctx, image)
	if err != nil {
		return nil, err
	}
	layers, err := repo.layers(ctx, architecture)
	if err != nil {
		return nil, fmt.Errorf("ask %s for %s: %w", repo.ref.Registry, image, err)
	}
	return layers, nil
}

func (r *repository) layers(ctx context.Context, architecture string) ([]Layer, error) {
	type platform struct{ Architecture, OS string }
	type listed struct {
		Digest   string
		Platform platform
	}
	var manifest struct {
		Manifests []listed // of several platforms, or else
		Config    struct{ Digest string }
		Layers    []struct{ Size int64 }
	}
	if err := r.read(ctx, "manifests/"+r.ref.asked(), &manifest); err != nil {
		return nil, err
	}
	if list := manifest.Manifests; len(list) > 0 {
		i := slices.IndexFunc(list, func(m listed) bool { return m.Platform == platform{architecture, "linux"} })
		if i < 0 {
			return nil, fmt.Errorf("%w: it has none for linux on %s", ErrNotFound, architecture)
		}
		if err := r.read(ctx, "manifests/"+list[i].Digest, &manifest); err != nil {
			return nil, err
		}
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := r.read(ctx, "blobs/"+manifest.Config.Digest, &config); err != nil {
		return nil, err
	}
	if got, want := len(config.RootFS.DiffIDs), len(manifest.Layers); got != want {
		return nil, fmt.Errorf("its manifest has %d layers and its configuration %d", want, got)
	}
	var layers []Layer
	for i, l := range manifest.Layers {
		layers = append(layers, Layer{l.Size, config.RootFS.DiffIDs[i]})
	}
	return layers, nil
}

func (r *repository) read(ctx context.Context, path string, into any) error {
	resp, err := r.ask(ctx, http.MethodGet, path, http.Header{"Accept": {manifests}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := refused(resp, r.login); err != nil {
		return err
	}
	return decode(resp, path, into)
}

// Mirror serves one image to whoever cannot reach its registry, as a registry would: what it is
// asked for, it asks for, with the login that it has. It hands out what is named by digest in
// this one repository, and only under a name that cannot be guessed.
type Mirror struct {
	Digest string // of the image's manifest, "sha256:…"
	Name   string // of the repository here

	repo *repository
}

// Mirror asks an image's registry what it is today, and returns what serves it.
// Errors are those of [Registries.Digest].
func (r *Registries) Mirror(ctx context.Context, image string) (*Mirror, error) {
	repo, err := r.repository(ctx, image)
	if err != nil {
		return nil, err
	}
	digest, err := repo.digest(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask %s for %s: %w", repo.ref.Registry, image, err)
	}
	return &Mirror{Digest: digest, Name: strings.ToLower(rand.Text()) + "/" + repo.ref.Repository, repo: repo}, nil
}

// passed are the headers that mean the same on both sides.
var passed = []string{"Accept", "Range"}
var returned = []string{"Accept-Ranges", "Content-Length", "Content-Range", "Content-Type", "Docker-Content-Digest"}

func (m *Mirror) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if req.URL.Path == "/v2/" {
		return
	}
	path, ours := strings.CutPrefix(req.URL.Path, "/v2/"+m.Name+"/")
	kind, digest, _ := strings.Cut(path, "/")
	if !ours || kind != "manifests" && kind != "blobs" || !digestForm.MatchString(digest) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	header := http.Header{}
	for _, name := range passed {
		if values := req.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	resp, err := m.repo.ask(req.Context(), req.Method, path, header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for _, name := range returned {
		if value := resp.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // or what is cut off would look whole
	}
}
