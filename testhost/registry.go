package testhost

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// registries are all image registries of the world, as the host's daemon sees it: Docker Hub,
// nvcr.io and every other name, with TLS and their own names. The daemon's traffic goes through
// our proxy, which answers for each name from memory, so real names are pulled and no packet
// leaves the machine. One more registry is served plainly under an address of its own.
type registries struct {
	addr    string // the plain one, and the proxy
	ca      *authority
	caFile  string
	proxy   *httptest.Server
	secure  *httptest.Server // where tunnels through the proxy lead, whatever the name
	tunnels sync.WaitGroup

	mu     sync.Mutex
	names  map[string]http.Handler // by registry name
	denied map[string]bool         // "name/repository"
	logins map[string]string       // "user:password" by registry name
	cut    int                     // so many answers with a layer break off half way
	away   bool
	slow   int // bytes per second and response; 0: no limit
	asked  []string
}

func startRegistries(m *machine) (*registries, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	r := &registries{ca: ca, caFile: filepath.Join(m.dir, "ca.pem"), names: map[string]http.Handler{}, denied: map[string]bool{}, logins: map[string]string{}}
	if err := os.WriteFile(r.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}), 0o600); err != nil {
		return nil, fmt.Errorf("write certificate: %w", err)
	}
	plain, err := net.Listen("tcp", net.JoinHostPort(m.outer, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for registry: %w", err)
	}
	r.addr = plain.Addr().String()
	quiet := log.New(io.Discard, "", 0)
	r.secure = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.serve(registryName(req.TLS.ServerName), w, req)
	}))
	r.secure.Config.ErrorLog = quiet
	r.secure.TLS = &tls.Config{GetCertificate: ca.issue}
	r.secure.StartTLS()
	r.proxy = &httptest.Server{Listener: plain, Config: &http.Server{Handler: r, ErrorLog: quiet}}
	r.proxy.Start()
	return r, nil
}

// environment is what sends a daemon through the proxy and makes it trust us. Without
// registries it sends it nowhere: port 9 of the host itself, "discard", where nobody listens.
func (r *registries) environment() []string {
	proxy := "http://127.0.0.1:9"
	env := []string{"NO_PROXY=127.0.0.0/8,198.18.0.0/15,localhost"}
	if r != nil {
		proxy = "http://" + r.addr
		env = append(env, "SSL_CERT_FILE="+r.caFile)
	}
	return append(env, "HTTP_PROXY="+proxy, "HTTPS_PROXY="+proxy)
}

// ServeHTTP is the proxy and, for plain requests, the plain registry.
func (r *registries) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodConnect {
		r.serve(r.addr, w, req)
		return
	}
	r.mu.Lock()
	away := r.away
	r.mu.Unlock()
	if away {
		http.Error(w, "no way to "+req.Host, http.StatusBadGateway)
		return
	}
	there, err := net.Dial("tcp", r.secure.Listener.Addr().String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack() // a client speaks only after the answer
	if err != nil {
		there.Close()
		return
	}
	io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	carry := func(to, from net.Conn) {
		io.Copy(to, from)
		to.Close()
		from.Close()
	}
	r.tunnels.Go(func() { carry(here, there) })
	r.tunnels.Go(func() { carry(there, here) })
}

// registryName is the one name for a registry that has several.
func registryName(host string) string {
	if host == "registry-1.docker.io" || host == "index.docker.io" {
		return "docker.io"
	}
	return host
}

func (r *registries) handler(name string) http.Handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] == nil {
		r.names[name] = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	}
	return r.names[name]
}

func (r *registries) serve(name string, w http.ResponseWriter, req *http.Request) {
	repository := name + "/" + repositoryOf(req.URL.Path)
	r.mu.Lock()
	r.asked = append(r.asked, req.Method+" "+name+req.URL.Path)
	away, denied, slow, login := r.away, r.denied[repository], r.slow, r.logins[name]
	layer := strings.Contains(req.URL.Path, "/blobs/") && req.Method == http.MethodGet
	cut := layer && r.cut > 0
	if cut {
		r.cut--
	}
	r.mu.Unlock()
	switch {
	case away:
		panic(http.ErrAbortHandler)
	case denied:
		// What Docker Hub says of a repository that is private or not there.
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}`)
		return
	case login != "" && !authorized(name, login, w, req):
		return
	case cut:
		w = &cutWriter{ResponseWriter: w}
	case slow > 0 && layer:
		w = &slowWriter{ResponseWriter: w, rate: slow, done: req.Context().Done()}
	}
	r.handler(name).ServeHTTP(w, req)
}

// authorized lets in who has a token, as Docker Hub does, and gives tokens to who has the login.
func authorized(name, login string, w http.ResponseWriter, req *http.Request) bool {
	token := fmt.Sprintf("%x", sha256.Sum256([]byte(login)))
	user, password, _ := req.BasicAuth()
	switch {
	case req.Header.Get("Authorization") == "Bearer "+token:
		return true
	case req.URL.Path == "/token" && user+":"+password == login:
		fmt.Fprintf(w, `{"token":%q}`, token)
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service=%q,scope="repository:%s:pull"`, name, name, repositoryOf(req.URL.Path)))
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
	return false
}

// cutWriter breaks an answer off in its first piece.
type cutWriter struct{ http.ResponseWriter }

func (w *cutWriter) Write(p []byte) (int, error) {
	_, _ = w.ResponseWriter.Write(p[:len(p)/2])
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// repositoryOf cuts the repository out of "/v2/REPOSITORY/manifests/latest".
func repositoryOf(path string) string {
	path = strings.TrimPrefix(path, "/v2/")
	for _, part := range []string{"/manifests/", "/blobs/", "/tags/"} {
		if repository, _, ok := strings.Cut(path, part); ok {
			return repository
		}
	}
	return path
}

// slowWriter lets so many bytes per second through.
type slowWriter struct {
	http.ResponseWriter
	rate int
	done <-chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	const slice = 100 * time.Millisecond
	part := max(1, w.rate/int(time.Second/slice))
	tick := time.NewTicker(slice)
	defer tick.Stop()
	written := 0
	for len(p) > 0 {
		n, err := w.ResponseWriter.Write(p[:min(part, len(p))])
		written += n
		if err != nil {
			return written, err
		}
		p = p[n:]
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		select {
		case <-tick.C:
		case <-w.done:
			return written, errors.New("client went away")
		}
	}
	return written, nil
}

func (r *registries) close() {
	for _, server := range []*httptest.Server{r.secure, r.proxy} {
		server.CloseClientConnections()
		server.Close()
	}
	r.tunnels.Wait()
}

// RegistryAway makes all registries unreachable for the host, or brings them back.
func (h *Host) RegistryAway(on bool) {
	h.images.mu.Lock()
	h.images.away = on
	h.images.mu.Unlock()
	if on {
		h.images.secure.CloseClientConnections()
	}
}

// DenyImage makes the registry of that image refuse access to its repository, whatever the tag.
func (h *Host) DenyImage(t testing.TB, ref string) {
	t.Helper()
	name, repository, _ := parseRef(t, ref)
	h.images.mu.Lock()
	defer h.images.mu.Unlock()
	h.images.denied[name+"/"+repository] = true
}

// RequireLogin makes the registry of that name, such as "docker.io", hand out
// nothing without a token, and tokens only for that login.
func (h *Host) RequireLogin(registry, user, password string) {
	h.images.mu.Lock()
	defer h.images.mu.Unlock()
	h.images.logins[registryName(registry)] = user + ":" + password
}

// CutLayers makes the next n answers with a layer break off half way.
func (h *Host) CutLayers(n int) {
	h.images.mu.Lock()
	defer h.images.mu.Unlock()
	h.images.cut = n
}

// RegistryClient reaches the registries by their names, as the host does.
func (h *Host) RegistryClient() *http.Client {
	trusted := x509.NewCertPool()
	trusted.AddCert(h.images.ca.cert)
	return &http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: h.images.addr}),
		TLSClientConfig:   &tls.Config{RootCAs: trusted},
		DisableKeepAlives: true,
	}}
}

// RegistryEnv has programs on this machine reach them so.
func (h *Host) RegistryEnv() []string { return h.images.environment() }

// SlowRegistry limits each download from any registry; 0 lifts the limit.
func (h *Host) SlowRegistry(bytesPerSecond int) {
	h.images.mu.Lock()
	defer h.images.mu.Unlock()
	h.images.slow = bytesPerSecond
}

// RegistryRequests returns what the registries were asked so far, such as
// "HEAD docker.io/v2/vllm/vllm-openai/manifests/v0.7.3".
func (h *Host) RegistryRequests() []string {
	h.images.mu.Lock()
	defer h.images.mu.Unlock()
	return append([]string(nil), h.images.asked...)
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key}
	a.cert = &x509.Certificate{Subject: pkix.Name{CommonName: "testhost"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := a.sign(a.cert)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// sign gives a certificate a day and signs it.
func (a *authority) sign(c *x509.Certificate) ([]byte, error) {
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	return x509.CreateCertificate(rand.Reader, c, a.cert, &a.key.PublicKey, a.key)
}

func (a *authority) issue(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	der, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: hello.ServerName}, DNSNames: []string{hello.ServerName},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}, err
}
