package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hclbench/testhost"
)

const notServingLab = `
lab "ready" { lease = "5m" }
host "box" {
  %%HOST%%
  runtime = "process"
}
model "m" { repo = "m" }
engine "vllm" "e" {
  host  = host.box
  model = model.m
  env   = { MODE = %q }
  ready { stall = %q }
}
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  engine   = engine.vllm.e
  dataset  = dataset.random.d
  requests = 2
  load {
    concurrency   = 1
    output_tokens = 4
  }
}
`

// TestServersThatDoNotServe: a server that logs every look at it is not waited for
// longer than one that is silent, and what it answers is told meanwhile.
func TestServersThatDoNotServe(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for mode, test := range map[string]struct{ stall, why, probe string }{
		"unhealthy": {"7s", "nothing has moved for 7s", "GET /health: 503 Service Unavailable"},
		"unlisted":  {"7s", "what waiting does not change", "GET /v1/models: the model m is not listed, only other"},
		"broken":    {"7s", "what waiting does not change", "POST /v1/completions: 500 Internal Server Error no token with"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			host := testhost.New(t, testhost.Options{Namespace: true})
			if err := host.Install("vllm", fmt.Sprintf("#!/bin/sh\nexec %s canary \"$@\"\n", self)); err != nil {
				t.Fatal(err)
			}
			u := newPerson(t, host, fmt.Sprintf(notServingLab, mode, test.stall))
			began := time.Now()
			out, said, code := u.run("apply", "--json")
			if code != exitFailed || time.Since(began) > 45*time.Second {
				t.Errorf("exit %d after %s\n%s%s", code, time.Since(began), out, said)
			}
			for _, want := range []string{test.why, "last probe: " + test.probe, `"type":"waiting","host":"box","engine":"vllm.e","message":"it does not serve yet: ` + test.probe} {
				if !strings.Contains(out, want) {
					t.Errorf("nobody is told %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestNoRedirectIsFollowed: a server must not choose whom the machine asks, with the
// key that is meant for the server.
func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed.Add(1)
		fmt.Fprint(w, `{"data":[{"id":"META-SECRET"}]}`)
	}))
	defer elsewhere.Close()
	sends := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v1/models", http.StatusTemporaryRedirect))
	defer sends.Close()
	lab := strings.Replace(guardedLab, "urls    = [%q, %q]", fmt.Sprintf("url = %q\n  ready { stall = \"1s\" }", sends.URL), 1)
	u := newLocal(t, lab)
	u.env = append(u.env, "HCL_VAR_key=canary-key", "HCL_VAR_tenant=canary-tenant")
	u.tells("apply", exitFailed, "GET /v1/models: 307 Temporary Redirect, to "+elsewhere.URL+"/v1/models; hcl follows no redirect")
	if n := followed.Load(); n != 0 {
		t.Errorf("%d requests went where the server sent them", n)
	}
}
