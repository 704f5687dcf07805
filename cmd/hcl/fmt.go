package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"hclbench/hcl"
)

func (a *app) fmt() *cobra.Command {
	var check, showDiff, recursive bool
	c := &cobra.Command{
		Use:   "fmt [PATH...|-]",
		Short: "Rewrite labs in canonical form",
		Long: `Rewrites *.hcl and *.hclvars in canonical form and lists the files that changed.
A PATH is a file, or a directory whose files are meant; without one it is the
current directory. - reads standard input and writes to standard output. Only
white space changes; a file that does not parse is left as it is, and reported.`,
		Example: `  hcl fmt
  hcl fmt --check --diff examples/*/
  hcl fmt - < lab.hcl

Exit codes: 0 done, 1 a file cannot be read or written, 2 a text does not parse or
the command line is wrong, 3 with --check: something would change.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 && slices.Contains(args, "-") {
				return usage("- is standard input, and stands alone")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			f := formatter{app: a, check: check, diff: showDiff}
			if len(args) == 1 && args[0] == "-" {
				text, err := io.ReadAll(a.in)
				if err != nil {
					return fmt.Errorf("read standard input: %w", err)
				}
				f.stdin(text)
			} else {
				files, err := formattable(args, recursive)
				if err != nil {
					return err
				}
				for _, name := range files {
					f.file(name)
				}
			}
			return f.outcome()
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write nothing; exit with 3 when something would change")
	c.Flags().BoolVar(&showDiff, "diff", false, "show what changes")
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "also directories below")
	return c
}

// formattable lists the files that paths mean, each once.
func formattable(paths []string, recursive bool) ([]string, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, &exit{exitUsage, err}
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			hidden := strings.HasPrefix(e.Name(), ".") && name != path
			if e.IsDir() {
				if name != path && (hidden || !recursive) {
					return fs.SkipDir
				}
				return nil
			}
			if ext := filepath.Ext(name); !hidden && e.Type().IsRegular() && (ext == ".hcl" || ext == ".hclvars") {
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for files: %w", err)
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(files, func(name string) bool {
		clean := filepath.Clean(name)
		defer func() { seen[clean] = true }()
		return seen[clean]
	}), nil
}

// formatter goes over files, and remembers what the exit code is.
type formatter struct {
	*app
	check, diff bool
	changed     bool
	code        int
}

// format returns the canonical text; false when there is none.
func (f *formatter) format(name string, text []byte) ([]byte, bool) {
	out, problems := hcl.Format(name, text)
	if err := problems.Write(f.stderr, f.width(100), terminal(f.stderr) && os.Getenv("NO_COLOR") == ""); err != nil {
		f.fail(err)
	}
	if problems.HasErrors() {
		f.code = exitUsage
		return nil, false
	}
	f.changed = f.changed || !bytes.Equal(text, out)
	return out, true
}

func (f *formatter) fail(err error) {
	fmt.Fprintf(f.stderr, "%s %v\n", f.paint(red, "Error:"), err)
	if f.code == exitDone {
		f.code = exitFailed
	}
}

func (f *formatter) print(b []byte) {
	if _, err := f.stdout.Write(b); err != nil {
		f.fail(err)
	}
}

func (f *formatter) stdin(text []byte) {
	const name = "<stdin>"
	out, ok := f.format(name, text)
	switch {
	case !ok:
	case f.diff:
		f.print(diff.Diff(name, text, name, out))
	case !f.check:
		f.print(out)
	}
}

func (f *formatter) file(name string) {
	text, err := os.ReadFile(name)
	if err != nil {
		f.fail(err)
		return
	}
	out, ok := f.format(name, text)
	if !ok || bytes.Equal(text, out) {
		return
	}
	if f.diff {
		f.print(diff.Diff(name, text, name, out))
	} else {
		f.print([]byte(name + "\n"))
	}
	if !f.check {
		if err := rewrite(name, out); err != nil {
			f.fail(err)
		}
	}
}

// rewrite replaces a file whole or not at all; it keeps its mode, and a link
// stays one.
func rewrite(name string, text []byte) error {
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(target, text, info.Mode().Perm(), renameio.WithStaticPermissions(info.Mode().Perm())); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (f *formatter) outcome() error {
	if f.code == exitDone && f.check && f.changed {
		f.code = exitCells
	}
	if f.code != exitDone {
		return &exit{code: f.code}
	}
	return nil
}
