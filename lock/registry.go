package lock

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What can come of a question. Messages say more.
var (
	ErrNotFound     = errors.New("not there")
	ErrAccess       = errors.New("access refused")
	ErrNotReachable = errors.New("not reachable")
)

// manifests are the kinds of manifest that a tag can stand for. The lists of
// several platforms come first: their digest is the one that the same tag has on
// every host.
const manifests = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, " +
	"application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

// maxAnswer bounds what is read of an answer: manifests and tokens are small.
const maxAnswer = 8 << 20

// reference is an image's name, taken apart.
type reference struct {
	registry   string // as in Docker's config.json, but for Docker Hub: "docker.io"
	repository string
	tag        string // or digest
}

func parseReference(image string) (reference, error) {
	r := reference{registry: "docker.io", repository: image, tag: "latest"}
	if name, digest, ok := strings.Cut(r.repository, "@"); ok {
		r.repository, r.tag = name, digest
	}
	if i := strings.LastIndex(r.repository, ":"); i > strings.LastIndex(r.repository, "/") {
		if !strings.Contains(image, "@") {
			r.tag = r.repository[i+1:]
		}
		r.repository = r.repository[:i]
	}
	if first, rest, ok := strings.Cut(r.repository, "/"); ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		r.registry, r.repository = first, rest
	}
	switch r.registry {
	case "index.docker.io", "registry-1.docker.io":
		r.registry = "docker.io"
	}
	if r.registry == "docker.io" && !strings.Contains(r.repository, "/") {
		r.repository = "library/" + r.repository
	}
	if !repositoryForm.MatchString(r.repository) || !tagForm.MatchString(r.tag) {
		return r, fmt.Errorf("%q is not the name of an image", image)
	}
	return r, nil
}

var (
	repositoryForm = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)
	tagForm        = regexp.MustCompile(`^([\w][\w.-]{0,127}|sha256:[0-9a-f]{64})$`)
)

// base is the registry's URL. Only a registry on this machine is spoken to
// without TLS, as Docker does.
func (r reference) base() string {
	host := r.registry
	if host == "docker.io" {
		host = "registry-1.docker.io"
	}
	if onThisMachine(host) {
		return "http://" + host
	}
	return "https://" + host
}

func onThisMachine(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Image asks an image's registry what its tag stands for today and returns the
// digest, "sha256:…". Nothing is pulled. Errors wrap [ErrNotFound], [ErrAccess]
// or [ErrNotReachable] where they are that.
func (r *Resolver) Image(ctx context.Context, image string) (string, error) {
	ref, err := parseReference(image)
	if err != nil {
		return "", err
	}
	digest, err := r.manifest(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("ask %s for %s: %w", ref.registry, image, err)
	}
	return digest, nil
}

func (r *Resolver) manifest(ctx context.Context, ref reference) (string, error) {
	login, err := r.login(ref.registry)
	if err != nil {
		return "", err
	}
	authorization := ""
	// A registry may leave the digest out of the answer to HEAD, which costs
	// nothing of a pull limit; then the manifest itself is hashed.
	for _, method := range []string{http.MethodHead, http.MethodGet} {
		resp, err := r.ask(ctx, method, ref, authorization)
		if err != nil {
			return "", err
		}
		if resp.StatusCode == http.StatusUnauthorized && authorization == "" {
			resp.Body.Close()
			if authorization, err = r.authorize(ctx, ref, resp.Header.Get("WWW-Authenticate"), login); err != nil {
				return "", err
			}
			if resp, err = r.ask(ctx, method, ref, authorization); err != nil {
				return "", err
			}
		}
		digest, err := digestOf(resp, login)
		if err != nil || digest != "" {
			return digest, err
		}
	}
	return "", errors.New("the registry tells no digest")
}

func (r *Resolver) ask(ctx context.Context, method string, ref reference, authorization string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, ref.base()+"/v2/"+ref.repository+"/manifests/"+ref.tag, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", manifests)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return r.do(req)
}

// digestOf reads the answer and closes it. "" means: ask with GET.
func digestOf(resp *http.Response, l login) (string, error) {
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
	case code == http.StatusNotFound:
		return "", fmt.Errorf("%w: the registry has no such image or tag", ErrNotFound)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "", fmt.Errorf("%w: it is private, or there is no such image%s", ErrAccess, l.hint())
	case code == http.StatusMethodNotAllowed && resp.Request.Method == http.MethodHead:
		return "", nil
	default:
		return "", answered(resp)
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

// answered is an answer that was not expected.
func answered(resp *http.Response) error {
	if resp.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("%w: too many requests from here; it lets more through later, or with a login", ErrNotReachable)
	}
	return fmt.Errorf("%w: it answers %s", ErrNotReachable, resp.Status)
}

// login is what `docker login` left for a registry.
type login struct {
	user, password string
	identity       string // a token to get tokens with
	helper         string // the credential helper that has it instead
	registry       string
}

func (l login) hint() string {
	switch {
	case l.helper != "":
		return fmt.Sprintf(". Its login is kept by the credential helper %q, which hcl lock does not ask: a login in Docker's config.json itself is used, under auths", l.helper)
	case l.user == "" && l.identity == "":
		return strings.TrimSuffix(". Log in with: docker login "+l.registry, " docker.io")
	}
	return ", or the login in Docker's config.json may not see it"
}

// login reads Docker's config.json; without one there is no login.
func (r *Resolver) login(registry string) (login, error) {
	l := login{registry: registry}
	if r.DockerConfig == "" {
		return l, nil
	}
	path := filepath.Join(r.DockerConfig, "config.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("read Docker's config.json: %w", err)
	}
	var config struct {
		Auths       map[string]struct{ Auth, IdentityToken string }
		CredsStore  string
		CredHelpers map[string]string
	}
	if err := json.Unmarshal(b, &config); err != nil {
		return l, fmt.Errorf("read %s: %w", path, err)
	}
	names := []string{registry, "https://" + registry, "https://" + registry + "/v2/", "https://" + registry + "/v1/"}
	if registry == "docker.io" {
		names = []string{"https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io"}
	}
	for _, name := range names {
		entry, ok := config.Auths[name]
		if !ok || entry.Auth == "" && entry.IdentityToken == "" {
			continue
		}
		clear, err := base64.StdEncoding.DecodeString(entry.Auth)
		if err != nil {
			return l, fmt.Errorf("read %s: the login for %s is not base64", path, name)
		}
		l.user, l.password, _ = strings.Cut(strings.TrimRight(string(clear), "\x00"), ":")
		l.identity = entry.IdentityToken
		return l, nil
	}
	l.helper = config.CredsStore
	for _, name := range names {
		if h := config.CredHelpers[name]; h != "" {
			l.helper = h
		}
	}
	return l, nil
}

// authorize answers a challenge: it returns the Authorization header to ask
// again with.
func (r *Resolver) authorize(ctx context.Context, ref reference, challenge string, l login) (string, error) {
	scheme, params := parseChallenge(challenge)
	switch scheme {
	case "basic":
		if l.user == "" {
			return "", fmt.Errorf("%w: it wants a login%s", ErrAccess, l.hint())
		}
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.user+":"+l.password)), nil
	case "bearer":
		return r.token(ctx, ref, params, l)
	}
	return "", fmt.Errorf("%w: it asks for a login of a kind that is not known: %q", ErrAccess, challenge)
}

// token gets a token for reading the repository, anonymously when there is no
// login.
func (r *Resolver) token(ctx context.Context, ref reference, params map[string]string, l login) (string, error) {
	realm, err := url.Parse(params["realm"])
	if err != nil || realm.Host == "" || realm.Scheme != "https" && !(realm.Scheme == "http" && onThisMachine(realm.Host)) {
		return "", fmt.Errorf("%w: it sends us to %q for a token, which is not an https address", ErrAccess, params["realm"])
	}
	scope := params["scope"]
	if scope == "" {
		scope = "repository:" + ref.repository + ":pull"
	}
	form := url.Values{"service": {params["service"]}, "scope": {scope}}
	var req *http.Request
	if l.identity != "" {
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", l.identity)
		form.Set("client_id", "hcl")
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
	} else {
		query := realm.Query()
		for name, values := range form {
			query[name] = values
		}
		realm.RawQuery = query.Encode()
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	}
	if err != nil {
		return "", err
	}
	switch {
	case l.identity != "":
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	case l.user != "":
		req.SetBasicAuth(l.user, l.password)
	}
	resp, err := r.do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest:
		return "", fmt.Errorf("%w: %s gives no token (%s)%s", ErrAccess, realm.Host, resp.Status, l.hint())
	default:
		return "", answered(resp)
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if answer.Token == "" {
		answer.Token = answer.AccessToken
	}
	if answer.Token == "" {
		return "", fmt.Errorf("%w: %s gives an empty token", ErrAccess, realm.Host)
	}
	return "Bearer " + answer.Token, nil
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
