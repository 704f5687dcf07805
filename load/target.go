package load

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// printable reports whether a line has no control characters but tabs.
func HeaderValue(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// token reports whether a character may be part of a field's name.
func HeaderName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// Target is the server under load.
type Target struct {
	BaseURL string `json:"base_url"` // without a path: "http://127.0.0.1:8000"
	Model   string `json:"model"`
	// BaseURLs are more servers of the same model: requests go to BaseURL and to
	// each of these in turn.
	BaseURLs []string `json:"base_urls,omitempty"`
	// Headers are sent with every request. They are stored with the results: what
	// must not be seen there belongs into [Job.Secrets].
	Headers map[string]string `json:"headers,omitempty"`
}

// Fields are the target's headers, sorted and checked.
func (t Target) Fields() ([][2]string, error) {
	var list [][2]string
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if err := CheckHeader(name, t.Headers[name]); err != nil {
			return nil, err
		}
		list = append(list, [2]string{http.CanonicalHeaderKey(name), t.Headers[name]})
	}
	return list, nil
}

// CheckHeader says why a header cannot be sent with every request: it is one that
// the generator says itself, or not of HTTP. The error has the name and never the
// value, which may be a key.
func CheckHeader(name, value string) error {
	switch http.CanonicalHeaderKey(name) {
	case "", "Host", "Content-Length", "Content-Type", "Accept", "Connection", "Transfer-Encoding":
		return fmt.Errorf("header %q is for the generator to say", name)
	}
	if slices.ContainsFunc([]byte(name), func(c byte) bool { return !HeaderName(c) }) || !HeaderValue([]byte(value)) {
		return fmt.Errorf("header %q has characters that no header can have", name)
	}
	return nil
}

// Authorization is the header that carries an API key, and Bearer its value.
const Authorization = "Authorization"

// Bearer is the value of [Authorization] with which servers that speak the OpenAI
// API take a key.
func Bearer(key string) string { return "Bearer " + key }
