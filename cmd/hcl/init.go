package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hclbench/examples"
)

// templates are labs that init writes, a folder each; the others are examples.
//
//go:embed templates
var templates embed.FS

type template struct {
	name, what string
	files      fs.FS
	dir        string // of files
	next       string
}

func templateList() []template {
	const here = `  1. hcl plan     what would be started and measured
  2. hcl apply    do it: well under a minute
  3. hcl report   what came out`
	const onGPU = `  1. Write your GPU into lab.hclvars.
  2. hcl plan     what would be started and measured
  3. hcl apply    do it`
	const onBox = `  1. Write your box into lab.hclvars.
  2. hcl rehearse --speed 20   the whole run on this machine, simulated
  3. hcl plan                  what would be started and measured
  4. hcl apply                 do it`
	return []template{
		{"rehearsal", "two simulated engines on this machine; no GPU, no Docker", templates, "templates/rehearsal", here},
		{"local", "vLLM on this machine, which has one GPU and Docker", templates, "templates/local", onGPU},
		{"h200", "SGLang and vLLM on a box with 8 H200", examples.Skeletons, "skeleton-8xh200", onBox},
		{"mi300x", "SGLang and vLLM on a box with 8 MI300X", examples.Skeletons, "skeleton-8xmi300x", onBox},
	}
}

func initVerb(t *console) *cobra.Command {
	list := templateList()
	var names []string
	for _, t := range list {
		names = append(names, t.name)
	}
	var lab labFlags
	var name string
	c := verb("init", atMost(1), func(_ context.Context, args []string) error {
		i := slices.Index(names, name)
		if i < 0 {
			return usage("--template %s: it is %s", name, strings.Join(names, ", "))
		}
		lab.named(args)
		return list[i].write(t.stdout, lab.path)
	})
	c.Long += "\n\nThe templates are:"
	for _, t := range list {
		c.Long += fmt.Sprintf("\n  %-10s %s", t.name, t.what)
	}
	c.Flags().StringVar(&name, "template", names[0], "`which` lab: "+strings.Join(names, ", "))
	words(c, "template", names...)
	return c
}

func (t template) write(w io.Writer, dir string) error {
	if err := vacant(dir); err != nil {
		return err
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	files, err := t.labFiles(labName(filepath.Base(absolute)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make the lab's directory: %w", err)
	}
	fmt.Fprintf(w, "Wrote %s:\n", t.what)
	for _, name := range []string{"lab.hcl", "lab.hclvars", ".gitignore"} {
		text, ok := files[name]
		if !ok {
			continue
		}
		file := filepath.Join(dir, name)
		err := writeNew(file, text)
		if name == ".gitignore" && errors.Is(err, fs.ErrExist) {
			continue // somebody's own
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %s\n", file)
	}
	where := ""
	if filepath.Clean(dir) != "." {
		where = ", in " + dir
	}
	_, err = fmt.Fprintf(w, "\nNext%s:\n%s\n", where, t.next)
	return err
}

// vacant refuses a directory that has a lab.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return usage("cannot write a lab to %s: %w", dir, err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".hcl" && e.Name() != ".hcl" || ext == ".hclvars" {
			return usage("there is a lab in %s already: %s. Name another directory; nothing is overwritten.", dir, e.Name())
		}
	}
	return nil
}

func writeNew(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("write lab: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write lab: %w", err)
	}
	return nil
}

var labHeader = regexp.MustCompile(`(?m)^lab "[^"]*"`)

// labFiles are the template's files, the lab under its new name: two labs of one
// name on one host would take each other's engines for their own.
func (t template) labFiles(lab string) (map[string]string, error) {
	files := map[string]string{".gitignore": ".hcl/\n*.hclvars\n"} // what was measured on the way, and may be secret
	entries, err := fs.ReadDir(t.files, t.dir)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	for _, e := range entries {
		b, err := fs.ReadFile(t.files, path.Join(t.dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read template: %w", err)
		}
		files[e.Name()] = string(b)
	}
	files["lab.hcl"] = labHeader.ReplaceAllLiteralString(files["lab.hcl"], `lab "`+lab+`"`)
	return files, nil
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// labName makes of a directory's name one that a lab can have.
func labName(dir string) string {
	return cmp.Or(strings.TrimLeft(notInNames.ReplaceAllString(dir, "-"), "-_."), "lab")
}
