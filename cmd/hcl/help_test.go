package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"hclbench/hcl"
	"hclbench/hcl/lang"
	"hclbench/plain"
	"hclbench/plan"
)

// TestHelp: every verb says what it is, what it does, how it is used and what
// its exit codes mean, and every flag what it is for.
func TestHelp(t *testing.T) {
	root := rootOf(&console{})
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		if c != root {
			for what, text := range map[string]string{"Short": c.Short, "Long": c.Long, "Example": c.Example} {
				if strings.TrimSpace(text) == "" {
					t.Errorf("%s has no %s", c.CommandPath(), what)
				}
			}
			if !strings.Contains(c.Example, "\n\nExit codes: ") || !strings.HasSuffix(c.Example, ".") {
				t.Errorf("%s does not end with its exit codes", c.CommandPath())
			}
			if strings.HasSuffix(c.Short, ".") || c.Short != strings.TrimSpace(c.Short) {
				t.Errorf("%s: Short is a phrase: %q", c.CommandPath(), c.Short)
			}
			var b bytes.Buffer
			c.SetOut(&b)
			if err := c.Help(); err != nil || !strings.Contains(b.String(), "Exit codes:") {
				t.Errorf("hcl help %s: %v\n%s", c.Name(), err, b.String())
			}
			for line := range strings.Lines(c.Long + "\n" + c.Example) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
					t.Errorf("%s: a line of its help has %d characters: %s", c.CommandPath(), n, line)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// TestHelpFits: what verbs say of themselves fits a terminal of 80 columns, but for what cannot be broken.
func TestHelpFits(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, verb := range []string{"apply", "bench", "report", "compare", "init"} {
		var out strings.Builder
		if code := execute(t.Context(), []string{verb, "--help"}, nil, &out, &out); code != 0 {
			t.Fatalf("%s --help ends with %d: %s", verb, code, out.String())
		}
		for line := range strings.Lines(out.String()) {
			breaks := strings.Contains(strings.TrimSpace(line), " ") && !strings.HasPrefix(line, "  hcl ")
			if plain.Width(strings.TrimRight(line, "\n")) > 80 && breaks {
				t.Errorf("%s --help: %q", verb, line)
			}
		}
	}
}

// TestTemplates: every lab that init writes is right and can be planned, without
// a warning, and is in canonical form.
func TestTemplates(t *testing.T) {
	for _, tpl := range templateList() {
		t.Run(tpl.name, func(t *testing.T) {
			files, err := tpl.labFiles("mine")
			must(t, err)
			dir := t.TempDir()
			for name, text := range files {
				if name != ".gitignore" {
					if out, p := lang.Format(name, []byte(text)); p.HasErrors() || string(out) != text {
						t.Errorf("%s is not in canonical form: %s", name, cmp.Diff(text, string(out)))
					}
				}
				must(t, writeNew(filepath.Join(dir, name), text))
			}
			src, err := lang.Read(dir)
			must(t, err)
			cfg, problems := hcl.Load(src, lang.Vars{Env: []string{"HOME=/home/ada"}})
			if len(problems.List()) > 0 {
				t.Fatalf("problems: %+v", problems.List())
			}
			if n := plan.New(cfg, plan.Options{}).Count(); cfg.Lab.Name != "mine" || n.Cells == 0 || n.Measure != n.Cells {
				t.Errorf("lab %s: %+v", cfg.Lab.Name, n)
			}
		})
	}
}

// TestExamplesAreFormatted: what we show is in canonical form.
func TestExamplesAreFormatted(t *testing.T) {
	err := filepath.WalkDir("../../examples", func(path string, e fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || e.IsDir() || ext != ".hcl" && ext != ".hclvars" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out, p := lang.Format(path, text)
		if p.HasErrors() || !bytes.Equal(out, text) {
			t.Errorf("%s is not in canonical form; hcl fmt writes it", path)
		}
		return nil
	})
	must(t, err)
}

func TestLabName(t *testing.T) {
	for dir, want := range map[string]string{"my lab": "my-lab", "8xH200": "8xH200", "..": "lab", "-x": "x", "größe": "gr--e", "": "lab", "v1.2": "v1.2"} {
		if got := labName(dir); got != want {
			t.Errorf("labName(%q) = %q, want %q", dir, got, want)
		}
	}
}
