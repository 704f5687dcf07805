package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hclbench/testhost"
	"hclbench/testhost/provider"
)

func TestMain(m *testing.M) {
	provider.Program()
	if len(os.Args) > 1 && os.Args[1] == "canary" {
		canary(os.Args[2:])
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", sideBySide)
	}
	os.Exit(testhost.Main(m))
}

// sideBySide is how many parallel tests run at once: they mostly wait, for hosts, engines
// and leases, so it is more than there are processors.
const sideBySide = "4"

// TestScripts runs every script in testdata/script with the real binary: what a
// user types, and what they read. The commands beside testscript's own:
//
//	exits CODE COMMAND...    the command exits with this code; CODE may be 0|3 where
//	                         a busy machine may make a measurement suspect
//	serve VAR [FLAGS...]     hcl sim in the background; $VAR is its URL
//	names VAR DIR            a registry and a model hub on 127.0.0.1 that tell what
//	                         is in DIR; $VAR is host:port
//	postgres VAR             an empty database on a real server; $VAR is its URL
func TestScripts(t *testing.T) {
	t.Parallel()
	bin := filepath.Dir(testhost.HCL(t))
	root, err := filepath.Abs("../..")
	must(t, err)
	work, err := os.MkdirTemp("", "s") // short, for the agent's socket is below it
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(work) })
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		WorkdirRoot:         work,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("REPO", root)
			port, err := freePort()
			if err != nil {
				return err
			}
			e.Setenv("HCL_VAR_port", fmt.Sprint(port)) // of the engine in a lab that asks for one
			return os.Mkdir(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "serve": serve, "names": names, "postgres": postgres},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if e, ok := err.(*exec.ExitError); ok {
		code = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if !slices.Contains(strings.Split(args[0], "|"), fmt.Sprint(code)) {
		ts.Fatalf("%s exits with %d, want %s", args[1], code, args[0])
	}
}

func postgres(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: postgres VAR")
	}
	place, err := testhost.NewDatabase()
	ts.Check(err)
	ts.Setenv(args[0], place)
}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	port, err := freePort()
	ts.Check(err)
	bin, _, _ := strings.Cut(ts.Getenv("PATH"), string(os.PathListSeparator))
	cmd := exec.Command(filepath.Join(bin, "hcl"), append([]string{"sim", "--port", fmt.Sprint(port)}, args[1:]...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	for deadline := time.Now().Add(20 * time.Second); ; {
		resp, err := http.Get(url + "/health")
		if err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("hcl sim does not answer: %v\n%s", err, said.String())
		}
	}
	ts.Setenv(args[0], url)
}

// names serves a registry and a model hub from files: DIR/images/NAME/TAG is a
// manifest, DIR/models/REPO/REVISION a commit. A script moves a tag by writing
// the file, and takes the network away by removing DIR.
func names(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: names VAR DIR")
	}
	dir := ts.MkAbs(args[1])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(path ...string) ([]byte, bool) {
			if _, err := os.Stat(dir); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return nil, false
			}
			b, err := os.ReadFile(filepath.Join(append([]string{dir}, path...)...))
			if err != nil {
				w.WriteHeader(http.StatusNotFound)
			}
			return b, err == nil
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v2/"); ok {
			name, tag, _ := strings.Cut(rest, "/manifests/")
			if b, ok := answer("images", name, tag); ok {
				w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(b)))
			}
			return
		}
		rest := strings.TrimPrefix(r.URL.Path, "/api/models/")
		repo, revision, _ := strings.Cut(rest, "/revision/")
		if b, ok := answer("models", repo, revision); ok {
			json.NewEncoder(w).Encode(map[string]string{"sha": strings.TrimSpace(string(b))})
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], strings.TrimPrefix(server.URL, "http://"))
}

// freePort finds a port that nothing listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
