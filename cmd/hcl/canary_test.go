package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"hclbench/testhost"
)

// canaryWord is in every line of every secret of the tests.
const canaryWord = "canary-"

// canary is an engine that tells all that it was given, in every way that it can: when it starts, when it
// dies and when it is asked for more than one token. Its process is this test's binary.
func canary(args []string) {
	start := time.Now()
	port, told := "", []string{strings.Join(args, " ")}
	for i, a := range args {
		if a == "--port" {
			port = args[i+1]
		}
	}
	if text, err := os.ReadFile("config.yaml"); err == nil {
		told = append(told, string(text))
	}
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "TOLD") {
			quoted, _ := json.Marshal(value)
			told = append(told, value, string(quoted), "PEM: "+strings.ReplaceAll(value, "\n", "\nPEM: "),
				base64.StdEncoding.EncodeToString([]byte(value)),
				"{'token': '"+strings.NewReplacer(`\`, `\\`, "\n", `\n`, "'", `\'`).Replace(value)+"'}")
		}
	}
	all := strings.Join(told, "\n")
	fmt.Printf("\x1b]0;title\x07\x1b[2J\x1b[31mstarting\x1b[0m with\n%s\n", all)
	if os.Getenv("MODE") == "die" {
		fmt.Printf("torch.OutOfMemoryError: CUDA out of memory with %s\n", strings.ReplaceAll(all, "\n", " "))
		os.Exit(3)
	}
	asked, mode := 0, os.Getenv("MODE")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if mode == "unhealthy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":"%s"}]}`, map[bool]string{true: "other", false: "m"}[mode == "unlisted"])
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if mode != "broken" && bytes.Contains(body, []byte(`"max_tokens":1,`)) {
			fmt.Fprint(w, `{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}`)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		asked++
		fmt.Fprintf(w, "\x1b]52;c;aGk=\x07no token with %s", told[asked%len(told)])
	})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Printf("%s INFO:     %s - \"%s %s HTTP/1.1\" in %s\n", time.Now().Format(time.DateTime), r.RemoteAddr, r.Method, r.URL, time.Since(start))
		mux.ServeHTTP(w, r)
	})))
}

const canaryLab = `
lab "canary" {
  lease = "5m"
  notice {
    on      = ["end", "failure"]
    command = ["sh", "-c", "cat >>notices"]
  }
}
variable "key" {
  type      = string
  sensitive = true
}
variable "pem" {
  type      = string
  sensitive = true
}
host "box" {
  %HOST%
  runtime = "process"
}
model "m" { repo = "m" }
engine "vllm" "dies" {
  host   = host.box
  model  = model.m
  env    = { MODE = "die", TOLD = var.pem, TOLD_KEY = "url://${var.key}@x" }
  flags  = { served-by = "of-${var.key}" }
  config = { extra = [var.key] }
}
engine "vllm" "fails" {
  inherits = engine.vllm.dies
  env      = { MODE = "serve" }
}
report { output = "page.html" }
`

// TestWordsOfEngines: engines repeat their secrets, in their logs, in the line they die
// with and in what they answer, in the forms in which programs write them, among
// sequences that turn a terminal over. None of it is shown, stored, sent or bundled.
func TestWordsOfEngines(t *testing.T) {
	t.Parallel()
	host := testhost.New(t, testhost.Options{Namespace: true})
	self, err := os.Executable()
	must(t, err)
	must(t, host.Install("vllm", fmt.Sprintf("#!/bin/sh\nexec %s canary \"$@\"\n", self)))
	u := newPerson(t, host, canaryLab+benchmarkOf("matrix.engine", "engine = [engine.vllm.dies, engine.vllm.fails]", 12, "1", 4))
	const pem = "-----canary-BEGIN\ncanary-\"line'\\two\ncanary-END-----\n"
	u.env = append(u.env, "HCL_VAR_key=canary-key-5d1f", "HCL_VAR_pem="+pem)
	encoded := base64.StdEncoding.EncodeToString([]byte(pem))
	hidden := func(where, text string) {
		t.Helper()
		for _, secret := range []string{canaryWord, encoded, "\x1b]"} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has %q: …%q…", where, secret, text[max(0, i-200):min(len(text), i+200)])
			}
		}
	}
	said := ""
	for _, args := range [][]string{
		{"apply", "--json"}, {"apply", "--rerun"}, {"report"}, {"report", "--json"}, {"report", "--html", "again.html"}, {"runs"}, {"plan", "--verbose"},
	} {
		out, stderr, code := u.run(args...)
		if args[0] == "apply" && code != exitFailed {
			t.Errorf("hcl %v: exit %d\n%s%s", args, code, out, stderr)
		}
		hidden("hcl "+strings.Join(args, " "), out+stderr)
		said += out + stderr
	}
	for _, want := range []string{"CUDA out of memory with serve m", "PEM: (sensitive)", "no request was answered", "no token with "} {
		if !strings.Contains(said, want) {
			t.Errorf("nobody is told %q:\n%s", want, said)
		}
	}
	var listed struct{ Runs []struct{ ID string } }
	if u.json(&listed, "runs", "--json"); len(listed.Runs) != 2 {
		t.Fatalf("runs: %+v", listed)
	}
	for _, run := range listed.Runs {
		u.tells("bundle "+run.ID+" --output "+run.ID+".bundle", exitDone)
	}
	err = filepath.WalkDir(u.lab, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.HasPrefix(text, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			text = unpacked(t, text)
		}
		if strings.HasSuffix(path, ".bundle") && !bytes.Contains(text, []byte("out of memory")) {
			t.Errorf("%s has no log", path)
		}
		hidden(path, string(text))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"notices", "page.html"} {
		if _, err := os.Stat(filepath.Join(u.lab, name)); err != nil {
			t.Error(err)
		}
	}
}

func unpacked(t *testing.T, text []byte) []byte {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(text))
	must(t, err)
	defer r.Close()
	all, err := io.ReadAll(r)
	must(t, err)
	return all
}

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
`

// TestServersThatDoNotServe: a server that logs every look at it is not waited for
// longer than one that is silent, and what it answers is told meanwhile.
func TestServersThatDoNotServe(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	for mode, test := range map[string]struct{ stall, why, probe string }{
		"unhealthy": {"7s", "nothing has moved for 7s", "GET /health: 503 Service Unavailable"},
		"unlisted":  {"7s", "what waiting does not change", "GET /v1/models: the model m is not listed, only other"},
		"broken":    {"7s", "what waiting does not change", "POST /v1/completions: 500 Internal Server Error no token with"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			host := testhost.New(t, testhost.Options{Namespace: true})
			must(t, host.Install("vllm", fmt.Sprintf("#!/bin/sh\nexec %s canary \"$@\"\n", self)))
			u := newPerson(t, host, fmt.Sprintf(notServingLab, mode, test.stall)+benchmarkOf("engine.vllm.e", "concurrency = [1]", 2, "1", 4))
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
