package main

import (
	"bytes"
	"context"
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

type fmtOptions struct{ check, diff, recursive bool }

func fmtVerb(t *console) *cobra.Command {
	var o fmtOptions
	c := verb("fmt", nil, func(_ context.Context, args []string) error { return runFmt(t, o, args) })
	c.Flags().BoolVar(&o.check, "check", false, "write nothing; exit with 3 when something would change")
	c.Flags().BoolVar(&o.diff, "diff", false, "show what changes")
	c.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "also directories below")
	return c
}

func runFmt(t *console, o fmtOptions, paths []string) error {
	f := formatter{console: t, fmtOptions: o}
	switch {
	case len(paths) > 1 && slices.Contains(paths, "-"):
		return usage("- is standard input, and stands alone")
	case len(paths) == 1 && paths[0] == "-":
		text, err := io.ReadAll(t.in)
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
		f.stdin(text)
	default:
		files, err := formattable(paths, o.recursive)
		if err != nil {
			return err
		}
		for _, name := range files {
			f.file(name)
		}
	}
	return f.outcome()
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
	*console
	fmtOptions
	changed bool
	code    int
}

// format returns the canonical text; false when there is none.
func (f *formatter) format(name string, text []byte) ([]byte, bool) {
	out, problems := hcl.Format(name, text)
	if err := problems.Write(f.stderr, f.width(100), f.colours()); err != nil {
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
