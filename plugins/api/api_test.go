package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"hclbench/provision/rent/protocol"
)

// TestAsk: an error says that nothing was done only where the provider has said so for certain, and the key goes to nobody else.
func TestAsk(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	status, text := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	for _, test := range []struct {
		status     int
		text, code string
	}{
		{200, `{}`, ""}, {200, `<html>`, "unknown"}, {200, strings.Repeat(" ", 5<<20), "unknown"}, {302, `{}`, "unknown"},
		{401, `the key my-key is not valid`, protocol.Refused}, {402, ``, protocol.Refused}, {403, ``, protocol.Refused}, {429, ``, protocol.Busy},
		{404, `{"error": "no such instance"}`, protocol.NotFound}, {404, `<html>no such page</html>`, "unknown"},
		{400, `{"error": "quota"}`, "unknown"}, {409, `{}`, "unknown"}, {500, "\x1b[31mred", "unknown"}, {502, ``, "unknown"},
	} {
		status, text = test.status, test.text
		c := Client{Base: server.URL, Header: "X-API-KEY", Key: "my-key"}
		var out map[string]any
		err := c.Ask("POST", "/things", map[string]string{"a": "b"}, &out)
		code := ""
		if told, is := errors.AsType[*protocol.Error](err); is {
			code = told.Code
		} else if err != nil {
			code = "unknown"
		}
		if code != test.code || c.Now.IsZero() {
			t.Errorf("%d %.20q: %q, not %q: %v", test.status, test.text, code, test.code, err)
		}
		if err != nil && (strings.Contains(err.Error(), "my-key") || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 1000) {
			t.Errorf("%q", err)
		}
	}
	for _, key := range []string{"a-long-key-of-mine", "a long key/of=mine"} { // an answer may have it in another form
		for status = range map[int]bool{200: true, 400: true} {
			for before := range 310 {
				text = "<html>" + strings.Repeat(" ", before) + url.QueryEscape(key) + strings.Repeat(" ", 310)
				c := Client{Base: server.URL, Header: "X-API-KEY", Key: key}
				if err := c.Ask("GET", "/", nil, &struct{}{}); err == nil || strings.Contains(err.Error(), url.QueryEscape(key[:6])) {
					t.Fatalf("%d, after %d: %q", status, before, err)
				}
			}
		}
	}
	c := Client{Base: "http://127.0.0.1:1"}
	err := c.Ask("GET", "/", nil, nil)
	if told, is := errors.AsType[*protocol.Error](Before(err)); !is || told.Code != protocol.Busy {
		t.Errorf("before a create: %v", err)
	}
}
