package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hclbench/testhost"
)

func TestMain(m *testing.M) {
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
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.MkdirTemp("", "s") // short, for the agent's socket is below it
	if err != nil {
		t.Fatal(err)
	}
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
