package wire

import (
	"net/http"
)

// Direct is an HTTP client that asks a server as the load does: without a proxy from
// the environment, and without following redirects, which could take secret headers
// elsewhere. A redirect is an answer like another.
func Direct() *http.Client {
	return &http.Client{
		Transport: &http.Transport{DisableCompression: true, IdleConnTimeout: idleTimeout,
			TLSHandshakeTimeout: dialTimeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
