// Package api is how plugins speak to their provider: JSON over HTTPS, with answers that are bounded, errors that can be
// printed, and no more certainty than the provider has given.
package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"hclbench/plain"
	"hclbench/provision/rent/protocol"
)

// maxAnswer is how much a provider may answer, in bytes.
const maxAnswer = 4 << 20

// Client speaks to one provider for one account.
type Client struct {
	Base   string // URL before each path, without a slash at its end
	Header string // that has the key
	Scheme string // that stands before the key there, with a space at its end
	Key    string
	Now    time.Time // of the provider's clock, as its last answer told it; zero: it did not
}

// Ask sends a request once, with the JSON of in (nil: no body), and reads the JSON of the answer into out (nil: it does not
// matter). An error has a code of the protocol only where the status says for certain what was not done: the key (401, 403) or
// the money (402) was refused, there were too many requests (429), or the API itself says that there is no such thing (404, with
// a JSON object: a page of a proxy says nothing). After any other one nobody knows.
func (c *Client) Ask(method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	r, err := http.NewRequest(method, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set(c.Header, c.Scheme+c.Key)
	r.Header.Set("Accept", "application/json")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{
		Timeout:       2 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key goes to no other place
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if now, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		c.Now = now
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	what := method + " " + path
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("%s: the answer is longer than %s", what, plain.Bytes(maxAnswer))
	case answer.StatusCode >= 300:
		said := plain.Cut(plain.NewSecrets(c.Key).Line(string(text)), 300)
		told := &protocol.Error{Code: "unknown", Message: fmt.Sprintf("%s: %s: %s", what, plain.Line(answer.Status), said)}
		var object map[string]any
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
			told.Code = protocol.Refused
		case http.StatusTooManyRequests:
			told.Code = protocol.Busy
		case http.StatusNotFound:
			if json.Unmarshal(text, &object) == nil {
				told.Code = protocol.NotFound
			}
		}
		return told
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: the answer cannot be read (%w): %q", what, err, plain.Cut(plain.NewSecrets(c.Key).Line(string(text)), 200))
	}
	return nil
}

// Before is an error of what comes before a create: it was not asked for, so that nothing was made.
func Before(err error) error {
	if told, is := errors.AsType[*protocol.Error](err); is && told.Code == protocol.Refused {
		return err
	}
	return &protocol.Error{Code: protocol.Busy, Message: "no box was asked for: " + err.Error()}
}
