package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"hclbench/testhost"
)

// canaryWord is in every line of every secret of the tests.
const canaryWord = "canary-"

// canary is an engine that tells all that it was given, in every way that it can: when
// it starts, when it dies and when it is asked for more than one token. Its process is
// this test's binary.
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
dataset "random" "d" { input_tokens = 8 }
benchmark "b" {
  matrix { engine = [engine.vllm.dies, engine.vllm.fails] }
  engine   = matrix.engine
  dataset  = dataset.random.d
  requests = 12
  load {
    concurrency   = 1
    output_tokens = 4
  }
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
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Install("vllm", fmt.Sprintf("#!/bin/sh\nexec %s canary \"$@\"\n", self)); err != nil {
		t.Fatal(err)
	}
	u := newPerson(t, host, canaryLab)
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
	runs, _, _ := u.run("runs", "--json")
	var listed struct{ Runs []struct{ ID string } }
	if err := json.Unmarshal([]byte(runs), &listed); err != nil || len(listed.Runs) != 2 {
		t.Fatalf("runs --json: %v\n%s", err, runs)
	}
	for _, run := range listed.Runs {
		if out, stderr, code := u.run("bundle", run.ID, "--output", run.ID+".bundle"); code != 0 {
			t.Errorf("bundle: exit %d\n%s%s", code, out, stderr)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
