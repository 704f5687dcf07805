// Package origin asks the places that images and models come from: image
// registries, in the language that Docker speaks to them, and the model hub.
//
// It knows neither hosts nor labs: names come as plain text, and bytes go where
// its caller says. Logins and tokens are sent to the place that they are for, over
// TLS unless the hub's own URL says otherwise, and stand in no error.
package origin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// What can come of a question. Messages say more.
var (
	ErrNotFound     = errors.New("not there")
	ErrAccess       = errors.New("access refused")
	ErrNotReachable = errors.New("not reachable")
)

// maxAnswer bounds what is read of an answer: manifests, lists and tokens are small.
const maxAnswer = 8 << 20

// Client makes the requests. The zero value is ready for use.
type Client struct {
	HTTP      *http.Client // nil: [http.DefaultClient]; ctx bounds a request
	UserAgent string
}

func (c Client) do(req *http.Request) (*http.Response, error) {
	if c.UserAgent != "" {
		req.Header.Set("User-Agent", c.UserAgent)
	}
	resp, err := cmp.Or(c.HTTP, http.DefaultClient).Do(req)
	if err != nil {
		if ctxErr := req.Context().Err(); ctxErr != nil {
			return nil, ctxErr
		}
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // it repeats a URL that may hold a token
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%w: %w", ErrNotReachable, err)
	}
	return resp, nil
}

func answered(resp *http.Response) error {
	if resp.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("%w: too many requests from here; it lets more through later, or with a login", ErrNotReachable)
	}
	return fmt.Errorf("%w: it answers %d %s", ErrNotReachable, resp.StatusCode, http.StatusText(resp.StatusCode))
}

func onThisMachine(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

func decode(resp *http.Response, what string, into any) error {
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	return nil
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
)
