package origin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hclbench/testhost"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
)

// asked keeps the requests that a server got.
type asked struct {
	http.Handler
	requests []string
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	a.Handler.ServeHTTP(w, r)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// images is a registry with an index at team/server:v1.
func images(t *testing.T, wrap func(http.Handler) http.Handler) (host, digest string) {
	t.Helper()
	plain := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	push := "http://" + serve(t, plain) + "/v2/team/server/manifests/"
	put := func(tag, kind, text string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, push+tag, strings.NewReader(text))
		testhost.OK(t, err)
		req.Header.Set("Content-Type", kind)
		resp, err := http.DefaultClient.Do(req)
		testhost.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("push %s: %s", tag, resp.Status)
		}
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
	}
	const image, index = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	amd64 := put("amd64", image, `{"schemaVersion":2,"layers":[]}`)
	digest = put("v1", index, fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":31}]}`, image, amd64))
	return serve(t, wrap(plain)), digest
}

func wantDigest(t *testing.T, r *Registries, image, want string) {
	t.Helper()
	if got, err := r.Digest(t.Context(), image); err != nil || got != want {
		t.Errorf("Digest(%s) = %q, %v; want %q", image, got, err, want)
	}
}

// TestLayers is an image for two architectures, one of which has layers.
func TestLayers(t *testing.T) {
	const image, index = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	digest := func(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
	config := `{"rootfs":{"type":"layers","diff_ids":["sha256:a","sha256:b"]}}`
	arm := fmt.Sprintf(`{"config":{"digest":%q},"layers":[{"size":100},{"size":7}]}`, digest(config))
	broken := fmt.Sprintf(`{"config":{"digest":%q},"layers":[{"size":100}]}`, digest(config))
	list := fmt.Sprintf(`{"manifests":[{"digest":%q,"platform":{"architecture":"arm64","os":"linux"}},{"digest":%q,"platform":{"architecture":"amd64","os":"linux"}}]}`, digest(arm), digest(broken))
	answers := map[string]string{"manifests/v1": list, "manifests/arm": arm, "manifests/" + digest(arm): arm,
		"manifests/" + digest(broken): broken, "blobs/" + digest(config): config}
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[strings.TrimPrefix(r.URL.Path, "/v2/team/server/")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", map[bool]string{true: index, false: image}[text == list])
		io.WriteString(w, text)
	}))
	r := &Registries{}
	want := []Layer{{100, "sha256:a"}, {7, "sha256:b"}}
	for _, tag := range []string{"v1", "arm"} {
		got, err := r.Layers(t.Context(), host+"/team/server:"+tag, "arm64")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Layers of %s: %v (-want +got):\n%s", tag, err, diff)
		}
	}
	for architecture, says := range map[string]string{"amd64": "its manifest has 1 layers and its configuration 2", "riscv64": "it has none for linux on riscv64"} {
		if _, err := r.Layers(t.Context(), host+"/team/server:v1", architecture); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Layers for %s: %v, want %q", architecture, err, says)
		}
	}
	_, err := r.Layers(t.Context(), host+"/team/server:absent", "arm64")
	testhost.WantError(t, err, ErrNotFound)
}

func TestImage(t *testing.T) {
	log := &asked{}
	host, want := images(t, func(h http.Handler) http.Handler { log.Handler = h; return log })
	r := &Registries{}
	for _, image := range []string{host + "/team/server:v1", host + "/team/server:other@" + want} {
		wantDigest(t, r, image, want)
	}
	if diff := cmp.Diff([]string{"HEAD /v2/team/server/manifests/v1", "HEAD /v2/team/server/manifests/" + want}, log.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	_, err := r.Digest(t.Context(), host+"/team/server:v2")
	testhost.WantError(t, err, ErrNotFound)
	if _, err := r.Digest(t.Context(), host+"/Team/server"); err == nil {
		t.Error("a name with capitals was accepted")
	}
}

// TestImageWithoutDigestHeader: the manifest itself is hashed.
func TestImageWithoutDigestHeader(t *testing.T) {
	host, want := images(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
			w.WriteHeader(rec.Code)
			w.Write(rec.Body.Bytes())
		})
	})
	wantDigest(t, &Registries{}, host+"/team/server:v1", want)
}

func TestImageNotReachable(t *testing.T) {
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	_, err := (&Registries{}).Digest(t.Context(), host+"/a/b:1")
	testhost.WantError(t, err, ErrNotReachable, "too many requests")
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	_, err = (&Registries{}).Digest(t.Context(), strings.TrimPrefix(closed.URL, "http://")+"/a/b:1")
	testhost.WantError(t, err, ErrNotReachable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = (&Registries{}).Digest(ctx, host+"/a/b:1")
	testhost.WantError(t, err, context.Canceled)
}

// guarded wants a token before it lets anyone at the registry, as Docker Hub
// does; with a user set it gives none to strangers.
func guarded(t *testing.T, user, password string) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/token" {
				if got, want := r.FormValue("scope"), "repository:team/server:pull"; got != want {
					t.Errorf("scope = %q, want %q", got, want)
				}
				u, p, _ := r.BasicAuth()
				identity := r.Method == http.MethodPost && r.FormValue("grant_type") == "refresh_token" && r.FormValue("refresh_token") == password
				if user != "" && !identity && (u != user || p != password) {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				json.NewEncoder(w).Encode(map[string]string{"token": "t0ken"})
				return
			}
			if r.Header.Get("Authorization") != "Bearer t0ken" {
				w.Header().Set("WWW-Authenticate",
					fmt.Sprintf(`Bearer realm="http://%s/token",service="registry, the",scope="repository:team/server:pull"`, r.Host))
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

func TestToken(t *testing.T) {
	host, want := images(t, guarded(t, "", ""))
	wantDigest(t, &Registries{}, host+"/team/server:v1", want)
}

func TestLogin(t *testing.T) {
	host, want := images(t, guarded(t, "ada", "s3cret"))
	image := host + "/team/server:v1"
	basic := base64.StdEncoding.EncodeToString([]byte("ada:s3cret"))
	tests := []struct {
		name, config string
		want, err    string
	}{
		{"none", `{}`, "", "docker login " + host},
		{"auths", `{"auths":{"` + host + `":{"auth":"` + basic + `"}}}`, want, ""},
		{"auths with a scheme", `{"auths":{"https://` + host + `/v2/":{"auth":"` + basic + `"}}}`, want, ""},
		{"identity token", `{"auths":{"` + host + `":{"identitytoken":"s3cret"}}}`, want, ""},
		{"wrong", `{"auths":{"` + host + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("ada:x")) + `"}}}`, "", "may not see it"},
		{"helper", `{"auths":{"` + host + `":{}},"credsStore":"desktop"}`, "", `credential helper "desktop"`},
		{"helper of the registry", `{"credHelpers":{"` + host + `":"ecr-login"}}`, "", `credential helper "ecr-login"`},
		{"broken", `{"auths":`, "", "config.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			testhost.OK(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(tt.config), 0o600))
			got, err := (&Registries{Logins: LocalLogins(dir)}).Digest(t.Context(), image)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Digest = %q, %v; want %q and an error with %q", got, err, tt.want, tt.err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestBasic(t *testing.T) {
	host, want := images(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if u, p, _ := r.BasicAuth(); u != "ada" || p != "s3cret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	dir := t.TempDir()
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("ada:s3cret")))
	testhost.OK(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	wantDigest(t, &Registries{Logins: LocalLogins(dir)}, host+"/team/server:v1", want)
	_, err := (&Registries{}).Digest(t.Context(), host+"/team/server:v1")
	testhost.WantError(t, err, ErrAccess)
}

// TestTokenOnlyOverTLS: a registry cannot have a login sent in clear to another machine.
func TestTokenOnlyOverTLS(t *testing.T) {
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://192.0.2.1/token"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	_, err := (&Registries{}).Digest(t.Context(), host+"/a/b:1")
	testhost.WantError(t, err, ErrAccess, "not an https address")
}
