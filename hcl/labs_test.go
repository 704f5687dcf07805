package hcl

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"hclbench/hcl/lang"
)

var update = flag.Bool("update", false, "rewrite the golden messages and the tables of the reference")

// TestLabs loads every lab in testdata/labs and compares what is said about it
// with the golden text. A lab is a txtar archive: *.hcl and lab.hclvars are its
// files, "vars" the --var arguments, one to a line, and "problems" the message.
func TestLabs(t *testing.T) {
	names, err := filepath.Glob("../testdata/labs/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no labs: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			// The directory is another one in every run, and has to be as long as ever:
			// messages are wrapped with its name in them.
			dir := t.TempDir()
			src := &lang.Source{Dir: filepath.Join(dir, strings.Repeat("d", max(1, 200-len(dir)))), Files: map[string][]byte{}}
			var vars lang.Vars
			golden := -1
			for i, f := range a.Files {
				switch f.Name {
				case "vars":
					vars.Values = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
				case "problems":
					golden = i
				default:
					src.Files[f.Name] = f.Data
				}
			}
			if golden < 0 {
				t.Fatal("the archive has no file named problems")
			}
			c, p := Load(src, vars)
			if (c == nil) != p.HasErrors() {
				t.Errorf("Config is nil: %v; errors: %v", c == nil, p.HasErrors())
			}
			got := strings.ReplaceAll(printed(t, p), src.Dir, "DIR")
			if strings.Contains(got, "hunter2") {
				t.Errorf("a sensitive value is shown:\n%s", got)
			}
			if *update {
				a.Files[golden].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.Files[golden].Data), got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
